"""Sentences of documents, and the pairs of those that follow each other. It imports no torch.

Devlin et al. (2019), section 3.1, "Next Sentence Prediction".
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_list, is_text
from contextual_bert.context.printed_lists import as_lists
from contextual_bert.data.checked_columns import checked_column, text_column
from contextual_bert.errors import DataError

__all__ = ["Neighbours", "neighbours_in"]


class Neighbours(NamedTuple):
    """Pairs of neighbouring sentences, document after document.

    ``rows``: the document of each; ``first``, ``second``: its sentences; ``num_alone``: documents with one sentence or
    none, which have no pair.
    """

    rows: NDArray[np.int64]
    first: pa.Array
    second: pa.Array
    num_alone: int


def neighbours_in(table: pa.Table, *, text: str) -> Neighbours:
    """Return the pairs of neighbouring sentences of all documents.

    Args:
        table: with a document a row, none of them missing.
        text: name of its column: a sentence, or paragraph, a line; or lists of these. Blank ones are left out.

    Raises:
        UnknownNameError, DataError: no such column, or one of another type; a sentence of a list that is missing.

    Example:
        >>> found = neighbours_in(pa.table({"text": ["a b.\\n\\nc.\\nd.", "e"]}), text="text")
        >>> found.first.to_pylist(), found.second.to_pylist(), found.num_alone
        (['a b.', 'c.'], ['c.', 'd.'], 1)
    """
    column = checked_column(table, text, complete=True).combine_chunks()
    if not is_list(column.type):
        column = text_column(pa.chunked_array([column]), text).combine_chunks()
        printed = as_lists(column, name=text)
        column = printed if printed is not None else pc.split_pattern_regex(column, r"[\r\n]+")
    values = pc.list_flatten(column)
    if not is_text(values.type) and not pa.types.is_null(values.type):
        raise DataError(
            f"the column is of type {column.type}",
            column=text,
            fix="Give texts with a sentence a line, or lists of sentences.",
        )
    sizes = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    if (lost := pc.index(pc.is_null(values), True).as_py()) >= 0:
        fix = "Leave it out of the list."
        raise DataError("a sentence of the list is missing (null)", row=int(rows[lost]), column=text, fix=fix)
    trimmed = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
    is_filled = pc.not_equal(trimmed, "").to_numpy(zero_copy_only=False)
    rows, sentences = rows[is_filled], trimmed.filter(pa.array(is_filled))
    starts = np.flatnonzero(rows[1:] == rows[:-1])
    num_alone = int((np.bincount(rows, minlength=len(sizes)) < 2).sum())
    return Neighbours(rows[starts], sentences.take(pa.array(starts)), sentences.take(pa.array(starts + 1)), num_alone)
