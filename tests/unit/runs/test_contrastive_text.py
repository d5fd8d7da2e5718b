"""Runs of vectors: from a table to ranks of documents and to vectors; methods, baselines, controls, faulty tables."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import BertConfig, BertModel

from contextual_bert.conditioning import METHODS
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import SetPredictions
from contextual_bert.inference import EmbeddingPipeline
from contextual_bert.runs import evaluate_run, prepare, run
from contextual_bert.runs.run_directory import SCORES_FILE, load_scores
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.training import ContrastiveText, Recipe, task_on_texts

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
CITIES = ("oslo", "rome", "kyiv")
TRAINING = {"max_steps": 120, "per_device_train_batch_size": 32, "learning_rate": 5e-3}


def table_of(folder: Path, *, changes: dict[int, str] | None = None, size: int = 300) -> Path:
    """Which document is right depends on what is asked and on who asks."""
    numbers = np.random.default_rng(0)
    things, cities = numbers.integers(0, 8, size), numbers.choice(CITIES, size).tolist()
    documents: list[Any] = [f"word{thing} {city}" for thing, city in zip(things, cities, strict=True)]
    for row, text in (changes or {}).items():
        documents[row] = text
    columns = {"query": [f"word{thing} word9" for thing in things], "document": documents, "city": cities}
    path = folder / "pairs.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def recipe(table: Path, **fields: Any) -> Recipe:
    task = {"text": "query", "pair": "document", "objective": "contrastive", "vocab_size": 300}
    task |= fields.pop("task", {})
    given = {"model": SIZES, "training": TRAINING, **fields}
    return Recipe(data=str(table), task=task_on_texts(**task), **given)


def metrics_of(folder: Path, part: str = "test") -> dict[str, float]:
    found = json.loads((folder / "metrics.json").read_text("utf-8"))[part]["metrics"]
    return {name: each["value"] for name, each in found.items()}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_of(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    run(recipe(table, conditioning="global_state_update"), folder, is_quiet=True)
    return folder


def test_a_run_finds_the_document_of_who_asks(trained: Path, table: Path) -> None:
    found = metrics_of(trained)
    assert found["recall_at_1_percent"] > 90
    assert found["recall_at_10_percent"] >= found["set_ndcg_at_10_percent"] >= found["recall_at_1_percent"]
    pipeline = EmbeddingPipeline.from_pretrained(trained)
    documents = [f"word{thing} {city}" for thing in range(8) for city in CITIES]
    asked = pipeline.encode(["word3 word9"] * 3, [{"city": city} for city in CITIES])
    best = (asked @ pipeline.encode(documents).T).argmax(axis=1)
    assert [documents[number] for number in best] == [f"word3 {city}" for city in CITIES]


def test_scores_are_those_of_the_vectors_among_the_documents_of_the_part(trained: Path, table: Path) -> None:
    """Each row again, by the pipeline alone."""
    scores = load_scores(trained / SCORES_FILE)[0]
    assert isinstance(scores.predictions, SetPredictions) and set(scores.predictions.set_size) == {1}
    rows = pq.read_table(table).take(pa.array(scores.example_id)).to_pydict()
    pipeline = EmbeddingPipeline.from_pretrained(trained)
    documents = sorted({*rows["document"]})
    queries = pipeline.encode(rows["query"], [{"city": city} for city in rows["city"]])
    logits = queries.astype(np.float64) @ pipeline.encode(documents).astype(np.float64).T / 0.05
    own = np.array([documents.index(each) for each in rows["document"]])
    right = logits[np.arange(len(own)), own]
    wanted = right - np.log(np.exp(logits).sum(axis=1))
    assert scores.log_probability == pytest.approx(wanted, abs=1e-4)
    assert np.array_equal(scores.num_better, (logits > right[:, None] + 1e-5).sum(axis=1))
    assert scores.num_better.max() < len(documents)


def test_an_evaluation_gives_the_same_digits_and_the_shuffled_control_none_of_the_gain(
    trained: Path, table: Path, tmp_path: Path
) -> None:
    again = evaluate_run(trained, part="test")
    own = json.loads(again.report.to_json())["metrics"]
    assert own == json.loads((trained / "metrics.json").read_text("utf-8"))["test"]["metrics"]
    assert any("different documents: " in line and " in test" in line for line in again.lines)
    control = recipe(table, conditioning="global_state_update", is_context_shuffled=True)
    run(control, tmp_path / "control", is_quiet=True)
    assert metrics_of(tmp_path / "control")["recall_at_1_percent"] < 60


def test_an_epoch_is_chosen_by_what_the_report_says(table: Path, tmp_path: Path) -> None:
    training = {"num_train_epochs": 2, "learning_rate": 5e-3, "metric_for_best_model": "set_ndcg_at_10_percent"}
    run(recipe(table, conditioning="film", training=training), tmp_path / "run", is_quiet=True)
    state = json.loads(next((tmp_path / "run" / "checkpoints").glob("*/trainer_state.json")).read_text("utf-8"))
    logged = [each for each in state["log_history"] if "eval_loss" in each]
    best = max(logged, key=lambda each: each["eval_set_ndcg_at_10_percent"])
    found = metrics_of(tmp_path / "run", "validation")
    for name in ("set_ndcg_at_10_percent", "recall_at_10_percent", "cross_entropy_nats"):
        assert best[f"eval_{name}"] == pytest.approx(found[name], abs=1e-4)


def test_baselines_rank_the_same_documents(table: Path, tmp_path: Path) -> None:
    found: dict[str, dict[str, float]] = {}
    for name in ("popularity", "context_popularity", "tfidf"):
        run(recipe(table, conditioning=name, model={}, training={}), tmp_path / name, is_quiet=True)
        found[name] = metrics_of(tmp_path / name)
        assert not (tmp_path / name / "model.safetensors").exists()
    assert 20 < found["tfidf"]["recall_at_1_percent"] < 50  # one of the three documents with the word that is asked
    assert found["popularity"]["recall_at_1_percent"] < 20
    assert found["context_popularity"]["cross_entropy_nats"] < found["popularity"]["cross_entropy_nats"] - 0.5
    chosen = json.loads((tmp_path / "tfidf" / "recipe.json").read_text("utf-8"))["resolved"]["training"]
    assert chosen["temperature"] < 1


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    miniature_checkpoint(BertModel(BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES)), folder)
    return folder


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the words that the checkpoint knows."""
    path = tmp_path_factory.mktemp("words") / "pairs.parquet"
    numbers = np.random.default_rng(1)
    things, cities = numbers.integers(0, 6, 160), numbers.integers(10, 12, 160)
    queries, documents = (
        [f"word{each} word9" for each in things],
        [f"word{thing} word{city}" for thing, city in zip(things, cities, strict=True)],
    )
    pq.write_table(
        pa.table({"query": queries, "document": documents, "city": [f"word{city}" for city in cities]}), path
    )
    return path


