"""Runs on texts with several labels at once: from a table to a folder that predicts, for a BERT and for baselines."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import TextPipeline
from contextual_bert.baselines.names import baselines_of
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import MultiLabelPredictions
from contextual_bert.json_text import json_text
from contextual_bert.runs import evaluate_run, inspect_table, prepare, run
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import Classification, Recipe, Tagging, task_on_texts

SIZES: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
ROWS = 160


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    torch.manual_seed(0)
    miniature_checkpoint(BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, **SIZES)), folder)
    return str(folder)


def table(**columns: Any) -> pa.Table:
    """A text is early or late by its first word; it is new where a man reads it, and one text in four has no label."""
    numbers = np.random.default_rng(0)
    words = numbers.integers(0, 18, size=(ROWS, 3))
    sex = numbers.choice(["f", "m"], size=ROWS).tolist()
    tags = [
        [*(["early"] if row[0] < 9 else ["late"]), *(["new"] if who == "m" else [])] if row[1] > 3 else []
        for row, who in zip(words.tolist(), sex, strict=True)
    ]
    texts = [" ".join(f"word{word}" for word in row) for row in words.tolist()]
    return pa.table({"text": texts, "sex": sex, "tags": tags} | columns)


def recipe(conditioning: str = "ngrams_context", **task: Any) -> Recipe:
    learned = Classification(label="tags", is_multi_label=True, **task)
    training = {"num_train_epochs": 3, "per_device_train_batch_size": 16, "learning_rate": 1e-2}
    if "checkpoint" in task:
        training["learning_rate"] = 1e-3
    fitted = {} if "popularity" in conditioning else training
    return Recipe(data="t.parquet", task=learned, conditioning=conditioning, training=fitted, device="cpu")


def test_the_task_says_its_kind_and_comes_back_from_its_file(tmp_path: Path) -> None:
    task = task_on_texts(text="text", label="tags", is_multi_label=True, separator=";")
    assert task.kind == "multi_label"
    assert "micro_f1_percent" in task.metrics
    saved = Recipe(data="t.parquet", task=task, conditioning="cnn")
    (tmp_path / "recipe.json").write_text(json_text(saved.to_dict()), encoding="utf-8")
    assert Recipe.load(tmp_path).task == task
    assert isinstance(task_on_texts(text="text", label="tags").as_kind("tagging"), Tagging)


@pytest.mark.parametrize("conditioning", ["global_state_update", "bert_context_as_text", "bert_concat_text"])
def test_a_bert_learns_several_labels(conditioning: str, checkpoint: str, tmp_path: Path) -> None:
    own = recipe(conditioning, checkpoint=checkpoint)
    report = run(own, tmp_path / "run", table=table(), is_quiet=True)
    assert report is not None
    assert report.main == "micro_f1_percent"
    assert report.learned is not None
    scores = load_scores(tmp_path / "run" / SCORES_FILE)[0]
    assert isinstance(scores.predictions, MultiLabelPredictions)
    assert scores.predictions.names == ("early", "late", "new")
    assert len(scores) == 3 * len(scores.predictions)


@pytest.mark.parametrize("name", ["popularity", "context_popularity", "ngrams_context", "cnn"])
def test_a_baseline_is_trained_evaluated_and_asked(name: str, tmp_path: Path) -> None:
    own, folder = recipe(name), tmp_path / "run"
    report = run(own, folder, table=table(), is_quiet=True)
    again = evaluate_run(folder, part="test", source=table())
    assert report is not None
    assert again is not None
    found = again.report.metrics["micro_f1_percent"].value
    assert found == pytest.approx(report.metrics["micro_f1_percent"].value)
    asked: Any = TextPipeline.from_pretrained(folder)({"text": "word1 word9", "context": {"sex": "m"}})
    assert sorted(asked["probabilities"]) == ["early", "late", "new"]
    assert asked["label"] == [each for each, share in asked["probabilities"].items() if share > 0.5]


def test_counted_shares_are_those_of_each_label_and_a_head_starts_there(checkpoint: str, tmp_path: Path) -> None:
    ready = prepare(recipe("none", checkpoint=checkpoint), source=table())
    labels: Any = ready.datasets["train"].labels
    model: Any = ready.build_model(ready.resolve(recipe("none", checkpoint=checkpoint)))
    expected = (labels.sum(dim=0) + 0.5) / (len(labels) + 1)
    assert model.classifier.bias.sigmoid().tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    scored = ready.score_dataset(model.eval(), ready.datasets["test"], "test")
    loss: Any = ready.share_losses("test", scored, softmax_over="all")
    right = np.exp(-loss)
    true = ready.targets("test", scored) % 2  # pyright: ignore[reportAttributeAccessIssue]
    counted = np.where(true == 1, right, 1 - right)
    assert [np.ptp(counted[scored.position == each]) for each in range(3)] == pytest.approx([0, 0, 0], abs=1e-9)
    assert counted[:3] == pytest.approx(expected.numpy(), abs=1e-6)


def test_what_is_read_of_the_table_is_told() -> None:
    ready = prepare(recipe("cnn"), source=table())
    assert any("labels a text: 1." in line and "have none" in line for line in ready.lines())
    single = table(tags=[["early"], ["late"]] * (ROWS // 2))
    assert any("no training text has two labels" in line for line in prepare(recipe("cnn"), source=single).lines())
    found = inspect_table(recipe("cnn"), source=table(), has_tokens=False)
    assert any(line.startswith("3 labels, with the share of texts that have each: ") for line in found.reading)
    assert [each for each in found.faults if "copies" not in each] == []


def test_a_label_of_the_test_alone_is_told_and_one_that_a_run_does_not_know_is_named(tmp_path: Path) -> None:
    own, folder = recipe("cnn"), tmp_path / "run"
    parts = prepare(own, source=table()).split
    row = int(parts.rows("test")[0])
    changed = table().column("tags").to_pylist()
    changed[row] = ["unheard"]
    ready = prepare(own, source=table(tags=changed))
    assert any("no row of the training part has the label unheard" in line for line in ready.lines())
    run(own, folder, table=table(), is_quiet=True)
    with pytest.raises(DataError, match="the label 'unheard' is not among") as caught:
        evaluate_run(folder, source=table(tags=changed))
    assert caught.value.row == row


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"is_ordinal": True}, "is for one grade a text"),
        ({"order": ("a", "b")}, "is for one grade a text"),
        ({"separator": ""}, "Give a string such as"),
        ({"is_multi_label": False, "separator": ";"}, "here each text has one"),
    ],
)
def test_settings_that_mean_nothing_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Classification(**{"label": "tags", "is_multi_label": True, **change})
    with pytest.raises(ConfigurationError, match="is for labels, and none is named"):
        task_on_texts(text="text", is_multi_label=True)


@pytest.mark.parametrize("name", ["tfidf", "fasttext"])
def test_baselines_of_one_label_are_refused(name: str) -> None:
    assert name not in baselines_of("multi_label")
    ready = prepare(recipe("cnn"), source=table())
    with pytest.raises(ConfigurationError, match=f"The baseline '{name}' cannot learn these labels"):
        ready.check(replace(ready.recipe, conditioning=name, training={}))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"tags": [["only"]] * ROWS}, r"only the label \['only'\] occurs"),
        ({"tags": [[]] * ROWS}, "no text has a label"),
        ({"tags": [1.5] * ROWS}, "which says no labels"),
        ({"text": [["word1"]] * ROWS}, "lists of words, and several labels are of whole texts"),
    ],
)
def test_a_faulty_table_is_named(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        prepare(recipe("cnn"), source=table(**columns))
