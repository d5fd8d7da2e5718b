"""Masks as a pure function of (seed, epoch, example id)."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import chisquare
from torch.utils.data import DataLoader

from contextual_bert.data import EveryPosition, LengthBucketSampler, MaskingCollator, SequenceDataset
from contextual_bert.data.hashing import hash_counters, hash_strings, unit_interval
from contextual_bert.errors import ConfigurationError, DataError

MASK, PAD = 1, 0


def dataset(num_sets: int = 200, seed: int = 0) -> SequenceDataset:
    sizes = np.random.default_rng(seed).integers(1, 9, num_sets)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return SequenceDataset(
        np.arange(offsets[-1]) + 3,
        offsets,
        context={"age": torch.arange(num_sets)},
        example_ids=np.arange(num_sets) * 7,
    )


def fixed_size(num_sets: int, size: int) -> SequenceDataset:
    offsets = np.arange(num_sets + 1) * size
    return SequenceDataset(np.arange(offsets[-1]) + 3, offsets, context={}, example_ids=np.arange(num_sets))


def masked_of(
    collator: MaskingCollator, data: SequenceDataset, order: list[int], batch_size: int
) -> dict[int, tuple[int, ...]]:
    """The masked positions of each set."""
    masked: dict[int, tuple[int, ...]] = {}
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        output = collator(data.__getitems__(indices))
        for row, index in enumerate(indices):
            masked[index] = tuple(torch.nonzero(output["labels"][row] != -100).flatten().tolist())
    return masked


def collator(**settings: int) -> MaskingCollator:
    return MaskingCollator(mask_id=MASK, pad_id=PAD, **settings)


def test_inputs_labels_and_padding() -> None:
    data = dataset()
    batch = data.__getitems__(list(range(50)))
    output = collator()(batch)
    masked = output["labels"] != -100
    real = torch.arange(batch.input_ids.shape[1]) < batch.lengths[:, None]
    assert torch.equal(output["labels"][masked], batch.input_ids[masked])
    assert torch.equal(output["input_ids"] == MASK, masked)
    assert torch.equal(output["input_ids"][~masked], batch.input_ids[~masked])
    assert torch.equal(output["attention_mask"], real.long())
    assert masked.sum(1).tolist() == [1] * 50 and not (masked & ~real).any()
    assert output["context"]["age"].tolist() == list(range(50))
    same = collator()(fixed_size(3, 4).__getitems__([0, 1, 2]))
    assert sorted(same) == ["input_ids", "labels"]


def test_the_id_of_padding_is_the_collators() -> None:
    output = MaskingCollator(mask_id=1, pad_id=2)(dataset().__getitems__(list(range(20))))
    assert set(output["input_ids"][output["attention_mask"] == 0].tolist()) == {2}


def test_the_last_epochs_mask_one_item_as_a_collator_of_one_would() -> None:
    data = dataset()
    order = list(range(len(data)))
    several, changing, one = (
        collator(**settings)
        for settings in ({"masks_per_set": 3}, {"masks_per_set": 3, "one_mask_from_epoch": 2}, {"masks_per_set": 1})
    )
    for epoch in range(4):
        for each in (several, changing, one):
            each.set_epoch(epoch)
        expected = several if epoch < 2 else one
        assert masked_of(changing, data, order, 16) == masked_of(expected, data, order, 16)


@pytest.mark.parametrize("masks_per_set", [1, 3])
def test_masks_do_not_depend_on_batch_or_order(masks_per_set: int) -> None:
    data = dataset()
    order = list(range(len(data)))
    shuffled = np.random.default_rng(1).permutation(len(data)).tolist()
    first = masked_of(collator(masks_per_set=masks_per_set), data, order, 16)
    assert first == masked_of(collator(masks_per_set=masks_per_set), data, shuffled, 1)
    assert first == masked_of(collator(masks_per_set=masks_per_set), data, shuffled, 200)
    assert all(len(masked) == min(masks_per_set, size) for masked, size in zip(first.values(), data.sizes, strict=True))


def test_masks_depend_on_seed_and_epoch_only() -> None:
    data = dataset()
    order = list(range(len(data)))
    collate = collator(seed=5)
    epochs = []
    for epoch in (0, 1, 2):
        collate.set_epoch(epoch)
        assert collate.epoch == epoch
        epochs.append(masked_of(collate, data, order, 32))
    assert epochs[0] != epochs[1] != epochs[2]
    collate.set_epoch(1)
    assert masked_of(collate, data, order, 32) == epochs[1]
    assert masked_of(collator(seed=6), data, order, 32) != epochs[0]


def test_every_position_has_the_same_chance() -> None:
    data = fixed_size(4000, 5)
    for settings in ({}, {"masks_per_set": 2}):
        collate = collator(seed=11, **settings)
        counts = np.zeros(5)
        for epoch in range(3):
            collate.set_epoch(epoch)
            labels = collate(data.__getitems__(list(range(4000))))["labels"]
            counts += (labels != -100).sum(0).numpy()
        assert counts.sum() == 12000 * settings.get("masks_per_set", 1)
        assert chisquare(counts).pvalue > 1e-3


def test_positions_of_one_example_are_independent_over_epochs_and_all_are_masked_at_last() -> None:
    data = fixed_size(200, 6)
    collate = collator()
    seen = torch.zeros(200, 6)
    repeats = []
    previous = None
    for epoch in range(80):
        collate.set_epoch(epoch)
        masked = collate(data.__getitems__(list(range(200))))["labels"] != -100
        if previous is not None:
            repeats.append(float((masked & previous).sum() / 200))
        seen, previous = seen + masked, masked
    assert int(seen.min()) >= 1
    assert abs(np.mean(repeats) - 1 / 6) < 0.02


def test_every_position_is_masked_once_where_that_is_asked_for() -> None:
    data = dataset(40)
    loader = DataLoader(EveryPosition(data), batch_size=7, collate_fn=collator())
    masked = torch.cat([batch["labels"][batch["labels"] != -100] for batch in loader])
    assert sorted(masked.tolist()) == data.input_ids.tolist()
    every = EveryPosition(data)
    rows = collator()([every[index] for index in range(len(every))])
    assert sorted(rows["labels"][rows["labels"] != -100].tolist()) == data.input_ids.tolist()


def test_a_list_of_rows_gives_what_a_batch_gives() -> None:
    data = dataset()
    rows = collator(masks_per_set=2)([data[index] for index in (5, 9, 2)])
    batch = collator(masks_per_set=2)(data.__getitems__([5, 9, 2]))
    assert rows.keys() == batch.keys()
    for key in ("input_ids", "labels", "attention_mask"):
        assert torch.equal(rows[key], batch[key])
    assert torch.equal(rows["context"]["age"], batch["context"]["age"])


def test_rows_of_a_hugging_face_dataset() -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list(
        [
            {"input_ids": [4, 5, 6], "context": {"age": 3}, "example_id": 8},
            {"input_ids": [7], "context": {"age": 2}, "example_id": 9},
        ]
    )
    [batch] = DataLoader(data, batch_size=2, collate_fn=collator())
    assert batch["labels"][1].tolist() == [7, -100, -100]
    assert batch["context"]["age"].tolist() == [3, 2]


def test_bad_settings_and_rows_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"masks_per_set=0 is not allowed. Give at least 1"):
        collator(masks_per_set=0)
    with pytest.raises(ConfigurationError, match="mask_id and pad_id are both 1"):
        MaskingCollator(mask_id=1, pad_id=1)
    with pytest.raises(DataError, match="the set of example 4 is empty"):
        collator()([{"input_ids": [], "context": {}, "example_id": 4}])
    with pytest.raises(
        DataError, match=r"example 0 of the batch has no 'example_id', only input_ids.*remove_unused_columns=False"
    ):
        collator()([{"input_ids": [1]}])


@pytest.mark.parametrize("epoch", [0, 3])
def test_workers_give_the_same_batches(epoch: int) -> None:
    data = dataset(300)
    batches = []
    for num_workers in (0, 2):
        collate, sampler = collator(seed=2), LengthBucketSampler(data.sizes, batch_size=16, seed=4)
        loader = DataLoader(data, batch_size=16, sampler=sampler, collate_fn=collate, num_workers=num_workers)
        sampler.set_epoch(epoch)
        collate.set_epoch(epoch)
        batches.append(list(loader))
    assert len(batches[0]) == len(batches[1]) == 19
    for one, two in zip(*batches, strict=True):
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one if key != "context")
        assert torch.equal(one["context"]["age"], two["context"]["age"])


def test_workers_that_run_already_see_the_epoch() -> None:
    data, collate = dataset(60), collator()
    loader = DataLoader(data, batch_size=60, collate_fn=collate, num_workers=1, persistent_workers=True)
    [first] = list(loader)
    collate.set_epoch(1)
    [second] = list(loader)
    assert torch.equal(second["labels"], collate(data.__getitems__(list(range(60))))["labels"])
    assert not torch.equal(first["labels"], second["labels"])


# --- the hash below it all


def mix(state: int) -> int:
    """The mixing function as Steele, Lea and Flood print it, in Python's own integers."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


