"""Check the types of a stored recipe with pydantic."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from contextual_bert.errors import NAME, RunDirectoryError, did_you_mean, shown
from contextual_bert.places import JsonPlace, Key, path_of
from contextual_bert.pydantic_findings import wanted


def checked_values(kind: type, values: Any, *, keys: tuple[Key, ...] = ()) -> dict[str, Any]:
    """Return the values of a stored record, of the types that the fields of a dataclass have.

    Args:
        kind: the dataclass.
        values: field -> value, as JSON has it.
        keys: that lead to the record in the recipe.

    Raises:
        RunDirectoryError: no record, an unknown key, or a value of another type.
    """
    if not isinstance(values, Mapping):
        raise recipe_fault(f"{shown(values)} is no record", keys, value=values)
    hints, read = get_type_hints(kind), dict[str, Any]()
    known = [each.name for each in fields(kind) if each.init]
    for name, value in cast("Mapping[str, Any]", values).items():
        if name not in known:
            raise recipe_fault(f"unknown key {name!r}", (*keys, name), value=value, fix=did_you_mean(name, known))
        try:
            read[name] = TypeAdapter[Any](hints[name]).validate_python(value)
        except ValidationError as error:
            inner = (*keys, name)
            fix = f"{wanted(error.errors())} Or train again."
            raise recipe_fault(f"{shown(value)} is not allowed", inner, value=value, fix=fix) from error
    return read


def recipe_fault(
    problem: str, keys: tuple[Key, ...], *, value: object = NAME, fix: str = "Train again."
) -> RunDirectoryError:
    """Return the error for a value of a stored recipe.

    Args:
        problem: what is wrong.
        keys: that lead to the value.
        value: what stands there.
        fix: what to do.
    """
    place = JsonPlace(keys, words=f"the recipe, {path_of(keys)}" if keys else "the recipe")
    return RunDirectoryError(problem, place=place, value=value, fix=fix)
