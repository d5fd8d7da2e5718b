"""Buckets of a log on disk: all rows of a user stand in one of them, in the order of the log.

A bucket is a range of the hash of the user. So buckets one after the other have the users in the order of their hashes,
however many buckets there are.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, value_type
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.hashing import hash_strings

__all__ = ["Buckets", "num_buckets_for", "stable_order", "user_hashes"]

ROWS_A_BUCKET = 1 << 20
_MOST_BUCKETS = 256  # files that are open at once
_SEED = 45  # another one than of splits by customer: the first rows are no part
_MOST_BITS = 63


def num_buckets_for(num_rows: int) -> int:
    """Return how many buckets keep each to a million rows, as far as there are files for them: a power of two.

    Example:
        >>> num_buckets_for(1000), num_buckets_for(3_000_000), num_buckets_for(10**10)
        (1, 4, 256)
    """
    wanted = -(-num_rows // ROWS_A_BUCKET)
    return min(_MOST_BUCKETS, 1 << max(0, wanted - 1).bit_length())


def user_hashes(users: pa.Array) -> NDArray[np.uint64]:
    """Return a number for each user, of the canonical text: 7 and "7" are one user."""
    return hash_strings(canonical_array(users), seed=_SEED)


def stable_order(keys: NDArray[np.int64], bound: int) -> NDArray[np.int64]:
    """Return the places of keys in their order, equal ones as they came.

    Args:
        keys: from 0 to below ``bound``.
        bound: a small one is faster: key and place are then sorted as one number.

    Example:
        >>> stable_order(np.array([1, 0, 1, 0]), 2).tolist()
        [1, 3, 0, 2]
    """
    shift = max(1, len(keys) - 1).bit_length()
    if max(1, bound - 1).bit_length() + shift > _MOST_BITS:
        return np.argsort(keys, kind="stable")
    packed = (keys << shift) | np.arange(len(keys))
    packed.sort()
    return packed & ((1 << shift) - 1)


class Buckets:
    """Files of rows, one for each bucket; another set of files where the types of the columns change.

    Args:
        folder: for the files.
        num_buckets: a power of two.
    """

    def __init__(self, folder: Path, num_buckets: int) -> None:
        self._folder, self.num_buckets = folder, num_buckets
        self._schema: pa.Schema | None = None
        self._kinds: dict[str, list[pa.DataType]] = {}
        self._writers: dict[int, Any] = {}
        self._paths: list[list[Path]] = [[] for _ in range(num_buckets)]

    def add(self, table: pa.Table, hashes: NDArray[np.uint64]) -> None:
        """Deal rows out; ``hashes`` are those of their users. Dictionaries become plain columns."""
        schema = pa.schema([(each.name, value_type(each.type)) for each in table.schema])
        if schema != self._schema:
            self.close()
            self._schema = schema
            for each in schema:
                self._kinds.setdefault(each.name, []).append(each.type)
        if self.num_buckets == 1:
            self._write(0, pa.table([decoded(each) for each in table.columns], schema=schema))
            return
        shift = np.uint64(64 - (self.num_buckets - 1).bit_length())
        buckets = (hashes >> shift).astype(np.int64)
        order = stable_order(buckets, self.num_buckets)
        # Of a dictionary the places are put in order, and each name is copied once.
        dealt = pa.table([decoded(_one(each).take(pa.array(order))) for each in table.columns], schema=schema)
        ends = np.cumsum(np.bincount(buckets, minlength=self.num_buckets))
        start = 0
        for bucket, end in enumerate(ends.tolist()):
            if end > start:
                self._write(bucket, dealt.slice(start, end - start))
            start = end

    def _write(self, bucket: int, rows: pa.Table) -> None:
        if bucket not in self._writers:
            path = self._folder / f"{bucket:04}-{len(self._paths[bucket])}.arrow"
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writers[bucket] = pa.ipc.new_stream(str(path), rows.schema, options=options)
            self._paths[bucket].append(path)
        self._writers[bucket].write_table(rows)

    def close(self) -> None:
        """End the files that are being written."""
        while self._writers:
            self._writers.popitem()[1].close()

    def discard(self) -> None:
        """End the files, whatever is wrong with them: they are of no use any more."""
        while self._writers:
            with suppress(OSError, pa.ArrowException):
                self._writers.popitem()[1].close()

    def tables(self) -> Iterator[pa.Table | None]:
        """Yield the rows of each bucket, None where it has none, and remove its files."""
        kinds = {name: _common(each) for name, each in self._kinds.items()}
        for paths in self._paths:
            tables = list[pa.Table]()
            for path in paths:
                with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
                    read = reader.read_all()
                tables.append(pa.table({name: _as_kind(read, name, kind) for name, kind in kinds.items()}))
                path.unlink()
            yield pa.concat_tables(tables) if tables else None


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def _common(kinds: list[pa.DataType]) -> pa.DataType:
    """The type that all columns of a name can have: that of numbers, or text."""
    distinct = [*dict.fromkeys(kind for kind in kinds if not pa.types.is_null(kind))] or [pa.null()]
    if len(distinct) == 1:
        return distinct[0]
    if all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in distinct):
        return pa.int64()
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in distinct):
        return pa.float64()
    return pa.string()


def _as_kind(table: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    if name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, kind)])
    column = table.column(name)
    if column.type == kind:
        return column
    if pa.types.is_string(kind):
        return pa.chunked_array([canonical_array(column, is_name=False)])
    return column.cast(kind, safe=False)
