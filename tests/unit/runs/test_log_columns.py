"""A transaction log is told from other tables, and its columns are found."""

import datetime
from typing import Any

import pyarrow as pa
import pytest

from contextual_bert.data import SetPolicy
from contextual_bert.runs.inspection import inspect_table
from contextual_bert.runs.log_columns import LogColumns
from contextual_bert.training import Recipe, SetCompletion

DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=row // 10) for row in range(300)]


def log(**columns: Any) -> pa.Table:
    own = {
        "shop": [f"s{row % 3}" for row in range(300)],
        "customer_id": [row % 20 for row in range(300)],
        "article": [f"a{(row * row + row // 7) % 12}" for row in range(300)],
        "date": DAYS,
    }
    return pa.table({**own, **columns})


def found(table: pa.Table, *, group_by: tuple[str, ...] = (), **named: Any) -> LogColumns | None:
    task = SetCompletion(items="article", group_by=group_by, policy=SetPolicy(duplicates="drop"))
    recipe = Recipe(data="log.parquet", task=task, **named)
    inspection = inspect_table(recipe, source=table)
    assert any("transaction log" in line for line in inspection.lines()) == (inspection.log is not None)
    return inspection.log


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        [str(day) for day in DAYS],
        [day.strftime("%d/%m/%Y") for day in DAYS],
        [1_577_836_800 + 86_400 * (row // 10) for row in range(300)],
    ],
)
def test_a_log_is_found(times: list[Any]) -> None:
    assert found(log(date=times)) == LogColumns("customer_id", "article", "date")


def test_a_column_of_many_texts_may_name_users() -> None:
    table = log().rename_columns(["shop", "who", "article", "date"])
    table = table.set_column(1, "who", pa.array([f"w{row % 20}" for row in range(300)]))
    assert found(table) == LogColumns("who", "article", "date")


def test_a_customer_that_is_named_is_taken() -> None:
    assert found(log(), customer="shop") == LogColumns("shop", "article", "date")


def test_the_group_is_the_basket() -> None:
    table = log(order=[row // 2 for row in range(300)], customer_id=[row // 2 % 20 for row in range(300)])
    assert found(table, group_by=("order",)) == LogColumns("customer_id", "article", "date", "order")
    assert found(table, group_by=("customer_id", "date")) == LogColumns("customer_id", "article", "date")


@pytest.mark.parametrize(
    "columns",
    [
        {"date": ["soon"] * 300},
        {"customer_id": [f"c{row}" for row in range(300)], "shop": ["s"] * 300},
        {"article": [["a", "b"]] * 300},
        {"article": ["a,b"] * 300},
    ],
)
def test_other_tables_are_no_log(columns: dict[str, Any]) -> None:
    assert found(log(**columns)) is None
