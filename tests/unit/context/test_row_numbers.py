"""Columns that number the rows or run with the time are no features by default."""

import datetime
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.context import InferredSchema
from contextual_bert.context.infer import SchemaSettings, infer_features
from contextual_bert.context.row_numbers import share_in_one_stretch

DRAWS = np.random.default_rng(0)


def found(columns: dict[str, Any], *, time: str | None = None, **asked: Any) -> InferredSchema:
    return infer_features(pa.table(columns), SchemaSettings(time=time, **asked))


def daily(number: int, *, a_day: int = 10) -> pa.Array:
    start = datetime.date(2000, 11, 1)
    return pa.array([start + datetime.timedelta(days=row // a_day) for row in range(number)])


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(1, 1001),
        DRAWS.permutation(np.arange(50_000, 51_000)),
        np.sort(DRAWS.choice(100_000, 1000, replace=False)),
        pa.array([None if row % 7 == 0 else float(row) for row in range(1000)]),
        np.repeat(np.arange(0, 970), 2)[:1000],
        np.concatenate([np.arange(980), np.arange(20)]),
        DRAWS.integers(0, 2**40, 1000),
        np.append(DRAWS.permutation(999), 10**12),
    ],
    ids=["running", "dealt", "sampled", "with gaps", "twice", "nearly all", "large", "with a stray"],
)
def test_running_numbers_are_no_feature_and_named(numbers: Any) -> None:
    is_twice = not isinstance(numbers, pa.Array) and len(np.unique(numbers)) == 500
    columns = {"order_id": numbers, "sex": ["f", "m"] * 500, **({"day": daily(1000)} if is_twice else {})}
    inferred = found(columns)
    assert "order_id" not in inferred.schema.names
    [note] = [note for note in inferred.notes if note.column == "order_id"]
    assert note.kind is None
    assert [line for line in inferred.remarks() if "'order_id'" in line]
    kept = found(columns, overrides={"order_id": "numerical"})
    assert "order_id" in kept.schema.names


ROWS = np.arange(4000)


@pytest.mark.parametrize("time", [None, "minute"])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param([f"ORD-{row // 2:05d}" for row in ROWS], id="prefix"),
        pytest.param([str(row // 2) for row in ROWS], id="digits"),
        pytest.param([f"{row // 2}.0" for row in ROWS], id="decimal"),
        pytest.param([f"{row // 2}/2020" for row in ROWS], id="suffix"),
        pytest.param([f"{row // 2 % 800}/{2018 + row // 1600}" for row in ROWS], id="of years"),
        pytest.param([f"ORD-{row // 3:05d}" if row % 50 else "unknown" for row in ROWS], id="one word"),
        pytest.param(DRAWS.permutation([f"ORD-{row // 2:05d}" for row in ROWS]), id="dealt"),
        pytest.param([f"ORD-{row // 3:05d}" for row in ROWS], id="thrice as text"),
        pytest.param(ROWS // 3, id="thrice"),
        pytest.param(ROWS + 0.5, id="halves"),
        pytest.param(1.6e9 + ROWS * 37.123, id="seconds"),
        pytest.param(1.6e9 + ROWS // 2 * 37.123, id="seconds twice"),
        pytest.param(1.6e9 + np.cumsum(DRAWS.exponential(40, 4000)), id="seconds by chance"),
    ],
)
def test_numbers_of_orders_are_no_feature_however_written(values: Any, time: str | None) -> None:
    minutes = [datetime.datetime(2020, 1, 1) + datetime.timedelta(minutes=17 * int(row)) for row in ROWS]
    inferred = found({"order": values, "minute": minutes, "sex": ["f", "m"] * 2000}, time=time)
    assert "sex" in inferred.schema.names
    assert "order" not in inferred.schema.names
    assert any("column 'order': left out: numbers the rows" in line for line in inferred.remarks())


@pytest.mark.parametrize(
    "values",
    [
        np.sort(np.round(DRAWS.lognormal(8, 1, 4000), 2)),
        np.sort(DRAWS.integers(18, 90, 4000)),
        np.sort(DRAWS.normal(size=4000)),
        [f"city {number}" for number in DRAWS.integers(0, 300, 4000)],
        [f"10.0.{one}.{other}" for one, other in DRAWS.integers(0, 40, (4000, 2))],
        [f"{wage} EUR" for wage in np.round(DRAWS.lognormal(6, 1, 4000)).astype(int)],
    ],
    ids=["wages in order", "ages in order", "measured in order", "cities", "addresses", "wages"],
)
def test_texts_with_numbers_that_say_something_stay(values: Any) -> None:
    assert "x" in found({"x": values, "sex": ["f", "m"] * 2000}).schema.names


@pytest.mark.parametrize(
    "numbers",
    [
        DRAWS.integers(18, 90, 1000),
        DRAWS.lognormal(8, 1, 1000).astype(int),
        DRAWS.normal(size=1000),
        np.round(DRAWS.gamma(2, 700, 1000)).astype(int),
        DRAWS.integers(1, 366, 1000),
        DRAWS.integers(20_000, 90_000, 1000),
        np.append(DRAWS.integers(20_000, 90_000, 999), 10**30 // 10**12),
    ],
    ids=["age", "income", "measured", "steps", "day of the year", "wages", "wages with a stray"],
)
def test_numbers_that_say_something_stay(numbers: Any) -> None:
    assert found({"x": numbers}).schema.names == ("x",)
    assert "x" in found({"x": numbers, "day": daily(1000)}, time="day").schema.names


def test_what_runs_with_the_time_is_no_feature_of_a_split_by_time() -> None:
    day, rows = daily(1200), np.arange(1200)
    columns = {
        "day": day,
        "week": rows // 70,
        "season": ["autumn"] * 300 + ["winter"] * 900,
        "month": [each.month for each in day.to_pylist()],
        "prices": 100 + rows / 50 + DRAWS.normal(size=1200),
        "weekday": [each.weekday() for each in day.to_pylist()],
        "weather": np.array(["sun", "rain", "snow"])[DRAWS.integers(0, 3, 120)[rows // 10]],
        "city": np.array([f"c{number}" for number in range(40)])[DRAWS.integers(0, 40, 1200)],
    }
    by_time = found(columns, time="day")
    assert set(by_time.schema.names) == {"day_weekday", "weekday", "weather", "city"}
    told = " ".join(by_time.remarks())
    assert "'week': left out: runs with 'day': 100.0% of the rows have a value that came in one stretch" in told
    assert "'prices': left out: grows with 'day' (rank correlation 0.9" in told
    assert "override to keep it (week=numerical)" in told
    otherwise = found(columns)
    assert {"week", "season", "month", "prices", "weekday", "weather", "city"} <= set(otherwise.schema.names)
    kept = found(columns, time="day", overrides={"week": "numerical", "season": "categorical"})
    assert {"week", "season"} <= set(kept.schema.names)


def test_orders_of_several_rows_count_on_with_the_time() -> None:
    columns = {"day": daily(1200), "order": np.arange(1200) // 4 + 7000}
    inferred = found(columns)
    assert "order" not in inferred.schema.names
    assert "grows with 'day' (rank correlation 1.000), as running numbers do" in " ".join(inferred.remarks())


def test_a_split_by_numbers_has_a_time_too() -> None:
    stamps = 973_036_800 + 3600 * np.arange(1200) + DRAWS.integers(0, 600, 1200)
    inferred = found({"stamp": stamps, "week": np.arange(1200) // 168, "sex": ["f", "m"] * 600}, time="stamp")
    assert inferred.schema.names == ("sex",)


def test_stretches_are_of_values_that_stay() -> None:
    moments = np.arange(400)
    assert share_in_one_stretch(np.repeat([0, 1, 2, 3], 100), moments) == 1
    assert share_in_one_stretch(np.repeat([0, 1, 0, 1], 100), moments) == 0
    assert share_in_one_stretch(moments, moments) == 0  # each value once: nothing stays
    assert share_in_one_stretch(np.full(400, -1), moments) == 0
    assert share_in_one_stretch(np.zeros(400, dtype=np.int64), moments) == 0


def test_a_large_table_is_looked_at_quickly() -> None:
    rows = 200_000
    columns = {"day": daily(rows, a_day=500), "id": np.arange(rows)}
    columns |= {f"x{number}": DRAWS.integers(0, 5000, rows) for number in range(5)}
    table, alone = pa.table(columns), pa.table({"x": columns["x0"]})
    start = time.perf_counter()
    infer_features(table, SchemaSettings(time="day"))
    spent = time.perf_counter() - start
    start = time.perf_counter()
    infer_features(alone, SchemaSettings())
    assert spent < 5 + 20 * (time.perf_counter() - start)


@pytest.mark.parametrize("name", ["year", "birthYear", "year_of_address", "Jahr", "ann\u00e9e"])
def test_a_year_is_no_running_number(name: str) -> None:
    years = np.arange(1790, 2020)
    for numbers in (years, DRAWS.permutation(years), np.append(years, years[:10])):  # each once; one address or two
        assert found({name: numbers}).schema.names == (name,)
    assert found({name: years, "day": daily(230)}).schema.names[:1] == (name,)
    assert name not in found({name: years, "day": daily(230)}, time="day").schema.names


@pytest.mark.parametrize(("name", "first"), [("row", 1790), ("yearling", 1790), ("year", 1), ("year", 1990)])
def test_running_numbers_that_look_like_years_are_found(name: str, first: int) -> None:
    assert name not in found({name: np.arange(first, first + 230), "sex": ["f", "m"] * 115}).schema.names
