"""A hash of what a table says, so that a split or a result can name the data it belongs to.

Equal content gives equal hashes however the table is chunked, sliced or stored (string or large_string, list or
large_list, dictionary or plain), and whether a column of CSV was read as numbers or as text. The order of rows and
columns is content. It knows nothing of splits.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_list, is_text
from contextual_bert.data.spelling import as_typed
from contextual_bert.errors import DataError
from contextual_bert.frames import Frame, as_table

__all__ = ["table_digest"]


def table_digest(table: Frame) -> str:
    """SHA-256 of the content of a table, in hexadecimal.

    Example:
        >>> a = pa.table({"x": pa.chunked_array([["u"], ["v", None]])})
        >>> b = pa.table({"x": pa.chunked_array([pa.array(["u", "v", None], pa.large_string())])})
        >>> table_digest(a) == table_digest(b) != table_digest(a.slice(1))
        True
    """
    table = as_table(table)
    total = hashlib.sha256(f"rows {table.num_rows}".encode())
    for name in table.column_names:
        # A stream a kind of buffer, each with its own hash: so the borders of chunks leave no trace.
        streams: dict[str, Any] = {}
        for chunk in as_typed(table.column(name), table.schema.field(name)).chunks:
            for path, content in _buffers(chunk, "", name):
                if path not in streams:
                    streams[path] = hashlib.sha256()
                streams[path].update(content)
        total.update(repr(name).encode())
        for path, stream in sorted(streams.items()):
            total.update(f"{path} {stream.hexdigest()}".encode())
    return total.hexdigest()


def _buffers(array: Any, path: str, column: str) -> Iterator[tuple[str, Any]]:
    """Yield the contents of an array as bytes: lengths or validity first, then the values that are present."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _buffers(decoded(array), path, column)
    elif is_list(kind):
        yield f"{path}/list lengths", _lengths(pc.list_value_length(array))
        yield from _buffers(pc.list_flatten(array), f"{path}/element", column)
    elif pa.types.is_struct(kind):
        yield f"{path}/struct", _present(array)
        for field, child in zip(kind, array.flatten(), strict=True):
            yield from _buffers(child, f"{path}/{field.name}", column)
    elif is_text(kind):
        yield from _bytes(array.cast(pa.large_string()).cast(pa.large_binary()), f"{path}/string")
    elif pa.types.is_map(kind):
        entries = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        yield from _buffers(array.cast(pa.large_list(entries)), f"{path}/map", column)
    elif pa.types.is_decimal(kind):
        yield from _bytes(array.cast(pa.large_string()).cast(pa.large_binary()), f"{path}/{kind}")
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        yield from _bytes(array.cast(pa.large_binary()), f"{path}/binary")
    elif pa.types.is_null(kind):
        yield f"{path}/null", np.full(len(array), -1, dtype=np.int64).tobytes()
    elif pa.types.is_boolean(kind):
        yield f"{path}/bool", _present(array)
        yield f"{path}/bool values", pc.fill_null(array, False).cast(pa.uint8()).to_numpy().tobytes()
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        yield f"{path}/{kind}", _present(array)
        yield f"{path}/{kind} values", _fixed_width(array).tobytes()
    else:
        raise DataError(
            f"the column is of type {kind}", column=column, fix="Turn it into text, numbers, dates or lists of them."
        )


def _fixed_width(array: Any) -> np.ndarray:
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False)


def _bytes(array: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield f"{path} lengths", _lengths(pc.binary_length(array))
    filled = pc.fill_null(array, b"")
    _, offsets_buffer, data = filled.buffers()
    if data is not None and len(filled):
        offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[filled.offset : filled.offset + len(filled) + 1]
        yield f"{path} values", memoryview(data)[int(offsets[0]) : int(offsets[-1])]


def _lengths(lengths: Any) -> bytes:
    return pc.fill_null(lengths.cast(pa.int64()), -1).to_numpy(zero_copy_only=False).tobytes()


def _present(array: Any) -> bytes:
    return pc.is_valid(array).cast(pa.uint8()).to_numpy().tobytes()
