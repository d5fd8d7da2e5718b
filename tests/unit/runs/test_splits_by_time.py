"""What a split by time makes of parts of dates: inspect and train leave out the same, and say so."""

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from contextual_bert.data import split_by_time
from contextual_bert.runs import inspect_table, prepare
from contextual_bert.training import Classification, Recipe, SetCompletion
from contextual_bert_cli.main import app

ROWS, DAYS = 1200, 120
BY_TIME = Recipe(data="baskets.parquet", task=SetCompletion(items="items"), time="date", split_by="time")


def baskets() -> pa.Table:
    """Four months of ten baskets a day: a promoted product each month, running numbers, a week."""
    draws = np.random.default_rng(0)
    start = datetime.date(2000, 11, 1)
    days = [start + datetime.timedelta(days=row * DAYS // ROWS) for row in range(ROWS)]
    promoted = [f"promoted-{day.month}" if draws.random() < 0.3 else f"tea-{draws.integers(5)}" for day in days]
    return pa.table(
        {
            "items": [[first, f"milk-{draws.integers(9)}"] for first in promoted],
            "date": days,
            "order_id": np.arange(ROWS) + 50_000,
            "week": [(day - start).days // 7 for day in days],
            "sex": draws.choice(["f", "m"], ROWS),
        }
    )


def later_files(table: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    return table.slice(0, 960), table.slice(960, 120), table.slice(1080)


def test_inspect_and_train_leave_out_the_same_and_say_why() -> None:
    table = baskets()
    inspected, ready = inspect_table(BY_TIME, source=table), prepare(BY_TIME, source=table)
    assert inspected.schema is not None and ready.processor.schema is not None
    assert inspected.schema.names == ready.processor.schema.names == ("date_weekday", "sex")
    reasons = {note.column: note.reason for note in inspected.notes}
    told = "\n".join(ready.remarks)
    for column in ("date", "order_id", "week"):
        assert f"context: column {column!r}: " in told
    assert "month left out: 100.0% of the rows have a month that training has seen in one year only" in told
    assert "year left out: the split is by time" in told
    assert "override to keep it (date=year,month)" in reasons["date"]
    lines = [line for line in ready.lines() if line.startswith("items whose share")]
    assert lines == [fault for fault in inspected.faults if fault.startswith("items whose share")]
    assert "'promoted-2' 0.6% to 1" in lines[0]


def test_an_override_keeps_what_was_left_out_and_its_shift_is_named() -> None:
    found = inspect_table(BY_TIME, source=baskets(), overrides={"date": "month", "week": "numerical"})
    assert found.schema is not None
    assert found.schema.names == ("date_month", "week", "sex")
    told = "\n".join(found.faults)
    assert "context 'date_month': constant in the test part ('2' in every row, " in told
    assert "context 'week': constant in the test part (" in told
    kept = replace(BY_TIME, schema=found.schema.to_dict())
    lines = prepare(kept, source=baskets()).lines()
    assert {line for line in lines if line.startswith("context ")} <= {*found.faults}
    assert [line for line in lines if line.startswith("context 'date_month': constant in the test part")]


@pytest.mark.parametrize("how", ["file", "column", "split file"])
def test_parts_that_follow_one_another_are_a_split_by_time(how: str, tmp_path: Path) -> None:
    table = baskets()
    if how == "split file":
        split_by_time(table, "date", validation=0.1, test=0.1).save(tmp_path / "split.json")
        recipe = Recipe(data="baskets", task=SetCompletion(items="items"), split=str(tmp_path / "split.json"))
    elif how == "column":
        table = table.append_column("part", pa.array(["train"] * 960 + ["validation"] * 120 + ["test"] * 120))
        recipe = Recipe(data="baskets", task=SetCompletion(items="items"), split_column="part")
    else:
        names = [str(tmp_path / f"{part}.parquet") for part in ("train", "validation", "test")]
        for name, rows in zip(names, later_files(table), strict=True):
            pq.write_table(rows, name)
        recipe = Recipe(data=names[0], task=SetCompletion(items="items"), validation_data=names[1], test_data=names[2])
    schema = prepare(recipe, source=table if how != "file" else None).processor.schema
    assert schema is not None
    assert schema.names == ("date_weekday", "sex")


def test_inspect_says_what_would_hold_under_a_split_by_time() -> None:
    by_row = replace(BY_TIME, time=None, split_by=None)
    found = inspect_table(by_row, source=baskets())
    assert found.schema is not None
    assert found.schema.names == ("date_year", "date_weekday", "week", "sex")
    told = [line for line in found.basis if line.startswith("under a split by time")]
    assert told == ["under a split by time (of 'date') no feature either: 'date_year', 'week'"]
    assert not any(line.startswith("under") for line in inspect_table(BY_TIME, source=baskets()).basis)


def test_texts_are_treated_alike(checkpoint: Path) -> None:
    table = baskets().drop_columns(["items"])
    labels = ["good" if row < 960 or row % 3 else "bad" for row in range(ROWS)]
    labels[0] = "bad"
    table = table.append_column("text", pa.array([f"word{row % 7} word{row % 5}" for row in range(ROWS)]))
    table = table.append_column("label", pa.array(labels))
    task = Classification(checkpoint=str(checkpoint), text="text", label="label")
    recipe = Recipe(data="reviews", task=task, time="date", split_by="time")
    found = inspect_table(recipe, source=table, has_tokens=False)
    assert found.schema is not None
    assert found.schema.names == ("date_weekday", "sex")
    assert any(fault.startswith("labels whose share changed most from training to test: ") for fault in found.faults)
    by_row = inspect_table(replace(recipe, time=None, split_by=None), source=table, has_tokens=False)
    assert any("no feature either: 'date_year', 'week'" in line for line in by_row.basis)
    told = "\n".join(prepare(recipe, source=table).remarks)
    assert "context: column 'date': year left out: the split is by time" in told


def test_the_command_takes_the_options_of_the_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(baskets(), "baskets.parquet")
    options = ["--items", "items", "--split-by", "time", "--time", "date", "--validation", "0.2", "--test", "0.3"]
    result = CliRunner().invoke(app, ["inspect", "baskets.parquet", *options, "--override", "date=month"])
    assert result.exit_code == 0, result.output
    assert "training part (50.0%) of the split by time of date" in result.output
    assert "--validation 0.2 --test 0.3" in result.output.replace("\\\n", "").replace("  ", " ")
    assert "month" in (tmp_path / "schema.json").read_text("utf-8")
