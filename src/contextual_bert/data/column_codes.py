"""Columns as integer codes that can be counted and compared, for the audits of sets and texts.

It knows no split and no model, and judges nothing.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_single, is_text, value_type
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.hashing import hash_counters, hash_strings
from contextual_bert.data.ragged import places_of

__all__ = ["codes_of", "elements_as_text", "is_identifier", "shuffled"]

_NEARLY_ALL_DISTINCT = 0.95
_SLICE = 10_000  # rows of vectors that are hashed at once
_SEPARATORS = r"[\s,;|/\[\]\"']+"


def is_identifier(column: pa.ChunkedArray) -> bool:
    """Is this text or a whole number that hardly ever repeats, such as the number of an order?"""
    kind = column.type
    plain = is_text(kind) or pa.types.is_integer(kind)
    return plain and pc.count_distinct(column).as_py() > _NEARLY_ALL_DISTINCT * len(column)


def shuffled(count: int) -> NDArray[np.int64]:
    """The places in an order that has nothing to do with them, always the same: what chance is judged by."""
    return np.argsort(hash_counters(0, np.arange(count)), kind="stable")


def codes_of(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """One number for each distinct value, missing included."""
    kind = column.type
    if _is_vector(kind):
        sums = [_vector_hashes(column.slice(start, _SLICE)) for start in range(0, len(column), _SLICE)]
        return np.unique(np.concatenate(sums or [np.zeros(0)]), return_inverse=True)[1].astype(np.int64)
    if pa.types.is_nested(kind):
        rows, words = elements_as_text(column)
        distinct = words.dictionary_encode()
        hashes = hash_strings(distinct.dictionary)[distinct.indices.to_numpy()]
        # The hash of a list is the sum over its elements, whatever their order.
        sums = np.zeros(len(column), dtype=np.uint64)
        np.add.at(sums, rows, hashes)
        return np.unique(sums, return_inverse=True)[1].astype(np.int64)
    cells = decoded(column).combine_chunks()
    cells = canonical_array(cells) if is_text(cells.type) else cells
    encoded = cells.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64)


def elements_as_text(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    """The row and the text of each word: a whole cell, and its elements or parts. A vector has none."""
    kind = column.type
    if _is_vector(kind):
        return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
    if is_list(kind):
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        return _present(np.repeat(np.arange(len(column)), sizes), pc.list_flatten(column))
    rows, whole = _present(np.arange(len(column)), column)
    pieces = pc.split_pattern_regex(whole, _SEPARATORS)
    several = pc.greater(pc.list_value_length(pieces), 1)
    pieces = pc.filter(pieces, several)
    piece_rows = np.repeat(
        rows[several.to_numpy(zero_copy_only=False)], pc.list_value_length(pieces).to_numpy(zero_copy_only=False)
    )
    return np.concatenate([rows, piece_rows]), pa.concat_arrays([whole, pc.list_flatten(pieces)])


def _is_vector(kind: pa.DataType) -> bool:
    return is_list(kind) and pa.types.is_floating(kind.value_type)


def _vector_hashes(vectors: pa.ChunkedArray) -> NDArray[np.uint64]:
    """One hash a row, of its numbers and their places; 0 where there are none."""
    sizes = pc.fill_null(pc.list_value_length(vectors), 0).to_numpy().astype(np.int64)
    numbers = pc.list_flatten(vectors).cast(pa.float64(), safe=False).to_numpy()
    found = np.zeros(len(sizes), dtype=np.uint64)
    np.add.at(found, np.repeat(np.arange(len(sizes)), sizes), hash_counters(numbers.view(np.int64), places_of(sizes)))
    return found


def _present(rows: NDArray[np.int64], values: Any) -> tuple[NDArray[np.int64], pa.Array]:
    kind = value_type(values.type)
    if not is_single(kind):
        return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind))
    strings = canonical_array(values, is_name=False)  # compared with items; what names things is checked elsewhere
    valid = pc.is_valid(strings)
    return rows[valid.to_numpy(zero_copy_only=False)], strings.filter(valid).cast(pa.string())
