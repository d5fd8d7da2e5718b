"""Numbers that follow from the items of their set: its size, a sum or mean over them, the largest or least of them.

They tell of the item that is hidden. Each is predicted from the items of other rows, and what a prediction explains is
counted on rows that it has not seen. Of the items as the table has them: filters drop what a sum still holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy  # which imports scipy.sparse on its first use: most tables need it not
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded
from contextual_bert.data.hashing import hash_counters

_FEWEST_ROWS = 60
_MOST_ROWS = 20_000  # that are looked at: of more, a sample
_FOLLOWS = 0.9  # of the variance, or of the rows
_FOLLOWS_SIZE = 0.95
_MANY_VALUES = 10  # of fewer, one is guessed exactly by chance
_MAX_STEPS = 60
_LEAST_SPREAD = 1e-6  # of standard deviations
_STRAYS = 0.02  # of the rows, at either end


@dataclass(frozen=True, eq=False)
class SetItems:
    """The items of some sets as numbers.

    Args:
        codes: of all items, one set after the other.
        offsets: set i is ``codes[offsets[i] : offsets[i + 1]]``; no set is empty.
        num_items: how many different ones there are.
    """

    codes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    num_items: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items of each set."""
        return np.diff(self.offsets)


def what_it_follows(column: pa.ChunkedArray, sets: SetItems) -> tuple[str, float] | None:
    """Return what of its set a column of numbers follows, and the share of it that this explains.

    Args:
        column: a number, or a truth value, a row.
        sets: the items of the same rows.

    Returns:
        None where the column holds no numbers, is constant, or does not follow from the items.

    Example:
        >>> sets = SetItems(np.arange(300) % 7, np.cumsum([0, *[1, 2, 3] * 50]), 7)
        >>> what_it_follows(pa.chunked_array([sets.sizes * 2]), sets)
        ('the number of items', 1.0)
    """
    numbers = _numbers(column)
    if numbers is None:
        return None
    rows = np.flatnonzero(np.isfinite(numbers))
    if len(rows) > _MOST_ROWS:
        rows = np.sort(rows[np.argsort(hash_counters(3, rows), kind="stable")[:_MOST_ROWS]])
    known = numbers[rows]
    if len(rows) < _FEWEST_ROWS or known.min() == known.max():
        return None
    is_judged = hash_counters(5, rows) % np.uint64(3) == 0
    if known[is_judged].min() == known[is_judged].max():
        return None
    cut = max(1, int(_STRAYS * is_judged.sum()))
    bulk = np.argsort(known[is_judged])[cut:-cut]
    differ = bool(np.ptp(known[is_judged][bulk]) > 0)
    known = (known - known.mean()) / known.std()  # codes of 13 digits differ in their last ones alone
    if differ and np.ptp(known[is_judged][bulk]) < _LEAST_SPREAD:  # beside a stray number the others are equal
        return None
    matrix = _counts(sets, rows)
    sizes = sets.sizes[rows].astype(np.float64)
    by_size = _share_explained(_by_size(known, sizes, is_judged), known[is_judged])
    if by_size >= _FOLLOWS_SIZE:
        return "the number of items", by_size
    found = [
        ("a sum over the items", _fitted(matrix, known, is_judged)),
        ("a mean over the items", _fitted(scipy.sparse.diags(1 / sizes) @ matrix, known, is_judged)),
        ("the largest number of an item", _of_bounds(matrix, known, is_judged)),
        ("the least number of an item", -_of_bounds(matrix, -known, is_judged)),
    ]
    shares = [(name, _share_explained(guess, known[is_judged])) for name, guess in found]
    name, share = max(shares, key=lambda each: each[1])
    return (name, share) if share >= _FOLLOWS else None


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    cells = decoded(column)
    kind = cells.type
    if pa.types.is_boolean(kind):
        cells = cells.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return np.asarray(pc.fill_null(cells.cast(pa.float64(), safe=False), np.nan).to_numpy(), dtype=np.float64)


def _counts(sets: SetItems, rows: NDArray[np.int64]) -> Any:
    """(rows, items) how often each item is in each set."""
    sizes = sets.sizes[rows]
    ends = np.cumsum(sizes)
    places = np.arange(int(ends[-1])) + np.repeat(sets.offsets[rows] - (ends - sizes), sizes)
    indices = sets.codes[places]
    shape = (len(rows), sets.num_items)
    return scipy.sparse.csr_matrix((np.ones(len(indices)), indices, np.concatenate([[0], ends])), shape=shape)


def _by_size(
    known: NDArray[np.float64], sizes: NDArray[np.float64], is_judged: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The mean over the other rows of sets of the same size."""
    codes = np.unique(sizes, return_inverse=True)[1]
    learned, width = codes[~is_judged], int(codes.max()) + 1
    counts = np.bincount(learned, minlength=width)
    sums = np.bincount(learned, weights=known[~is_judged], minlength=width)
    return np.where(counts > 0, sums / np.maximum(counts, 1), known[~is_judged].mean())[codes[is_judged]]


def _fitted(matrix: Any, known: NDArray[np.float64], is_judged: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Least squares on the other rows: a number for each item, and one for all sets."""
    design: Any = scipy.sparse.hstack([matrix, np.ones((matrix.shape[0], 1))], format="csr")
    center = known[~is_judged].mean()
    scale = known[~is_judged].std() or 1.0
    weights = scipy.sparse.linalg.lsqr(
        design[~is_judged], (known[~is_judged] - center) / scale, damp=0.1, iter_lim=_MAX_STEPS
    )[0]
    return design[is_judged] @ weights * scale + center


def _of_bounds(matrix: Any, known: NDArray[np.float64], is_judged: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The largest over a set's items of the least number that each item's other sets have.

    If a column is the largest price of a set, no set with an item has less than its price.
    """
    learned = matrix[~is_judged]
    least = np.full(matrix.shape[1], np.inf)
    np.minimum.at(least, learned.indices, np.repeat(known[~is_judged], np.diff(learned.indptr)))
    judged = matrix[is_judged]
    bounds = np.where(np.isfinite(least), least, known[~is_judged].min())[judged.indices]
    return np.maximum.reduceat(bounds, judged.indptr[:-1])


def _share_explained(guess: NDArray[np.float64], true: NDArray[np.float64]) -> float:
    """The share of the variance, below 0 where the guess is worse than the mean; or of rows guessed exactly."""
    of_variance = float(1 - np.mean((guess - true) ** 2) / np.var(true))
    if len(np.unique(true)) < _MANY_VALUES:
        return of_variance
    return max(of_variance, float(np.isclose(guess, true, rtol=1e-9).mean()))
