"""Time gaps: bins of the time that passed before each item, from a table to the batches of a model."""

import datetime
import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.data import (
    EveryPosition,
    LastPosition,
    MaskingCollator,
    NextItemCollator,
    SequenceDataset,
    SetPolicy,
    ShuffledContext,
    group_rows,
    read_sets,
)
from contextual_bert.data.groups import OrderedItems
from contextual_bert.data.next_items import in_pieces, newest_items, with_shuffled_items
from contextual_bert.data.ordered import ItemOrder
from contextual_bert.data.ragged import offsets_of
from contextual_bert.data.time_gaps import NUM_GAPS, ItemTimes, gap_ids, seconds_or_numbers
from contextual_bert.errors import ConfigurationError, DataError

SIZES = np.array([7, 1, 3, 12, 4])


def one_by_one(times: list[float], offsets: list[int]) -> list[int]:
    found: list[int] = []
    for start, end in itertools.pairwise(offsets):
        for place in range(start, end):
            passed = times[place] - times[place - 1] if place > start else math.nan
            if math.isnan(passed):
                found.append(0)
            else:
                found.append(1 if passed == 0 else min(NUM_GAPS - 1, 2 + math.floor(math.log2(1 + passed))))
    return found


def test_bins_are_those_of_each_gap_by_itself() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 9, 200)
    times = np.where(rng.random(sizes.sum()) < 0.1, np.nan, rng.choice([0, 1, 60, 1e5, 1e19], sizes.sum()))
    offsets = offsets_of(sizes)
    for row in range(len(sizes)):
        times[offsets[row] : offsets[row + 1]] = np.sort(times[offsets[row] : offsets[row + 1]])
    found = gap_ids(times, offsets)
    assert found.tolist() == one_by_one(times.tolist(), offsets.tolist())
    assert found.max() == NUM_GAPS - 1
    assert (gap_ids(np.cumsum(2.0 ** np.arange(70)), np.array([0, 70]))[1:-5] > 1).all()
    assert gap_ids(np.empty(0), np.zeros(1, np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (pa.array(["2024-03-01", "2024-03-02"]), "seconds"),
        (pa.array(["2024-03-01T00:00:00+01:00", "2024-03-02T01:00:00+02:00"]), "seconds"),
        (pa.array([datetime.date(2024, 3, 1), datetime.date(2024, 3, 2)]), "seconds"),
        (pa.array([datetime.date(2024, 3, 1), datetime.date(2024, 3, 2)]).cast(pa.date64()), "seconds"),
        *(
            (pa.array([datetime.datetime(2024, 3, 1), datetime.datetime(2024, 3, 2)], pa.timestamp(each)), "seconds")
            for each in ("s", "ms", "us", "ns")
        ),
        (pa.array([86400, 2 * 86400]), "numbers"),
        (pa.array([0.0, 86400.0]), "numbers"),
    ],
)
def test_a_day_is_a_day_in_any_type(values: pa.Array, unit: str) -> None:
    at = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), values.take(pa.array([1, 0])))
    table = pa.table({"items": [["b", "a"]], "at": at})
    ordered, times = ItemOrder("at").with_times(table, items="items")
    assert times is not None
    assert ordered["items"].to_pylist() == [["a", "b"]]
    assert (times.unit, np.diff(times.values).tolist()) == (unit, [86400.0])
    assert times.gaps().tolist() == [0, 18]
    rows = pa.table({"who": ["u", "u"], "items": ["b", "a"], "at": values.take(pa.array([1, 0]))})
    groups = group_rows(rows, ["who"], items=OrderedItems("items", ItemOrder("at")))
    assert groups.times is not None
    assert groups.table["items"].to_pylist() == [["a", "b"]]
    assert (groups.times.unit, groups.times.gaps().tolist()) == (unit, [0, 18])
    assert ItemOrder("items").with_times(table, items="items")[1] is None
    assert group_rows(rows, ["who"], items=OrderedItems("items", ItemOrder("items"))).times is None


def test_times_of_day_count_seconds() -> None:
    moments = pa.array([datetime.time(10), datetime.time(11)])
    assert np.diff(seconds_or_numbers(moments.cast(pa.int64()).to_numpy(), moments.type)[0]).tolist() == [3600.0]


