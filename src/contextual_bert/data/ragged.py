"""Sets of different sizes as one flat array and offsets: set i is `flat[offsets[i] : offsets[i + 1]]`.

Index arithmetic only; it knows nothing of what the flat array holds.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["flat_index", "offsets_of", "places_of"]


def offsets_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the start of each set, and the end of the last one.

    Example:
        >>> offsets_of(np.array([2, 0, 3])).tolist()
        [0, 2, 2, 5]
    """
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def places_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each element within its set.

    Example:
        >>> places_of(np.array([2, 0, 3])).tolist()
        [0, 1, 0, 1, 2]
    """
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(offsets_of(sizes)[:-1], sizes)


def flat_index(offsets: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the chosen sets' elements in the flat array, set after set.

    Example:
        >>> flat_index(np.array([0, 2, 2, 5]), np.array([2, 0])).tolist()
        [2, 3, 4, 0, 1]
    """
    sizes = np.diff(offsets)[chosen]
    return np.repeat(offsets[:-1][chosen], sizes) + places_of(sizes)


def in_second_half(second_starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return 1 for each element of a pair's second half, 0 for those before.

    Args:
        second_starts: the place in each pair where the second half begins.
        sizes: number of elements of each pair.

    Example:
        >>> in_second_half(np.array([1, 2]), np.array([3, 2])).tolist()
        [0, 1, 1, 0, 0]
    """
    return (places_of(sizes) >= np.repeat(second_starts, sizes)).astype(np.uint8)
