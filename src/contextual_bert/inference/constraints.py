"""Constraints on completions: each is one function from a query to the permitted items.

A query names a constraint by its key, beside ``items`` and ``context``. Constraints are applied before the softmax:
what is forbidden has probability 0, the rest sums to 1. A function that is registered here is a key of queries, checked
by the annotation of its ``value``, and its order here is the order in which it is applied. No model is known here.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import DataError, QueryError, QueryPlace, SchemaError, UnknownNameError
from contextual_bert.inference.catalogue import NO_GROUP
from contextual_bert.inference.constraint_evaluation import CONSTRAINTS, Asked, constraint
from contextual_bert.inference.query_schema import Attributes, Condition, Conditions, Flag, Names, Price

__all__ = ["CONSTRAINTS", "constraint"]  # filled here: whoever wants the registry gets it from where it is full

ROUNDING = 1e-9  # relative: 0.1 + 0.2 keeps a budget of 0.3


@constraint
def in_stock(asked: Asked, value: Flag) -> NDArray[np.bool_]:
    """Only what the catalogue has in stock at this moment."""
    return asked.needed_catalogue("in_stock").in_stock if value else asked.everything


@constraint
def allow(asked: Asked, value: Names) -> NDArray[np.bool_]:
    """Only the items of this list."""
    return asked.among(value)


@constraint
def deny(asked: Asked, value: Names) -> NDArray[np.bool_]:
    """None of the items of this list: what this customer has sent back, what has to go."""
    return ~asked.among(value)


@constraint
def owned(asked: Asked, value: Names) -> NDArray[np.bool_]:
    """None of the items that the customer has already; apart from deny because the answer says so."""
    return ~asked.among(value)


@constraint
def where(asked: Asked, value: Conditions) -> NDArray[np.bool_]:
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
def max_price(asked: Asked, value: Price) -> NDArray[np.bool_]:
    """Only items of at most this price; one of unknown price is not."""
    return asked.needed_catalogue("max_price").prices <= value


@constraint(across_blanks=True)
def repeats(asked: Asked, value: Flag = False) -> NDArray[np.bool_]:
    """Permit items that are in the set already, if the query says true.

    Never where the model has no probability for it, as no set of its training holds an item twice.
    """
    permitted = np.tile(asked.everything, (len(asked.chosen), 1))
    if not value or not asked.can_repeat:
        permitted[:, asked.visible] = False
        np.put_along_axis(permitted, asked.chosen, False, axis=1)
    return permitted


@constraint(across_blanks=True)
def at_most_one_per(asked: Asked, value: Attributes) -> NDArray[np.bool_]:
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
        is_taken[:, [catalogue.group_of_stranger(item, attribute) for item in asked.strangers]] = True
        np.put_along_axis(is_taken, groups[asked.chosen], True, axis=1)
        is_taken[:, NO_GROUP] = True
        permitted &= ~is_taken[:, groups]
    return permitted


@constraint(across_blanks=True)
def budget(asked: Asked, value: Price, *, budget_includes_visible: Flag = False) -> NDArray[np.bool_]:
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


def _price_of_visible(asked: Asked, prices: NDArray[np.float64]) -> float:
    visible = {name: asked.vocabulary.id_of_value(name) for name in asked.items if name != "[MASK]"}
    catalogue = asked.needed_catalogue("budget")
    price = {
        name: catalogue.price_of_stranger(name) if index is None else float(prices[index])
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


def holds(asked: Asked, condition: Condition, *, keys: Sequence[str | int]) -> NDArray[np.bool_]:
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
