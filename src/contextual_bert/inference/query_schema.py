"""The pydantic models that read a query and its values, and their findings with path and what is allowed.

Values come from JSON, Python, numpy and pandas: numbers may be text, and a missing value of any of them is none.

It knows no item and no catalogue: only what a name, a price or a condition looks like.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any, Self, cast, get_args

import numpy as np
import pyarrow as pa
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from contextual_bert.context import canonical
from contextual_bert.context.encoding import as_record
from contextual_bert.context.raw_values import none_if_missing, number_of
from contextual_bert.errors import DataError, QueryError, UnknownNameError, did_you_mean, shown
from contextual_bert.places import QueryPlace
from contextual_bert.pydantic_findings import wanted

TESTS = ("equals", "in", "not_in", "at_most", "at_least", "below", "above")
LIMITS = TESTS[3:]
TRUTH_WORDS = {  # how tables and people write truth values, in lower case
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_UNKNOWN = ("extra_forbidden", "invalid_key")  # an unknown name, or a key that is no text
_KEYS_OF_A_TEST = 3  # where, the number of the condition, the test
TIMES = "times"  # the key of a query that says when each item was taken
GUIDANCE = "guidance"  # the key of a query that is no constraint: how personal the answer is to be
CONDITION = 'Give {"attribute": "category", "in": ["coat", "jacket"]}, or short {"category": "coat"}.'


def names_of(value: Any, *, key: str) -> list[str]:
    """``value`` as a list of item names; a number is the item of that name, as in a table.

    Raises:
        DataError: it is something else, a single string for instance, or an entry is no name.
    """
    names = as_list_or_none(value)
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


def as_list_or_none(value: object) -> list[Any] | None:
    """Return a list of what a list, tuple, set, array or column holds; None for text, records and single values.

    Example:
        >>> as_list_or_none(np.array(["a", "b"]))[1], as_list_or_none(pa.array(["a"])), as_list_or_none("a")
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


