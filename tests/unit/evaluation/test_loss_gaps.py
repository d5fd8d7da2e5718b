"""Who was trained on, guessed by the loss: the area is scikit-learn's, and its interval holds what it should."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from contextual_bert.evaluation import Scores
from contextual_bert.evaluation.loss_gaps import MembershipGap, compare_losses


def scores_of(losses: NDArray[np.float64], *, first: int) -> Scores:
    rows = np.arange(first, first + len(losses))
    zeros = np.zeros(len(losses), dtype=np.int64)
    return Scores(rows, zeros, -losses, zeros, zeros + 1, np.full(len(losses), 0.5))


def drawn(numbers: np.random.Generator, *, gap: float, size: int = 300, each: int = 3) -> MembershipGap:
    """Training rows are ahead by ``gap``; the rows of a customer are alike."""
    losses = [
        np.abs(np.repeat(numbers.normal(3 + shift, 0.5, size // each), each) + numbers.normal(0, 0.5, size)).round(1)
        for shift in (0.0, gap)
    ]
    people = [np.repeat(np.arange(size // each), each) + start for start in (0, size)]
    return compare_losses(
        scores_of(losses[0], first=0), scores_of(losses[1], first=size), part="test", clusters=(people[0], people[1])
    )


@pytest.mark.parametrize("gap", [0.0, 0.3, 9.0])
def test_the_area_is_that_of_scikit_learn(gap: float) -> None:
    numbers = np.random.default_rng(0)
    own, others = numbers.exponential(1.0, 80).round(1), numbers.exponential(1.0, 120).round(1) + gap
    found = compare_losses(scores_of(own, first=0), scores_of(others, first=80), part="test")
    is_training = np.repeat([1, 0], [80, 120])
    assert found.auc.value == pytest.approx(roc_auc_score(is_training, -np.concatenate([own, others])))
    assert 0 <= found.auc.low <= found.auc.value <= found.auc.high <= 1
    assert found.caught_percent == pytest.approx(100 * np.mean(own < np.quantile(others, 0.01)))
    assert f"an AUC of {found.auc.value:.3f} [" in found.note()


def test_intervals_hold_the_area_as_often_as_they_say() -> None:
    numbers = np.random.default_rng(1)
    true = drawn(numbers, gap=0.2, size=30_000).auc.value
    found = [drawn(numbers, gap=0.2).auc for _ in range(200)]
    assert np.mean([each.low <= true <= each.high for each in found]) > 0.9
    narrow = compare_losses(scores_of(np.ones(60), first=0), scores_of(np.ones(60), first=60), part="test")
    assert (narrow.auc.value, narrow.caught_percent) == (0.5, None)


def test_of_one_customer_nothing_is_known() -> None:
    same = np.zeros(50, dtype=np.int64)
    losses = np.linspace(0, 1, 50)
    found = compare_losses(
        scores_of(losses, first=0), scores_of(losses + 0.5, first=50), part="test", clusters=(same, same)
    )
    assert np.isnan(found.auc.low)
    assert "no interval can be had" in found.note()
