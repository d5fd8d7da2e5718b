"""Parts of a split that follow each other in time for each customer: then customers are in several of them on purpose.

So it is where each customer's newest sets are held out, as ``histories`` does. It judges columns, and knows no schema.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text, value_type, without_value
from contextual_bert.data.instants import times_in
from contextual_bert.errors import DataError

__all__ = ["column_of_parts_in_time"]

_FEWEST_OF_NUMBERS = 20  # customers, in fewer of whom numbers may rise by chance


def column_of_parts_in_time(table: pa.Table, customers: NDArray[np.int64], parts: NDArray[np.int64]) -> str | None:
    """Return a column by whose times each customer's rows of a part come before those of the next; None where none is.

    Times are dates, or numbers. Of a list the newest counts. Rows of two parts may have the same time, but not of most
    customers.

    Args:
        table: one row a set or text.
        customers: number of the customer of each row.
        parts: number of the part of each row, in the order in which parts follow each other.

    Example:
        >>> table = pa.table({"day": ["2024-01-01", "2024-01-02"], "age": [34, 34]})
        >>> column_of_parts_in_time(table, np.array([0, 0]), np.array([0, 2]))
        'day'
    """
    order = np.lexsort((parts, customers))
    for name in table.column_names:
        cells = decoded(table.column(name)).combine_chunks()
        kind = value_type(cells.type.value_type if is_list(cells.type) else cells.type)
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (is_number or is_text(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            continue
        times = _newest(cells, column=name)
        if times is None:
            continue
        own = order[times[order] >= 0]
        owner, part, time = customers[own], parts[own], times[own]
        if not len(own):
            continue
        # Each part of a customer is a run of rows: its oldest time beside the newest of the run before.
        starts = np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(part, prepend=-1) != 0))
        oldest, newest = np.minimum.reduceat(time, starts), np.maximum.reduceat(time, starts)
        follows = owner[starts][1:] == owner[starts][:-1]
        steps = (oldest[1:] - newest[:-1])[follows]
        needed = _FEWEST_OF_NUMBERS if is_number else 1
        if len(steps) >= needed and (steps >= 0).all() and 2 * np.count_nonzero(steps) > len(steps):
            return name
    return None


def _newest(cells: Any, *, column: str) -> NDArray[np.int64] | None:
    """Return the rank of the newest time of each cell, -1 where it has none; None where the cells are no times."""
    rows, values = np.arange(len(cells)), cells
    if is_list(cells.type):
        sizes = pc.fill_null(pc.list_value_length(cells), 0).to_numpy().astype(np.int64)
        rows, values = np.repeat(np.arange(len(cells)), sizes), decoded(pc.list_flatten(cells))
    is_there = ~np.asarray(without_value(values), np.bool_)
    values, rows = values.filter(pa.array(is_there)), rows[is_there]
    newest = np.full(len(cells), -1)
    try:
        times_in(values.slice(0, 1), column=column)  # most texts are no times at first sight
        times = times_in(values, column=column)
    except DataError:
        return None
    np.maximum.at(newest, rows, np.unique(times, return_inverse=True)[1])
    return newest
