"""JSON as this package writes it: valid after RFC 8259, which has no NaN and no infinity.

Every text of JSON is made here, so that no file, answer or log line holds a number that is none. It knows no file.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from contextual_bert.errors import NonFiniteError

__all__ = ["echoed", "json_text", "without_nonfinite"]


def json_text(
    value: object,
    *,
    indent: int | None = None,
    ensure_ascii: bool = True,
    sort_keys: bool = False,
    separators: tuple[str, str] | None = None,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """Return a value as JSON; the arguments are those of ``json.dumps``.

    Raises:
        NonFiniteError: a number is NaN or infinite, with its path in the value.

    Example:
        >>> json_text({"probability": 0.5})
        '{"probability": 0.5}'
        >>> json_text({"slots": [{"probability": float("nan")}]})
        Traceback (most recent call last):
        contextual_bert.errors.NonFiniteError: slots[0].probability is nan, which JSON cannot hold. Nothing was written.
    """
    try:
        return json.dumps(
            value,
            indent=indent,
            ensure_ascii=ensure_ascii,
            sort_keys=sort_keys,
            separators=separators,
            default=default,
            allow_nan=False,
        )
    except ValueError as error:
        if "float" not in str(error):
            raise
        for path, number in _nonfinite(value, ""):
            raise NonFiniteError(f"{path} is {number}, which JSON cannot hold", fix="Nothing was written.") from None
        raise


def echoed(value: object) -> str:
    """Return a value as JSON to be quoted in a sentence; a number that is none is spelt out, for it is the fault.

    Example:
        >>> echoed({"age": float("inf")})
        '{"age": Infinity}'
    """
    return json.dumps(value, default=str)


def without_nonfinite(value: Any) -> Any:
    """Return the same value with None in place of each number that is NaN or infinite.

    Example:
        >>> without_nonfinite({"low": float("nan"), "values": (1.5, float("inf"))})
        {'low': None, 'values': [1.5, None]}
    """
    if isinstance(value, Mapping):
        return {key: without_nonfinite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nonfinite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _nonfinite(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Path and number of each number that is none, in order."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _nonfinite(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _nonfinite(each, f"{path}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield path or "the value", value
