"""Columns to files: a `pyarrow.Table` becomes Parquet, CSV or JSON Lines, as the name of the file says.

`read_table` reads them. A file is written whole or not at all. It knows nothing of what the columns mean.
"""

import base64
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from contextual_bert.arrow_types import is_list
from contextual_bert.atomic_files import replacing_file
from contextual_bert.data.reading_notes import without_notes
from contextual_bert.errors import DataError, NonFiniteError
from contextual_bert.frames import Frame, as_table
from contextual_bert.json_text import json_text

__all__ = ["check_writable", "row_writer", "write_table"]

_ROWS = 10_000  # of JSON in memory at a time
_VALUES_A_BATCH = 1 << 18  # of Parquet
_MOST_DICTIONARY_BYTES = 256 << 20  # of a column of Parquet; above it each value is written by itself


def write_table(table: Frame, path: str | PathLike[str]) -> None:
    """Write a table to a path that ends in .parquet, .csv, .jsonl or .ndjson; what is there is replaced.

    Missing values are empty cells in CSV and null in Parquet and JSON; NaN is a missing value, too.

    Raises:
        DataError: another ending, or a column that such a file cannot hold.

    Example:
        >>> write_table(pa.table({"label": ["good"], "probability": [0.5]}), "predictions.jsonl")
        >>> Path("predictions.jsonl").read_text()
        '{"label": "good", "probability": 0.5}\\n'
    """
    target, table = Path(path), as_table(table)
    check_writable(target, table.schema)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with replacing_file(target) as partial:
            _WRITERS[target.suffix.lower()](_without_nan(without_notes(table)), partial)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, NonFiniteError, TypeError, ValueError) as error:
        raise DataError(f"the table cannot be written: {error}", file=str(target), fix=_FIX) from error


@contextmanager
def row_writer(path: str | PathLike[str]) -> Generator[Callable[[pa.Table], None]]:
    """Give what writes rows to a file piece by piece; the file is there, whole, when the block ends well.

    Args:
        path: ends in .parquet, .jsonl or .ndjson. Text that is stored as a dictionary is read as plain text again.

    Example:
        >>> with row_writer("sets.parquet") as write:
        ...     write(pa.table({"age": [34]}))
        ...     write(pa.table({"age": [51]}))
        >>> parquet.read_table("sets.parquet")["age"].to_pylist()
        [34, 51]
    """
    target = Path(path)
    writers: list[parquet.ParquetWriter] = []
    with replacing_file(target) as partial:
        if target.suffix.lower() != ".parquet":
            with partial.open("w", encoding="utf-8") as stream:
                yield lambda table: _write_lines(table, stream)
            return

        def write(table: pa.Table) -> None:
            if not writers:
                writers.append(_parquet_writer(partial, table.schema))
            writers[0].write_table(table.cast(writers[0].schema), row_group_size=max(1, table.num_rows))

        try:
            yield write
        finally:
            for writer in writers:
                writer.close()


def _parquet_writer(path: Path, schema: pa.Schema) -> parquet.ParquetWriter:
    """Return a writer of columns, some of which may be stored as dictionaries; they are read without them."""
    plain = pa.schema([(each.name, _without_dictionary(each.type)) for each in schema])
    writer = parquet.ParquetWriter(
        path,
        schema,
        store_schema=False,
        compression="zstd",
        dictionary_pagesize_limit=_MOST_DICTIONARY_BYTES,
        write_batch_size=_VALUES_A_BATCH,
        # The least and the largest item of lists are of no use, and comparing texts takes most of the time.
        write_statistics=[each.name for each in plain if not pa.types.is_nested(each.type)],  # pyright: ignore[reportArgumentType]
    )
    told = base64.b64encode(plain.serialize().to_pybytes()).decode()
    writer.add_key_value_metadata({"ARROW:schema": told})
    return writer


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _without_dictionary(each.type)) for each in kind])
    return pa.list_(_without_dictionary(kind.value_type)) if pa.types.is_list(kind) else kind


def check_writable(path: str | PathLike[str], schema: pa.Schema) -> None:
    """Raise DataError unless `write_table` can write such columns there: to be asked before they are computed."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in _WRITERS or target.is_dir():
        what = "this is a folder" if target.is_dir() else f"files that end in {target.suffix!r} are not written"
        raise DataError(what, file=str(target), fix=f"Give a file that ends in one of: {', '.join(sorted(_WRITERS))}.")
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if suffix == ".csv" and nested:
        raise DataError(
            f"a cell of CSV holds no {schema.field(nested[0]).type}", file=str(target), column=nested[0], fix=_FIX
        )


def _without_nan(table: pa.Table) -> pa.Table:
    """The same table with null for NaN, also in lists: no file holds a number that is none."""
    for index, field in enumerate(table.schema):
        column, kind = table[index], field.type
        if pa.types.is_floating(kind):
            is_nan = pc.fill_null(pc.is_nan(column), False)
            table = table.set_column(index, field, pc.if_else(is_nan, pa.scalar(None, kind), column))
        elif is_list(kind) and _has_nan(column):  # hardly ever, so value by value
            rows = [row and [None if each != each else each for each in row] for row in column.to_pylist()]
            table = table.set_column(index, field, pa.chunked_array([pa.array(rows, kind)], kind))
    return table


def _has_nan(lists: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(lists.type.value_type) and bool(pc.any(pc.is_nan(pc.list_flatten(lists))).as_py())


def _write_json(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as stream:
        _write_lines(table, stream)


def _write_lines(table: pa.Table, stream: TextIO) -> None:
    for batch in table.to_batches(max_chunksize=_ROWS):
        lines = (json_text(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
        stream.writelines(f"{line}\n" for line in lines)


_FIX = "Give a file that ends in .parquet or .jsonl."
_WRITERS: Mapping[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": parquet.write_table,
    ".csv": arrow_csv.write_csv,
    ".jsonl": _write_json,
    ".ndjson": _write_json,
}
