"""A file of CSV as a table: what is a number, a date or a truth value in each of its columns, and what is broken in it.

`readers.read_table` calls it for files that end in .csv or .tsv. It knows no other kind of file.
"""

import csv
import io
import re
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from contextual_bert.arrow_types import is_text
from contextual_bert.context.spelling import BLANKS, spelt
from contextual_bert.data.column_types import (
    cut_digits_hint,
    digits_remark,
    filled_cells,
    is_long_number,
    kept_column,
    spelling_hints,
)
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.reading_notes import ReadingNotes
from contextual_bert.data.text_files import grown_blocks, number_rows, other_encoding, utf8_fault
from contextual_bert.errors import NAME, DataError, Message
from contextual_bert.places import rows_are_lines

__all__ = ["check_names", "read_csv"]

_DELIMITERS = (",", ";", "\t", "|")
_UTF8_FIX = "Save it as CSV in UTF-8, or name its encoding: --encoding cp1252 (in Python ReadSettings)."
_NUM_SHOWN = 80
_NUM_COUNTED = 100  # rows whose cells are counted
_SEPARATOR_LINE = re.compile(rb"^(sep=([,;|\t]))\r?\n", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')
_LATE_QUOTES = r'^[ \t]+"([^"]*)"[ \t]*$'


def read_csv(
    content: bytes,
    file: str,
    *,
    settings: ReadSettings,
    usual: str = ",",
    text_columns: Collection[str | None] = (),
    code_columns: Collection[str | None] = (),
) -> tuple[pa.Table, ReadingNotes]:
    """The columns of a file of CSV, each a number, a date or a truth value where every cell is one; else text.

    Args:
        content: of the file, without a mark of byte order.
        file: its path, for messages.
        settings: delimiter, and what happens to rows with another number of cells.
        usual: the delimiter where the settings name none and the header has no other.
        text_columns: columns that stay text, spelt as in the file, whatever their cells look like.
        code_columns: columns that stay text if as numbers they would be spelt in another way.

    Returns:
        The table, and what is to be said of it.

    Raises:
        DataError: it is no CSV file in UTF-8, or a row of it is broken.
    """
    told = list[str]()
    if b"\n" not in content and b"\r" not in content:
        content += b"\n"  # a header alone, which arrow knows by its end
    if (line := _SEPARATOR_LINE.match(content)) is not None:  # as spreadsheets write it for themselves
        content = content[line.end(1) :]
        settings = replace(settings, delimiter=settings.delimiter or line[2].decode())
    if _has_empty_ends(content, settings.delimiter or usual):
        header, end, rest = content.partition(b"\n")
        mark = (settings.delimiter or usual).encode()
        content = header.rstrip(b"\r") + mark + end + rest
        told.append(
            f"{file}: each row ends with a {mark.decode()!r} that the header lacks; the empty cells are left out"
        )
    fault = utf8_fault(content)
    delimiter, remark = _delimiter(content, file, settings.delimiter, usual)
    if fault is not None:
        raise _other_encoding(content, file, delimiter)
    broken: list[Any] = []

    def remember(row: Any) -> str:
        broken.append(row)
        return "skip"

    parse = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=remember)

    def read(block_size: int) -> pa.Table:
        # Without threads the handler is told the number of the row.
        options = arrow_csv.ReadOptions(use_threads=False, block_size=block_size)
        with arrow_csv.open_csv(pa.BufferReader(content), read_options=options, parse_options=parse) as stream:
            names: list[str] = stream.schema.names
        broken.clear()
        _check_header([name for place, name in enumerate(names) if name or place < _first_blank(names)], file)
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        )
        return arrow_csv.read_csv(
            pa.BufferReader(content), read_options=options, parse_options=parse, convert_options=convert
        )

    try:
        table = grown_blocks(read, len(content))
    except pa.ArrowInvalid as error:
        if _open_quote_at_end(content, delimiter):
            raise _open_quote(file, None) from error
        raise DataError(f"this is not a CSV file: {error}", file=file, fix=_UTF8_FIX) from error
    sizes = _lines_of(table)
    dropped = [each.number - 1 for each in broken if each.number is not None]  # theirs counts from one
    for place, each in zip(dropped, broken, strict=False):
        sizes = np.insert(sizes, place - 1, each.text.count("\n") + 1)
    is_dropping = settings.on_bad_row == "drop"
    number_rows(file, content, np.insert(sizes, 0, 1), num_headers=1, dropped=dropped if is_dropping else ())
    if broken and (broken[0].text.count('"') % 2 or not is_dropping):
        raise _broken(broken[0], file, delimiter)
    _check_quotes(content, file, table.num_rows - 1, delimiter)
    named = [
        (_name_of(name), place)
        for place, name in enumerate(table.column_names)
        if name or table.column(place).null_count < table.num_rows
    ]
    check_names([name for name, _ in named], file)
    columns = {name: _unquoted(table.column(place)) for name, place in named}
    del table
    kept = {
        name: kept_column(
            name, each, is_text=name in text_columns, is_code=name in code_columns, decimal=settings.decimal
        )
        for name, each in columns.items()
    }
    read_in = pa.Table.from_arrays(
        [column for column, _ in kept.values()], schema=pa.schema([field for _, field in kept.values()])
    )
    hints = list[str]()
    for name, each in columns.items():
        if name in code_columns or not is_text(kept[name][0].type):
            hints += cut_digits_hint(name, each)
        if settings.decimal is None and pa.types.is_floating(kept[name][0].type):
            hints += spelling_hints(name, filled_cells(each))
    rows = tuple(place - 1 for place in dropped) if is_dropping else ()
    counted = {"with more or fewer cells than the header": len(broken)} if broken else {}
    long = [
        digits_remark(name)
        for name, (column, _) in kept.items()
        if name not in text_columns and name not in code_columns and is_text(column.type) and is_long_number(column)
    ]
    return read_in, ReadingNotes(
        remarks=(*told, *([remark] if remark else []), *long, *hints), rows_dropped=counted, dropped_rows=rows
    )


