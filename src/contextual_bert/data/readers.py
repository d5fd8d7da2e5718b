"""Files to columns: Parquet, CSV, JSON Lines and `datasets.Dataset` become one `pyarrow.Table`.

A faulty row is named with its file, row and column; none is dropped or repaired in silence. Rows are counted from
zero, without the header. It does not know which column holds the items, nor what a context is.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json
import pyarrow.parquet as parquet

from contextual_bert.arrow_types import is_list, without_views
from contextual_bert.data.csv_tables import check_names, read_csv
from contextual_bert.data.reviews import REVIEW_SUFFIX, read_reviews
from contextual_bert.errors import DataError, did_you_mean
from contextual_bert.json_text import echoed

__all__ = ["read_table"]

_JSON_BLOCK_BYTES = 16 << 20
# As what to read again what pyarrow made a time, which it does with every text like one.
_JSON_TEXTS = {pa.timestamp("s"): pa.string(), pa.list_(pa.timestamp("s")): pa.list_(pa.string())}
_OFFSET = r"[T ].*[+-].*[1-9]"  # a time zone other than UTC


@runtime_checkable
class _HuggingFaceDataset(Protocol):
    """What we use of a `datasets.Dataset`; its package is not imported."""

    def with_format(self, type: str) -> Any: ...  # noqa: A002  (the name is theirs)


def read_table(
    source: str | PathLike[str] | pa.Table | _HuggingFaceDataset, *, text_columns: Collection[str | None] = ()
) -> pa.Table:
    """Read a table with at least one row.

    In CSV every column is read whole and becomes a number, a date or a truth value only if every cell is one and
    nothing is lost: codes with leading zeros ("010101") stay text. An empty cell is a missing value.

    Args:
        source: a path that ends in .parquet, .csv, .jsonl, .ndjson or .ss (reviews, see ``read_reviews``); a
            `pyarrow.Table`; or a `datasets.Dataset`.
        text_columns: columns that are wanted as text. In CSV and JSON Lines they keep the spelling of the file where
            all of it looks like numbers, truth values or dates; elsewhere columns have types of their own. Names that
            the file lacks, and None, change nothing.

    Raises:
        DataError: the file is missing, empty, of another kind, or a row of it is broken.

    Example:
        >>> read_table(pa.table({"age": [34, 51]})).num_rows
        2
    """
    if isinstance(source, pa.Table):
        return _checked(source, None)
    if isinstance(source, (str, PathLike)):
        return _read_file(Path(source), text_columns)
    if isinstance(source, dict):
        raise DataError(
            f"a dictionary of data sets ({', '.join(map(str, cast(dict[object, object], source)))}) is not a table",
            fix="Choose one of them, such as dataset['train'].",
        )
    if isinstance(source, _HuggingFaceDataset):
        # The arrow format applies select() and shuffle(), which `.data` does not.
        rows = source.with_format("arrow")[:] if len(cast(Any, source)) else pa.table({})
        return _checked(rows, None)
    raise DataError(
        f"a {type(source).__name__} is not a table",
        fix="Give a path, a pyarrow.Table (pandas: pa.Table.from_pandas(frame)) or a datasets.Dataset.",
    )


def _read_file(path: Path, text_columns: Collection[str | None]) -> pa.Table:
    file = str(path)
    readers: dict[str, Callable[[Path], pa.Table]] = {
        ".parquet": _read_parquet,
        ".csv": partial(read_csv, text_columns=text_columns),
        ".jsonl": partial(_read_json, text_columns=text_columns),
        ".ndjson": partial(_read_json, text_columns=text_columns),
        REVIEW_SUFFIX: read_reviews,
    }
    if not path.exists():
        siblings = [found.name for found in path.parent.iterdir()] if path.parent.is_dir() else []
        tables = [name for name in siblings if Path(name).suffix.lower() in readers]
        near = f"In its folder: {did_you_mean(path.name, tables)}" if tables else "There is no table in its folder."
        raise DataError("there is no such file", file=file, fix=f"Check the path. {near}")
    if path.suffix.lower() not in readers or path.is_dir():
        what = "this is a folder" if path.is_dir() else f"files that end in {path.suffix!r} are not read"
        raise DataError(what, file=file, fix=f"Give a file that ends in one of: {', '.join(sorted(readers))}.")
    try:
        if path.stat().st_size == 0:
            raise DataError("the file is empty (0 bytes)", file=file, fix="Write it again: it needs at least one row.")
        return _checked(readers[path.suffix.lower()](path), file)
    except OSError as error:
        raise DataError(
            f"the file cannot be read: {error}", file=file, fix="Check its permissions and content."
        ) from error


def _checked(table: pa.Table, file: str | None) -> pa.Table:
    check_names(table.column_names, file)
    if table.num_rows == 0:
        raise DataError("the table has no rows", file=file, fix="It needs at least one row besides the column names.")
    return without_views(table)


def _read_parquet(path: Path) -> pa.Table:
    file = str(path)
    try:
        check_names(parquet.read_schema(path).names, file)
        return parquet.read_table(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"this is not a whole Parquet file: {error}", file=file, fix="Write the file again.") from error


def _read_json(path: Path, *, text_columns: Collection[str | None]) -> pa.Table:
    read = arrow_json.ReadOptions(block_size=_JSON_BLOCK_BYTES)
    try:
        table = arrow_json.read_json(path, read_options=read)
    except pa.ArrowInvalid as error:
        raise _broken_line(path, str(error)) from error
    texts = [(field.name, _JSON_TEXTS[field.type]) for field in table.schema if field.type in _JSON_TEXTS]
    if not texts:
        return table
    parse = arrow_json.ParseOptions(explicit_schema=pa.schema(texts), unexpected_field_behavior="ignore")
    written = arrow_json.read_json(path, read_options=read, parse_options=parse)
    for name, kind in texts:
        column = table[name]
        # Times are in UTC by now; with a zone they stay text, as in CSV, so that the day is the day as written.
        if is_list(kind) or name in text_columns or pc.any(pc.match_substring_regex(written[name], _OFFSET)).as_py():
            column = written[name]
        elif pc.all(pc.equal(pc.floor_temporal(column, unit="day"), column)).as_py():
            column = column.cast(pa.date32())
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as stream:
        yield from ((number, line) for number, line in enumerate(stream, start=1) if line.strip())


def _broken_line(path: Path, problem: str) -> DataError:
    """Which line it was: pyarrow counts within a block. One line at a time, for this happens once."""
    file, fix = str(path), 'Each line is one JSON object such as {"items": ["a", "b"], "age": 34}.'
    kinds: dict[str, str] = {}
    for row, (number, line) in enumerate(_lines(path)):
        try:
            record = json.loads(line)
        except ValueError as error:
            return DataError(f"line {number} is not valid JSON: {error}", file=file, row=row, fix=fix)
        if not isinstance(record, dict):
            return DataError(f"line {number} is {_kind(record)}, not an object", file=file, row=row, fix=fix)
        for name, value in cast(dict[str, object], record).items():
            for kind in _kinds(value):
                if kinds.setdefault(name, kind) != kind:
                    return DataError(
                        f"line {number} holds {kind} ({echoed(value)[:80]}), the lines before hold {kinds[name]}",
                        file=file,
                        row=row,
                        column=name,
                        fix="A column holds one kind of value: write all as strings, or correct this one.",
                    )
    return DataError(f"this is not JSON Lines: {problem}", file=file, fix=fix)


def _kind(value: object) -> str:
    names: dict[type, str] = {
        bool: "a truth value",
        str: "a string",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def _kinds(value: object) -> Iterable[str]:
    if isinstance(value, list):
        # An empty list, and null within a list, fit every kind of list.
        return [f"a list with {_kind(element)}" for element in cast(list[object], value) if element is not None]
    return [] if value is None else [_kind(value)]
