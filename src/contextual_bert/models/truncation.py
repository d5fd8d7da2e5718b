"""Name what is kept of a text that is too long, and how it is read in segments, without importing torch."""

from typing import Literal, get_args

from contextual_bert.errors import ConfigurationError

Truncation = Literal["head", "head_tail"]
# Fields of ContextualBertConfig that say how a text is read in segments.
SEGMENT_FIELDS = ("segment_length", "segment_overlap", "num_segment_layers")


def check_truncation(truncation: str) -> None:
    """Raise ConfigurationError unless it is one.

    Example:
        >>> check_truncation("head")
    """
    if truncation not in get_args(Truncation):
        raise ConfigurationError(
            "is not allowed", setting="truncation", value=truncation, fix="Give 'head' or 'head_tail'."
        )
