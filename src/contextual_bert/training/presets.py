"""Presets: settings of a paper, as data. A preset gives each setting that nobody gave, and no code knows a preset.

The command line makes its help of ``PRESETS``. Imports nothing heavy, for the sake of ``--help``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from contextual_bert.errors import ConfigurationError, Message, UnknownNameError, did_you_mean
from contextual_bert.places import SettingPlace

PresetName = Literal["ma-bert"]
_NESTED = ("model", "training")  # settings that are mappings: each of their keys is given, or not, by itself
# What a schema that is given has decided.
_OF_SCHEMA = ("min_customers", "max_categories", "hash_buckets")
_MANY_VALUES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings of a paper.

    Args:
        paper: what they are the setting of.
        kind: of the task that they are for.
        task: field of that task -> value.
        recipe: field of a recipe -> value. ``model`` and ``training`` are mappings there.
        num_seeds: runs whose mean the paper reports.

    Example:
        >>> PRESETS["ma-bert"].recipe["patience"], PRESETS["ma-bert"].num_seeds
        (3, 5)
    """

    paper: str
    kind: str
    task: Mapping[str, Any]
    recipe: Mapping[str, Any]
    num_seeds: int

    @property
    def conditioning(self) -> str:
        """Return the method, without which a run is not that of the paper."""
        return str(self.recipe["conditioning"])

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return field -> value, of the task and of the recipe."""
        return {**self.task, **self.recipe}


PRESETS: Mapping[str, Preset] = {
    "ma-bert": Preset(
        paper="MA-BERT (Zhang et al., 2021)",
        kind="classification",
        num_seeds=5,  # Table 1: "averaged over five runs"
        task={
            "checkpoint": "bert-base-uncased",  # section 3
            # The paper is silent on long texts. The authors' code keeps 128 and 382 of 510 tokens.
            "truncation": "head_tail",
            "label_start": "random",  # section 2.2: a linear projection and softmax, no more is said
        },
        recipe={
            "conditioning": "multi_attribute",  # section 3: 6 MA-Transformer encoders, the method's own number
            # All users and products have a vector. The authors' code counts those of all parts.
            "min_customers": 1,
            "max_categories": _MANY_VALUES,
            "hash_buckets": 0,
            "field_selection": "off",
            "patience": 3,  # section 3
            "model": {
                "attribute_start": "paper",  # section 3: U(-0.25, 0.25)
                "attribute_width": "model",  # section 3: 768
                "attribute_act": "relu",  # section 2.2; the authors' code has GELU
                "has_attribute_values": True,  # equation 6
                "classifier_pooling": "first",  # section 2.2: h_[CLS]; the authors' code has a pooler
            },
            "training": {
                # Section 3: AdamW, a base rate of 2e-5 for all weights, linear with warm-up.
                "learning_rate": 2e-5,
                "new_weights_learning_rate": None,
                "context_learning_rate": None,
                "lr_scheduler_type": "linear",
                # Of these the paper is silent. They are those of the authors' code.
                "warmup_steps": 0.1,
                "num_train_epochs": 20,
                "per_device_train_batch_size": 16,
                "weight_decay": 0.01,
                "metric_for_best_model": "accuracy",
            },
        },
    ),
}


def get_preset(name: object) -> Preset:
    """Return the preset of a name.

    Raises:
        UnknownNameError: there is none; the message names those that are known.

    Example:
        >>> get_preset("ma-bert").conditioning
        'multi_attribute'
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise UnknownNameError(
            "is unknown", place=SettingPlace("preset"), value=name, allowed=did_you_mean(str(name), PRESETS)
        )
    return PRESETS[name]


