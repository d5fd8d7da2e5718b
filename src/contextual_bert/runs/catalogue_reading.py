"""Read the catalogue that a recipe names: the features of its items, before a training or an inspection."""

from functools import partial
from typing import NamedTuple

from contextual_bert import training
from contextual_bert.context import ContextSchema, InferredSchema, Vocabulary
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.item_schema import infer_item_schema, item_feature_lines
from contextual_bert.inference.item_texts import recorded_texts
from contextual_bert.inference.text_vectors import READING_TEXTS, TextVectors
from contextual_bert.training.progress import counting
from contextual_bert.training.recipe import Recipe


class CatalogueFeatures(NamedTuple):
    """A catalogue that was read: itself, the features of the items, what reads their texts, and sentences on all."""

    shop: Catalogue
    found: InferredSchema
    texts: TextVectors | None
    lines: list[str]


def catalogue_features(recipe: Recipe, learned: Vocabulary) -> CatalogueFeatures:
    """Read the catalogue of a recipe.

    Args:
        recipe: its task names the catalogue and says which columns are features.
        learned: the items of the training part.

    Raises:
        SchemaError, UnknownNameError, DataError, ConfigurationError: a faulty catalogue.
    """
    task, reading = recipe.set_task, recipe.reading
    shop = Catalogue(str(task.catalogue), learned, reading=reading)
    texts = None
    if task.item_text_encoder is not None:
        device = training.chosen_device(recipe.device)
        texts = TextVectors(task.item_text_encoder, device=device, showing=partial(counting, READING_TEXTS))
    found = infer_item_schema(shop, exclude=task.item_exclude, kinds=task.item_kinds, reading=reading, texts=texts)
    lines = item_feature_lines(found, num_new=len(shop.unknown_items), num_lacking=len(shop.unlisted_items))
    return CatalogueFeatures(shop, found, texts, [*lines, *(texts.lines() if texts is not None else ())])


def texts_of_run(recipe: Recipe, schema: ContextSchema) -> TextVectors | None:
    """Return what reads the texts of a catalogue for the run that a recipe goes on from; None where it has none.

    Args:
        recipe: says where the encoder lies now, if not where it lay.
        schema: of the items of that run.

    Raises:
        ConfigurationError: another encoder lies there, or that run has no texts.
    """
    device = training.chosen_device(recipe.device)
    encoder = recipe.set_task.item_text_encoder
    return recorded_texts(schema, item_text_encoder=encoder, device=device, showing=partial(counting, READING_TEXTS))
