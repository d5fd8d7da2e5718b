"""The checkpoints of a run: which recipe they are of, that their files are theirs, and that a resume finds them all."""

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from contextual_bert.atomic_files import share_files
from contextual_bert.errors import ConfigurationError, RunDirectoryError
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
from contextual_bert.runs.run_directories import settings_of
from contextual_bert.runs.run_files import WEIGHTS_FILE, best_weights, is_trained, step_of, trainer_state
from contextual_bert.runs.trainer_states import check_trainer_state
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import SetCompletion

# Settings of other files than these, of DeepSpeed and FSDP, which shard them.
_SHARDED = ("deepspeed", "fsdp")


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


def recipe_digest(recipe: Recipe, *, digests: Mapping[str, str]) -> str:
    """Return the hash of the settings, table and split that decide the weights; a setting at its default is left out.

    Args:
        recipe: the resolved one.
        digests: ``PreparedData.digests``.
    """
    usual = settings_of(Recipe(data="", task=SetCompletion(items="")))
    decisive = {name: value for name, value in settings_of(recipe).items() if value != usual.get(name)}
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
    own = trainer_state(checkpoint).get("stateful_callbacks", {}).get(CheckpointFiles.__name__, {})
    theirs = own.get("attributes", {}).get("recipe_digest") if isinstance(own, dict) else None
    if theirs is not None and theirs != digest:
        raise ConfigurationError(
            f"{checkpoint} is of a run with other settings, table or split than the recipe beside it: two "
            "runs wrote into one folder",
            fix="Give another --output, or --overwrite to start again.",
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


def _check_files(checkpoint: Path, names: Collection[str] = CHECKPOINT_FILES) -> None:
    """Raise unless these files are those of the checkpoint's manifest, which it must have."""
    manifest = checkpoint / MANIFEST_FILE
    again = "--overwrite starts again. If its files are right, write the manifest with write_manifest."
    if not has_manifest(checkpoint):
        raise RunDirectoryError(
            f"{manifest} is missing: nothing says that the files of this checkpoint are its own",
            fix=f"Copy it back, or remove {checkpoint} to go on at the checkpoint before it. {again}",
        )
    if manifest.is_file() and "trainer_state.json" not in listed_files(checkpoint):
        raise RunDirectoryError(f"{manifest} does not list trainer_state.json: another version wrote it", fix=again)
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
                f"{checkpoint} has no {name}: a run that goes on without it ends elsewhere",
                fix="Copy the file back, remove the folder to go on at the checkpoint before it, or give --overwrite "
                "to start again.",
            )
