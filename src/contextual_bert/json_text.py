"""JSON as this package reads and writes it: one kind of error for what is wrong, and only valid texts.

RFC 8259 has no NaN and no infinity. Every text of JSON is made here, so that no file, answer or log line holds a
number that is none.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from contextual_bert.errors import ConfigurationError, ContextualBertError, NonFiniteError, RunDirectoryError
from contextual_bert.places import PathPlace


def parse_json(
    text: str,
    *,
    place: str,
    error: type[ContextualBertError] = RunDirectoryError,
    fix: str = "",
    has_unique_keys: bool = False,
) -> Any:
    """Return the value of a JSON text.

    Args:
        text: what was read.
        place: the file or option that it comes from.
        error: class of what is raised.
        fix: what to do next, as a sentence.
        has_unique_keys: whether a key that an object has twice is an error; JSON takes the last of the two.

    Raises:
        ContextualBertError: ``error``, for no JSON, for brackets that are nested too deep, for a number too long.

    Example:
        >>> parse_json('{"age": 34}', place="--context")
        {'age': 34}
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))
            raise error(f"has the key {twice!r} twice in one object", fix=fix).at(PathPlace(place))
        return record

    hook: Callable[[Any], Any] | None = once if has_unique_keys else None
    try:
        return json.loads(text, object_pairs_hook=hook)
    except ContextualBertError:
        raise
    except RecursionError:
        raise error("is nested too deep to be read", fix=fix).at(PathPlace(place)) from None
    except ValueError as found:
        raise error(f"is not valid JSON ({reason_of(found)})", fix=fix).at(PathPlace(place)) from found


def spelled_value(text: str, *, setting: str) -> Any:
    """Return the value that an option's text spells: as JSON, or Python's True, False and None, and otherwise the text.

    Raises:
        ConfigurationError: brackets that are nested too deep.

    Example:
        >>> [spelled_value(text, setting="--set") for text in ("3", "True", "[1]", "linear")]
        [3, True, [1], 'linear']
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ConfigurationError(f"{text!r:.60}: the value is nested too deep.", setting=setting) from None
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def read_json_object(
    path: Path,
    *,
    error: type[ContextualBertError] = RunDirectoryError,
    fix: str = "Train again.",
    what: str = "JSON object",
    has_unique_keys: bool = False,
) -> dict[str, Any]:
    """Return the JSON object of a file, in UTF-8 with or without a byte order mark.

    Args:
        path: the file.
        error: class of what is raised.
        fix: what to do next, as a sentence.
        what: what the file should hold, for messages.
        has_unique_keys: see ``parse_json``.

    Raises:
        ContextualBertError: ``error``, for a file that is missing, not readable, no JSON or no object.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as found:
        raise error("does not exist", fix=fix).at(PathPlace(path)) from found
    except UnicodeDecodeError as found:
        raise error(f"is not UTF-8 ({found})", fix=fix).at(PathPlace(path)) from found
    except OSError as found:
        raise unreadable(path, found, error=error) from found
    content = parse_json(text, place=str(path), error=error, fix=fix, has_unique_keys=has_unique_keys)
    if not isinstance(content, dict):
        kind = {"list": "a list", "str": "a text", "NoneType": "null"}.get(type(content).__name__, "a number")
        raise error(f"holds no {what}: it is {kind}", fix=fix).at(PathPlace(path))
    return cast("dict[str, Any]", content)


def unreadable(
    path: Path | str, found: OSError, *, error: type[ContextualBertError] = RunDirectoryError
) -> ContextualBertError:
    """Return the error for a file that the system does not let this process read: nothing is wrong with its content.

    Args:
        path: the file, where the system does not name one.
        found: what the system said.
        error: class of what is returned.
    """
    reason = (found.strerror or str(found)).rstrip(".")
    named = found.filename or path
    if isinstance(found, PermissionError):
        problem, fix = (
            f"cannot be read: {reason}. Its content was not looked at",
            "Give the user of this process the right to read it.",
        )
        return error(problem, fix=fix).at(PathPlace(named))
    return error(f"cannot be read: {reason}", fix="Check the path and the disk.").at(PathPlace(named))


def reason_of(error: Exception) -> str:
    """Return what the JSON parser says, of a number that is too long without Python's advice to its programmers.

    Example:
        >>> reason_of(ValueError("Exceeds the limit (4300 digits) for integer string conversion"))
        'a number has too many digits'
    """
    return "a number has too many digits" if "integer string conversion" in str(error) else str(error)


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
