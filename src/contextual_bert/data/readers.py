"""Files to columns: Parquet, CSV, JSON and tables in memory become one `pyarrow.Table`.

A faulty row is named with its file, place and column; none is dropped or repaired in silence. It does not know which
column holds the items, nor what a context is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, without_value, without_views
from contextual_bert.context.dates import with_written_digits
from contextual_bert.data.csv_tables import check_names, read_csv
from contextual_bert.data.json_tables import lines_of_json, read_json_lines
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.reading_notes import ReadingNotes, reading_notes, rows_of_file
from contextual_bert.data.reviews import reviews_of
from contextual_bert.data.table_paths import COMPRESSIONS, REVIEW_SUFFIX, TABLE_SUFFIXES, check_exists, file_type
from contextual_bert.data.text_files import check_is_table, content_of, in_utf8
from contextual_bert.errors import DataError
from contextual_bert.foreign_metadata import with_class_names, with_known_times
from contextual_bert.frames import Frame, as_table
from contextual_bert.places import rows_are_left, rows_are_lines

__all__ = ["read_table", "read_text", "without_gaps"]


_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")


def read_table(
    source: str | PathLike[str] | Frame,
    *,
    text_columns: Collection[str | None] = (),
    code_columns: Collection[str | None] = (),
    settings: ReadSettings | None = None,
) -> pa.Table:
    """Read a table with at least one row.

    In CSV every column is read whole and becomes a number, a date or a truth value only if every cell is one and
    nothing is lost: codes with leading zeros ("010101") and numbers of more digits than fit stay text. An empty cell is
    a missing value. ``reading_lines`` says what was noticed and left out.

    Args:
        source: a path that ends in .parquet, .csv, .tsv, .jsonl, .ndjson, .json or .ss (reviews, see
            ``read_reviews``), those of text also with .gz, .bz2 or .zst behind it; or a table in memory: pyarrow,
            pandas, polars, `datasets`, as ``frames.as_table`` takes it.
        text_columns: columns that are wanted as text. In CSV and JSON Lines they keep the spelling of the file where
            all of it looks like numbers, truth values or dates; elsewhere columns have types of their own. Names that
            the file lacks, and None, change nothing.
        code_columns: columns that name things: items, customers, labels, categories. In CSV they stay text where
            their numbers are spelt in another way than a number is written: "10.10" is not "10.1".
        settings: delimiter, broken rows, dates; default: ``ReadSettings()``.

    Raises:
        DataError: the file is missing, empty, of another kind, or a row of it is broken.

    Example:
        >>> read_table(pa.table({"age": [34, 51]})).num_rows
        2
    """
    settings = settings or ReadSettings()
    if isinstance(source, (str, PathLike)):
        table = _read_file(Path(source), text_columns, code_columns, settings)
    else:
        table = _checked(as_table(source), None)
    return with_written_digits(table, settings.date_formats)


def without_gaps(
    table: pa.Table,
    columns: Sequence[str],
    settings: ReadSettings,
    *,
    file: str | None = None,
    faults: Mapping[str, NDArray[np.bool_]] | None = None,
) -> pa.Table:
    """The rows with a value in each of these columns, where broken rows are dropped; notes say how many were left out.

    Args:
        table: of the file.
        columns: those that it lacks are passed over.
        settings: where broken rows are errors, the table comes back as it is.
        file: path of the table; errors then go on to name its rows.
        faults: reason -> the rows (a mask) that are broken for it, beside those.

    Raises:
        DataError: no row is left.

    Example:
        >>> dropping = ReadSettings(on_bad_row="drop")
        >>> without_gaps(pa.table({"text": ["so it goes", " ", None]}), ["text"], dropping).num_rows
        1
    """
    if settings.on_bad_row != "drop":
        return table
    is_left = np.ones(table.num_rows, dtype=np.bool_)
    counts = dict[str, int]()
    named = [name for name in dict.fromkeys(columns) if name in table.column_names]
    empty = {
        f"without a value of {name!r}": np.asarray(without_value(decoded(table.column(name))), np.bool_)
        for name in named
    }
    for reason, is_broken in {**empty, **(faults or {})}.items():
        if (is_left & is_broken).any():
            counts[reason] = int((is_left & is_broken).sum())
            is_left &= ~is_broken
    if file is not None:
        rows_are_left(file, np.flatnonzero(is_left).tolist() if counts else None)
    if not counts:
        return table
    if not is_left.any():
        raise DataError(
            "each row is left out as broken",
            file=file,
            column=next(iter(named), None),
            fix="Fill in the cells, or name another column.",
        )
    notes = reading_notes(table)
    own = rows_of_file(table)
    dropped = tuple(sorted({*notes.dropped_rows, *own[~is_left].tolist()}))
    notes = replace(notes, rows_dropped={**notes.rows_dropped, **counts}, dropped_rows=dropped)
    return notes.noted(table.filter(pa.array(is_left)))


def _read_file(
    path: Path, text_columns: Collection[str | None], code_columns: Collection[str | None], settings: ReadSettings
) -> pa.Table:
    check_exists(path)
    file = str(path)
    suffix, compression = file_type(path)
    if suffix not in TABLE_SUFFIXES or path.is_dir():
        what = "this is a folder" if path.is_dir() else f"files that end in {path.suffix!r} are not read"
        advice = "In the spreadsheet save it as CSV in UTF-8. " if suffix in _SPREADSHEETS else ""
        raise DataError(
            what,
            file=file,
            fix=f"{advice}Give a file that ends in one of: {', '.join(sorted(TABLE_SUFFIXES))}; those of text may be "
            f"packed, {', '.join(COMPRESSIONS)}.",
        )
    if suffix == ".parquet" and compression is not None:
        raise DataError("packed Parquet files are not read", file=file, fix="Unpack it.")
    rows_are_lines(file, None)  # of an earlier reading
    try:
        if path.stat().st_size == 0:
            raise DataError("the file is empty (0 bytes)", file=file, fix="Write it again: it needs at least one row.")
        if suffix == ".parquet":
            return _checked(_read_parquet(path), file)
        content = content_of(path, compression)
        how: dict[str, Any] = {"text_columns": text_columns, "code_columns": code_columns}
        table, notes = read_text(content, file, suffix, settings=settings, **how)
        return notes.noted(_checked(table, file))
    except OSError as error:
        raise DataError(
            f"the file cannot be read: {error}", file=file, fix="Check its permissions and content."
        ) from error


def read_text(
    content: bytes,
    file: str,
    suffix: str,
    *,
    settings: ReadSettings,
    text_columns: Collection[str | None] = (),
    code_columns: Collection[str | None] = (),
) -> tuple[pa.Table, ReadingNotes]:
    """Read the content of a file of text.

    Args:
        content: unpacked.
        file: its path, for messages.
        suffix: the ending that says what it holds.
        settings, text_columns, code_columns: as for ``read_table``.

    Returns:
        The table, and what is to be said of it.

    Raises:
        DataError: as ``read_table``.
    """
    check_is_table(content, file)
    content, told = in_utf8(content, file, settings.encoding)
    how: dict[str, Any] = {"settings": settings, "text_columns": text_columns, "code_columns": code_columns}
    table, notes = _read_kind(content, file, suffix, **how)
    return table, replace(notes, remarks=(*told, *notes.remarks))


def _read_kind(
    content: bytes,
    file: str,
    suffix: str,
    *,
    settings: ReadSettings,
    text_columns: Collection[str | None],
    code_columns: Collection[str | None],
) -> tuple[pa.Table, ReadingNotes]:
    if suffix == REVIEW_SUFFIX:
        return reviews_of(content, file), ReadingNotes()
    if suffix in (".csv", ".tsv"):
        return read_csv(
            content,
            file,
            settings=settings,
            usual="\t" if suffix == ".tsv" else ",",
            text_columns=text_columns,
            code_columns=code_columns,
        )
    is_own = True
    if suffix == ".json":
        content, is_own = lines_of_json(content, file)
    try:
        return read_json_lines(content, file, settings=settings, text_columns=text_columns, code_columns=code_columns)
    finally:
        if not is_own:
            rows_are_lines(file, None)


def _checked(table: pa.Table, file: str | None) -> pa.Table:
    check_names(table.column_names, file)
    if table.num_rows == 0:
        raise DataError("the table has no rows", file=file, fix="It needs at least one row besides the column names.")
    return with_known_times(with_class_names(without_views(table), file=file), file=file)


def _read_parquet(path: Path) -> pa.Table:
    file = str(path)
    try:
        check_names(parquet.read_schema(path).names, file)
        return parquet.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"this is not a whole Parquet file: {error}", file=file, fix="Write the file again.") from error
