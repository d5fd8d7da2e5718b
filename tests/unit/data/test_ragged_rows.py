"""Histories without padding: the same rows, batches and draws as of the padded tensor."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.context import ContextSchema
from contextual_bert.context.encoding import rarely_missing
from contextual_bert.context.interactions import Interactions, arranged
from contextual_bert.context.kinds.history import History
from contextual_bert.data import (
    DrawnBaskets,
    DroppedContext,
    SequenceBatch,
    SequenceDataset,
    SetPolicy,
    ShuffledContext,
    read_sets,
)
from contextual_bert.data.next_items import in_pieces
from contextual_bert.data.ragged_rows import RaggedRows, first_values, rows_of, without_padding
from contextual_bert.inference import encode_sets
from contextual_bert.models import ContextualBertProcessor

NUM_ROWS = 40


def histories(num_rows: int = NUM_ROWS) -> torch.Tensor:
    """Histories of different lengths: empty ones, missing ones and a long one among them."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 9, num_rows)
    lengths[3] = 60
    rows = np.repeat(np.arange(num_rows), lengths)
    items, ago = rng.integers(2, 12, len(rows)), rng.integers(0, 6, len(rows))
    table = arranged(Interactions(rows, items, ago, ago * 7), num_rows=num_rows)
    table[lengths == 0, 0, 0] = np.arange((lengths == 0).sum()) % 2  # some are known to have none
    return torch.from_numpy(table)


def dataset(values: torch.Tensor) -> SequenceDataset:
    sizes = 1 + np.arange(len(values)) % 4
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    ids = 3 + np.arange(offsets[-1]) % 9
    context = {"age": torch.arange(len(values)), "before": values}
    return SequenceDataset(ids, offsets, context=context, example_ids=np.arange(len(values)) * 2)


def both() -> tuple[SequenceDataset, SequenceDataset]:
    padded = dataset(histories())
    return padded, padded.without_padding()


def assert_same(one: SequenceBatch, other: SequenceBatch) -> None:
    assert torch.equal(one.input_ids, other.input_ids)
    assert one.context.keys() == other.context.keys()
    for name, values in one.context.items():
        assert type(other.context[name]) is torch.Tensor
        assert values.dtype == other.context[name].dtype
        assert torch.equal(values, other.context[name])


def test_rows_are_those_of_the_padded_tensor() -> None:
    padded = histories()
    rows = RaggedRows.of(padded)
    assert (rows.shape, len(rows), rows.ndim, rows.dim()) == (padded.shape, len(padded), 3, 3)
    assert rows.nbytes < padded.nbytes / 4
    np.testing.assert_array_equal(rows.numpy(), padded.numpy())
    np.testing.assert_array_equal(np.asarray(rows), padded.numpy())
    assert torch.equal(rows[3], padded[3]) and torch.equal(rows[-1], padded[-1])
    chosen = torch.tensor([5, 5, 1])
    own = rows[chosen]
    assert torch.equal(own, padded[chosen][:, : own.shape[1]]) and not padded[chosen][:, own.shape[1] :].any()
    is_odd = torch.arange(NUM_ROWS) % 2 == 1
    for index in (slice(3, 9), is_odd, is_odd.numpy(), np.array([3, 7])):
        own = rows[index]
        assert torch.equal(own, padded[index][:, : own.shape[1]])
    taken = rows.take(torch.tensor([7, 3, 3]))
    np.testing.assert_array_equal(taken.numpy(), padded[[7, 3, 3]].numpy())
    assert torch.equal(rows_of(padded, chosen), padded[chosen])
    assert [each.tolist() for each in rows] == padded.tolist()


@pytest.mark.parametrize("num_rows", [0, 3])
def test_rows_of_nothing(num_rows: int) -> None:
    padded = torch.zeros(num_rows, 1, 4, dtype=torch.int64)
    rows = RaggedRows.of(padded)
    assert torch.equal(rows[:], padded) and torch.equal(rows.take(torch.arange(num_rows))[:], padded)
    assert torch.equal(rows.first(), padded)


def test_what_is_missing_is_the_same() -> None:
    padded, ragged = both()
    found, own = first_values(padded.context), first_values(ragged.context)
    assert own["before"].shape == (NUM_ROWS, 1, 4)
    for fewest in (1, 3, 10):
        assert rarely_missing(found, fewest=fewest) == rarely_missing(own, fewest=fewest)


def test_batches_are_the_same() -> None:
    padded, ragged = both()
    for rows in (range(NUM_ROWS), [0], [3], [9, 3, 1], [8, 2]):
        assert_same(padded.__getitems__([*rows]), ragged.__getitems__([*rows]))
        own, other = (each.subset(torch.tensor([*rows])) for each in (padded, ragged))
        assert isinstance(other.context["before"], RaggedRows)
        assert_same(own.__getitems__([0]), other.__getitems__([0]))
    one, other = padded[5], ragged[5]
    assert torch.equal(one["context"]["before"], other["context"]["before"])
    single = [ragged[row] for row in (3, 5)]
    assert torch.equal(
        ragged.collate_fn(single)["context"]["before"],
        padded.collate_fn([padded[row] for row in (3, 5)])["context"]["before"],
    )


def test_pieces_and_noise_are_the_same() -> None:
    padded, ragged = both()
    own, other = (in_pieces(each, 2, asks_all=True) for each in (padded, ragged))
    assert isinstance(other.context["before"], RaggedRows)
    assert_same(own.__getitems__([*range(len(own))]), other.__getitems__([*range(len(own))]))
    for wrap in (
        lambda each: ShuffledContext(each, seed=1),
        lambda each: DroppedContext(each, context_dropout=0.3, field_dropout=0.3, seed=1),
    ):
        pair: list[Any] = [wrap(each) for each in (padded, ragged)]
        for epoch in range(2):
            for each in pair:
                each.set_epoch(epoch)
            assert_same(*(each.__getitems__([1, 3, 8]) for each in pair))


@pytest.mark.parametrize("order", ["past", "any"])
def test_drawn_baskets_are_the_same(order: Any) -> None:
    padded, ragged = both()
    own, other = (DrawnBaskets(each, history="before", order=order, seed=0) for each in (padded, ragged))
    assert len(own) == len(other) > NUM_ROWS
    for epoch in range(3):
        own.set_epoch(epoch)
        other.set_epoch(epoch)
        np.testing.assert_array_equal(own.sizes, other.sizes)
        assert isinstance(other.drawn.context["before"], RaggedRows)
        for rows in ([0, 1], [NUM_ROWS, 2, 3, len(own) - 1], [NUM_ROWS + 1], [*range(len(own))]):
            assert_same(own.__getitems__(rows), other.__getitems__(rows))


def test_encoded_sets_hold_no_padding() -> None:
    table = pa.table({"items": [["a", "b"], ["b"], ["a"]], "before": [["a"] * 3, None, []]})
    schema = ContextSchema(features=(History(name="before"),))
    processor = ContextualBertProcessor.from_items(["a", "b"], schema)
    found = encode_sets(read_sets(table, items="items", policy=SetPolicy()), processor)
    values = found.context["before"]
    assert isinstance(values, RaggedRows)
    encoded = processor.encode_columns(table)
    assert encoded is not None
    np.testing.assert_array_equal(values.numpy(), encoded.arrays["before"])
    assert values.row_sizes.tolist() == [3, 1, 0]
    assert without_padding({"age": torch.tensor([1])})["age"].tolist() == [1]
