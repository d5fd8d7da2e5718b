"""Items are put in order by times beside them, in lists and where rows become sets; faults are told with their row."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import group_rows
from contextual_bert.data.groups import OrderedItems
from contextual_bert.data.ordered import ItemOrder
from contextual_bert.errors import DataError, UnknownNameError


def test_lists_are_sorted_by_times_and_equal_times_stay() -> None:
    table = pa.table({"items": [["c", "a", "b"], ["x"], ["d", "e"]], "at": [[3, 1, 2], [9], [5, 5]], "age": [1, 2, 3]})
    found = ItemOrder("at").in_lists(table, items="items")
    assert found.column("items").to_pylist() == [["a", "b", "c"], ["x"], ["d", "e"]]
    assert found.column_names == table.column_names
    assert ItemOrder("items").in_lists(table, items="items") is table


@pytest.mark.parametrize(
    "times",
    [
        [["2024-03-02", "2024-03-01"]],
        [[datetime.datetime(2024, 3, 2), datetime.datetime(2024, 3, 1)]],
        [[datetime.date(2024, 3, 2), datetime.date(2024, 3, 1)]],
        [[2.5, 1.0]],
    ],
)
def test_any_kind_of_time_orders(times: Any) -> None:
    found = ItemOrder("at").in_lists(pa.table({"items": [["b", "a"]], "at": times}), items="items")
    assert found.column("items").to_pylist() == [["a", "b"]]


def test_an_order_of_days_is_asked_for() -> None:
    table = pa.table({"items": [["b", "a"]], "at": [["01/12/2023", "02/11/2023"]]})
    with pytest.raises(DataError, match="may be two days"):
        ItemOrder("at").in_lists(table, items="items")
    found = ItemOrder("at", ("%d/%m/%Y",)).in_lists(table, items="items")
    assert found.column("items").to_pylist() == [["a", "b"]]


def test_rows_of_a_group_are_sorted() -> None:
    rng = np.random.default_rng(0)
    order = rng.permutation(60)
    table = pa.table(
        {
            "who": [f"u{number % 7}" for number in order],
            "what": [f"i{number}" for number in order],
            "at": order,
        }
    )
    found = group_rows(table, ["who"], items=OrderedItems("what", ItemOrder("at"))).table.to_pylist()
    for row in found:
        own = sorted(int(number) for number in order if f"u{number % 7}" == row["who"])
        assert row["what"] == [f"i{number}" for number in own]
    plain = group_rows(table, ["who"], items="what").table.to_pylist()
    assert [row["what"] for row in plain] != [row["what"] for row in found]


@pytest.mark.parametrize(
    ("at", "row", "told"),
    [
        ([[1, 2], [1]], 1, "has 1 values, and 'items' has 2 items"),
        ([[1, 2], [None, 2]], 1, "a value is missing"),
        ([["2024-01-01", "2024-01-02"], ["soon", "2024-01-02"]], 1, "'soon' is not a time"),
        ([1, 2], None, "is given by lists beside lists"),
    ],
)
def test_faults_have_their_row(at: Any, row: int | None, told: str) -> None:
    table = pa.table({"items": [["a", "b"], ["c", "d"]], "at": at})
    with pytest.raises(DataError, match=told) as caught:
        ItemOrder("at").in_lists(table, items="items", file="lists.parquet")
    assert caught.value.row == row
    with pytest.raises(UnknownNameError, match="no column 'when'"):
        ItemOrder("when").in_lists(table, items="items")
