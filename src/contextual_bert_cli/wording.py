"""From Python arguments to options: the library names ``split_by='time'``, a terminal reads ``--split-by time``.

This is the one place that translates. A message of the library carries its settings and needs no option in it.
"""

import re
from collections.abc import Mapping
from functools import cache

# Argument -> option, where the two are not the same word with other hyphens.
_RENAMED: Mapping[str, str] = {
    "date_formats": "--date-format",
    "is_from_scratch": "--from-scratch",
    "is_ordinal": "--ordinal",
    "num_jobs": "--jobs",
    "num_permutations": "--permutations",
    "num_train_epochs": "--epochs",
    "num_workers": "--workers",
    "per_device_train_batch_size": "--batch-size",
    "torch_compile": "--compile",
}
_SAME_WORD = (
    *("answer", "answer_start", "catalogue", "checkpoint", "conditioning", "customer", "delimiter", "device"),
    *("diversity", "drop_items", "drop_prefixes", "dtype", "duplicates", "exclude", "group_by", "guidance"),
    *(
        "hash_buckets",
        "init_from",
        "item",
        "item_vectors",
        "items",
        "keep",
        "label",
        "leaks",
        "learning_rate",
        "longer",
        "lora",
    ),
    *("mask_rate", "masking", "masks_per_set", "max_categories", "max_forward_passes", "max_length", "max_mask_rate"),
    *("max_size", "method", "min_count", "min_size", "on_bad_row", "order", "pair", "patience", "prompt", "question"),
    *("retire_missing_items", "schema", "scored_tokens", "seed", "sensitive", "separator", "shard_size", "split"),
    *("split_by", "split_column", "split_seed", "temperature", "test", "test_data", "text", "time", "trained_weights"),
    *("truncation", "validation", "validation_data"),
)
_OPTIONS: Mapping[str, str] = {**{name: f"--{name.replace('_', '-')}" for name in _SAME_WORD}, **_RENAMED}


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
    """
    from contextual_bert.errors import NAME, in_python

    option = name if name.startswith("--") else _OPTIONS.get(name)
    if option is None:
        taken, is_given = _of_settings().get(name), value is not NAME and value is not ...
        if taken is None or not is_given:
            return in_python(name, value)
        return f"{taken} {name}={_typed(value)}"
    if any(value is each for each in (NAME, ..., True, None)) or value == "" or isinstance(value, Mapping):
        return option
    return f"{option} {_typed(value)}"


def _typed(value: object) -> str:
    """Return a value as it is typed: bare where a shell needs no quotes, lists with commas."""
    from contextual_bert.errors import shown

    if isinstance(value, list | tuple):
        return ",".join(str(each) for each in value)
    is_bare = isinstance(value, str) and re.fullmatch(r"[\w./@:+-]+", value) is not None
    return str(value) if is_bare else shown(value)


@cache
def _of_settings() -> dict[str, str]:
    """Name of a setting -> the option that takes NAME=VALUE; an error of the library has imported it already."""
    from contextual_bert.models import ContextualBertConfig
    from contextual_bert.training import ContextualTrainingArguments

    fields = dict.fromkeys(ContextualBertConfig.__dataclass_fields__, "--model")
    return {**fields, **dict.fromkeys(ContextualTrainingArguments.__dataclass_fields__, "--set")}
