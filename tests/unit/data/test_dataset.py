"""Sets and contexts as batches: padding, order, every position once."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from transformers.trainer_utils import RemoveColumnsCollator

from contextual_bert.data import EveryPosition, LengthBucketSampler, MaskingCollator, SequenceDataset
from contextual_bert.errors import ConfigurationError, DataError


def dataset(sizes: tuple[int, ...] = (3, 1, 2, 3)) -> SequenceDataset:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    context = {"age": torch.arange(len(sizes)), "brands": torch.arange(2 * len(sizes)).reshape(-1, 2)}
    return SequenceDataset(np.arange(offsets[-1]) + 3, offsets, context=context, example_ids=np.arange(len(sizes)) * 10)


def test_a_batch_is_its_rows_padded() -> None:
    data = dataset()
    batch = data.__getitems__([3, 1])
    assert batch.input_ids.tolist() == [[9, 10, 11], [6, 0, 0]]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.example_ids.tolist() == [30, 10]
    assert batch.context["age"].tolist() == [3, 1]
    assert batch.context["brands"].tolist() == [[6, 7], [2, 3]]
    assert (len(batch), len(data), data.sizes.tolist()) == (2, 4, [3, 1, 2, 3])
    assert data.__getitems__([1]).input_ids.shape == (1, 1)


def test_a_row_agrees_with_its_batch() -> None:
    data = dataset()
    for index in range(len(data)):
        row, batch = data[index], data.__getitems__([index])
        assert row["input_ids"].tolist() == batch.input_ids[0].tolist()
        assert row["example_id"] == int(batch.example_ids[0])
        for name, values in batch.context.items():
            own = row["context"][name]
            assert torch.equal(own[: values.shape[1]] if own.dim() else own, values[0])
            assert own.dim() == 0 or not own[values.shape[1] :].any()  # what a batch leaves out is padding
    assert data[-1]["input_ids"].tolist() == [9, 10, 11]
    with pytest.raises(IndexError, match="sequence 4 of 4"):
        data[4]


def test_pieces_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="offsets must go from 0 to the number of ids, 3"):
        SequenceDataset([1, 2, 3], [0, 2], context={}, example_ids=[0])
    with pytest.raises(DataError, match="the sequence 1 is empty"):
        SequenceDataset([1, 2], [0, 2, 2], context={}, example_ids=[0, 1])
    with pytest.raises(ConfigurationError, match="'example_ids' has 2 rows for 1 sequences"):
        SequenceDataset([1, 2], [0, 2], context={}, example_ids=[0, 1])
    with pytest.raises(ConfigurationError, match="'age' has 3 rows for 1 sequences"):
        SequenceDataset([1, 2], [0, 2], context={"age": torch.zeros(3)}, example_ids=[0])


def test_every_position_comes_once_ordered_by_length() -> None:
    data = dataset((3, 1, 2, 3, 5, 1))
    every = EveryPosition(data)
    pairs = list(zip(every.set_index.tolist(), every.positions.tolist(), strict=True))
    assert len(every) == len(data.input_ids) == len(set(pairs)) == 15
    assert set(pairs) == {(row, place) for row, size in enumerate(data.sizes) for place in range(size)}
    assert every.sizes.tolist() == sorted(every.sizes)
    batch = every.__getitems__([2, 3, 14])
    assert batch.masked_position is not None
    assert batch.example_ids.tolist() == [data.example_ids[pairs[i][0]] for i in (2, 3, 14)]
    assert batch.masked_position.tolist() == [pairs[i][1] for i in (2, 3, 14)]
    assert every[14]["masked_position"] == pairs[14][1] and every[14]["example_id"] == 40
    with pytest.raises(IndexError, match="row 15 of 15"):
        every[15]


def test_a_batch_pays_for_its_own_longest_list_only() -> None:
    brands = torch.tensor([[4, 5, 6, 7], [4, 0, 0, 0], [5, 6, 0, 0]])
    image = torch.zeros(3, 9)
    data = SequenceDataset([5, 6, 7], [0, 1, 2, 3], context={"brands": brands, "image": image}, example_ids=[0, 1, 2])
    batch = data.__getitems__([1, 2])
    assert batch.context["brands"].tolist() == [[4, 0], [5, 6]]
    assert batch.context["image"].shape == (2, 9)
    assert data.__getitems__([0]).context["brands"].tolist() == [[4, 5, 6, 7]]
    texts = SequenceDataset(torch.tensor([2, 3, 2]), torch.tensor([0, 1, 2, 3]), context={"brands": brands})
    assert texts.__getitems__([1]).context["brands"].tolist() == [[4]]
    # Rows that come one by one are as wide as the table's, and can be stacked.
    assert texts.collate_fn([texts[0], texts[1]])["context"]["brands"].tolist() == brands[:2].tolist()


@pytest.mark.parametrize("every", [False, True])
def test_a_trainer_that_looks_for_unused_columns_gets_the_same_batch(every: bool) -> None:
    """As with remove_unused_columns=True, transformers' default."""
    data, collator = dataset(), MaskingCollator(mask_id=1, pad_id=0)
    rows = EveryPosition(data) if every else data
    found = RemoveColumnsCollator(collator, ["input_ids", "labels", "context"])(rows.__getitems__([2, 0]))
    expected = collator(rows.__getitems__([2, 0]))
    assert found.keys() == expected.keys()
    for name in ("input_ids", "labels", "attention_mask"):
        assert torch.equal(found[name], expected[name])


