"""Numbers that follow from the items of their set are leaks; numbers that go with them by choice are none."""

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import SetPolicy, SetTable, StylistWorld, audit, read_sets, split_by_row
from contextual_bert.data.set_columns import SetItems, what_it_follows

DRAWS = np.random.default_rng(0)
NUM_ITEMS, ROWS = 60, 1500
PRICES = np.round(DRAWS.lognormal(1, 1, NUM_ITEMS), 2)
SIZES = DRAWS.integers(2, 9, ROWS)
SETS = [DRAWS.choice(NUM_ITEMS, size, replace=False) for size in SIZES]


def faults(column: Any, *, has_text: bool = False, **filters: Any) -> dict[str, str]:
    names = [[f"i{code}" for code in each] for each in SETS]
    items = ["; ".join(each) for each in names] if has_text else names
    table = pa.table({"items": items, "x": column})
    policy = SetPolicy(**filters, separator=";" if has_text else ",")
    sets = read_sets(table, items="items", policy=policy)
    found = audit(split_by_row(table, validation=0.2, test=0.2), sets, context=["x"]).faults
    return {fault.kind: fault.message for fault in found if "'x'" in fault.message}


def over_items(reduce: Any) -> np.ndarray:
    return np.array([reduce(PRICES[each]) for each in SETS])


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (SIZES * 2 + 1, "the number of items"),
        (SIZES.astype(float) + DRAWS.normal(scale=0.1, size=ROWS), "the number of items"),
        (over_items(np.sum), "a sum over the items"),
        (over_items(np.sum) * DRAWS.uniform(0.97, 1.03, ROWS), "a sum over the items"),
        (over_items(np.mean), "a mean over the items"),
        (over_items(np.max), "the largest number of an item"),
        (over_items(np.min), "the least number of an item"),
    ],
    ids=["twice", "about", "total", "discounted", "mean", "largest", "least"],
)
def test_what_the_items_make_is_a_leak(column: np.ndarray, what: str) -> None:
    sets = SetItems(np.concatenate(SETS), np.concatenate([[0], np.cumsum(SIZES)]), NUM_ITEMS)
    found = what_it_follows(pa.chunked_array([column]), sets)
    assert found is not None
    assert found[0] == what
    assert found[1] > 0.9
    gaps = pa.array([None if row % 5 == 0 else value for row, value in enumerate(column.tolist())])
    for each in (column, gaps):
        [message] = faults(each, has_text=True).values()  # what a value determines is said alone
        assert "leave it out of the context" in message


def test_the_size_is_found_though_filters_drop_items() -> None:
    assert list(faults(SIZES)) == ["column_determines_items"]
    filtered: dict[str, Any] = {"drop_prefixes": ("i1",)}
    told = faults(SIZES, **filtered)["column_follows_from_set"]
    assert "(the number of items explains 100.0% of it)" in told
    assert "a sum over the items" in faults(over_items(np.sum), **filtered)["column_follows_from_set"]


@pytest.mark.parametrize(
    "column",
    [
        DRAWS.integers(18, 90, ROWS),
        DRAWS.normal(size=ROWS),
        DRAWS.integers(0, 2, ROWS).astype(bool),
        np.array([20.0 + PRICES[each].mean() + DRAWS.normal(scale=3) for each in SETS]),
        np.array(["a", "b", "c"])[DRAWS.integers(0, 3, ROWS)],
        np.ones(ROWS),
        pa.array([DRAWS.normal(size=3).tolist() for _ in SETS]),
        np.where(np.arange(ROWS) < 20, 1.0, np.nan),
    ],
    ids=["age", "noise", "coin", "related", "text", "constant", "vector", "few"],
)
def test_what_goes_with_the_items_by_choice_is_none(column: Any) -> None:
    assert faults(column) == {}


def test_a_truth_value_that_items_make_is_a_leak() -> None:
    holds = np.array([bool((each % 7 == 3).any()) for each in SETS])
    assert list(faults(holds)) == ["column_follows_from_set"]


def test_the_contexts_of_the_world_are_none() -> None:
    table = StylistWorld.generate(60).sample(3000, seed=1)
    sets: SetTable = read_sets(table, items="items", policy=SetPolicy())
    found = audit(split_by_row(table, validation=0.2, test=0.2), sets, customer="customer_id").faults
    assert not [fault.message for fault in found if fault.kind == "column_follows_from_set"]


def test_a_large_table_is_looked_at_quickly() -> None:
    sizes = DRAWS.integers(4, 9, 200_000)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    codes = DRAWS.integers(0, 5000, int(offsets[-1]))
    sets = SetItems(codes, offsets, 5000)
    noise = pa.chunked_array([DRAWS.normal(size=200_000)])
    start = time.perf_counter()
    assert what_it_follows(noise, sets) is None
    assert time.perf_counter() - start < 5
    total = np.add.reduceat(DRAWS.lognormal(size=5000)[codes], offsets[:-1])
    found = what_it_follows(pa.chunked_array([total]), sets)
    assert found is not None
    assert found[0] == "a sum over the items"


def test_long_codes_follow_from_no_set() -> None:
    draws = np.random.default_rng(0)
    sets = SetItems(draws.integers(0, 15, 1600), np.arange(0, 1601, 4), 15)
    codes = draws.choice(np.arange(4_006_390_000_000, 4_006_390_000_100), 400)
    assert what_it_follows(pa.chunked_array([codes]), sets) is None
    sums = 4_006_390_000_000 + 3 * np.add.reduceat(sets.codes, sets.offsets[:-1])
    found = what_it_follows(pa.chunked_array([sums]), sets)
    assert found is not None
    assert found[0] == "a sum over the items"


def test_numbers_that_are_equal_beside_a_stray_one_follow_from_nothing() -> None:
    codes = np.array([[0, 1], [1, 2], [0, 2]] * 100).ravel()
    sets = SetItems(codes, np.arange(0, 601, 2), 3)
    income = 1000.0 + np.arange(300) // 3 % 90
    for row in range(12):
        strays = np.where(np.arange(300) == row, 1.7e18, income)
        assert what_it_follows(pa.chunked_array([strays]), sets) is None
