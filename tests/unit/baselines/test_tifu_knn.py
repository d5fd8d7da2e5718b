"""TIFU-KNN against loops that do as the paper says."""

from typing import Any

import numpy as np
import pytest

from contextual_bert.baselines import TIFUKNN
from contextual_bert.baselines.purchases import Purchases
from tests.unit.baselines.histories import LAYOUT, Baskets, encoded


def slow_vector(baskets: Baskets, *, num_groups: int, group_decay: float, within_decay: float) -> np.ndarray:
    """The faded counts of one history: (12,)."""
    if len(baskets) < num_groups:
        groups = [[basket] for basket in baskets]
    else:
        base, num_larger = divmod(len(baskets), num_groups)
        sizes = [base] * (num_groups - num_larger) + [base + 1] * num_larger
        starts = np.cumsum([0, *sizes])
        groups = [baskets[start : start + size] for start, size in zip(starts, sizes, strict=False)]
    found = np.zeros(12)
    for number, group in enumerate(groups):
        for place, basket in enumerate(group):
            weight = within_decay ** (len(group) - 1 - place) / len(group)
            found[basket] += group_decay ** (num_groups - 1 - number) * weight / len(groups)
    return found


def random_histories(seed: int, count: int) -> list[Baskets]:
    generator = np.random.default_rng(seed)
    return [
        [
            sorted(generator.choice(np.arange(3, 12), 3, replace=False).tolist())
            for _ in range(generator.integers(1, 12))
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize("num_groups", [1, 3, 4, 20])
def test_against_loops(num_groups: int) -> None:
    decays: Any = {"num_groups": num_groups, "group_decay": 0.7, "within_decay": 0.9}
    model = TIFUKNN(12, layout=LAYOUT)
    model.settings = {**decays, "counts_sets": False, "num_neighbours": 4, "own_weight": 0.3}
    pool, asked = random_histories(0, 40), random_histories(1, 7)
    model.learn(Purchases.of(encoded([*pool, None]), num_reserved=3))
    found = model.preferences(Purchases.of(encoded([*asked]), num_reserved=3))
    vectors = np.array([slow_vector(baskets, **decays) for baskets in pool])
    for baskets, own in zip(asked, found, strict=True):
        vector = slow_vector(baskets, **decays)
        nearest = np.argsort(((vectors - vector) ** 2).sum(axis=1))[:4]
        expected = 0.3 * vector + 0.7 * vectors[nearest].mean(axis=0)
        np.testing.assert_allclose(own, expected / expected.sum())


def test_fewer_histories_than_neighbours_are_all_neighbours() -> None:
    model = TIFUKNN(12, layout=LAYOUT)
    pool = random_histories(0, 3)
    model.learn(Purchases.of(encoded([*pool]), num_reserved=3))
    found = model.preferences(Purchases.of(encoded([[[3]]]), num_reserved=3))
    assert found.sum() == pytest.approx(1.0)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TIFUKNN(12, layout=LAYOUT)
    model.learn(Purchases.of(encoded([*random_histories(0, 9)]), num_reserved=3))
    asked = Purchases.of(encoded([*random_histories(1, 7)]), num_reserved=3)
    whole = model.preferences(asked)
    monkeypatch.setattr("contextual_bert.baselines.tifu_knn.BLOCK_ELEMENTS", 18)
    np.testing.assert_allclose(model.preferences(asked), whole)
