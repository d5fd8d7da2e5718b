"""Contexts with parts left out: how often, of whom, and that it is a function of seed, epoch, example and field."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, ks_2samp
from torch import Tensor
from torch.utils.data import DataLoader

from contextual_bert.context import ContextEncoder, encode_records, missing_like
from contextual_bert.data import (
    DroppedContext,
    EveryPosition,
    LengthBucketSampler,
    MaskingCollator,
    SequenceDataset,
    ShuffledContext,
    TextMaskingCollator,
)
from contextual_bert.data.hashing import Draw, hash_counters, unit_interval
from contextual_bert.errors import ConfigurationError
from contextual_bert.testing import miniature_schema

COUNT = 4_000
GIVEN = {"sex": "m", "age": 30, "brands": ["a", "b", "c"], "style": [0.5, 2.0]}
FIELDS = tuple(GIVEN)


def own_sets(count: int = COUNT, *, fields: tuple[str, ...] = FIELDS) -> SequenceDataset:
    context = encode_records(miniature_schema(), [GIVEN] * count).tensors
    sizes = torch.arange(count) % 3 + 1
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    chosen = {name: context[name] for name in fields}
    return SequenceDataset(torch.arange(int(offsets[-1])), offsets, context=chosen, example_ids=torch.arange(count) * 7)


def own_texts(count: int = COUNT) -> SequenceDataset:
    context = encode_records(miniature_schema(), [GIVEN] * count).tensors
    return SequenceDataset(torch.arange(count), torch.arange(count + 1), context=context)


def absent_in(context: dict[str, Tensor]) -> np.ndarray:
    """(rows, fields): compared with what the schema makes of a record that says nothing, and of one that says all."""
    schema = miniature_schema()
    full = encode_records(schema, [GIVEN]).tensors
    nothing = {**encode_records(schema, [{}]).tensors, "brands": torch.tensor([[1, 0, 0]])}
    columns: list[np.ndarray] = []
    for name, values in context.items():
        rows = values.reshape(len(values), -1)
        is_full, is_missing = ((rows == each[name].reshape(1, -1)).all(dim=1) for each in (full, nothing))
        assert bool((is_full ^ is_missing).all()), name
        columns.append(is_missing.numpy())
    return np.stack(columns, axis=1)


def test_a_missing_tensor_is_what_a_record_without_the_field_gives() -> None:
    schema = miniature_schema()
    given, nothing = encode_records(schema, [GIVEN] * 2).tensors, encode_records(schema, [{}] * 2).tensors
    assert nothing["brands"].shape == (2, 1) and given["brands"].shape == (2, 3)
    encoder = ContextEncoder(schema.layout)
    missing = {name: missing_like(values) for name, values in given.items()}
    assert torch.equal(encoder(missing).vector, encoder(nothing).vector)
    assert torch.equal(encoder(missing).vector, encoder(encoder.missing(2)).vector)
    for name in ("sex", "age", "style"):
        assert torch.equal(missing[name], nothing[name])
    assert missing["brands"].tolist() == [[1, 0, 0]] * 2


@pytest.mark.parametrize(
    ("rates", "whole", "single"),
    [((0.25, 0.0), 0.25, 0.0), ((0.0, 0.3), 0.3**4, 0.3), ((0.2, 0.1), 0.2 + 0.8 * 0.1**4, 0.2 + 0.8 * 0.1)],
)
def test_each_rate_is_what_it_says(rates: tuple[float, float], whole: float, single: float) -> None:
    dropped = DroppedContext(own_sets(), context_dropout=rates[0], field_dropout=rates[1], seed=3)
    absent = absent_in(dropped.__getitems__(range(COUNT)).context)
    assert binomtest(int(absent.all(axis=1).sum()), COUNT, whole).pvalue > 1e-3
    if single:
        assert all(binomtest(int(column.sum()), COUNT, single).pvalue > 1e-3 for column in absent.T)
    if not rates[1]:
        assert set(absent.sum(axis=1).tolist()) == {0, len(FIELDS)}


def test_fields_are_left_out_independently() -> None:
    absent = absent_in(DroppedContext(own_sets(), field_dropout=0.5).__getitems__(range(COUNT)).context)
    patterns = np.bincount(absent @ (1 << np.arange(len(FIELDS))), minlength=16)
    assert ((patterns - COUNT / 16) ** 2 / (COUNT / 16)).sum() < 40  # chi-square with 15 degrees, p = 5e-4


@pytest.mark.parametrize("kind", ["sets", "texts"])
def test_every_other_field_that_is_left_out_is_unknown_where_its_kind_knows_that(kind: str) -> None:
    own: Any = own_sets() if kind == "sets" else own_texts()
    rates = {"context_dropout": 0.2, "field_dropout": 0.5}
    dropped = DroppedContext(own, **rates, layout=miniature_schema().layout, seed=3)
    batch: Any = dropped.__getitems__(range(COUNT))
    context = batch.context
    unknown = encode_records(miniature_schema(), [{**GIVEN, "sex": "x", "brands": ["x"]}]).tensors
    is_unknown = {
        "sex": context["sex"] == unknown["sex"],
        "brands": (context["brands"] == torch.tensor([[int(unknown["brands"][0, 0]), 0, 0]])).all(dim=1),
    }
    plain: Any = DroppedContext(own, **rates, seed=3).__getitems__(range(COUNT))
    absent = absent_in(plain.context)
    for name, found in is_unknown.items():
        assert binomtest(int(found.sum()), COUNT, 0.8 * 0.25).pvalue > 1e-3
        assert not (found.numpy() & ~absent[:, FIELDS.index(name)]).any()
    both = (is_unknown["sex"] & is_unknown["brands"]).sum()
    assert binomtest(int(both), COUNT, 0.8 * 0.25**2).pvalue > 1e-3  # each for itself
    rest = {**context, **{name: plain.context[name] for name in is_unknown}}
    assert np.array_equal(absent_in(rest), absent)  # numbers and vectors are missing, as what is not unknown is
    is_whole = unit_interval(hash_counters(3, 0, Draw.WHOLE_CONTEXT, own.example_ids.numpy())) < 0.2
    assert not any((found.numpy() & is_whole).any() for found in is_unknown.values())
    row = {name: value[None] for name, value in dropped[17]["context"].items()}
    assert all(torch.equal(row[name][0], context[name][17]) for name in FIELDS)


def test_who_is_left_out_says_nothing_of_how_much_of_the_text_is_hidden() -> None:
    texts = own_texts(2_000)
    is_dropped = DroppedContext(texts, context_dropout=0.3).absent(texts.example_ids)[:, 0].numpy()
    sets = SequenceDataset(
        torch.arange(40_000) % 50 + 5, torch.arange(0, 40_001, 20), context={}, example_ids=texts.example_ids
    )
    masking = TextMaskingCollator(
        mask_id=2, pad_id=0, special_ids=[0, 2], is_word_start=torch.ones(60, dtype=torch.bool), rate=0.15, max_rate=1.0
    )
    hidden = (masking(sets.__getitems__(range(2_000)))["labels"] >= 0).sum(dim=1).numpy()
    assert ks_2samp(hidden[is_dropped], hidden[~is_dropped]).pvalue > 1e-3


def test_without_a_rate_nothing_changes_and_the_data_set_stays_as_it_was() -> None:
    own = own_sets(50)
    before = {name: values.clone() for name, values in own.context.items()}
    assert not absent_in(DroppedContext(own).__getitems__(range(50)).context).any()
    assert absent_in(DroppedContext(own, field_dropout=0.9).__getitems__(range(50)).context).any()
    assert all(torch.equal(own.context[name], values) for name, values in before.items())


def test_what_is_left_out_depends_on_seed_epoch_and_example_alone() -> None:
    rates = {"context_dropout": 0.2, "field_dropout": 0.3}
    dropped = DroppedContext(own_sets(60), **rates, seed=5)
    epochs: list[np.ndarray] = []
    for epoch in (0, 1, 2):
        dropped.set_epoch(epoch)
        epochs.append(absent_in(dropped.__getitems__(range(60)).context))
    assert not np.array_equal(epochs[0], epochs[1]) and not np.array_equal(epochs[1], epochs[2])
    dropped.set_epoch(1)
    order = np.random.default_rng(0).permutation(60)
    assert np.array_equal(absent_in(dropped.__getitems__(order.tolist()).context), epochs[1][order])
    for index in (0, 17, 59):  # a row by itself, and in the data set without the others
        row = {name: value[None] for name, value in dropped[index]["context"].items()}
        assert np.array_equal(absent_in(row)[0], epochs[1][index])
    other = DroppedContext(own_sets(60), **rates, seed=6)
    other.set_epoch(1)
    assert not np.array_equal(absent_in(other.__getitems__(range(60)).context), epochs[1])


def test_what_is_left_out_of_a_field_does_not_depend_on_the_other_fields() -> None:
    whole = DroppedContext(own_sets(200), field_dropout=0.5).__getitems__(range(200)).context
    fewer = DroppedContext(own_sets(200, fields=("style", "age")), field_dropout=0.5).__getitems__(range(200)).context
    assert list(fewer) == ["style", "age"]
    assert all(torch.equal(fewer[name], whole[name]) for name in fewer)


def test_a_higher_rate_leaves_out_more_of_the_same() -> None:
    low, high = (
        absent_in(DroppedContext(own_sets(500), field_dropout=rate).__getitems__(range(500)).context)
        for rate in (0.1, 0.4)
    )
    assert not (low & ~high).any() and low.sum() < high.sum()


def test_texts_lack_what_sets_of_the_same_ids_lack() -> None:
    texts = DroppedContext(own_texts(100), context_dropout=0.3, field_dropout=0.2)
    batch = texts.__getitems__(range(100)).inputs()
    sets = own_sets(100)
    sets.example_ids = torch.arange(100)
    expected = DroppedContext(sets, context_dropout=0.3, field_dropout=0.2).__getitems__(range(100)).context
    assert sorted(batch) == ["attention_mask", "context", "input_ids"]
    assert all(torch.equal(batch["context"][name], expected[name]) for name in FIELDS)
    assert texts.sizes.tolist() == [1] * 100


@pytest.mark.parametrize("kind", ["sets", "texts"])
def test_shuffled_contexts_are_dealt_first(kind: str) -> None:
    plain: Any = own_sets(90) if kind == "sets" else own_texts(90)
    plain.context = {"age": torch.arange(1, 91)}
    shuffled: Any = ShuffledContext(plain, seed=1)
    dropped = DroppedContext(shuffled, field_dropout=0.3)
    ages: list[list[int]] = []
    for epoch in (0, 1):
        dropped.set_epoch(epoch)
        context = dropped.__getitems__(range(90)).context
        is_there = context["age"] > 0
        assert torch.equal(context["age"][is_there], plain.context["age"][shuffled.order][is_there])
        ages.append(context["age"].tolist())
    assert ages[0] != ages[1]


@pytest.mark.parametrize("epoch", [0, 3])
def test_workers_give_the_same_batches(epoch: int) -> None:
    batches: list[Any] = []
    for num_workers in (0, 2):
        dropped = DroppedContext(own_sets(300), context_dropout=0.2, field_dropout=0.2)
        sampler, collate = (
            LengthBucketSampler(dropped.sizes, batch_size=16, seed=4),
            MaskingCollator(mask_id=1, pad_id=0),
        )
        loader: Any = DataLoader(
            dropped,
            batch_size=16,
            sampler=sampler,
            collate_fn=collate,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
        )
        list(loader)  # workers that run already hear of the epoch, too
        for each in (sampler, collate, dropped):
            each.set_epoch(epoch)
        batches.append(list(loader))
    for one, two in zip(*batches, strict=True):
        assert torch.equal(one["labels"], two["labels"])
        assert all(torch.equal(one["context"][name], two["context"][name]) for name in FIELDS)


def test_data_without_a_context_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"context_dropout=0\.1.*are for data with a context"):
        DroppedContext(own_sets(5, fields=()), context_dropout=0.1)


# The context that says nothing: dealt out anew each epoch, a pure function of seed, epoch and place.

NUM_SETS = 500


def shuffled_sets() -> SequenceDataset:
    sizes = torch.arange(NUM_SETS) % 3 + 1
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    context = {"age": torch.arange(NUM_SETS), "brands": torch.arange(2 * NUM_SETS).view(NUM_SETS, 2)}
    items = torch.arange(int(sizes.sum())) + 3
    return SequenceDataset(items, offsets, context=context, example_ids=torch.arange(NUM_SETS) * 7, pad_id=0)


def ages(dataset: SequenceDataset, places: list[int] | None = None) -> list[int]:
    return dataset.__getitems__(list(range(NUM_SETS)) if places is None else places).context["age"].tolist()


def test_every_context_is_dealt_once_and_few_stay_where_they_were() -> None:
    dealt = ages(ShuffledContext(shuffled_sets(), seed=0))
    assert sorted(dealt) == list(range(NUM_SETS))
    assert sum(place == age for place, age in enumerate(dealt)) < 10  # one in the mean


def test_the_features_of_one_context_stay_together() -> None:
    batch = ShuffledContext(shuffled_sets(), seed=0).__getitems__([5, 80, 3])
    assert torch.equal(batch.context["brands"][:, 0], 2 * batch.context["age"])


def test_items_masks_and_the_sets_own_contexts_stay() -> None:
    own, shuffled = shuffled_sets(), ShuffledContext(shuffled_sets(), seed=0)
    mine, theirs = own.__getitems__([9, 4]), shuffled.__getitems__([9, 4])
    assert torch.equal(mine.input_ids, theirs.input_ids)
    assert torch.equal(mine.example_ids, theirs.example_ids)
    assert torch.equal(own.context["age"], shuffled.context["age"])


def test_it_is_a_pure_function_of_seed_epoch_and_place() -> None:
    first, second, other_seed = (ShuffledContext(shuffled_sets(), seed=seed) for seed in (0, 0, 1))
    places = [400, 2, 77]
    start = ages(first)
    assert ages(second, places) == [start[place] for place in places]
    assert [second[place]["context"]["age"].item() for place in places] == [start[place] for place in places]
    assert ages(other_seed) != start
    first.set_epoch(1)
    assert ages(first) != start
    first.set_epoch(0)
    assert ages(first) == start


def test_evaluation_gives_all_positions_of_a_set_the_same_context() -> None:
    shuffled = ShuffledContext(shuffled_sets(), seed=0)
    every = EveryPosition(shuffled)
    batch = every.__getitems__(list(range(len(every))))
    expected = [ages(shuffled)[place] for place in every.set_index.tolist()]
    assert batch.context["age"].tolist() == expected


def test_texts_one_by_one_have_the_contexts_of_their_batch() -> None:
    offsets, ages = torch.arange(41) * 2, torch.arange(40)
    own = SequenceDataset(torch.arange(80), offsets, context={"age": ages, "brands": torch.arange(80).view(40, 2)})
    shuffled = ShuffledContext(own, seed=0)
    batch = shuffled.__getitems__(range(40)).context
    assert not torch.equal(batch["age"], ages)
    for index in (0, 7, 39):
        assert torch.equal(shuffled[index]["context"]["age"], batch["age"][index])
        assert torch.equal(shuffled[index]["context"]["brands"], batch["brands"][index])
    assert torch.equal(shuffled[-1]["context"]["age"], batch["age"][39])
    assert ShuffledContext(SequenceDataset(torch.arange(80), offsets, context={}), seed=0)[0]["context"] == {}