def test_gaps_are_those_of_the_items_that_are_kept() -> None:
    table = pa.table(
        {"items": [["c", "a", "b", "a"], ["x"], None, ["b", "c"]], "at": [[7, 1, 3, 9], [9], None, [5, 6]]}
    )
    ordered, times = ItemOrder("at").with_times(table, items="items")
    policy = SetPolicy(duplicates="drop", drop_items=("x",))
    sets = read_sets(ordered, items="items", policy=policy).with_times(times)
    assert (sets.values.to_pylist(), sets.times is not None) == (["a", "b", "c", "b", "c"], True)
    assert sets.times is not None
    assert sets.times.values.tolist() == [1, 3, 7, 5, 6]
    chosen = sets.select([1, 0]).times
    assert chosen is not None
    assert chosen.values.tolist() == [5, 6, 1, 3, 7]
    assert chosen.gaps().tolist() == [0, 3, 0, 3, 4]
    newest = SetPolicy(duplicates="keep", max_size=2, longer="newest")
    cut = read_sets(ordered, items="items", policy=newest).with_times(times).times
    assert cut is not None
    assert cut.values.tolist() == [7, 9, 9, 5, 6]
    assert read_sets(ordered, items="items", policy=newest).with_times(None).times is None


def test_a_mask_may_lack_a_time_and_no_other_item() -> None:
    items = [["c", "[MASK]", "a", "b"], ["b", "a", "[MASK]"]]
    table, order = pa.table({"items": items, "at": [[7, None, 1, 3], [5, 4, 6]]}), ItemOrder("at", blank="[MASK]")
    ordered, times = order.with_times(table, items="items")
    assert times is not None
    assert ordered["items"].to_pylist() == [["a", "b", "c", "[MASK]"], ["a", "b", "[MASK]"]]
    assert times.gaps().tolist() == [0, 3, 4, 0, 0, 3, 3]
    rows = pa.table({"who": ["u"] * 4, "items": items[0], "at": [7, None, 1, 3]})
    groups = group_rows(rows, ["who"], items=OrderedItems("items", order))
    assert groups.times is not None
    assert groups.table["items"].to_pylist() == [["a", "b", "c", "[MASK]"]]
    assert groups.times.gaps().tolist() == [0, 3, 4, 0]
    with pytest.raises(DataError, match="row 1, column 'at': a value is missing"):
        order.in_lists(pa.table({"items": items, "at": [[7, 2, 1, None], [5, 4, 6]]}), items="items")


def sequences() -> SequenceDataset:
    return SequenceDataset(
        np.arange(SIZES.sum()) + 10,
        offsets_of(SIZES),
        context={"age": torch.arange(len(SIZES))},
        token_type_ids=np.arange(SIZES.sum()) + 500,
    )


def differences(dataset: Any) -> set[int]:
    """What lies between the id of each item and that of its gap, which are numbered alike."""
    gaps = dataset.token_type_ids
    return {*(gaps - dataset.input_ids)[dataset.input_ids != 0].tolist()}


@pytest.mark.parametrize("longest", [2, 3, 50])
def test_gaps_go_where_their_items_go(longest: int) -> None:
    own = sequences()
    for found in (
        in_pieces(own, longest, asks_all=True),
        newest_items(own, longest),
        own.subset([3, 0]),
        own.with_context({}),
        ShuffledContext(own, seed=0),
        own.__getitems__([0, 2, 1]),
        LastPosition(own, longest=longest).__getitems__(torch.arange(5)),
        EveryPosition(own).__getitems__(torch.arange(9)),
    ):
        assert differences(found) == {490}
    padded = own.__getitems__([1, 0]).token_type_ids
    assert padded is not None
    assert padded[0].tolist() == [507, 0, 0, 0, 0, 0, 0]
    shuffled = with_shuffled_items(own, number=1, seed=0)
    assert shuffled.token_type_ids is not None
    assert torch.equal(shuffled.token_type_ids, own.token_type_ids)  # pyright: ignore[reportArgumentType]
    assert not torch.equal(shuffled.input_ids, own.input_ids)


@pytest.mark.parametrize("collate", [MaskingCollator(mask_id=1, pad_id=0), NextItemCollator(pad_id=0)])
def test_collators_hand_gaps_on(collate: Any) -> None:
    own = sequences()
    batch = own.__getitems__([0, 2])
    assert torch.equal(collate(batch)["token_type_ids"], batch.token_type_ids)  # pyright: ignore[reportArgumentType]
    assert torch.equal(collate([own[0], own[2]])["token_type_ids"], collate(batch)["token_type_ids"])
    plain = SequenceDataset(own.input_ids, own.offsets, context={})
    assert "token_type_ids" not in collate(plain.__getitems__([0, 2]))
    assert torch.equal(own.collate_fn([own[0], own[2]])["token_type_ids"], collate(batch)["token_type_ids"])


def test_one_gap_an_item() -> None:
    with pytest.raises(ConfigurationError, match="'token_type_ids' has 2 values for 3 ids"):
        SequenceDataset([5, 6, 7], [0, 3], context={}, token_type_ids=[1, 2])
    times = ItemTimes(np.array([1.0, 2, 3]), np.array([0, 2, 3]), "numbers")
    assert times.select(np.array([1, 0])).values.tolist() == [3, 1, 2]
