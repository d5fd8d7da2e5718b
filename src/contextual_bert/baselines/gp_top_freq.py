"""What a customer bought most often, filled up with what all buy: GP-TopFreq of the literature on next baskets."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contextual_bert.baselines.history_baseline import HistoryBaseline
from contextual_bert.baselines.purchases import Purchases

STRENGTHS = (0.9, 0.3, 0.1)  # among which m is chosen


class GPTopFreq(HistoryBaseline):
    """Predicts by the customer's own counts; popularity orders ties and all that was never bought.

    Formula: s_ui = n_ui + m n_i / max n

    Symbols: n_ui baskets of the history u with item i; n_i those of all histories, and of the training sets with
        ``counts_sets``; m below 1, so that popularity never outweighs a basket. m changes probabilities and no rank.

    Relation to its siblings: ``PTopFreq`` and ``GTopFreq`` together.

    Reference: Li et al. (2023), "A Next Basket Recommendation Reality Check", section 4.2.
    """

    choices: ClassVar[Mapping[str, Sequence[Any]]] = {"counts_sets": (True, False)}
    usual: ClassVar[Mapping[str, Any]] = {"counts_sets": True, "popularity_weight": STRENGTHS[0]}

    def learn(self, pool: Purchases) -> None:
        """Count nothing beside ``popularity``, which every baseline has."""

    def preferences(self, asked: Purchases) -> NDArray[np.float64]:
        """Return own counts and a share of a count for popularity."""
        weight = self.settings["popularity_weight"] / self.popularity.max()
        return asked.matrix(self.vocab_size).toarray() + weight * self.popularity

    def fit_probabilities(self, asked: Any) -> float:
        """Choose m, prior and exponent."""
        found: list[tuple[float, float, float, float]] = []
        for weight in STRENGTHS:
            self.settings["popularity_weight"] = weight
            found.append((super().fit_probabilities(asked), weight, self.prior, self.exponent))
        best, self.settings["popularity_weight"], self.prior, self.exponent = min(found)
        return best
