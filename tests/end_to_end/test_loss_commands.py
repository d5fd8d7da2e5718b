"""Losses of masked items by the command line: what a run writes down, what is chosen, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from contextual_bert import CompletionPipeline
from contextual_bert.runs.tasks import set_completion

DRAWN = ("--loss", "sampled_softmax", "--num-negatives", "16")


def ok(result: Any) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def training_in(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "recipe.json").read_text())["resolved"]["training"]


def test_a_run_says_by_which_loss_it_learned(command: Any, table: Path, tmp_path: Path) -> None:
    ok(command("train", table, *command.small, *DRAWN, "--output", tmp_path / "run"))
    assert training_in(tmp_path / "run")["loss"] == "sampled_softmax"
    assert training_in(tmp_path / "run")["num_negatives"] == 16
    assert "learned by a sampled softmax" in (tmp_path / "run" / "README.md").read_text("utf-8")
    pipeline = CompletionPipeline.from_pretrained(tmp_path / "run")
    assert pipeline.model.config.item_loss == "sampled_softmax"
    answer: Any = pipeline({"items": [pipeline.processor.items.values[0], "[MASK]"]}, top_k=60)
    [slot] = answer["slots"]
    assert len(slot["candidates"]) == slot["num_permitted"] == 59
    assert sum(each["probability"] for each in slot["candidates"]) == pytest.approx(1, abs=1e-3)
    ok(command("evaluate", tmp_path / "run"))


def test_rows_of_a_comparison_that_read_no_loss_go_without(command: Any, table: Path, tmp_path: Path) -> None:
    rows = ("--conditioning", "none", "--baselines", "bag,popularity")
    ok(command("compare", table, *command.small, *rows, *DRAWN, "--seeds", 1, "--output", tmp_path))
    found = {path.parent.parent.name: training_in(path.parent) for path in tmp_path.glob("*/*/recipe.json")}
    assert found["none"]["loss"] == "sampled_softmax"
    assert found["bag"]["loss"] == "cross_entropy"
    assert "popularity" in found


def test_very_many_items_are_sampled_unless_the_loss_is_named(
    command: Any, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_completion, "LARGEST_EXACT", 20)
    ok(command("train", table, *command.small, "--output", tmp_path / "sampled"))
    assert training_in(tmp_path / "sampled")["loss"] == "sampled_softmax"
    ok(command("train", table, *command.small, "--loss", "cross_entropy", "--output", tmp_path / "exact"))
    assert training_in(tmp_path / "exact")["loss"] == "cross_entropy"


@pytest.mark.slow
def test_what_ranks_is_chosen_by_ranks_and_is_no_probability(command: Any, table: Path, tmp_path: Path) -> None:
    result = ok(command("train", table, *command.small, "--loss", "gbce", "--output", tmp_path / "run"))
    assert training_in(tmp_path / "run")["metric_for_best_model"] == "mean_reciprocal_rank"
    assert "gbce over 4,096 drawn items and those of the step" in " ".join(result.output.split())
    assert "Nothing was learned" not in result.output
    assert "no probability of theirs" in (tmp_path / "run" / "README.md").read_text("utf-8")
    said = "Learned by gBCE, which ranks items"
    ok(command("export", tmp_path / "run", "--output", tmp_path / "export"))
    for folder in ("run", "export"):
        asked = ok(command("complete", tmp_path / folder, "--set", "bag-0,[MASK]", "--top", 3))
        assert said in " ".join(asked.output.split())
    many = ok(command("complete", tmp_path / "run", "--data", table, "--output", tmp_path / "many"))
    assert said in " ".join(many.output.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--loss", "sampled"), "sampled_softmax"),
        (("--loss", "gbce", "--num-negatives", "0"), "--num-negatives 0"),
        (("--num-negatives", "8"), "--loss cross_entropy reads them all"),
        ((*DRAWN, "--set", "optim=sgd"), "has no averages by row"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_written(
    command: Any, table: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    result = command("train", table, *command.small, *options, "--output", tmp_path / "run")
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert not (tmp_path / "run").exists()
