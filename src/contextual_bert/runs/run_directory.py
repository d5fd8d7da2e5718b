"""The run directory: its files, written atomically, and permission to write or resume.

Weights, config, processor and schema make it usable; recipe, metrics, scores and model card make it checkable.
``metrics.json`` comes last: a directory that has it is complete. No run is mixed with another.
"""

import json
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, cast
from zipfile import is_zipfile

import numpy as np
from pydantic import TypeAdapter
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from contextual_bert.atomic_files import replacing_file
from contextual_bert.baselines.names import BASELINES
from contextual_bert.errors import CheckpointError, ConfigurationError, Message, RunDirectoryError
from contextual_bert.evaluation import (
    AnswerPredictions,
    Cost,
    LabelPredictions,
    LearningCurve,
    LearningPoint,
    MultiLabelPredictions,
    NumberPredictions,
    Predictions,
    Report,
    Run,
    Scores,
    SentencePredictions,
    SetPredictions,
    TextPredictions,
)
from contextual_bert.evaluation.answer_calibration import CALIBRATION_FILE
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, is_metric
from contextual_bert.inference.saved_files import RECORD_FILE, check_run, holds_baseline
from contextual_bert.json_text import echoed, json_text, read_json_object, unreadable
from contextual_bert.manifest import (
    MANIFEST_FILE,
    RESULT_FILES,
    SCORE_FILES,
    check_manifest,
    check_readable,
    has_manifest,
)
from contextual_bert.places import PathPlace
from contextual_bert.runs.provenance import environment
from contextual_bert.runs.registry import keeps_weights
from contextual_bert.training.recipe import RECIPE_FILE, Recipe

METRICS_FILE = "metrics.json"
HISTORY_FILE = "history.json"
WEIGHTS_FILE = "model.safetensors"
SCORES_FILE = "test_scores.safetensors"
CHECKPOINTS = "checkpoints"
TENSORBOARD = "tensorboard"
CLUSTERS = "cluster"
PREDICTED = "predictions."  # before the names of their columns in the file of scores
IN_MEMORY = "is_data_in_memory"  # key of what a recipe resolved to: no file has the table

MODEL_FILES = ("config.json", "model.safetensors", "README.md")
RUN_FILES = (
    METRICS_FILE,  # first, so that a directory that is half cleared is not taken for a run
    MANIFEST_FILE,
    SCORES_FILE,
    HISTORY_FILE,
    CALIBRATION_FILE,
    *MODEL_FILES,
    "baseline.json",
    "generation_config.json",
    *("processor_config.json", "tokenizer.json", "tokenizer_config.json"),
    "schema.json",
    "split.json",
    RECIPE_FILE,
)
# What may differ between the two halves of a run, or between a finished run and the recipe that asks for it. Of table
# and split the content is compared, by its hash, not where they lie.
_FREE = ("data", "split", "validation_data", "test_data", "device")
SPLIT_DIGEST, CHECKPOINT_DIGEST, ELMO_DIGEST = "split_digest", "checkpoint_digest", "elmo_digest"
_DIGESTS = {
    SPLIT_DIGEST: "another table or another split",
    CHECKPOINT_DIGEST: "it started from other weights than those that are there now",
    ELMO_DIGEST: "it read another language model than the one that is there now",
}
START = "start"  # the row of a study that the others start from


def curve_of(recipe: Recipe, history: Sequence[Mapping[str, Any]]) -> LearningCurve | None:
    """Return the learning curve of a trainer's history, None where nothing was evaluated during training.

    Raises:
        ConfigurationError: epochs that do not rise, or a cross-entropy that is not finite.
        TypeError: an entry without its epoch and step, or with another value than a number.
    """
    points: list[LearningPoint] = []
    train_loss: float | None = None
    for entry in history:
        train_loss = _number(entry, "loss") if "loss" in entry else train_loss
        if f"eval_{CROSS_ENTROPY}" in entry:
            epoch, step, validation = (_number(entry, name) for name in ("epoch", "step", f"eval_{CROSS_ENTROPY}"))
            points.append(LearningPoint(epoch, int(step), train_loss, validation, _further_metrics(entry)))
            train_loss = None
    return LearningCurve(recipe.label, recipe.seed, tuple(points)) if points else None


