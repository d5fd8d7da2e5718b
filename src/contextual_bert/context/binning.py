"""Edges of the bins of a number, near quantiles of the rows the schema is inferred from.

An edge travels with the model, so it is no number of a single customer: it is a number that enough customers share, or
a round number between others (docs/guides/privacy.md). This module knows no columns and no features. Not in the paper.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MOST_DIGITS = 17  # tell any two numbers apart
_LEAST_EXPONENT = -300  # 10**-exponent is a float64
_SHIFT = 0.05  # of a bin's rows, by which an edge may move to be a round number


def quantile_edges(
    unique: np.ndarray, counts: np.ndarray, *, num_bins: int, min_count: int, customers: np.ndarray | None = None
) -> tuple[float, ...]:
    """Return the lower ends of all bins but the first, so that the bins hold about equally many rows.

    With at most `num_bins` distinct numbers each has its own bin. In both cases a bin holds rows of `min_count`
    customers or more, except where there are fewer than that. A number that many rows share ends up alone in its bin.

    An edge is the lowest number of its bin where `min_count` customers have this number. Else it is the roundest number
    near there that none of a few customers has.

    Args:
        unique: the distinct numbers, rising.
        counts: how many rows have each.
        num_bins: the most bins.
        min_count: the fewest customers of a bin.
        customers: number, from 0 on, of the customer of each row, the rows in the order of their numbers. None: each
            row is a customer.

    Example:
        >>> quantile_edges(np.array([1.0, 2.0, 3.0]), np.array([50, 1, 60]), num_bins=16, min_count=10)
        (1.5,)
        >>> quantile_edges(np.arange(100.0), np.full(100, 5), num_bins=4, min_count=5)
        (25.0, 50.0, 75.0)
        >>> quantile_edges(np.array([1234.56, 2345.67]), np.array([50, 9]), num_bins=4, min_count=9)
        (2345.67,)
        >>> quantile_edges(np.arange(48_000, 49_000, 7.77), np.ones(129), num_bins=3, min_count=10)
        (48330.0, 48660.0)
    """
    cells = _Cells(unique, counts, customers)
    num_rows, is_few = cells.num_rows, len(unique) <= num_bins
    edges: list[float] = []
    done = 0
    while len(edges) < num_bins - 1:
        fewest = cells.rows_of_customers(done, min_count)
        if fewest is None:
            break
        share = 1 if is_few else (num_rows - done) / (num_bins - len(edges))
        goal = done + max(fewest, share)
        last = int(np.searchsorted(cells.ends, goal))
        # Stop before a number that overshoots the goal by more than leaving it out falls short of it.
        if last > 0 and last < len(unique) and cells.ends[last - 1] >= done + fewest:
            last -= int(goal - cells.ends[last - 1] < cells.ends[last] - goal)
        if last >= len(unique) - 1 or cells.ends[last] > cells.last_start(min_count):
            break
        edge = float(unique[last + 1])
        if cells.sizes[last + 1] < min_count:
            edge = _round_edge(cells, done=done, last=last, fewest=fewest, min_count=min_count)
        edges.append(edge)
        first = int(np.searchsorted(unique, edge))
        done = int(cells.ends[first - 1])
    return tuple(edges)


def edges_of_short_floats(edges: Sequence[float], kind: type[np.floating]) -> tuple[float, ...]:
    """Return the edges half-way between two neighbors of a short floating-point type, except where one is exact.

    A number such as 0.7 of 32 bits comes at asking as 0.7 or as 0.699999988: both are above an edge half-way below it.

    Args:
        edges: strictly rising.
        kind: ``np.float32`` or ``np.float16``, of the column.

    Example:
        >>> edges_of_short_floats([0.5, 0.7], np.float32)
        (0.5, 0.6999999582767487)
    """
    found = list[float]()
    for edge in edges:
        nearest = kind(edge)
        if float(nearest) == edge:
            found.append(edge)
            continue
        # As the column is spelt: 16 bits by the spelling of 32.
        first = nearest if float(str(np.float32(nearest))) >= edge else np.nextafter(nearest, kind(np.inf))
        found.append((float(np.nextafter(first, kind(-np.inf))) + float(first)) / 2)
    return tuple(dict.fromkeys(found))


def customers_of_values(values: np.ndarray, customers: np.ndarray, *, num_values: int) -> NDArray[np.int64]:
    """Return how many distinct customers each value has.

    Args:
        values: numbers of the values, from 0 on, one a row.
        customers: numbers of the customers, from 0 on, one a row.
        num_values: how many values there are.

    Example:
        >>> customers_of_values(np.array([0, 0, 0, 1]), np.array([5, 5, 6, 5]), num_values=3).tolist()
        [2, 1, 0]
    """
    width = int(customers.max(initial=0)) + 1
    pairs = np.sort(values * width + customers)
    is_first = np.concatenate([[True], pairs[1:] != pairs[:-1]])[: len(pairs)]
    return np.bincount(pairs[is_first] // width, minlength=num_values).astype(np.int64)


class _Cells:
    """The rows in the order of their numbers, and whose they are.

    Symbols: `ends[i]`: rows up to the number i; `sizes[i]`: customers that have the number i.
    """

    def __init__(self, unique: np.ndarray, counts: np.ndarray, customers: np.ndarray | None) -> None:
        self.unique, self.ends = unique, np.cumsum(counts)
        self.num_rows = int(self.ends[-1])
        self.sizes: NDArray[np.int64] = np.asarray(counts, np.int64)
        self._before: NDArray[np.int64] | None = None
        if customers is None:
            return
        owners = np.asarray(customers, np.int64)
        number = np.repeat(np.arange(len(unique)), counts)
        self.sizes = customers_of_values(number, owners, num_values=len(unique))
        order = np.argsort(owners, kind="stable")
        is_again = np.concatenate([[False], owners[order][1:] == owners[order][:-1]])
        before = np.full(len(owners), -1, np.int64)
        before[order[1:]] = np.where(is_again[1:], order[:-1], -1)
        self._before = before  # the row before of the same customer, -1 where there is none
        is_last = np.ones(len(owners), np.bool_)
        is_last[before[before >= 0]] = False
        self._customers_after = np.concatenate([[0], np.cumsum(is_last[::-1])])  # by the number of rows at the end

    def rows_of_customers(self, start: int, min_count: int) -> int | None:
        """Return how many rows from ``start`` on hold ``min_count`` customers, None where all hold fewer."""
        if self._before is None:
            return min_count if self.num_rows - start >= min_count else None
        found = np.cumsum(self._before[start:] < start)
        place = int(np.searchsorted(found, min_count))
        return place + 1 if place < len(found) else None

    def last_start(self, min_count: int) -> int:
        """Return the last row from which on the rows hold ``min_count`` customers; negative where all hold fewer."""
        if self._before is None:
            return self.num_rows - min_count
        return self.num_rows - int(np.searchsorted(self._customers_after, min_count))


def _round_edge(cells: _Cells, *, done: int, last: int, fewest: int, min_count: int) -> float:
    """Return the roundest number near the border after the number ``last`` that no few customers have.

    The border moves by a twentieth of the bin's rows at most, and leaves ``min_count`` customers on both sides.
    """
    unique, ends = cells.unique, cells.ends
    spare = _SHIFT * (int(ends[last]) - done)
    lowest = min(last, int(np.searchsorted(ends, max(done + fewest, ends[last] - spare))))
    farthest = min(ends[last] + spare, cells.last_start(min_count))
    highest = min(len(unique) - 1, max(last + 1, int(np.searchsorted(ends, farthest, side="right"))))
    low, high = float(unique[lowest]), float(unique[highest])
    wanted = float(unique[last] / 2 + unique[last + 1] / 2)
    few = unique[lowest : highest + 1][cells.sizes[lowest : highest + 1] < min_count]
    top = math.floor(math.log10(max(abs(low), abs(high))))
    for exponent in range(top, max(top - _MOST_DIGITS, _LEAST_EXPONENT), -1):
        found = [each for each in _multiples(wanted, exponent) if low < each < high and not np.isin(each, few)]
        if found:
            return min(found, key=lambda each: (abs(each - wanted), each))
    return float(unique[last + 1])  # no float64 lies between


def _multiples(wanted: float, exponent: int) -> list[float]:
    """Return the whole multiples of 10**exponent nearest to a number."""
    nearest = round(wanted * 10.0**-exponent)
    # By their spelling: 3 * 0.1 is not 0.3.
    return [float(f"{number}e{exponent}") for number in range(nearest - 10, nearest + 11)]
