"""Runs that train low-rank changes: the same directory as any other run, with the changes in its weights."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM, TrainerState

from contextual_bert import ContextualBertForSequenceClassification, TextPipeline
from contextual_bert.errors import ConfigurationError
from contextual_bert.runs import Task, evaluate_run, prepare, run, runner
from contextual_bert.runs.registry import check_study
from contextual_bert.runs.run_directory import best_weights, is_trained, last_checkpoint, load_run
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import (
    Classification,
    ContextualBertTrainer,
    MaskedText,
    Recipe,
    SetCompletion,
    training_arguments,
)

pytest.importorskip("peft")

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
DROPOUT = {"context_dropout": 0.2, "field_dropout": 0.1}
TRAINING = {"num_train_epochs": 3, "per_device_train_batch_size": 16, "learning_rate": 1e-2, **DROPOUT}
STEPS_PER_EPOCH = 6
LORA = {"trained_weights": "lora", "lora": {"rank": 2, "alpha": 4, "dropout": 0.1}}
METHODS = ("none", "global_state_update", "multi_attribute")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    bert = BertForMaskedLM(BertConfig(vocab_size=23, max_position_embeddings=16, **SIZES))
    miniature_checkpoint(drawn_anew(bert), folder)
    return folder


@pytest.fixture(scope="module")
def base(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    numbers = np.random.default_rng(0)
    texts = [[f"word{number}" for number in numbers.integers(0, 18, size=5)] for _ in range(160)]
    sex = numbers.choice(["f", "m"], size=160).tolist()
    is_first = [int(row[0][4:]) < 9 for row in texts]
    columns = {
        "text": [" ".join(row) for row in texts],
        "sex": sex,
        "verdict": ["good" if first == (who == "f") else "bad" for first, who in zip(is_first, sex, strict=True)],
    }
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    pq.write_table(pa.table(columns), path)
    return Recipe(
        data=str(path),
        task=Classification(checkpoint=str(checkpoint), label="verdict"),
        validation=0.2,
        test=0.2,
        training=TRAINING,
        device="cpu",
        **LORA,
    )


@pytest.fixture(scope="module")
def ready(base: Recipe) -> Task:
    return prepare(base)


@pytest.fixture(scope="module", params=METHODS)
def finished(
    request: pytest.FixtureRequest, base: Recipe, ready: Task, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Recipe, Path]:
    recipe, folder = replace(base, conditioning=request.param), tmp_path_factory.mktemp("finished") / "run"
    run(recipe, folder, prepared=ready, is_quiet=True)
    return recipe, folder


def metrics_of(directory: Path) -> dict[str, Any]:
    metrics = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))
    return {part: metrics[part]["metrics"] for part in ("validation", "test")}


def assert_same(left: Path, right: Path) -> None:
    assert metrics_of(left) == metrics_of(right)
    ours, theirs = (load_file(each / "model.safetensors") for each in (left, right))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def test_a_run_holds_an_ordinary_model(finished: tuple[Recipe, Path]) -> None:
    _, folder = finished
    metrics = metrics_of(folder)
    for part in ("validation", "test"):
        assert json.loads(evaluate_run(folder, part=part).report.to_json())["metrics"] == metrics[part]
    answer: Any = TextPipeline.from_pretrained(folder)({"text": "word1 word2", "context": {"sex": "f"}})
    assert answer["label"] in ("good", "bad")
    model = ContextualBertForSequenceClassification.from_pretrained(folder)
    names = set(load_file(folder / "model.safetensors"))
    assert names == set(model.state_dict())
    assert not any("lora" in name or "modules_to_save" in name for name in names)
    assert (model.config.context_dropout, model.config.field_dropout) == (0.2, 0.1)
    assert load_run(folder, name="x").cost.parameters == sum(weight.numel() for weight in model.parameters())
    assert (Recipe.load(folder).trained_weights, Recipe.load(folder).lora) == ("lora", LORA["lora"])
    assert not (folder / "adapter_config.json").exists()


def test_of_bert_queries_and_values_alone_have_changed(
    finished: tuple[Recipe, Path], ready: Any, checkpoint: Path
) -> None:
    recipe, folder = finished
    trained, bert = load_file(folder / "model.safetensors"), load_file(checkpoint / "model.safetensors")
    start: Any = ready.build_model(replace(recipe, trained_weights="all", lora={}))
    begun = start.state_dict()
    shared = [name for name in bert if name in trained]
    # Method 'global_state_update' moves a LayerNorm's scale to its own when it starts: what it starts with counts.
    moved = [name for name in shared if not torch.equal(trained[name], begun[name])]
    layers = range(SIZES["num_hidden_layers"])
    both = [
        f"bert.encoder.layer.{layer}.attention.self.{name}.weight" for layer in layers for name in ("query", "value")
    ]
    assert sorted(moved) == sorted(both)
    assert len(shared) > 30
    for name in both:
        assert torch.linalg.matrix_rank(trained[name] - begun[name], rtol=1e-3) == 2
    new = {name for name in trained if name not in bert and not torch.equal(trained[name], begun[name])}
    assert {"classifier.weight", "bert.pooler.dense.weight"} <= new
    assert recipe.conditioning == "none" or any("conditioning." in name for name in new)
    assert recipe.conditioning == "none" or any("context_encoder." in name for name in new)


def test_what_is_merged_computes_what_was_trained(ready: Any, base: Recipe, tmp_path: Path) -> None:
    work, recipe = ready, replace(base, conditioning="multi_attribute")
    model: Any = work.build_model(recipe)
    arguments = training_arguments(tmp_path, device="cpu", **{**TRAINING, "num_train_epochs": 1})
    work.make_trainer(recipe, model, arguments, callbacks=[]).train()
    batch = ready.datasets["test"].__getitems__(list(range(8))).inputs()
    batch.pop("labels")
    with torch.no_grad():
        before = model.eval()(**batch).logits
        merged = work.finished(recipe, model).eval()
        torch.testing.assert_close(merged(**batch).logits, before, rtol=1e-4, atol=1e-5)
    assert isinstance(merged, ContextualBertForSequenceClassification)


def interrupting(step: int) -> Callable[..., None]:
    def on_step_begin(self: object, args: object, state: TrainerState, control: object, **_: Any) -> None:
        if state.global_step == step:
            raise KeyboardInterrupt

    return on_step_begin


def test_an_interrupted_run_goes_on_to_the_same_digits(
    finished: tuple[Recipe, Path], ready: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, folder = finished
    step = STEPS_PER_EPOCH + 3
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("contextual_bert.training.MaskEpoch.on_step_begin", interrupting(step))
        run(recipe, tmp_path, prepared=ready, is_quiet=True)
    checkpoint = last_checkpoint(tmp_path)
    assert checkpoint is not None and checkpoint.name == f"checkpoint-{STEPS_PER_EPOCH}"
    other = replace(recipe, lora={"rank": 4})
    with pytest.raises(ConfigurationError, match=r"lora.rank: 2 there, 4 here"):
        run(other, tmp_path, prepared=ready, is_resumed=True, is_quiet=True)
    run(recipe, tmp_path, prepared=ready, is_resumed=True, is_quiet=True)
    assert_same(tmp_path, folder)


def test_a_run_interrupted_while_scoring_is_not_trained_further(
    ready: Task, base: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So high a learning rate that the best epoch is not the last.
    training = {**TRAINING, "num_train_epochs": 10, "learning_rate": 0.03, "lr_scheduler_type": "constant"}
    recipe = replace(base, conditioning="global_state_update", training=training)
    run(recipe, tmp_path / "whole", prepared=ready, is_quiet=True)
    output = tmp_path / "cut"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(runner, "write_run", interrupted)
        run(recipe, output, prepared=ready, is_quiet=True)
    checkpoint = last_checkpoint(output)
    assert checkpoint is not None
    assert is_trained(checkpoint)
    assert best_weights(checkpoint).parent != checkpoint
    monkeypatch.setattr(ContextualBertTrainer, "train", lambda *_, **__: pytest.fail("trained again"))
    run(recipe, output, prepared=ready, is_resumed=True, is_quiet=True)
    assert_same(output, tmp_path / "whole")


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_new_weights_can_have_a_rate_of_their_own(ready: Any, base: Recipe, tmp_path: Path) -> None:
    work, recipe = ready, replace(base, conditioning="global_state_update")
    arguments = training_arguments(tmp_path, device="cpu", new_weights_learning_rate=0.5, learning_rate=0.25)
    trainer: Any = work.make_trainer(recipe, work.build_model(recipe), arguments, callbacks=[])
    optimizer = trainer.create_optimizer()
    rates = {id(weight): group["lr"] for group in optimizer.param_groups for weight in group["params"]}
    found = {name: rates[id(weight)] for name, weight in trainer.model.named_parameters() if id(weight) in rates}
    assert {rate for name, rate in found.items() if "lora_" in name} == {0.25}
    assert {rate for name, rate in found.items() if "lora_" not in name} == {0.5}
    assert any("classifier" in name for name in found)


def test_hidden_words_are_learned_with_lora(base: Recipe, checkpoint: Path, tmp_path: Path) -> None:
    texts = MaskedText(checkpoint=str(checkpoint))
    recipe = replace(base, task=texts, exclude=("verdict",), conditioning="film")
    run(recipe, tmp_path, is_quiet=True)
    metrics = metrics_of(tmp_path)
    assert json.loads(evaluate_run(tmp_path, part="test").report.to_json())["metrics"] == metrics["test"]
    trained, bert = load_file(tmp_path / "model.safetensors"), load_file(checkpoint / "model.safetensors")
    name = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(trained[name], bert[name])
    assert not torch.equal(trained["cls.predictions.bias"], bert["cls.predictions.bias"])


def test_it_is_refused_before_anything_is_read(base: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = replace(base, data=str(tmp_path / "absent.parquet"))
    for name in ("bilstm", "bert_concat_text"):
        with pytest.raises(ConfigurationError, match=f"'{name}' is a baseline, which trains all that is its own"):
            run(replace(absent, conditioning=name), tmp_path / "run")
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigurationError, match="LoRA needs peft"):
        run(absent, tmp_path / "run")
    with pytest.raises(ConfigurationError, match="LoRA needs peft"):
        check_study([absent], reference=absent.label)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trained_weights": "lroa"}, "'lroa' is unknown. Did you mean 'lora'"),
        ({"trained_weights": "new"}, "needs trained_weights='lora'"),
        ({"lora": {"alhpa": 3}}, "Did you mean 'alpha'"),
        ({"lora": {"rank": 0}}, "rank=0"),
        ({"task": MaskedText(checkpoint="bert", is_from_scratch=True)}, "with is_from_scratch"),
        ({"task": SetCompletion(items="items")}, "is for texts"),
    ],
)
def test_what_no_recipe_can_ask_for(base: Recipe, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        replace(base, **change)
