"""The test that says which fields help: what it keeps and what it does not, on sets and texts made here."""

import numpy as np
import pytest
import torch

from contextual_bert.context import FeatureLayout
from contextual_bert.data import SequenceDataset
from contextual_bert.data.dataset import IGNORED_LABEL
from contextual_bert.errors import ConfigurationError
from contextual_bert.training import field_selection
from contextual_bert.training.field_selection import (
    FieldGain,
    can_select,
    field_gains,
    folds_by_cluster,
    gain_at_least,
    is_too_little,
)

NUM_SETS, NUM_RESERVED, VOCAB_SIZE = 1_500, 3, 43


def categorical(name: str, num_values: int) -> FeatureLayout:
    return FeatureLayout(name, "categorical", num_values + 2, 0, 4)


def dataset_of(items: np.ndarray, context: dict[str, np.ndarray]) -> tuple[SequenceDataset, list[FeatureLayout]]:
    dataset = SequenceDataset(
        NUM_RESERVED + items.ravel(),
        np.arange(len(items) + 1) * items.shape[1],
        context={name: torch.from_numpy(2 + values) for name, values in context.items()},
    )
    return dataset, [categorical(name, int(values.max()) + 1) for name, values in context.items()]


def gains_of(
    items: np.ndarray, context: dict[str, np.ndarray], *, clusters: np.ndarray | None = None
) -> dict[str, FieldGain]:
    clusters = np.arange(len(items)) if clusters is None else clusters
    dataset, layout = dataset_of(items, context)
    found = field_gains(dataset, layout, folds_by_cluster(clusters), clusters, vocab_size=VOCAB_SIZE)
    return {gain.name: gain for gain in found}


def test_a_field_that_the_items_follow_is_kept_and_random_ones_are_not() -> None:
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
    gains = gains_of(items, context)
    assert {name: gain.is_useful for name, gain in gains.items()} == {
        "taste": True,
        "few": False,
        "many": False,
        "coin": False,
    }
    assert gains["taste"].nats > 0.05
    assert max(gains[name].nats for name in ("few", "many", "coin")) == 0


def test_a_field_that_only_matters_beside_another_item_is_kept() -> None:
    """Sets (a, c), (b, d) where the switch is off and (a, d), (b, c) where it is on: all items are as likely."""
    random = np.random.default_rng(1)
    first, switch = random.integers(0, 2, NUM_SETS), random.integers(0, 2, NUM_SETS)
    items = np.stack([first, 2 + (first ^ switch), 4 + random.integers(0, 36, NUM_SETS)], axis=1)
    gains = gains_of(items, {"switch": switch, "coin": random.integers(0, 2, NUM_SETS)})
    assert gains["switch"].is_useful
    assert not gains["coin"].is_useful


def texts_of(
    words: np.ndarray, labels: np.ndarray, context: dict[str, np.ndarray]
) -> tuple[SequenceDataset, list[FeatureLayout]]:
    """Texts of as many words each; labels a text, or a word."""
    sets, layout = dataset_of(words, context)
    labelled = torch.from_numpy(labels.ravel())
    return SequenceDataset(sets.input_ids, sets.offsets, context=sets.context, labels=labelled), layout


@pytest.mark.parametrize("kind", ["reader alone", "reader beside the word", "tags"])
def test_fields_that_labels_follow_beside_their_text_are_kept_and_random_ones_are_not(kind: str) -> None:
    random = np.random.default_rng(8)
    words = random.integers(0, 40, (NUM_SETS, 5))
    reader, coin = random.integers(0, 3, NUM_SETS), random.integers(0, 2, NUM_SETS)
    words[:, 0] = first = random.integers(0, 2, NUM_SETS)
    if kind == "reader alone":
        labels = np.where(random.random(NUM_SETS) < 0.6, first, reader)
    elif kind == "reader beside the word":  # each label is as likely for each reader
        labels = first ^ (reader > 0)
    else:
        labels = np.where(random.random(words.shape) < 0.5, words % 3, reader[:, None])
        labels[::3] = IGNORED_LABEL  # no word of these texts is labelled
    context = {"reader": reader, "coin": coin, "many": random.integers(0, 300, NUM_SETS)}
    owners = np.arange(NUM_SETS)
    gains = field_gains(
        *texts_of(words, labels, context), folds_by_cluster(owners), owners, vocab_size=NUM_RESERVED + 40
    )
    assert {gain.name: gain.is_useful for gain in gains} == {"reader": True, "coin": False, "many": False}
    assert gains[0].nats > 0.02


