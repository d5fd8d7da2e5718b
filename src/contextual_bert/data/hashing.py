"""Hashes: numbers that look random and are a pure function of what they are for, and the digest of a table.

A draw depends on nothing but the counters it is given (a seed, an epoch, an example, a position), so it is the same
for any order of the rows, number of workers, batch size, world size, machine and version of numpy. Masks, splits and
sets choose the counters; `Draw` keeps apart what is drawn for one example of one epoch. Steele, Lea and Flood (2014),
"Fast splittable pseudorandom number generators", section 5, is the mixing function.

A digest names the data that a split or a result belongs to: equal content gives equal digests however a table is
chunked, sliced or stored. The order of rows and columns is content.
"""

import hashlib
from collections.abc import Iterator
from enum import IntEnum, unique
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text
from contextual_bert.data.column_types import as_typed
from contextual_bert.errors import DataError
from contextual_bert.frames import Frame, as_table

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@unique
class Draw(IntEnum):
    """Purpose of a random draw for an example: the third counter, so that draws are independent of each other.

    Example:
        >>> hash_counters(0, 1, Draw.MASK_RATE, 7) == hash_counters(0, 1, Draw.WHOLE_CONTEXT, 7)
        array([False])
    """

    SPAN_END = 1
    MASKED_UNIT = 2
    MASK_KIND = 3
    MASK_TOKEN = 4
    WHOLE_CONTEXT = 5
    CONTEXT_FIELD = 6
    UNKNOWN_FIELD = 7
    MASK_RATE = 8
    SCORED_POSITION = 9
    HISTORY_BASKET = 10
    IS_NEXT = 11
    OTHER_SENTENCE = 12


def splitmix64(counter: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64 bits: each input bit changes each output bit with probability one half; a bijection.

    Example:
        >>> int(splitmix64(np.zeros(1, dtype=np.uint64))[0]) == 0xE220A8397B1DCDAF
        True
    """
    with np.errstate(over="ignore"):
        mixed = counter + _INCREMENT
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        return mixed ^ (mixed >> np.uint64(31))


def hash_counters(*counters: ArrayLike) -> NDArray[np.uint64]:
    """One hash for each place of the counters, broadcast against each other; integers, negative ones too.

    Example:
        >>> hash_counters(7, np.arange(3)[:, None], np.arange(2)).shape
        (3, 2)
    """
    mixed = np.zeros(1, dtype=np.uint64)
    for counter in counters:
        mixed = splitmix64(mixed ^ np.atleast_1d(np.asarray(counter, dtype=np.int64)).view(np.uint64))
    return mixed


def hash_strings(strings: pa.Array | pa.ChunkedArray, *, seed: int = 0) -> NDArray[np.uint64]:
    """One hash for each string: the sum of a hash of each (byte, place), mixed with the length. No missing values.

    Example:
        >>> a, b, again = hash_strings(pa.array(["ab", "ba", "ab"]))
        >>> bool(a == again), bool(a == b)
        (True, False)
    """
    chunks = strings.chunks if isinstance(strings, pa.ChunkedArray) else [strings]
    hashes = [_hash_chunk(chunk.cast(pa.large_binary()), seed) for chunk in chunks if len(chunk)]
    return np.concatenate(hashes) if hashes else np.zeros(0, dtype=np.uint64)


def _hash_chunk(strings: Any, seed: int) -> NDArray[np.uint64]:
    lengths = pc.binary_length(strings).to_numpy(zero_copy_only=False).astype(np.int64)
    _, offsets_buffer, data = strings.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
    content = np.frombuffer(data or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    places = np.arange(len(content), dtype=np.int64) - np.repeat(starts, lengths)
    terms = hash_counters(seed, places * 256 + content) if len(content) else np.zeros(0, dtype=np.uint64)
    # reduceat fails on a start behind the end (hence the zero) and is wrong for an empty stretch (cleared below).
    sums = np.add.reduceat(np.append(terms, np.uint64(0)), starts)
    sums[lengths == 0] = 0
    return splitmix64(sums ^ hash_counters(seed, lengths))


def unit_interval(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The hashes as numbers from 0 to just below 1.

    Example:
        >>> float(unit_interval(np.array([1 << 63], dtype=np.uint64))[0])
        0.5
    """
    # The upper 53 bits are what a float64 holds exactly.
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


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
