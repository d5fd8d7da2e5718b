"""A table and the name of its items column become sets: one flat array of items, with a report of what was dropped.

Items are strings whatever the file held (3, 3.0 and "3" are one item). `LeftOut` counts those that were bought and
that no set holds any more: rare ones, and those of sets that were left out or cut. The meaning of the other columns
is not known here, and ids are the vocabulary's. Whole columns at once.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from contextual_bert.arrow_types import without_views
from contextual_bert.context.spelling import alike_warning, spelt, spelt_start
from contextual_bert.data.checked_columns import (
    Flat,
    check_separator,
    checked_column,
    flatten_items,
    guessed_group,
    missed_separators,
    odd_names,
    quantities_in,
    totals_in,
)
from contextual_bert.data.hashing import hash_counters
from contextual_bert.data.policies import ReadReport, SetPolicy
from contextual_bert.data.ragged import flat_index, offsets_of
from contextual_bert.data.read_settings import OnBadRow
from contextual_bert.data.reading_notes import reading_lines
from contextual_bert.data.time_gaps import ItemTimes
from contextual_bert.errors import ConfigurationError, DataError, Message
from contextual_bert.frames import Frame, as_table


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Number of items left out of each row, for the rows that lost one.

    Shapes: every column is (rows,).

    Args:
        rows: of the table, ascending.
        num_rare: items that are seen too seldom in the rows that count, or not at all.
        num_of_sets: the other items, of sets that the limits of the size leave out or cut.
        customers: of the rows, None where no column names them.

    Example:
        >>> left = LeftOut(np.array([0, 4]), np.array([1, 0]), np.array([0, 3]))
        >>> left.of_rows(np.array([4, 5])).num_of_sets.tolist()
        [3]
    """

    rows: NDArray[np.int64]
    num_rare: NDArray[np.int64]
    num_of_sets: NDArray[np.int64]
    customers: pa.ChunkedArray | None = None

    def of_rows(self, rows: NDArray[np.int64]) -> Self:
        """Return what was left out of these rows of the table."""
        kept = np.isin(self.rows, rows)
        customers = self.customers.filter(pa.array(kept)) if self.customers is not None else None
        return type(self)(self.rows[kept], self.num_rare[kept], self.num_of_sets[kept], customers)


