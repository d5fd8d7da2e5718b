"""A basket of each history is drawn anew in each epoch, and predicted from what was there without it."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.context import History, Vocabulary
from contextual_bert.context.interactions import BASKETS_AGO, DAYS_AGO, ITEM, interactions_of
from contextual_bert.data import DrawnBaskets, DroppedContext, SequenceDataset, WholeSetCollator

NUM_ITEMS = 30
ITEMS = Vocabulary([f"p{number}" for number in range(NUM_ITEMS)], reserved=["[PAD]", "[MASK]", "[UNK]"])


def histories(num_rows: int = 40, *, seed: int = 0) -> list[list[list[str]]]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 6, num_rows)
    return [
        [[f"p{item}" for item in rng.choice(NUM_ITEMS, int(rng.integers(1, 5)), replace=False)] for _ in range(size)]
        for size in sizes
    ]


def dataset(found: list[list[list[str]]], *, days: bool = False) -> SequenceDataset:
    cells: Any = found
    if days:
        cells = [
            [{"items": basket, "days_ago": float(7 * (len(row) - place))} for place, basket in enumerate(row)]
            for row in found
        ]
    values = (
        History(name="before").for_items(ITEMS).encode(pa.array(cells, History(name="x").record_type if days else None))
    )
    count = len(found)
    return SequenceDataset(
        np.arange(count) % NUM_ITEMS + 3,
        np.arange(count + 1),
        context={"before": torch.from_numpy(values.values), "age": torch.arange(count)},
        example_ids=np.arange(count) + 100,
    )


def baskets(values: torch.Tensor) -> list[set[int]]:
    """The baskets of one encoded history, the oldest first."""
    found = interactions_of(values.numpy()[None])
    count = int(found.baskets_ago.max(initial=-1)) + 1
    return [set(found.items[found.baskets_ago == ago].tolist()) for ago in reversed(range(count))]


@pytest.mark.parametrize("order", ["past", "any"])
def test_target_and_rest_are_the_history(order: Any) -> None:
    found = histories()
    own = dataset(found)
    drawn = DrawnBaskets(own, history="before", order=order, seed=0)
    several = [row for row in found if len(row) > 1]
    assert len(drawn) == len(own) + len(several)
    for epoch in range(3):
        drawn.set_epoch(epoch)
        for place, row in enumerate(several):
            batch = drawn.__getitems__([len(own) + place])
            target, rest = set(batch.input_ids[0].tolist()), baskets(batch.context["before"][0])
            whole = [{int(item[1:]) + 3 for item in basket} for basket in row]
            chosen = [number for number, basket in enumerate(whole) if basket == target]
            assert any(
                rest == (whole[:each] if order == "past" else whole[:each] + whole[each + 1 :]) for each in chosen
            )
            assert order == "any" or rest


def test_each_epoch_draws_others_and_the_same_again() -> None:
    drawn = DrawnBaskets(dataset(histories()), history="before", order="any", seed=0)
    rows = list(range(40, len(drawn)))
    first = drawn.__getitems__(rows).input_ids
    drawn.set_epoch(1)
    second = drawn.__getitems__(rows).input_ids
    drawn.set_epoch(0)
    assert torch.equal(drawn.__getitems__(rows).input_ids, first)
    assert first.shape != second.shape or not torch.equal(first, second)


def test_a_mixed_batch_has_the_rows_in_their_order() -> None:
    drawn = DrawnBaskets(dataset(histories()), history="before", order="any", seed=0)
    rows = [45, 3, 41, 7, 3, 50]
    batch = drawn.__getitems__(rows)
    for place, row in enumerate(rows):
        one = drawn.__getitems__([row])
        size = int(one.lengths[0])
        assert batch.input_ids[place, :size].tolist() == one.input_ids[0].tolist()
        assert batch.example_ids[place] == one.example_ids[0] and batch.context["age"][place] == one.context["age"][0]
        width = one.context["before"].shape[1]
        assert torch.equal(batch.context["before"][place, :width], one.context["before"][0])
        assert not batch.context["before"][place, width:, ITEM].any()


def test_days_count_from_the_drawn_basket() -> None:
    drawn = DrawnBaskets(dataset(histories(), days=True), history="before", order="past", seed=0)
    values = torch.cat([drawn.drawn.context["before"]])
    is_there = values[..., ITEM] > 1
    assert torch.equal(values[..., DAYS_AGO][is_there], 7 * (values[..., BASKETS_AGO][is_there] + 1))


def test_unknown_items_are_not_asked_for() -> None:
    drawn = DrawnBaskets(dataset([[["tent"], ["p1"], ["p2"]]] * 3), history="before", order="any", seed=0)
    for epoch in range(5):
        drawn.set_epoch(epoch)
        assert (drawn.drawn.input_ids > 2).all()


def test_a_left_out_context_is_missing_and_epochs_reach_what_is_inside() -> None:
    drawn = DrawnBaskets(dataset(histories()), history="before", order="any", seed=0)
    dropped = DroppedContext(drawn, context_dropout=0.999, seed=0)
    dropped.set_epoch(4)
    assert int(drawn.epoch) == 4
    batch = WholeSetCollator(mask_id=1, pad_id=0)(dropped.__getitems__([0, 41]))
    assert batch["input_ids"].tolist() == [[1], [1]]
    assert batch["context"]["before"][:, 0, ITEM].tolist() == [1, 1]
