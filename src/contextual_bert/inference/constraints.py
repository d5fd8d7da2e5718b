"""Constraints on completions: each is one function from a query to the permitted items.

A constraint is one function ``(asked, value, *, further_key=...)``. A query names it by its key, beside ``items`` and
``context``; its annotations say what a value looks like, and a default makes it apply unasked. The order of the
functions is the order in which they are applied, before the softmax: what is forbidden has probability 0, the rest
sums to 1. Ids and masks are known here, no model.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, get_type_hints, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import create_model

from contextual_bert.context import Vocabulary
from contextual_bert.errors import (
    NAME,
    ConfigurationError,
    DataError,
    Message,
    QueryError,
    SchemaError,
    UnknownNameError,
)
from contextual_bert.inference.catalogue import NO_GROUP, Catalogue
from contextual_bert.inference.query_schema import (
    GUIDANCE,
    TIMES,
    Attributes,
    Condition,
    Conditions,
    Flag,
    Names,
    Price,
    QueryModel,
)
from contextual_bert.places import QueryPlace

Function = Callable[..., NDArray[np.bool_]]
Settings = Mapping[str, Mapping[str, Any]]

ROUNDING = 1e-9  # relative: 0.1 + 0.2 keeps a budget of 0.3


@dataclass(frozen=True)
class ConstraintInput:
    """Input of a constraint: the query, the vocabulary and the catalogue.

    Shapes:
        chosen (rows, filled): ids that were put into blanks already, a row for each partial set; (1, 0) at first.
        others (open, vocabulary): what the blanks are permitted that are still open, besides the one in question.

    Args:
        vocabulary: the items of the model.
        items: the names in the set, with [MASK] where one is missing.
        catalogue: the shop's table, if there is one.
        can_repeat: whether the model gives an item that the set shows a probability, see ``candidates``.
        removed_items: items that are understood in a set and never proposed.
        chosen, others: for constraints across blanks.

    Example:
        >>> asked = ConstraintInput(Vocabulary(["coat", "hat"], reserved=["[PAD]", "[MASK]"]), ("hat", "[MASK]"))
        >>> asked.num_blanks, asked.visible.tolist(), asked.among(["coat", "kilt"]).tolist()
        (1, [3], [False, False, True, False])
    """

    vocabulary: Vocabulary
    items: Sequence[str]
    catalogue: Catalogue | None = None
    can_repeat: bool = True
    chosen: NDArray[np.int64] = field(default_factory=lambda: np.empty((1, 0), dtype=np.int64))
    others: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))
    removed_items: Sequence[str] = ()

    @cached_property
    def num_blanks(self) -> int:
        """Return the number of [MASK] in the set."""
        return list(self.items).count("[MASK]")

    @cached_property
    def visible(self) -> NDArray[np.int64]:
        """Ids of the items in the set, without those that the model does not know."""
        return self._ids(self.items)

    @cached_property
    def unknown_items(self) -> list[str]:
        """The items in the set that the model does not know."""
        return [name for name in self.items if name != "[MASK]" and self.vocabulary.id_of_value(name) is None]

    @property
    def everything(self) -> NDArray[np.bool_]:
        """(vocabulary,) of True."""
        return np.ones(len(self.vocabulary), dtype=np.bool_)

    def among(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which ids are those of these names; unknown ones change nothing: (vocabulary,)."""
        found = np.zeros(len(self.vocabulary), dtype=np.bool_)
        found[self._ids(names)] = True
        return found

    def needed_catalogue(self, constraint: str) -> Catalogue:
        """The catalogue.

        Raises:
            QueryError: there is none.
        """
        if self.catalogue is None:
            raise QueryError(
                "it needs a catalogue, and none was given",
                location=(constraint,),
                fix=Message("Give {catalogue}.", catalogue=...),
            )
        return self.catalogue

    def _ids(self, names: Sequence[str]) -> NDArray[np.int64]:
        ids = [index for name in names if (index := self.vocabulary.id_of(name)) is not None]
        num_reserved = len(self.vocabulary.reserved)
        return np.array([index for index in ids if index >= num_reserved], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Constraint:
    """A registered function.

    ``across_blanks``: it looks at what other blanks got; ``types``: key of a query -> what its value looks like, its
    own name first; ``defaults``: key -> its value where a query does not name it.
    """

    name: str
    function: Function
    across_blanks: bool
    types: Mapping[str, Any]
    defaults: Mapping[str, Any]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a query that it reads, its own name first."""
        return tuple(self.types)

    def permitted(self, asked: ConstraintInput, values: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the mask that the constraint function gives for these values."""
        further = {key: value for key, value in values.items() if key != self.name}
        return self.function(asked, values[self.name], **further)


class Permitted(NamedTuple):
    """Permitted items, (blanks, vocabulary), and the number of items that each constraint removed from each blank.

    ``removed`` has the constraints in the order in which they were applied.
    """

    items: NDArray[np.bool_]
    removed: dict[str, list[int]]

    def num_items(self, blank: int) -> int:
        """Return the number of permitted items of a blank."""
        return int(np.count_nonzero(self.items[blank]))

    def reason(self, blank: int) -> str | None:
        """Why a blank is left with no item: which constraint took the last one; None if there is one."""
        if self.items[blank].any():
            return None
        taken = {name: counts[blank] for name, counts in self.removed.items() if counts[blank]}
        if not taken:
            return "The model knows no item."
        listed = ", ".join(f"{name} took {count:,}" for name, count in taken.items())
        return f"No item is left after {list(taken)[-1]}: of {sum(taken.values()):,} items, {listed}."


CONSTRAINTS: dict[str, Constraint] = {}


@overload
def constraint(function: Function) -> Function: ...
@overload
def constraint(*, across_blanks: bool) -> Callable[[Function], Function]: ...
def constraint(
    function: Function | None = None, *, across_blanks: bool = False
) -> Function | Callable[[Function], Function]:
    """Register a function as a constraint, after those that are there.

    Args:
        function: ``(asked, value, *, further_key=...)``: which ids it permits. Its annotations are what pydantic
            checks; with a default, ``value`` applies where a query does not name the key.
        across_blanks: the function looks at ``asked.chosen`` and is asked for one blank at a time: (rows, vocabulary),
            a row for each partial set. Otherwise (vocabulary,) for all blanks or (blanks, vocabulary).

    Raises:
        ConfigurationError: another constraint has one of its keys.

    Example:
        >>> @constraint
        ... def ending_with(asked: ConstraintInput, value: str) -> NDArray[np.bool_]:
        ...     return asked.among([name for name in asked.vocabulary.values if name.endswith(value)])
        >>> CONSTRAINTS.pop("ending_with").keys
        ('ending_with',)
    """
    if function is None:
        return lambda given: constraint(given) if not across_blanks else _register(given, across_blanks=True)
    return _register(function, across_blanks=across_blanks)


def _register(function: Function, *, across_blanks: bool) -> Function:
    name = getattr(function, "__name__", "")
    hints = get_type_hints(function, include_extras=True)
    types: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        key = name if parameter.name == "value" else parameter.name
        types[key] = hints.get(parameter.name, Any)
        if parameter.default is not inspect.Parameter.empty:
            defaults[key] = parameter.default
    repeated = [key for key in types if key in known_keys()]
    if repeated or name not in types:
        problem = f"has the keys {', '.join(repeated)} of another one" if repeated else "takes no value"
        raise ConfigurationError(f"The constraint {name!r} {problem}", fix="Rename it, or its parameter.")
    CONSTRAINTS[name] = Constraint(name, function, across_blanks, types, defaults)
    return function


def known_keys() -> list[str]:
    """The keys of a query that mean something."""
    return ["items", "locked", TIMES, "context", GUIDANCE, *constraint_keys()]


def constraint_keys() -> list[str]:
    """Those of them that are constraints'."""
    return [key for each in CONSTRAINTS.values() for key in each.keys]


def query_model() -> type[QueryModel]:
    """Return the pydantic model of a query with the constraints that are registered now. It reads each query.

    Example:
        >>> {"items", "context"} <= set(query_model().model_json_schema()["properties"])
        True
    """
    return _model_of(tuple(CONSTRAINTS.values()))


@lru_cache(maxsize=4)
def _model_of(constraints: tuple[Constraint, ...]) -> type[QueryModel]:
    fields: dict[str, Any] = {key: (type_ | None, None) for each in constraints for key, type_ in each.types.items()}
    return create_model("Query", __base__=QueryModel, **fields)


def constraint_settings(query: QueryModel) -> dict[str, dict[str, Any]]:
    """Return the constraints of a query that apply, in the order of the registry, with the values of their keys.

    Raises:
        QueryError: a key whose constraint is not named, or a constraint that lacks a key.
    """
    settings: dict[str, dict[str, Any]] = {}
    for name, each in CONSTRAINTS.items():
        given = {key: value for key in each.types if (value := getattr(query, key)) is not None}
        if name not in given and name not in each.defaults:
            if given:
                raise QueryError(
                    Message(f"it belongs to {{{name}}}, which is not there", **{name: NAME}),
                    location=(next(iter(given)),),
                    fix=Message(f"Give {{{name}}}, or leave it out.", **{name: ...}),
                )
            continue
        values = {**each.defaults, **given}
        for key in each.types:
            if key not in values:
                raise QueryError(f"the key {key!r} is missing")
        settings[name] = values
    return settings


def permitted_items(asked: ConstraintInput, settings: Settings) -> Permitted:
    """Return the permitted items of each blank by itself. Reserved ids are never permitted.

    Args:
        asked: the set, with what belongs to it.
        settings: of ``settings_of``.

    Raises:
        QueryError, UnknownNameError, SchemaError: what a constraint needs is not in the catalogue, by the key of the
            query that needs it.

    Example:
        >>> asked = ConstraintInput(Vocabulary(["coat", "hat", "bag"], reserved=["[PAD]", "[MASK]"]), ("hat", "[MASK]"))
        >>> permitted = permitted_items(asked, constraint_settings(query_model()(deny=["bag"])))
        >>> permitted.items.tolist(), permitted.removed
        ([[False, False, True, False, False]], {'deny': [1], 'repeats': [1]})
    """
    permitted = np.tile(asked.everything, (asked.num_blanks, 1))
    permitted[:, : len(asked.vocabulary.reserved)] = False
    if asked.removed_items:
        permitted &= ~asked.among(asked.removed_items)
    removed: dict[str, list[int]] = {}
    # Of whole rows: numpy counts these twenty times as fast as it sums along an axis.
    counts = [int(np.count_nonzero(row)) for row in permitted]
    for name, values in settings.items():
        found = _permitted_by(CONSTRAINTS[name], asked, values, permitted)
        permitted = permitted & found
        before, counts = counts, [int(np.count_nonzero(row)) for row in permitted]
        removed[name] = [had - left for had, left in zip(before, counts, strict=True)]
    return Permitted(permitted, removed)


def _permitted_by(
    constraint: Constraint, asked: ConstraintInput, values: Mapping[str, Any], permitted: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    try:
        if not constraint.across_blanks:
            return constraint.permitted(asked, values)
        blanks = [replace(asked, others=np.delete(permitted, blank, axis=0)) for blank in range(asked.num_blanks)]
        return np.concatenate([constraint.permitted(blank, values) for blank in blanks])
    except (DataError, UnknownNameError, SchemaError) as error:
        if isinstance(error.place, QueryPlace):
            raise
        raise error.at(QueryPlace((constraint.name,))) from None


def permitted_beside(asked: ConstraintInput, settings: Settings) -> NDArray[np.bool_]:
    """Return the items of one blank that the constraints across blanks permit beside ``asked.chosen``."""
    permitted = np.ones((len(asked.chosen), len(asked.vocabulary)), dtype=np.bool_)
    for name, values in settings.items():
        if CONSTRAINTS[name].across_blanks:
            permitted &= CONSTRAINTS[name].permitted(asked, values)
    return permitted


@constraint
def in_stock(asked: ConstraintInput, value: Flag) -> NDArray[np.bool_]:
    """Only what the catalogue has in stock at this moment."""
    return asked.needed_catalogue("in_stock").in_stock if value else asked.everything


@constraint
def allow(asked: ConstraintInput, value: Names) -> NDArray[np.bool_]:
    """Only the items of this list."""
    return asked.among(value)


@constraint
def deny(asked: ConstraintInput, value: Names) -> NDArray[np.bool_]:
    """None of the items of this list: what this customer has sent back, what has to go."""
    return ~asked.among(value)


@constraint
def owned(asked: ConstraintInput, value: Names) -> NDArray[np.bool_]:
    """None of the items that the customer has already; apart from deny because the answer says so."""
    return ~asked.among(value)


@constraint
def where(asked: ConstraintInput, value: Conditions) -> NDArray[np.bool_]:
    """Only items whose attributes have these values, in all blanks or in one: (blanks, vocabulary)."""
    permitted = np.tile(asked.everything, (asked.num_blanks, 1))
    for number, condition in enumerate(value):
        if condition.blank is not None and condition.blank >= asked.num_blanks:
            raise QueryError(
                f"there is no blank {condition.blank}",
                location=("where", number, "blank"),
                value=condition.blank,
                fix=f"The set has {asked.num_blanks}, counted from 0; leave blank out for all of them.",
            )
        blanks = slice(None) if condition.blank is None else condition.blank
        permitted[blanks] &= holds(asked, condition, keys=("where", number))
    return permitted


@constraint
def max_price(asked: ConstraintInput, value: Price) -> NDArray[np.bool_]:
    """Only items of at most this price; one of unknown price is not."""
    return asked.needed_catalogue("max_price").prices <= value


@constraint(across_blanks=True)
def repeats(asked: ConstraintInput, value: Flag = False) -> NDArray[np.bool_]:
    """Permit items that are in the set already, if the query says true.

    Never where the model has no probability for it, as no set of its training holds an item twice.
    """
    permitted = np.tile(asked.everything, (len(asked.chosen), 1))
    if not value or not asked.can_repeat:
        permitted[:, asked.visible] = False
        np.put_along_axis(permitted, asked.chosen, False, axis=1)
    return permitted


@constraint(across_blanks=True)
def at_most_one_per(asked: ConstraintInput, value: Attributes) -> NDArray[np.bool_]:
    """At most one item of each category, or of another attribute; what is in the set counts.

    An item of unknown category is not proposed; in the set it counts for no category.
    """
    permitted = np.tile(asked.everything, (len(asked.chosen), 1))
    for attribute in dict.fromkeys(value):
        catalogue = asked.needed_catalogue("at_most_one_per")
        try:
            groups = catalogue.groups(attribute)
        except (UnknownNameError, SchemaError) as error:
            raise error.at(QueryPlace(("at_most_one_per", value.index(attribute)))) from None
        # One more column for items without a group, which is taken from the start.
        is_taken = np.zeros((len(asked.chosen), groups.max() + 2), dtype=np.bool_)
        is_taken[:, groups[asked.visible]] = True
        is_taken[:, [catalogue.group_of_unknown_item(item, attribute) for item in asked.unknown_items]] = True
        np.put_along_axis(is_taken, groups[asked.chosen], True, axis=1)
        is_taken[:, NO_GROUP] = True
        permitted &= ~is_taken[:, groups]
    return permitted


@constraint(across_blanks=True)
def budget(asked: ConstraintInput, value: Price, *, budget_includes_visible: Flag = False) -> NDArray[np.bool_]:
    """At most this price for all blanks together, on request with what is in the set already.

    An item passes if its price leaves enough for the cheapest item that each other blank is permitted.
    """
    prices = asked.needed_catalogue("budget").prices
    spent = prices[asked.chosen].sum(axis=1)
    if budget_includes_visible:
        spent += _price_of_visible(asked, prices)
    cheapest = np.where(asked.others & ~np.isnan(prices), prices, np.inf).min(axis=1, initial=np.inf)
    # Where another blank is left with nothing, its own emptiness says so.
    left = value * (1 + ROUNDING) - spent - cheapest[np.isfinite(cheapest)].sum()
    return prices <= left[:, None]


def _price_of_visible(asked: ConstraintInput, prices: NDArray[np.float64]) -> float:
    visible = {name: asked.vocabulary.id_of_value(name) for name in asked.items if name != "[MASK]"}
    catalogue = asked.needed_catalogue("budget")
    price = {
        name: catalogue.price_of_unknown_item(name) if index is None else float(prices[index])
        for name, index in visible.items()
    }
    unpriced = [name for name in price if np.isnan(price[name])]
    if unpriced:
        raise QueryError(
            f"the budget includes the set, and the price of {', '.join(unpriced[:5])} is unknown",
            location=("budget_includes_visible",),
            fix="Give their prices in the catalogue, or subtract them from the budget yourself.",
        )
    return sum(price.get(name, 0.0) for name in asked.items)


def holds(asked: ConstraintInput, condition: Condition, *, keys: Sequence[str | int]) -> NDArray[np.bool_]:
    """Return which items fulfil a condition: (vocabulary,).

    Args:
        asked: the query, with the catalogue.
        condition: on one attribute.
        keys: of the query that lead to the condition.

    Raises:
        UnknownNameError: there is no such attribute.
        QueryError: its values cannot be compared with a limit.
    """
    try:
        attribute = asked.needed_catalogue("where").attribute(condition.attribute)
    except UnknownNameError as error:
        raise error.at(QueryPlace((*keys, "attribute"))) from None
    found = attribute.is_known.copy()
    if condition.equals is not None:
        found &= attribute.has_one_of([condition.equals])
    if condition.one_of is not None:
        found &= attribute.has_one_of(condition.one_of)
    if condition.not_in is not None:
        found &= ~attribute.has_one_of(condition.not_in)
    for test, limit in condition.limits.items():
        if limit is None:
            continue
        try:
            found &= attribute.within(test, limit)
        except DataError as error:
            problem, place = f"{condition.attribute!r} {error.problem}", (*keys, *error.location)
            raise QueryError(problem, location=place, value=limit, fix=error.fix) from None
    return found
