"""The rows of some users as their baskets: who, when, which items, sorted by user and time.

Arrays alone hold the rows, and none becomes an object of Python.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.data.column_codes import codes_of
from contextual_bert.data.groups import value_rows
from contextual_bert.data.logs.log_buckets import stable_order, user_hashes
from contextual_bert.data.logs.log_settings import HistorySettings
from contextual_bert.data.ragged import offsets_of

__all__ = ["BASKET", "DAY", "ITEM", "QUANTITY", "TIME", "USER", "Baskets", "Findings", "baskets_of"]

# Columns of a bucket. No column of a file begins so.
USER, ITEM, TIME, BASKET, QUANTITY = "\0user", "\0item", "\0time", "\0basket", "\0quantity"
_COUNTS = "\0counts"
DAY = 86_400_000_000  # microseconds


@dataclass(eq=False)
class Findings:
    """Counts of what was seen in all buckets, and an example of what is odd.

    Args:
        counts: by name.
        varying: column -> baskets in which it has several values.
        by_user: columns that have one value for each user, as far as was seen.
        widest: days that the longest basket lasts, and its name.
        largest: rows of the user with the most of them, and the user.
    """

    counts: Counter[str] = field(default_factory=Counter[str])
    varying: Counter[str] = field(default_factory=Counter[str])
    filled: Counter[str] = field(default_factory=Counter[str])
    by_user: set[str] | None = None
    widest: tuple[float, str] = (0.0, "")
    largest: tuple[int, str] = (0, "")


@dataclass(frozen=True, eq=False)
class Baskets:
    """Baskets of some users, sorted by user and time.

    Args:
        users: the users, in their order.
        user_of: (baskets,) which user each is of.
        times: (baskets,) its earliest row, in microseconds or the numbers of the log.
        offsets: where the items of each basket begin, and the last one ends.
        codes: items, as places in ``names``.
        names: the distinct items.
        counts: how often each item stands in its basket; None where nobody asked.
        ids: (baskets,) the names of the baskets, where a column has them.
        context: column -> (baskets,) its values.
        is_sequence: each basket is one item, and comes after all that stand before it, those of its time as well.
    """

    users: pa.Array
    user_of: NDArray[np.int64]
    times: NDArray[np.int64]
    offsets: NDArray[np.int64]
    codes: NDArray[np.int32]
    names: pa.Array
    counts: NDArray[np.int64] | None = None
    ids: pa.Array | None = None
    context: Mapping[str, pa.Array] = field(default_factory=dict[str, pa.Array])
    is_sequence: bool = False

    def __len__(self) -> int:
        return len(self.times)

    def to_table(self) -> pa.Table:
        """Return all of it as a table, for a file."""
        offsets = pa.array(self.offsets)
        items = pa.DictionaryArray.from_arrays(pa.array(self.codes), self.names)
        users = pa.DictionaryArray.from_arrays(pa.array(self.user_of.astype(np.int32)), self.users)
        columns = {USER: users, TIME: pa.array(self.times), ITEM: pa.LargeListArray.from_arrays(offsets, items)}
        if self.counts is not None:
            columns[_COUNTS] = pa.LargeListArray.from_arrays(offsets, pa.array(self.counts))
        if self.ids is not None:
            columns[BASKET] = self.ids
        return pa.table({**columns, **self.context})

    @classmethod
    def from_table(cls, table: pa.Table, *, is_sequence: bool) -> "Baskets":
        """Return what ``to_table`` made a table of."""
        whole = {name: _whole(table.column(name)) for name in table.column_names}
        users, items, counts = whole.pop(USER), whole.pop(ITEM), whole.pop(_COUNTS, None)
        return cls(
            users.dictionary,
            users.indices.to_numpy().astype(np.int64),
            whole.pop(TIME).to_numpy(),
            items.offsets.to_numpy(),
            items.values.indices.to_numpy(),
            items.values.dictionary,
            counts.values.to_numpy() if counts is not None else None,
            whole.pop(BASKET, None),
            whole,
            is_sequence,
        )

    @property
    def first_of_user(self) -> NDArray[np.int64]:
        """(baskets,) The first basket of its user."""
        starts = np.flatnonzero(np.diff(self.user_of, prepend=-1))
        return starts[self.user_of]

    @property
    def num_earlier(self) -> NDArray[np.int64]:
        """(baskets,) Baskets of the user before it; one of the same time is not before it."""
        return self._first_at_time - self.first_of_user

    @property
    def _first_at_time(self) -> NDArray[np.int64]:
        """(baskets,) The first basket of the same user and time; of sequences each itself."""
        if self.is_sequence:
            return np.arange(len(self))
        is_new = (np.diff(self.user_of, prepend=-1) != 0) | (np.diff(self.times, prepend=0) != 0)
        if len(is_new):
            is_new[0] = True
        return np.flatnonzero(is_new)[np.cumsum(is_new) - 1]

    def histories(self, rows: NDArray[np.int64], *, longest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first basket of the history of each of these baskets, and the first one after it."""
        ends = self._first_at_time[rows]
        return np.maximum(self.first_of_user[rows], ends - longest), ends


