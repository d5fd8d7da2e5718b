"""A table of one item a row, as shops have them, through every command that reads sets."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from contextual_bert.data import read_table
from contextual_bert.runs.run_directory import load_recipe

SMALL = (
    "--epochs", "1", "--batch-size", "64", "--device", "cpu", "--model", "hidden_size=16", "--model",
    "num_hidden_layers=1", "--model", "num_attention_heads=2", "--model", "intermediate_size=16",
)  # fmt: skip
READ = ("--items", "item", "--group-by", "order", "--customer", "who")


@pytest.fixture(scope="module")
def long_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 orders of two to four items, shuffled."""
    generator = np.random.default_rng(0)
    rows = [
        {"order": f"{order:04}", "item": f"item {number}", "who": f"c{order % 80}", "age": order % 80 // 4,
         "price": round(float(generator.random()), 2)}
        for order in range(400)
        for number in generator.choice(12, size=generator.integers(2, 5), replace=False)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows).take(pa.array(generator.permutation(len(rows))))
    path = tmp_path_factory.mktemp("long") / "orders.csv"
    pa_csv.write_csv(table, path)
    return path


@pytest.fixture(scope="module")
def run(command, long_table: Path) -> Path:
    output = long_table.parent / "run"
    result = command("train", long_table, *READ, *SMALL, "--output", output)
    assert result.exit_code == 0, result.output
    assert "grouped by 'order' into 400 sets" in result.output
    assert "column 'price' left out: it varies" in result.output
    return output


def test_a_run_keeps_how_its_rows_are_grouped(run: Path) -> None:
    assert load_recipe(run).set_task.group_by == ("order",)
    assert [feature["name"] for feature in json.loads((run / "schema.json").read_text())["features"]] == ["age"]


def test_a_run_evaluates_and_attributes_its_own_long_table(command, run: Path, tmp_path: Path) -> None:
    result = command("evaluate", run, "--format", "json", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "the test part of the split that the run was trained with" in result.output
    assert command("importance", run, "--device", "cpu").exit_code == 0


def test_a_long_table_is_completed_a_row_a_group(command, run: Path, long_table: Path, tmp_path: Path) -> None:
    result = command("complete", run, "--data", long_table, "--output", tmp_path / "out", "--device", "cpu")
    assert result.exit_code == 0, result.output
    found = pq.read_table(tmp_path / "out" / "part-00000.parquet")
    assert found.num_rows == 400
    table = read_table(long_table, text_columns=("order",))
    assert found["order"].to_pylist() == table["order"].take(found["row"]).to_pylist()
    wide = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"item": [["item 1", "item 2"]], "age": [3]}), wide)
    result = command("complete", run, "--data", wide, "--output", tmp_path / "wide", "--device", "cpu")
    assert result.exit_code == 2
    assert "no column 'order'" in result.output
    result = command(
        "complete", run, "--data", wide, "--output", tmp_path / "wide", "--device", "cpu", "--group-by", ""
    )
    assert result.exit_code == 0, result.output


def test_a_split_of_a_long_table_fits_its_train_and_inspect(command, long_table: Path, tmp_path: Path) -> None:
    split, schema = tmp_path / "split.json", tmp_path / "schema.json"
    result = command("split", long_table, "--by", "who", "--items", "item", "--group-by", "order", "--output", split)
    assert result.exit_code == 0, result.output
    assert "--group-by order" in result.output
    looked = command("inspect", long_table, *READ, "--split", split, "--output", schema)
    assert looked.exit_code == 0, looked.output
    assert "--group-by order" in looked.output
    assert "describes the item" in " ".join(looked.output.split())
    trained = command(
        "train", long_table, *READ, *SMALL, "--split", split, "--schema", schema, "--output", tmp_path / "run"
    )
    assert trained.exit_code == 0, trained.output
    refused = command("train", long_table, "--items", "item", "--split", split, *SMALL, "--output", tmp_path / "other")
    assert refused.exit_code == 2
    assert "Give --group-by order" in " ".join(refused.output.split())
    compared = command(
        "compare", long_table, *READ, *SMALL, "--split", split, "--schema", schema, "--conditioning", "none",
        "--baselines", "popularity", "--seeds", "1", "--output", tmp_path / "study",
    )  # fmt: skip
    assert compared.exit_code == 0, compared.output


def test_a_long_table_without_its_groups_is_told_which_they_are(command, long_table: Path, tmp_path: Path) -> None:
    lines = long_table.read_text().splitlines()
    path = tmp_path / "sorted.csv"
    path.write_text("\n".join([lines[0], *sorted(lines[1:])]) + "\n")
    result = command("inspect", path, "--items", "item", "--output", tmp_path / "schema.json")
    assert "--group-by order" in " ".join(result.output.split()), result.output


def test_rows_without_a_group_are_left_out_alike_everywhere(command, long_table: Path, tmp_path: Path) -> None:
    lines = long_table.read_text().splitlines()
    assert lines[0].startswith('"order",')
    path = tmp_path / "gap.csv"
    path.write_text("\n".join([*lines[:5], "," + lines[5].partition(",")[2], *lines[6:]]) + "\n")
    split, drop = tmp_path / "split.json", ("--on-bad-row", "drop")
    refused = command("split", path, "--by", "who", "--items", "item", "--group-by", "order", "--output", split)
    assert refused.exit_code == 2 and "line 6, column 'order': the cell is missing" in " ".join(refused.output.split())
    made = command("split", path, "--by", "who", "--items", "item", "--group-by", "order", *drop, "--output", split)
    assert made.exit_code == 0, made.output
    assert "rows left out as broken: 1 without a value of 'order'" in " ".join(made.output.split())
    run = tmp_path / "run"
    trained = command("train", path, *READ, *SMALL, *drop, "--split", split, "--output", run)
    assert trained.exit_code == 0, trained.output
    done = command("complete", run, "--data", path, "--output", tmp_path / "out", "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert "1 without a value of 'order'" in " ".join(done.output.split())


def test_a_comma_given_with_grouped_rows_is_refused_by_every_command(command, long_table: Path, run: Path) -> None:
    output = long_table.parent / "refused"
    for arguments in (
        ("split", long_table, "--by", "who", *READ[:4], "--output", output),
        ("inspect", long_table, *READ),
        ("train", long_table, *READ, *SMALL, "--output", output),
        ("complete", run, "--data", long_table, "--output", output, "--device", "cpu"),
    ):
        refused = command(*arguments, "--separator", ",")
        assert refused.exit_code == 2
        assert "--separator ',' is not acted on with --group-by" in " ".join(refused.output.split())
        assert not output.exists()