def test_a_field_that_the_text_says_already_tells_no_label() -> None:
    """Half of the words are those of a topic, and the label is the topic: the regression takes it from the words."""
    random = np.random.default_rng(9)
    topic = random.integers(0, 2, NUM_SETS)
    words = random.integers(0, 20, (NUM_SETS, 12)) + 20 * topic[:, None]
    dataset, layout = texts_of(words, topic, {"topic": topic})
    owners = np.arange(NUM_SETS)
    (beside,) = field_gains(dataset, layout, folds_by_cluster(owners), owners, vocab_size=43)
    words = random.integers(0, 40, (NUM_SETS, 12))
    dataset, layout = texts_of(words, topic, {"topic": topic})
    (alone,) = field_gains(dataset, layout, folds_by_cluster(owners), owners, vocab_size=43)
    assert beside.nats < alone.nats / 2


def test_two_fields_that_help_only_together_are_not_found() -> None:
    """The limit that docs/decisions/036 names: the items follow whether two switches agree, and neither of them."""
    random = np.random.default_rng(10)
    one, other = random.integers(0, 2, NUM_SETS), random.integers(0, 2, NUM_SETS)
    items = 20 * (one ^ other)[:, None] + np.stack([random.permutation(20)[:4] for _ in range(NUM_SETS)])
    gains = gains_of(items, {"one": one, "other": other, "both": 2 * one + other})
    assert {name: gain.is_useful for name, gain in gains.items()} == {"one": False, "other": False, "both": True}


def test_two_fields_that_say_the_same_are_both_kept() -> None:
    """Beside its double a field gains nothing; silencing both by that would lose what they say."""
    random = np.random.default_rng(2)
    taste = random.integers(0, 4, NUM_SETS)
    items = 10 * taste[:, None] + np.stack([random.permutation(10)[:4] for _ in range(NUM_SETS)])
    items[:, 1:] = np.stack([random.permutation(40)[:3] for _ in range(NUM_SETS)])
    gains = gains_of(items, {"taste": taste, "double": 3 - taste})
    assert gains["taste"].is_useful
    assert gains["double"].is_useful


def test_random_fields_have_the_z_of_chance() -> None:
    """Fields of 300 customers, each with sets of one taste: the sets of a customer are one observation."""
    random = np.random.default_rng(4)
    customer = random.integers(0, 300, NUM_SETS)
    taste = random.integers(0, 4, 300)[customer]
    items = 10 * taste[:, None] + np.stack([random.permutation(10)[:4] for _ in range(NUM_SETS)])
    context = {
        f"{size}-{number}": random.integers(0, size, 300)[customer] for size in (2, 20, 400) for number in range(20)
    }
    gains = gains_of(items, context, clusters=customer)
    z = np.array([gain.z for gain in gains.values()])
    assert not any(gain.is_useful for gain in gains.values())
    assert abs(z.mean() - 0.56) < 0.5  # the larger of two standard normal numbers has mean 0.56 and deviation 0.83
    assert 0.4 < z.std() < 1.3


