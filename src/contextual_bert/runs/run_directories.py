"""Checks of a run directory: contents, and permission to write or resume. No run is mixed with another."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from contextual_bert.atomic_files import replacing_file
from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.inference.saved_files import RECORD_FILE, check_run, holds_baseline
from contextual_bert.json_text import echoed, json_text
from contextual_bert.manifest import MANIFEST_FILE, RESULT_FILES, check_manifest
from contextual_bert.runs.registry import BASELINES, keeps_weights
from contextual_bert.runs.run_files import (
    CHECKPOINTS,
    HISTORY_FILE,
    METRICS_FILE,
    SCORES_FILE,
    TENSORBOARD,
    is_complete,
    last_checkpoint,
    resolved_in,
)
from contextual_bert.training.recipe import RECIPE_FILE, Recipe

MODEL_FILES = ("config.json", "model.safetensors", "README.md")
RUN_FILES = (
    METRICS_FILE,  # first, so that a directory that is half cleared is not taken for a run
    MANIFEST_FILE,
    SCORES_FILE,
    HISTORY_FILE,
    *MODEL_FILES,
    "baseline.json",
    "generation_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "schema.json",
    "split.json",
    RECIPE_FILE,
)
# What may differ between the two halves of a run, or between a finished run and the recipe that asks for it. Of table
# and split the content is compared, by its hash, not where they lie.
_FREE = ("data", "split", "validation_data", "test_data", "device")
SPLIT_DIGEST, CHECKPOINT_DIGEST = "split_digest", "checkpoint_digest"
_DIGESTS = {
    SPLIT_DIGEST: "another table or another split",
    CHECKPOINT_DIGEST: "it started from other weights than those that are there now",
}
START = "start"  # the row of a study that the others start from


def checkpoint_to_resume(output: Path, *, is_resumed: bool) -> Path | None:
    """The checkpoint that a run in this directory starts from, None for a new run.

    Raises:
        ConfigurationError: the directory holds a run, an interrupted run that was not asked for, or other files, or is
            none.
    """
    if output.exists() and not output.is_dir():
        raise ConfigurationError(f"{output} is a file, and a run is a folder", fix="Give another --output.")
    if is_complete(output):
        raise ConfigurationError(
            f"{output} holds a complete run", fix="Give another --output, or --overwrite to replace it."
        )
    checkpoint = last_checkpoint(output)
    if checkpoint is not None and not is_resumed:
        raise ConfigurationError(
            f"{output} holds an interrupted run", fix="Give --resume to go on with it, or --overwrite to start again."
        )
    foreign = [name for name in MODEL_FILES if (output / name).exists()]
    if foreign and not is_run(output):
        raise ConfigurationError(
            f"{output} is no run directory and holds {', '.join(foreign)}, which a run would replace",
            fix="Give another --output.",
        )
    return checkpoint


def is_run(directory: Path) -> bool:
    """Return True for the directory of a run, complete or not."""
    return any((folder / RECIPE_FILE).is_file() for folder in (directory, directory / CHECKPOINTS))


def clear_run(directory: Path) -> None:
    """Remove what a run wrote and nothing else; a directory that is no run stays as it is."""
    if not is_run(directory):
        return
    for name in RUN_FILES:
        (directory / name).unlink(missing_ok=True)
    for name in (CHECKPOINTS, TENSORBOARD):
        shutil.rmtree(directory / name, ignore_errors=True)


def await_clearing(directory: Path, *, timeout_seconds: float = 60) -> None:
    """Wait until another process has cleared the run in this directory, where several start it together."""
    deadline = time.monotonic() + timeout_seconds
    while (is_complete(directory) or last_checkpoint(directory) is not None) and time.monotonic() < deadline:
        time.sleep(0.05)


def load_recipe(directory: Path) -> Recipe:
    """The recipe of a run whose model can be used.

    Raises:
        RunDirectoryError: no run directory, an interrupted run, an export, or one of which no weights are kept.
    """
    check_run(directory)
    if (directory / RECORD_FILE).is_file():
        raise RunDirectoryError(f"{directory} is an export", fix="Name the run that it was made from.")
    check_manifest(directory, RESULT_FILES)
    recipe = Recipe.load(directory)
    holds_model = holds_baseline(directory) or (directory / "config.json").is_file()
    if not keeps_weights(recipe) or (recipe.conditioning in BASELINES and not holds_model):
        raise RunDirectoryError(
            f"{directory} is a run of the baseline {recipe.conditioning!r}, of which scores and metrics "
            "are kept and no weights",
            fix="Name the run of a method.",
        )
    return recipe


class FinishedRun(NamedTuple):
    """The folder of a finished run, with its recipe.

    Args:
        directory: the folder.
        recipe: as ``load_recipe`` gave it.
    """

    directory: Path
    recipe: Recipe


def finished_run(directory: Path | FinishedRun) -> FinishedRun:
    """Return a run with its recipe, which is loaded unless it was.

    Raises:
        RunDirectoryError: as ``load_recipe``.
    """
    return directory if isinstance(directory, FinishedRun) else FinishedRun(directory, load_recipe(directory))


def remember_recipe(output: Path, recipe: Recipe, *, digests: Mapping[str, str], num_devices: int) -> None:
    """Write the recipe beside the checkpoints, so that a resumed run can be compared with it."""
    folder = output / CHECKPOINTS
    folder.mkdir(parents=True, exist_ok=True)
    resolved = {**digests, "num_devices": num_devices}
    with replacing_file(folder / RECIPE_FILE) as partial:
        partial.write_text(json_text({"recipe": recipe.to_dict(), "resolved": resolved}) + "\n", encoding="utf-8")


def check_same_recipe(
    recipe: Recipe, output: Path, *, digests: Mapping[str, str], model_fields: Mapping[str, Any] | None = None
) -> None:
    """Raise unless the run in this directory, complete or interrupted, has the same recipe, table, split and start.

    Args:
        recipe: that is asked for.
        output: the directory.
        digests: ``PreparedData.digests``. A run that is older than one of them is not asked for it.
        model_fields: ``PreparedData.model_fields``, compared where the run tells them.

    Raises:
        ConfigurationError: another recipe; names what differs.
    """
    folders = [folder for folder in (output, output / CHECKPOINTS) if (folder / RECIPE_FILE).is_file()]
    if not folders:
        return
    try:
        found = Recipe.load(folders[0])
    except RunDirectoryError as error:
        raise RunDirectoryError(f"{error} Or give --overwrite.") from error
    theirs, ours = settings_of(found), settings_of(recipe)
    differing = [
        f"{name}: {_unlike(theirs.get(name), ours.get(name))}"
        for name in dict.fromkeys((*ours, *theirs))
        if theirs.get(name) != ours.get(name)
    ]
    for name, value in digests.items():
        there = resolved_in(folders[0], name)
        if there != value and (there is not None or name == SPLIT_DIGEST):
            differing.append(f"{name}: {_DIGESTS[name]}")
    model = resolved_in(folders[0], "model")
    differing += [
        f"{name}: {_unlike(model[name], value)}"
        for name, value in (model_fields or {}).items()
        if name not in recipe.model and isinstance(model, dict) and model.get(name, value) != value
    ]
    if differing:
        raise ConfigurationError(
            f"{output} holds a run with other settings ({'; '.join(differing)})",
            fix="Give the same settings, another --output, or --overwrite to start again.",
        )


def check_same_devices(output: Path, *, num_devices: int) -> None:
    """Raise unless the interrupted run in this directory shared its steps among as many devices: they are counted.

    Raises:
        ConfigurationError: it had more or fewer; a step would be another number of rows, and the run end elsewhere.
    """
    theirs = resolved_in(output / CHECKPOINTS, "num_devices")
    if theirs is not None and theirs != num_devices:
        raise ConfigurationError(
            f"{output} holds a run that was interrupted on {theirs} devices (processes, GPUs), and here "
            f"are {num_devices}: a step would be of other rows",
            fix="Start it on as many, or give --overwrite to start again.",
        )


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """Return setting -> value, those of the trainer, the model and the task one by one; what is free is left empty.

    Args:
        recipe: of a run.
    """
    content = json.loads(json_text(recipe.to_dict() | dict.fromkeys(_FREE, ""), default=str))
    task = content["task"]
    if Path(task.get("checkpoint") or "").parent.name == START:
        task["checkpoint"] = START  # the start of a study lies beside its runs, wherever that is
    nested = {name: content.pop(name) or {} for name in ("training", "model", "lora", "task")}
    nested["policy"] = nested["task"].pop("policy", {})
    return content | {f"{group}.{name}": value for group, values in nested.items() for name, value in values.items()}


def _unlike(there: Any, here: Any) -> str:
    there, here = _shown(there), _shown(here)
    return f"{there} there, {here} here" if there != here else f"another one there, which begins alike, {there}"


def _shown(value: Any) -> str:
    text = echoed(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
