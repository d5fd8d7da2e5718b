"""Long tables, with one item a row, to tables with one set a row: the rows of an order become its set.

Groups stand in the order of their first rows. It decides neither which items are kept nor what is a context.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, without_value
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.checked_columns import checked_column, flatten_items, missed_separators, odd_keys
from contextual_bert.data.column_codes import codes_of
from contextual_bert.data.ordered import ItemOrder
from contextual_bert.data.ragged import offsets_of
from contextual_bert.data.read_settings import OnBadRow
from contextual_bert.data.time_gaps import ItemTimes
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, UnknownNameError
from contextual_bert.nouns import agreeing, counted
from contextual_bert.places import TablePlace, place_of_row

__all__ = [
    "AMOUNT",
    "SLIPS",
    "Groups",
    "OrderedItems",
    "ValueRows",
    "group_rows",
    "placing",
    "separator_of_cells",
    "value_rows",
]

SLIPS = 0.01  # of the groups of several rows: a column that varies in fewer has slips
_MOST_RETURNS = 0.5  # of the rows
# Names of columns that say how many of an item were bought, or for how much.
AMOUNT = re.compile(
    r"(?i)(^|[^a-z])(quantity|qty|count|units?|pieces|amount|price|sales|revenue|total|menge|anzahl|stück|stueck|preis"
    r"|betrag|umsatz)"
)
_DEFAULT_SEPARATOR = ","  # of a recipe that names none: where rows are grouped, a cell is one item


@dataclass(frozen=True, eq=False)
class Groups:
    """A long table as one row a group.

    Args:
        table: one row a group: the items as lists, and the columns that have one value in each group.
        by: the columns that name a group.
        first_rows: the row of the long table in which each group begins.
        left_out: column -> why it is not in ``table``.
        num_rows: rows of the long table.
        num_without_item: rows whose cell of items is empty.
        num_broken: rows that were left out, for an item of theirs is missing or empty.
        remarks: what should be looked at, as sentences.
        times: of the items, where a column with them puts these in order.

    Relation to its siblings: `group_rows` makes it; `read_sets` reads its table.

    Example:
        >>> long = pa.table({"order": [1, 2, 1], "item": ["coat", "hat", "bag"], "age": [30, 41, 30]})
        >>> group_rows(long, ["order"], items="item").table.to_pylist()
        [{'order': 1, 'item': ['coat', 'bag'], 'age': 30}, {'order': 2, 'item': ['hat'], 'age': 41}]
    """

    table: pa.Table
    by: tuple[str, ...]
    first_rows: NDArray[np.int64]
    left_out: Mapping[str, str]
    num_rows: int
    num_without_item: int = 0
    num_broken: int = 0
    remarks: tuple[str, ...] = ()
    times: ItemTimes | None = None

    def name(self, group: int) -> str:
        """The group in words, such as "order '17'"."""
        cells = [f"{column} {str(self.table[column][group].as_py())!r}" for column in self.by]
        return ", ".join(cells)

    def lines(self) -> list[str]:
        """Return sentences on what was grouped and left out."""
        keys = " and ".join(map(repr, self.by))
        found = [f"{counted(self.num_rows, 'row')} grouped by {keys} into {counted(self.table.num_rows, 'set')}"]
        if self.num_without_item:
            found.append(f"rows without an item: {self.num_without_item:,}")
        if self.num_broken:
            found.append(f"rows left out as broken: {self.num_broken:,} with a missing or empty item")
        found += [f"column {column!r} left out: {reason}" for column, reason in self.left_out.items()]
        return [*found, *self.remarks]

    @contextmanager
    def placed(self) -> Generator[None]:
        """Let errors about a row of ``table`` name the group, and the row of the long table in which it begins.

        Raises:
            DataError, SchemaError, UnknownNameError: what came, with its place or the reason why a column is missing.
        """
        try:
            yield
        except DataError as error:
            if error.row is None or not 0 <= error.row < len(self.first_rows):
                raise
            group, row = f"{self.name(error.row)}:", int(self.first_rows[error.row])
            raise error.about(group).moved(row=row) from error
        except (SchemaError, UnknownNameError) as error:
            lacking = error.place.lacking if isinstance(error.place, TablePlace) else ()
            reasons = [
                f"The column {name!r} was left out: {reason}."
                for name, reason in self.left_out.items()
                if name in lacking
            ]
            if not reasons:
                raise
            raise error.further(" ".join(reasons)) from error


class OrderedItems(NamedTuple):
    """A column of items, and the column that puts the items of a group in order."""

    items: str
    order: ItemOrder


def placing(groups: Groups | None) -> AbstractContextManager[None]:
    """Let errors about a row name its group, where rows were grouped."""
    return groups.placed() if groups is not None else nullcontext()


def group_rows(
    table: pa.Table,
    by: Sequence[str],
    *,
    items: str | OrderedItems,
    separator: str | None = None,
    needed: Sequence[str] = (),
    context: Sequence[str] = (),
    file: str | None = None,
    on_bad_row: OnBadRow = "error",
) -> Groups:
    """Put the rows of each group together: their items become one set.

    Other columns must have one value in each group. An empty cell says nothing: the group has the value of its other
    rows. A column that varies describes the item and not the group: it is left out with its reason, or is an error
    where it is needed. Where it varies in at most one in a hundred of the groups of several rows, these are slips: the
    value is missing there, and a remark says so.

    Args:
        table: one item a row.
        by: columns that name a group; no cell of them may be missing. Their values may stand apart.
        items: column of items, and what puts them in order, if anything but the table does. An empty cell holds none.
        separator: what stands between several items of a cell; None: a cell is one item.
        needed: columns that may not vary, such as the customer and the time.
        context: columns that may not be left out. They vary in slips at most.
        file: path of the table, for messages.
        on_bad_row: a row with a missing or empty item among several is an "error", or is left out ("drop") and counted.

    Raises:
        ConfigurationError: no column, or the column of items, to group by.
        UnknownNameError: a column that the table does not have.
        DataError: a missing cell in ``by``, a column of ``needed`` that varies, or a faulty item, with its row.

    Example:
        >>> found = group_rows(pa.table({"o": ["x", "x"], "item": ["a", "b"], "price": [1, 2]}), ["o"], items="item")
        >>> found.left_out["price"]
        'it varies within 1 of 1 groups, and describes the item'
    """
    items, item_order = (items, None) if isinstance(items, str) else items
    if not by or items in by:
        raise ConfigurationError(
            f"The rows are to be grouped by {', '.join(map(repr, by)) or 'no column'}",
            fix=f"Name a column that says which set a row belongs to, and not the column of items ({items!r}).",
        )
    group_of = _group_of(table, by, file=file)
    num_groups = int(group_of.max()) + 1
    # Groups are numbered by their first rows, so that a group begins where the largest number so far rises.
    first_rows = np.flatnonzero(np.diff(np.maximum.accumulate(group_of), prepend=-1))

    column = checked_column(table, items, file=file)
    flat = flatten_items(column, items=items, separator=separator, file=file, is_dropping=on_bad_row == "drop")
    own = group_of[flat.rows]
    times = item_order.of_rows(table, items=items, file=file) if item_order is not None else None
    order = np.argsort(own, kind="stable") if times is None else np.lexsort((times.places[flat.rows], own))
    offsets = offsets_of(np.bincount(own, minlength=num_groups))
    item_times = None
    if times is not None:
        item_times = ItemTimes(times.values[flat.rows][order], offsets, times.unit)
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), flat.names.take(pa.array(flat.codes[order])))

    kept, left_out, slips = dict[str, pa.ChunkedArray](), dict[str, str](), list[str]()
    num_several = int((np.bincount(group_of) > 1).sum())
    for name in table.column_names:
        if name == items:
            kept[name] = pa.chunked_array([lists])
            continue
        cells = checked_column(table, name, file=file)
        slips += _returns_in(name, cells, file=file)
        if name in by:
            kept[name] = cells.take(pa.array(first_rows))
            keys = canonical_array(kept[name]).unique()
            slips += [f"warning: {told}" for told in odd_keys(keys, column=name, each="a group")]
            continue
        own_values = value_rows(cells, group_of, first_rows)
        varying = own_values.varying
        if len(varying):
            row = int(varying[0])
            num_varying = int((np.bincount(group_of[varying]) > 0).sum())
            group = ", ".join(f"{each} {str(table[each][row].as_py())!r}" for each in by)
            if name in needed or (name in context and num_varying > SLIPS * num_several):
                values = [cells[index].as_py() for index in (int(own_values.rows[group_of[row]]), row)]
                shown = " and ".join(f"{value!r:.40}" for value in values)
                raise DataError(
                    f"{group} has several values, such as {shown} "
                    f"({num_varying:,} of {counted(num_groups, 'group')} {agreeing('do', num_varying)})",
                    file=file,
                    row=row,
                    column=name,
                    fix="A column that is read for a whole group needs one value in all of its rows. Correct "
                    "the cells, or leave the column out.",
                )
            # Without a value: what was left out stands in the model's card.
            if num_varying > SLIPS * num_several:
                left_out[name] = f"it varies within {num_varying:,} of {num_groups:,} groups, and describes the item"
                continue
            slips.append(
                f"warning: column {name!r} has several values in {num_varying:,} of {num_groups:,} groups, and is "
                f"missing there: {group} is the first. Correct these cells"
            )
        if own_values.num_filled:
            slips.append(
                f"column {name!r}: {counted(own_values.num_filled, 'group')} {agreeing('have', own_values.num_filled)} "
                "empty cells beside a value, filled with the value"
            )
        kept[name] = cells.take(pa.array(own_values.rows, mask=own_values.is_missing))
    num_broken = len(flat.bad_rows)
    num_without_item = int((np.bincount(flat.rows, minlength=table.num_rows) == 0).sum()) - num_broken
    remarks = missed_separators(column) if separator is None else []
    fields = [table.schema.field(name) if name != items else pa.field(name, lists.type) for name in kept]
    grouped = pa.table(kept, schema=pa.schema(fields, metadata=table.schema.metadata))
    counts, told = (table.num_rows, num_without_item, num_broken), (*slips, *remarks)
    return Groups(grouped, tuple(by), first_rows, left_out, *counts, told, item_times)


def _returns_in(name: str, cells: pa.ChunkedArray, *, file: str | None) -> list[str]:
    """Return a warning where a quantity or a price is negative in some rows: their items were returned, not bought."""
    kind = cells.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not is_number or AMOUNT.search(name) is None:
        return []
    is_negative = pc.fill_null(pc.less(cells.cast(pa.float64(), safe=False), 0), False)
    count = pc.sum(is_negative, min_count=0).as_py()
    if not 0 < count <= _MOST_RETURNS * len(cells):
        return []
    first = place_of_row(pc.index(is_negative, True).as_py(), file)
    return [
        f"warning: column {name!r} is negative in {counted(count, 'row')} ({first} is the first), and the items count "
        "as chosen. If they were returned, leave these rows out of the file"
    ]


class ValueRows(NamedTuple):
    """The row that has the value of each group, in one column.

    ``rows``: that row; ``is_missing``: the groups without one value; ``varying``: rows with another value than the
    first filled cell of their group; ``num_filled``: groups in which some cells are empty and others are not.
    """

    rows: NDArray[np.int64]
    is_missing: NDArray[np.bool_]
    varying: NDArray[np.int64]
    num_filled: int


def value_rows(cells: pa.ChunkedArray, group_of: NDArray[np.int64], first_rows: NDArray[np.int64]) -> ValueRows:
    """Find the value of each group, which is that of its first cell that is not empty."""
    codes, rows = codes_of(cells), first_rows.copy()
    is_filled = ~np.asarray(without_value(decoded(cells)), np.bool_)
    filled = np.flatnonzero(is_filled)
    owners, places = np.unique(group_of[filled], return_index=True)
    rows[owners] = filled[places]
    has_value = np.zeros(len(rows), np.bool_)
    has_value[owners] = True
    varying = filled[codes[filled] != codes[rows[group_of[filled]]]]
    is_missing = ~has_value & ~is_filled[rows]
    is_missing[group_of[varying]] = True
    with_gap = np.unique(group_of[~is_filled])
    num_filled = int((has_value[with_gap] & ~is_missing[with_gap]).sum())
    return ValueRows(rows, is_missing, varying, num_filled)


def separator_of_cells(separator: str) -> str | None:
    """Return the separator of items in a cell of a grouped table. None means that a cell is one item.

    Example:
        >>> separator_of_cells(","), separator_of_cells(";")
        (None, ';')
    """
    return None if separator == _DEFAULT_SEPARATOR else separator


def _group_of(table: pa.Table, by: Sequence[str], *, file: str | None) -> NDArray[np.int64]:
    """The number of each row's group, counted by first rows."""
    combined = np.zeros(0, dtype=np.int64)
    for name in by:
        cells = checked_column(table, name, file=file, complete=True)
        names = canonical_array(cells, file=file, column=name)
        empty = pc.index(pc.equal(names, ""), True).as_py()
        if empty >= 0:
            raise DataError(
                "the cell is empty", file=file, row=empty, column=name, fix="Each row needs the name of its group."
            )
        codes = names.dictionary_encode().indices.to_numpy().astype(np.int64)
        combined = combined * (int(codes.max()) + 1) + codes if len(combined) else codes
        # Numbers without a gap, so that the next product stays small.
        combined = pa.array(combined).dictionary_encode().indices.to_numpy().astype(np.int64)
    return combined
