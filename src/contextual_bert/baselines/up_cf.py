"""What customers with the same items bought lately: user popularity with collaborative filtering, UP-CF@r."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contextual_bert.baselines.history_baseline import BLOCK_ELEMENTS, HistoryBaseline
from contextual_bert.baselines.purchases import Purchases, divided


class UPCF(HistoryBaseline):
    """Predicts by how often everybody bought an item lately, weighed by the items that she shares with the customer.

    Formula: s_ui = sum over histories w, u itself too, of c_uw^q p_wi, divided by the sum over all items;
        c_uw = |I_u and I_w| / (|I_u|^a |I_w|^(1 - a));  p_wi = share of the last r baskets of w that hold i

    Symbols: I_u the items of the history u; r ``recency``, 0 for all baskets; a ``asymmetry``; q ``locality``. With
        ``counts_sets`` the training sets are the newest baskets of the others.

    Relation to its siblings: ``TIFUKNN`` takes the mean of some neighbours. A history without a known item has the
        popularity of all items.

    Reference: Faggioli et al. (2020), "Recency Aware Collaborative Filtering for Next Basket Recommendation".
    """

    choices: ClassVar[Mapping[str, Sequence[Any]]] = {
        "counts_sets": (True, False),
        "recency": (1, 5, 25, 0),
        "asymmetry": (0.0, 0.25, 0.5, 0.75, 1.0),
        "locality": (1, 2, 3, 5, 10),
    }
    usual: ClassVar[Mapping[str, Any]] = {"counts_sets": True, "recency": 5, "asymmetry": 0.5, "locality": 3}

    def learn(self, pool: Purchases) -> None:
        """Count items and recent shares of the histories to learn from."""
        known = pool.select(np.unique(pool.rows))
        self.holds = (known.matrix(self.vocab_size) > 0).astype(np.float64)
        self.recent = self._recent(known)
        num_items = np.asarray(self.holds.sum(axis=1)).ravel()
        self.scaled = divided(self.holds, num_items ** (1.0 - self.settings["asymmetry"]))

    def preferences(self, asked: Purchases) -> NDArray[np.float64]:
        """Return the shares of those who have items of the history, and of the customer."""
        holds, own = (asked.matrix(self.vocab_size) > 0).astype(np.float64), self._recent(asked)
        holds = divided(holds, np.asarray(holds.sum(axis=1)).ravel() ** self.settings["asymmetry"])
        found = np.empty(holds.shape)
        size = max(1, BLOCK_ELEMENTS // max(1, self.holds.shape[0]))
        for start in range(0, len(found), size):
            alike = holds[start : start + size] @ self.scaled.T
            alike.data **= self.settings["locality"]
            found[start : start + size] = (alike @ self.recent + own[start : start + size]).toarray()
        total = found.sum(axis=1, keepdims=True)
        return np.where(total > 0, found / np.where(total > 0, total, 1.0), self.popularity)

    def _recent(self, purchases: Purchases) -> Any:
        """Return the share of the last r baskets of each history that hold each item: a sparse matrix."""
        recency = self.settings["recency"]
        lengths = np.minimum(purchases.num_baskets, recency) if recency else purchases.num_baskets
        counted = purchases.matrix(self.vocab_size, (lambda each: each.baskets_ago < recency) if recency else None)
        return divided(counted, lengths)
