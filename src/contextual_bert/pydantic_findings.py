"""Words for what pydantic finds: what is wanted in the place of a value, without names of Python's types."""

from collections.abc import Mapping, Sequence
from typing import Any

_WANTED: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "finite_number": "a finite number",
    "string": "a string",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "an object",
    "mapping": "an object",
    "model": "an object",
    "dataclass": "an object",
    "none": "null",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "a number below {lt}",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "string_too_short": "a string of at least {min_length} characters",
    "string_too_long": "a string of at most {max_length} characters",
}
_ENDINGS = ("_type", "_parsing", "_parsing_size", "_attributes_type", "_from_float", "_required")


def wanted(findings: Sequence[Mapping[str, Any]]) -> str:
    """Return what to give in the place of a faulty value, as a sentence.

    Args:
        findings: of pydantic, on one value; those of a union are alternatives.

    Example:
        >>> from pydantic import TypeAdapter, ValidationError
        >>> try:
        ...     TypeAdapter(int | None).validate_python("old")
        ... except ValidationError as error:
        ...     print(wanted(error.errors()))
        Give a whole number.
    """
    return f"Give {' or '.join(dict.fromkeys(_wanted(finding) for finding in findings))}."


def _wanted(finding: Mapping[str, Any]) -> str:
    kind, about = finding["type"], dict[str, Any](finding.get("ctx", {}))
    stem = next((kind.removesuffix(ending) for ending in reversed(_ENDINGS) if kind.endswith(ending)), kind)
    words = _WANTED.get(kind) or _WANTED.get(stem)
    if words is None:
        return finding["msg"].removeprefix("Value error, Give ").removeprefix("Input should be ").rstrip(".")
    if kind.endswith("_too_short") and about.get("min_length") == 1:
        return "one that is not empty"
    numbers = {name: f"{value:g}" if isinstance(value, float) else value for name, value in about.items()}
    return words.format(**numbers) if about else words