def _further_metrics(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of an evaluation beside the cross-entropy, by key."""
    found = {name.removeprefix("eval_"): name for name in entry if name.startswith("eval_")}
    return {key: _number(entry, name) for key, name in found.items() if key != CROSS_ENTROPY and is_metric(key)}


def _number(entry: Mapping[str, Any], name: str) -> float:
    value: object = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {echoed(value)}, and must be a number")
    return float(value)


def is_complete(directory: Path) -> bool:
    """Return True if the run is complete."""
    return (directory / METRICS_FILE).is_file()


def last_checkpoint(directory: Path) -> Path | None:
    """Return the latest whole checkpoint, None where there is none.

    A checkpoint without a manifest comes behind all others: writing the manifest may have been interrupted.
    """
    whole = [path for path in _checkpoints(directory) if is_whole_checkpoint(path)]
    return max(whole, key=lambda path: (has_manifest(path), step_of(path) or 0), default=None)


def passed_over(directory: Path, checkpoint: Path | None) -> list[Path]:
    """Return the checkpoints of later steps than the one that ``last_checkpoint`` gave, which are not whole.

    Args:
        directory: of the run.
        checkpoint: the last whole one, None where there is none.
    """
    last = (step_of(checkpoint) or 0) if checkpoint is not None else -1
    return sorted(path for path in _checkpoints(directory) if path != checkpoint and (step_of(path) or 0) > last)


def _checkpoints(directory: Path) -> list[Path]:
    return [path for path in (directory / CHECKPOINTS).glob("checkpoint-*") if step_of(path) is not None]


def step_of(path: Path) -> int | None:
    """Return the step in the name of a checkpoint's folder, None for the name of anything else.

    Example:
        >>> step_of(Path("checkpoint-52")), step_of(Path("checkpoint-52.bak"))
        (52, None)
    """
    found = re.fullmatch(r"checkpoint-([0-9]+)", path.name)
    return int(found[1]) if found else None


def is_whole_checkpoint(path: Path) -> bool:
    """Return True if the whole checkpoint can be read. An interrupted one lacks trainer_state.json, which is written
    last; after a power cut files may lack their end. Each of several processes writes a file of its own.
    """
    states = (*path.glob("*.pt"), *path.glob("*.pth"))  # of torch.save: archives with a directory at their end
    if trainer_state(path).get("global_step") != step_of(path) or not all(is_zipfile(each) for each in states):
        return False
    of_processes = {each.name for each in path.glob("rng_state_*.pth")}
    num_devices: object = resolved_in(path.parent, "num_devices")
    if of_processes and isinstance(num_devices, int) and len(of_processes) < num_devices:
        return False
    try:
        for weights in (path / WEIGHTS_FILE, best_weights(path)):
            if weights.is_file():
                with safe_open(weights, framework="np"):
                    pass
    except (OSError, SafetensorError):
        return False
    return True


def resolved_in(folder: Path, name: str) -> Any:
    """Return a resolved value beside a recipe, such as the hash of split and table, or None."""
    path = folder / RECIPE_FILE
    found = read_json_object(path).get("resolved") if path.is_file() else None
    return cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None


def trainer_state(checkpoint: Path) -> dict[str, Any]:
    """Return the Trainer's own state; empty if the file is missing or damaged."""
    try:
        state = read_json_object(checkpoint / "trainer_state.json")
    except RunDirectoryError as error:
        if isinstance(error.__cause__, PermissionError):
            raise
        return {}
    callbacks = state.get("stateful_callbacks", {})
    is_valid = isinstance(callbacks, dict) and isinstance(state.get("log_history", []), list)
    return state if is_valid and all(_is_callback(each) for each in callbacks.values()) else {}


def _is_callback(state: Any) -> bool:
    """Return whether a part of trainer_state.json has the shape of a callback's state, or of several of its class."""
    states: list[Any] = state if isinstance(state, list) else [state]
    return all(
        isinstance(each, dict) and all(isinstance(each.get(name, {}), dict) for name in ("args", "attributes"))
        for each in states
    )


def is_trained(checkpoint: Path) -> bool:
    """Return True if training ended with this checkpoint: all steps were done, or it was stopped early."""
    control = trainer_state(checkpoint).get("stateful_callbacks", {}).get("TrainerControl", {})
    return isinstance(control, dict) and bool(control.get("args", {}).get("should_training_stop"))


def best_weights(checkpoint: Path) -> Path:
    """The weights that were best when this checkpoint was written, its own where none were chosen."""
    step: object = trainer_state(checkpoint).get("best_global_step")
    if type(step) is not int:
        return checkpoint / WEIGHTS_FILE
    best = checkpoint.with_name(f"checkpoint-{step}") / WEIGHTS_FILE
    return best if best.is_file() else checkpoint / WEIGHTS_FILE


def load_environment(directory: Path) -> dict[str, str]:
    """Versions, commit and hardware that a run was made with; see ``environment``.

    Raises:
        RunDirectoryError: recipe.json is damaged.
    """
    path = directory / RECIPE_FILE
    content = read_json_object(path)
    try:
        made = content["environment"]
        return {"commit": made["commit"], "hardware": made["hardware"], **made}
    except (TypeError, KeyError) as error:
        raise RunDirectoryError(
            f"does not say what it was made with ({error})", fix="Train again.", place=PathPlace(path)
        ) from error


def save_scores(scores: Scores, clusters: np.ndarray | None, path: Path) -> None:
    """Write the rows that intervals are computed from, with their predictions.

    Args:
        scores: to write.
        clusters: a number for the customer of each row.
        path: of the file.
    """
    arrays: dict[str, np.ndarray] = dict(scores.as_arrays())
    if clusters is not None:
        arrays[CLUSTERS] = np.asarray(clusters, dtype=np.int64)
    predictions, said = scores.predictions, None
    if predictions is not None:
        arrays |= {f"{PREDICTED}{name}": column for name, column in predictions.as_arrays().items()}
    if isinstance(predictions, LabelPredictions | MultiLabelPredictions):
        is_ordinal = isinstance(predictions, LabelPredictions) and predictions.is_ordinal
        said = {"names": json_text(predictions.names), "is_ordinal": json_text(is_ordinal)}
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, metadata=said)


