"""Phrases of texts: the spans of characters in a column, as names of entities, that are hidden as a whole.

It knows no tokenizer and no model. Sun et al. (2019), "ERNIE: Enhanced Representation through Knowledge Integration",
section 3.2.
"""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text
from contextual_bert.data.checked_columns import checked_column, text_column
from contextual_bert.data.ragged import offsets_of
from contextual_bert.errors import DataError
from contextual_bert.nouns import counted

__all__ = ["Phrases", "read_phrases"]

_ALLOWED = "A cell is a list of pairs of characters, counted from 0, the second behind the end: [[0, 5], [9, 20]]."
_FIX = "Correct the cell, or leave it empty."
_ROUND = str.maketrans("()", "[]")  # as Python prints pairs


@dataclass(frozen=True, eq=False)
class Phrases:
    """The phrases of all texts, one after the other, in the order of their texts and of their places there.

    Shapes: starts and ends (phrases,), offsets (texts + 1,).

    Args:
        starts: the first character of each, counted in its text from 0.
        ends: the character behind the last.
        offsets: text i has the phrases ``offsets[i]`` to ``offsets[i + 1]``.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return the text of each phrase, (phrases,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def of_tokens(self, characters: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the phrase of each token, (tokens,): the first that has a character of it, -1 where none has.

        Args:
            characters: (tokens, 2), where each token begins and ends in its text.
            rows: (tokens,), the text of each token.

        Example:
            >>> two = Phrases(np.array([0, 9]), np.array([5, 12]), np.array([0, 2]))
            >>> two.of_tokens(np.array([[0, 3], [3, 6], [6, 9], [10, 11]]), np.zeros(4, dtype=np.int64)).tolist()
            [0, 0, -1, 1]
        """
        if not len(self):
            return np.full(len(rows), -1, dtype=np.int64)
        # One axis for all texts: within it phrases are in order, and none reaches into another text.
        width = 1 + max(int(self.ends.max()), int(characters.max(initial=0)))
        starts, ends = (self.rows * width + each for each in (self.starts, self.ends))
        begin, end = (rows * width + each for each in characters.T)
        found = np.minimum(np.searchsorted(ends, begin, side="right"), len(self) - 1)
        return np.where((starts[found] < end) & (ends[found] > begin), found, -1)


def read_phrases(table: pa.Table, *, text: str, name: str) -> Phrases:
    """Return the phrases in a column; a missing or empty cell has none, and blanks at their ends are no part of them.

    Args:
        table: with both columns; the texts are complete.
        text: name of the column of texts.
        name: name of the column of phrases: lists of pairs [start, end), or text that spells such a list as JSON does.

    Raises:
        UnknownNameError: no such column.
        DataError: texts that are lists of words; a cell that is no list of pairs of whole numbers; a phrase that is
            empty or blank, leaves its text, or overlaps another.

    Example:
        >>> table = pa.table({"text": ["New York is big", "so"], "places": ["[[0, 8]]", None]})
        >>> found = read_phrases(table, text="text", name="places")
        >>> found.starts.tolist(), found.ends.tolist(), found.offsets.tolist()
        ([0], [8], [0, 1, 1])
    """
    if is_list(table.schema.field(text).type):
        raise DataError(
            "phrases are places in a text, and this column has lists of words",
            column=text,
            fix="Give whole texts, or leave the phrases out.",
        )
    texts = text_column(checked_column(table, text), text)
    column = decoded(checked_column(table, name)).combine_chunks()
    kind = column.type
    if pa.types.is_null(kind):
        none = np.zeros(0, dtype=np.int64)
        return Phrases(none, none, np.zeros(len(column) + 1, dtype=np.int64))
    if is_text(kind):
        values, sizes = _printed(column, name)
    elif is_list(kind) and (is_list(kind.value_type) or pa.types.is_null(kind.value_type)):
        values, sizes = _listed(column, name)
    else:
        raise _other_type(column, name)
    return _in_order(_checked(values, sizes, texts, name), sizes, texts, name)