@dataclass(frozen=True, eq=False)
class SetTable:
    """The sets of a table, with the rows they came from.

    Shapes: values (items of all sets), offsets (sets + 1), rows (sets).

    Args:
        values: the items of all sets, one set after the other.
        offsets: set i is `values[offsets[i] : offsets[i + 1]]`.
        rows: the row of the table that was read, for each set: the example id.
        table: the rows that were kept, with all their columns.
        report: what was dropped when the table was read.
        items: name of the items column.
        customer: name of the column that says whose set it is, if there is one.
        time: name of the column that says when, if there is one.
        left_out: the items of all rows that no set holds any more.
        separator: what stands between the items where a cell of the table is one text.
        places: the place of each item in its row as that was read, (items of all sets,).
        times: of the items, for models that read how much time passed between them; None: nothing says them.

    Example:
        >>> sets = read_sets(pa.table({"items": [["b", "a"], [], ["c"]]}), items="items", policy=SetPolicy())
        >>> len(sets), sets.sizes.tolist(), sets.rows.tolist(), sets.values.to_pylist()
        (2, [2, 1], [0, 2], ['b', 'a', 'c'])
    """

    named: ClassVar[str] = "items"

    values: pa.Array
    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    table: pa.Table
    report: ReadReport
    items: str
    customer: str | None = None
    time: str | None = None
    left_out: LeftOut | None = None
    separator: str = ","
    places: NDArray[np.int64] | None = None
    times: ItemTimes | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items of each set."""
        return np.diff(self.offsets)

    @property
    def num_rows_in(self) -> int:
        """Number of rows of the table that was read."""
        return self.report.rows_in

    @property
    def names(self) -> pa.Array:
        """The items of all sets, whose shares are compared between parts."""
        return self.values

    def lines(self) -> list[str]:
        """Return sentences on what was kept and dropped when the table was read."""
        return self.report.lines()

    def select(self, chosen: ArrayLike) -> Self:
        """Some of the sets, by a mask or by their indices, in that order. The report stays that of the whole table.

        So does ``left_out``, which has the rows of no set, too.
        """
        index = np.asarray(chosen)
        index = np.flatnonzero(index) if index.dtype == np.bool_ else index.astype(np.int64)
        flat = flat_index(self.offsets, index)
        return replace(
            self,
            values=self.values.take(pa.array(flat)),
            offsets=offsets_of(self.sizes[index]),
            rows=self.rows[index],
            table=self.table.take(pa.array(index)),
            places=self.places[flat] if self.places is not None else None,
            times=self.times.select(index) if self.times is not None else None,
        )

    def with_times(self, times: ItemTimes | None) -> Self:
        """Return the same sets, given the times of all items of the table that was read."""
        if times is None or self.places is None:
            return self
        return replace(self, times=times.at(np.repeat(self.rows, self.sizes), self.places, self.offsets))

    def distinct_items(self) -> list[str]:
        """Every item that occurs, sorted: what a vocabulary is made of."""
        return sorted(self.values.unique().to_pylist())


def read_sets(
    table: Frame,
    *,
    items: str,
    policy: SetPolicy,
    file: str | None = None,
    customer: str | None = None,
    time: str | None = None,
    count_rows: ArrayLike | None = None,
    on_bad_row: OnBadRow = "error",
) -> SetTable:
    """Read the sets of a table under a policy.

    Args:
        table: from `read_table`, or a table in memory as ``frames.as_table`` takes it.
        items: name of the items column: lists, or strings in which the policy's separator stands between the items.
        policy: which items and sets are kept.
        file: path of the table, for messages.
        customer: column that says whose set a row is; no cell may be missing.
        time: column that says when; no cell may be missing.
        count_rows: the rows (a mask or indices) in which `min_count` counts: those of the training part, so that
            the other parts have no say in the vocabulary. Default: all.
        on_bad_row: a row with a missing or empty item is an "error", or is left out ("drop") and counted.

    Raises:
        UnknownNameError: a column that the table does not have.
        DataError: a missing or empty item, an item twice under the policy "error", or no set is left.

    Example:
        >>> table = pa.table({"items": ["coat, hat", "coat", None]})
        >>> print(*read_sets(table, items="items", policy=SetPolicy(min_size=2)).report.lines(), sep="\\n")
        1 set of 3 rows kept (33.3%), 2 distinct items, 2.00 items a set (2 to 2)
        rows dropped: 1 empty in the table, 1 with fewer than 2 items
    """
    table = without_views(as_table(table))
    for name in (customer, time):
        if name is not None:
            checked_column(table, name, file=file, complete=True)
    column = checked_column(table, items, file=file)
    check_separator(column, items=items, separator=policy.separator, file=file, table=table)
    flat = flatten_items(column, items=items, separator=policy.separator, file=file, is_dropping=on_bad_row == "drop")
    num_rows = table.num_rows
    sizes_in = np.bincount(flat.rows, minlength=num_rows)
    dropped: Counter[str] = Counter()

    kept = flat.select(_named_items(flat, policy, dropped))
    repeats = _repeats(kept)
    repeated = kept.rows[repeats]
    if len(repeated) and policy.duplicates == "error":
        _raise_duplicate(kept, repeats, items, file)
    if policy.duplicates == "drop":
        dropped["repeated in their set"] = len(repeated)
        kept = kept.select(~repeats)
    asked_sizes = np.bincount(kept.rows, minlength=num_rows)
    counting = np.isin(kept.rows, _row_numbers(count_rows, num_rows))
    if policy.cold_items:
        is_cold = pc.is_in(kept.names, value_set=pa.array(policy.cold_items)).to_numpy(zero_copy_only=False)
        is_warm = ~(is_cold[kept.codes] & counting)
        dropped["cold, left out of the training part"] = int((~is_warm).sum())
        kept, counting = kept.select(is_warm), counting[is_warm]
    frequent = np.bincount(kept.codes[counting], minlength=len(kept.names)) >= policy.min_count
    if policy.known_items:
        is_known = pc.is_in(kept.names, value_set=pa.array(policy.known_items))
        frequent |= is_known.to_numpy(zero_copy_only=False)
    rare = f"seen fewer than {policy.min_count} times" if policy.min_count > 1 else "not in the training part"
    is_kept = frequent[kept.codes] | (~counting & policy.keeps_new)
    if policy.keeps_last:
        is_kept |= ~counting & (np.diff(kept.rows, append=-1) != 0)
    dropped[rare] = int((~is_kept).sum())
    rare_sizes = np.bincount(kept.rows[~is_kept], minlength=num_rows)
    kept = kept.select(is_kept)

    sizes = np.bincount(kept.rows, minlength=num_rows)
    longer = sizes > (policy.max_size if policy.max_size is not None else np.iinfo(np.int64).max)
    is_bad = np.isin(np.arange(num_rows), flat.bad_rows)
    reasons = {
        "with a missing or empty item": is_bad,
        "empty in the table": (sizes_in == 0) & ~is_bad,
        "empty after the item filters": (sizes == 0) & (sizes_in > 0),
        f"with fewer than {policy.min_size} items": (sizes > 0) & (sizes < policy.min_size),
        f"with more than {policy.max_size} items": longer & (policy.longer == "drop"),
    }
    rows = np.flatnonzero(~np.logical_or.reduce(list(reasons.values())))
    kept = kept.select(np.isin(kept.rows, rows, kind="table"))
    if policy.longer != "drop":
        chosen = _sample(kept, longer, policy)
        reason = "not in the sample of their set" if policy.longer == "sample" else "older than the newest of their set"
        dropped[reason] = int((~chosen).sum())
        kept = kept.select(chosen)
    kept_sizes = np.bincount(kept.rows, minlength=num_rows)
    sizes = kept_sizes[rows]
    distinct = flat.names.take(pa.array(np.unique(kept.codes)))
    report = ReadReport(
        rows_in=num_rows,
        rows_kept=len(rows),
        rows_dropped={reason: int(mask.sum()) for reason, mask in reasons.items() if mask.any()},
        items_in=len(flat.codes),
        items_kept=len(kept.codes),
        items_dropped={rule: count for rule, count in dropped.items() if count},
        num_distinct=len(np.unique(kept.codes)),
        smallest=int(sizes.min(initial=len(flat.codes))),
        largest=int(sizes.max(initial=0)),
        repeated_items=len(repeated),
        sets_with_repeats=len(np.unique(repeated)),
        sets_sampled=int(longer.sum()) if policy.longer != "drop" else 0,
        unused=_unused(flat.names, policy),
        reading=tuple(reading_lines(table)),
        remarks=(
            *missed_separators(column, separator=policy.separator),
            *quantities_in(distinct),
            *totals_in(kept),
            *odd_names(distinct, what="the items", each="an item"),
            *alike_warning(_names_of(kept), what="the items", each="an item"),
        ),
    )
    has_single_items = num_rows > 1 and int(sizes_in.max(initial=0)) == 1
    if len(rows) == 0:
        raise DataError(
            "; ".join(report.lines()),
            file=file,
            column=items,
            fix=_grouping_advice(table, items)
            if has_single_items
            else "Loosen the item filters or the limits of the set size.",
        )
    if has_single_items:
        single = f"warning: every set has one item, so no set says what goes together. {_grouping_advice(table, items)}"
        report = replace(report, remarks=(*report.remarks, single))
    return SetTable(
        values=flat.names.take(pa.array(kept.codes)),
        offsets=offsets_of(sizes),
        rows=rows,
        table=table.take(pa.array(rows)),
        report=report,
        items=items,
        customer=customer,
        time=time,
        left_out=_left_out(asked_sizes - kept_sizes, rare_sizes, table.column(customer) if customer else None),
        separator=policy.separator,
        places=kept.places,
    )


def _left_out(missing: NDArray[np.int64], rare: NDArray[np.int64], customers: pa.ChunkedArray | None) -> LeftOut:
    """The rows that lost items, of the number that each lost and of the rare ones among them."""
    rows = np.flatnonzero(missing)
    whose = customers.take(pa.array(rows)) if customers is not None else None
    return LeftOut(rows, rare[rows], (missing - rare)[rows], whose)


def _names_of(kept: Flat) -> list[str]:
    """The names of the items that were kept, sorted."""
    return sorted(kept.names.take(pa.array(np.unique(kept.codes))).to_pylist())


def _grouping_advice(table: pa.Table, items: str) -> str:
    """Return advice for a table whose rows have one item each."""
    guess = guessed_group(table, items=items)
    column = guess if guess is not None else "COLUMN"
    return (
        f"Where each row is one item of a longer set, give --group-by {column}, the column that names the set (in "
        f"Python SetCompletion(group_by={column!r})); where a cell holds several items, give --separator."
    )


def _named_items(flat: Flat, policy: SetPolicy, dropped: Counter[str]) -> NDArray[np.bool_]:
    """Which items of the flat array the policy's names and prefixes leave."""
    names = [spelt(item) for item in policy.drop_items]
    by_name = _mask(pc.is_in(flat.names, value_set=pa.array(names, pa.string())))
    by_prefix = np.zeros(len(flat.names), dtype=np.bool_)
    for prefix in map(spelt_start, policy.drop_prefixes):
        by_prefix |= _mask(pc.starts_with(flat.names, prefix))
    by_prefix &= ~by_name
    dropped["by name"] = int(by_name[flat.codes].sum())
    dropped["by prefix"] = int(by_prefix[flat.codes].sum())
    return ~(by_name | by_prefix)[flat.codes]