def started(words: Path, bert: Path, method: str, **fields: Any) -> Recipe:
    training = {"max_steps": 3, **fields.pop("training", {})}
    task = {"checkpoint": str(bert), "max_length": 8, "vocab_size": None, **fields.pop("task", {})}
    return recipe(words, conditioning=method, task=task, model={}, training=training, **fields)


@pytest.mark.parametrize("method", [*METHODS, "bert_context_as_text"])
def test_every_method_starts_from_a_checkpoint(method: str, bert: Path, words: Path, tmp_path: Path) -> None:
    run(started(words, bert, method), tmp_path / "run", is_quiet=True)
    pipeline = EmbeddingPipeline.from_pretrained(tmp_path / "run")
    assert pipeline.model.config.classifier_pooling == "mean"
    reads = method != "none"
    contexts = [{"city": "word10"}, {"city": "word11"}] if reads else None
    found = pipeline.encode(["word1 word9"] * 2, contexts)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(found[0], found[1]) == (not reads)
    assert evaluate_run(tmp_path / "run", part="test").report.metrics


def test_a_run_goes_on_with_its_pooling_and_method(bert: Path, words: Path, tmp_path: Path) -> None:
    first = started(words, bert, "film", task={"temperature": 0.1})
    run(replace(first, model={"classifier_pooling": "first"}), tmp_path / "first", is_quiet=True)
    assert EmbeddingPipeline.from_pretrained(tmp_path / "first").model.config.similarity_temperature == 0.1
    run(started(words, tmp_path / "first", "film"), tmp_path / "second", is_quiet=True)
    config = EmbeddingPipeline.from_pretrained(tmp_path / "second").model.config
    assert (config.classifier_pooling, config.similarity_temperature) == ("first", 0.05)


