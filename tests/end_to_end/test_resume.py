"""A training that is interrupted and resumed ends with the same weights, bit for bit, as one that is not (on CPU)."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments, set_seed

from contextual_bert.errors import ConfigurationError
from contextual_bert.manifest import write_manifest
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.runs import SetCompletionTask, run
from contextual_bert.runs.run_directory import best_weights, is_trained, last_checkpoint
from contextual_bert.training import ContextualBertTrainer, MaskEpoch, Recipe, training_arguments

STEPS_PER_EPOCH, SAVE_STEPS = 6, 2
DROPOUT = {"context_dropout": 0.2, "field_dropout": 0.2}  # a function of the epoch, which a resume begins in the middle
BY_STEPS = {"eval_strategy": "no", "load_best_model_at_end": False, "save_strategy": "steps", "save_steps": SAVE_STEPS}


class Interruption(TrainerCallback):
    """Ctrl-C after so many steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt


def trainer_in(folder: Path, data: SetCompletionTask, *callbacks: TrainerCallback) -> ContextualBertTrainer:
    settings = {"num_train_epochs": 3, "per_device_train_batch_size": 32, "masks_per_set": 2, **DROPOUT, **BY_STEPS}
    arguments = training_arguments(folder / "checkpoints", device="cpu", seed=3, disable_tqdm=True, **settings)
    set_seed(3)
    config = ContextualBertConfig.from_schema(
        data.processor.schema,
        conditioning="global_state_update",
        vocab_size=len(data.processor.items),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    assert config.hidden_dropout_prob > 0
    return ContextualBertTrainer(
        ContextualBertForMaskedLM(config),
        arguments,
        train_dataset=data.datasets["train"],
        processor=data.processor,
        callbacks=list(callbacks),
    )


@pytest.fixture(scope="module")
def uninterrupted(tiny_data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    trainer = trainer_in(tmp_path_factory.mktemp("whole"), tiny_data)
    trainer.train()
    assert trainer.state.max_steps == 3 * STEPS_PER_EPOCH
    return {name: weight.clone() for name, weight in trainer.model.state_dict().items()}


def assert_same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


@pytest.mark.parametrize(
    ("interrupted_at", "resumed_from"),
    [(5, 4), (STEPS_PER_EPOCH, STEPS_PER_EPOCH), (11, 10), (17, 16)],
    ids=["first-epoch", "epoch-end", "second-epoch", "last-epoch"],
)
def test_the_weights_are_those_of_an_uninterrupted_training(
    tiny_data: SetCompletionTask,
    uninterrupted: dict[str, torch.Tensor],
    tmp_path: Path,
    interrupted_at: int,
    resumed_from: int,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        trainer_in(tmp_path, tiny_data, Interruption(interrupted_at)).train()
    checkpoint = last_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.name == f"checkpoint-{resumed_from}"
    resumed = trainer_in(tmp_path, tiny_data)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert_same(resumed.model.state_dict(), uninterrupted)


def test_another_seed_gives_other_weights(
    tiny_data: SetCompletionTask, uninterrupted: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    trainer = trainer_in(tmp_path, tiny_data)
    trainer.data_collator.seed = 4  # pyright: ignore[reportFunctionMemberAccess]
    trainer.train()
    name = "bert.embeddings.word_embeddings.weight"
    assert not torch.equal(trainer.model.state_dict()[name], uninterrupted[name])


def whole_checkpoint(folder: Path, step: int) -> Path:
    path = folder / "checkpoints" / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


@pytest.mark.parametrize("content", [None, "", '{"global_step": 1', "[]", "null", "{}"])
def test_a_half_written_checkpoint_is_passed_over(tmp_path: Path, content: str | None) -> None:
    whole = whole_checkpoint(tmp_path, 9)
    half = whole_checkpoint(tmp_path, 10)
    state = half / "trainer_state.json"
    state.unlink() if content is None else state.write_text(content)
    assert last_checkpoint(tmp_path) == whole


def test_without_a_whole_checkpoint_there_is_none(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    (whole_checkpoint(tmp_path, 10) / "trainer_state.json").unlink()
    assert last_checkpoint(tmp_path) is None


def interrupting(step: int) -> Callable[..., None]:
    def on_step_begin(self: object, args: object, state: TrainerState, control: object, **_: Any) -> None:
        if state.global_step == step:
            raise KeyboardInterrupt

    return on_step_begin


def stopping_early(recipe: Recipe) -> Recipe:
    """So high a learning rate that validation soon gets worse; from nothing, so that it gets better before."""
    own = {"num_train_epochs": 12, "learning_rate": 0.1, "warmup_steps": 0, "weight_decay": 0.01, "masks_per_set": 1}
    training = {**recipe.training, **own}
    return replace(recipe, training=training, patience=2, conditioning="none", item_vectors="random")


def numbers(directory: Path) -> dict[str, Any]:
    metrics = json.loads((directory / "metrics.json").read_text())
    return {part: metrics[part]["metrics"] for part in ("validation", "test")}


def steps_of(directory: Path) -> str:
    checkpoint = last_checkpoint(directory)
    assert checkpoint is not None
    return checkpoint.name


def best_step(directory: Path) -> int:
    checkpoint = last_checkpoint(directory)
    assert checkpoint is not None
    return int(best_weights(checkpoint).parent.name.rpartition("-")[2])


@pytest.fixture(scope="module")
def early_run(tiny_data: SetCompletionTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("early") / "run"
    run(stopping_early(tiny_data.recipe), output, prepared=tiny_data, is_quiet=True)
    return output


def test_training_stops_early_and_the_run_holds_the_best_weights(early_run: Path) -> None:
    checkpoint = last_checkpoint(early_run)
    assert checkpoint is not None
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    losses = {log["step"]: log["eval_cross_entropy_nats"] for log in state["log_history"] if "eval_loss" in log}
    best = min(losses, key=losses.__getitem__)
    assert state["global_step"] == best + 2 * STEPS_PER_EPOCH < state["max_steps"]
    assert state["best_global_step"] == best
    saved = load_file(early_run / "model.safetensors")
    assert_same(saved, load_file(checkpoint.with_name(f"checkpoint-{best}") / "model.safetensors"))
    last = load_file(checkpoint / "model.safetensors")
    assert any(not torch.equal(saved[name], last[name]) for name in saved)
    written = numbers(early_run)["validation"]["cross_entropy_nats"]
    assert written["value"] == pytest.approx(losses[best], abs=1e-6)


@pytest.mark.parametrize("steps_after_best", [-STEPS_PER_EPOCH - 3, STEPS_PER_EPOCH + 3], ids=["before", "after"])
def test_a_resumed_run_stops_early_where_the_whole_run_did(
    early_run: Path,
    tiny_data: SetCompletionTask,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps_after_best: int,
) -> None:
    # Behind the best epoch the count of worse ones must survive, or training would go on for longer.
    step = best_step(early_run) + steps_after_best
    recipe = stopping_early(tiny_data.recipe)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MaskEpoch, "on_step_begin", interrupting(step))
        run(recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    assert not (tmp_path / "metrics.json").exists()
    with pytest.raises(ConfigurationError, match=r"interrupted run.*--resume"):
        run(recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    run(recipe, tmp_path, prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert steps_of(tmp_path) == steps_of(early_run)
    assert numbers(tmp_path) == numbers(early_run)
    assert_same(load_file(tmp_path / "model.safetensors"), load_file(early_run / "model.safetensors"))


def test_a_run_interrupted_while_scoring_is_not_trained_further(
    early_run: Path, tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if it had been interrupted after its last checkpoint; moved, so that no path in the checkpoint is true.
    output = tmp_path / "moved"
    shutil.copytree(early_run / "checkpoints", output / "checkpoints")
    checkpoint = last_checkpoint(output)
    assert checkpoint is not None
    assert is_trained(checkpoint)
    assert best_weights(checkpoint).parent != checkpoint
    monkeypatch.setattr(ContextualBertTrainer, "train", lambda *_, **__: pytest.fail("trained again"))
    run(stopping_early(tiny_data.recipe), output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert numbers(output) == numbers(early_run)


def test_a_checkpoint_in_the_middle_is_not_the_end(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MaskEpoch, "on_step_begin", interrupting(STEPS_PER_EPOCH + 1))
        run(tiny_data.recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    checkpoint = last_checkpoint(tmp_path)
    assert checkpoint is not None
    assert not is_trained(checkpoint)


def test_a_resumed_run_took_the_time_of_all_its_pieces(
    early_run: Path, tiny_data: SetCompletionTask, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    shutil.copytree(early_run / "checkpoints", output / "checkpoints")
    checkpoint = last_checkpoint(output)
    assert checkpoint is not None
    path = checkpoint / "trainer_state.json"
    state = json.loads(path.read_text())
    kept = state["stateful_callbacks"]["TrainingClock"]["attributes"]
    assert 0 < kept["training_seconds"] <= seconds(early_run)
    kept["training_seconds"] += 3600
    path.write_text(json.dumps(state))
    write_manifest(checkpoint)
    run(stopping_early(tiny_data.recipe), output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert 3600 < seconds(output) < 7200


def test_a_run_resumed_twice_took_the_time_of_all_its_pieces(
    tiny_data: SetCompletionTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(tiny_data.recipe, training={**tiny_data.recipe.training, "num_train_epochs": 3})
    for epoch in (1, 2):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(MaskEpoch, "on_step_begin", interrupting(epoch * STEPS_PER_EPOCH + 1))
            run(recipe, tmp_path, prepared=tiny_data, is_resumed=epoch > 1, is_quiet=True)
        checkpoint = last_checkpoint(tmp_path)
        assert checkpoint is not None
        path = checkpoint / "trainer_state.json"
        state = json.loads(path.read_text())
        kept = state["stateful_callbacks"]["TrainingClock"]["attributes"]
        assert state["epoch"] == epoch
        assert kept["training_seconds"] > 3600 * (epoch - 1)
        kept["training_seconds"] += 3600
        path.write_text(json.dumps(state))
        write_manifest(checkpoint)
    run(recipe, tmp_path, prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert 2 * 3600 < seconds(tmp_path) < 3 * 3600


def seconds(directory: Path) -> float:
    return json.loads((directory / "metrics.json").read_text())["cost"]["training_seconds"]
