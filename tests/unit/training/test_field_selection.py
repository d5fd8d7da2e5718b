"""The small model that says which fields help: what it keeps and what it does not, on sets made here."""

import numpy as np
import pytest
import torch

from contextual_bert.context import FeatureLayout
from contextual_bert.data import SequenceDataset
from contextual_bert.training import field_selection
from contextual_bert.training.field_selection import FieldGain, can_select, field_gains, halves

NUM_SETS, NUM_RESERVED, VOCAB_SIZE = 1_500, 3, 43


def categorical(name: str, num_values: int) -> FeatureLayout:
    return FeatureLayout(name, "categorical", num_values + 2, 0, 4)


def gains_of(
    items: np.ndarray, context: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> dict[str, FieldGain]:
    monkeypatch.setattr(field_selection, "FEWEST_STEPS", 200)
    dataset = SequenceDataset(
        NUM_RESERVED + items.ravel(),
        np.arange(len(items) + 1) * items.shape[1],
        context={name: torch.from_numpy(2 + values) for name, values in context.items()},
    )
    layout = [categorical(name, int(values.max()) + 1) for name, values in context.items()]
    clusters = np.arange(len(items))
    found = field_gains(dataset, layout, halves(clusters, seed=0), clusters, vocab_size=VOCAB_SIZE)
    return {gain.name: gain for gain in found}


def test_a_field_that_the_items_follow_is_kept_and_random_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    taste = random.integers(0, 4, NUM_SETS)
    items = np.stack([random.permutation(10)[:4] for _ in range(NUM_SETS)]) + 10 * taste[:, None]
    is_other = random.random(items.shape) < 0.5  # half of the items follow no taste
    items = np.where(is_other, np.stack([random.permutation(40)[:4] for _ in range(NUM_SETS)]), items)
    context = {
        "taste": taste,
        "few": random.integers(0, 5, NUM_SETS),
        "many": random.integers(0, 300, NUM_SETS),
        "coin": random.integers(0, 2, NUM_SETS),
    }
    gains = gains_of(items, context, monkeypatch)
    assert {name: gain.is_useful for name, gain in gains.items()} == {
        "taste": True,
        "few": False,
        "many": False,
        "coin": False,
    }
    assert gains["taste"].alone > 0.05
    assert max(gains[name].last for name in ("few", "many", "coin")) < 0.01


def test_a_field_that_only_matters_beside_another_item_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets (a, c), (b, d) where the switch is off and (a, d), (b, c) where it is on: all items are as likely."""
    random = np.random.default_rng(1)
    first, switch = random.integers(0, 2, NUM_SETS), random.integers(0, 2, NUM_SETS)
    items = np.stack([first, 2 + (first ^ switch), 4 + random.integers(0, 36, NUM_SETS)], axis=1)
    gains = gains_of(items, {"switch": switch, "coin": random.integers(0, 2, NUM_SETS)}, monkeypatch)
    assert gains["switch"].is_useful
    assert not gains["coin"].is_useful


def test_two_fields_that_say_the_same_are_both_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its double a field gains nothing; silencing both by that would lose what they say."""
    random = np.random.default_rng(2)
    taste = random.integers(0, 4, NUM_SETS)
    items = 10 * taste[:, None] + np.stack([random.permutation(10)[:4] for _ in range(NUM_SETS)])
    items[:, 1:] = np.stack([random.permutation(40)[:3] for _ in range(NUM_SETS)])
    gains = gains_of(items, {"taste": taste, "double": 3 - taste}, monkeypatch)
    assert gains["taste"].is_useful
    assert gains["double"].is_useful


def test_sets_of_one_customer_are_on_one_side() -> None:
    clusters = np.repeat(np.arange(20), 3)
    first, second = halves(clusters, seed=3)
    assert not {*clusters[first.fitted]} & {*clusters[first.asked]}
    assert sorted([*first.asked, *second.asked]) == list(range(60))
    assert np.array_equal(first.fitted, second.asked)


@pytest.mark.parametrize(
    ("num_sets", "num_clusters", "expected"), [(999, 999, False), (1_000, 99, False), (1_000, 100, True)]
)
def test_few_sets_or_few_customers_decide_nothing(num_sets: int, num_clusters: int, expected: bool) -> None:
    assert can_select(num_sets, num_clusters) is expected


@pytest.mark.parametrize(
    ("gain", "is_useful"),
    [
        (FieldGain("f", alone=0.01, alone_z=3.1, last=-0.1, last_z=0.0), True),
        (FieldGain("f", alone=-0.01, alone_z=9.0, last=0.001, last_z=3.1), True),
        (FieldGain("f", alone=-0.01, alone_z=9.0, last=0.001, last_z=2.9), False),
        (FieldGain("f", alone=0.01, alone_z=2.9, last=-0.001, last_z=9.0), False),
    ],
)
def test_a_gain_counts_beyond_chance_and_above_nothing(gain: FieldGain, is_useful: bool) -> None:
    assert gain.is_useful is is_useful
