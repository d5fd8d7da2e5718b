"""Times of the items of a query: read as they were in training, and turned into the gaps that a model reads.

It knows lists of values, no item.
"""

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context.raw_values import none_if_missing, number_of
from contextual_bert.data.instants import instants
from contextual_bert.data.time_gaps import gap_ids, seconds_or_numbers
from contextual_bert.errors import DataError, QueryError, shown
from contextual_bert.inference.query_schema import TIMES
from contextual_bert.time_units import TimeUnit

if TYPE_CHECKING:
    from contextual_bert.models import ContextualBertConfig

_FIX = {
    "seconds": 'Give a time as "2016-03-05" or "2016-03-05T14:30:00", all with a zone or none; or null.',
    "numbers": "Give a number, as in training; or null.",
}


def query_gaps(
    times: Sequence[Any] | None, config: "ContextualBertConfig", *, num_items: int, row: int
) -> NDArray[np.int64] | None:
    """Return the gap of time before each item of a query, as ``gap_ids`` has it; None for a model that reads none.

    Shapes: (items,).

    Args:
        times: of the items, None where one is not known; no list: none is.
        config: of the model.
        num_items: of the query, [MASK] among them.
        row: number of the query, for messages.

    Raises:
        QueryError: times for a model that reads none, one of another kind than in training, or before an earlier one.
    """
    if config.time_gaps is None:
        if times is None:
            return None
        raise QueryError(
            "the model reads no times: its run was trained without time gaps",
            location=(row, TIMES),
            fix="Leave it out.",
        )
    numbers = np.full(num_items, np.nan)
    if times is not None:
        given = _numbers_of(times, "numbers" if config.time_gaps == "numbers" else "seconds", row=row)
        numbers[: len(given)] = given
    known = np.flatnonzero(~np.isnan(numbers))
    if (falls := np.flatnonzero(np.diff(numbers[known]) < 0)).size:
        place = int(known[falls[0] + 1])
        raise QueryError(
            "the time is before that of an item that stands in front",
            location=(row, TIMES, place),
            value=times[place] if times is not None else None,
            fix="Give the items in the order of their times.",
        )
    return gap_ids(numbers, np.array([0, num_items]))


def table_gaps(
    times: Sequence[float | None] | None, config: "ContextualBertConfig", *, num_items: int
) -> NDArray[np.int64] | None:
    """Return what ``query_gaps`` does, of times that were read as numbers and put in order with a table.

    Args:
        times: of the items; no list, or a shorter one: the others are not known.
        config: of the model.
        num_items: of the set, [MASK] among them.
    """
    if config.time_gaps is None:
        return None
    numbers = np.full(num_items, np.nan)
    numbers[: len(times or ())] = np.array(times or (), np.float64)
    return gap_ids(numbers, np.array([0, num_items]))


def _numbers_of(times: Sequence[Any], unit: TimeUnit, *, row: int) -> NDArray[np.float64]:
    """Return times as numbers, NaN where one is missing."""
    values = [none_if_missing(value) for value in times]
    places = [place for place, value in enumerate(values) if value is not None]
    found = np.full(len(values), np.nan)
    read = _number if unit == "numbers" else _moment
    parts: list[Any] = []
    for place in places:
        try:
            parts.append(read(values[place]))
        except DataError as error:
            raise QueryError(error.problem, location=(row, TIMES, place), value=times[place], fix=_FIX[unit]) from None
    if unit == "numbers" or not places:
        found[places] = parts
        return found
    try:
        moments, _ = instants(pa.array(parts, pa.string()), column=TIMES)
    except DataError as error:
        place = places[error.row or 0]
        raise QueryError(error.problem, location=(row, TIMES, place), value=times[place], fix=_FIX[unit]) from None
    found[places] = seconds_or_numbers(moments, pa.string())[0]
    return found


def _number(value: Any) -> float:
    if isinstance(value, datetime.date | bool):
        raise DataError(f"{shown(value)} is no number, and the run was trained with numbers for times")
    return number_of(value)


def _moment(value: Any) -> str:
    if not isinstance(value, str | datetime.date):
        raise DataError(f"{shown(value)} is no time, and the run was trained with dates or timestamps")
    return value if isinstance(value, str) else value.isoformat()
