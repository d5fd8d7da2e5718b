"""Runs on next baskets: whole sets are hidden, baselines count histories, reports tell repeats from new items."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from contextual_bert.baselines.names import HISTORY_BASELINES
from contextual_bert.data import SetPolicy
from contextual_bert.errors import ConfigurationError, UnknownNameError
from contextual_bert.evaluation import SetPredictions
from contextual_bert.runs import run
from contextual_bert.runs.evaluation import evaluate_run
from contextual_bert.runs.run_directory import load_run
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import SetCompletion
from contextual_bert_cli.main import app

MODEL = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
SMALL = {"num_train_epochs": 2, "per_device_train_batch_size": 64}


@pytest.fixture(scope="module")
def baskets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Next baskets of customers who buy two of their four usual items again, and one of all."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(300):
        usual = generator.choice(25, 4, replace=False)
        bought = [
            sorted({f"p{each}" for each in (*generator.choice(usual, 2), generator.integers(25))})
            for _ in range(generator.integers(2, 7))
        ]
        part = "train" if number < 200 else "validation" if number < 250 else "test"
        rows.append({"items": bought[-1], "before": bought[:-1], "age": "young" if number % 2 else "old", "part": part})
    rows[-1]["before"] = None
    path = tmp_path_factory.mktemp("baskets") / "baskets.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def recipe_for(path: Path, conditioning: str, **changes: Any) -> Recipe:
    trained = {} if conditioning in HISTORY_BASELINES else {"model": MODEL, "training": SMALL}
    task = SetCompletion(items="items", hide="set")
    return Recipe(data=str(path), task=task, split_column="part", conditioning=conditioning, **{**trained, **changes})


@pytest.mark.parametrize("conditioning", [*HISTORY_BASELINES])
def test_baselines_of_histories_run_and_report(baskets: Path, tmp_path: Path, conditioning: str) -> None:
    found = run(recipe_for(baskets, conditioning), tmp_path / "run")
    metrics = {key: each.value for key, each in found.metrics.items()}
    assert found.main == "set_ndcg_at_10_percent"
    assert 0 < metrics["set_ndcg_at_10_percent"] < 100
    assert metrics["coverage_at_20_percent"] > 50
    # A row without a history is in the means of all, and neither repeats nor explores.
    predictions = load_run(tmp_path / "run", name=conditioning).scores.predictions
    assert isinstance(predictions, SetPredictions)
    assert (predictions.times_before == -1).sum() == (predictions.example_id == 299).sum() > 0
    told = found.to_markdown()
    assert "hidden items of 50 sets" in told
    assert "PHR@10 of repeated items (%)" in told
    if conditioning == "p_top_freq":
        assert metrics["repeated_ndcg_at_10_percent"] > 2 * metrics["new_ndcg_at_10_percent"]


def test_a_model_is_chosen_by_the_metric_of_the_report(baskets: Path, tmp_path: Path) -> None:
    chosen = {**SMALL, "metric_for_best_model": "ndcg@10"}
    recipe = recipe_for(baskets, "global_state_update", training=chosen)
    found = run(recipe, tmp_path / "run")
    curves = (tmp_path / "run").rglob("trainer_state.json")
    logged = [
        entry["eval_set_ndcg_at_10_percent"]
        for path in curves
        for entry in json.loads(path.read_text())["log_history"]
        if "eval_set_ndcg_at_10_percent" in entry
    ]
    evaluated = evaluate_run(tmp_path / "run", part="validation").report.metrics["set_ndcg_at_10_percent"].value
    assert evaluated == pytest.approx(max(logged), abs=1e-6)
    assert found.metrics["set_recall_at_10_percent"].num_rows == found.num_rows
    # The histories of others change what is proposed, and not which items are repeated.
    result = CliRunner().invoke(app, ["importance", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "before" in result.output


def test_set_metrics_choose_no_epoch_of_items_hidden_one_at_a_time(baskets: Path) -> None:
    recipe = recipe_for(baskets, "none", training={"metric_for_best_model": "ndcg@10"})
    with pytest.raises(UnknownNameError, match="metric_for_best_model"):
        replace(recipe, task=SetCompletion(items="items"))


def test_methods_and_baselines_are_compared(baskets: Path, tmp_path: Path) -> None:
    words = [
        *("compare", str(baskets), "--items", "items", "--split-column", "part", "--hide", "set", "--seeds", "1"),
        *(
            "--conditioning",
            "none",
            "--baselines",
            "gp_top_freq,tifu_knn,popularity",
            "--output",
            str(tmp_path / "all"),
        ),
        *(word for name, value in MODEL.items() for word in ("--model", f"{name}={value}")),
        *("--epochs", "1"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    told = (tmp_path / "all" / "report.md").read_text()
    assert "Methods: whole sets" in told
    assert "Methods: repeated items" in told and "Methods: proposed lists" in told
    assert "| tifu_knn (baseline) |" in told
    assert "`none`: --hide set hides whole sets" in told and "`popularity`: " not in told
    assert "NDCG@10 (%) by age" in told


def test_without_a_history_the_baselines_say_so(baskets: Path, tmp_path: Path) -> None:
    recipe = recipe_for(baskets, "tifu_knn", exclude=("before",))
    with pytest.raises(ConfigurationError, match=r"conditioning='tifu_knn'.*no columns of .* are a history"):
        run(recipe, tmp_path / "run")


@pytest.mark.parametrize(
    ("columns", "advice"),
    [({}, 'Give each row its baskets in one column, such as [["a", "b"], ["c"]]'),
     ({"before": "before", "seen": "before"}, "Leave out all but one with --exclude")],
    ids=["none", "two"],
)  # fmt: skip
def test_a_comparison_names_the_option_of_a_baseline_that_it_cannot_have(
    baskets: Path, tmp_path: Path, columns: dict[str, str], advice: str
) -> None:
    table = parquet.read_table(baskets)
    own = {name: json_cells(table[source]) for name, source in columns.items()}
    names = [name for name in table.column_names if name != "before"]
    path = tmp_path / "baskets.parquet"
    parquet.write_table(pa.table({**{name: table[name] for name in names}, **own}), path)
    words = ["compare", str(path), "--items", "items", "--split-column", "part", "--hide", "set", "--seeds", "1"]
    words += ["--conditioning", "popularity", "--baselines", "up_cf", "--output", str(tmp_path / "all")]
    result = CliRunner().invoke(app, words)
    said = " ".join(result.stderr.split())
    assert result.exit_code == 2, result.output
    assert "--baselines up_cf counts what customers bought before" in said and advice in said


def json_cells(column: pa.ChunkedArray) -> list[str | None]:
    return [None if cell is None else json.dumps(cell) for cell in column.to_pylist()]


def test_a_customer_with_several_rows_is_counted_once(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = []
    for number in range(60):
        bought = [[f"p{each}" for each in generator.choice(25, 3, replace=False)] for _ in range(5)]
        part = "train" if number < 40 else "validation"
        for place in range(1 if part == "train" else 4, 5):
            rows.append(
                {
                    "items": bought[place],
                    "before": bought[:place],
                    "customer": f"c{number}",
                    "place": place,
                    "part": part,
                }
            )
    whole, last = tmp_path / "whole.parquet", tmp_path / "last.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), whole)
    parquet.write_table(pa.Table.from_pylist([row for row in rows if row["place"] == 4]), last)
    for conditioning in ("g_top_freq", "tifu_knn"):
        found = [
            run(
                recipe_for(path, conditioning, customer="customer", exclude=("place",)),
                tmp_path / f"{name}-{conditioning}",
            )
            for name, path in (("whole", whole), ("last", last))
        ]
        own, other = ({key: value for key, value in each.metrics.items() if "novelty" not in key} for each in found)
        assert own == other


def test_an_item_twice_in_a_set_is_asked_for_once(baskets: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(baskets).to_pylist()
    num_items = sum(len(row["items"]) for row in rows if row["part"] == "test")
    for row in rows:
        row["items"] = [*row["items"], row["items"][0]]
    path = tmp_path / "twice.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    task = SetCompletion(items="items", hide="set", policy=SetPolicy(duplicates="keep"))
    found = run(replace(recipe_for(path, "gp_top_freq"), task=task), tmp_path / "run")
    once = run(recipe_for(baskets, "gp_top_freq"), tmp_path / "once")
    assert found.num_rows == num_items
    assert found.asked is not None and f"Scored all {num_items:,} items" in found.asked.note()
    for key in ("set_ndcg_at_10_percent", "new_recall_at_20_percent"):
        assert found.metrics[key].value == pytest.approx(once.metrics[key].value)
