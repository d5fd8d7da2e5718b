"""The most popular items for everybody: G-TopFreq of the literature on next baskets."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contextual_bert.baselines.history_baseline import HistoryBaseline
from contextual_bert.baselines.purchases import Purchases


class GTopFreq(HistoryBaseline):
    """Predicts the items that all histories hold most often.

    Formula: s_ui = n_i / N

    Symbols: n_i baskets of all histories with item i, N the sum of all n. ``counts_sets`` adds the training sets.

    Relation to its siblings: ``ItemPopularity`` counts the training sets alone. ``PTopFreq`` counts own baskets.

    Reference: Li et al. (2023), "A Next Basket Recommendation Reality Check", section 4.2.
    """

    choices: ClassVar[Mapping[str, Sequence[Any]]] = {"counts_sets": (True, False)}
    usual: ClassVar[Mapping[str, Any]] = {"counts_sets": True}

    def learn(self, pool: Purchases) -> None:
        """Count nothing beside ``popularity``, which every baseline has."""

    def preferences(self, asked: Purchases) -> NDArray[np.float64]:
        """Return the share of each item, for all histories the same."""
        return np.tile(self.popularity, (len(asked.num_baskets), 1))
