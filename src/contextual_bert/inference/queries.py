"""Reading of queries, for all pipelines: a mapping with known keys, and a context that is a record."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from contextual_bert.context import Vocabulary
from contextual_bert.context.raw_values import none_if_missing
from contextual_bert.errors import ConfigurationError, DataError, QueryError, UnknownNameError, did_you_mean, shown

# A query's keys are those of the full registry.
from contextual_bert.inference.constraints import (
    CONSTRAINTS,  # noqa: F401  # pyright: ignore[reportUnusedImport]
    constraint_settings,
    known_keys,
    query_model,
)
from contextual_bert.inference.query_schema import (
    GUIDANCE,
    TIMES,
    QueryModel,
    as_list_or_none,
    context_record,
    given_value,
    guidance_of,
    query_error,
)
from contextual_bert.inference.query_times import query_gaps
from contextual_bert.inference.saved_files import SEPARATORS, TrainedSets
from contextual_bert.nouns import counted
from contextual_bert.places import QueryPlace, TablePlace

if TYPE_CHECKING:
    from contextual_bert.context import EncodedContext
    from contextual_bert.models import ContextualBertConfig, ContextualBertProcessor

MASK = "[MASK]"
LARGEST_SEED = 2**63 - 1  # that a generator of torch takes
_LINE_BREAKS = ("\n", "\r")
_BRACKETS = "[]<>{}()\"' "
QUERY = 'Give {"items": [...], "context": {...}}, or a list of such queries.'


@dataclass(frozen=True)
class Request:
    """A query as it was read.

    ``items``: the set, with at least one [MASK]; ``context``: the record of who asks; ``settings``: constraint -> the
    checked values of its keys; ``replaced``: items that a [MASK] stands for because the query locked others;
    ``guidance``: how personal the answer is to be; ``given``: the query as it came; ``times``: of the items, see
    ``query_times``.
    """

    items: list[str]
    context: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, Any]]
    replaced: Sequence[str] = ()
    guidance: float = 1.0
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    times: Sequence[Any] | None = None
    _gaps: dict[str | None, NDArray[np.int64] | None] = field(
        default_factory=dict[str | None, NDArray[np.int64] | None], init=False, repr=False, compare=False
    )

    def gaps(self, config: "ContextualBertConfig", *, row: int) -> NDArray[np.int64] | None:
        """Return the gap of time before each item, see ``query_gaps``. The times are read once.

        Args:
            config: of the model.
            row: number of the query, for messages.

        Raises:
            QueryError: a time that cannot be read.
        """
        unit = config.time_gaps  # a server may load another run between the check of a query and its answer
        if unit not in self._gaps:
            self._gaps[unit] = query_gaps(self.times, config, num_items=len(self.items), row=row)
        return self._gaps[unit]


UNUSED_CONTEXT = "The context was not used: this model was trained with conditioning='none'."


def check_query(query: Mapping[str, Any], *, row: int, known: Sequence[str], fix: str) -> None:
    """Raise unless the query is a mapping of known keys, its context a record.

    Args:
        query: as the user gave it.
        row: its number, for messages.
        known: the keys that mean something.
        fix: what a query looks like, for messages.

    Raises:
        DataError, UnknownNameError: what is wrong, and in which query.
    """
    check_is_query(query, row=row, fix=fix)
    for key in query:
        if key not in known:
            raise UnknownNameError(
                f"unknown key {key!r:.80}",
                place=QueryPlace((row, str(key))),
                value=query[key],
                allowed=did_you_mean(str(key), known),
            )
    query_context(query, row=row)


def check_is_query(query: object, *, row: int, fix: str) -> None:
    """Raise QueryError unless the query is a mapping."""
    if not isinstance(query, Mapping):
        raise QueryError(f"{shown(query)} is not a query", location=(row,), value=query, fix=fix)


def query_context(query: Mapping[str, Any], *, row: int) -> Mapping[str, Any]:
    """Return the context of a query, empty where it says nothing; a row of a pandas frame is one, too.

    Raises:
        QueryError: it is no record.

    Example:
        >>> query_context({"items": ["hat"], "context": {"age": 34}}, row=0), query_context({"context": None}, row=0)
        ({'age': 34}, {})
    """
    value = none_if_missing(query.get("context"))
    if value is None or (not hasattr(value, "ndim") and not value):
        return {}
    with _in_query(row, "context"):
        return context_record(value)


def read_guidance(query: Mapping[str, Any], *, row: int) -> float:
    """The guidance that a query asks for; 1, which is the model as it is, where it says nothing, or null.

    Raises:
        QueryError: no number between 0 and 100.

    Example:
        >>> read_guidance({"items": ["hat"], "guidance": 1.5}, row=0), read_guidance({}, row=0)
        (1.5, 1.0)
    """
    value = given_value(query.get(GUIDANCE))
    with _in_query(row, GUIDANCE):
        return 1.0 if value is None else guidance_of(value)


@contextmanager
def _in_query(row: int, key: str) -> Generator[None]:
    """Turn the error of a value into one of the query that has it."""
    try:
        yield
    except DataError as error:
        parts: Any = {"value": error.value, "allowed": error.allowed, "fix": error.fix}
        raise QueryError(error.problem, location=(row, key), **parts) from None


def check_count(name: str, value: object) -> None:
    """Raise ConfigurationError unless a setting is a whole number of 1 or more, of Python or of numpy.

    Example:
        >>> check_count("batch_size", 64)
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ConfigurationError("is not allowed", setting=name, value=value, fix="Give a whole number, 1 or more.")


