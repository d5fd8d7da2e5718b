"""Notes on reading a table: remarks, and rows that were left out. They travel with the table."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.json_text import json_text

__all__ = ["KEY", "ReadingNotes", "joined_notes", "reading_lines", "reading_notes", "rows_of_file", "without_notes"]

_OWN = b"contextual_bert."  # begins the keys of our metadata
KEY = _OWN + b"reading"


@dataclass(frozen=True)
class ReadingNotes:
    """Notes of a file's reader.

    Args:
        remarks: sentences.
        rows_dropped: number of rows that were left out, by reason.
        dropped_rows: which rows of the file these are, counted from 0.

    Example:
        >>> ReadingNotes(rows_dropped={"that are not valid JSON": 2}).lines()
        ['rows left out as broken: 2 that are not valid JSON']
    """

    remarks: tuple[str, ...] = ()
    rows_dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    dropped_rows: tuple[int, ...] = ()

    def lines(self) -> list[str]:
        """The remarks and counts, a sentence a line."""
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self.rows_dropped.items())
        return [*self.remarks, *([f"rows left out as broken: {counts}"] if counts else [])]

    def noted(self, table: pa.Table) -> pa.Table:
        """The table with these notes, which its rows and columns keep when some are taken."""
        if not self.lines():
            return table
        return table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: json_text(asdict(self))})


def reading_notes(table: pa.Table) -> ReadingNotes:
    """The notes of a table, empty where it has none."""
    content = (table.schema.metadata or {}).get(KEY)
    if content is None:
        return ReadingNotes()
    found = json.loads(content)
    return ReadingNotes(tuple(found["remarks"]), found["rows_dropped"], tuple(found["dropped_rows"]))


def rows_of_file(table: pa.Table) -> NDArray[np.int64]:
    """Return which row of its file each row of a table is, counted from 0; some may have been left out.

    Example:
        >>> notes = ReadingNotes(rows_dropped={"broken": 1}, dropped_rows=(1,))
        >>> rows_of_file(notes.noted(pa.table({"a": [1, 2]}))).tolist()
        [0, 2]
    """
    dropped = reading_notes(table).dropped_rows
    return np.setdiff1d(np.arange(table.num_rows + len(dropped)), np.array(dropped, np.int64))


def reading_lines(table: pa.Table) -> list[str]:
    """The notes of a table as sentences.

    Example:
        >>> reading_lines(ReadingNotes(remarks=("the cells are separated by ';'",)).noted(pa.table({"a": [1]})))
        ["the cells are separated by ';'"]
    """
    return reading_notes(table).lines()


def joined_notes(files: Sequence[str], notes: Sequence[ReadingNotes]) -> ReadingNotes:
    """Return the notes of a table that several files were joined to; a remark names its file.

    Example:
        >>> joined_notes(["a.csv", "b.csv"], [ReadingNotes(), ReadingNotes(("odd",), {"broken": 1})]).lines()
        ['b.csv: odd', 'rows left out as broken: 1 broken']
    """
    remarks = [f"{file}: {remark}" for file, each in zip(files, notes, strict=True) for remark in each.remarks]
    counts: Counter[str] = sum((Counter(each.rows_dropped) for each in notes), Counter())
    return ReadingNotes(tuple(remarks), dict(counts))


def without_notes(table: pa.Table) -> pa.Table:
    """The table without what its reader noted of the file, and of columns that were read as text: for another file."""
    fields = [
        field.with_metadata({key: value for key, value in field.metadata.items() if not key.startswith(_OWN)} or None)
        if field.metadata
        else field
        for field in table.schema
    ]
    told = {key: value for key, value in (table.schema.metadata or {}).items() if not key.startswith(_OWN)}
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, metadata=told or None))