def test_the_hash_is_the_published_one_and_fixed_for_ever() -> None:
    assert mix(0) == 0xE220A8397B1DCDAF
    assert hash_counters(1, 2, -3).tolist() == [mix(mix(mix(1) ^ 2) ^ (-3 % 2**64))]
    # Frozen values: a change would move every mask and every split that was ever made.
    assert hash_counters(1, 2, 3).tolist() == [15020427595393229491]
    assert hash_strings(pa.array(["", "a", "äb"]), seed=1).tolist() == [
        12793040940332582595,
        7653547685664647196,
        18244488289428952789,
    ]


def test_hashes_of_strings_do_not_depend_on_slices_and_look_uniform() -> None:
    names = pa.array([f"customer {i}" for i in range(20000)] + ["", "ab", "ba", "a", "b"])
    hashes = hash_strings(names)
    assert len(np.unique(hashes)) == len(names)
    assert np.array_equal(hash_strings(names.slice(777)), hashes[777:])
    assert np.array_equal(hash_strings(pa.chunked_array([names.slice(0, 5), names.slice(5)])), hashes)
    assert len(hash_strings(pa.array([], pa.string()))) == 0
    assert not np.array_equal(hash_strings(names, seed=1), hashes)
    counts, _ = np.histogram(unit_interval(hashes), bins=50, range=(0, 1))
    assert chisquare(counts).pvalue > 1e-3


def test_texts_are_hidden_as_sets_unless_they_have_labels() -> None:
    ids, offsets, labels = torch.tensor([2, 5, 6, 3, 2, 7, 3]), torch.tensor([0, 4, 7]), torch.tensor([1, 0])
    texts = SequenceDataset(ids, offsets, context={}, labels=labels)
    for batch in (texts.__getitems__([0, 1]), [texts[0], texts[1]]):
        with pytest.raises(DataError, match=r"the batch has labels.*Encode without labels"):
            collator()(batch)
    output = collator()(SequenceDataset(ids, offsets, context={}).__getitems__([0, 1]))
    assert (output["labels"] != -100).sum(dim=1).tolist() == [1, 1]
