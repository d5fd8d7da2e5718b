"""Metadata of pandas and `datasets`: names of classes, and time zones as pandas spells them."""

import json
import re
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_list
from contextual_bert.errors import DataError

__all__ = ["with_class_names", "with_known_times"]

_HUGGINGFACE = b"huggingface"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_PER_DAY = {pa.date32(): 1, pa.date64(): 86_400_000}
_FIRST_DAY, _END_DAY = -719_162, 2_932_897  # of the years 1 and 10000, since 1970
_ZONE = re.compile(r"^(?:UTC|GMT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?$")


def with_class_names(table: pa.Table, *, file: str | None) -> pa.Table:
    """The table with the names of `datasets.ClassLabel` for their numbers, also in lists and objects; -1 is missing.

    Raises:
        DataError: a number without a name.

    Example:
        >>> features = '{"tag": {"names": ["O", "LOC"], "_type": "ClassLabel"}}'
        >>> told = {"huggingface": f'{{"info": {{"features": {features}}}}}'}
        >>> with_class_names(pa.table({"tag": [1, 0, -1]}).replace_schema_metadata(told), file=None)["tag"].to_pylist()
        ['LOC', 'O', None]
    """
    metadata = dict(table.schema.metadata or {})
    if _HUGGINGFACE not in metadata:
        return table
    try:
        features = json.loads(metadata[_HUGGINGFACE])["info"]["features"]
        described = {name: each for name, each in dict(features).items() if _has_class_names(each)}
    except (ValueError, TypeError, LookupError, RecursionError):
        return table  # of another version: the numbers stay numbers
    for place, field in enumerate(table.schema):
        if field.name in described:
            feature = described[field.name]
            column = table.column(place)
            chunks = column.chunks or [pa.array([], field.type)]
            named = [_with_names(chunk, feature, file=file, column=field.name) for chunk in chunks]
            table = table.set_column(place, pa.field(field.name, named[0].type), pa.chunked_array(named))
    # What it says of these columns is no longer true.
    del metadata[_HUGGINGFACE]
    return table.replace_schema_metadata(metadata or None)


def with_known_times(table: pa.Table, *, file: str | None) -> pa.Table:
    """The table with time zones that arrow knows: "UTC+09:00", as Python spells it, is "+09:00".

    Raises:
        DataError: a zone that nobody knows; a time beyond the years 1 to 9999.
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            table = _with_known_zone(table, place, file=file)
        _check_years(table.column(place), file=file, name=field.name)
    return table


def _with_known_zone(table: pa.Table, place: int, *, file: str | None) -> pa.Table:
    field = table.schema.field(place)
    kind = pa.timestamp(field.type.unit, tz=_known_zone(field.type.tz))
    try:
        pc.local_timestamp(pa.array([0], kind))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"the times are of the zone {field.type.tz!r}, which is not known",
            file=file,
            column=field.name,
            fix="Write them with a zone such as 'Asia/Tokyo' or '+09:00', or in UTC.",
        ) from error
    return table.set_column(place, field.with_type(kind), table.column(place).cast(kind))


def _check_years(column: pa.ChunkedArray, *, file: str | None, name: str) -> None:
    """Raise DataError at the first day that Python's calendar lacks, which nothing could show; also in lists."""
    is_in_lists = is_list(column.type)
    times = pc.list_flatten(column) if is_in_lists else column
    kind = times.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return
    per_day = 86_400 * _PER_SECOND[kind.unit] if pa.types.is_timestamp(kind) else _PER_DAY[kind]
    for each in (times, pc.local_timestamp(times)) if pa.types.is_timestamp(kind) and kind.tz else (times,):
        numbers = each.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
        span = pc.min_max(numbers).as_py()
        if span["min"] is None or (span["min"] >= _FIRST_DAY * per_day and span["max"] < _END_DAY * per_day):
            continue
        is_beyond = pc.or_(pc.less(numbers, _FIRST_DAY * per_day), pc.greater_equal(numbers, _END_DAY * per_day))
        place = int(pc.index(is_beyond, True).as_py())
        raise DataError(
            f"a time is {numbers[place].as_py() // per_day:,} days from 1970-01-01, beyond the years 1 to 9999",
            file=file,
            row=None if is_in_lists else place,
            column=name,
            fix="Correct the cell. Where all are so, they were written in another unit than they are in.",
        )


