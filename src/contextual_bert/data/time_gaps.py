"""Time gaps of sequences: how much time passed before each item, as ids of logarithmic bins.

It knows times and lengths of sequences, no item and no model.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_text
from contextual_bert.data.ragged import flat_index, offsets_of
from contextual_bert.errors import DataError
from contextual_bert.time_units import UNKNOWN_GAP, TimeUnit

__all__ = ["NUM_GAPS", "ItemTimes", "check_unit", "gap_ids", "seconds_or_numbers"]

NUM_GAPS = 64  # ids in all; the last bin begins at 2^61, which is 73 years where numbers count nanoseconds
_SAME_TIME = 1
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_OF_DAY = 86400.0
_LONGEST = 2.0**62


@dataclass(frozen=True, eq=False)
class ItemTimes:
    """The time of each item of sequences.

    Shapes: values (items of all sequences,), offsets (sequences + 1,).

    Args:
        values: NaN where no time is given.
        offsets: sequence i has `values[offsets[i] : offsets[i + 1]]`.
        unit: "seconds" of dates and timestamps; "numbers", whatever the numbers of a column count.

    Example:
        >>> times = ItemTimes(np.array([5.0, 7, 8]), np.array([0, 2, 3]), "seconds")
        >>> times.at(np.array([0, 1]), np.array([1, 0]), np.array([0, 1, 2])).values.tolist()
        [7.0, 8.0]
    """

    values: NDArray[np.float64]
    offsets: NDArray[np.int64]
    unit: TimeUnit

    def at(self, rows: NDArray[np.int64], places: NDArray[np.int64], offsets: NDArray[np.int64]) -> "ItemTimes":
        """Return the times of some items, as sequences of their own.

        Args:
            rows: the sequence of each item.
            places: its place in that sequence.
            offsets: of the new sequences.
        """
        return ItemTimes(self.values[self.offsets[rows] + places], offsets, self.unit)

    def select(self, rows: NDArray[np.int64]) -> "ItemTimes":
        """Return the times of some sequences, in that order."""
        sizes = np.diff(self.offsets)[rows]
        return ItemTimes(self.values[flat_index(self.offsets, rows)], offsets_of(sizes), self.unit)

    def gaps(self) -> NDArray[np.int64]:
        """Return ``gap_ids`` of the times."""
        return gap_ids(self.values, self.offsets)


def gap_ids(times: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bin of the time that passed before each item.

    Formula: 0 where t_i or t_(i-1) is not known, and of the first item; 1 where t_i = t_(i-1); else
        2 + floor(log2(1 + t_i - t_(i-1))), at most NUM_GAPS - 1

    Shapes: times (items of all sequences,), offsets (sequences + 1,) -> (items of all sequences,).

    Args:
        times: in the order of the items; NaN where no time is given.
        offsets: sequence i has `times[offsets[i] : offsets[i + 1]]`.

    Example:
        >>> gap_ids(np.array([10.0, 10, 11, 3611, np.nan, 9]), np.array([0, 5, 6])).tolist()
        [0, 1, 3, 13, 0, 0]
    """
    passed = np.diff(times, prepend=np.nan)
    passed[offsets[:-1][np.diff(offsets) > 0]] = np.nan
    is_known = ~np.isnan(passed)
    bins = np.full(len(times), UNKNOWN_GAP, dtype=np.int64)
    later = np.floor(np.log2(1 + np.clip(passed[is_known], 0, _LONGEST))).astype(np.int64) + _SAME_TIME + 1
    bins[is_known] = np.where(passed[is_known] <= 0, _SAME_TIME, np.minimum(later, NUM_GAPS - 1))
    return bins


def check_unit(times: ItemTimes | None, config: Any, *, file: str | None, column: str | None) -> None:
    """Raise DataError where the times of a table count something else than those that a model was trained with.

    Args:
        times: of the table; None: none are read.
        config: of the model; one without ``time_gaps`` reads none.
        file, column: that have the times, for messages.
    """
    trained: TimeUnit | None = getattr(config, "time_gaps", None)
    if times is None or trained is None or times.unit == trained:
        return
    words = {"seconds": "dates or timestamps", "numbers": "numbers"}
    raise DataError(
        f"the column has {words[times.unit]} for times, and the run was trained with {words[trained]}",
        file=file,
        column=column,
        fix="Give the times as in training.",
    )


def seconds_or_numbers(times: NDArray[Any], kind: pa.DataType) -> tuple[NDArray[np.float64], TimeUnit]:
    """Return times as seconds, where they are dates or timestamps, else the numbers that they are; and which they are.

    Args:
        times: what ``times_in`` gives.
        kind: the type of the column that they are from.

    Example:
        >>> seconds_or_numbers(np.array([0, 1]), pa.date32())
        (array([    0., 86400.]), 'seconds')
    """
    if is_text(kind):
        return times / _PER_SECOND["us"], "seconds"
    if pa.types.is_date32(kind):
        return times * _SECONDS_OF_DAY, "seconds"
    if pa.types.is_temporal(kind):
        return times / _PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit], "seconds"
    return times.astype(np.float64), "numbers"
