"""Read the catalogue that a recipe names: the features of its items, before a training or an inspection."""

from contextual_bert.context import InferredSchema, Vocabulary
from contextual_bert.data import ReadSettings
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.item_schema import infer_item_schema, item_feature_lines
from contextual_bert.training.set_completion import SetCompletion


def catalogue_features(
    task: SetCompletion, learned: Vocabulary, *, reading: ReadSettings
) -> tuple[Catalogue, InferredSchema, list[str]]:
    """Read the catalogue of a task: the catalogue itself, the features of the items, and sentences on both.

    Args:
        task: names the catalogue and says which columns are features.
        learned: the items of the training part.
        reading: how files are written.

    Raises:
        SchemaError, UnknownNameError, DataError, ConfigurationError: a faulty catalogue.
    """
    shop = Catalogue(str(task.catalogue), learned, reading=reading)
    found = infer_item_schema(shop, exclude=task.item_exclude, kinds=task.item_kinds, reading=reading)
    lines = item_feature_lines(found, num_new=len(shop.unknown_items), num_lacking=len(shop.unlisted_items))
    return shop, found, lines
