"""What a customer bought most often: P-TopFreq of the literature on next baskets."""

import numpy as np
from numpy.typing import NDArray

from contextual_bert.baselines.history_baseline import HistoryBaseline
from contextual_bert.baselines.purchases import Purchases


class PTopFreq(HistoryBaseline):
    """Predicts the items that the customer's own history holds most often. All others are tied behind them.

    Formula: s_ui = n_ui

    Symbols: n_ui baskets of the history u with item i.

    Relation to its siblings: ``GPTopFreq`` has popularity for ties and for the rest.

    Reference: Li et al. (2023), "A Next Basket Recommendation Reality Check", section 4.2. Literature breaks ties by
    the numbers of the items; here they are expectations.
    """

    def learn(self, pool: Purchases) -> None:
        """Count nothing: only the customer's own history is read."""

    def preferences(self, asked: Purchases) -> NDArray[np.float64]:
        """Return the own counts."""
        return asked.matrix(self.vocab_size).toarray()
