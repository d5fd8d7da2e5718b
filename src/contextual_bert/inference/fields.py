"""The kinds of value that a query may hold, checked by pydantic; its findings with row, path and what is allowed.

It knows no item and no catalogue: only what a name, a price or a condition looks like.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from contextual_bert.context import canonical
from contextual_bert.errors import DataError, UnknownNameError, did_you_mean

TESTS = ("equals", "in", "not_in", "at_most", "at_least")
CONDITION = 'Give {"attribute": "category", "in": ["coat", "jacket"]}, or short {"category": "coat"}.'


def names_of(value: Any, *, key: str) -> list[str]:
    """``value`` as a list of item names; a number is the item of that name, as in a table.

    Raises:
        DataError: it is something else, a single string for instance, or an entry is no name.
    """
    if isinstance(value, str) or not isinstance(value, Sequence | set | frozenset):
        raise DataError(
            f"{value!r:.80} is not a list of items", column=key, fix=f'Give a list: "{key}": ["coat-17", ...].'
        )
    try:
        return [canonical(name) for name in value]
    except DataError as error:
        raise DataError(error.problem, column=key, fix=error.fix) from None


def _names(value: Any, info: ValidationInfo) -> list[str]:
    return names_of(value, key=info.field_name or "items")


def _true_or_false(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DataError(f"{value!r:.80} is neither true nor false", fix="Give true or false.")
    return value


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
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
MAX_WEIGHT = 100.0  # far beyond what changes an answer, and far from where logits overflow
Weight = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=MAX_WEIGHT)]
Price = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
Attributes = Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])]


class Condition(BaseModel):
    """What the value of an attribute has to be; all tests that are given have to hold.

    Args:
        attribute: a column of the catalogue.
        equals: this value. Of an item with several values, one of them.
        one_of: ``in``: one of these values.
        not_in: none of these values; an item whose value is unknown does not pass.
        at_most: a number up to this.
        at_least: a number from this.
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
    at_most: Number | None = None
    at_least: Number | None = None
    blank: int | None = Field(default=None, ge=0, strict=True)

    @model_validator(mode="after")
    def _tests_something(self) -> Self:
        if all(test is None for test in (self.equals, self.one_of, self.not_in, self.at_most, self.at_least)):
            fix = f"Give one of {', '.join(TESTS)}."
            raise DataError(f"the condition on {self.attribute!r:.80} tests nothing", fix=fix)
        return self


Test = Single | list[Single] | dict[str, Any]
Conditions = Annotated[
    list[Condition],
    BeforeValidator(_conditions, json_schema_input_type=list[Condition] | Condition | dict[str, Test]),
]


def fault(error: ValidationError, given: Mapping[str, Any], *, row: int) -> DataError | UnknownNameError:
    """The first thing that pydantic found, as an error of this package that names the query and the field's path.

    Args:
        error: what pydantic raised.
        given: what it was given.
        row: the number of the query.

    Example:
        >>> try:
        ...     Condition.model_validate({"attribute": "price", "at_most": "cheap"})
        ... except ValidationError as error:
        ...     print(fault(error, {}, row=3))
        row 4, column 'at_most': 'cheap' is not allowed: input should be a valid number. Rows count from 1.
    """
    finding = error.errors()[0]
    path, cause = _path(finding["loc"], given), finding.get("ctx", {}).get("error")
    if finding["type"] == "extra_forbidden":
        known = ("attribute", *TESTS, "blank")
        return UnknownNameError(
            f"Query {row + 1}: unknown key {path!r:.80}. {did_you_mean(str(finding['loc'][-1]), known)}"
        )
    if isinstance(cause, DataError):
        return DataError(cause.problem, row=row, column=path, fix=cause.fix)
    if finding["type"] == "missing":
        fix = CONDITION if path.startswith("where") else ""
        return DataError("the key is missing", row=row, column=path, fix=fix)
    fix = CONDITION if path.partition("[")[0] == "where" and "." not in path else ""
    problem = f"{finding['input']!r:.80} is not allowed: {finding['msg'][0].lower()}{finding['msg'][1:]}"
    return DataError(problem, row=row, column=path, fix=fix)


def _path(steps: Sequence[int | str], given: Any) -> str:
    """``where[0].at_most``; of the short form of conditions ``where.price.at_most``."""
    path = ""
    for step in steps:
        if isinstance(step, int) and isinstance(given, Mapping):
            step = step if "attribute" in given else str(list(given)[step])
        try:
            given = given[step]
        except (LookupError, TypeError):
            given = None
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
