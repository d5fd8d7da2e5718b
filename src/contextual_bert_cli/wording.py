"""From Python arguments to options: the library names ``split_by='time'``, a terminal reads ``--split-by time``.

This is the one place that translates. A message of the library carries its settings and needs no option in it.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import cast

from contextual_bert_cli.typed_numbers import number_as_typed

# Argument -> option, of what is no field of a recipe.
_OTHERS: Mapping[str, str] = {
    "num_jobs": "--jobs",
    "num_permutations": "--permutations",
    "num_sweeps": "--sweeps",
    "num_workers": "--workers",
    "is_sequence": "--sequences",
    "has_days": "--days-ago",
    "has_counts": "--keep-counts",
    "output_format": "--format",
    "is_document": "--documents",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("baselines", "basket", "catalogue", "diversity", "guidance", "item", "keep", "max_forward_passes"),
            *("budget", "max_history", "max_new_tokens", "method", "min_history", "min_items", "quantity", "repeats"),
            *(
                "session_gap",
                "slot",
                "targets",
                "user",
                "num_beams",
                "num_samples",
                "output",
                "prompt",
                "ray_address",
                "reference",
            ),
            *("resume", "shard_size", "similarity_weight", "temperature", "top_p"),
        )
    },
}
# Arguments that are counted from 0, whose options are counted from 1.
_FROM_ONE = ("slot",)


def in_options(text: str) -> str:
    """Return a text of the library with options in the place of the settings that it names.

    Example:
        >>> from contextual_bert.errors import Message
        >>> in_options(Message("{time} is for a split by time. Give {split_by}, too.", time="day", split_by="time"))
        '--time day is for a split by time. Give --split-by time, too.'
        >>> in_options("split_by='time' is no setting in a plain text")
        "split_by='time' is no setting in a plain text"
    """
    from contextual_bert.errors import spelled

    return spelled(text, option_of)


def option_of(name: str, value: object) -> str:
    """Return a setting as an option of a command, with its value as it is typed.

    Args:
        name: of the argument in Python, or an option as it is.
        value: given for it. ``NAME`` and ``...`` give the option alone.

    Example:
        >>> option_of("split_by", "time"), option_of("time", ...), option_of("is_ordinal", True)
        ('--split-by time', '--time', '--ordinal')
        >>> option_of("exclude", ["age", "sex"]), option_of("hidden_size", 7), option_of("num_customers", 9)
        ('--exclude age,sex', '--model hidden_size=7', 'num_customers=9')
        >>> option_of("slot", 0)
        '--slot 1'
        >>> option_of("training", {"weight_decay": 0.1})
        '--set weight_decay=0.1'
    """
    from contextual_bert.errors import NAME, in_python

    if name in _FROM_ONE and isinstance(value, int):
        value += 1
    option = name if name.startswith("--") else _options().get(name)
    if option is None:
        taken, is_given = _of_settings().get(name), value is not NAME and value is not ...
        if taken is None or not is_given:
            return in_python(name, value)
        return f"{taken} {name}={_typed(value, at=f'{name}=')}"
    if any(value is each for each in (NAME, ..., True, None)) or value == "":
        return option
    if isinstance(value, Mapping):  # NAME=VALUE, one an option
        pairs = cast("Mapping[str, object]", value).items()
        return " ".join(f"{option} {key}={_typed(each, at=f'{key}=')}" for key, each in pairs) or option
    return f"{option} {_typed(value, at=option)}"


@cache
def _options() -> dict[str, str]:
    """Return the option of each argument that has one: of a recipe's fields, and of other commands."""
    from contextual_bert_cli.recipe_options import recipe_options

    return {**_OTHERS, **{each.field: each.flag for each in recipe_options().values()}}


def _typed(value: object, *, at: str = "") -> str:
    """Return a value as it is typed: bare where a shell needs no quotes, lists with commas."""
    from contextual_bert.errors import shown

    if isinstance(value, list | tuple):
        return ",".join(str(each) for each in value)
    if isinstance(value, bool | None):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return number_as_typed(value, at=at)
    is_bare = isinstance(value, str) and re.fullmatch(r"[\w./@:+-]+", value) is not None
    return str(value) if is_bare else shown(value)


@cache
def _of_settings() -> dict[str, str]:
    """Name of a setting -> the option that takes NAME=VALUE."""
    from contextual_bert.conditioning.registry import METHODS
    from contextual_bert.models.truncation import SEGMENT_FIELDS
    from contextual_bert.training.target_texts import DECODER_FIELDS
    from contextual_bert.training.task_settings import ALL_FIELDS, NEW_FIELDS, SET_FIELDS, TEXT_FIELDS, WORD_FIELDS
    from contextual_bert.training.trainer_fields import trainer_fields

    of_methods = [setting for method in METHODS for setting in METHODS.settings_of(method)]
    of_heads = (*SET_FIELDS, *TEXT_FIELDS, *WORD_FIELDS, *DECODER_FIELDS, *SEGMENT_FIELDS)
    fields = (*ALL_FIELDS, *NEW_FIELDS, *of_heads, *of_methods)
    return {**dict.fromkeys(fields, "--model"), **dict.fromkeys(trainer_fields(), "--set")}
