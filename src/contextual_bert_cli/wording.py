"""From Python arguments to options: the library names ``split_by='time'``, a terminal reads ``--split-by time``.

This is the one place that translates. A library's message needs no option's name in it.
"""

import ast
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

# Argument -> option, where the two are not the same word with other hyphens.
_RENAMED: Mapping[str, str] = {
    "is_from_scratch": "--from-scratch",
    "is_ordinal": "--ordinal",
    "num_permutations": "--permutations",
    "num_train_epochs": "--epochs",
    "per_device_train_batch_size": "--batch-size",
    "torch_compile": "--compile",
}
_SAME_WORD = (
    *("answer", "answer_start", "checkpoint", "conditioning", "customer", "device", "drop_items", "drop_prefixes"),
    *("dtype", "duplicates", "exclude", "init_from", "item_vectors", "items", "label", "learning_rate", "longer"),
    *("lora", "mask_rate", "masking", "masks_per_set", "max_length", "max_mask_rate", "max_size", "min_count"),
    *("min_size", "order", "pair", "patience", "question", "retire_missing_items", "schema", "scored_tokens", "seed"),
    *("separator", "split", "split_by", "split_column", "split_seed", "test", "test_data", "text", "time"),
    *("trained_weights", "truncation", "validation", "validation_data"),
)
_OPTIONS: Mapping[str, str] = {**{name: f"--{name.replace('_', '-')}" for name in _SAME_WORD}, **_RENAMED}
# Not in quotes, not of an object or a call in Python, not what an option takes already.
_BEFORE = r"(?<![\w.'\"`-])(?<!\w\()(?<!--set )(?<!--model )(?<!--lora )"
_VALUE = r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|\.\.\.|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\w+"
_ASSIGNED = re.compile(rf"{_BEFORE}(?P<name>[a-z]\w*)=(?P<value>{_VALUE})(?: \(--[^)]*\))?")
_NAMED = re.compile(rf"{_BEFORE}(?P<name>[a-z]+_\w+)(?![\w='\"`(])(?: \(--[^)]*\))?")


def in_options(text: str) -> str:
    """Return a message of the library with options in the place of Python arguments.

    Example:
        >>> in_options("time='day' is for a split by time. Give split_by='time', too.")
        '--time day is for a split by time. Give --split-by time, too.'
        >>> in_options("weight_decay='x': give a number; min_count=0: give 1 or more.")
        '--set weight_decay=x: give a number; --min-count 0: give 1 or more.'
    """
    return _NAMED.sub(_bare, _ASSIGNED.sub(_assignment, text))


def option_of(name: str, value: object) -> str:
    """Return a setting as an option of a command, with its value as it is typed.

    Example:
        >>> option_of("split_by", "time"), option_of("time", ...), option_of("is_ordinal", True)
        ('--split-by time', '--time', '--ordinal')
    """
    from contextual_bert.errors import NAME, in_python, shown

    option = _OPTIONS.get(name)
    if option is None:
        taken = _of_settings().get(name)
        return in_python(name, value) if taken is None else f"{taken} {in_python(name, value)}"
    if any(value is each for each in (NAME, ..., True, None)) or value == "" or isinstance(value, Mapping):
        return option
    if isinstance(value, list | tuple):
        return f"{option} {','.join(map(str, value))}"
    is_bare = isinstance(value, str) and re.fullmatch(r"[\w./@:+-]+", value) is not None
    return f"{option} {value if is_bare else shown(value)}"


def _assignment(found: re.Match[str]) -> str:
    name, value = found["name"], _plain(found["value"])
    if name in _OPTIONS:
        return _OPTIONS[name] if value in ("", "True", "None") else f"{_OPTIONS[name]} {value}"
    option = _of_settings().get(name)
    return f"{option} {name}={value}" if option is not None else found[0]


def _bare(found: re.Match[str]) -> str:
    return _OPTIONS.get(found["name"], found[0])


def _plain(value: str) -> str:
    """A value as it is typed: without quotes, lists with commas; of settings of their own nothing."""
    if value == "...":
        return ""
    try:
        read: Any = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if isinstance(read, list | tuple):
        return ",".join(str(each) for each in read)
    if isinstance(read, dict):
        return ""
    if isinstance(read, str) and not re.fullmatch(r"[\w./@:+-]+", read):
        return value
    return str(read)


@cache
def _of_settings() -> dict[str, str]:
    """Name of a setting -> the option that takes NAME=VALUE; an error of the library has imported it already."""
    from contextual_bert.models import ContextualBertConfig
    from contextual_bert.training import ContextualTrainingArguments

    fields = dict.fromkeys(ContextualBertConfig.__dataclass_fields__, "--model")
    return {**fields, **dict.fromkeys(ContextualTrainingArguments.__dataclass_fields__, "--set")}
