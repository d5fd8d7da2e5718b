"""Items in the order that a column gives: in lists of a row, or where rows of a group become one.

It knows neither what is kept nor what is learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.instants import times_in
from contextual_bert.errors import DataError

__all__ = ["ItemOrder"]


@dataclass(frozen=True)
class ItemOrder:
    """The column by which the items of a set are put in order.

    Args:
        column: of times or numbers: one a row, where a row has one item; else lists as long as those of the items. The
            column of items itself: they stand in their order.
        date_formats: how times are written that are not ISO 8601, as strptime has it.

    Example:
        >>> table = pa.table({"items": [["hat", "coat"]], "times": [[2, 1]]})
        >>> ItemOrder("times").in_lists(table, items="items").column("items").to_pylist()
        [['coat', 'hat']]
    """

    column: str
    date_formats: Sequence[str] = ()

    def of_rows(self, table: pa.Table, *, items: str, file: str | None = None) -> NDArray[Any] | None:
        """Return numbers by which rows of one item each are put in order; None: they stand in it.

        Raises:
            DataError, UnknownNameError: no such column, a missing cell, or one that is no time.
        """
        if self.column == items:
            return None
        cells = checked_column(table, self.column, file=file, complete=True)
        return times_in(cells, column=self.column, file=file, date_formats=self.date_formats)

    def in_lists(self, table: pa.Table, *, items: str, file: str | None = None) -> pa.Table:
        """Return the table with the items of each row in order; those of one time stay as they are.

        Raises:
            DataError, UnknownNameError: no such column, no lists, a missing time, or a list of another length.
        """
        if self.column == items:
            return table
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
        sizes, wanted = (pc.fill_null(pc.list_value_length(each), 0).to_numpy() for each in (others, own))
        if (wrong := np.flatnonzero(sizes != wanted)).size:
            row = int(wrong[0])
            raise DataError(
                f"the list has {sizes[row]} values, and {items!r} has {wanted[row]} items",
                file=file,
                row=row,
                column=self.column,
                fix="Give one value an item.",
            )
        rows, values = np.repeat(np.arange(len(own)), sizes), pc.list_flatten(others)
        if values.null_count:
            raise DataError(
                "a value is missing",
                file=file,
                row=int(rows[pc.index(pc.is_null(values), True).as_py()]),
                column=self.column,
                fix="Give one value an item.",
            )
        try:
            times = times_in(values, column=self.column, file=file, date_formats=self.date_formats)
        except DataError as error:
            raise error.moved(row=int(rows[error.row]) if error.row is not None else None) from error
        order = np.lexsort((times, rows))
        if (order == np.arange(len(order))).all():
            return table
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        items_in_order = pc.list_flatten(own).take(pa.array(order))
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), items_in_order)
        if own.null_count:
            lists = pc.if_else(pc.is_valid(own), lists, None)
        number = table.column_names.index(items)
        return table.set_column(number, pa.field(items, lists.type), lists)
