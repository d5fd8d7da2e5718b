"""Counts over all histories, by hand."""

from contextual_bert.baselines import GTopFreq
from contextual_bert.baselines.purchases import Purchases
from tests.unit.baselines.histories import LAYOUT, encoded, observed


def test_shares_by_hand() -> None:
    training = observed([[[3, 4], [3]], [[5]]], [[5], [5]])
    model = GTopFreq(6, layout=LAYOUT)
    model.fit(training)
    assert model.preferences(Purchases.of(encoded([None, [[4]]]), num_reserved=3)).tolist() == 2 * [
        [0.0, 0.0, 0.0, 2 / 6, 1 / 6, 3 / 6]
    ]
