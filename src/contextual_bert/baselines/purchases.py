"""What customers bought before, as sparse matrices: for the baselines that count it. Not in the paper."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from contextual_bert.baselines.shares import Observations
from contextual_bert.context.interactions import BASKETS_AGO, ITEM, MISSING_ITEM


class Purchases(NamedTuple):
    """Items in baskets, each pair of both once.

    Shapes: rows, items, baskets_ago (n,); num_baskets (histories,).

    Args:
        rows: whose history it is, from 0.
        items: ids of the vocabulary, none reserved.
        baskets_ago: 0 for the newest basket of the history.
        num_baskets: of each history, 0 where nothing is known.
    """

    rows: NDArray[np.int64]
    items: NDArray[np.int64]
    baskets_ago: NDArray[np.int64]
    num_baskets: NDArray[np.int64]

    @classmethod
    def of(cls, history: Tensor, *, num_reserved: int) -> "Purchases":
        """Return what encoded histories hold, without unknown items.

        Shapes:
            (rows, width, 4): item, baskets ago, times, days ago; ids below ``num_reserved`` are no items.

        Example:
            >>> import torch
            >>> history = torch.tensor([[[5, 0, 2, -1], [4, 1, 1, -1], [5, 1, 0, -1]], 3 * [[0, 0, 0, 0]]])
            >>> found = Purchases.of(history, num_reserved=3)
            >>> found.items.tolist(), found.num_baskets.tolist()
            ([5, 4, 5], [2, 0])
        """
        entries = history.numpy()
        rows, places = np.nonzero(entries[..., ITEM] >= num_reserved)
        ago = np.where(
            entries[..., ITEM] > MISSING_ITEM, entries[..., BASKETS_AGO], -1
        )  # a basket of unknown items is one
        return cls(
            rows.astype(np.int64),
            entries[rows, places, ITEM],
            entries[rows, places, BASKETS_AGO],
            1 + ago.max(axis=1, initial=-1),
        )

    def with_sets(self, sets: Observations, *, num_reserved: int) -> "Purchases":
        """Return the histories with the set of each row as its newest basket.

        Args:
            sets: items of rows; a row may have none.
            num_reserved: ids below this are no items.
        """
        items, rows = sets.targets.numpy(), sets.rows.numpy()
        pairs = np.unique(np.stack([rows, items])[:, items >= num_reserved], axis=1)
        has_set = np.zeros(len(self.num_baskets), dtype=np.int64)
        has_set[pairs[0]] = 1
        return Purchases(
            np.concatenate([self.rows, pairs[0]]),
            np.concatenate([self.items, pairs[1]]),
            np.concatenate([self.baskets_ago + has_set[self.rows], np.zeros(pairs.shape[1], dtype=np.int64)]),
            self.num_baskets + has_set,
        )

    def select(self, chosen: NDArray[np.int64]) -> "Purchases":
        """Return the histories of these rows, numbered anew in their order."""
        number = np.full(len(self.num_baskets), -1)
        number[chosen] = np.arange(len(chosen))
        is_kept = number[self.rows] >= 0
        return Purchases(
            number[self.rows[is_kept]], self.items[is_kept], self.baskets_ago[is_kept], self.num_baskets[chosen]
        )

    def counts(self, vocab_size: int) -> NDArray[np.float64]:
        """Return how many baskets of all histories hold each item: (vocabulary,)."""
        return np.bincount(self.items, minlength=vocab_size).astype(np.float64)

    def matrix(self, vocab_size: int, weigh: Callable[["Purchases"], NDArray[Any]] | None = None) -> Any:
        """Return a sparse matrix (histories, vocabulary): sums over the baskets that hold an item.

        Args:
            vocab_size: items, reserved ids included.
            weigh: gives the weight of each purchase; None: 1, which counts baskets.
        """
        weights = np.ones(len(self.rows)) if weigh is None else weigh(self).astype(np.float64)
        is_counted = weights != 0
        places = (self.rows[is_counted], self.items[is_counted])
        return sparse.csr_array((weights[is_counted], places), shape=(len(self.num_baskets), vocab_size))


def divided(matrix: Any, divisors: NDArray[Any]) -> Any:
    """Return a sparse matrix with each row divided by a number; rows of 0 stay."""
    factors = np.divide(1.0, divisors, out=np.zeros(len(divisors)), where=divisors > 0)
    return sparse.csr_array(sparse.diags_array(factors) @ matrix)


def longest_histories(history: Tensor, customers: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row with the longest history of each customer, the last of several, in the order of the rows.

    Its history holds those of the customer's earlier rows: of all of them each basket would count many times.

    Args:
        history: of all rows, see ``Purchases.of``.
        customers: of the rows.

    Example:
        >>> import torch
        >>> history = torch.tensor([[[5, 0, 1, -1], [0, 0, 0, 0]], [[4, 0, 1, -1], [5, 1, 1, -1]], 2 * [[0, 0, 0, 0]]])
        >>> longest_histories(history, np.array(["ann", "ann", "bob"])).tolist()
        [1, 2]
    """
    entries = history.numpy()
    lengths = np.where(entries[..., ITEM] > MISSING_ITEM, entries[..., BASKETS_AGO], -1).max(axis=1, initial=-1)
    codes = np.unique(customers, return_inverse=True)[1]
    order = np.lexsort((np.arange(len(codes)), lengths, codes))
    is_last = np.diff(codes[order], append=-1) != 0
    return np.sort(order[is_last])
