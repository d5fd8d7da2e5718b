"""Check the settings of a recipe when it is made: each value by itself, and those that go together."""

import re
from typing import cast

from contextual_bert import data, evaluation  # they import numpy when used: a value that is not allowed comes first
from contextual_bert.baselines.names import BASELINES
from contextual_bert.conditioning.registry import METHODS
from contextual_bert.errors import NAME, ConfigurationError, Message, UnknownNameError, did_you_mean
from contextual_bert.options import check_declared
from contextual_bert.places import SettingPlace
from contextual_bert.training.presets import check_task_of_preset, get_preset
from contextual_bert.training.private_settings import check_private_recipe
from contextual_bert.training.recipe import (
    BEST_METRIC,
    READY_PARTS,
    SPLIT_FIELDS,
    Recipe,
)
from contextual_bert.training.setting_checks import check_fields, check_lora, check_settings
from contextual_bert.training.task_settings import TaskSettings


def check_recipe_settings(recipe: Recipe) -> None:
    """Raise ConfigurationError or UnknownNameError for a setting of a recipe that cannot work.

    Args:
        recipe: as it is made; it reads no data.
    """
    check_declared(recipe)
    if not isinstance(cast(object, recipe.task), TaskSettings):
        raise ConfigurationError(
            "is no task",
            setting="task",
            value=recipe.task,
            fix="Give one, such as SetCompletion(items='items').",
        )
    _check_preset(recipe)
    check_conditioning(recipe.conditioning, task=recipe.task)
    check_settings(recipe.training)
    check_fields(recipe.model, task=recipe.task)
    recipe.task.check_recipe(
        customer=recipe.customer,
        item_vectors=recipe.item_vectors,
        training=recipe.training,
        trained_weights=recipe.trained_weights,
    )
    lost = [name for name, default in SPLIT_FIELDS.items() if getattr(recipe, name) != default]
    _check_parts(recipe, lost)
    data.check_fractions(recipe.validation, recipe.test)
    _check_best_epoch(recipe)
    check_private_recipe(recipe)
    if recipe.split is not None and lost:
        raise ConfigurationError(
            Message("says how a split is made, and {split} names one that is", split=recipe.split),
            setting=lost[0],
            value=getattr(recipe, lost[0]),
            fix="Give one of them.",
        )
    if recipe.split_by == "customer" and recipe.customer is None:
        raise ConfigurationError(
            "needs the customer column",
            setting="split_by",
            value="customer",
            fix=Message("Name it with {customer}.", customer=...),
        )
    if recipe.split_by == "time" and recipe.time is None:
        raise ConfigurationError(
            "needs the time column", setting="split_by", value="time", fix=Message("Name it with {time}.", time=...)
        )
    if recipe.time is not None and recipe.split_by != "time":
        raise ConfigurationError(
            "is for a split by time",
            setting="time",
            value=recipe.time,
            fix=Message("Give {split_by}, too, or leave it out.", split_by="time"),
        )
    if recipe.item_vectors is not None:
        start = recipe.task.run_to_start_from
        if start is not None:
            raise ConfigurationError(
                f"is for a new model, and this one starts from {start}, whose vectors are kept",
                setting="item_vectors",
                value=recipe.item_vectors,
                fix="Leave one of the two out.",
            )
    both = [name for name in recipe.sensitive if name in recipe.exclude]
    if both:
        raise ConfigurationError(
            Message(f"names {both[0]!r}, which {{exclude}} leaves out", exclude=NAME),
            setting="sensitive",
            value=(both[0],),
            fix="Leave one of the two out.",
        )
    if recipe.lora and recipe.trained_weights != "lora":
        raise ConfigurationError(
            Message(f"needs {{trained_weights}}, and it is {recipe.trained_weights!r}", trained_weights="lora"),
            setting="lora",
            value=dict(recipe.lora),
            fix="Leave one of the two out.",
        )
    check_lora(recipe.lora)
    if recipe.name is not None and not re.fullmatch(r"\w[\w.-]*", recipe.name):
        raise ConfigurationError(
            "names a folder", setting="name", value=recipe.name, fix="Give letters, digits, '_', '-' and '.'."
        )


