"""Batches of one length: every index once, a function of seed and epoch."""

import numpy as np
import pytest
from torch.utils.data import DataLoader

from contextual_bert.data import LengthBucketSampler
from contextual_bert.errors import ConfigurationError

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
