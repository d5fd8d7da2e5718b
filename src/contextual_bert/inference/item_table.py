"""From a shop's catalogue to what a model stores of the features of its items. Not in the paper."""

import torch

from contextual_bert.context import ContextSchema, EncodedContext, Vocabulary, encode_table
from contextual_bert.context.forms import missing_context
from contextual_bert.context.kinds import MULTI_PADDING
from contextual_bert.inference.catalogue import Catalogue
from contextual_bert.inference.item_texts import recorded_texts, with_text_vectors
from contextual_bert.inference.text_vectors import TextVectors
from contextual_bert.item_features import EncodedItems, encode_items


def encode_catalogue(
    shop: Catalogue, schema: ContextSchema, vocabulary: Vocabulary, texts: TextVectors | None = None
) -> EncodedItems:
    """Return the features of the items of a vocabulary; those that the catalogue lacks have none that are known.

    Args:
        shop: the catalogue.
        schema: of the items.
        vocabulary: the items.
        texts: reads texts; None: the encoder that the schema names does.

    Raises:
        SchemaError: the catalogue lacks a column that the schema reads.
        DataError: a value that is none of its feature, with its row.
        ConfigurationError: the encoder of texts is needed, and is not there, or another one.
    """
    rows = with_text_vectors(shop.rows, schema, texts or recorded_texts(schema))
    return items_of_rows(encode_table(schema, rows, file=shop.file), shop, schema, vocabulary)


def items_of_rows(
    encoded: EncodedContext, shop: Catalogue, schema: ContextSchema, vocabulary: Vocabulary
) -> EncodedItems:
    """Return what ``encode_catalogue`` does, of the encoded rows of a catalogue."""
    lacking = missing_context(schema.layout, 1)
    rows = torch.from_numpy(shop.rows_of(vocabulary.array))  # -1 is the last row, in which all is missing
    whole: dict[str, torch.Tensor] = {}
    for name, values in encoded.tensors.items():
        last = lacking[name]
        if values.dim() == 2 and not values.is_floating_point():
            last = torch.nn.functional.pad(last, (0, values.shape[1] - 1), value=MULTI_PADDING)
        whole[name] = torch.cat([values, last])[rows]
    return encode_items(schema.layout, whole)
