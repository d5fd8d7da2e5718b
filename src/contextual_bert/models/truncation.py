"""Name what is kept of a text that is too long, without importing torch."""

from typing import Literal, get_args

from contextual_bert.errors import ConfigurationError

Truncation = Literal["head", "head_tail"]


def check_truncation(truncation: str) -> None:
    """Raise ConfigurationError unless it is one.

    Example:
        >>> check_truncation("head")
    """
    if truncation not in get_args(Truncation):
        raise ConfigurationError(
            "is not allowed", setting="truncation", value=truncation, fix="Give 'head' or 'head_tail'."
        )
