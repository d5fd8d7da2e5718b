"""The checkpoints of a run: which recipe they are of, that their files are theirs, and that a resume finds them all.

transformers takes the values of ``trainer_state.json`` as they are: one of another type ends a training hours later,
or changes it in silence. So each is checked before a training goes on.
"""

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from contextual_bert.atomic_files import share_files
from contextual_bert.errors import ConfigurationError, ContextualBertError, RunDirectoryError, shown
from contextual_bert.json_text import json_text
from contextual_bert.manifest import (
    CHECKPOINT_FILES,
    MANIFEST_FILE,
    check_manifest,
    check_readable,
    has_manifest,
    listed_files,
    write_manifest,
)
from contextual_bert.places import JsonPlace, Key, PathPlace
from contextual_bert.runs.run_directory import (
    WEIGHTS_FILE,
    best_weights,
    curve_of,
    flat_settings,
    is_trained,
    is_whole_checkpoint,
    step_of,
    trainer_state,
)
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import SetCompletion

_Number = int | float
_Count = Annotated[int, Field(ge=0)]

# Settings of other files than these, of DeepSpeed and FSDP, which shard them.
_SHARDED = ("deepspeed", "fsdp")

_NO_COLUMN = "\0"  # a column has no default, so a recipe's own is always in the hash


class _Part(BaseModel):
    """Part of the file; unknown names are refused, as transformers passes them to a constructor."""

    model_config = ConfigDict(strict=True, extra="forbid")


class _Nothing(_Part):
    pass


class _Control(_Part):
    should_training_stop: bool = False
    should_epoch_stop: bool = False
    should_save: bool = False
    should_evaluate: bool = False
    should_log: bool = False


class _ControlState(_Part):
    args: _Control = _Control()
    attributes: _Nothing = _Nothing()


class _Patience(_Part):
    early_stopping_patience: Annotated[int, Field(ge=1)]
    early_stopping_threshold: _Number | None = 0.0


class _Worse(_Part):
    early_stopping_patience_counter: _Count = 0


class _EarlyStoppingState(_Part):
    args: _Patience
    attributes: _Worse = _Worse()


class _Seconds(_Part):
    training_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class _ClockState(_Part):
    args: _Nothing = _Nothing()
    attributes: _Seconds = _Seconds()


class _Digest(_Part):
    recipe_digest: str = ""


class _FilesState(_Part):
    args: _Nothing = _Nothing()
    attributes: _Digest = _Digest()


class _Callbacks(BaseModel):
    """States of the callbacks that are restored; transformers passes over others."""

    model_config = ConfigDict(strict=True)
    TrainerControl: _ControlState = _ControlState()
    EarlyStoppingCallback: _EarlyStoppingState | None = None
    TrainingClock: _ClockState = _ClockState()
    CheckpointFiles: _FilesState = _FilesState()


class _State(_Part):
    """Fields of ``transformers.TrainerState``."""

    epoch: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    global_step: _Count
    max_steps: _Count
    logging_steps: _Number
    eval_steps: _Number
    save_steps: _Number
    train_batch_size: Annotated[int, Field(ge=1)]
    num_train_epochs: _Count
    num_input_tokens_seen: _Number
    total_flos: _Number
    log_history: list[dict[str, Any]]
    best_metric: _Number | None = None
    best_global_step: _Count | None = None
    best_model_checkpoint: str | None = None
    is_local_process_zero: bool = True
    is_world_process_zero: bool = True
    is_hyper_param_search: bool = False
    trial_name: str | None = None
    trial_params: dict[str, Any] | None = None
    stateful_callbacks: _Callbacks


def check_trainer_state(checkpoint: Path, recipe: Recipe) -> None:
    """Raise unless a trainer can go on from ``trainer_state.json``, and the learning curve so far can be written.

    Args:
        checkpoint: a whole one.
        recipe: of the run.

    Raises:
        RunDirectoryError: a value of another type, or one that no training writes; names it.
    """
    content = trainer_state(checkpoint)
    try:
        _State.model_validate(content)
        curve_of(recipe, content["log_history"])
    except ValidationError as error:
        first = error.errors()[0]
        raise _refused(checkpoint, f"{shown(first['input'])} is not allowed", first["loc"]) from error
    except (ContextualBertError, TypeError) as error:
        raise _refused(checkpoint, str(error), ("log_history",)) from error


def _refused(checkpoint: Path, problem: str, keys: tuple[Key, ...] = ()) -> RunDirectoryError:
    return RunDirectoryError(
        f"{problem.rstrip('.')}. This is not what a trainer writes",
        place=JsonPlace(keys, str(checkpoint / "trainer_state.json")),
        fix=f"Copy the file back, or remove {checkpoint} to go on at the checkpoint before it.",
    )


