"""JSON Lines to columns, block by block, each read with the types that all blocks agree on.

Arrow reads a file of several blocks itself, and fails where the first one has nothing but nulls in a column: lists are
refused, and some files end the process. So each block is read alone. Within a block arrow forgets the nulls in lists
that come before the first value, unless it is told the type: all elements move, and the last ones are read from memory
that nobody wrote. So blocks that may begin like that are read again, with the types that were found.
"""

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.json as arrow_json

from contextual_bert.arrow_types import is_list

__all__ = ["read_blocks"]

_BLOCK_BYTES = 16 << 20
_NULL_FIRST = re.compile(rb"\[\s*null\b")


def read_blocks(content: bytes, *, types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """Read lines of JSON objects.

    Args:
        content: the lines.
        types: column -> its type; other columns are left out. None finds the columns and their types.

    Raises:
        pa.ArrowInvalid: a line is no JSON object, or holds another kind of value than others.

    Example:
        >>> read_blocks(b'{"a": [null, 1]}\\n{"a": [2]}')["a"].to_pylist()
        [[None, 1], [2]]
    """
    blocks = list(_blocks(content)) or [pa.py_buffer(content)]
    if types is not None:
        return pa.concat_tables([_read(block, types, is_strict=False) for block in blocks])
    tables = [_read(block) for block in blocks]
    found = dict[str, pa.DataType]()
    for table in tables:
        for field in table.schema:
            found[field.name] = _common(found.get(field.name, pa.null()), field.type, name=field.name)
    found = {name: _of_text(kind) for name, kind in found.items()}
    for place, block in enumerate(blocks):
        if {field.name: field.type for field in tables[place].schema} != found or _may_lose_nulls(found, block):
            tables[place] = _read(block, found)
    return pa.concat_tables([table.select(list(found)) for table in tables])


def _blocks(content: bytes) -> Iterator[pa.Buffer]:
    """Whole lines of some megabytes, or of one line that is longer; none is blank."""
    start, whole = 0, pa.py_buffer(content)
    while start < len(content):
        end = content.find(b"\n", start + _BLOCK_BYTES) + 1 or len(content)
        block = whole.slice(start, end - start)
        if bytes(block[:1000]).strip() or bytes(block).strip():
            yield block
        start = end


def _read(block: pa.Buffer, types: Mapping[str, pa.DataType] | None = None, *, is_strict: bool = True) -> pa.Table:
    parse = None
    if types is not None:
        behavior = "infer" if is_strict else "ignore"
        parse = arrow_json.ParseOptions(explicit_schema=pa.schema([*types.items()]), unexpected_field_behavior=behavior)
    options = arrow_json.ReadOptions(block_size=block.size + 1)
    return arrow_json.read_json(pa.BufferReader(block), read_options=options, parse_options=parse)


def _common(one: pa.DataType, other: pa.DataType, *, name: str) -> pa.DataType:
    """The type that holds the values of both, as arrow has it within one block."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if is_list(one) and is_list(other):
        return pa.list_(_common(one.value_type, other.value_type, name=name))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        inner = {each.name: each.type for each in one}
        for each in other:
            inner[each.name] = _common(inner.get(each.name, pa.null()), each.type, name=name)
        return pa.struct([*inner.items()])
    for kinds, common in (
        ({pa.int64(), pa.float64()}, pa.float64()),
        ({pa.timestamp("s"), pa.timestamp("ns")}, pa.timestamp("ns")),
    ):
        if {one, other} <= kinds:
            return common
    if all(pa.types.is_timestamp(each) or pa.types.is_string(each) for each in (one, other)):
        return pa.string()
    raise pa.ArrowInvalid(f"column {name!r} has values of the types {one} and {other}")


def _may_lose_nulls(types: Mapping[str, pa.DataType], block: pa.Buffer) -> bool:
    """Return True if lists may begin with a null, or objects in them lack a name."""
    if any(map(_has_objects_in_lists, types.values())):
        return True
    return any(map(_has_lists, types.values())) and _NULL_FIRST.search(memoryview(block)) is not None


def _has_lists(kind: pa.DataType) -> bool:
    return is_list(kind) or (pa.types.is_struct(kind) and any(_has_lists(each.type) for each in kind))


def _has_objects_in_lists(kind: pa.DataType) -> bool:
    if is_list(kind):
        return pa.types.is_struct(kind.value_type) or _has_objects_in_lists(kind.value_type)
    return pa.types.is_struct(kind) and any(_has_objects_in_lists(each.type) for each in kind)


def _of_text(kind: pa.DataType) -> pa.DataType:
    """The type with text where all within it is null."""
    if is_list(kind):
        return pa.list_(pa.string() if pa.types.is_null(kind.value_type) else _of_text(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _of_text(each.type)) for each in kind])
    return kind