def check_seed(value: object) -> None:
    """Raise ConfigurationError unless a seed is a whole number that a generator of torch takes.

    Example:
        >>> check_seed(0)
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) <= LARGEST_SEED:
        fix = f"Give a whole number between 0 and {LARGEST_SEED}."
        raise ConfigurationError("is not allowed", setting="seed", value=value, fix=fix)


def check_queries(queries: object, *, fix: str = QUERY) -> Sequence[Mapping[str, Any]]:
    """The same object if it is a list of queries, which are looked at one by one later.

    Args:
        queries: what came.
        fix: what a query looks like, for messages.

    Raises:
        DataError: it is something else.
    """
    given = as_list_or_none(queries)
    if given is None:
        raise QueryError(f"{' '.join(repr(queries).split()):.80} is neither a query nor a list of them", fix=fix)
    return given


def check_set(request: Request, config: "ContextualBertConfig", *, row: int) -> None:
    """Refuse a set that the model cannot read: blanks where it tells what comes next, or too many items behind one.

    Of a long sequence the newest items are read, see ``newest_of``.

    Args:
        request: the query.
        config: of the model; one without positions reads sets of any length.
        row: number of the query, for messages.

    Raises:
        DataError: the set, with what is wrong.
    """
    if config.predicts_next and (request.items.index(MASK) < len(request.items) - 1 or request.replaced):
        key = "locked" if request.replaced else "items"
        raise QueryError(
            f"the model tells which item comes next, and a {MASK} stands before others"
            if not request.replaced
            else f"the model tells which item comes next, and {request.replaced[0]!r:.80} is to be replaced",
            location=(row, key),
            fix=f"Give the items in their order, with one {MASK} behind the last, or with none.",
        )
    read = newest_of(request.items, config)
    if config.has_position_embeddings and len(read) > config.max_position_embeddings:
        raise QueryError(
            f"the set has {len(request.items)} items, blanks included, and the model reads at most "
            f"{config.max_position_embeddings}",
            location=(row, "items"),
            fix=f"Give a shorter set, or the {MASK} among its last items.",
        )


def newest_of(items: Sequence[str], config: "ContextualBertConfig") -> Sequence[str]:
    """Return the items of a sequence that a model with positions reads: the newest, where each [MASK] is among them.

    Args:
        items: with a [MASK].
        config: of the model; one without positions reads all items.
    """
    if not config.has_position_embeddings:
        return items
    first = max(0, len(items) - config.max_position_embeddings)
    return items[first:] if MASK not in items[:first] else items


def cut_notes(request: Request, config: "ContextualBertConfig") -> list[str]:
    """Return a note where a sequence has more items than are read."""
    num_cut = len(request.items) - len(newest_of(request.items, config))
    if not num_cut:
        return []
    num_items = sum(item != MASK for item in request.items)
    can_repeat = config.softmax_over == "items" and request.settings.get("repeats", {}).get("repeats")
    proposed = "those before may be proposed, too" if can_repeat else "none is proposed again"
    return [f"Read: the newest {num_items - num_cut:,} of {counted(num_items, 'item')}; {proposed}."]


def loss_notes(config: "ContextualBertConfig") -> list[str]:
    """Return a note where items were learned by a loss that ranks them."""
    if config.item_loss != "gbce":
        return []
    return ["Learned by gBCE, which ranks items: the order counts, and what stands as a probability is none."]


def check_separated(items: Sequence[str], vocabulary: Vocabulary, sets: TrainedSets, *, row: int) -> None:
    """Refuse an unknown item that is several known ones in one text, or a [MASK] in another spelling.

    Raises:
        DataError: the item, with what stands between its parts, or how a [MASK] is written.

    Example:
        >>> check_separated(["coat;hat"], Vocabulary(["coat", "hat"]), TrainedSets(), row=0)
        Traceback (most recent call last):
        contextual_bert.errors.QueryError: query 1, items[0]: 'coat;hat' is one item here, and its parts 'coat', ...
    """
    for number, item in enumerate(items):
        if item == MASK or item in vocabulary:
            continue
        for separator in dict.fromkeys((sets.separator, *_LINE_BREAKS, *SEPARATORS, " ")):
            parts = [part.strip() for part in item.split(separator)]
            is_set = all(part in vocabulary for part in parts) or MASK in parts
            if len(parts) > 1 and is_set:
                raise QueryError(
                    f"{item!r:.80} is one item here, and its parts {', '.join(map(repr, parts[:5]))} are items",
                    location=(row, "items", number),
                    value=item,
                    fix="Give them one by one; on the command line "
                    f"--separator {separator!r} says what stands between them.",
                )
        small = item.lower()
        if MASK.lower() in small or small.strip(_BRACKETS) == "mask":
            raise QueryError(
                f"{item!r:.80} is no item that the model knows, and no {MASK}",
                location=(row, "items", number),
                value=item,
                fix=f"Write {MASK} by itself, in capitals and brackets, where an item is missing.",
            )


def read_request(query: Mapping[str, Any] | Request, *, row: int, model: type[QueryModel] | None = None) -> Request:
    """Return the request of a query; a set without a [MASK] gets one at its end. A request that was read is itself.

    Where the query says which items are ``locked``, a [MASK] takes the place of every other one.

    Args:
        query: as the user gave it.
        row: its number, for messages.
        model: reads it; default: ``query_model()``.

    Raises:
        QueryError, UnknownNameError: the query is no mapping, has an unknown key, or the value of one is faulty.
    """
    if isinstance(query, Request):
        return query
    check_is_query(query, row=row, fix=QUERY)
    try:
        return _request_of((model or query_model()).model_validate(query), query)
    except ValidationError as error:
        raise query_error(error, query, known=known_keys()).within(row) from None
    except QueryError as error:
        raise error.within(row) from None


def _request_of(read: QueryModel, query: Mapping[str, Any]) -> Request:
    """Return the request of a query that its model has read."""
    locked = read.items if read.locked is None else read.locked
    there, kept = {*read.items}, {*locked}
    absent = [item for item in locked if item not in there]
    if absent:
        fix = "Lock items of the set; what is to be added to it belongs into items."
        place = ("locked", locked.index(absent[0]))
        raise QueryError(f"{absent[0]!r:.80} is not in the set", location=place, value=absent[0], fix=fix)
    replaced = [item for item in read.items if item not in kept and item != MASK]
    items = [item if item in kept else MASK for item in read.items]
    asked = items if MASK in items else [*items, MASK]
    guidance = 1.0 if read.guidance is None else read.guidance
    if read.times is not None and len(read.times) != len(read.items):
        raise QueryError(
            f"{counted(len(read.times), 'time')} for {counted(len(read.items), 'item')}",
            location=(TIMES,),
            fix="Give one an item, null where it is not known.",
        )
    return Request(asked, read.context or {}, constraint_settings(read), replaced, guidance, query, read.times)


class AskedFor(Protocol):
    """Protocol of a request that says who asks."""

    @property
    def context(self) -> Mapping[str, Any]: ...


def encode_contexts(requests: Sequence[AskedFor], processor: "ContextualBertProcessor") -> "EncodedContext | None":
    """Return the contexts of requests, encoded; None where the processor has no schema.

    Raises:
        QueryError, UnknownNameError: a value that its feature does not take, or no such feature, by its place.
    """
    with in_queries("context"):
        return processor.encode_context([each.context for each in requests], num_rows=len(requests))


@contextmanager
def in_queries(*keys: str) -> Generator[None]:
    """Turn the row and the column of a table that was made of queries into a place in these queries.

    Args:
        keys: that lead from a query to the record of which the table has a row.

    Raises:
        QueryError, UnknownNameError: what came, by its place in the queries.

    Example:
        >>> with in_queries("context"):
        ...     raise DataError("'old' is no number", row=0, column="age")
        Traceback (most recent call last):
        contextual_bert.errors.QueryError: query 1, context.age: 'old' is no number
    """
    try:
        yield
    except (DataError, UnknownNameError) as error:
        if not isinstance(error.place, TablePlace):
            raise
        row, name = error.place.row, error.place.column
        place = (*([row] if row is not None else []), *keys, *([name] if name is not None else []))
        if isinstance(error, UnknownNameError):
            raise error.at(QueryPlace(place)) from None
        parts: Any = {"value": error.value, "allowed": error.allowed, "fix": error.fix}
        raise QueryError(error.problem, location=place, **parts) from None
