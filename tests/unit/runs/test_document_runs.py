"""Runs on texts that are longer than their checkpoint reads: trained, saved, asked, gone on from, and refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import TextPipeline
from contextual_bert.errors import ConfigurationError
from contextual_bert.runs import prepare, run
from contextual_bert.runs.evaluation import evaluate_run
from contextual_bert.runs.model_inspection import inspect_model
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Classification, Recipe, task_on_texts
from contextual_bert.training.tasks import LONGEST_DOCUMENT

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
NUM_POSITIONS = 10


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Long texts whose last word says the label, for a BERT of ten positions."""
    folder = tmp_path_factory.mktemp("documents")
    sizes = {**SIZES, "max_position_embeddings": NUM_POSITIONS}
    miniature_checkpoint(
        drawn_anew(BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, **sizes))), folder / "bert"
    )
    numbers = np.random.default_rng(0)
    verdicts = ["good", "bad"] * 60
    texts = [
        " ".join([*(f"word{n}" for n in numbers.integers(0, 16, size=size)), "word16" if v == "good" else "word17"])
        for v, size in zip(verdicts, numbers.integers(1, 30, size=120), strict=True)
    ]
    columns = {"text": texts, "sex": ["f", "m", "m"] * 40, "verdict": verdicts, "words": [t.split() for t in texts]}
    columns["tags"] = [["A", *["O"] * (len(words) - 1)] for words in columns["words"]]
    pq.write_table(pa.table(columns), folder / "texts.parquet")
    task = Classification(label="verdict", checkpoint=str(folder / "bert"), long_documents=True)
    training = {"num_train_epochs": 12, "learning_rate": 5e-3, "per_device_train_batch_size": 8}
    data: dict[str, Any] = {"data": str(folder / "texts.parquet"), "exclude": ("words", "tags")}
    return Recipe(task=task, validation=0.2, test=0.2, training=training, device="cpu", **data)


@pytest.fixture(scope="module")
def trained(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run") / "run"
    run(replace(recipe, conditioning="global_state_update"), directory, is_quiet=True)
    return directory


def test_the_end_of_a_long_text_is_learned(trained: Path) -> None:
    pipeline = TextPipeline.from_pretrained(trained)
    assert pipeline.max_length == LONGEST_DOCUMENT
    assert pipeline.model.config.segment_length == NUM_POSITIONS
    for word, verdict in (("word16", "good"), ("word17", "bad")):
        text = " ".join([*["word3"] * 25, word])
        answer: Any = pipeline({"text": text, "context": {"sex": "f"}})
        assert answer["label"] == verdict
        assert not any("longer than the model reads" in note for note in answer["notes"])


def test_a_run_is_evaluated_as_it_was_trained(trained: Path) -> None:
    scores = evaluate_run(trained, part="test").scores
    assert (scores.num_better == 0).mean() > 0.8


def test_a_run_is_gone_on_from_with_its_segments(recipe: Recipe, trained: Path) -> None:
    task = Classification(label="verdict", checkpoint=str(trained), long_documents=True)
    going_on = replace(recipe, task=task, conditioning="global_state_update", exclude=())
    ready = prepare(going_on)
    assert ready.processor.tokenizer.model_max_length == LONGEST_DOCUMENT
    model: Any = ready.build_model(going_on)
    assert model.config.segment_length == NUM_POSITIONS


def test_max_length_is_of_the_whole_text(recipe: Recipe) -> None:
    ready = prepare(replace(recipe, task=replace(recipe.task, max_length=15)))
    assert max(int(each.sizes.max()) for each in ready.datasets.values()) == 15


def test_a_text_can_be_read_in_segments_without_more_positions(recipe: Recipe) -> None:
    own = replace(recipe, task=replace(recipe.task, long_documents=False), model={"segment_length": 5})
    model: Any = prepare(own).build_model(own)
    assert model.config.segment_length == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": {"segment_length": 99}}, "segment_length=99 is not allowed"),
        ({"conditioning": "bert_context_as_text"}, "'bert_context_as_text' reads with a BERT what its positions allow"),
        ({"conditioning": "bert_concat_word"}, "'bert_concat_word' reads with a BERT"),
        ({"conditioning": "embeddings", "training": {}}, "'embeddings' reads with a BERT"),
    ],
)
def test_what_cannot_read_so_far_is_refused(fields: dict[str, Any], message: str, recipe: Recipe) -> None:
    own = replace(recipe, **fields)
    with pytest.raises(ConfigurationError, match=message):
        prepare(own).build_model(own)


@pytest.mark.parametrize("name", ["cnn", "nsc_la", "tfidf"])
def test_baselines_without_a_bert_read_the_whole_text(name: str, recipe: Recipe) -> None:
    own = replace(recipe, conditioning=name, training={})
    ready = prepare(own)
    assert max(int(each.sizes.max()) for each in ready.datasets.values()) > NUM_POSITIONS
    ready.build_model(own)


def test_without_it_the_error_names_it(recipe: Recipe) -> None:
    own = replace(recipe, task=replace(recipe.task, long_documents=False, max_length=30))
    with pytest.raises(ConfigurationError, match="or read it in segments: long_documents=True"):
        prepare(own).build_model(own)


def test_pairs_tags_and_tasks_without_labels_are_refused(recipe: Recipe) -> None:
    with pytest.raises(ConfigurationError, match="long_documents=True is for single texts"):
        replace(recipe.task, pair="sex")
    with pytest.raises(ConfigurationError, match="long_documents=True is for one label a text"):
        prepare(replace(recipe, task=replace(recipe.task, text="words", label="tags"), exclude=()))
    with pytest.raises(ConfigurationError, match="long_documents=True is for labels, and none is named"):
        task_on_texts(checkpoint=recipe.task.checkpoint, long_documents=True)


def test_a_look_inside_is_refused(trained: Path) -> None:
    with pytest.raises(ConfigurationError, match="reads a text in segments, each of which has states"):
        inspect_model(trained, {"text": "word1", "context": {"sex": "f"}})
