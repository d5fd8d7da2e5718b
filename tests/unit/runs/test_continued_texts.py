"""Runs on texts that go on from another run: with a context, under the same head or another, and without one."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification

from contextual_bert import TextPipeline
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import CheckpointError, ConfigurationError, RunDirectoryError
from contextual_bert.manifest import write_manifest
from contextual_bert.runs import prepare, run
from contextual_bert.runs.text_starts import checkpoint_method
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import Classification, MaskedText, Recipe, SetCompletion, task_on_texts

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
TRAINING = {"num_train_epochs": 1, "learning_rate": 1e-3}
METHODS = ["global_state_update", "multi_attribute", "bert_context_as_text"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Hidden words of a table of texts, with who wrote them."""
    folder = tmp_path_factory.mktemp("texts")
    bert = BertForSequenceClassification(BertConfig(vocab_size=23, num_labels=2, max_position_embeddings=40, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder / "bert")
    numbers = np.random.default_rng(0)
    texts = [" ".join(f"word{number}" for number in numbers.integers(0, 18, size=6)) for _ in range(90)]
    columns = {
        "text": texts,
        "words": [text.split() for text in texts],
        "sex": ["f", "m", "m"] * 30,
        "verdict": ["good", "bad"] * 45,
        "mood": ["aye", "zoo"] * 45,
        "stars": [1, 2, 3, 4, 5] * 18,
        "tags": [["A", "O", "O", "O", "O", "O"]] * 90,
    }
    pq.write_table(pa.table(columns), folder / "texts.parquet")
    task = MaskedText(checkpoint=str(folder / "bert"), max_length=12)
    data: dict[str, Any] = {
        "data": str(folder / "texts.parquet"),
        "validation": 0.2,
        "test": 0.2,
        "exclude": ("words", "verdict", "mood", "stars", "tags"),
    }
    return Recipe(task=task, training=TRAINING, device="cpu", **data)


@pytest.fixture(scope="module")
def corpora(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Method -> a run on hidden words."""
    folder = tmp_path_factory.mktemp("runs")
    for name in [*METHODS, "none"]:
        run(replace(recipe, conditioning=name), folder / name, is_quiet=True)
    return {name: folder / name for name in [*METHODS, "none"]}


def going_on(recipe: Recipe, corpus: Path, **texts: Any) -> Recipe:
    return replace(recipe, task=task_on_texts(checkpoint=str(corpus), **texts), exclude=())


def of_run(corpus: Path) -> ContextSchema:
    return ContextSchema.load(corpus / "schema.json")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("texts", [{}, {"label": "verdict"}], ids=["the same head", "another"])
def test_a_run_goes_on_from_one_with_a_context(
    name: str, texts: dict[str, Any], recipe: Recipe, corpora: dict[str, Path], tmp_path: Path
) -> None:
    assert checkpoint_method(str(corpora[name])) == name
    recipe = replace(going_on(recipe, corpora[name], **texts), conditioning=name)
    ready = prepare(recipe)
    assert ready.processor.schema == of_run(corpora[name])
    assert of_run(corpora[name]).names == ("sex",)  # of all the columns that are no context here
    assert ready.processor.tokenizer.model_max_length == 40  # not the 12 that the corpus was cut to
    model: Any = ready.build_model(recipe)
    ours, theirs = model.state_dict(), load_file(corpora[name] / "model.safetensors")
    shared = [key for key in theirs if not key.startswith("cls.")] if texts else [*theirs]
    assert len(shared) > 10
    assert all(torch.equal(ours[key], theirs[key]) for key in shared)
    run(recipe, tmp_path / "run", prepared=ready, is_quiet=True)
    if texts:
        answer: Any = TextPipeline.from_pretrained(str(tmp_path / "run"))({"text": "word1", "context": {"sex": "f"}})
        assert answer["label"] in ("good", "bad")


def test_a_run_without_a_context_is_gone_on_from_by_any_method(recipe: Recipe, corpora: dict[str, Path]) -> None:
    assert checkpoint_method(str(corpora["none"])) is None
    told = replace(
        going_on(recipe, corpora["none"], label="verdict"), schema=of_run(corpora["multi_attribute"]).to_dict()
    )
    ready = prepare(told)
    for name in METHODS:
        model: Any = ready.build_model(replace(ready.recipe, conditioning=name))
        key = "bert.embeddings.position_embeddings.weight"
        assert torch.equal(model.state_dict()[key], load_file(corpora["none"] / "model.safetensors")[key])


def test_method_and_features_are_those_of_the_run(recipe: Recipe, corpora: dict[str, Path]) -> None:
    recipe = going_on(recipe, corpora["multi_attribute"], label="verdict")
    work = prepare(recipe)
    for name in ("none", "film", "bert_context_as_text", "bert_concat_word"):
        with pytest.raises(
            ConfigurationError, match=rf"conditioning='{name}' differs from 'multi_attribute', with which"
        ):
            work.check(replace(recipe, conditioning=name))
    work.check(replace(recipe, conditioning="ngrams"))
    for field, value in (("num_extra_layers", 3), ("attribute_start", "paper")):
        with pytest.raises(ConfigurationError, match=f"{field}.* cannot change in a model that goes on"):
            work.build_model(replace(recipe, conditioning="multi_attribute", model={field: value}))
    same = {"num_extra_layers": 6, "attribute_start": "ones"}
    built: Any = work.build_model(replace(recipe, conditioning="multi_attribute", model=same))
    assert {name: built.config.value_of(name) for name in same} == same
    other = ContextSchema(features=(Categorical(name="sex", values=("f", "m", "x")),)).to_dict()
    with pytest.raises(ConfigurationError, match="was trained with another schema"):
        prepare(replace(recipe, schema=other))
    scratch = Classification(checkpoint=str(corpora["multi_attribute"]), label="verdict", is_from_scratch=True)
    with pytest.raises(ConfigurationError, match="has a context already, and is_from_scratch"):
        prepare(replace(recipe, task=scratch))


def test_weights_that_are_lost_are_named(recipe: Recipe, corpora: dict[str, Path], tmp_path: Path) -> None:
    folder = corpora["global_state_update"]
    for path in folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(folder / "model.safetensors")
    lost = next(key for key in weights if "context_encoder" in key)
    kept = {key: weight for key, weight in weights.items() if key != lost}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    write_manifest(tmp_path)
    recipe = replace(going_on(recipe, tmp_path, label="verdict"), conditioning="global_state_update")
    with pytest.raises(CheckpointError, match=f"1 weight is missing or of another shape, '{lost}'"):
        prepare(recipe).build_model(recipe)


@pytest.fixture(scope="module")
def labelled(recipe: Recipe, corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labelled") / "run"
    own = going_on(recipe, corpora["global_state_update"], label="verdict")
    run(replace(own, conditioning="global_state_update"), folder, is_quiet=True)
    return folder


@pytest.mark.parametrize(
    ("texts", "is_kept"),
    [
        ({"label": "verdict"}, True),
        ({"label": "mood"}, False),  # as many labels, which mean something else
        ({"label": "stars"}, False),
        ({"label": "stars", "is_ordinal": True}, False),
        ({"text": "words", "label": "tags"}, False),
    ],
)
def test_what_gives_the_labels_is_kept_for_the_same_labels_alone(
    texts: dict[str, Any], is_kept: bool, recipe: Recipe, labelled: Path, tmp_path: Path
) -> None:
    recipe = replace(going_on(recipe, labelled, **texts), conditioning="global_state_update")
    ready = prepare(recipe)
    model: Any = ready.build_model(recipe)
    theirs = load_file(labelled / "model.safetensors")
    ours = model.state_dict()
    head = [key for key in ours if key.startswith("classifier.")]
    assert head
    is_same = all(key in theirs and torch.equal(ours[key], theirs[key]) for key in head)
    assert is_same == is_kept
    body = [key for key in theirs if not key.startswith(("classifier.", "bert.pooler."))]
    assert all(torch.equal(ours[key], theirs[key]) for key in body)
    run(recipe, tmp_path / "again", prepared=ready, is_quiet=True)
    plain = replace(going_on(recipe, tmp_path / "again", label="verdict"), conditioning="global_state_update")
    again: Any = prepare(plain).build_model(plain)
    assert (again.config.is_ordinal, again.config.num_labels) == (False, 2)


def test_weights_are_trained_in_full_precision(recipe: Recipe, labelled: Path, tmp_path: Path) -> None:
    shutil.copytree(labelled, tmp_path / "half")
    weights = {key: weight.half() for key, weight in load_file(labelled / "model.safetensors").items()}
    save_file(weights, tmp_path / "half" / "model.safetensors", metadata={"format": "pt"})
    write_manifest(tmp_path / "half")
    recipe = replace(going_on(recipe, tmp_path / "half", label="verdict"), conditioning="global_state_update")
    model = prepare(recipe).build_model(recipe)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_what_is_learned_is_no_context(recipe: Recipe, tmp_path: Path) -> None:
    leaking = replace(recipe, exclude=("words", "mood", "stars", "tags"), conditioning="film")
    run(leaking, tmp_path / "corpus", is_quiet=True)
    with pytest.raises(ConfigurationError, match=r"reads 'verdict' as context.*--exclude verdict"):
        prepare(going_on(recipe, tmp_path / "corpus", label="verdict"))
    with pytest.raises(ConfigurationError, match=r"exclude=\('mood',\).*brings the features"):
        prepare(replace(going_on(recipe, tmp_path / "corpus", label="stars"), exclude=("mood",)))


def test_rows_that_the_first_run_was_trained_on_are_said(recipe: Recipe, labelled: Path) -> None:
    own = going_on(recipe, labelled, label="verdict")
    assert not any("was trained on" in line for line in prepare(own).lines())
    (said,) = (line for line in prepare(replace(own, split_seed=7)).lines() if "was trained on" in line)
    assert said.endswith(f"rows of the test part. Give its split: --split {labelled / 'split.json'}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sets", "is a run on sets of items"),
        ("ngrams", "is a run of a baseline, which has no BERT"),
        ("interrupted", "holds an interrupted run"),
        ("weightless", "its weights cannot be loaded"),
        ("wordless", "its processor cannot be read"),
        ("file", r"config.json is a file\. Give its folder"),
    ],
)
def test_what_cannot_be_gone_on_from_is_named(
    name: str, message: str, recipe: Recipe, labelled: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    if name == "sets":
        pq.write_table(pa.table({"items": [["a", "b"], ["b", "c"], ["a", "c"]] * 20}), tmp_path / "sets.parquet")
        sets = Recipe(
            data=str(tmp_path / "sets.parquet"), task=SetCompletion(items="items"), conditioning="none", device="cpu"
        )
        run(replace(sets, training={"num_train_epochs": 1}, model=SIZES), folder, is_quiet=True)
    elif name == "ngrams":
        own = replace(recipe, task=Classification(checkpoint=recipe.text_task.checkpoint, label="verdict"))
        run(replace(own, conditioning="ngrams", exclude=(), training={"num_train_epochs": 1}), folder, is_quiet=True)
    else:
        shutil.copytree(labelled, folder)
    lost = {"weightless": ["model.safetensors"], "wordless": ["tokenizer.json", "tokenizer_config.json"]}
    lost["interrupted"] = ["metrics.json", "config.json", "model.safetensors"]
    for each in lost.get(name, []):
        (folder / each).unlink()
    if name in lost:
        (folder / "manifest.json").unlink()
    corpus = folder / "config.json" if name == "file" else folder
    with pytest.raises((CheckpointError, RunDirectoryError), match=message):
        own = replace(going_on(recipe, corpus, label="verdict"), conditioning="global_state_update")
        prepare(own).build_model(own)