def given_value(value: Any) -> Any:
    """Return a value without its missing parts, in Python's own types; None where it says nothing.

    NaN stays, and is refused where it stands: a limit must not vanish because a sum went wrong.

    Example:
        >>> limit = {"at_most": np.float32(0.1), "at_least": None}
        >>> given_value({"category": np.array(["coat", "hat"]), "price": limit})
        {'category': ['coat', 'hat'], 'price': {'at_most': 0.1}}
    """
    if isinstance(value, Mapping):
        each = {key: given_value(part) for key, part in cast("Mapping[Any, Any]", value).items()}
        return {key: part for key, part in each.items() if part is not None} or None
    if (parts := as_list_or_none(value)) is not None:
        return [given_value(part) for part in parts]
    if isinstance(value, np.floating):
        # 0.1 in 32 bits is 0.1; one of 16 bits is spelt as in 32, as everywhere.
        return float(str(np.float32(value)) if value.itemsize < np.float64().itemsize else value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value
    value = none_if_missing(value)
    return value.item() if isinstance(value, np.generic) else value


def _times(value: Any) -> list[Any]:
    """Return the value of ``times`` as a list; what a time looks like is for the model of the run to say."""
    if (found := as_list_or_none(value)) is None:
        problem = f"{shown(value)} is not a list of times"
        raise DataError(problem, value=value, fix='Give one an item: "times": ["2016-03-05T14:30:00", null].')
    return found


def names(value: Any, info: ValidationInfo) -> list[str]:
    """Return the value of a field as a list of item names; see ``names_of``."""
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


def as_conditions(value: Any) -> Any:
    """Return a list of conditions for one of them, or for the short form {attribute: value, values or tests}."""
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


def as_list(value: Any) -> Any:
    """Return a list of a single text; all else as it is, for pydantic to check."""
    return [value] if isinstance(value, str) else value


def context_record(value: Any) -> Mapping[str, Any]:
    """Return a context as a mapping; a row of a pandas frame is one, too.

    Raises:
        DataError: it is no record.
    """
    record = as_record(value)
    if record is None:
        problem = f"{' '.join(repr(value).split()):.80} is not a record"
        raise DataError(problem, value=value, fix='Give {"feature": value, ...}.')
    return record


def guidance_of(value: Any) -> float:
    """Return a guidance, which is a number between 0 and 100.

    Raises:
        DataError: something else.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_WEIGHT:
        fix = "Give 0 for what anybody would get, 1 for the model as it is, more for a more personal answer."
        raise DataError(f"{shown(value)} is no number between 0 and {MAX_WEIGHT:g}", value=value, fix=fix)
    return float(value)


Single = str | float | bool  # what `canonical` takes of JSON
Names = Annotated[list[str], BeforeValidator(names, json_schema_input_type=list[Single])]
Times = Annotated[list[Any], BeforeValidator(_times, json_schema_input_type=list[float | str | None])]
Flag = Annotated[bool, BeforeValidator(_true_or_false)]
Value = Annotated[str, BeforeValidator(canonical, json_schema_input_type=Single)]
Values = Annotated[list[Value], Field(fail_fast=True)]
MAX_WEIGHT = 100.0  # far beyond what changes an answer, and far from where logits overflow
_NUMBER_TEXT = Annotated[str, Field(pattern=r"^([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})$")]
_PRICE: Any = Annotated[float, Field(ge=0)] | _NUMBER_TEXT
_OF_TEXT = BeforeValidator(_number, json_schema_input_type=_PRICE)
Weight = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=MAX_WEIGHT), BeforeValidator(guidance_of)]
Price = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0), _OF_TEXT]
Limit = Annotated[float | str, BeforeValidator(_limit, json_schema_input_type=float | str)]
Attributes = Annotated[list[str], BeforeValidator(as_list, json_schema_input_type=str | list[str])]
Record = Annotated[Mapping[str, Any], PlainValidator(context_record, json_schema_input_type=dict[str, Any])]


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
    one_of: Values | None = Field(default=None, alias="in")
    not_in: Values | None = None
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
    BeforeValidator(as_conditions, json_schema_input_type=list[Condition] | Condition | dict[str, Test]),
]


class QueryModel(BaseModel):
    """Base of the models that read a query: the set, who asks, and how personal the answer is to be.

    ``query_model`` adds the keys of the constraints. The model of a server has its limits beside them, and the run's
    own features in the document of the context.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    items: Names = []
    locked: Names | None = None
    times: Times | None = Field(
        default=None,
        description="The time of each item, of models that read how much time passed between them: ISO 8601 or a "
        "number, as in training; null where it is not known. Left out: none is known.",
    )
    context: Record | None = None
    guidance: Weight | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_missing(cls, given: Mapping[Any, Any]) -> dict[Any, Any]:
        """Leave out what says nothing: null, NA of pandas, NaN in place of a list."""
        kept: dict[Any, Any] = {}
        for key, value in given.items():
            if key == "context":
                value = none_if_missing(value)
                is_empty = value is None or (not hasattr(value, "ndim") and not value)
            elif key in ("locked", TIMES):
                is_empty = none_if_missing(value) is None
            elif key in cls.model_fields and key != "items":
                value = given_value(value)
                is_empty = value is None or (value != value and not _is_number(cls.model_fields[key].annotation))
            else:
                is_empty = False
            if not is_empty:
                kept[key] = value
        return kept


def _is_number(annotation: Any) -> bool:
    """Return whether NaN is a faulty number under an annotation, and not a missing value."""
    return any(getattr(each, "__origin__", each) in (int, float) for each in (annotation, *get_args(annotation)))


_CONDITION_KEYS = ("attribute", *TESTS, "blank")
_COUNTED = {
    "items": "the set has {} items",
    TIMES: "it has {} times",
    "where": "it has {} conditions",
    "at_most_one_per": "it has {} attributes",
}


def query_error(
    error: ValidationError, given: Mapping[str, Any], *, known: Iterable[str] = _CONDITION_KEYS
) -> QueryError | UnknownNameError:
    """Return the first thing that pydantic found, as an error of this package that names the value's place.

    An unknown key comes before all else: its value may have been meant for a key that is missing.

    Args:
        error: what pydantic raised.
        given: what it was given.
        known: the keys of ``given`` that mean something.

    Example:
        >>> try:
        ...     Condition.model_validate({"attribute": "price", "blank": "first"})
        ... except ValidationError as error:
        ...     print(query_error(error, {"attribute": "price", "blank": "first"}))
        blank: 'first' is not allowed. Give a whole number.
    """
    findings = error.errors(include_url=False)
    unknown = (each for each in findings if each["type"] in _UNKNOWN and len(each["loc"]) == 1)
    finding = next(unknown, findings[0])
    steps, about = finding["loc"], finding.get("ctx", {})
    if finding["type"] in _UNKNOWN:
        name = str(steps[-1])
        keys = existing_keys(given, steps) if finding["type"] == "extra_forbidden" else (name,)
        allowed = did_you_mean(name, known if len(steps) == 1 else _CONDITION_KEYS)
        return UnknownNameError(
            f"unknown key {name!r:.80}", place=QueryPlace(keys), value=finding["input"], allowed=allowed
        )
    keys, cause = existing_keys(given, steps), about.get("error")
    fix = CONDITION if keys[:1] == ("where",) and len(keys) < _KEYS_OF_A_TEST else ""
    if isinstance(cause, DataError):
        inner = cause.location if cause.location[: len(keys)] == keys else keys
        return QueryError(cause.problem, location=inner, value=cause.value, allowed=cause.allowed, fix=cause.fix)
    if finding["type"] == "too_long":
        counted = _COUNTED.get(str(steps[-1]), "") if len(steps) == 1 else ""
        problem = (counted or "the list has {} values").format(about["actual_length"])
        return QueryError(problem, location=keys, fix=f"Give at most {about['max_length']}.")
    if finding["type"] == "missing":
        return QueryError(f"the key {steps[-1]!r} is missing", location=keys, fix=fix)
    same = [each for each in findings if existing_keys(given, each["loc"]) == keys]
    problem, fix = f"{shown(finding['input'])} is not allowed", f"{wanted(same)} {fix}".rstrip()
    return QueryError(problem, location=keys, value=finding["input"], fix=fix)


def existing_keys(query: object, keys: Sequence[int | str]) -> tuple[int | str, ...]:
    """Return the keys that lead to a value of a query as it was given, as far as they lead to one.

    Conditions have a short form, and a single one or a single attribute may stand without a list.

    Example:
        >>> existing_keys({"where": {"price": {"at_most": 80}}}, ["where", 0, "at_most"])
        ('where', 'price', 'at_most')
        >>> existing_keys({"where": {"category": ["hat", 7]}}, ["where", 0, "in", 1])
        ('where', 'category', 1)
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
        elif (parts := as_list_or_none(value)) is not None and key == "in":
            continue  # the short form of it
        elif isinstance(key, int) and parts is not None and key < len(parts):
            value = parts[key]
        else:
            break
        found.append(key)
    return tuple(found)