@pytest.mark.parametrize("trained_weights", ["new", "lora"])
def test_parts_of_a_checkpoint_are_trained(trained_weights: str, bert: Path, words: Path, tmp_path: Path) -> None:
    asked = started(words, bert, "concat", trained_weights=trained_weights, training={"learning_rate": 1e-2})
    run(asked, tmp_path / "run", is_quiet=True)
    assert EmbeddingPipeline.from_pretrained(tmp_path / "run").encode(["word1"]).shape == (1, 32)


def test_nothing_to_train_is_refused(bert: Path, words: Path) -> None:
    ready = prepare(started(words, bert, "none", trained_weights="new"))
    with pytest.raises(ConfigurationError, match=r"trained_weights='new' trains what a BERT lacks"):
        ready.check(ready.recipe)


@pytest.mark.parametrize("fault", ["", "  \n"])
def test_an_empty_document_is_named_by_row_and_column(fault: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the document is empty \(1 such row\)") as error:
        prepare(recipe(table_of(tmp_path, changes={7: fault}), conditioning="none"))
    assert (error.value.row, error.value.column) == (7, "document")


def test_documents_of_another_type_and_missing_ones_are_named(tmp_path: Path) -> None:
    table = pq.read_table(table_of(tmp_path))
    for values, said in (([*range(299), None], "missing"), ([["a"]] * 300, "of type list")):
        path = tmp_path / "other.parquet"
        pq.write_table(table.set_column(1, "document", pa.array(values)), path)
        with pytest.raises(DataError, match=said) as error:
            prepare(recipe(path, conditioning="none"))
        assert error.value.column == "document"


def test_a_part_with_one_document_is_refused(tmp_path: Path) -> None:
    path = table_of(tmp_path, changes=dict.fromkeys(range(300), "word1 oslo"))
    ready = prepare(recipe(path, conditioning="none"))
    with pytest.raises(DataError, match=r"the train part has one document for 2\d\d texts") as error:
        ready.check(ready.recipe)
    assert error.value.column == "document"


def test_what_was_read_is_said(table: Path) -> None:
    ready = prepare(recipe(table, conditioning="none", task={"max_length": 4}))
    lines = ready.lines()
    assert any(line.startswith("different documents: 24 in train, ") for line in lines)
    assert any("documents are cut to 4 tokens" in line for line in lines)
    assert any(line.startswith("no checkpoint: all weights are new") for line in lines)


def test_settings_of_other_tasks_are_refused() -> None:
    assert isinstance(task_on_texts(text="a", pair="b", objective="contrastive"), ContrastiveText)
    with pytest.raises(ConfigurationError, match="pair is missing"):
        task_on_texts(text="a", objective="contrastive")
    with pytest.raises(ConfigurationError, match="objective='contrastive'"):
        task_on_texts(text="a", pair="b", checkpoint="bert")
    for other in ({"label": "c"}, {"target": "c"}, {"mask_rate": 0.3}, {"phrases": "c"}, {"pair": "a"}):
        with pytest.raises(ConfigurationError):
            task_on_texts(**{"text": "a", "pair": "b", "objective": "contrastive", **other})
    for temperature in (0.0, -0.1, float("nan")):
        with pytest.raises(ConfigurationError, match="temperature"):
            ContrastiveText(text="a", pair="b", temperature=temperature)
    with pytest.raises(ConfigurationError, match=r"temperature.*texts and documents"):
        task_on_texts(text="a", label="b", checkpoint="bert", temperature=0.1)
