"""A CSV file as a table: what is a number, a date or a truth value in each of its columns, and what is broken in it.

`readers.read_table` calls it for files that end in .csv. It knows no other kind of file.
"""

import codecs
import csv
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from contextual_bert.context.cells import BOOLEAN, DATE, FLOAT, INTEGER, TIME
from contextual_bert.context.columns import MISSING_MARKS
from contextual_bert.errors import DataError

__all__ = ["check_names", "read_csv"]

_TYPES = (
    (INTEGER, pa.int64()),
    (FLOAT, pa.float64()),
    (DATE, pa.date32()),
    (TIME, pa.timestamp("us")),
    (BOOLEAN, pa.bool_()),
)
_UTF8_FIX = "Save it as CSV in UTF-8, separated by commas."


def read_csv(path: Path, *, text_columns: Collection[str | None] = ()) -> pa.Table:
    """The columns of a CSV file, each a number, a date or a truth value where every cell is one; else text.

    Args:
        path: the file.
        text_columns: columns that stay text, spelt as in the file, whatever their cells look like.

    Raises:
        DataError: it is no CSV file in UTF-8, or a row of it is broken.
    """
    file = str(path)
    _check_utf8(path, file)
    broken: list[Any] = []

    def remember(row: Any) -> str:
        broken.append(row)
        return "skip"

    # Without threads the handler is told the number of the row.
    read = arrow_csv.ReadOptions(use_threads=False)
    parse = arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=remember)
    try:
        with arrow_csv.open_csv(path, read_options=read, parse_options=parse) as stream:
            names: list[str] = stream.schema.names
        broken.clear()
        _check_header(names, file)
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        )
        table = arrow_csv.read_csv(path, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        raise DataError(f"this is not a CSV file: {error}", file=file, fix=_UTF8_FIX) from error
    if broken:
        first = broken[0]
        row = first.number - 2 if first.number is not None else None  # theirs counts from one, with the header
        if first.text.count('"') % 2:
            raise _open_quote(file, row)
        raise DataError(
            f"{first.actual_columns} cells where the header has {first.expected_columns}: {first.text[:80]!r}",
            file=file,
            row=row,
            fix="Put cells that hold a comma in double quotes.",
        )
    _check_quotes(path, file, table.num_rows - 1)
    columns = {name: table.column(name) for name in names}
    return pa.table({name: each if name in text_columns else _typed(each) for name, each in columns.items()})


def check_names(names: Sequence[str], file: str | None) -> None:
    """Raise DataError where two columns have one name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError("the column occurs more than once", file=file, column=repeated[0], fix="Rename one of them.")


def _check_header(names: list[str], file: str) -> None:
    if any("\0" in name for name in names):
        raise _utf16(file)
    check_names(names, file)
    other = [separator for separator in (";", "\t", "|") if len(names) == 1 and separator in names[0]]
    if other:
        raise DataError(
            f"there is one column, {names[0]!r}: the cells seem to be separated by {other[0]!r}",
            file=file,
            fix="Save the file with commas between the cells.",
        )


def _check_utf8(path: Path, file: str) -> None:
    """Raise DataError at the first cell that is no UTF-8: pyarrow stumbles over names of columns, and says no row."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as stream:
        try:
            for block in iter(lambda: stream.read(1 << 20), b""):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise _other_encoding(path, file) from error


def _other_encoding(path: Path, file: str) -> DataError:
    with path.open("rb") as stream:
        if stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return _utf16(file)
    names: list[str] = []
    # Python's reader has a limit for cells: behind one that long no place is known.
    with suppress(csv.Error), path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as lines:
        for row, cells in enumerate(filter(None, csv.reader(lines)), start=-1):  # empty lines are no rows
            place = next((place for place, cell in enumerate(cells) if not _is_utf8(cell)), None)
            if place is not None:
                seen = cells[place].encode(errors="surrogateescape").decode(errors="replace")
                return DataError(
                    f"{'the cell' if names else 'the name of a column'} is not in UTF-8: {seen[:80]!r}",
                    file=file,
                    row=row if names else None,
                    column=names[place] if place < len(names) else None,
                    fix=_UTF8_FIX,
                )
            names = names or cells
    return DataError("the file is not in UTF-8", file=file, fix=_UTF8_FIX)


def _is_utf8(cell: str) -> bool:
    try:
        cell.encode()
    except UnicodeEncodeError:  # what stands for a byte that is no character
        return False
    return True


def _utf16(file: str) -> DataError:
    return DataError("the file is in UTF-16, and not in UTF-8", file=file, fix=_UTF8_FIX)


def _check_quotes(path: Path, file: str, last_row: int) -> None:
    # A quotation mark that is never closed makes the rest of the file one cell, and pyarrow does not mind.
    with path.open("rb") as stream:
        quotes = sum(block.count(b'"') for block in iter(lambda: stream.read(1 << 20), b""))
    if quotes % 2 == 0:
        return
    with path.open(newline="", encoding="utf-8-sig") as lines:
        try:
            for _ in csv.reader(lines, strict=True):
                pass
        except csv.Error as error:
            raise _open_quote(file, last_row) from error


def _open_quote(file: str, row: int | None) -> DataError:
    return DataError(
        "a double quote is opened and never closed",
        file=file,
        row=row,
        fix="Close it; a double quote within a cell is written twice.",
    )


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as numbers, dates or truth values if each cell is one; else unchanged."""
    # Where one cell is no number these marks stay text: "NA" is a country.
    values = pc.if_else(pc.is_in(column, value_set=pa.array(MISSING_MARKS)), pa.scalar(None, pa.string()), column)
    if values.null_count == len(values):
        return column
    for pattern, kind in _TYPES:
        if pc.all(pc.match_substring_regex(values, pattern)).as_py():
            try:
                return values.cast(kind)
            except pa.ArrowInvalid:  # digits beyond 64 bits, the 30th of February: text
                return column
    return column