def _whole(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def baskets_of(table: pa.Table, settings: HistorySettings, findings: Findings, *, context: Sequence[str]) -> Baskets:
    """Return the baskets of the rows of some users.

    Args:
        table: the rows of a bucket, in the order of the log.
        settings: what a basket is.
        findings: counted up.
        context: columns whose value each basket gets.
    """
    users, user_of_row = _users(table.column(USER))
    times = _whole(table.column(TIME)).to_numpy()
    _count_order(findings, user_of_row, times, len(users))
    ids = None
    if settings.basket is not None:
        ids = _encoded(table.column(BASKET))
        basket_of_row, num_baskets = _named_baskets(ids.indices.to_numpy(), user_of_row, times, len(ids.dictionary))
        order = _order(basket_of_row, num_baskets, times)
        basket_of = basket_of_row[order]
    else:
        order = _order(user_of_row, len(users), times)
        longest = settings.gap or 0
        is_new = (np.diff(user_of_row[order], prepend=-1) != 0) | (np.diff(times[order], prepend=0) > longest)
        is_new[:1] = True
        is_new |= settings.is_sequence
        basket_of = np.cumsum(is_new) - 1
        num_baskets = int(basket_of[-1]) + 1
    starts = np.flatnonzero(np.diff(basket_of, prepend=-1))
    first_rows = order[starts]

    items = _encoded(table.column(ITEM))
    kept, counts = _distinct(basket_of, items.indices.to_numpy()[order], num_baskets, len(items.dictionary))
    if settings.has_counts and settings.quantity is not None:
        quantities = _whole(table.column(QUANTITY)).to_numpy()[order]
        counts = _sums(basket_of, items.indices.to_numpy()[order], quantities, kept)
    found = Baskets(
        users,
        user_of_row[first_rows],
        times[first_rows],
        offsets_of(np.bincount(basket_of[kept], minlength=num_baskets)),
        items.indices.to_numpy()[order][kept].astype(np.int32),
        items.dictionary,
        counts if settings.has_counts else None,
        ids.dictionary.take(pa.array(ids.indices.to_numpy()[first_rows])) if ids is not None else None,
        _context(table, context, findings, basket_of, order, first_rows, user_of_row[first_rows]),
        settings.is_sequence,
    )
    per_user = np.bincount(found.user_of, minlength=len(users))
    rows_of_user = np.bincount(user_of_row)
    if (most := int(rows_of_user.max())) > findings.largest[0]:
        findings.largest = (most, str(users[int(rows_of_user.argmax())].as_py()))
    sizes = np.diff(starts, append=len(order))
    findings.counts.update(
        rows=len(order),
        users=len(users),
        baskets=num_baskets,
        several=int((sizes > 1).sum()),
        single_users=int((per_user == 1).sum()),
        repeated=len(order) - len(kept),
        at_one_time=int(_num_at_one_time(found)),
    )
    if found.ids is not None:
        spans = np.maximum.reduceat(times[order], starts) - found.times
        findings.counts["wide"] += int((spans > DAY).sum())
        if len(spans) and spans.max() / DAY > findings.widest[0]:
            widest = int(spans.argmax())
            findings.widest = (float(spans[widest] / DAY), str(found.ids[widest].as_py()))
    return found


def _encoded(column: pa.ChunkedArray) -> Any:
    return _whole(column).dictionary_encode()


def _users(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the users by their hashes, and which of them each row is of."""
    encoded = _encoded(column)
    order = np.argsort(user_hashes(encoded.dictionary), kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return encoded.dictionary.take(pa.array(order)), rank[encoded.indices.to_numpy()]


def _order(major: NDArray[np.int64], num_major: int, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows sorted by a number and the time, those of one time as they came."""
    since = times - times.min()
    since //= max(1, int(np.gcd.reduce(since)))  # as whole days, say: small numbers are sorted faster
    span = int(since.max()) + 1
    if num_major * span >= 1 << 62:
        return np.lexsort((since, major))
    return stable_order(major * span + since, num_major * span)


def _count_order(findings: Findings, user_of: NDArray[np.int64], times: NDArray[np.int64], num_users: int) -> None:
    """Count the rows that are earlier than the row of their user before."""
    order = stable_order(user_of, num_users)
    is_same = np.diff(user_of[order]) == 0
    findings.counts["unordered"] += int((is_same & (np.diff(times[order]) < 0)).sum())


def _named_baskets(
    codes: NDArray[np.int32], user_of: NDArray[np.int64], times: NDArray[np.int64], num_names: int
) -> tuple[NDArray[np.int64], int]:
    """Return the basket of each row, numbered by user, earliest row and first row; and how many there are."""
    pairs = user_of * num_names + codes
    order = stable_order(pairs, (int(user_of.max()) + 1) * num_names)
    is_new = np.diff(pairs[order], prepend=-1) != 0
    starts = np.flatnonzero(is_new)
    earliest = np.minimum.reduceat(times[order], starts)
    ranked = np.lexsort((order[starts], earliest, user_of[order[starts]]))
    rank = np.empty(len(ranked), np.int64)
    rank[ranked] = np.arange(len(ranked))
    found = np.empty(len(order), np.int64)
    found[order] = rank[np.cumsum(is_new) - 1]
    return found, len(starts)


def _distinct(
    basket_of: NDArray[np.int64], codes: NDArray[np.int32], num_baskets: int, num_items: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows in which an item stands first in its basket, and how often it stands there."""
    keys = basket_of * num_items + codes
    order = stable_order(keys, num_baskets * num_items)
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    firsts = order[starts]
    back = stable_order(firsts, len(keys))
    return firsts[back], np.diff(starts, append=len(keys))[back]


def _sums(
    basket_of: NDArray[np.int64], codes: NDArray[np.int32], quantities: NDArray[np.int64], kept: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sum of quantities of each item of each basket, in the order of ``kept``."""
    num_items = int(codes.max()) + 1
    keys = basket_of * num_items + codes
    order = stable_order(keys, int(keys.max()) + 1)
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sums = np.add.reduceat(quantities[order], starts)
    return sums[np.searchsorted(keys[order][starts], keys[kept])]


def _context(
    table: pa.Table,
    names: Sequence[str],
    findings: Findings,
    basket_of: NDArray[np.int64],
    order: NDArray[np.int64],
    first_rows: NDArray[np.int64],
    user_of: NDArray[np.int64],
) -> dict[str, pa.Array]:
    """Return the value of each basket in some columns, missing where it has several."""
    if findings.by_user is None:
        findings.by_user = {*names}
    group_of = np.empty(len(order), np.int64)
    group_of[order] = basket_of
    found = dict[str, pa.Array]()
    for name in names:
        cells = table.column(name)
        values = value_rows(cells, group_of, first_rows.copy())
        findings.varying[name] += len(np.unique(group_of[values.varying]))
        findings.filled[name] += values.num_filled
        found[name] = _whole(cells).take(pa.array(values.rows, mask=values.is_missing))
        if name in findings.by_user:
            codes = codes_of(pa.chunked_array([found[name]]))
            if ((np.diff(codes) != 0) & (np.diff(user_of) == 0)).any():
                findings.by_user.discard(name)
    return found


def _num_at_one_time(baskets: Baskets) -> int:
    """Return how many baskets have the time of the user's basket before."""
    return ((np.diff(baskets.user_of) == 0) & (np.diff(baskets.times) == 0)).sum()