def _known_zone(zone: str) -> str:
    found = _ZONE.match(zone)
    if found is None:
        return zone
    return f"{found['sign']}{int(found['hours']):02}:{found['minutes'] or '00'}"


def _has_class_names(feature: Any) -> bool:
    """Return True if a feature, its lists or its fields have names of classes."""
    return _class_names(feature) is not None or any(map(_has_class_names, _parts(feature)))


def _class_names(feature: Any) -> Sequence[str] | None:
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    names = cast("dict[str, Any]", feature).get("names")
    is_named = isinstance(names, list) and all(isinstance(name, str) for name in cast("list[object]", names))
    return cast("list[str]", names) if is_named else None


def _parts(feature: Any) -> list[Any]:
    """Return the features in the lists or fields of a feature."""
    if isinstance(feature, list):
        return cast("list[Any]", feature)[:1]
    return [*cast("dict[str, Any]", feature).values()] if isinstance(feature, dict) else []


def _elements(feature: Any) -> Any:
    """The feature of the elements of lists."""
    if isinstance(feature, list):
        return feature[0] if feature else None
    return cast("dict[str, Any]", feature).get("feature") if isinstance(feature, dict) else None


def _with_names(array: pa.Array, feature: Any, *, file: str | None, column: str) -> pa.Array:
    """The array with names in place of numbers, wherever the feature has names."""
    names = _class_names(feature)
    if names is not None and not is_list(array.type):
        array = decoded(array)
        return _named(array, names, file=file, column=column) if _is_number(array.type) else array
    if is_list(array.type):
        # `datasets` writes the names of lists once with the lists, once beside their elements.
        inner = feature if names is not None else _elements(feature)
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array([0, *lengths.cumsum().tolist()], pa.int64())
        values = _with_names(pc.list_flatten(array), inner, file=file, column=column)
        return pa.LargeListArray.from_arrays(offsets, values, mask=pc.is_null(array) if array.null_count else None)
    if pa.types.is_struct(array.type) and isinstance(feature, dict):
        # A list of objects is an object of lists to `datasets`.
        inside = _elements(feature)
        of_field = cast("dict[str, Any]", inside if isinstance(inside, dict) and "_type" not in inside else feature)
        fields = [array.type.field(place) for place in range(array.type.num_fields)]
        parts = list[pa.Array]()
        for place, field in enumerate(fields):
            part, told = pc.struct_field(array, [place]), of_field.get(field.name)
            lists_of = {"feature": told} if of_field is inside and is_list(part.type) else told
            parts.append(_with_names(part, lists_of, file=file, column=column))
        renamed = [pa.field(field.name, part.type) for field, part in zip(fields, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=renamed, mask=pc.is_null(array) if array.null_count else None)
    return array


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def _named(array: pa.Array, names: Sequence[str], *, file: str | None, column: str) -> pa.Array:
    fix = "Write the file again with all names of its ClassLabel."
    if pa.types.is_floating(array.type):  # as pandas has whole numbers of which some are missing
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    try:
        number = array.cast(pa.int64())
    except pa.ArrowInvalid:
        raise DataError(
            "a number is no whole one, and its column has names of classes", file=file, column=column, fix=fix
        ) from None
    strange = pc.or_(pc.less(number, -1), pc.greater_equal(number, len(names)))
    if pc.any(strange).as_py():
        wrong = number.filter(strange)[0].as_py()
        raise DataError(
            f"the number {wrong} has no name, and the {len(names)} classes are numbered from 0",
            file=file,
            column=column,
            fix=fix,
        )
    index = pc.if_else(pc.equal(number, -1), pa.scalar(None, pa.int64()), number)
    return pc.take(pa.array(names, pa.string()), index)
