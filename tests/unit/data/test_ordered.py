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


def test_a_blank_without_a_time_stands_behind_all_others() -> None:
    order = ItemOrder("at", blank="[MASK]")
    lists = pa.table(
        {
            "items": [["b", "a", "[MASK]"], ["[MASK]", "d", "c"], ["[MASK]", "e"], ["[MASK]"], [], None],
            "at": [
                ["2024-01-02", "2024-01-01"],
                [None, "2024-01-02", "2024-01-01"],
                ["2024-01-01"] * 2,
                None,
                [],
                None,
            ],
        }
    )
    wanted = [["a", "b", "[MASK]"], ["c", "d", "[MASK]"], ["[MASK]", "e"], ["[MASK]"], [], None]
    assert order.in_lists(lists, items="items")["items"].to_pylist() == wanted
    assert not any(found.any() for found in order.faults(lists, items="items", is_grouped=False).values())
    with pytest.raises(DataError, match="has 2 values, and 'items' has 3 items"):
        ItemOrder("at").in_lists(lists, items="items")
    with pytest.raises(DataError, match="has 1 values, and 'items' has 2 items"):  # whose time is it?
        order.in_lists(pa.table({"items": [["[MASK]", "a"]], "at": [[1]]}), items="items")
    rows = pa.table({"who": ["x"] * 3, "what": ["[MASK]", "b", "a"], "at": [None, 2, 1]})
    found = group_rows(rows, ["who"], items=OrderedItems("what", order)).table
    assert found["what"].to_pylist() == [["a", "b", "[MASK]"]]
    only = pa.table({"who": ["x"], "what": ["[MASK]"], "at": pa.array([None], pa.int64())})
    assert group_rows(only, ["who"], items=OrderedItems("what", order)).table["what"].to_pylist() == [["[MASK]"]]
    with pytest.raises(DataError, match="row 3, column 'at': 'soon' is not a time"):
        told = pa.array([None, "2024-01-01", "soon"])
        group_rows(rows.set_column(2, "at", told), ["who"], items=OrderedItems("what", order))


@pytest.mark.parametrize(
    ("at", "row", "told"),
    [
        ([[1.0, 2.0], [1.0, float("nan")]], 1, "a value is missing"),
        ([["2024-01-01", "2024-01-02"], ["2024-01-02", " "]], 1, "a value is missing"),
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
