"""A table of texts and the names of its columns: what ``SetTable`` is for sets.

Both have the same face: rows, columns, customers, names, selection. No file is read here, and no torch imported.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from contextual_bert.arrow_types import is_list, is_text, value_type, with_truth_in_words
from contextual_bert.context.printed_lists import as_lists
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.reading_notes import reading_lines


@dataclass(frozen=True, eq=False, kw_only=True)
class TextTable:
    """The texts of a table, with the rows they came from.

    Shapes: rows (texts).

    Args:
        table: the texts, with all their columns.
        rows: the row of the table that was read, for each text: the example id.
        num_rows_in: rows of the table that was read.
        text: name of the column of texts, or of lists of words.
        second: name of the column of second texts, or of questions.
        label: name of the column of labels, or of lists of tags.
        customer: name of the column that says whose text it is.

    Example:
        >>> texts = TextTable.of(pa.table({"text": ["a b", "c"], "mood": ["bad", "good"]}), text="text", label="mood")
        >>> chosen = texts.select([1])
        >>> len(chosen), chosen.rows.tolist(), chosen.names.to_pylist()
        (1, [1], ['good'])
    """

    named: ClassVar[str] = "labels"

    table: pa.Table
    rows: NDArray[np.int64]
    num_rows_in: int
    text: str
    second: str | None = None
    label: str | None = None
    customer: str | None = None

    @classmethod
    def of(
        cls,
        table: pa.Table,
        *,
        text: str,
        second: str | None = None,
        label: str | None = None,
        customer: str | None = None,
    ) -> Self:
        """Return all texts of a table."""
        rows = np.arange(table.num_rows)
        return cls(
            table=table,
            rows=rows,
            num_rows_in=table.num_rows,
            text=text,
            second=second,
            label=label,
            customer=customer,
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_tags(self) -> bool:
        """Return True where the labels are lists, a tag a word."""
        return self.label is not None and pa.types.is_nested(self.table.schema.field(self.label).type)

    @property
    def names(self) -> pa.Array | None:
        """Return the label of each text; None without labels, and of tags."""
        if self.label is None or self.has_tags:
            return None
        return label_values(self.table.column(self.label)).combine_chunks()

    def select(self, chosen: ArrayLike) -> Self:
        """Return some of the texts, by a mask or by their indices, in that order."""
        index = np.asarray(chosen)
        if index.dtype == np.bool_:
            if index.all():
                return self  # no copy
            index = np.flatnonzero(index)
        return replace(self, rows=self.rows[index], table=self.table.take(pa.array(index)))

    def lines(self) -> list[str]:
        """Return sentences on what reading the table did to its columns."""
        return reading_lines(self.table)


def label_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the labels of all texts, or the tags of all words, one after the other.

    Truth values are words, NaN is missing, and text is in its one spelling.
    """
    values = with_truth_in_words(pc.list_flatten(column) if is_list(column.type) else column)
    if is_text(value_type(values.type)):
        return pa.chunked_array([canonical_array(values)])
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def with_tag_lists(table: pa.Table, *, text: str, label: str) -> pa.Table:
    """The same table; words and tags that a tool printed into cells of text, such as "['B-PER', 'O']", as lists.

    A column of texts is one of printed words only where the labels are lists, too.

    Raises:
        DataError: one cell is no list, and the others are; with its row.

    Example:
        >>> printed = pa.table({"words": ["['so', 'it']"], "tags": ["['O', 'O']"]})
        >>> with_tag_lists(printed, text="words", label="tags").to_pylist()
        [{'words': ['so', 'it'], 'tags': ['O', 'O']}]
    """
    if label not in table.column_names or text not in table.column_names:
        return table
    tags = table[label] if is_list(table[label].type) else as_lists(table[label].combine_chunks(), name=label)
    if tags is None:
        return table
    words = None if is_list(table[text].type) else as_lists(table[text].combine_chunks(), name=text)
    if words is not None:
        table = table.set_column(table.column_names.index(text), text, words)
    return table.set_column(table.column_names.index(label), label, tags)
