"""Fields that say something else in a part than in training: constant, rare or new values, other values."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector
from contextual_bert.runs import prepare
from contextual_bert.runs.shifts import drift_line, encoded_rows, field_lines, name_drift, single_lines
from contextual_bert.training import Recipe, SetCompletion

SCHEMA = ContextSchema(
    features=(
        Categorical(name="month", values=("1", "2", "3")),
        Numerical(name="week", edges=(5, 10, 15)),
        MultiCategorical(name="tags", values=("red", "blue", "green")),
        Vector(name="photo", size=2),
    )
)
DRAWS = np.random.default_rng(0)


def rows(num_rows: int, **changed: Any) -> dict[str, Any]:
    return {
        "month": [str(number) for number in 1 + DRAWS.integers(0, 3, num_rows)],
        "week": DRAWS.integers(0, 20, num_rows),
        "tags": [["red", "blue"][: 1 + row % 2] for row in range(num_rows)],
        "photo": [[float(row), 1.0] for row in range(num_rows)],
        **changed,
    }


def lines(training: dict[str, Any], later: dict[str, Any], *, schema: ContextSchema = SCHEMA) -> list[str]:
    types = pa.schema([("month", pa.string()), ("week", pa.int64()), ("tags", pa.list_(pa.string()))])
    types = types.append(pa.field("photo", pa.list_(pa.float64())))
    tables = {"train": pa.table(training, schema=types), "test": pa.table(later, schema=types)}
    return field_lines(schema, {part: encoded_rows(table, schema) for part, table in tables.items()})


def test_parts_that_are_alike_get_no_sentence() -> None:
    assert lines(rows(400), rows(100)) == []


def test_a_constant_field_is_named_with_its_value_and_share() -> None:
    training = rows(400, month=["1"] * 100 + ["2"] * 300)
    [said] = lines(training, rows(50, month=["1"] * 50))
    assert said == (
        "context 'month': constant in the test part ('1' in every row, 25.0% of the training rows), so its worth "
        "cannot be told there"
    )
    [said] = lines(training, rows(50, month=[None] * 50))
    assert "('(missing)" not in said
    assert "((missing) in every row, 0.0% of the training rows)" in said
    [said] = lines(rows(400), rows(50, tags=[["red", "green"]] * 50))
    assert "('red', 'green' in every row, 0.0% of the training rows)" in said
    [said] = lines(rows(400), rows(50, week=[17] * 50))
    assert "'15 and above' in every row" in said
    [said] = lines(rows(400), rows(50, photo=[None] * 50))
    assert "context 'photo': constant in the test part ((missing) in every row" in said


def test_a_field_that_is_constant_in_training_is_never_learned() -> None:
    assert lines(rows(400, month=["2"] * 400), rows(100, month=["2"] * 100)) == [
        "context 'month': constant in training ('2' in every row), so nothing of it is learned"
    ]
    both = lines(rows(400, month=["2"] * 400), rows(100))
    assert "constant in training" in both[0]
    assert "rare or new in training" in both[1]


def test_rare_and_new_values_are_counted_and_not_named() -> None:
    later = rows(100, month=["secret"] * 31 + ["1"] * 34 + ["2"] * 35)
    [said] = lines(rows(400, month=["1"] * 199 + ["2"] * 199 + ["odd"] * 2), later)
    assert said == (
        "context 'month': 31.0% of the rows of the test part have a value that is rare or new in training, where 0.5% "
        "have one"
    )
    [said] = lines(rows(400), rows(100, tags=[["red", "yellow"], ["blue"]] * 50))
    assert said.startswith("context 'tags': 50.0% of the rows of the test part")


def test_other_values_than_in_training_are_counted() -> None:
    [said] = lines(rows(400), rows(100, week=[16, 17, 12, 18] * 25))
    assert said.startswith("context 'week': 75.0% of the test part have values that 2")
    assert said.endswith("% of the training part have")


def test_a_value_of_few_people_or_of_a_sensitive_field_is_withheld() -> None:
    [said] = lines(rows(400), rows(9, month=["3"] * 9))[:1]
    assert "((withheld) in every row" in said
    hidden = SCHEMA.with_sensitive(("month",))
    [said] = lines(rows(400), rows(50, month=["3"] * 50), schema=hidden)
    assert "((withheld) in every row" in said


def test_drift_beyond_chance_alone_is_named() -> None:
    draws = np.random.default_rng(1)
    items = draws.integers(0, 40, 4000)
    names = pa.array([f"i{item}" for item in items])
    assert name_drift(names, names.take(pa.array(draws.permutation(4000)[:900])), part="test", what="items") == []
    assert name_drift(names, pa.array([f"i{item}" for item in draws.integers(0, 40, 900)]), part="t", what="x") == []
    promoted = pa.concat_arrays([names[:900], pa.array(["i3"] * 60)])
    [said] = name_drift(names, promoted, part="test", what="items")
    assert said.startswith("items whose share changed most from training to test: 'i3' 2.")
    nothing = np.zeros(3, dtype=np.int64)
    assert drift_line(str, nothing, np.ones(3, dtype=np.int64), part="test", what="items") == []


def test_a_part_with_a_single_name_is_told_with_its_consequence() -> None:
    counts = {"train": {"coat": 9, "hat": 1}, "validation": {"hat": 1200}, "test": {"coat": 2}}
    assert single_lines(counts, column="items", what="item") == [
        "warning: column 'items': 'hat' is the one item of the validation part, of 1,200 (100.0%): "
        "a choice by it rests on that item alone",
        "warning: column 'items': 'coat' is the one item of the test part, of 2 (100.0%): "
        "its figures are of that item alone",
    ]


def test_one_item_in_training_is_named(tmp_path: Path) -> None:
    rows = [{"items": ["coat"], "part": "train"}] * 30 + [{"items": ["coat", "hat"], "part": "test"}] * 10
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "sets.parquet")
    task = SetCompletion(items="items")
    ready = prepare(Recipe(data=str(tmp_path / "sets.parquet"), task=task, split_column="part"))
    (told,) = [line for line in ready.lines() if "is the one item" in line]
    assert "column 'items': 'coat' is the one item of the training part, of 30 (100.0%)" in told