def _unused(names: pa.Array, policy: SetPolicy) -> tuple[str, ...]:
    """Return the names in the policy that no set holds."""
    missing = [item for item in policy.drop_items if not pc.any(pc.equal(names, spelt(item))).as_py()]
    return (
        *missing,
        *(
            f"{prefix}..."
            for prefix in policy.drop_prefixes
            if not pc.any(pc.starts_with(names, spelt_start(prefix))).as_py()
        ),
    )


def _mask(array: pa.Array) -> NDArray[np.bool_]:
    return array.to_numpy(zero_copy_only=False).astype(np.bool_)


def _repeats(flat: Flat) -> NDArray[np.bool_]:
    """Which items stood earlier in the same set."""
    key = flat.rows * max(1, len(flat.names)) + flat.codes
    order = np.argsort(key, kind="stable")
    repeats = np.zeros(len(key), dtype=np.bool_)
    repeats[order[1:]] = np.diff(key[order]) == 0
    return repeats


def _raise_duplicate(flat: Flat, repeats: NDArray[np.bool_], items: str, file: str | None) -> None:
    first = int(np.flatnonzero(repeats)[0])
    raise DataError(
        f"the item {flat.names[int(flat.codes[first])].as_py()!r} occurs more than once in the set "
        f"({int(repeats.sum()):,} such items in {len(np.unique(flat.rows[repeats])):,} rows)",
        file=file,
        row=int(flat.rows[first]),
        column=items,
        fix=Message("Remove it. Or give {duplicates}, which keeps the first one, or 'keep'.", duplicates="drop"),
    )