def test_labels_reach_a_trainer_that_looks_for_unused_columns() -> None:
    ids, labels = torch.tensor([2, 5, 3]), torch.tensor([1, 0])
    texts = SequenceDataset(ids, torch.tensor([0, 2, 3]), context={"age": torch.tensor([4, 5])}, labels=labels)
    columns = ["input_ids", "attention_mask", "labels", "context"]
    found = RemoveColumnsCollator(texts.collate_fn, columns)(texts.__getitems__([1, 0]))
    assert found["input_ids"].tolist() == [[3, 0], [2, 5]]
    assert (found["labels"].tolist(), found["context"]["age"].tolist()) == ([0, 1], [5, 4])
    one_by_one = texts.collate_fn([texts[1], texts[0]])
    assert found.keys() == one_by_one.keys()
    assert torch.equal(found["attention_mask"], one_by_one["attention_mask"])


def test_what_is_done_to_a_row_leaves_the_data_set_as_it_is() -> None:
    sets = SequenceDataset([5, 6, 7], [0, 2, 3], context={"age": torch.tensor([1, 2]), "v": torch.zeros(2, 3)})
    for row in (sets[0], sets.__getitems__([0, 1]).inputs(), sets.subset([0]).parts()):
        for value in (row["input_ids"], *row["context"].values()):
            value += 1
    assert sets.input_ids.tolist() == [5, 6, 7]
    assert sets.context["age"].tolist() == [1, 2]
    assert not sets.context["v"].any()


# Batches of one length: every index once, a function of seed and epoch.

SIZES = np.random.default_rng(0).integers(4, 9, 1003)


def batches_of(sampler: LengthBucketSampler, batch_size: int) -> list[list[int]]:
    order = list(sampler)
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


@pytest.mark.parametrize("batch_size", [1, 16, 59, 1003, 5000])
def test_every_index_comes_once_and_the_incomplete_batch_last(batch_size: int) -> None:
    sampler = LengthBucketSampler(SIZES, batch_size=batch_size)
    assert len(sampler) == 1003
    assert sorted(sampler) == list(range(1003))
    assert [len(batch) for batch in batches_of(sampler, batch_size)][:-1] == [batch_size] * ((1003 - 1) // batch_size)


def test_batches_have_one_length_but_for_the_tails() -> None:
    batches = batches_of(LengthBucketSampler(SIZES, batch_size=16), 16)
    mixed = [batch for batch in batches if len(set(SIZES[batch])) > 1]
    # Five lengths have four borders between them.
    assert len(mixed) <= 4
    assert len(batches) == 63
    padding = sum(int((SIZES[batch].max() - SIZES[batch]).sum()) for batch in batches)
    assert padding / SIZES.sum() < 0.01


def test_order_is_a_function_of_seed_and_epoch() -> None:
    one, two = LengthBucketSampler(SIZES, batch_size=16, seed=3), LengthBucketSampler(SIZES, batch_size=16, seed=3)
    assert list(one) == list(one) == list(two)
    first = list(one)
    one.set_epoch(1)
    assert list(one) != first and sorted(one) == list(range(1003))
    # Other sets share a batch, not only other batches follow each other.
    together = {frozenset(batch) for batch in batches_of(one, 16)}
    assert not together & {frozenset(batch) for batch in batches_of(two, 16)}
    one.set_epoch(0)
    assert list(one) == first
    assert list(LengthBucketSampler(SIZES, batch_size=16, seed=4)) != first


def test_lengths_are_mixed_over_the_epoch() -> None:
    sampler = LengthBucketSampler(SIZES, batch_size=16)
    lengths = [int(SIZES[batch[0]]) for batch in batches_of(sampler, 16)]
    assert lengths != sorted(lengths)
    assert len(set(lengths[:15])) >= 4
    sampler.set_epoch(1)
    assert [int(SIZES[batch[0]]) for batch in batches_of(sampler, 16)] != lengths


def test_it_feeds_a_data_loader_and_takes_no_sets() -> None:
    sampler = LengthBucketSampler([2, 3, 2, 3, 2], batch_size=2)
    loader = DataLoader(list(range(5)), batch_size=2, sampler=sampler)  # pyright: ignore
    assert sorted(int(index) for batch in loader for index in batch) == list(range(5))
    assert list(LengthBucketSampler([], batch_size=2)) == []


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"batch_size=0 is not allowed. Give at least 1"):
        LengthBucketSampler([1], batch_size=0)
    with pytest.raises(ConfigurationError, match=r"sizes has the shape \(1, 1\)"):
        LengthBucketSampler([[1]], batch_size=1)


def test_a_batch_that_is_left_out_is_not_always_of_the_longest_sets() -> None:
    longest = {*np.flatnonzero(SIZES == 8).tolist()}
    sampler = LengthBucketSampler(SIZES, batch_size=100, drop_last=True)
    seen: set[int] = set()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        order = list(sampler)
        assert sorted(order) == list(range(1003))
        assert len(longest - {*order[:1000]}) < 3
        batches = [order[start : start + 100] for start in range(0, 1000, 100)]
        assert sum(len({*SIZES[batch].tolist()}) > 1 for batch in batches) <= 4
        seen |= {*order[:1000]}
    assert len(seen) == 1003
