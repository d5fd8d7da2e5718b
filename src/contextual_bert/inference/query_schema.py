"""The kinds of value that a query may hold, checked by pydantic; its findings with row, path and what is allowed.

Values come from JSON, Python, numpy and pandas: numbers may be text, and a missing value of any of them is none.

It knows no item and no catalogue: only what a name, a price or a condition looks like.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any, Self, cast

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from contextual_bert.context import canonical
from contextual_bert.context.raw_values import number_of, plain
from contextual_bert.errors import DataError, QueryError, QueryPlace, UnknownNameError, did_you_mean, shown

TESTS = ("equals", "in", "not_in", "at_most", "at_least", "below", "above")
LIMITS = TESTS[3:]
TRUTH_WORDS = {  # how tables and people write truth values, in lower case
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_KEYS_OF_A_TEST = 3  # where, the number of the condition, the test
CONDITION = 'Give {"attribute": "category", "in": ["coat", "jacket"]}, or short {"category": "coat"}.'


def names_of(value: Any, *, key: str) -> list[str]:
    """``value`` as a list of item names; a number is the item of that name, as in a table.

    Raises:
        DataError: it is something else, a single string for instance, or an entry is no name.
    """
    names = listed(value)
    if names is None:
        raise QueryError(
            f"{value!r:.80} is not a list of items",
            location=(key,),
            value=value,
            fix=f'Give a list: "{key}": ["coat-17", ...].',
        )
    found: list[str] = []
    for number, name in enumerate(names):
        try:
            found.append(canonical(name))
        except DataError as error:
            raise QueryError(error.problem, location=(key, number), value=name, fix=error.fix) from None
    return found


def listed(value: object) -> list[Any] | None:
    """Return a list of what a list, tuple, set, array or column holds; None for text, records and single values.

    Example:
        >>> listed(np.array(["a", "b"]))[1], listed(pa.array(["a"])), listed("a")
        (np.str_('b'), ['a'], None)
    """
    if isinstance(value, str | bytes | Mapping):
        return None
    if isinstance(value, Sequence | set | frozenset):
        return list(cast("Sequence[Any]", value))
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return cast(Any, value).to_pylist()
    is_column = getattr(value, "ndim", None) == 1 or hasattr(value, "to_list")
    return list(cast(Any, value)) if is_column else None


def told(value: Any) -> Any:
    """Return a value without its missing parts, in Python's own types; None where it says nothing.

    NaN stays, and is refused where it stands: a limit must not vanish because a sum went wrong.

    Example:
        >>> told({"category": np.array(["coat", "hat"]), "price": {"at_most": np.float32(0.1), "at_least": None}})
        {'category': ['coat', 'hat'], 'price': {'at_most': 0.1}}
    """
    if isinstance(value, Mapping):
        each = {key: told(part) for key, part in cast("Mapping[Any, Any]", value).items()}
        return {key: part for key, part in each.items() if part is not None} or None
    if (parts := listed(value)) is not None:
        return [told(part) for part in parts]
    if isinstance(value, np.floating):
        # 0.1 in 32 bits is 0.1; one of 16 bits is spelt as in 32, as everywhere.
        return float(str(np.float32(value)) if value.itemsize < np.float64().itemsize else value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value
    value = plain(value)
    return value.item() if isinstance(value, np.generic) else value


def _names(value: Any, info: ValidationInfo) -> list[str]:
    return names_of(value, key=info.field_name or "items")


def _true_or_false(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DataError(f"{value!r:.80} is neither true nor false", fix="Give true or false.")
    return value


def _number(value: Any) -> Any:
    """The number that a text spells, as in a context; everything else is for pydantic to check."""
    try:
        return number_of(value) if isinstance(value, str | Decimal) else value
    except DataError:
        return value


def _limit(value: Any) -> float | str:
    if isinstance(value, datetime.date | str):
        return canonical(value).strip()
    try:
        return number_of(value)
    except DataError:
        raise DataError(f"{value!r:.80} is no limit", fix="Give a finite number, a date or text.") from None


def _conditions(value: Any) -> Any:
    """The short form {attribute: value, values or tests} as a list of conditions."""
    if not isinstance(value, Mapping) or "attribute" in value:
        return [value] if isinstance(value, Mapping | Condition) else value
    conditions: list[dict[str, Any]] = []
    for attribute, test in value.items():
        tests: dict[str, Any] = dict(test) if isinstance(test, Mapping) else {_test(test): test}
        if "attribute" in tests:
            raise DataError(
                f"the condition on {attribute!r:.80} names the attribute {tests['attribute']!r:.80}, too", fix=CONDITION
            )
        conditions.append({"attribute": attribute, **tests})
    return conditions


def _test(value: Any) -> str:
    return "equals" if isinstance(value, str) or not isinstance(value, Sequence) else "in"


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Single = str | float | bool  # what `canonical` takes of JSON
Names = Annotated[list[str], BeforeValidator(_names, json_schema_input_type=list[Single])]
Flag = Annotated[bool, BeforeValidator(_true_or_false)]
Value = Annotated[str, BeforeValidator(canonical, json_schema_input_type=Single)]
MAX_WEIGHT = 100.0  # far beyond what changes an answer, and far from where logits overflow
_NUMBER_TEXT = Annotated[str, Field(pattern=r"^([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})$")]
_PRICE: Any = Annotated[float, Field(ge=0)] | _NUMBER_TEXT
_OF_TEXT = BeforeValidator(_number, json_schema_input_type=_PRICE)
Weight = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=MAX_WEIGHT)]
Price = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0), _OF_TEXT]
Limit = Annotated[float | str, BeforeValidator(_limit, json_schema_input_type=float | str)]
Attributes = Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]


class Condition(BaseModel):
    """Condition on the value of an attribute. All given tests have to hold.

    Args:
        attribute: a column of the catalogue.
        equals: this value. Of an item with several values, one of them.
        one_of: ``in``: one of these values.
        not_in: none of these values; an item whose value is unknown does not pass.
        at_most, at_least, below, above: a number, a date or text up to this, from this, before it, after it. Of an
            item with several values, one of them. Text that spells numbers or dates is compared as these are, other
            text letter by letter. A day that limits times counts as a whole.
        blank: the number of the [MASK] in the set, from 0, that it is about; default: all.

    Example:
        >>> Condition.model_validate({"attribute": "material", "not_in": ["leather", "fur"]}).not_in
        ['leather', 'fur']
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    attribute: str = Field(strict=True, min_length=1)
    equals: Value | None = None
    one_of: list[Value] | None = Field(default=None, alias="in")
    not_in: list[Value] | None = None
    at_most: Limit | None = None
    at_least: Limit | None = None
    below: Limit | None = None
    above: Limit | None = None
    blank: int | None = Field(default=None, ge=0, strict=True)

    @model_validator(mode="after")
    def _tests_something(self) -> Self:
        if all(test is None for test in (self.equals, self.one_of, self.not_in, *self.limits.values())):
            fix = f"Give one of {', '.join(TESTS)}."
            raise DataError(f"the condition on {self.attribute!r:.80} tests nothing", fix=fix)
        return self

    @property
    def limits(self) -> dict[str, float | str | None]:
        """Test -> its limit, None where the condition does not have it."""
        return {name: getattr(self, name) for name in LIMITS}


