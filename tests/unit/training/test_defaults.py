"""Default settings of a training on sets: by the number of sets, beside what the user gave."""

import pytest

from contextual_bert.training.arguments import ContextualTrainingArguments
from contextual_bert.training.defaults import FORGOTTEN_PER_EPOCH, set_defaults


@pytest.mark.parametrize(
    ("num_sets", "batch_size", "epochs"),
    [(6_000, 64, 22), (16_000, 64, 10), (33_000, 128, 10), (200_000, 256, 10)],
)
def test_batch_and_epochs_follow_the_number_of_sets(num_sets: int, batch_size: int, epochs: int):
    chosen = set_defaults(num_sets, median_size=5, sightings=200, given={})
    assert chosen["per_device_train_batch_size"] == batch_size
    assert chosen["num_train_epochs"] == epochs


@pytest.mark.parametrize("num_sets", [10_000, 60_000, 300_000])
def test_the_decay_forgets_the_same_share_in_each_epoch(num_sets: int):
    chosen = set_defaults(num_sets, median_size=5, sightings=200, given={})
    steps = -(-num_sets // chosen["per_device_train_batch_size"])
    assert chosen["learning_rate"] * chosen["weight_decay"] * steps == pytest.approx(FORGOTTEN_PER_EPOCH)


@pytest.mark.parametrize(("sightings", "more"), [(1000, 1), (100, 1), (44.4, 1.5), (25, 2), (3, 2)])
def test_items_that_are_seen_seldom_are_forgotten_sooner(sightings: float, more: float):
    usual, chosen = (set_defaults(20_000, median_size=5, sightings=each, given={}) for each in (100, sightings))
    assert chosen["weight_decay"] / usual["weight_decay"] == pytest.approx(more, abs=0.01)


def test_what_was_given_stays_and_the_others_follow_from_it():
    given = {"per_device_train_batch_size": 256, "num_train_epochs": 3, "learning_rate": 0.002}
    chosen = set_defaults(25_600, median_size=5, sightings=200, given=given)
    assert not given.keys() & chosen.keys()
    assert chosen["one_mask_epochs"] == 1
    assert chosen["weight_decay"] == pytest.approx(FORGOTTEN_PER_EPOCH / (0.002 * 100))


def test_a_set_of_three_items_hides_one():
    chosen = set_defaults(10_000, median_size=3, sightings=200, given={})
    assert (chosen["masks_per_set"], "one_mask_epochs" in chosen) == (1, False)


@pytest.mark.parametrize(
    "given", [{}, {"max_steps": 5}, {"num_train_epochs": 1}, {"one_mask_epochs": 2}, {"masks_per_set": 1}]
)
@pytest.mark.parametrize("median_size", [2, 6])
def test_the_settings_are_possible(given: dict[str, int], median_size: int, tmp_path):
    chosen = set_defaults(100, median_size=median_size, sightings=200, given=given)
    ContextualTrainingArguments(output_dir=str(tmp_path), use_cpu=True, **{**chosen, **given})


def test_processes_share_the_batch(monkeypatch: pytest.MonkeyPatch):
    alone = set_defaults(30_000, median_size=5, sightings=200, given={})
    monkeypatch.setenv("WORLD_SIZE", "2")
    shared = set_defaults(30_000, median_size=5, sightings=200, given={})
    assert shared["per_device_train_batch_size"] * 2 == alone["per_device_train_batch_size"]
    assert shared["learning_rate"] == alone["learning_rate"]
