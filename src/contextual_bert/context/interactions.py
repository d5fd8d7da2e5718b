"""Histories as numbers: who had which item in which of her baskets, in one tensor with a row a person.

Each pair of an item and a basket occurs once. First come a person's different items, the newest first, each with the
number of its baskets; behind them the older interactions with the same items. So what reads each item once takes the
first ones, and what reads baskets takes all. Not in the paper.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ITEM, BASKETS_AGO, TIMES, DAYS_AGO = range(4)
WIDTH = 4  # numbers of an interaction
UNKNOWN_DAYS = -1
_BLOCK_ELEMENTS = 2**22
NO_ITEM, MISSING_ITEM, UNKNOWN_ITEM = range(3)  # the ids of [PAD], [MASK] and [UNK] among the items of a model


class Interactions(NamedTuple):
    """Interactions, one entry a pair of an item and a basket.

    Shapes: (interactions,) each, int64.

    Args:
        rows: whose it is.
        items: ids of a model's vocabulary.
        baskets_ago: 0 for the newest basket of the history.
        days_ago: days between the basket and the set, ``UNKNOWN_DAYS`` where they are not known.
    """

    rows: NDArray[np.int64]
    items: NDArray[np.int64]
    baskets_ago: NDArray[np.int64]
    days_ago: NDArray[np.int64]


def arranged(found: Interactions, *, num_rows: int) -> NDArray[np.int64]:
    """Return interactions as a tensor with a row a person, see the module.

    Shapes:
        (rows, width, 4): item, baskets ago, times (0 behind the different items), days ago; 0 in all behind the end.

    Args:
        found: an item that occurs twice in a basket counts once.
        num_rows: number of people; one without an interaction has padding alone.

    Example:
        >>> found = Interactions(*(np.array(each) for each in ([0, 0, 0], [7, 5, 7], [1, 0, 0], [9, 2, 2])))
        >>> arranged(found, num_rows=1).tolist()
        [[[5, 0, 1, 2], [7, 0, 2, 2], [7, 1, 0, 9]]]
    """
    order = np.lexsort((found.baskets_ago, found.items, found.rows))
    rows, items, ago, days = (each[order] for each in found)
    is_other = np.ones(len(rows), np.bool_)
    is_other[1:] = (rows[1:] != rows[:-1]) | (items[1:] != items[:-1])
    is_pair = is_other.copy()
    is_pair[1:] |= ago[1:] != ago[:-1]
    rows, items, ago, days, is_newest = (each[is_pair] for each in (rows, items, ago, days, is_other))
    starts = np.flatnonzero(is_newest)
    times = np.zeros(len(rows), np.int64)
    times[starts] = np.diff(starts, append=len(rows))
    order = np.lexsort((items, ago, ~is_newest, rows))
    rows = rows[order]
    counts = np.bincount(rows, minlength=num_rows)
    table = np.zeros((num_rows, max(1, int(counts.max(initial=0))), WIDTH), np.int64)
    places = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    table[rows, places] = np.stack([items, ago, times, days], axis=1)[order]
    return table


def interactions_of(table: NDArray[np.int64]) -> Interactions:
    """Return the interactions of a tensor that ``arranged`` gave; those of missing histories are none.

    Example:
        >>> found = Interactions(*(np.array(each) for each in ([0, 0], [7, 5], [1, 0], [9, 2])))
        >>> interactions_of(arranged(found, num_rows=2)).items.tolist()
        [5, 7]
    """
    rows, places = np.nonzero((table[..., ITEM] != NO_ITEM) & (table[..., ITEM] != MISSING_ITEM))
    chosen = table[rows, places]
    return Interactions(rows, chosen[:, ITEM], chosen[:, BASKETS_AGO], chosen[:, DAYS_AGO])


def times_before(table: NDArray[np.int64], rows: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many baskets of a person's history hold an item; -1 where the history is missing.

    Shapes: table (people, width, 4), rows and items (n,) -> (n,).

    Args:
        table: that ``arranged`` gave.
        rows: of the people.
        items: ids of the vocabulary.

    Example:
        >>> found = Interactions(*(np.array(each) for each in ([0, 0], [7, 7], [1, 0], [9, 2])))
        >>> times_before(arranged(found, num_rows=2), np.array([0, 0, 1]), np.array([7, 5, 7])).tolist()
        [2, 0, 0]
    """
    found = np.empty(len(rows), np.int64)
    size = max(1, _BLOCK_ELEMENTS // max(1, table.shape[1]))
    for start in range(0, len(rows), size):
        own = table[rows[start : start + size]]
        is_item = own[..., ITEM] == items[start : start + size, None]
        counts = (own[..., TIMES] * is_item).sum(axis=1)
        found[start : start + size] = np.where(own[:, 0, ITEM] == MISSING_ITEM, -1, counts)
    return found