def _printed(column: pa.Array, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all pairs, (phrases, 2), and how many each cell has, (texts,), of cells of text."""
    values, sizes = list[list[int]](), np.zeros(len(column), dtype=np.int64)
    for row, cell in enumerate(column.to_pylist()):
        if cell is None or not cell.strip():
            continue
        try:
            found: object = json.loads(cell.translate(_ROUND))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list):
            _refuse(f"{cell!r:.80} is no list of phrases", row, name)
        for pair in found:
            if not isinstance(pair, list) or len(pair) != 2 or any(type(each) is not int for each in pair):
                _refuse(f"{pair!r:.80} is no pair of whole numbers", row, name)
            if max(map(abs, pair)) >= 2**62:
                _refuse(f"{pair!r:.80} leaves its text", row, name)
            values.append(pair)
        sizes[row] = len(found)
    return np.array(values, dtype=np.int64).reshape(-1, 2), sizes


def _listed(column: pa.Array, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the same of cells that are lists."""
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = pc.list_flatten(column)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    if pa.types.is_null(pairs.type):
        if len(pairs):
            _refuse("None is no pair of whole numbers", int(rows[0]), name)
        return np.zeros((0, 2), dtype=np.int64), sizes
    kind = pairs.type.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise DataError(
            f"the column is of type {column.type}", column=name, allowed=_ALLOWED, fix="Give such a column."
        )
    lengths = pc.fill_null(pc.list_value_length(pairs), -1).to_numpy(zero_copy_only=False)
    faulty = lengths != 2
    numbers = pc.list_flatten(pairs).cast(pa.float64())
    whole = pc.fill_null(pc.and_(pc.is_finite(numbers), pc.equal(numbers, pc.floor(numbers))), False)
    is_whole = whole.to_numpy(zero_copy_only=False)
    of_pair = np.repeat(np.arange(len(lengths)), np.maximum(lengths, 0))
    np.logical_or.at(faulty, of_pair, ~is_whole)
    if faulty.any():
        first = int(faulty.argmax())
        _refuse(f"{pairs[first].as_py()!r:.80} is no pair of whole numbers", int(rows[first]), name)
    values = np.clip(numbers.to_numpy(zero_copy_only=False), -(2.0**62), 2.0**62)
    return values.astype(np.int64).reshape(-1, 2), sizes


def _checked(
    values: NDArray[np.int64], sizes: NDArray[np.int64], texts: pa.ChunkedArray, name: str
) -> NDArray[np.int64]:
    """Return all pairs of whole numbers if each is a piece of its text, and shares no character with another."""
    rows = np.repeat(np.arange(len(sizes)), sizes)
    starts, ends = values.T
    if (wrong := starts >= ends).any():
        first = int(wrong.argmax())
        _refuse(f"the phrase {values[first].tolist()} does not end behind its start", int(rows[first]), name)
    lengths = pc.fill_null(pc.utf8_length(texts), 0).to_numpy()[rows]
    if (wrong := (starts < 0) | (ends > lengths)).any():
        first = int(wrong.argmax())
        what = f"the phrase {values[first].tolist()} leaves its text of {counted(int(lengths[first]), 'character')}"
        _refuse(what, int(rows[first]), name)
    order = np.lexsort((starts, rows))
    is_next = rows[order][1:] == rows[order][:-1]
    if (wrong := is_next & (starts[order][1:] < ends[order][:-1])).any():
        first = int(wrong.argmax())
        one, other = (values[order[place]].tolist() for place in (first, first + 1))
        _refuse(f"the phrases {one} and {other} overlap", int(rows[order[first]]), name)
    return values[order]


def _in_order(values: NDArray[np.int64], sizes: NDArray[np.int64], texts: pa.ChunkedArray, name: str) -> Phrases:
    """Return phrases without the blanks at their ends, for a tokenizer may count a blank to the word behind it."""
    has_some = np.flatnonzero(sizes)
    rows, bounds = np.repeat(has_some, sizes[has_some]), values.tolist()
    read: Any = dict(zip(has_some.tolist(), texts.take(pa.array(has_some)).to_pylist(), strict=True))
    for pair, row in zip(bounds, rows.tolist(), strict=True):
        piece = read[row][pair[0] : pair[1]]
        if not piece.strip():
            _refuse(f"the phrase {pair} has blanks alone", row, name)
        pair[0] += len(piece) - len(piece.lstrip())
        pair[1] = pair[0] + len(piece.strip())
    starts, ends = np.array(bounds, dtype=np.int64).reshape(-1, 2).T
    return Phrases(starts, ends, offsets_of(sizes))


def _other_type(column: pa.Array, name: str) -> DataError:
    what = f"the column is of type {column.type}"
    return DataError(what, column=name, allowed=_ALLOWED, fix="Give such a column.")


def _refuse(what: str, row: int, name: str) -> NoReturn:
    raise DataError(what, row=row, column=name, allowed=_ALLOWED, fix=_FIX)
