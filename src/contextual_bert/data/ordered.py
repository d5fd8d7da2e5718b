"""Items in the order that a column gives: in lists of a row, or where rows of a group become one.

It knows neither what is kept nor what is learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text, without_value
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.instants import times_in
from contextual_bert.data.ragged import offsets_of, places_of
from contextual_bert.data.time_gaps import ItemTimes, seconds_or_numbers
from contextual_bert.errors import DataError
from contextual_bert.time_units import TimeUnit

__all__ = ["ItemOrder"]


@dataclass(frozen=True)
class ItemOrder:
    """The column by which the items of a set are put in order.

    Args:
        column: of times or numbers: one a row, where a row has one item; else lists as long as those of the items. The
            column of items itself: they stand in their order.
        date_formats: how times are written that are not ISO 8601, as strptime has it.
        blank: an item that may lack a time, such as [MASK]: it then stands behind all others.

    Example:
        >>> table = pa.table({"items": [["hat", "coat"]], "times": [[2, 1]]})
        >>> ItemOrder("times").in_lists(table, items="items").column("items").to_pylist()
        [['coat', 'hat']]
    """

    column: str
    date_formats: Sequence[str] = ()
    blank: str | None = None

    def of_rows(self, table: pa.Table, *, items: str, file: str | None = None) -> "RowTimes | None":
        """Return what puts rows of one item each in order; None: they stand in it.

        Raises:
            DataError, UnknownNameError: no such column, a missing cell, or one that is no time.
        """
        if self.column == items:
            return None
        cells = checked_column(table, self.column, file=file)
        is_last = self._blanks(checked_column(table, items, file=file)) & _without_value(cells)
        if not is_last.any():
            cells = checked_column(table, self.column, file=file, complete=True)
            times = times_in(cells, column=self.column, file=file, date_formats=self.date_formats)
            return RowTimes(times, *seconds_or_numbers(times, decoded(cells).type))
        try:
            timed = self.of_rows(table.filter(pa.array(~is_last)), items=items, file=file)
        except DataError as error:
            raise error.moved(row=_row_of(error, np.flatnonzero(~is_last))) from error
        assert timed is not None  # the column is not that of the items
        return RowTimes(_with_the_last(timed.places, is_last), _with_nan(timed.values, is_last), timed.unit)

    def faults(self, table: pa.Table, *, items: str, is_grouped: bool) -> dict[str, NDArray[np.bool_]]:
        """Return the rows without a time of an item, or with another number of times than of items: reason -> a mask.

        Args:
            table: of the file; where it lacks a column, or the cells are no lists, ``in_lists`` says so.
            items: column of items.
            is_grouped: whether a row is one item, with its time.
        """
        names = (items, self.column)
        if self.column == items or not {*names} <= {*table.column_names}:
            return {}
        own, others = (decoded(table.column(name)).combine_chunks() for name in names)
        if is_grouped:
            return {f"without a value of {self.column!r}": _without_value(others) & ~self._blanks(own)}
        if not (is_list(own.type) and is_list(others.type)):
            return {}
        found = self._beside(own, others)
        is_lacking = np.zeros(len(own), np.bool_)
        is_lacking[found.rows[found.is_missing]] = True
        return {
            f"with another number of values of {self.column!r} than of items": found.is_wrong,
            f"with a missing value of {self.column!r}": is_lacking,
        }

    def in_lists(self, table: pa.Table, *, items: str, file: str | None = None) -> pa.Table:
        """Return the table with the items of each row in order; those of one time stay as they are.

        Raises:
            DataError, UnknownNameError: no such column, no lists, a missing time, or a list of another length.
        """
        return self.with_times(table, items=items, file=file)[0]

    def with_times(self, table: pa.Table, *, items: str, file: str | None = None) -> tuple[pa.Table, ItemTimes | None]:
        """Return what ``in_lists`` gives, and the times of the items in their order; None: no column has them.

        Raises:
            DataError, UnknownNameError: as ``in_lists``.
        """
        if self.column == items:
            return table, None
        own, others = (
            decoded(checked_column(table, name, file=file)).combine_chunks() for name in (items, self.column)
        )
        for name, cells in ((self.column, others), (items, own)):
            if not is_list(cells.type):
                raise DataError(
                    f"the column is of type {cells.type}, and the order of items is given by lists beside lists of "
                    "items",
                    file=file,
                    column=name,
                    fix="Give a list a row; or, where a row is one item, --group-by; or, where items stand in their "
                    f"order, --order {items}.",
                )
        found = self._beside(own, others)
        if found.is_wrong.any():
            row = int(found.is_wrong.argmax())
            raise DataError(
                f"the list has {_sizes(others)[row]} values, and {items!r} has {_sizes(own)[row]} items",
                file=file,
                row=row,
                column=self.column,
                fix="Give one value an item.",
            )
        rows = found.rows
        if found.is_missing.any():
            raise DataError(
                "a value is missing",
                file=file,
                row=int(rows[found.is_missing.argmax()]),
                column=self.column,
                fix="Give one value an item.",
            )
        values = found.values.filter(pa.array(~found.is_last))
        try:
            times = times_in(values, column=self.column, file=file, date_formats=self.date_formats)
        except DataError as error:
            raise error.moved(row=_row_of(error, rows[~found.is_last])) from error
        order = np.lexsort((_with_the_last(times, found.is_last), rows))
        seconds, unit = seconds_or_numbers(times, decoded(values).type)
        offsets = offsets_of(_sizes(own))
        in_order = ItemTimes(_with_nan(seconds, found.is_last)[order], offsets, unit)
        if (order == np.arange(len(order))).all():
            return table, in_order
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), pc.list_flatten(own).take(pa.array(order)))
        if own.null_count:
            lists = pc.if_else(pc.is_valid(own), lists, None)
        number = table.column_names.index(items)
        return table.set_column(number, pa.field(items, lists.type), lists), in_order

    def _blanks(self, cells: Any) -> NDArray[np.bool_]:
        """Return which of some items is the blank."""
        cells = decoded(cells)
        if self.blank is None or not is_text(cells.type):
            return np.zeros(len(cells), np.bool_)
        return np.asarray(pc.fill_null(pc.equal(pc.utf8_trim_whitespace(cells), self.blank), False), np.bool_)

    def _beside(self, own: pa.Array, others: pa.Array) -> "_TimesBeside":
        """Return the times of items, of lists of both; a list may lack those of blanks at its end."""
        sizes, wanted = _sizes(others), _sizes(own)
        rows, places = np.repeat(np.arange(len(own)), wanted), places_of(wanted)
        is_blank = self._blanks(pc.list_flatten(own))
        named = np.flatnonzero(~is_blank)
        num_needed = np.zeros(len(own), np.int64)
        num_needed[rows[named]] = places[named] + 1  # the last one stays
        is_wrong = (sizes > wanted) | (sizes < num_needed)
        is_there = places < sizes[rows]
        index = offsets_of(sizes)[rows] + places
        values = pc.list_flatten(others).take(pa.array(index, mask=~is_there))
        is_absent = _without_value(values) & ~is_wrong[rows]
        return _TimesBeside(rows, values, is_wrong, is_absent & ~is_blank, is_absent & is_blank)


class RowTimes(NamedTuple):
    """What puts rows of one item each in order, and their times.

    Shapes: places and values (rows,).

    ``places``: numbers in the order of the times; ``values``: the times, NaN of a [MASK] without one; ``unit``: what
    they count.
    """

    places: NDArray[Any]
    values: NDArray[np.float64]
    unit: TimeUnit


class _TimesBeside(NamedTuple):
    """The times of the items of lists, flat.

    ``rows``: the row of each item; ``values``: its time; ``is_wrong``: the rows with too many times, or too few;
    ``is_missing``: the items that lack a time; ``is_last``: the blanks that have none.
    """

    rows: NDArray[np.int64]
    values: pa.Array
    is_wrong: NDArray[np.bool_]
    is_missing: NDArray[np.bool_]
    is_last: NDArray[np.bool_]


def _sizes(lists: pa.Array) -> NDArray[np.int64]:
    """Return the length of each list, 0 of a missing one."""
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)


def _without_value(cells: Any) -> NDArray[np.bool_]:
    return np.asarray(without_value(decoded(cells)), np.bool_)


def _with_the_last(times: NDArray[Any], is_last: NDArray[np.bool_]) -> NDArray[Any]:
    """Return places by which values with a time stand in its order, and those without one behind all of them."""
    places = np.full(len(is_last), len(is_last))
    places[~is_last] = np.unique(times, return_inverse=True)[1]
    return places


def _with_nan(times: NDArray[np.float64], is_last: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the times of all items, NaN of those without one."""
    found = np.full(len(is_last), np.nan)
    found[~is_last] = times
    return found


def _row_of(error: DataError, rows: NDArray[np.int64]) -> int | None:
    """Return the row in which the value stands that an error names by its place."""
    return int(rows[error.row]) if error.row is not None else None
