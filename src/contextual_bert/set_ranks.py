"""Recall, NDCG, hit rate and average precision of whole sets, from the ranks of their true items.

Ties are broken at random and each metric is its exact expectation. It knows ranks and sizes alone: no item, customer or
model.

References: Järvelin and Kekäläinen (2002) for NDCG; Li et al. (2023), "A Next Basket Recommendation Reality Check", for
recall, NDCG and PHR of a next basket, and for repeated and new items apart.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import DataError


class SetRanks(NamedTuple):
    """Ranks of true items among all items, and the set that each is of.

    Formula: rank of an item = num_better + U, U uniform on 1..num_tied; each metric is its expectation over U.

    Shapes: set_of, num_better, num_tied, num_alike, num_before (rows,); sizes (sets,).

    Args:
        set_of: the number of the set of each true item, from 0.
        num_better: items with a higher score than the true one, the other true items of its set too.
        num_tied: items with its score, itself included.
        num_alike: true items of its set with its score, itself included.
        num_before: true items of its set with a higher score.
        sizes: true items of each set; those without a rank are never found.
    """

    set_of: NDArray[np.int64]
    num_better: NDArray[np.int64]
    num_tied: NDArray[np.int64]
    num_alike: NDArray[np.int64]
    num_before: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        set_of: NDArray[np.int64],
        num_better: NDArray[np.int64],
        num_tied: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> Self:
        """Count for each true item those of its set that are ranked before it or beside it.

        Raises:
            DataError: a set has more true items with one score than there are items with that score.
        """
        order = np.lexsort((num_better, set_of))
        own_set, own_rank = set_of[order], num_better[order]
        is_first_of_set = np.diff(own_set, prepend=-1) != 0
        is_first = is_first_of_set | (np.diff(own_rank, prepend=-1) != 0)
        starts, starts_of_sets = np.flatnonzero(is_first), np.flatnonzero(is_first_of_set)
        block = np.cumsum(is_first) - 1
        alike, before = np.empty_like(set_of), np.empty_like(set_of)
        alike[order] = np.bincount(block, minlength=len(starts))[block]
        before[order] = (starts - starts_of_sets[np.cumsum(is_first_of_set)[starts] - 1])[block]
        if (alike > num_tied).any():
            row = int((alike > num_tied).argmax())
            raise DataError(
                f"{alike[row]} true items of one set share a rank that {num_tied[row]} items have",
                row=row,
                fix="Name each item of a set once.",
            )
        return cls(set_of, num_better, num_tied, alike, before, sizes)

    def among(self, is_chosen: NDArray[np.bool_], sizes: NDArray[np.int64]) -> "SetRanks":
        """Return some of the true items as if the sets held no others; their ranks among all items stay.

        Args:
            is_chosen: (rows,).
            sizes: (sets,), how many of each set are chosen.
        """
        return SetRanks.of(self.set_of[is_chosen], self.num_better[is_chosen], self.num_tied[is_chosen], sizes)

    def recall(self, k: int) -> NDArray[np.float64]:
        """Return the share of each set's true items among the first k: (sets,)."""
        return self._shares(np.clip((k - self.num_better) / self.num_tied, 0.0, 1.0), self.sizes)

    def ndcg(self, k: int) -> NDArray[np.float64]:
        """Return the discounted gain of the first k, divided by that of a ranking that begins with the whole set.

        Formula: sum over true items of [rank <= k] / log2(rank + 1), by the sum over j = 1..size of 1 / log2(j + 1).
        The divisor is not cut at k, so a set of more than k items stays below 1.
        """
        longest = max(k, int(self.sizes.max(initial=0)))
        gains = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(longest) + 2))])
        first, last = np.minimum(self.num_better, k), np.minimum(self.num_better + self.num_tied, k)
        return self._shares((gains[last] - gains[first]) / self.num_tied, gains[self.sizes])

    def hit_rate(self, k: int) -> NDArray[np.float64]:
        """Return the probability that at least one true item of each set is among the first k: (sets,)."""
        missed = np.ones(len(self.sizes))
        missed[self.set_of[self.num_better + self.num_tied <= k]] = 0.0
        # A score that lies across the k-th place: its true items fall behind it by a hypergeometric draw.
        across = np.flatnonzero((self.num_better < k) & (k < self.num_better + self.num_tied))
        across = across[np.unique(self.set_of[across], return_index=True)[1]]
        tied, behind = self.num_tied[across], (self.num_better + self.num_tied - k)[across]
        for number in range(int(self.num_alike[across].max(initial=0))):
            is_there = number < self.num_alike[across]
            shares = np.maximum(behind - number, 0) / np.maximum(tied - number, 1)
            missed[self.set_of[across]] *= np.where(is_there, shares, 1.0)
        return np.where(self.sizes > 0, 1.0 - missed, 0.0)

    def average_precision(self, k: int) -> NDArray[np.float64]:
        """Return the mean over true items of the precision at their ranks up to k: (sets,).

        Formula: sum over true items of [rank <= k] precision@rank, by min(k, size).
        """
        better, tied = np.minimum(self.num_better, k), self.num_tied
        places = np.clip(k - self.num_better, 0, tied)  # among the first k, of those that the score takes
        harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1.0, k + 1))])
        # Each place in the tied block has so many true items before it as the others are spread evenly over the block.
        slope = (self.num_alike - 1) / np.maximum(tied - 1, 1)
        reciprocal = harmonic[better + places] - harmonic[better]
        gains = (1 + self.num_before - slope * (better + 1)) * reciprocal + slope * places
        return self._shares(gains / tied, np.minimum(self.sizes, k))

    def _shares(self, gains: NDArray[np.float64], wholes: NDArray[Any]) -> NDArray[np.float64]:
        sums = np.bincount(self.set_of, weights=gains, minlength=len(self.sizes))
        return np.divide(sums, wholes, out=np.zeros(len(self.sizes)), where=wholes > 0)