def check_names(names: Sequence[str], file: str | None) -> None:
    """Raise DataError where two columns have one name, or names that look the same."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated and not repeated[0]:
        raise DataError(
            "several columns have no name",
            file=file,
            fix="The first line names the columns: remove a title above it, or name them.",
        )
    if repeated:
        raise DataError("the column occurs more than once", file=file, column=repeated[0], fix="Rename one of them.")
    first = dict[str, str]()
    for name in names:
        if (other := first.setdefault(spelt(name), name)) != name:
            raise DataError(
                f"its name looks like that of another column: {name!a} and {other!a}",
                file=file,
                column=name,
                fix="Rename one of them.",
            )


def _delimiter(content: bytes, file: str, chosen: str | None, usual: str) -> tuple[str, str | None]:
    """Return the delimiter of the cells, with a remark if the file alone told it.

    Raises:
        DataError: the header lacks what was chosen, or has several others.
    """
    start = len(content) - len(content.lstrip(b"\r\n"))
    header = re.sub(rb'"[^"]*"', b"", content[start : start + (1 << 20)]).splitlines()
    first = header[0].decode(errors="replace") if header else ""
    found = [each for each in _DELIMITERS if each in first]
    if chosen is not None:
        if chosen not in first and found:
            raise DataError(
                f"the header has no {chosen!r} between its columns, and it has {' and '.join(map(repr, found))}",
                file=file,
                fix=Message("Give the {delimiter} of this file, or leave it out.", delimiter=NAME),
            )
        return chosen, None
    if usual in found or not found:
        return usual, None
    if len(found) > 1:
        raise DataError(
            f"the header has {' and '.join(map(repr, found))}, and no {usual!r} between its columns",
            file=file,
            fix="Say which of them stands between the cells: --delimiter (in Python ReadSettings(delimiter=...)).",
        )
    return found[0], f"{file}: the cells are separated by {found[0]!r}"


def _first_blank(names: Sequence[str]) -> int:
    """The place from which on no column has a name: such columns, without a value, end the rows of some exports."""
    return max((place + 1 for place, name in enumerate(names) if name), default=0)


def _has_empty_ends(content: bytes, delimiter: str) -> bool:
    """Whether each row ends with a delimiter that the header lacks."""
    mark, whole = delimiter.encode(), content.rstrip(b"\r\n")
    num_ends = sum(whole.count(mark + end) for end in (b"\n", b"\r\n")) + whole.endswith(mark)
    lines = [line.rstrip(b"\r") for line in whole.split(b"\n", maxsplit=1 + _NUM_COUNTED)[: 1 + _NUM_COUNTED]]
    if len(lines) < 2 or lines[0].endswith(mark) or num_ends != whole.count(b"\n"):
        return False
    counts = [re.sub(rb'"[^"]*"', b"", line).count(mark) for line in lines]
    return all(count == counts[0] + 1 for count in counts[1:])


def _check_header(names: list[str], file: str) -> None:
    check_names([*map(_name_of, names)], file)


def _name_of(header: str) -> str:
    """The name of a column, without the blanks and quotes round it that a file such as 'a, "b"' has."""
    name = header.strip(BLANKS)
    return name[1:-1].strip(BLANKS) if _QUOTED.fullmatch(name) else name


def _unquoted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells without quotes that follow a blank, which arrow takes for a part of the cell."""
    if not pc.any(pc.match_substring_regex(column, _LATE_QUOTES)).as_py():
        return column
    return pc.replace_substring_regex(column, pattern=_LATE_QUOTES, replacement=r"\1")


