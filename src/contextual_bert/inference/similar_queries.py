"""Queries and answers of ``similar_items``: an item in, its neighbours out. It imports no torch. Not in the paper."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NotRequired

from typing_extensions import TypedDict

from contextual_bert.context import canonical
from contextual_bert.errors import ConfigurationError, DataError, QueryError, UnknownNameError, did_you_mean
from contextual_bert.inference.constraints import known_keys
from contextual_bert.inference.queries import MASK, Request, check_is_query, read_request
from contextual_bert.inference.query_schema import QueryModel
from contextual_bert.places import QueryPlace

SIMILARITY_WEIGHT = 16.0  # an item as near as can be is favoured by so many nats over one that has nothing in common
LARGEST_WEIGHT = 1000
QUERY = 'Give {"item": "coat-17", "context": {...}}, or a list of such queries.'
# Keys of a query that are about a set, or about several items of it.
OF_SETS = ("items", "locked", "times", "repeats", "budget", "budget_includes_visible", "at_most_one_per")


class SimilarItem(TypedDict):
    """A neighbour of an item.

    ``similarity``: cosine of the input vectors, less their mean; 1 for the same direction. ``probability``: where a
    context is given, that of the formula of ``similar_items``, among the permitted items. ``is_new``: as in a
    ``Candidate``.
    """

    item: str
    similarity: float
    probability: NotRequired[float]
    is_new: NotRequired[bool]


class SimilarAnswer(TypedDict):
    """Neighbours of an item, best first.

    ``num_permitted``, ``removed`` and ``reason``: as those of a ``Slot``; the rest as in ``Answer``.
    """

    item: str
    similar: list[SimilarItem]
    num_permitted: int
    removed: dict[str, int]
    reason: str | None
    unknown_context: dict[str, list[str]]
    notes: list[str]


@dataclass(frozen=True)
class SimilarRequest:
    """A query for the neighbours of an item, as it was read.

    ``item``: its name, which the model may not know; ``request``: the constraints and the context, with the set of the
    item and one [MASK].
    """

    item: str
    request: Request

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """Constraint -> the checked values of its keys."""
        return self.request.settings


def similar_keys() -> list[str]:
    """Return the keys of a query for the neighbours of an item."""
    return ["item", *(key for key in known_keys() if key not in OF_SETS)]


def read_similar_request(
    query: Mapping[str, Any] | SimilarRequest, *, row: int, model: type[QueryModel] | None = None
) -> SimilarRequest:
    """Return the request of a query. A request that was read is itself.

    Args:
        query: as the user gave it.
        row: its number, for messages.
        model: reads what it has in common with the query for a set; default: ``query_model()``.

    Raises:
        QueryError, UnknownNameError: the query is no mapping, has an unknown key, names no item, or a value is faulty.

    Example:
        >>> read_similar_request({"item": 17, "deny": ["coat-18"]}, row=0).item
        '17'
    """
    if isinstance(query, SimilarRequest):
        return query
    check_is_query(query, row=row, fix=QUERY)
    allowed = similar_keys()
    for key in query:
        if key not in allowed:
            raise UnknownNameError(
                f"unknown key {key!r:.80}",
                place=QueryPlace((row, str(key))),
                value=query[key],
                allowed=did_you_mean(str(key), allowed),
            )
    if query.get("item") is None:
        raise QueryError("no item is named", location=(row, "item"), fix=QUERY)
    try:
        item = canonical(query["item"])
    except DataError as error:
        raise QueryError(error.problem, location=(row, "item"), value=query["item"], fix=QUERY) from None
    others = {key: value for key, value in query.items() if key != "item"}
    request = read_request({**others, "items": [item, MASK]}, row=row, model=model)
    return SimilarRequest(item, replace(request, given=query))


def check_similarity_weight(value: float) -> None:
    """Raise ConfigurationError unless a weight of the similarity is a number from 0 to ``LARGEST_WEIGHT``."""
    if isinstance(value, bool) or not 0 <= value <= LARGEST_WEIGHT:
        fix = f"Give a number from 0 to {LARGEST_WEIGHT}."
        raise ConfigurationError("is not allowed", setting="similarity_weight", value=value, fix=fix)