def test_a_large_table_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    taste = random.integers(0, 2, NUM_SETS)
    items = 20 * taste[:, None] + np.stack([random.permutation(20)[:4] for _ in range(NUM_SETS)])
    items[:, 1:] = np.stack([random.permutation(40)[:3] for _ in range(NUM_SETS)])
    every = gains_of(items, {"taste": taste})["taste"].z
    monkeypatch.setattr(field_selection, "MOST_ITEMS", NUM_SETS)
    quarter = gains_of(items, {"taste": taste})["taste"].z
    assert quarter == pytest.approx(every / 2, rel=0.25)  # a quarter of the sets have half of the standard errors


@pytest.mark.parametrize("num_items", [1, 12])
def test_sets_of_one_item_have_no_others(num_items: int) -> None:
    random = np.random.default_rng(6)
    taste = random.integers(0, 2, NUM_SETS)
    items = (random.integers(0, 6, NUM_SETS) + 6 * taste)[:, None] % num_items
    gain = gains_of(items, {"taste": taste})["taste"]
    assert gain.is_useful is (num_items > 1)
    assert np.isfinite([gain.z, gain.nats]).all()


def test_a_field_of_one_value_says_nothing() -> None:
    items = np.stack([np.random.default_rng(number).permutation(40)[:3] for number in range(400)])
    gain = gains_of(items, {"same": np.zeros(400, dtype=np.int64)})["same"]
    assert gain.z == pytest.approx(0, abs=1e-3)


def test_sets_of_one_customer_are_in_one_fold() -> None:
    clusters = np.repeat(np.arange(20), 3)
    folds = folds_by_cluster(clusters, num_folds=4, seed=3)
    assert sorted(np.concatenate(folds)) == list(range(60))
    assert [len(fold) for fold in folds] == [15] * 4
    assert sum(len({*clusters[fold]}) for fold in folds) == 20


def test_a_fold_of_all_sets_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="more rows"):
        field_gains(*dataset_of(np.zeros((3, 2), dtype=int), {}), [np.arange(3)], np.arange(3), vocab_size=VOCAB_SIZE)


@pytest.mark.parametrize(
    ("num_sets", "size", "num_clusters", "expected"),
    [(399, 6, 399, False), (400, 4, 400, False), (400, 5, 99, False), (400, 5, 100, True)],
)
def test_small_tables_are_not_judged(num_sets: int, size: int, num_clusters: int, expected: bool) -> None:
    dataset = dataset_of(np.zeros((num_sets, size), dtype=int), {})[0]
    assert can_select(dataset, num_clusters) is expected


def test_a_text_counts_by_its_labels() -> None:
    words = np.zeros((2_000, 3), dtype=int)
    labels = np.zeros(2_000, dtype=np.int64)
    assert can_select(texts_of(words, labels, {})[0], 2_000)
    labels[0] = IGNORED_LABEL
    assert not can_select(texts_of(words, labels, {})[0], 2_000)


@pytest.mark.parametrize(("z", "is_useful"), [(3.1, True), (2.9, False), (-9.0, False)])
def test_a_gain_counts_beyond_chance(z: float, is_useful: bool) -> None:
    assert FieldGain("f", nats=0.01, z=z).is_useful is is_useful


def test_what_a_context_tells_at_least_is_that_of_its_useful_fields() -> None:
    strong, weak, nothing = (
        FieldGain("strong", nats=0.02, z=16.45),
        FieldGain("weak", nats=0.01, z=3.29),
        FieldGain("nothing", nats=0.01, z=2.9),
    )
    assert [gain.lower_bound for gain in (strong, weak, nothing)] == pytest.approx([0.0162, 0.0025, 0.0])
    assert gain_at_least([strong, weak, nothing]) == pytest.approx(0.0187)


@pytest.mark.parametrize(
    ("nats", "num_items", "expected"),
    [(0.002, 100_000, True), (0.002, 103_000, False), (0.02, 100, False), (0.0, 100, False)],
)
def test_a_context_is_too_little_in_all_and_an_item(nats: float, num_items: int, expected: bool) -> None:
    assert is_too_little([FieldGain("f", nats=nats, z=8.225)], num_items) is expected  # of 0.64 its bound
