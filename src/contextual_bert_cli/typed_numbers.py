"""Numbers of a command line as they were typed, for messages on them."""

import math
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import pairwise

_MOST_WHOLE = 1e15  # up to here a whole number of a float is exact and short
# What was typed: numbers are named as they stand there, "-1" and not the "-1.0" that it is read as.
_TYPED_WORDS: ContextVar[tuple[str, ...]] = ContextVar("typed words", default=())


def remember_typed(words: Sequence[str]) -> None:
    """Keep the words of a command line, for messages on the numbers in it."""
    _TYPED_WORDS.set(tuple(words))


def number_as_typed(value: float, *, at: str = "") -> str:
    """Return a number as it was typed, else as people type it: whole ones without decimals, each digit of the others.

    Args:
        value: the number.
        at: the option, or the beginning of ``NAME=VALUE``, behind which it may have been typed.

    Example:
        >>> number_as_typed(-1.0), number_as_typed(2e-5), number_as_typed(0.12345678)
        ('-1', '2e-05', '0.12345678')
    """
    words, joint = _TYPED_WORDS.get(), f"{at.removesuffix('=')}="
    behind = [word for before, word in pairwise(words) if before == at]
    for word in (*behind, *(word.removeprefix(joint) for word in words if at and word.startswith(joint))):
        try:
            is_it = float(word) == value or (math.isnan(value) and math.isnan(float(word)))
        except ValueError:
            continue
        if is_it:
            return word
    return str(int(value)) if float(value).is_integer() and abs(value) < _MOST_WHOLE else repr(value)