Test = Single | list[Single] | dict[str, Any]
Conditions = Annotated[
    list[Condition],
    BeforeValidator(_conditions, json_schema_input_type=list[Condition] | Condition | dict[str, Test]),
]


def fault(
    error: ValidationError, given: Mapping[str, Any], *, known: Iterable[str] = ("attribute", *TESTS, "blank")
) -> QueryError | UnknownNameError:
    """Return the first thing that pydantic found, as an error of this package that names the value's place.

    Args:
        error: what pydantic raised.
        given: what it was given.
        known: the keys where an unknown one stands.

    Example:
        >>> try:
        ...     Condition.model_validate({"attribute": "price", "blank": "first"})
        ... except ValidationError as error:
        ...     print(fault(error, {"attribute": "price", "blank": "first"}))
        blank: 'first' is not allowed: input should be a valid integer
    """
    finding = error.errors()[0]
    steps, cause = finding["loc"], finding.get("ctx", {}).get("error")
    keys = existing_keys(given, steps)
    fix = CONDITION if keys[:1] == ("where",) and len(keys) < _KEYS_OF_A_TEST else ""
    if finding["type"] == "extra_forbidden":
        name = str(steps[-1])
        place, allowed = QueryPlace(keys), did_you_mean(name, known)
        return UnknownNameError(f"unknown key {name!r:.80}", place=place, value=finding["input"], allowed=allowed)
    if isinstance(cause, DataError):
        inner = cause.location if cause.location[: len(keys)] == keys else keys
        return QueryError(cause.problem, location=inner, value=cause.value, allowed=cause.allowed, fix=cause.fix)
    if finding["type"] == "missing":
        return QueryError(f"the key {steps[-1]!r} is missing", location=keys, fix=fix)
    problem = f"{shown(finding['input'])} is not allowed: {finding['msg'][0].lower()}{finding['msg'][1:]}"
    return QueryError(problem, location=keys, value=finding["input"], fix=fix)


def existing_keys(query: object, keys: Sequence[int | str]) -> tuple[int | str, ...]:
    """Return the keys that lead to a value of a query as it was given, as far as they lead to one.

    Conditions have a short form, and a single one or a single attribute may stand without a list.

    Example:
        >>> existing_keys({"where": {"price": {"at_most": 80}}}, ["where", 0, "at_most"])
        ('where', 'price', 'at_most')
        >>> existing_keys({"where": {"attribute": "price"}}, ["where", 0, "at_most"])
        ('where',)
    """
    found: list[int | str] = []
    value: Any = query
    for key in keys:
        if isinstance(value, Mapping):
            if isinstance(key, int):
                if "attribute" in value:
                    continue
                key = next(islice(cast("Mapping[str, Any]", value), key, None), "")
            if key not in value:
                break
            value = cast("Mapping[str, Any]", value)[key]
        elif isinstance(key, int) and (parts := listed(value)) is not None and key < len(parts):
            value = parts[key]
        else:
            break
        found.append(key)
    return tuple(found)
