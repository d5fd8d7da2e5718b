"""Columns of a file, told by its beginning: a column that is not there is told before a large table is read."""

import codecs
from collections.abc import Collection
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.readers import read_text
from contextual_bert.data.table_paths import TABLE_SUFFIXES, file_type
from contextual_bert.errors import DataError
from contextual_bert.places import rows_are_lines

__all__ = ["check_file_columns"]

_HEAD_BYTES = 1 << 20


def check_file_columns(
    source: str | PathLike[str], names: Collection[str], *, settings: ReadSettings | None = None
) -> None:
    """Raise where a file lacks a column, as far as its first megabyte tells.

    A file that cannot be read, or whose columns only the whole file tells, passes. ``read_table`` says what is wrong.

    Args:
        source: path of the file.
        names: of the columns.
        settings: how the file is read.

    Raises:
        UnknownNameError: a column that is not there.
    """
    path = Path(source)
    try:
        found = _columns(path, settings or ReadSettings())
    except (DataError, OSError, UnicodeError, pa.ArrowException):
        return
    finally:
        rows_are_lines(str(path), None)
    if found is not None:
        empty = pa.table({name: pa.nulls(0) for name in found})
        for name in names:
            checked_column(empty, name, file=str(path))


def _columns(path: Path, settings: ReadSettings) -> list[str] | None:
    """Return the names of the columns; None where the beginning of the file does not tell them."""
    suffix, compression = file_type(path)
    if suffix == ".parquet":
        return parquet.read_schema(path).names
    if suffix not in TABLE_SUFFIXES or not path.is_file():
        return None
    with pa.input_stream(path, compression=compression) as stream:
        head = bytes(stream.read(_HEAD_BYTES + 1)).removeprefix(codecs.BOM_UTF8)
    is_whole = len(head) <= _HEAD_BYTES
    if not is_whole and "json" in suffix:  # a column may begin in any line
        return None
    if not is_whole:
        head = head[: head.rfind(b"\n") + 1]
    return read_text(head, str(path), suffix, settings=settings)[0].column_names
