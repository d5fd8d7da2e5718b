"""What pandas and `datasets` say in the metadata of a table: names of classes. And time zones as pandas spells them."""

import json
import re
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import is_list
from contextual_bert.errors import DataError

__all__ = ["with_class_names", "with_known_zones"]

_HUGGINGFACE = b"huggingface"
_ZONE = re.compile(r"^(?:UTC|GMT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?$")


def with_class_names(table: pa.Table, *, file: str | None) -> pa.Table:
    """The table with the names of `datasets.ClassLabel` in place of their numbers, also in lists; -1 is missing.

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
        described = dict(features)
    except (ValueError, TypeError, LookupError, RecursionError):
        return table  # of another version: the numbers stay numbers
    for place, field in enumerate(table.schema):
        names = _class_names(described.get(field.name))
        if names is not None and _has_numbers(field.type):
            column = table.column(place)
            named = [_named(chunk, names, file=file, column=field.name) for chunk in column.chunks]
            kind = _named_type(field.type)
            table = table.set_column(place, pa.field(field.name, kind), pa.chunked_array(named, kind))
    # What it says of these columns is no longer true.
    del metadata[_HUGGINGFACE]
    return table.replace_schema_metadata(metadata or None)


def with_known_zones(table: pa.Table, *, file: str | None) -> pa.Table:
    """The table with time zones that arrow knows: "UTC+09:00", as Python spells it, is "+09:00".

    Raises:
        DataError: a zone that nobody knows.
    """
    for place, field in enumerate(table.schema):
        if not pa.types.is_timestamp(field.type) or field.type.tz is None:
            continue
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
        if kind != field.type:
            table = table.set_column(place, field.with_type(kind), table.column(place).cast(kind))
    return table


def _known_zone(zone: str) -> str:
    found = _ZONE.match(zone)
    if found is None:
        return zone
    return f"{found['sign']}{int(found['hours']):02}:{found['minutes'] or '00'}"


def _class_names(feature: Any) -> Sequence[str] | None:
    """The names of a feature, or of the elements of its lists; None of another feature."""
    if isinstance(feature, list) and feature:
        return _class_names(feature[0])
    if not isinstance(feature, dict):
        return None
    described = cast("dict[str, Any]", feature)
    if described.get("_type") == "ClassLabel":
        names = described.get("names")
        is_named = isinstance(names, list) and all(isinstance(name, str) for name in cast("list[object]", names))
        return cast("list[str]", names) if is_named else None
    return _class_names(described.get("feature"))


def _has_numbers(kind: pa.DataType) -> bool:
    return _has_numbers(kind.value_type) if is_list(kind) else pa.types.is_integer(kind)


def _named_type(kind: pa.DataType) -> pa.DataType:
    return pa.large_list(_named_type(kind.value_type)) if is_list(kind) else pa.string()


def _named(array: pa.Array, names: Sequence[str], *, file: str | None, column: str) -> pa.Array:
    if is_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array([0, *lengths.cumsum().tolist()], pa.int64())
        values = _named(pc.list_flatten(array), names, file=file, column=column)
        return pa.LargeListArray.from_arrays(offsets, values, mask=pc.is_null(array) if array.null_count else None)
    number = array.cast(pa.int64())
    strange = pc.or_(pc.less(number, -1), pc.greater_equal(number, len(names)))
    if pc.any(strange).as_py():
        wrong = number.filter(strange)[0].as_py()
        raise DataError(
            f"the number {wrong} has no name, and the {len(names)} classes are numbered from 0",
            file=file,
            column=column,
            fix="Write the file again with all names of its ClassLabel.",
        )
    index = pc.if_else(pc.equal(number, -1), pa.scalar(None, pa.int64()), number)
    return pc.take(pa.array(names, pa.string()), index)
