"""Check the types of a stored recipe with pydantic."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from contextual_bert.errors import RunDirectoryError, did_you_mean


def checked_values(kind: type, values: Any, *, place: str = "") -> dict[str, Any]:
    """Return the values of a stored record, of the types that the fields of a dataclass have.

    Args:
        kind: the dataclass.
        values: field -> value, as JSON has it.
        place: of the record in the recipe, with a dot behind it.

    Raises:
        RunDirectoryError: no record, an unknown key, or a value of another type.
    """
    if not isinstance(values, Mapping):
        raise RunDirectoryError(f"The recipe has {place[:-1]}={values!r:.80}, which is no record", fix="Train again.")
    hints, read = get_type_hints(kind), dict[str, Any]()
    known = [each.name for each in fields(kind) if each.init]
    for name, value in cast("Mapping[str, Any]", values).items():
        if name not in known:
            raise RunDirectoryError(
                f"The recipe has an unknown key {place + name!r}", allowed=did_you_mean(name, known)
            )
        try:
            read[name] = TypeAdapter[Any](hints[name]).validate_python(value)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise RunDirectoryError(
                f"The recipe has {place}{name}={value!r:.80}: {problem[0].lower()}{problem[1:]}",
                fix="Correct it, or train again.",
            ) from error
    return read
