"""A table that comes with its parts: as a column that names them, or as files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert.data import Split
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Recipe

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def parts_of(directory: Path) -> dict[str, list[int]]:
    split = Split.load(directory / "split.json")
    return {part: split.rows(part).tolist() for part in ("train", "validation", "test")}


@pytest.fixture
def partitioned(table: Path, tmp_path: Path) -> tuple[Path, np.ndarray]:
    """The outfits with a column of parts in the words of people."""
    read = pq.read_table(table)
    words = np.array(["train", "dev", "Test ", "train", "train"])[np.arange(read.num_rows) % 5]
    pq.write_table(read.append_column("part", pa.array(words)), tmp_path / "marked.parquet")
    return tmp_path / "marked.parquet", words


@pytest.fixture
def files(table: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    read = pq.read_table(table)
    paths = (tmp_path / "train.parquet", tmp_path / "val.parquet", tmp_path / "test.parquet")
    for path, (start, count) in zip(paths, ((0, 200), (200, 40), (240, 60)), strict=True):
        pq.write_table(read.slice(start, count), path)
    return paths


def test_a_column_names_the_parts(command: Any, partitioned: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    table, words = partitioned
    run = tmp_path / "run"
    result = command("train", table, *command.small, "--split-column", "part", "--output", run)
    assert result.exit_code == 0, result.output
    expected = {"train": "train", "validation": "dev", "test": "Test "}
    assert parts_of(run) == {part: np.flatnonzero(words == word).tolist() for part, word in expected.items()}
    recipe = Recipe.load(run)
    assert recipe.split_column == "part"
    assert "part" not in [feature["name"] for feature in (recipe.schema or {})["features"]]
    before = json.loads((run / "metrics.json").read_text("utf-8"))["test"]["num_rows"]
    evaluated = command("evaluate", run, "--format", "json", "--device", "cpu")
    assert json.loads(evaluated.stdout)["num_rows"] == before
    split = command("split", table, "--by-column", "part", "--items", "items", "--output", tmp_path / "split.json")
    assert split.exit_code == 0, split.output
    assert Split.load(tmp_path / "split.json").digest == Split.load(run / "split.json").digest
    inspected = command("inspect", table, "--items", "items", "--split-column", "part", "--output", tmp_path / "s.json")
    assert "--split-column part" in inspected.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--split-column", "who"), ("There is no column 'who'",)),
        (("--split-column", "part", "--test", 0.2), ("part", "0.2", "Give one of them")),
        (("--split-column", "part", "--split-by", "row"), ("Give one of them",)),
        (("--split-column", "customer_id"), ("a column of something else",)),
    ],
)
def test_what_says_the_parts_twice_is_refused(
    command: Any,
    partitioned: tuple[Path, np.ndarray],
    tmp_path: Path,
    options: tuple[Any, ...],
    expected: tuple[str, ...],
) -> None:
    result = command("train", partitioned[0], *command.small, *options, "--output", tmp_path / "run")
    assert result.exit_code == 2, result.output
    said = " ".join(result.stderr.split())
    assert all(each in said for each in expected), said
    assert not (tmp_path / "run").exists()


def test_a_word_that_names_no_part(command: Any, table: Path, tmp_path: Path) -> None:
    read = pq.read_table(table)
    words = ["train"] * (read.num_rows - 1) + ["tset"]
    pq.write_table(read.append_column("part", pa.array(words)), tmp_path / "odd.parquet")
    result = command(
        "train", tmp_path / "odd.parquet", *command.small, "--split-column", "part", "--output", tmp_path / "run"
    )
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "column 'part': 'tset' is no part" in said
    assert "validation or valid or val or dev" in said


def test_files_are_the_parts(command: Any, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    train, validation, test = files
    run = tmp_path / "run"
    given = ("--validation-data", validation, "--test-data", test)
    result = command("train", train, *command.small, *given, "--output", run)
    assert result.exit_code == 0, result.output
    assert parts_of(run) == {"train": [*range(200)], "validation": [*range(200, 240)], "test": [*range(240, 300)]}
    said = " ".join(result.stderr.split())
    assert f"241 to 300 from {test}" in said
    assert "customers in two parts (customer_id)" in said
    metrics = json.loads((run / "metrics.json").read_text("utf-8"))
    evaluated = command("evaluate", run, "--format", "json", "--device", "cpu")
    found = json.loads(evaluated.stdout)
    assert found["num_rows"] == metrics["test"]["num_rows"]
    value = metrics["test"]["metrics"]["cross_entropy_nats"]["value"]
    assert found["metrics"]["cross_entropy_nats"]["value"] == pytest.approx(value, abs=1e-9)
    alone = command("evaluate", run, "--data", test, "--format", "json", "--device", "cpu")
    assert alone.exit_code == 0, alone.output
    compared = command("compare", train, *command.small, *given, "--conditioning", "none", "--seeds", 1, "--output",
                       tmp_path / "study")  # fmt: skip
    assert compared.exit_code == 0, compared.output
    assert parts_of(tmp_path / "study" / "none" / "seed-0") == parts_of(run)


def test_a_part_without_a_file_is_drawn_from_the_training_file(
    command: Any, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    train, _, test = files
    run = tmp_path / "run"
    result = command("train", train, *command.small, "--test-data", test, "--validation", 0.2, "--output", run)
    assert result.exit_code == 0, result.output
    found = parts_of(run)
    assert found["test"] == [*range(200, 260)]
    assert max(found["validation"]) < 200
    assert 10 < len(found["validation"]) < 90


def test_a_fault_of_the_test_file_is_named_in_it(command: Any, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    train, validation, test = files
    read = pq.read_table(test)
    items = read["items"].to_pylist()
    items[7] = [items[7][0], items[7][0]]
    faulty = read.set_column(read.column_names.index("items"), "items", pa.array(items))
    pq.write_table(faulty, test)
    given = ("--validation-data", validation, "--test-data", test)
    result = command("train", train, *command.small, *given, "--output", tmp_path / "run")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert f"{test}, row " in said
    assert "row 247" not in said
    pq.write_table(read.drop_columns(["age"]), test)
    result = command("train", train, *command.small, *given, "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert f"{test}: the column 'age' of {train} is not there" in " ".join(result.stderr.split())


def test_files_of_texts_whose_columns_look_unlike(command: Any, tmp_path: Path) -> None:
    """A reader takes the codes of one file for numbers and those of another for text."""
    bert = tmp_path / "bert"
    config = BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES)
    miniature_checkpoint(drawn_anew(BertForSequenceClassification(config)), bert)
    rows = [f"word{number % 9} word{number % 7},{number % 2},{number % 3}" for number in range(90)]
    (tmp_path / "train.csv").write_text("text,label,code\n" + "\n".join(rows[:60]) + "\n", encoding="utf-8")
    tail = "\n".join(rows[60:]) + "\nword1,0,new\n"
    (tmp_path / "test.csv").write_text("text,label,code\n" + tail, encoding="utf-8")
    run = tmp_path / "run"
    read = ("--text", "text", "--label", "label", "--checkpoint", bert, "--epochs", 1, "--device", "cpu")
    result = command("train", tmp_path / "train.csv", *read, "--test-data", tmp_path / "test.csv", "--output", run)
    assert result.exit_code == 0, result.output
    assert parts_of(run)["test"] == [*range(60, 91)]
    again = command("evaluate", run, "--format", "json", "--device", "cpu")
    assert json.loads(again.stdout)["num_rows"] == 31