def _check_preset(recipe: Recipe) -> None:
    """Raise ConfigurationError where a recipe contradicts its preset: another task, or another method."""
    if recipe.preset is None:
        if recipe.preset_settings is not None:
            raise ConfigurationError(
                Message("says what a preset gave, and {preset} names none", preset=None),
                setting="preset_settings",
                fix="Leave it out.",
            )
        return
    preset = get_preset(recipe.preset)
    check_task_of_preset(recipe.preset, kind=recipe.task.kind, noun=recipe.task.noun)
    if recipe.conditioning != preset.conditioning:
        raise ConfigurationError(
            Message(
                f"is {preset.conditioning}, and {{conditioning}} is another method", conditioning=recipe.conditioning
            ),
            setting="preset",
            value=recipe.preset,
            fix="Leave one of the two out.",
        )


def check_conditioning(name: str, *, task: TaskSettings) -> None:
    """Raise UnknownNameError unless ``name`` is a method, or a baseline for such a task.

    Raises:
        ConfigurationError: a method with a context, where nothing reads one.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> check_conditioning("global_state", task=SetCompletion(items="items"))
    """
    known = [*METHODS, *task.baselines]
    if name not in known:
        of_others = f"is no baseline for {task.noun}" if task.baselines else f"is a baseline; {task.noun} have none"
        problem = of_others if name in BASELINES else "is unknown"
        allowed = did_you_mean(str(name), known)
        raise UnknownNameError(problem, place=SettingPlace("conditioning"), value=name, allowed=allowed)
    if not task.reads_context and name != "none":
        raise ConfigurationError(
            f"reads a context, and no model of {task.noun} does",
            setting="conditioning",
            value=name,
            fix=Message("Give {conditioning}.", conditioning="none"),
        )


def _check_best_epoch(recipe: Recipe) -> None:
    """Raise where the best epoch is to be chosen by what is not there, or by a metric of something else."""
    asked = {"patience": recipe.patience, BEST_METRIC: recipe.training.get(BEST_METRIC)}
    for name, value in asked.items():
        if value is not None and not recipe.has_validation:
            gives = recipe.preset_settings or {}
            # Of what a preset gave, its own name is what somebody typed.
            blamed = "preset" if name in {**gives, **gives.get("training", {})} else name
            raise ConfigurationError(
                Message("chooses an epoch by the validation part, and {validation} leaves none", validation=0),
                setting=blamed,
                value=recipe.preset if blamed == "preset" else value,
                fix=Message(
                    f"Give {{validation}} a share above 0, or leave {{{blamed}}} out.",
                    **{"validation": NAME, blamed: NAME},
                ),
            )
    metric = asked[BEST_METRIC]
    if not isinstance(metric, str) or metric.removeprefix("eval_") == "loss":
        return
    key = evaluation.metric_key(metric).removeprefix("eval_")
    known = recipe.task.metrics
    if key not in known and not re.fullmatch(r"recall_at_\d+_percent", key):
        raise UnknownNameError(
            "is unknown", place=SettingPlace(BEST_METRIC), value=metric, allowed=did_you_mean(metric, known)
        )


def _check_parts(recipe: Recipe, lost: list[str]) -> None:
    """Raise ConfigurationError where two settings say which rows are which part."""
    ready = {name: getattr(recipe, name) for name in READY_PARTS if getattr(recipe, name) is not None}
    if recipe.split is not None and ready:
        name, value = next(iter(ready.items()))
        raise ConfigurationError(
            Message(f"and {{{name}}} both say which rows are which part", **{name: value}),
            setting="split",
            value=recipe.split,
            fix="Give one of them.",
        )
    if recipe.split_column is not None:
        others = [name for name in (*ready, *lost) if name != "split_column"]
        if others:
            raise ConfigurationError(
                Message(
                    f"says the part of each row, and {{{others[0]}}} says how parts are made",
                    **{others[0]: getattr(recipe, others[0])},
                ),
                setting="split_column",
                value=recipe.split_column,
                fix="Give one of them.",
            )
        if recipe.split_column in (*recipe.task.columns, recipe.customer):
            raise ConfigurationError(
                "is a column of something else, too",
                setting="split_column",
                value=recipe.split_column,
                fix="Give each its own.",
            )
    for part, name in (("validation", "validation_data"), ("test", "test_data")):
        if name in ready and part in lost:
            raise ConfigurationError(
                Message(f"is the {part} part, and {{{part}}} would draw another", **{part: getattr(recipe, part)}),
                setting=name,
                value=ready[name],
                fix="Give one of them.",
            )
    seen = {recipe.data: "the training part"}
    for name in ("validation_data", "test_data"):
        if name in ready and ready[name] in seen:
            problem = f"is the file of {seen[ready[name]]}, too"
            raise ConfigurationError(problem, setting=name, value=ready[name], fix="Give each part its own.")
        if name in ready:
            seen[ready[name]] = f"the {name.removesuffix('_data')} part"
