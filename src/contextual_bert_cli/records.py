"""JSON objects that a person types: the context of a query."""

import json
from typing import Any


def read_context(text: str | None) -> dict[str, Any]:
    """The record of --context.

    Raises:
        ConfigurationError: no JSON object.
    """
    return record_of(text, place="--context") if text is not None else {}


def record_of(text: str, *, place: str) -> dict[str, Any]:
    """A JSON object; the place of a fault is named with line and column.

    Raises:
        ConfigurationError: something else.
    """
    from contextual_bert.errors import ConfigurationError

    def refuse(constant: str) -> None:
        raise ConfigurationError(
            f"{place}: {constant} is no JSON value. Leave the feature out if its value is missing."
        )

    try:
        found = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 10) : error.pos + 10]
        raise ConfigurationError(
            f"{place} is not valid JSON at line {error.lineno}, column {error.colno}, near {near!r}: {error.msg}. "
            """Names and text stand in double quotes, all of it in single ones: '{"age": 34, "weekday": "Sunday"}'."""
        ) from error
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{place} has {error.object[error.start]!a}, half of a character: give both of its halves."
        ) from error
    if not isinstance(found, dict):
        raise ConfigurationError(f'{place} is {text!r:.60}: give a JSON object, such as {{"age": 34}}.')
    return found