def load_scores(path: Path) -> tuple[Scores, np.ndarray | None]:
    """Return what ``save_scores`` wrote: the scores, and the number of the customer of each row.

    Raises:
        RunDirectoryError: the file is damaged.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            said = {name: json.loads(text) for name, text in (file.metadata() or {}).items()}
        clusters = arrays.pop(CLUSTERS, None)
        columns = {name: arrays.pop(name) for name in list(arrays) if name.startswith(PREDICTED)}
        columns = {name.removeprefix(PREDICTED): column for name, column in columns.items()}
        return Scores(**arrays, predictions=_predictions(columns, said)), clusters
    except PermissionError as error:
        raise unreadable(path, error) from error
    except (OSError, SafetensorError, ValueError, TypeError, LookupError, RecursionError, StopIteration) as error:
        raise RunDirectoryError(
            f"holds no scores ({error})", fix="Train again with --overwrite.", place=PathPlace(path)
        ) from error


def _predictions(columns: dict[str, Any], said: Mapping[str, Any]) -> Predictions | None:
    if not columns:
        return None
    if "probability" in columns:
        return MultiLabelPredictions(**columns, names=tuple(said["names"]))
    if "names" in said:
        return LabelPredictions(**columns, names=tuple(said["names"]), is_ordinal=bool(said["is_ordinal"]))
    kinds = (AnswerPredictions, NumberPredictions, SetPredictions, TextPredictions, SentencePredictions)
    return next(kind for kind in kinds if columns.keys() <= {each.name for each in fields(kind)})(**columns)


def load_run(directory: Path, *, name: str, role: Any = "method") -> Run:
    """Return a finished run, as ``compare_runs`` takes it.

    Raises:
        RunDirectoryError: a file is missing or damaged.
    """
    check_readable(directory, RESULT_FILES)
    check_manifest(directory, SCORE_FILES)
    try:
        scores, clusters = load_scores(directory / SCORES_FILE)
        metrics = load_metrics(directory)
        told = {**metrics["cost"], "hardware": load_environment(directory)["hardware"]}
        cost = TypeAdapter(Cost).validate_python(told)
        validation = _validation_nats(metrics)
    except RunDirectoryError:
        raise
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise RunDirectoryError(
            f"is no complete run: {error}", fix="Train it again with --overwrite.", place=PathPlace(directory)
        ) from error
    return Run(name, Recipe.load(directory).seed, scores, clusters, cost, role, validation)


def _validation_nats(metrics: Mapping[str, Any]) -> float | None:
    """The cross-entropy on the validation part, None where that is the evaluated part or there is none."""
    if metrics.get("evaluated_part") != "test" or "validation" not in metrics:
        return None
    return float(metrics["validation"]["metrics"][CROSS_ENTROPY]["value"])


def load_metrics(directory: Path) -> dict[str, Any]:
    """Return the content of metrics.json of a finished run.

    Raises:
        RunDirectoryError: the file is missing or damaged.
    """
    return read_json_object(directory / METRICS_FILE, fix="Train the run again with --overwrite.")


def write_metrics(directory: Path, reports: Mapping[str, Report], cost: Cost, extra: Mapping[str, Any]) -> None:
    """metrics.json: a report a part, what the run cost, and what else must be known."""
    content = {
        **{part: json.loads(report.to_json()) for part, report in reports.items()},
        "cost": {
            "parameters": cost.parameters,
            "training_seconds": cost.training_seconds,
            "peak_memory_bytes": cost.peak_memory_bytes,
        },
        **extra,
    }
    (directory / METRICS_FILE).write_text(json_text(content, indent=1) + "\n", encoding="utf-8")


def write_history(directory: Path, recipe: Recipe, history: Sequence[Mapping[str, Any]]) -> None:
    """history.json: the learning curve of the run; none where nothing was evaluated during training."""
    curve = curve_of(recipe, history)
    if curve is not None:
        (directory / HISTORY_FILE).write_text(curve.to_json(), encoding="utf-8")


def load_history(directory: Path) -> LearningCurve | None:
    """The learning curve of a run, None where it has none.

    Raises:
        RunDirectoryError: the file is damaged.
    """
    path = directory / HISTORY_FILE
    if not path.exists():
        return None
    try:
        return LearningCurve.from_json(path.read_text(encoding="utf-8"))
    except PermissionError as error:
        raise unreadable(path, error) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunDirectoryError(
            f"is no learning curve ({error})", fix="Train again with --overwrite.", place=PathPlace(path)
        ) from error


def write_recipe(directory: Path, recipe: Recipe, resolved: Mapping[str, Any]) -> None:
    """recipe.json: the recipe, everything it resolved to, and the versions it ran on."""
    content = {"recipe": recipe.to_dict(), "resolved": resolved, "environment": environment()}
    (directory / RECIPE_FILE).write_text(json_text(content, indent=1, default=str) + "\n", encoding="utf-8")


def checkpoint_to_resume(output: Path, *, is_resumed: bool) -> Path | None:
    """The checkpoint that a run in this directory starts from, None for a new run.

    Raises:
        ConfigurationError: the directory holds a run, an interrupted run that was not asked for, or other files, or is
            none.
    """
    if output.exists() and not output.is_dir():
        raise ConfigurationError(
            "is a file, and a run is a folder", fix="Give another --output.", place=PathPlace(output)
        )
    if is_complete(output):
        raise ConfigurationError(
            "holds a complete run", fix="Give another --output, or --overwrite to replace it.", place=PathPlace(output)
        )
    checkpoint = last_checkpoint(output)
    if checkpoint is not None and not is_resumed:
        raise ConfigurationError(
            "holds an interrupted run",
            fix="Give --resume to go on with it, or --overwrite to start again.",
            place=PathPlace(output),
        )
    foreign = [name for name in MODEL_FILES if (output / name).exists()]
    if foreign and not is_run(output):
        raise ConfigurationError(
            f"is no run directory and holds {', '.join(foreign)}, which a run would replace",
            fix="Give another --output.",
            place=PathPlace(output),
        )
    return checkpoint


def check_text_start(directory: Path) -> None:
    """Raise where a folder is a run that no training on texts can go on from. Other folders pass.

    Raises:
        RunDirectoryError: an interrupted run, or one whose weights were not kept.
        CheckpointError: a run on sets, of a baseline, or of language models in both directions.
    """
    if not is_run(directory):
        return
    task = load_recipe(directory).task
    if task.kind == "bidirectional_text":
        raise CheckpointError(
            "is a run of language models in both directions, of which other models read the vectors",
            fix=Message("Give it with {elmo}, beside {conditioning}.", elmo=..., conditioning="bilstm"),
            place=PathPlace(directory),
        )
    if task.has_items:
        raise CheckpointError(
            "is a run on sets of items, and these are texts", fix="Give a BERT.", place=PathPlace(directory)
        )
    if holds_baseline(directory):
        raise CheckpointError(
            "is a run of a baseline, which has no BERT", fix="Give a run of a method.", place=PathPlace(directory)
        )


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
        raise RunDirectoryError("is an export", fix="Name the run that it was made from.", place=PathPlace(directory))
    check_manifest(directory, RESULT_FILES)
    recipe = Recipe.load(directory)
    holds_model = holds_baseline(directory) or (directory / "config.json").is_file()
    if not keeps_weights(recipe) or (recipe.conditioning in BASELINES and not holds_model):
        raise RunDirectoryError(
            f"is a run of the baseline {recipe.conditioning!r}, of which scores and metrics are kept and no weights",
            fix="Name the run of a method.",
            place=PathPlace(directory),
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
        digests: ``PreparedData.digests``.
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
    theirs, ours = flat_settings(found), flat_settings(recipe)
    differing = [
        f"{name}: {_unlike(theirs.get(name), ours.get(name))}"
        for name in dict.fromkeys((*ours, *theirs))
        if theirs.get(name) != ours.get(name)
    ]
    for name, value in digests.items():
        if resolved_in(folders[0], name) != value:
            differing.append(f"{name}: {_DIGESTS[name]}")
    model = resolved_in(folders[0], "model")
    differing += [
        f"{name}: {_unlike(model[name], value)}"
        for name, value in (model_fields or {}).items()
        if name not in recipe.model and isinstance(model, dict) and model.get(name, value) != value
    ]
    if differing:
        raise ConfigurationError(
            f"holds a run with other settings ({'; '.join(differing)})",
            fix="Give the same settings, another --output, or --overwrite to start again.",
            place=PathPlace(output),
        )


def check_same_devices(output: Path, *, num_devices: int) -> None:
    """Raise unless the interrupted run in this directory shared its steps among as many devices: they are counted.

    Raises:
        ConfigurationError: it had more or fewer; a step would be another number of rows, and the run end elsewhere.
    """
    theirs = resolved_in(output / CHECKPOINTS, "num_devices")
    if theirs is not None and theirs != num_devices:
        raise ConfigurationError(
            f"holds a run that was interrupted on {theirs} devices (processes, GPUs), and here "
            f"are {num_devices}: a step would be of other rows",
            fix="Start it on as many, or give --overwrite to start again.",
            place=PathPlace(output),
        )


def flat_settings(recipe: Recipe) -> dict[str, Any]:
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
