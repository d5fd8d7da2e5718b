"""First rows of a large file of a table, for what can be told without the rest of it."""

import codecs
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as parquet

from contextual_bert.arrow_types import without_views
from contextual_bert.data.csv_tables import end_of_whole_rows
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.readers import read_text
from contextual_bert.data.table_paths import file_type
from contextual_bert.data.text_files import marked_encoding

__all__ = ["FirstRows", "read_first_rows"]

_NUM_ROWS = 1_000_000
_NUM_BYTES = 32 << 20  # of text, unpacked
_LARGE = 2  # times as much is a large file
_PACKED = 4  # times as much is text that was packed
_BY_LINE = (".csv", ".tsv", ".jsonl", ".ndjson")


class FirstRows(NamedTuple):
    """First rows of a file, and in words how much of it they are."""

    table: pa.Table
    share: str


def read_first_rows(
    path: Path,
    *,
    settings: ReadSettings,
    text_columns: Collection[str | None] = (),
    code_columns: Collection[str | None] = (),
) -> FirstRows | None:
    """Read the first rows of a large file: 1,000,000 of Parquet, 32 MiB of CSV and JSON Lines.

    Args:
        path: of the file.
        settings, text_columns, code_columns: as for `read_table`.

    Returns:
        The rows; None of a file that is not large, and of one whose rows cannot be told from its first bytes.

    Raises:
        DataError: a row is broken.
        OSError, pa.ArrowInvalid: the file cannot be read.
    """
    suffix, compression = file_type(path)
    if not path.is_file():
        return None
    size = path.stat().st_size
    if suffix == ".parquet" and compression is None:
        with parquet.ParquetFile(path, pre_buffer=False) as opened:
            num_rows = opened.metadata.num_rows
            if num_rows <= _LARGE * _NUM_ROWS:
                return None
            table = pa.Table.from_batches([next(opened.iter_batches(_NUM_ROWS))])
        return FirstRows(without_views(table), f"the first {table.num_rows:,} of {num_rows:,} rows")
    is_large = size * (_PACKED if compression is not None else 1) > _LARGE * _NUM_BYTES
    is_wide = (settings.encoding or "").lower().replace("_", "-").startswith(("utf-16", "utf-32", "utf16", "utf32"))
    if suffix not in _BY_LINE or not is_large or is_wide:
        return None
    with path.open("rb") as raw:
        stream = pa.CompressedInputStream(raw, compression) if compression is not None else raw
        content = bytes(stream.read(_NUM_BYTES))
    if marked_encoding(content) is not None:
        return None
    end = end_of_whole_rows(content) if suffix in (".csv", ".tsv") else content.rfind(b"\n") + 1
    if not end:
        return None
    content = content[:end].removeprefix(codecs.BOM_UTF8)
    table, _ = read_text(
        content, str(path), suffix, settings=settings, text_columns=text_columns, code_columns=code_columns
    )
    return FirstRows(table, f"the first {table.num_rows:,} rows")