class CheckpointFiles(TrainerCallback, ExportableState):
    """Marks each checkpoint with the digest of its recipe, gives its files the umask's mode, and writes its manifest.

    Args:
        recipe_digest: see ``recipe_digest``.

    Example:
        >>> CheckpointFiles("80e4").state()["attributes"]
        {'recipe_digest': '80e4'}
    """

    def __init__(self, recipe_digest: str = "") -> None:
        self.recipe_digest = recipe_digest

    def state(self) -> dict[str, Any]:
        """Return the state that the trainer writes into trainer_state.json."""
        return {"args": {}, "attributes": {"recipe_digest": self.recipe_digest}}

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # The trainer has written trainer_state.json, its last file.
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        if args.should_save and folder.is_dir():
            share_files(folder)
            write_manifest(folder)

    def finish(self, args: TrainingArguments, state: TrainerState) -> None:
        """Write the manifest of the last step's checkpoint where an interrupt came behind its last other file."""
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        is_own = is_whole_checkpoint(folder) and _digest_of(folder) == self.recipe_digest
        if is_own and not has_manifest(folder):
            self.on_save(args, state, TrainerControl())


def recipe_digest(recipe: Recipe, *, digests: Mapping[str, str]) -> str:
    """Return the hash of the settings, table and split that decide the weights; a setting at its default is left out.

    Args:
        recipe: the resolved one.
        digests: ``PreparedData.digests``.
    """
    usual = flat_settings(Recipe(data="", task=SetCompletion(items=_NO_COLUMN)))
    decisive = {name: value for name, value in flat_settings(recipe).items() if value != usual.get(name)}
    text = json_text([decisive, dict(digests)], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def check_resumable(checkpoint: Path, recipe: Recipe, *, digest: str) -> None:
    """Raise unless a training of this recipe can go on at a checkpoint to the same result.

    Args:
        checkpoint: a whole one.
        recipe: that is asked for.
        digest: its ``recipe_digest``.

    Raises:
        ConfigurationError: the checkpoint is of another recipe.
        RunDirectoryError: a file was changed, is missing, or cannot be read.
    """
    check_readable(checkpoint, CHECKPOINT_FILES)
    theirs = _digest_of(checkpoint)
    if theirs is not None and theirs != digest:
        raise ConfigurationError(
            "is of a run with other settings, table or split than the recipe beside it: two runs wrote into one folder",
            fix="Give another --output, or --overwrite to start again.",
            place=PathPlace(checkpoint),
        )
    _check_files(checkpoint)
    _check_complete(checkpoint, recipe)
    check_trainer_state(checkpoint, recipe)
    best = trainer_state(checkpoint).get("best_global_step")
    if type(best) is int and best != step_of(checkpoint) and best_weights(checkpoint).parent == checkpoint:
        raise RunDirectoryError(
            f"{checkpoint.with_name(f'checkpoint-{best}')} is missing, which holds the best weights so far",
            fix="Copy it back, or give --overwrite to start again.",
        )
    if best_weights(checkpoint).parent != checkpoint:
        _check_files(best_weights(checkpoint).parent, names={WEIGHTS_FILE})


def _digest_of(checkpoint: Path) -> Any:
    """Return the digest of the recipe that a checkpoint is marked with, None where it has none."""
    own = trainer_state(checkpoint).get("stateful_callbacks", {}).get(CheckpointFiles.__name__, {})
    return own.get("attributes", {}).get("recipe_digest") if isinstance(own, dict) else None


def _check_files(checkpoint: Path, names: Collection[str] = CHECKPOINT_FILES) -> None:
    """Raise unless these files are those of the checkpoint's manifest, which it must have."""
    manifest = checkpoint / MANIFEST_FILE
    again = "--overwrite starts again. If its files are right, write the manifest with write_manifest."
    if not has_manifest(checkpoint):
        raise RunDirectoryError(
            "is missing: nothing says that the files of this checkpoint are its own",
            fix=f"Copy it back, or remove {checkpoint} to go on at the checkpoint before it. {again}",
            place=PathPlace(manifest),
        )
    if manifest.is_file() and "trainer_state.json" not in listed_files(checkpoint):
        raise RunDirectoryError(
            "does not list trainer_state.json: another version wrote it", fix=again, place=PathPlace(manifest)
        )
    check_manifest(checkpoint, names)


def _check_complete(checkpoint: Path, recipe: Recipe) -> None:
    if any(recipe.training.get(name) for name in _SHARDED):
        return
    needed = ["*model*.safetensors"]
    if not is_trained(checkpoint):
        needed += ["optimizer.pt", "scheduler.pt", "rng_state*.pth"]
    for pattern in needed:
        if not any(checkpoint.glob(pattern)):
            name = pattern.replace("*", "")
            raise RunDirectoryError(
                f"has no {name}: a run that goes on without it ends elsewhere",
                fix="Copy the file back, remove the folder to go on at the checkpoint before it, or give --overwrite "
                "to start again.",
                place=PathPlace(checkpoint),
            )
