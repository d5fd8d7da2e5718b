"""The context of a table's rows in words, as ids of tokens: "age: 35-39. education: college degree."

The raw values are read, those too that a schema does not know: words need no vocabulary of values. It knows no model
but the one that reads the words.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from contextual_bert.arrow_types import without_views
from contextual_bert.context import ContextSchema, Feature, MultiCategorical, Numerical, Vector, canonical_array
from contextual_bert.context.columns import MISSING_MARKS, flatten_lists
from contextual_bert.data.ragged import offsets_of, places_of
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.texts.text_layout import tokenized_texts
from contextual_bert.models.context_as_text import FIRST_WORD

__all__ = ["context_words"]


def context_words(table: pa.Table, schema: ContextSchema, tokenizer: Any) -> dict[str, Tensor]:
    """Column of the context -> (rows, width) ids of what is known of each row in words, padded with 0.

    Args:
        table: the rows.
        schema: says which columns are the context; a column that several features read is said once.
        tokenizer: of the model that reads the words.

    Returns:
        Ids of tokens, ``FIRST_WORD`` higher than the tokenizer's: what ``ContextAsText`` reads. Of a value that is
        missing there are none.

    Raises:
        ConfigurationError: a vector, which has no words.

    Example:
        >>> from contextual_bert.context import Categorical
        >>> from contextual_bert.testing import miniature_text_processor
        >>> tokenizer = miniature_text_processor().tokenizer
        >>> schema = ContextSchema(features=(Categorical(name="word1", values=("word2",)),))
        >>> words = context_words(pa.table({"word1": ["word2", None]}), schema, tokenizer)["word1"]
        >>> tokenizer.decode(words[0] - FIRST_WORD), words[1].tolist()
        ('word1 [UNK] word2 [UNK]', [0, 0, 0, 0])
    """
    table = without_views(table)
    read = {feature.column: feature for feature in reversed(schema.features)}
    return {name: _ids(_said(read[name], table.column(name).combine_chunks()), tokenizer) for name in schema.columns}


def _said(feature: Feature, array: pa.Array) -> pa.Array:
    """A sentence a row, null where nothing is known."""
    column = feature.column
    if isinstance(feature, Vector):
        raise ConfigurationError(
            f"{column!r} is a vector, which cannot be said in words. Leave the column out with exclude (--exclude)."
        )
    if isinstance(feature, MultiCategorical):
        elements, lengths = flatten_lists(array, separator=feature.separator, column=column)
        names = canonical_array(elements, column=column)
        rows = np.repeat(np.arange(len(array)), lengths)[names.is_valid().to_numpy(zero_copy_only=False)]
        offsets = offsets_of(np.bincount(rows, minlength=len(array)))
        values = pc.binary_join(pa.LargeListArray.from_arrays(pa.array(offsets), names.drop_null()), ", ")
    else:
        values = canonical_array(array, column=column)
    says_nothing = ("", *(MISSING_MARKS if isinstance(feature, Numerical) else ()))
    is_absent = pc.is_in(pc.utf8_trim_whitespace(values), value_set=pa.array(says_nothing))
    values = pc.if_else(is_absent, pa.scalar(None, pa.string()), values)
    return pc.binary_join_element_wise(pa.scalar(f"{column.replace('_', ' ')}: "), values, pa.scalar("."), "")


def _ids(said: pa.Array, tokenizer: Any) -> Tensor:
    """(rows, width): each sentence is tokenised once."""
    distinct = said.dictionary_encode()
    tokens = tokenized_texts(pa.chunked_array([distinct.dictionary]), tokenizer, "context")
    sizes = tokens.sizes
    ids = np.zeros((len(sizes) + 1, max(1, int(sizes.max(initial=0)))), dtype=np.int64)  # the last: nothing is known
    ids[np.repeat(np.arange(len(sizes)), sizes), places_of(sizes)] = tokens.values + FIRST_WORD
    return torch.from_numpy(ids[distinct.indices.fill_null(len(sizes)).to_numpy()])
