"""Training on every row, after the settings are chosen: nothing is held out, and every command says so."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert.data import Split
from contextual_bert.runs.run_directory import is_complete
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew

ALL_ROWS = ("--validation", 0, "--test", 0)
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture
def of_texts(tmp_path: Path) -> tuple[Any, ...]:
    bert = tmp_path / "bert"
    config = BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES)
    miniature_checkpoint(drawn_anew(BertForSequenceClassification(config)), bert)
    rows = [f"word{number % 9} word{number % 7},{number % 2},{'ab'[number % 3 % 2]}" for number in range(60)]
    path = tmp_path / "texts.csv"
    path.write_text("text,label,shop\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return (path, "--text", "text", "--label", "label", "--checkpoint", bert, "--epochs", 1, "--device", "cpu")


def check_run(command: Any, run: Path, data: Path, result: Any) -> None:
    said = " ".join(result.stderr.split())
    assert "nothing is held out: all rows are trained on, the last epoch is kept" in said
    assert is_complete(run)
    metrics = json.loads((run / "metrics.json").read_text("utf-8"))
    assert metrics["evaluated_part"] is None
    assert not {"test", "validation"} & set(metrics)
    assert (Split.load(run / "split.json").assignment == 0).all()
    assert "nothing was held out" in (run / "README.md").read_text("utf-8")
    assert "evaluate" not in said.split("next:")[1]
    refused = command("evaluate", run, "--device", "cpu")
    assert refused.exit_code == 2
    assert "Name another table with --data" in " ".join(refused.stderr.split())
    for options in (("--part", "all"), ("--data", data.with_name("other" + data.suffix))):
        assert command("evaluate", run, *options, "--device", "cpu").exit_code == 0


def test_sets(command: Any, table: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pq.write_table(pq.read_table(table).slice(0, 50), table.with_name("other.parquet"))
    result = command("train", table, *command.small, *ALL_ROWS, "--output", run)
    assert result.exit_code == 0, result.output
    check_run(command, run, table, result)
    again = command("train", table, *command.small, *ALL_ROWS, "--resume", "--output", run)
    assert again.exit_code == 2
    assert "holds a complete run" in again.stderr


def test_texts(command: Any, of_texts: tuple[Any, ...], tmp_path: Path) -> None:
    run, path = tmp_path / "run", of_texts[0]
    path.with_name("other.csv").write_text("".join(path.read_text("utf-8").splitlines(True)[:20]), encoding="utf-8")
    result = command("train", *of_texts, *ALL_ROWS, "--output", run)
    assert result.exit_code == 0, result.output
    check_run(command, run, path, result)


def test_a_comparison_needs_something_held_out(command: Any, tmp_path: Path) -> None:
    (tmp_path / "none.csv").touch()  # nobody can read it
    result = command("compare", tmp_path / "none.csv", "--items", "items", *ALL_ROWS, "--output", tmp_path / "study")
    assert result.exit_code == 2
    assert "hold nothing out, and there is nothing to compare" in result.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--validation", 0.9, "--test", 0.9), "--validation 0.9 and --test 0.9 leave no row"),
        (("--validation", 0, "--patience", 2), "--patience 2 chooses an epoch by the validation part"),
        (("--time", "day"), "--time day is for a split by time"),
        (("--split", "none.json"), "none.json: there is no such file"),
        (("--customer", "items"), "are one column"),
        (("--set", "one_mask_epochs=3", "--set", "masks_per_set=1"), "--set one_mask_epochs=3"),
        (
            ("--set", "metric_for_best_model=accuracy"),
            "metric_for_best_model=accuracy is unknown. Known: cross_entropy",
        ),
        (("--model", "hidden_size=10", "--model", "num_attention_heads=3"), "is no multiple of"),
    ],
)
def test_what_cannot_work_is_said_before_the_table_is_read(
    command: Any, tmp_path: Path, options: tuple[Any, ...], expected: str
) -> None:
    """The table is empty: who reads it first says that."""
    (tmp_path / "none.csv").touch()
    for name in ("train", "compare"):
        read = (tmp_path / "none.csv", "--items", "items", "--output", tmp_path / "run")
        result = command(name, *read, *options)
        assert result.exit_code == 2
        assert expected in " ".join(result.stderr.split())
        assert not (tmp_path / "run").exists()
