"""What a report says of items that nobody was asked for: rare ones, new ones, those of sets that were left out."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.data import SetPolicy
from contextual_bert.evaluation import Comparison, EvaluationSettings, Report, Scores, evaluate_scores
from contextual_bert.evaluation.scores import expected_recall
from contextual_bert.runs import prepare
from contextual_bert.runs.evaluation import evaluate_run
from contextual_bert.runs.run_directory import load_run
from contextual_bert.runs.runner import run
from contextual_bert.runs.study_report import study
from contextual_bert.runs.unscored import unscored_words
from contextual_bert.training import Recipe, SetCompletion

MIN_COUNT, MAX_SIZE = 4, 5
RECALL = "recall_at_1_percent"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """240 sets of customers with two each: common items, and in many sets one that hardly any other has."""
    generator = np.random.default_rng(0)
    sets, customers, shares = [], [], 1 / np.arange(1.0, 13)
    for row in range(240):
        common = generator.choice(12, size=int(generator.integers(2, 7)), replace=False, p=shares / shares.sum())
        sets.append([f"item-{number:02}" for number in common] + [f"rare-{row // 3}"] * int(row % 2))
        customers.append(f"customer-{row // 2}")
    sets[0] = ["rare-x", "rare-y"]  # of which nothing is left
    return pa.table({"items": sets, "customer": customers, "age": generator.integers(18, 80, 240)})


@pytest.fixture(scope="module")
def recipe(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("asked") / "sets.parquet"
    pq.write_table(table, path)
    return Recipe(
        data=str(path),
        task=SetCompletion(items="items", policy=SetPolicy(min_count=MIN_COUNT, max_size=MAX_SIZE)),
        customer="customer",
        conditioning="popularity",
        validation=0.2,
        test=0.3,
    )


@pytest.fixture(scope="module")
def finished(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked-runs") / "popularity" / "seed-0"
    run(recipe, folder, is_quiet=True)
    return folder


def counted(recipe: Recipe, table: pa.Table) -> tuple[int, int, int]:
    """The items of the test part; of these the rare ones, and those of sets that are too large then."""
    ready = prepare(recipe)
    sets = table["items"].to_pylist()
    training = [name for row in ready.split.rows("train") for name in sets[row]]
    rare = {name for each in sets for name in each if training.count(name) < MIN_COUNT}
    rows = ready.split.rows("test")
    kept = [[name for name in sets[row] if name not in rare] for row in rows]
    num_all = sum(len(sets[row]) for row in rows)
    return num_all, num_all - sum(map(len, kept)), sum(len(each) for each in kept if len(each) > MAX_SIZE)


def test_a_report_counts_what_was_not_asked(recipe: Recipe, table: pa.Table, finished: Path) -> None:
    num_all, num_rare, num_of_sets = counted(recipe, table)
    assert num_rare > 10 and num_of_sets > 10
    report = Report.from_json(json.dumps(json.loads((finished / "metrics.json").read_text())["test"]))
    asked = report.asked
    assert asked is not None
    assert (asked.num_scored, asked.num_all) == (report.num_rows, num_all)
    assert asked.num_scored == num_all - num_rare - num_of_sets
    assert list(asked.reasons.values()) == [num_rare, num_of_sets]
    hits = float(expected_recall(load_run(finished, name="x").scores, 1).sum())
    recall = asked.recall[RECALL]
    assert recall.value == pytest.approx(100 * hits / num_all)
    assert recall.low < recall.value < recall.high
    assert recall.value < report.metrics[RECALL].value
    assert recall.num_rows == num_all
    for text in (report.to_markdown(), (finished / "README.md").read_text()):
        assert f"Scored {report.num_rows:,} of {num_all:,} items of the test part" in text
        assert f"{num_rare} seen fewer than {MIN_COUNT} times in training" in text
        assert f"Recall over all {num_all:,} items of the test part" in text


def test_a_filter_of_rare_items_no_longer_improves_all_figures(recipe: Recipe, finished: Path, tmp_path: Path) -> None:
    strict = recipe.changed(policy=replace(recipe.set_task.policy, min_count=45))
    report = run(strict, tmp_path / "strict", is_quiet=True)
    loose = Report.from_json(json.dumps(json.loads((finished / "metrics.json").read_text())["test"]))
    assert report is not None and report.asked is not None and loose.asked is not None
    assert report.metrics[RECALL].value > loose.metrics[RECALL].value
    assert report.asked.num_all == loose.asked.num_all
    assert report.asked.num_scored < loose.asked.num_scored


def test_a_study_and_its_page_say_it_from_the_files_of_the_runs(recipe: Recipe, finished: Path) -> None:
    ready = prepare(recipe)
    output = finished.parents[1]
    found = study("a study", [recipe], output, prepared=ready, is_report_only=True, say=lambda _: None)
    asked = found.comparison.asked
    assert asked is not None
    sentence = f"Scored {asked.num_scored:,} of {asked.num_all:,} items of the test part"
    for text in (found.to_markdown(), found.to_html(), found.comparison.to_markdown()):
        assert sentence in text
    (row,) = found.comparison.asked_table().rows
    assert row[1].startswith(f"{found.comparison.rows[0].metrics[RECALL].mean * asked.share:.2f} (")
    assert Comparison.from_json(found.comparison.to_json()) == found.comparison


def test_evaluate_counts_the_same_on_the_runs_table_and_new_items_on_another(table: pa.Table, tmp_path: Path) -> None:
    recipe = Recipe(
        data=str(tmp_path / "memory"),
        task=SetCompletion(items="items", policy=SetPolicy(min_count=MIN_COUNT)),
        conditioning="none",
        training={"num_train_epochs": 1},
        model={"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1},
    )
    sets = table.select(["items"])
    report = run(recipe, tmp_path / "run", table=sets, is_quiet=True)
    again = evaluate_run(tmp_path / "run", part="test", source=sets)
    assert report is not None
    assert again.report.asked == report.asked
    other = evaluate_run(tmp_path / "run", source=pa.table({"items": [["item-01", "new"], ["item-02"]]}))
    asked = other.report.asked
    assert asked is not None
    assert (asked.num_scored, asked.num_all, asked.reasons) == (2, 3, {"new to the run": 1})
    assert "Scored 2 of 3 items of the table (66.7%). Not scored: 1 new to the run." in other.to_markdown()


def test_words_behind_the_cut_are_misses() -> None:
    words = pa.chunked_array([[["a", "b", "c"], ["d"]]])
    ones = np.ones(2)
    scores = Scores(np.array([4, 9]), np.array([1, 1]), -ones, 0 * ones, ones, ones / 2)
    unscored = unscored_words(words, np.array([4, 9]), scores, part="test", customers=None)
    assert (unscored.clusters.tolist(), dict(unscored.reasons)) == ([4, 4], {"behind the cut of their text": 2})
    report = evaluate_scores(scores, unscored=unscored, settings=EvaluationSettings(ks=(1,), row_name="word"))
    assert report.metrics[RECALL].value == 100
    assert report.asked is not None
    assert report.asked.recall[RECALL].value == 50
    assert "Scored 2 of 4 words of the test part (50.0%). Not scored: 2 behind the cut" in report.to_markdown()
