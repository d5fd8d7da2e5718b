"""Several labels a text: a column of lists, or of text with a separator between them, as lists of names.

It reads one column of a table. No file is read here, and no torch imported.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_list, is_text, with_truth_in_words
from contextual_bert.context.columns import num_with
from contextual_bert.context.printed_lists import as_lists
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.ragged import offsets_of
from contextual_bert.errors import DataError, Message
from contextual_bert.nouns import agreeing, counted

_OTHERS = (";", "|", ",", "\t")
_FIX = 'Give a list of labels such as ["a", "b"], [] where a text has none.'


def with_label_lists(table: pa.Table, *, label: str, separator: str) -> pa.Table:
    """Return the table with the labels of each text as a list of names, each once, in the order of their cell.

    An empty cell of text is a text without a label; so is an empty list.

    Args:
        table: of the texts.
        label: column of the labels: lists, printed lists, or text.
        separator: what stands between two labels of a text cell.

    Raises:
        UnknownNameError: there is no such column.
        DataError: the column holds no labels; a list is missing, or a label in one; no text has a label; another
            separator stands between the labels.

    Example:
        >>> with_label_lists(pa.table({"tags": ["a,b", None, "b"]}), label="tags", separator=",")["tags"].to_pylist()
        [['a', 'b'], [], ['b']]
    """
    column = decoded(checked_column(table, label))
    printed = None if is_list(column.type) else as_lists(pa.chunked_array(column).combine_chunks(), name=label)
    lists = _lists_of(column, label) if printed is None else pc.if_else(pc.is_null(printed), _none(printed), printed)
    if is_text(column.type) and printed is None:
        lists = _split(column, label, separator)
    read = _names(lists, label)
    if not len(pc.list_flatten(read)):
        raise DataError("no text has a label", column=label, fix=_FIX)
    return table.set_column(table.column_names.index(label), label, read)


def with_label_marks(table: pa.Table, *, label: str, names: Sequence[str]) -> pa.Table:
    """Return the table with a 0 or a 1 for each label of each text, in the order of the names.

    Args:
        table: with lists of names, see ``with_label_lists``.
        label: their column.
        names: of the labels.

    Raises:
        DataError: a label that is none of them.

    Example:
        >>> table = pa.table({"tags": [["b"], []]})
        >>> with_label_marks(table, label="tags", names=("a", "b"))["tags"].to_pylist()
        [[0, 1], [0, 0]]
    """
    column = table.column(label)
    sizes = pc.list_value_length(column).to_numpy()
    rows = np.repeat(np.arange(len(sizes)), sizes)
    values = pc.list_flatten(column)
    places = pc.fill_null(pc.index_in(values, value_set=pa.array(names, pa.string())), -1).to_numpy()
    if (places < 0).any():
        unknown = int((places < 0).argmax())
        raise DataError(
            f"the label {values[unknown].as_py()!r} is not among {', '.join(map(repr, names))}",
            row=int(rows[unknown]),
            column=label,
            fix="Correct the cell, or leave the row out; to learn this label, train with rows that have it.",
        )
    marks = np.zeros((len(sizes), len(names)), dtype=np.int8)
    marks[rows, places] = 1
    offsets = pa.array(offsets_of(np.full(len(sizes), len(names))), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, pa.array(marks.ravel()))
    return table.set_column(table.column_names.index(label), label, lists)


def _none(lists: pa.Array) -> pa.Scalar:
    return pa.scalar([], lists.type)


def _lists_of(column: pa.ChunkedArray, label: str) -> pa.ChunkedArray:
    """Return lists and text as they are, and whole numbers and truth values as lists of one."""
    kind = column.type
    if not is_list(kind):
        if is_text(kind):
            return column
        if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise DataError(f"the column is of type {kind}, which says no labels", column=label, fix=_FIX)
        values = with_truth_in_words(column).combine_chunks()
        return pa.chunked_array([_lists(pc.is_valid(values).to_numpy(zero_copy_only=False), values.drop_null())])
    missing = pc.is_null(column)
    row = pc.index(missing, True).as_py()
    if row >= 0:
        number = pc.sum(missing).as_py()
        raise DataError(f"the list is missing ({counted(number, 'such row')})", row=row, column=label, fix=_FIX)
    return column


def _split(column: pa.ChunkedArray, label: str, separator: str) -> pa.ChunkedArray:
    """Return the labels of cells of text."""
    cells = pc.fill_null(column.cast(pa.large_string()), "")
    filled = cells.filter(pc.not_equal(pc.utf8_trim_whitespace(cells), ""))
    if not num_with(filled, separator):
        found = {other: num_with(filled, other) for other in _OTHERS if other != separator}
        other = max(found, key=lambda each: found[each])
        if found[other]:
            number = found[other]
            raise DataError(
                f"no cell has {separator!r} between its labels, and {number:,} of {len(filled):,} "
                f"{agreeing('have', number)} {other!r}",
                column=label,
                fix=Message("Give {separator}, or the labels as lists.", separator=other),
            )
    return pc.split_pattern(cells, separator)


def _names(lists: pa.ChunkedArray | pa.Array, label: str) -> pa.ListArray:
    """Return lists of the names of labels, without blanks, each once.

    Raises:
        DataError: lists of something else than labels, or a missing one among them.
    """
    whole = pa.chunked_array(lists) if isinstance(lists, pa.Array) else lists
    sizes = pc.list_value_length(whole).to_numpy()
    values, rows = pc.list_flatten(whole), np.repeat(np.arange(len(sizes)), sizes)
    kind = decoded(values).type
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        raise DataError(
            f"the column holds lists of {kind}, which say no labels", column=label, fix="Give names or whole numbers."
        )
    names = canonical_array(with_truth_in_words(values), column=label)
    missing = pc.index(pc.is_null(names), True).as_py()
    if missing >= 0:
        raise DataError("a label of the list is missing", row=int(rows[missing]), column=label, fix=_FIX)
    trimmed = pc.utf8_trim_whitespace(names)
    encoded = trimmed.dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    is_kept = pc.not_equal(trimmed, "").to_numpy(zero_copy_only=False)
    pairs = rows * (len(encoded.dictionary) + 1) + codes
    is_first = np.zeros(len(pairs), dtype=np.bool_)
    is_first[np.unique(pairs, return_index=True)[1]] = True
    is_kept &= is_first
    counts = np.bincount(rows[is_kept], minlength=len(sizes))
    return _lists(counts, trimmed.filter(pa.array(is_kept)))


def _lists(sizes: np.ndarray, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets_of(sizes.astype(np.int64)), pa.int32()), values)