def _row_numbers(count_rows: ArrayLike | None, num_rows: int) -> NDArray[np.int64]:
    if count_rows is None:
        return np.arange(num_rows)
    rows = np.asarray(count_rows)
    if rows.dtype == np.bool_:
        if len(rows) != num_rows:
            raise ConfigurationError(
                f"count_rows is a mask of {len(rows):,} rows, the table has {num_rows:,}", fix="Give one value a row."
            )
        return np.flatnonzero(rows)
    rows = rows.astype(np.int64)
    if len(rows) and (rows.min() < 0 or rows.max() >= num_rows):
        raise ConfigurationError(
            f"count_rows goes from {rows.min()} to {rows.max()}",
            fix=f"Give rows of the table, from 0 to {num_rows - 1}.",
        )
    return rows


def _sample(flat: Flat, longer: NDArray[np.bool_], policy: SetPolicy) -> NDArray[np.bool_]:
    """Keep max_size items of each longer set: the last, or those with the smallest hash of (seed, row, place)."""
    keep = np.ones(len(flat.codes), dtype=np.bool_)
    candidates = np.flatnonzero(longer[flat.rows])
    rows = flat.rows[candidates]
    places = flat.places[candidates]
    keys = hash_counters(policy.seed, rows, places) if policy.longer == "sample" else -places
    order = np.lexsort((keys, rows))
    starts = np.searchsorted(rows[order], rows[order], side="left")
    keep[candidates[order]] = np.arange(len(order)) - starts < (policy.max_size or 0)
    return keep
