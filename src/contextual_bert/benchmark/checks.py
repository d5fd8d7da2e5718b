"""What is checked before a run starts: its method, its directory, and that what is gone on with is the same run.

A mistake must cost seconds and not the reading of a large table, and no run may be mixed with another. Trains nothing.
"""

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contextual_bert.benchmark.run_files import (
    CHECKPOINTS,
    HISTORY_FILE,
    LABELS_FILE,
    METRICS_FILE,
    SCORES_FILE,
    TENSORBOARD,
    is_complete,
    last_checkpoint,
)
from contextual_bert.conditioning import METHODS
from contextual_bert.errors import ConfigurationError, RunDirectoryError, UnknownNameError, did_you_mean
from contextual_bert.training.adaptation import required_peft
from contextual_bert.training.recipe import RECIPE_FILE, Recipe

PAPER_METHODS = ("none", "concat", "new_position", "global_state", "global_state_update")
# Baseline -> what it sees; the first two are for sets and texts, those of TAG_BASELINES can label the words of a text.
POPULARITY: Mapping[str, frozenset[str]] = {
    "popularity": frozenset(),
    "context_popularity": frozenset({"context"}),
}
SET_BASELINES: Mapping[str, frozenset[str]] = {
    **POPULARITY,
    "bag": frozenset({"items"}),
    "bag_context": frozenset({"items", "context"}),
}
TAG_BASELINES: Mapping[str, frozenset[str]] = {
    "bilstm": frozenset({"items"}),
    "bilstm_context": frozenset({"items", "context"}),
    "bilstm_crf": frozenset({"items"}),
    "bilstm_crf_context": frozenset({"items", "context"}),
}
TEXT_BASELINES: Mapping[str, frozenset[str]] = {
    **POPULARITY,
    "ngrams": frozenset({"items"}),
    "ngrams_context": frozenset({"items", "context"}),
    "cnn": frozenset({"items"}),
    "cnn_context": frozenset({"items", "context"}),
    **TAG_BASELINES,
    "bert_concat_text": frozenset({"items", "context"}),
    "bert_concat_word": frozenset({"items", "context"}),
}
BASELINES: Mapping[str, frozenset[str]] = {**SET_BASELINES, **TEXT_BASELINES}
# Baseline -> the fields of a model's config that it reads, where it reads any.
_OF_BASELINES: Mapping[str, frozenset[str]] = {
    "bert_concat_text": frozenset({"classifier_pooling"}),
    "bert_concat_word": frozenset({"classifier_pooling", "num_extra_layers"}),
}
_OF_MULTI_ATTRIBUTE = frozenset({"attribute_start", "has_attribute_values"})
MODEL_FILES = ("config.json", "model.safetensors", "README.md")
RUN_FILES = (
    METRICS_FILE,  # first, so that a directory that is half cleared is not taken for a run
    SCORES_FILE,
    LABELS_FILE,
    HISTORY_FILE,
    *MODEL_FILES,
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
_FREE = ("data", "split", "device")


def check_conditioning(name: str) -> None:
    """Raise UnknownNameError unless ``name`` is a method or a baseline.

    Example:
        >>> check_conditioning("global_state")
    """
    if name not in (*METHODS, *BASELINES):
        raise UnknownNameError(f"Unknown conditioning {name!r}. {did_you_mean(name, [*METHODS, *BASELINES])}")


def check_kind(recipe: Recipe) -> None:
    """Raise ConfigurationError where a baseline is asked for what it cannot do, or LoRA without its package.

    A baseline for texts is none for sets, one for sets none for texts, and none has a BERT of which a part is trained;
    nor does a rate hold for weights that are not there, or a field of a model's config for what reads none.
    """
    own, kind = (SET_BASELINES, "sets of items") if recipe.texts is None else (TEXT_BASELINES, "texts")
    if recipe.conditioning in BASELINES and recipe.conditioning not in own:
        raise ConfigurationError(f"{recipe.conditioning!r} is no baseline for {kind}. Allowed: {', '.join(own)}.")
    if recipe.conditioning in BASELINES and recipe.trained_weights != "all":
        raise ConfigurationError(
            f"trained_weights={recipe.trained_weights!r} says what of a BERT is trained, and {recipe.conditioning!r} "
            "is a baseline, which trains all that is its own. Leave it out."
        )
    for name in recipe.training.keys() - training_of(recipe.conditioning, recipe.training).keys():
        raise ConfigurationError(
            f"{name}={recipe.training[name]} is for weights that {recipe.conditioning!r} does not have. Leave it out."
        )
    for name in recipe.model.keys() - model_of(recipe.conditioning, recipe.model).keys():
        raise ConfigurationError(
            f"{name}={recipe.model[name]}: {recipe.conditioning!r} does not read this field of a model's config. "
            "Leave it out."
        )
    if recipe.trained_weights == "lora":
        required_peft()


def training_of(conditioning: str, training: Mapping[str, Any]) -> dict[str, Any]:
    """Of the settings of a whole comparison those that hold for this row of it: no rate for weights that it lacks.

    ``none`` has no weights that read a context, and a baseline none beside new ones.

    Example:
        >>> training_of("none", {"learning_rate": 3e-4, "context_learning_rate": 1e-4})
        {'learning_rate': 0.0003}
    """
    absent = {
        "context_learning_rate": conditioning == "none" or conditioning in BASELINES,
        "new_weights_learning_rate": conditioning in BASELINES,
    }
    return {name: value for name, value in training.items() if not absent.get(name, False)}


def model_of(conditioning: str, model: Mapping[str, Any]) -> dict[str, Any]:
    """Of the model's fields of a whole comparison those that this row of it reads: a baseline hardly any, and only
    ``multi_attribute`` where its vectors start.

    Example:
        >>> model_of("bag", {"hidden_size": 256}), model_of("none", {"hidden_size": 256})
        ({}, {'hidden_size': 256})
    """
    if conditioning in BASELINES:
        read = _OF_BASELINES.get(conditioning, frozenset())
    else:
        read = model.keys() - (_OF_MULTI_ATTRIBUTE if conditioning != "multi_attribute" else frozenset())
    return {name: value for name, value in model.items() if name in read}


def checked_epochs(epochs: int) -> int:
    """The epochs of a study; raises ConfigurationError for less than one.

    Example:
        >>> checked_epochs(3)
        3
    """
    if epochs < 1:
        raise ConfigurationError(f"epochs={epochs}: give 1 or more.")
    return epochs


def check_study(recipes: Sequence[Recipe], *, reference: str, others: Sequence[str] = ()) -> None:
    """Raise unless every method of a comparison is known and the reference is one of them."""
    for recipe in recipes:
        check_conditioning(recipe.conditioning)
        check_kind(recipe)
    names = [*dict.fromkeys(recipe.label for recipe in recipes), *others]
    if reference not in names:
        raise UnknownNameError(
            f"The reference {reference!r} is not among what is compared. {did_you_mean(reference, names)}"
        )


def checkpoint_to_resume(output: Path, *, is_resumed: bool) -> Path | None:
    """The checkpoint that a run in this directory starts from, None for a new run.

    Raises:
        ConfigurationError: the directory holds a run, an interrupted run that was not asked for, or other files.
    """
    if is_complete(output):
        raise ConfigurationError(f"{output} holds a complete run. Give another --output, or --overwrite to replace it.")
    checkpoint = last_checkpoint(output)
    if checkpoint is not None and not is_resumed:
        raise ConfigurationError(
            f"{output} holds an interrupted run. Give --resume to go on with it, or --overwrite to start again."
        )
    foreign = [name for name in MODEL_FILES if (output / name).exists()]
    if foreign and not is_run(output):
        raise ConfigurationError(
            f"{output} is no run directory and holds {', '.join(foreign)}, which a run would replace. "
            "Give another --output."
        )
    return checkpoint


def is_run(directory: Path) -> bool:
    """Whether this is the directory of a run, complete or not."""
    return (directory / RECIPE_FILE).is_file() or (directory / CHECKPOINTS).is_dir()


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
        RunDirectoryError: no run directory, an interrupted run, or a baseline, of which no weights are kept.
    """
    if not is_complete(directory) and (directory / CHECKPOINTS).is_dir():
        raise RunDirectoryError(
            f"{directory} holds an interrupted run: go on with contextual-bert train ... --output {directory} --resume."
        )
    recipe = Recipe.load(directory)
    if recipe.conditioning in BASELINES:
        raise RunDirectoryError(
            f"{directory} is a run of the baseline {recipe.conditioning!r}, of which scores and metrics are kept and "
            "no weights. Name the run of a method."
        )
    return recipe


def remember_recipe(output: Path, recipe: Recipe, *, split_digest: str) -> None:
    """Write the recipe beside the checkpoints, so that a resumed run can be compared with it."""
    folder = output / CHECKPOINTS
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{RECIPE_FILE}.{os.getpid()}"
    try:
        partial.write_text(
            json.dumps({"recipe": recipe.to_dict(), "resolved": {"split_digest": split_digest}}) + "\n",
            encoding="utf-8",
        )
        partial.replace(folder / RECIPE_FILE)
    finally:
        partial.unlink(missing_ok=True)


def check_same_recipe(recipe: Recipe, output: Path, *, split_digest: str) -> None:
    """Raise unless the run in this directory, complete or interrupted, has the same recipe, table and split.

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
    theirs, ours = _plain(found), _plain(recipe)
    differing = [
        f"{name}: {_shown(theirs.get(name))} there, {_shown(ours.get(name))} here"
        for name in dict.fromkeys((*ours, *theirs))
        if theirs.get(name) != ours.get(name)
    ]
    if _split_digest(folders[0]) != split_digest:
        differing.append("split_digest: another table or another split")
    if differing:
        raise ConfigurationError(
            f"{output} holds a run with other settings ({'; '.join(differing)}). "
            "Give the same settings, another --output, or --overwrite to start again."
        )


def _split_digest(folder: Path) -> str | None:
    """The hash of split and table that stands beside a recipe."""
    return json.loads((folder / RECIPE_FILE).read_text(encoding="utf-8")).get("resolved", {}).get("split_digest")


def _plain(recipe: Recipe) -> dict[str, Any]:
    """Setting -> value, those of the trainer, the model and the policy one by one."""
    content = json.loads(json.dumps(replace(recipe, **dict.fromkeys(_FREE, "")).to_dict(), default=str))
    nested = {name: content.pop(name) or {} for name in ("training", "model", "policy", "texts", "lora")}
    return content | {f"{group}.{name}": value for group, values in nested.items() for name, value in values.items()}


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