def _lines_of(table: pa.Table) -> np.ndarray:
    """Return the number of lines of each row: one, and one more for each line break in a cell."""
    sizes = np.ones(table.num_rows, np.int64)
    for column in table.columns:
        breaks = pc.fill_null(pc.count_substring(column, "\n"), 0)
        if pc.any(pc.greater(breaks, 0)).as_py():
            sizes += breaks.to_numpy().astype(np.int64)
    return sizes


def _broken(first: Any, file: str, delimiter: str) -> DataError:
    """The error of the first row with another number of cells; its number counts the header and rows before it."""
    row = first.number - 2 if first.number is not None else None
    if first.text.count('"') % 2:
        return _open_quote(file, row)
    return DataError(
        f"{first.actual_columns} cells where the header has {first.expected_columns}: {first.text[:_NUM_SHOWN]!r}",
        file=file,
        row=row,
        fix=f"Put cells that hold a {'comma' if delimiter == ',' else repr(delimiter)} in double quotes, or give "
        "another --delimiter, or leave such rows out with --on-bad-row drop (in Python ReadSettings).",
    )


def _text(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), newline="", encoding="utf-8", errors="surrogateescape")


@contextmanager
def _long_cells() -> Generator[None]:
    """Let Python's reader take cells of any length."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _other_encoding(content: bytes, file: str, delimiter: str) -> DataError:
    found = other_encoding(content, file, fix=_UTF8_FIX)
    if found is not None:
        return found
    names: list[str] = []
    with _long_cells(), suppress(csv.Error):
        reader = csv.reader(_text(content), delimiter=delimiter)
        begins, lines = 1, list[int]()  # of the rows; empty lines are none
        for cells in reader:
            lines += [begins] if cells and names else []
            place = next((place for place, cell in enumerate(cells) if not _is_utf8(cell)), None)
            if place is not None:
                rows_are_lines(file, lines)
                seen = cells[place].encode(errors="surrogateescape").decode(errors="replace")
                return DataError(
                    f"{'the cell' if names else 'the name of a column'} is not in UTF-8: {seen[:_NUM_SHOWN]!r}",
                    file=file,
                    row=len(lines) - 1 if names else None,
                    column=names[place] if place < len(names) else None,
                    fix=_UTF8_FIX,
                )
            names = names or cells
            begins = reader.line_num + 1
    return DataError("the file is not in UTF-8", file=file, fix=_UTF8_FIX)


def _is_utf8(cell: str) -> bool:
    try:
        cell.encode()
    except UnicodeEncodeError:  # what stands for a byte that is no character
        return False
    return True


def end_of_whole_rows(content: bytes) -> int:
    """Return where the last row of CSV ends behind which quotes are closed, by their number; 0 where none does.

    Example:
        >>> end_of_whole_rows(b'a,b' + bytes([10]) + b'"c' + bytes([10]))
        4
    """
    end = content.rfind(b"\n") + 1
    num_quotes = content.count(b'"', 0, end)
    while end and num_quotes % 2:  # within quotes, a line break is a part of a cell
        before = content.rfind(b"\n", 0, end - 1) + 1
        num_quotes -= content.count(b'"', before, end)
        end = before
    return end


def _open_quote_at_end(content: bytes, delimiter: str) -> bool:
    """Return True if a quotation mark is never closed."""
    if content.count(b'"') % 2 == 0:
        return False
    with _long_cells():
        try:
            for _ in csv.reader(_text(content), strict=True, delimiter=delimiter):
                pass
        except csv.Error:
            return True
    return False


def _check_quotes(content: bytes, file: str, last_row: int, delimiter: str) -> None:
    # A quotation mark that is never closed makes the rest of the file one cell, and pyarrow does not mind.
    if _open_quote_at_end(content, delimiter):
        raise _open_quote(file, last_row)


def _open_quote(file: str, row: int | None) -> DataError:
    return DataError(
        "a double quote is opened and never closed",
        file=file,
        row=row,
        fix="Close it; a double quote within a cell is written twice.",
    )
