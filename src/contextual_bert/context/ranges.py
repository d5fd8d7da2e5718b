"""Numbers that are finite and still nonsense: those far from all that training saw, such as 1e30 for "no data".

At training they are refused, by row and column. At asking they are clipped, with a remark: a server shall answer, and
no answer may be NaN (docs/decisions/021). It knows no table as a whole and no torch. Paper: not there.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from contextual_bert.context.withheld import WITHHELD
from contextual_bert.errors import DataError
from contextual_bert.nouns import agreeing
from contextual_bert.places import place_of_row

# A number so many times as large as those of training is a "no data" mark, a slip of the unit or a broken sensor.
FAR_FACTOR = 100.0
# Of vectors whose range is unknown: the square of it, summed, is still a float32, so that no layer overflows.
LARGEST_UNKNOWN = 1e12
# A mark such as -999 stands out; what is smaller may be a vector beside many that are all but zero.
_SMALLEST_MARK = 100.0


class Bounded(Protocol):
    """A feature whose numbers have bounds."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Numbers beyond these are far from all that training saw."""
        ...

    @property
    def verdict(self) -> str:
        """The words for a number beyond the bounds: what is wrong with it, and as what it is read."""
        ...

    @property
    def sensitive(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class Outside:
    """The rows of one feature that hold a number far from all that training saw.

    Args:
        rows: the rows, rising.
        numbers: of each row the number that is the farthest from zero; None of a sensitive feature.
        verdict: what is wrong with such a number and what it was read as, for people.

    Example:
        >>> from contextual_bert.context import Numerical
        >>> found = outside_of(Numerical(name="age", edges=(25, 45)), np.array([30, np.nan, 1e30]))
        >>> found.note(2, name="age")
        "context 'age': 1e+30 is far outside of the bins, 25 to 45, and is read as the bin at that end."
    """

    rows: NDArray[np.int64]
    numbers: NDArray[np.float64] | None
    verdict: str

    def note(self, row: int, *, name: str) -> str | None:
        """Return what a query's answer says of its row; None where the row has no such number."""
        place = int(np.searchsorted(self.rows, row))
        if place == len(self.rows) or self.rows[place] != row:
            return None
        return f"context {name!r}: {self._number(place)} {self.verdict}."

    def line(self, *, name: str) -> str:
        """Return what a report on a table says, by row and column."""
        more = f" ({len(self.rows):,} such rows)" if len(self.rows) > 1 else ""
        return f"context {name!r}, {place_of_row(self.rows[0])}: {self._number(0)} {self.verdict}{more}"

    def _number(self, place: int) -> str:
        return WITHHELD if self.numbers is None else f"{self.numbers[place]:g}"

    def at(self, rows: NDArray[np.int64]) -> "Outside":
        """Return the same numbers at the rows of the file, where they are of a part of it."""
        return replace(self, rows=rows[self.rows])


def outside_of(feature: Bounded, numbers: NDArray[np.generic]) -> Outside | None:
    """Return the rows whose numbers are beyond the bounds of a feature; None where there is none.

    Args:
        feature: what the numbers are of.
        numbers: (rows,), or of vectors (rows, size); NaN is never outside.
    """
    low, high = feature.bounds
    tops: Any = numbers
    bottoms: Any = numbers
    if numbers.ndim > 1:  # highest and lowest of each row: absolute values would be a copy of the whole column
        tops, bottoms = numbers.max(axis=1), numbers.min(axis=1)
    rows = np.flatnonzero((tops > high) | (bottoms < low))
    if len(rows) == 0:
        return None
    farthest = np.where(tops[rows] > -bottoms[rows], tops[rows], bottoms[rows]).astype(np.float64)
    return Outside(rows, None if feature.sensitive else farthest, feature.verdict)


def outside_notes(outside: Mapping[str, Outside], row: int) -> list[str]:
    """Return what a query's answer says of its row, a sentence a feature."""
    return [note for name, each in outside.items() if (note := each.note(row, name=name)) is not None]


def outside_lines(outside: Mapping[str, Outside]) -> list[str]:
    """Return what a report on a table says, a line a feature."""
    return [each.line(name=name) for name, each in outside.items()]


def largest_component(vectors: NDArray[np.generic], rows: NDArray[np.int64], *, column: str) -> float | None:
    """Return what no component is beyond in either direction, rounded up to a power of two; None without any number.

    Rounded, because the largest number of a table is one person's.

    Args:
        vectors: (vectors, size) of the training part; what is not finite is passed over here.
        rows: the row of each vector, for errors.
        column: its name, for errors.

    Raises:
        DataError: some vectors stand out against all others by orders of magnitude, or are too large to compute with.

    Example:
        >>> largest_component(np.array([[0.5, -3.0], [1.0, 2.0]]), np.arange(2), column="photo")
        4.0
    """
    tops, bottoms = vectors.max(axis=1), vectors.min(axis=1)
    magnitudes = np.maximum(tops.astype(np.float64), -bottoms.astype(np.float64))
    is_known = np.isfinite(magnitudes)
    if not magnitudes[is_known].any():
        return None
    threshold = stray_threshold(magnitudes[is_known])
    strays = np.flatnonzero(is_known & (magnitudes >= threshold))
    if len(strays):
        first = strays[0]
        number = float(tops[first] if tops[first] == magnitudes[first] else bottoms[first])
        rest = magnitudes[is_known & (magnitudes < threshold)].max(initial=0)
        beside = f", the others at most {rest:g}" if rest > 0 else f", and at most {LARGEST_UNKNOWN:g} can be computed"
        raise DataError(
            f"the vector has a component of {number:g}{beside}; {len(strays):,} of {len(magnitudes):,} vectors "
            f"{agreeing('are', len(strays))} so",
            row=int(rows[first]),
            column=column,
            fix='Give null for the whole vector if the number says "no data". If it is meant, scale the column, for '
            'instance by its logarithm, or set the "largest" of the feature in the schema.',
        )
    return 2.0 ** math.ceil(math.log2(magnitudes[is_known].max()))


def stray_threshold(magnitudes: NDArray[np.float64]) -> float:
    """Return the least magnitude of those that stand out; infinity where none does.

    There is a gap of two orders of magnitude with nothing between, and above it stand fewer than half, or one and the
    same number again and again, which is a mark. What a float32 model cannot compute with always stands out.

    Args:
        magnitudes: none negative.

    Example:
        >>> stray_threshold(np.array([0.5, 2.0, 3.0, 0.0, 9999.0])), stray_threshold(np.array([1.0, 90.0, 8000.0]))
        (9999.0, inf)
    """
    unique, counts = np.unique(magnitudes[magnitudes > 0], return_counts=True)
    above = counts[::-1].cumsum()[::-1]  # how many are as large or larger
    is_gap = (unique[1:] >= FAR_FACTOR * unique[:-1]) & (unique[1:] >= _SMALLEST_MARK)
    is_mark = np.arange(1, len(unique)) == len(unique) - 1
    is_stray = is_gap & ((2 * above[1:] < len(magnitudes)) | (is_mark & (above[1:] > 1)))
    found = unique[1:][is_stray]
    beyond = unique[unique > LARGEST_UNKNOWN]
    return float(min([*found[:1], *beyond[:1]], default=math.inf))
