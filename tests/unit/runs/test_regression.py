"""Runs that learn numbers: from a table to a folder that answers with a number and an interval, a row of each kind."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import TextPipeline
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import NumberPredictions
from contextual_bert.json_text import json_text
from contextual_bert.runs import evaluate_run, inspect_table, prepare, run
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import Classification, ContextualTrainingArguments, Recipe, task_on_texts

SIZES: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
ROWS = 400


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    torch.manual_seed(0)
    miniature_checkpoint(BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, **SIZES)), folder)
    return str(folder)


def table(**columns: Any) -> pa.Table:
    """A price is that of the first word, twice as much for a man, with some noise."""
    numbers = np.random.default_rng(0)
    words = numbers.integers(0, 18, size=(ROWS, 2))
    sex = numbers.choice(["f", "m"], size=ROWS)
    price = (10.0 + 5 * words[:, 0]) * np.where(sex == "m", 2, 1) * np.exp(numbers.normal(0, 0.05, ROWS))
    texts = [" ".join(f"word{word}" for word in row) for row in words.tolist()]
    return pa.table({"text": texts, "sex": sex.tolist(), "price": price.round(2).tolist()} | columns)


def recipe(conditioning: str = "ngrams_context", *, training: Any = None, **task: Any) -> Recipe:
    learned = Classification(label="price", is_regression=True, **task)
    own = {"num_train_epochs": 4, "per_device_train_batch_size": 16, "learning_rate": 1e-2}
    if "checkpoint" in task:
        own["learning_rate"] = 3e-3
    is_fitted = conditioning.startswith(("popularity", "context_popularity", "tfidf", "embeddings"))
    given = training if training is not None else {} if is_fitted else own
    return Recipe(data="t.parquet", task=learned, conditioning=conditioning, training=given, device="cpu")


def test_the_task_says_its_kind_and_comes_back_from_its_file(tmp_path: Path) -> None:
    task = task_on_texts(text="text", label="price", is_regression=True, number_bins=12)
    assert task.kind == "regression"
    assert "root_mean_squared_error" in task.metrics
    assert task.code_columns == ()
    saved = Recipe(data="t.parquet", task=task, conditioning="cnn")
    (tmp_path / "recipe.json").write_text(json_text(saved.to_dict()), encoding="utf-8")
    assert Recipe.load(tmp_path).task == task


@pytest.mark.parametrize(
    "conditioning",
    [
        "global_state_update",
        pytest.param("bert_context_as_text", marks=pytest.mark.slow),
        pytest.param("bert_concat_text", marks=pytest.mark.slow),
    ],
)
def test_a_bert_learns_numbers_and_is_asked_for_them(conditioning: str, checkpoint: str, tmp_path: Path) -> None:
    report = run(recipe(conditioning, checkpoint=checkpoint), tmp_path / "run", table=table(), is_quiet=True)
    assert report is not None
    assert report.main == "root_mean_squared_error"
    scores = load_scores(tmp_path / "run" / SCORES_FILE)[0]
    assert isinstance(scores.predictions, NumberPredictions)
    assert scores.predictions.true.tolist() == [table()["price"][row].as_py() for row in scores.example_id.tolist()]
    if conditioning != "bert_concat_text":  # whose weights are not kept
        answer: Any = TextPipeline.from_pretrained(tmp_path / "run")({"text": "word1", "context": {"sex": "m"}})
        assert answer["interval"][0] <= answer["label"] <= answer["interval"][1]
        assert answer["probabilities"] == {}


@pytest.mark.slow
def test_the_text_and_its_reader_say_the_number(tmp_path: Path) -> None:
    own, folder = recipe(training={"num_train_epochs": 40, "learning_rate": 0.03}), tmp_path / "run"
    report = run(own, folder, table=table(), is_quiet=True)
    counted = run(recipe("popularity"), tmp_path / "counted", table=table(), is_quiet=True)
    assert report is not None
    assert counted is not None
    error, without = (each.metrics["root_mean_squared_error"].value for each in (report, counted))
    spread = float(np.std(load_scores(folder / SCORES_FILE)[0].predictions.true))  # pyright: ignore
    assert without == pytest.approx(spread, rel=0.1)
    assert error < 0.6 * without
    pipeline = TextPipeline.from_pretrained(folder)
    asked: Any = pipeline([{"text": "word12", "context": {"sex": sex}} for sex in ("f", "m")])
    assert asked[1]["label"] > 1.4 * asked[0]["label"]
    labelled = pipeline.label_table(table()).table
    assert labelled.schema.field("predicted_high").type == pa.float64()
    assert labelled.num_rows == ROWS


@pytest.mark.parametrize("name", ["context_popularity", "cnn"])
def test_a_baseline_is_scored_anew_as_it_was(name: str, tmp_path: Path) -> None:
    report = run(recipe(name), tmp_path / "run", table=table(), is_quiet=True)
    again = evaluate_run(tmp_path / "run", part="test", source=table())
    assert report is not None
    assert again is not None
    for key in ("root_mean_squared_error", "interval_coverage_percent", "cross_entropy_nats"):
        assert again.report.metrics[key].value == pytest.approx(report.metrics[key].value)
    assert {each.feature for each in report.segments} == {"sex", "true number"}


def test_a_logistic_regression_gives_numbers_too(tmp_path: Path) -> None:
    report = run(recipe("tfidf_context", number_bins=10), tmp_path / "run", table=table(), is_quiet=True)
    assert report is not None
    assert report.num_items == 10
    assert report.metrics["root_mean_squared_error"].value > 0


def test_the_best_epoch_may_be_chosen_by_the_error(tmp_path: Path) -> None:
    training = {"num_train_epochs": 3, "learning_rate": 0.03, "metric_for_best_model": "root_mean_squared_error"}
    assert run(recipe(training=training), tmp_path / "run", table=table(), is_quiet=True) is not None
    ready = prepare(recipe(), source=table())
    model = ready.build_model(ready.resolve(recipe())).eval()
    scored = ready.score_dataset(model, ready.datasets["validation"], "validation")
    assert isinstance(scored.predictions, NumberPredictions)
    expected = float(np.sqrt(np.mean((scored.predictions.predicted - scored.predictions.true) ** 2)))
    arguments: Any = {"train_dataset": ready.datasets["train"], "eval_dataset": ready.datasets["validation"]}
    given = ContextualTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[])
    trainer = ready.trainer_of(recipe(), model, given, arguments)  # pyright: ignore[reportAttributeAccessIssue]
    assert trainer.evaluate()["eval_root_mean_squared_error"] == pytest.approx(expected, rel=1e-5)


def test_bins_are_of_the_training_part_and_numbers_beyond_are_told(tmp_path: Path) -> None:
    ready = prepare(recipe(), source=table())
    row = int(ready.split.rows("test")[0])
    prices = table()["price"].to_pylist()
    prices[row] = 1e6
    changed: Any = prepare(recipe(), source=table(price=prices))
    assert changed.bins == ready.bins  # pyright: ignore[reportAttributeAccessIssue]
    assert any("test: 2 numbers of" in line and "which no answer reaches" in line for line in changed.lines())
    assert any(line.startswith("numbers of ") and "bins" in line for line in changed.lines())
    found = inspect_table(recipe(), source=table(), has_tokens=False)
    assert any("numbers in 'price' of" in line for line in found.reading)


def test_a_run_that_is_gone_on_from_keeps_its_bins(checkpoint: str, tmp_path: Path) -> None:
    first = recipe("global_state_update", checkpoint=checkpoint)
    run(first, tmp_path / "run", table=table(), is_quiet=True)
    later = recipe("global_state_update", checkpoint=str(tmp_path / "run"))
    dearer = table(price=[1.3 * price for price in table()["price"].to_pylist()])
    own: Any = prepare(first, source=table())
    ready: Any = prepare(later, source=dearer)
    assert ready.bins == own.bins
    assert not ready.build_model(ready.resolve(later)).has_new_head


def test_faulty_cells_and_settings_are_named() -> None:
    cells = [*map(str, table()["price"].to_pylist()[:-1]), "many"]
    with pytest.raises(DataError, match="'many' is no number") as caught:
        prepare(recipe(), source=table(price=cells))
    assert (caught.value.row, caught.value.column) == (ROWS - 1, "price")
    found = inspect_table(recipe(), source=table(price=cells), has_tokens=False)
    assert any("'many' is no number" in fault for fault in found.faults)
    with pytest.raises(DataError, match="all numbers of the training part are 3"):
        prepare(recipe(), source=table(price=[3.0] * ROWS))
    for look in (prepare, inspect_table):
        with pytest.raises(DataError, match="numbers are of whole texts"):
            look(recipe(), source=table(text=[["word1"]] * ROWS))
    with pytest.raises(DataError, match="or learn the numbers themselves: is_regression=True"):
        prepare(recipe().changed(task=Classification(label="price")), source=table())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"is_ordinal": True}, "is for labels, and with is_regression=True they are numbers"),
        ({"order": ("a", "b")}, "order=\\['a', 'b'\\] is for labels"),
        ({"is_multi_label": True}, "is_multi_label=True is for labels"),
        ({"number_bins": 1}, "Give 2 or more"),
        ({"is_regression": False, "number_bins": 9}, "is for numbers, and these are labels"),
    ],
)
def test_settings_that_mean_nothing_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Classification(**{"label": "price", "is_regression": True, **change})
    with pytest.raises(ConfigurationError, match="is for labels, and none is named"):
        task_on_texts(text="text", is_regression=True)
