"""UP-CF@r against loops that do as the paper says."""

import numpy as np
import pytest

from contextual_bert.baselines import UPCF
from contextual_bert.baselines.purchases import Purchases
from tests.unit.baselines.histories import LAYOUT, Baskets, encoded
from tests.unit.baselines.test_tifu_knn import random_histories


def slow_recent(baskets: Baskets, recency: int) -> np.ndarray:
    last = baskets[-recency:] if recency else baskets
    found = np.zeros(12)
    for basket in last:
        found[basket] += 1 / len(last)
    return found


@pytest.mark.parametrize("recency", [0, 1, 5])
@pytest.mark.parametrize("asymmetry", [0.0, 0.75])
def test_against_loops(recency: int, asymmetry: float) -> None:
    model = UPCF(12, layout=LAYOUT)
    model.settings = {"counts_sets": False, "recency": recency, "asymmetry": asymmetry, "locality": 3}
    pool, asked = random_histories(0, 40), random_histories(1, 7)
    model.learn(Purchases.of(encoded([*pool, None]), num_reserved=3))
    found = model.preferences(Purchases.of(encoded([*asked]), num_reserved=3))
    for baskets, own in zip(asked, found, strict=True):
        items = {item for basket in baskets for item in basket}
        expected = slow_recent(baskets, recency)
        for other in pool:
            theirs = {item for basket in other for item in basket}
            alike = len(items & theirs) / (len(items) ** asymmetry * len(theirs) ** (1 - asymmetry))
            expected += alike**3 * slow_recent(other, recency)
        np.testing.assert_allclose(own, expected / expected.sum())