def settings_of_preset(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a preset gives beside settings that somebody gave: field of a recipe or its task -> value.

    Args:
        name: of the preset.
        given: field -> value. Of ``model`` and ``training`` each key counts by itself.

    Raises:
        UnknownNameError: no preset is called so.

    Example:
        >>> gives = settings_of_preset("ma-bert", {"patience": 5, "training": {"num_train_epochs": 2}})
        >>> "patience" in gives, "num_train_epochs" in gives["training"], gives["training"]["learning_rate"]
        (False, False, 2e-05)
    """
    known = (*given, *(_OF_SCHEMA if given.get("schema") is not None else ()))
    gives: dict[str, Any] = {}
    for field, value in get_preset(name).settings.items():
        if field in _NESTED:
            theirs = cast("Mapping[str, Any]", given.get(field) or {})
            value = {key: each for key, each in value.items() if key not in theirs}
        elif field in known:
            continue
        gives[field] = value
    return gives


def with_preset(record: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """Return a recipe's record, in which what stands was given, with what a preset gives beside it.

    Args:
        record: field -> value, the task's under ``task``. A task of another kind than the preset's stays as it is.
        name: of the preset.

    Raises:
        UnknownNameError: no preset is called so.

    Example:
        >>> task = {"kind": "classification", "label": "stars", "truncation": "head"}
        >>> found = with_preset({"task": task, "patience": 5}, name="ma-bert")
        >>> found["task"]["truncation"], found["patience"], found["conditioning"]
        ('head', 5, 'multi_attribute')
    """
    preset, task = get_preset(name), record.get("task")
    if not isinstance(task, Mapping) or cast("Mapping[str, Any]", task).get("kind") != preset.kind:
        return {**record, "preset": name, "preset_settings": {}}
    of_task = dict(cast("Mapping[str, Any]", task))
    gives = settings_of_preset(name, {**record, **of_task})
    whole: dict[str, Any] = {**record, "task": of_task, "preset": name, "preset_settings": gives}
    for field, value in gives.items():
        if field in preset.task:
            of_task[field] = value
        else:
            whole[field] = {**value, **(whole.get(field) or {})} if field in _NESTED else value
    return whole


def check_task_of_preset(name: str, *, kind: str, noun: str) -> None:
    """Raise ConfigurationError where a preset is for another task.

    Args:
        name: of the preset.
        kind: of the task that is asked for.
        noun: what that learns, in words.

    Example:
        >>> check_task_of_preset("ma-bert", kind="classification", noun="labels of texts")
    """
    if kind != get_preset(name).kind:
        raise ConfigurationError(
            f"learns one label for each text, and this is for {noun}",
            setting="preset",
            value=name,
            fix=Message("Name texts and their labels with {text} and {label}, or leave it out.", text=..., label=...),
        )


def preset_help(name: str) -> str:
    """Return what a preset sets, as options of the command line.

    Example:
        >>> preset_help("ma-bert")[:66]
        'ma-bert is MA-BERT (Zhang et al., 2021): --checkpoint bert-base-un'
    """
    preset = PRESETS[name]
    return f"{name} is {preset.paper}: {in_flags(preset.settings)}; of compare --seeds {preset.num_seeds}"


def in_flags(settings: Mapping[str, Any]) -> str:
    """Return settings of a recipe as options of the command line.

    Example:
        >>> in_flags({"hash_buckets": 0, "model": {"attribute_start": "paper"}, "training": {"weight_decay": None}})
        '--hash-buckets 0, --model attribute_start=paper, --set weight_decay=null'
    """
    flags: list[str] = []
    for field, value in settings.items():
        if field in _NESTED:
            option = "--model" if field == "model" else "--set"
            flags += [f"{option} {key}={_typed(each)}" for key, each in value.items()]
        else:
            flags.append(f"--{field.replace('_', '-')} {_typed(value)}")
    return ", ".join(flags)


def _typed(value: object) -> str:
    return {None: "null", True: "true", False: "false"}[value] if isinstance(value, bool | None) else str(value)


def changed_fields(settings: Any) -> dict[str, Any]:
    """Return field -> value of a dataclass, of the fields that differ from their defaults.

    Example:
        >>> changed_fields(Preset(paper="None", kind="tagging", task={}, recipe={}, num_seeds=1))["kind"]
        'tagging'
    """
    own = {each.name: getattr(settings, each.name) for each in fields(settings) if each.init}
    return {each.name: own[each.name] for each in fields(settings) if each.init and own[each.name] != each.default}
