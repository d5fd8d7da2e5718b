"""Checkpoints that are another run's, lack a file or were changed, and the one that is written at SIGTERM."""

import json
import os
import re
import shutil
import signal
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerState

from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.folder_lock import locked_folder
from contextual_bert.manifest import write_manifest
from contextual_bert.runs import SetCompletionTask, checkpoints, run
from contextual_bert.runs.run_directory import last_checkpoint, passed_over, remember_recipe, step_of
from contextual_bert.runs.sigterm import Terminated
from contextual_bert.runs.termination import StopAfterStep
from contextual_bert.training import ContextualBertTrainer, MaskEpoch, Recipe, training_arguments

STEPS_PER_EPOCH = 6
SHARING, MANIFEST = "share_files", "write_manifest"


@pytest.fixture(scope="module")
def recipe(tiny_data: SetCompletionTask) -> Recipe:
    return replace(tiny_data.recipe, training={**tiny_data.recipe.training, "num_train_epochs": 3})


@pytest.fixture(scope="module")
def whole(tiny_data: SetCompletionTask, recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "run"
    run(recipe, output, prepared=tiny_data, is_quiet=True)
    return output


@pytest.fixture(scope="module")
def interrupted(tiny_data: SetCompletionTask, recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("interrupted") / "run"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MaskEpoch, "on_step_begin", at_step(STEPS_PER_EPOCH + 2, interrupt))
        run(recipe, output, prepared=tiny_data, is_quiet=True)
    return output


def interrupt() -> None:
    raise KeyboardInterrupt


def at_step(step: int, act: Callable[[], None]) -> Callable[..., None]:
    def on_step_begin(self: object, args: object, state: TrainerState, control: object, **_: Any) -> None:
        if state.global_step == step:
            act()

    return on_step_begin


def copy_of(output: Path, tmp_path: Path) -> tuple[Path, Path]:
    copied = tmp_path / "run"
    shutil.copytree(output, copied)
    checkpoint = last_checkpoint(copied)
    assert checkpoint is not None
    return copied, checkpoint


def assert_same_run(found: Path, expected: Path) -> None:
    left, right = (load_file(each / "model.safetensors") for each in (found, expected))
    assert [name for name in right if not torch.equal(left[name], right[name])] == []
    parts = [json.loads((each / "metrics.json").read_text()) for each in (found, expected)]
    assert parts[0]["test"]["metrics"] == parts[1]["test"]["metrics"]


def test_a_run_is_not_started_beside_another_in_its_folder(
    tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path
) -> None:
    child = os.fork()
    if child == 0:
        with locked_folder(tmp_path):
            (tmp_path / "held").touch()
            signal.pause()
    try:
        while not (tmp_path / "held").exists():
            pass
        with pytest.raises(RunDirectoryError, match=f"in use: process {child} on"):
            run(recipe.with_seed(1), tmp_path, prepared=tiny_data, is_quiet=True)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not (tmp_path / "checkpoints").exists()


def test_the_checkpoint_of_another_recipe_is_refused(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path
) -> None:
    """Two runs wrote into one folder, by an older version or a copy: the recipe is that of the second."""
    output, _ = copy_of(interrupted, tmp_path)
    other = recipe.with_seed(1)
    remember_recipe(output, tiny_data.resolve(other), digests=tiny_data.digests, num_devices=1)
    with pytest.raises(ConfigurationError, match=r"checkpoint-6 is of a run with other settings.*--overwrite"):
        run(other, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


@pytest.mark.parametrize("step", [SHARING, MANIFEST], ids=["before", "within"])
def test_an_interrupt_before_the_manifest_leaves_a_whole_checkpoint(
    tiny_data: SetCompletionTask,
    recipe: Recipe,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """The trainer has written all else, and says that the training can go on there."""
    calls: list[Path] = []
    act = getattr(checkpoints, step)

    def interrupted_once(folder: Path) -> Any:
        calls.append(folder)
        return interrupt() if len(calls) == 1 else act(folder)

    monkeypatch.setattr(checkpoints, step, interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "run", prepared=tiny_data, is_quiet=True)
    checkpoint = last_checkpoint(tmp_path / "run")
    assert checkpoint is not None and step_of(checkpoint) == STEPS_PER_EPOCH
    assert (checkpoint / "manifest.json").is_file()
    run(recipe, tmp_path / "run", prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert_same_run(tmp_path / "run", whole)


def test_an_interrupt_gives_no_manifest_to_the_checkpoint_of_another_recipe(interrupted: Path, tmp_path: Path) -> None:
    _, checkpoint = copy_of(interrupted, tmp_path)
    (checkpoint / "manifest.json").unlink()
    arguments = training_arguments(checkpoint.parent, device="cpu", seed=0)
    checkpoints.CheckpointFiles("other").finish(arguments, TrainerState(global_step=STEPS_PER_EPOCH))
    checkpoints.CheckpointFiles("other").finish(arguments, TrainerState(global_step=STEPS_PER_EPOCH + 1))
    assert not (checkpoint / "manifest.json").exists()


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "model.safetensors"])
def test_a_checkpoint_that_lacks_a_file_is_refused_by_its_name(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path, name: str
) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    (checkpoint / name).unlink()
    with pytest.raises(RunDirectoryError, match=f"{name} is missing, and manifest.json lists it"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    write_manifest(checkpoint)
    expected = "model.safetensors" if name.startswith("model") else name
    with pytest.raises(RunDirectoryError, match=f"checkpoint-6 has no {expected}"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


def test_a_checkpoint_that_was_changed_is_refused(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path
) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    content = bytearray((checkpoint / "optimizer.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (checkpoint / "optimizer.pt").write_bytes(content)
    with pytest.raises(RunDirectoryError, match=r"optimizer\.pt differs from manifest\.json"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


STOPPED = {"TrainerControl": {"args": {"should_training_stop": True}, "attributes": {}}}


@pytest.mark.parametrize(
    "changes", [{"stateful_callbacks": STOPPED}, {"best_global_step": 3, "best_metric": -5}, {"epoch": 0.5}], ids=str
)
def test_a_state_that_was_changed_is_refused(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path, changes: dict[str, Any]
) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    path = checkpoint / "trainer_state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(
        RunDirectoryError, match=r"trainer_state\.json differs from manifest\.json: it has [0-9,]+ bytes"
    ):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


def test_the_best_weights_so_far_are_those_that_were_written(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path
) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    best = shutil.copytree(checkpoint, checkpoint.with_name("checkpoint-3"))
    with_state(best, global_step=3)
    with_state(checkpoint, best_global_step=3)
    weights = load_file(best / "model.safetensors")
    save_file({name: weight + 1 for name, weight in weights.items()}, best / "model.safetensors", {"format": "pt"})
    with pytest.raises(RunDirectoryError, match=r"checkpoint-3/model\.safetensors differs from manifest\.json"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    (best / "manifest.json").unlink()
    with pytest.raises(RunDirectoryError, match=r"checkpoint-3/manifest\.json is missing"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


def test_a_checkpoint_needs_its_manifest(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path
) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    manifest = checkpoint / "manifest.json"
    content = json.loads(manifest.read_text())
    assert "trainer_state.json" in content["files"]
    manifest.unlink()
    with pytest.raises(RunDirectoryError, match=r"checkpoint-6/manifest\.json is missing: .*--overwrite"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    manifest.symlink_to("nowhere")
    with pytest.raises(RunDirectoryError, match=r"manifest\.json is a link to nothing"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    manifest.unlink()
    del content["files"]["trainer_state.json"]
    manifest.write_text(json.dumps(content))
    with pytest.raises(RunDirectoryError, match=r"does not list trainer_state\.json: another version wrote it"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


def test_a_checkpoint_without_a_manifest_comes_behind_the_others(interrupted: Path, tmp_path: Path) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    later = shutil.copytree(checkpoint, checkpoint.with_name("checkpoint-12"))
    with_state(later, global_step=12)
    assert (last_checkpoint(output), passed_over(output, later)) == (later, [])
    (later / "manifest.json").unlink()  # interrupted before it was written
    assert last_checkpoint(output) == checkpoint
    assert passed_over(output, checkpoint) == [later]
    assert passed_over(output, None) == [later, checkpoint]


def test_the_best_weights_so_far_are_needed(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path
) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    with_state(checkpoint, best_global_step=3)
    with pytest.raises(RunDirectoryError, match=r"checkpoint-3 is missing, which holds the best weights"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


@pytest.mark.parametrize(
    "name", ["checkpoint-52.bak", "checkpoint-", "checkpoint-5x", "checkpoint--7", "checkpoint-99"]
)
def test_what_is_no_checkpoint_is_passed_over(interrupted: Path, tmp_path: Path, name: str) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    shutil.copytree(checkpoint, checkpoint.with_name(name))  # the last is of another step than it says
    (output / "checkpoints" / "checkpoint-77").touch()
    assert last_checkpoint(output) == checkpoint
    assert step_of(Path("checkpoint-0012")) == 12


@pytest.mark.parametrize("content", ["null", "[]", '{"global_step": 6, "log_history": null}', "[" * 10_000])
def test_a_state_that_is_none_is_no_checkpoint(interrupted: Path, tmp_path: Path, content: str) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    (checkpoint / "trainer_state.json").write_text(content)
    assert last_checkpoint(output) is None


def with_state(checkpoint: Path, **changes: Any) -> None:
    """Change values of trainer_state.json; the manifest is that of the changed file."""
    path = checkpoint / "trainer_state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    write_manifest(checkpoint)


CURVE = {"eval_cross_entropy_nats": 3.0, "epoch": 1.0, "step": 6}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"log_history": [{"loss": "a"}, 3, None]}, "log_history"),
        ({"log_history": [{"loss": "a"}]}, 'log_history: loss is "a", and must be a number'),
        ({"log_history": [{**CURVE, "loss": 1, "eval_cross_entropy_nats": "x"}]}, "eval_cross_entropy_nats"),
        ({"log_history": [{"eval_cross_entropy_nats": 3.0, "step": 6}]}, "epoch is null"),
        ({"log_history": [CURVE, CURVE]}, "in the order of training"),
        ({"best_metric": "nan"}, "best_metric"),
        ({"best_global_step": "6"}, "best_global_step"),
        ({"train_batch_size": None}, "train_batch_size"),
        ({"max_steps": "x"}, "max_steps"),
        ({"num_input_tokens_seen": None}, "num_input_tokens_seen"),
        ({"unknown": 1}, "unknown"),
        ({"stateful_callbacks": {"TrainerControl": {"args": {"should_save": "x"}}}}, "TrainerControl.args.should_save"),
        ({"stateful_callbacks": {"TrainerControl": {"args": {"other": True}}}}, "TrainerControl.args.other"),
        ({"stateful_callbacks": {"TrainingClock": {"attributes": {"training_seconds": "x"}}}}, "training_seconds"),
        ({"stateful_callbacks": {"EarlyStoppingCallback": {"args": {}}}}, "early_stopping_patience"),
        ({"stateful_callbacks": {"CheckpointFiles": {"attributes": {"state": 1}}}}, "CheckpointFiles.attributes.state"),
    ],
    ids=str,
)
def test_a_state_that_no_trainer_writes_is_refused_before_training(
    interrupted: Path,
    tiny_data: SetCompletionTask,
    recipe: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    problem: str,
) -> None:
    output, checkpoint = copy_of(interrupted, tmp_path)
    with_state(checkpoint, **changes)
    monkeypatch.setattr(ContextualBertTrainer, "train", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(RunDirectoryError, match=rf"{re.escape(problem)}.*not what a trainer writes.*remove .*-6 to"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


@pytest.mark.parametrize("content", ["null", "[]", '{"recipe": null}', '{"recipe": [], "resolved": 3}', "[" * 10_000])
def test_a_recipe_that_is_none_is_named(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path, content: str
) -> None:
    output, _ = copy_of(interrupted, tmp_path)
    (output / "checkpoints" / "recipe.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=r"recipe\.json"):
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)


def test_files_have_the_mode_of_the_umask(whole: Path) -> None:
    modes = {path.relative_to(whole): stat.S_IMODE(path.stat().st_mode) for path in whole.rglob("*") if path.is_file()}
    umask = os.umask(0o022)
    os.umask(umask)
    assert {name: oct(mode) for name, mode in modes.items() if mode != 0o666 & ~umask} == {}
    assert Path("model.safetensors") in modes


@pytest.mark.parametrize(
    ("step", "written"),
    [(3, 4), (STEPS_PER_EPOCH - 1, STEPS_PER_EPOCH), (STEPS_PER_EPOCH, STEPS_PER_EPOCH + 1), (16, 17)],
    ids=["in-first-epoch", "at-epoch-end", "after-epoch", "in-last-epoch"],
)
def test_a_run_that_sigterm_stops_loses_no_step_and_ends_as_if_it_had_not_been(
    tiny_data: SetCompletionTask, recipe: Recipe, whole: Path, tmp_path: Path, step: int, written: int
) -> None:
    def terminate() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    output = tmp_path / "run"
    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Terminated) as raised:
        patch.setattr(MaskEpoch, "on_step_begin", at_step(step, terminate))
        run(recipe, output, prepared=tiny_data, is_quiet=True)
    assert raised.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == before
    checkpoint = last_checkpoint(output)
    assert checkpoint is not None and checkpoint.name == f"checkpoint-{written}"
    assert (checkpoint / "manifest.json").is_file()
    run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert_same_run(output, whole)


def test_a_resumed_run_can_be_stopped_too(
    interrupted: Path, tiny_data: SetCompletionTask, recipe: Recipe, whole: Path, tmp_path: Path
) -> None:
    output, _ = copy_of(interrupted, tmp_path)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Terminated):
        patch.setattr(MaskEpoch, "on_step_begin", at_step(9, lambda: os.kill(os.getpid(), signal.SIGTERM)))
        run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    checkpoint = last_checkpoint(output)
    assert checkpoint is not None and checkpoint.name == "checkpoint-10"
    assert (checkpoint / "manifest.json").is_file()
    assert json.loads((checkpoint / "trainer_state.json").read_text())["stateful_callbacks"]["CheckpointFiles"]
    run(recipe, output, prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert_same_run(output, whole)


def test_an_evaluation_at_sigterm_is_ended_first(
    tiny_data: SetCompletionTask, recipe: Recipe, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = ContextualBertTrainer.evaluate

    def asked(self: Any, *arguments: Any, **settings: Any) -> Any:
        if self.state.global_step == STEPS_PER_EPOCH:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, *arguments, **settings)

    with monkeypatch.context() as patch, pytest.raises(Terminated):
        patch.setattr(ContextualBertTrainer, "evaluate", asked)
        run(recipe, tmp_path, prepared=tiny_data, is_quiet=True)
    checkpoint = last_checkpoint(tmp_path)
    assert checkpoint is not None and checkpoint.name == f"checkpoint-{STEPS_PER_EPOCH}"
    run(recipe, tmp_path, prepared=tiny_data, is_resumed=True, is_quiet=True)
    assert_same_run(tmp_path, whole)


def test_a_second_sigterm_ends_at_once_and_an_echo_of_the_first_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    times = iter((100.0, 100.1, 103.0))
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    stop = StopAfterStep()
    for _ in range(3):
        stop.ask()
    assert (stop.is_asked, codes) == (True, [143])


def run_in_two_processes(
    recipe: Recipe, output: Path, ready: SetCompletionTask, *, port: int, **settings: Any
) -> list[int]:
    """Exit codes of two processes that train one run together, as torchrun starts them; the second may be stopped."""
    stop_at, children = settings.pop("stop_at", None), list[int]()
    for rank in ("0", "1"):
        if child := os.fork():
            children.append(child)
            continue
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test"}
        os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", **address)
        code = 99
        try:
            if rank == "1" and stop_at is not None:
                MaskEpoch.on_step_begin = at_step(stop_at, lambda: os.kill(os.getpid(), signal.SIGTERM))  # pyright: ignore
            run(recipe, output, prepared=ready, is_quiet=True, **settings)
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        finally:
            os._exit(code)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


@pytest.mark.slow
def test_two_processes_stop_after_the_same_step_and_end_as_if_they_had_not(
    tiny_data: SetCompletionTask, recipe: Recipe, tmp_path: Path
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert run_in_two_processes(recipe, whole, tiny_data, port=29_641) == [0, 0]
    assert run_in_two_processes(recipe, stopped, tiny_data, port=29_642, stop_at=4) == [143, 143]
    checkpoint = last_checkpoint(stopped)
    assert checkpoint is not None and checkpoint.name == "checkpoint-5"
    assert run_in_two_processes(recipe, stopped, tiny_data, port=29_643, is_resumed=True) == [0, 0]
    assert_same_run(stopped, whole)
