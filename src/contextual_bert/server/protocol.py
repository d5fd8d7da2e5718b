"""The models that read the body of a request, made from the run that is served. OpenAPI describes the same models.

A context has the run's own features with their values, a query the constraints that are registered, with the lengths
that the server allows. What the vocabulary, the schema or the catalogue has to say is for the pipeline to check.
Answers need no model here: their types are those of the library.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    WithJsonSchema,
    create_model,
)

from contextual_bert.context import ContextSchema
from contextual_bert.context.kinds.feature import SINGLE_VALUE
from contextual_bert.errors import QueryError
from contextual_bert.inference import query_model
from contextual_bert.inference.queries import MASK, Request, read_request
from contextual_bert.inference.query_schema import (
    Condition,
    QueryModel,
    Test,
    Value,
    as_conditions,
    as_list,
    context_record,
    names,
)
from contextual_bert.inference.similar_queries import OF_SETS, SimilarRequest, read_similar_request
from contextual_bert.places import Key
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.settings import ServerSettings

ONE_QUERY = 'Give {"items": [...], "context": {...}}, one query.'
SIMILAR_QUERY = "SimilarQuery"
REFERENCE = "#/components/schemas/{model}"
_DAY = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])([T ].*)?$"

Asked = TypeVar("Asked", Request, SimilarRequest)


def context_model(schema: ContextSchema | None) -> type[BaseModel]:
    """The model of a context: a field a feature, and one a raw column that features read in part.

    Example:
        >>> from contextual_bert.context import Categorical
        >>> schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
        >>> list(context_model(schema).model_json_schema()["properties"])
        ['sex']
    """
    if schema is None:
        return create_model("Context", __config__=ConfigDict(extra="allow"), __doc__="Not used by this model.")
    described: dict[str, dict[str, Any]] = {each.name: each.query_schema() for each in schema.features}
    for each in schema.features:
        if each.column not in described:
            described[each.column] = _date_schema() if each.date is not None else each.query_schema()
    # Any text can be the name of a feature; that of a pydantic field cannot.
    fields: dict[str, Any] = {
        f"feature_{number}": (Annotated[Any, WithJsonSchema(value)], Field(default=None, alias=name))
        for number, (name, value) in enumerate(described.items())
    }
    about = "Who asks. A feature that is left out is missing."
    return create_model("Context", __config__=ConfigDict(extra="forbid"), __doc__=about, **fields)


def _date_schema() -> dict[str, Any]:
    day = {"type": "string", "pattern": _DAY}
    return {
        "anyOf": [day, {"type": "null"}],
        "examples": ["2016-03-05"],
        "description": "A day in ISO 8601, from which features of the context are taken. null: missing.",
    }


class BodySchemas(NamedTuple):
    """Schemas of the body of a request: ``single``, a query; ``many``, a query or a list of them; ``similar``, the same
    of queries for items alike; ``definitions`` by name.
    """

    single: Mapping[str, Any]
    many: Mapping[str, Any]
    similar: Mapping[str, Any]
    definitions: Mapping[str, Any]


def body_schema(model: type[BaseModel], settings: ServerSettings) -> dict[str, Any]:
    """Return the JSON schema of a query or a list of them, with the definitions that it names as ``$defs``."""
    query: Any = model
    many: Any = Annotated[list[query], Field(max_length=settings.max_queries)]
    return TypeAdapter(query | many).json_schema(ref_template=REFERENCE)


class QueryReader:
    """Reads the queries of a request, and says for OpenAPI what it takes.

    Args:
        schema: of the run's context.
        settings: how much a request may have.
    """

    def __init__(self, schema: ContextSchema | None, settings: ServerSettings) -> None:
        self.model = query_for(schema, settings)
        self._settings = settings

    def read(self, content: Any, *, is_single: bool = False) -> list[Request]:
        """Return the queries of a body, which is one or a list of them.

        Args:
            content: of the body.
            is_single: it may not be a list.

        Raises:
            ProblemError, QueryError, UnknownNameError: something else, or more than the limits allow.
        """
        if is_single:
            check_one_query(content, fix=ONE_QUERY)
        return self._read_each(content, self._request)

    def read_similar(self, content: Any) -> list[SimilarRequest]:
        """Return the queries for items alike of a body, which is one or a list of them.

        Raises:
            ProblemError, QueryError, UnknownNameError: something else, or more than the limits allow.
        """
        return self._read_each(content, partial(read_similar_request, model=self.model))

    def _read_each(self, content: Any, read: Callable[..., Asked]) -> list[Asked]:
        given = each_query(content, self._settings)
        queries = [read(query, row=row) for row, query in enumerate(given)]
        num_conditions = sum(len(each.settings.get("where", {}).get("where", ())) for each in queries)
        if num_conditions > (most := self._settings.max_all_conditions):
            limit = f"Send fewer queries at once: all together have at most {most:,}."
            raise ProblemError("invalid-query", f"The queries have {num_conditions:,} conditions in where. {limit}")
        return queries

    def schemas(self) -> BodySchemas:
        """Return the JSON schemas of the bodies that are read."""
        query = self.model
        schema = body_schema(query, self._settings)
        definitions = schema.pop("$defs")
        definitions[SIMILAR_QUERY] = similar_schema(definitions[query.__name__])
        alike = {"$ref": REFERENCE.format(model=SIMILAR_QUERY)}
        similar = {"anyOf": [{"type": "array", "items": alike, "maxItems": self._settings.max_queries}, alike]}
        return BodySchemas({"$ref": REFERENCE.format(model=query.__name__)}, schema, similar, definitions)

    def _request(self, given: Any, *, row: int) -> Request:
        """Return the request of a query for a set.

        Raises:
            QueryError: more [MASK] than the limit; an item that is not locked counts as one.
        """
        query = read_request(given, row=row, model=self.model)
        if (num_blanks := query.items.count(MASK)) <= self._settings.max_blanks:
            return query
        key = "locked" if query.replaced else "items"
        problem = f"the set has {num_blanks} {MASK}" + (" with the items that are not locked" if query.replaced else "")
        raise QueryError(problem, location=(row, key), fix=f"Give at most {self._settings.max_blanks}.")


def similar_schema(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a query for items alike: an item, and what a query for a set has beside the set.

    Example:
        >>> similar_schema({"properties": {"items": {}, "deny": {}, "budget": {}}})["properties"].keys()
        dict_keys(['item', 'deny'])
    """
    item = {"description": "The item whose neighbours are looked for; it is never one of them.", **SINGLE_VALUE}
    kept = {key: value for key, value in query["properties"].items() if key not in OF_SETS}
    return {
        **query,
        "title": SIMILAR_QUERY,
        "description": "An item, for whom its neighbours are, and which of them may be named.",
        "properties": {"item": item, **kept},
        "required": ["item"],
    }


def _as_written(value: Any) -> Any:
    """Return the text of a whole number; pydantic would read others, too, such as 1_0, +5 and 5.0."""
    if isinstance(value, str) and re.fullmatch(r"0|-?[1-9][0-9]{0,17}", value) is None:
        raise ValueError("Give a whole number, as 1 or 20 are written")
    return value


# Of a whole number in an address; it stands behind the limits, which OpenAPI then names.
AS_WRITTEN = BeforeValidator(_as_written)


def _as_decimal(value: Any) -> Any:
    """Return the text of a number; pydantic would read others, too, such as 1_0, +5 and 1e1."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", value) is None:
        raise ValueError("Give a number, as 16 or 2.5 are written")
    return value


AS_DECIMAL = BeforeValidator(_as_decimal)  # of a number with decimals


def record_within(value: Any, *, most: int) -> Mapping[str, Any]:
    """Return a context as a mapping, no list of which has more than so many values.

    Raises:
        DataError: it is no record, or a list is longer.
    """
    record = context_record(value)
    for keys, num in _lengths(record, ("context",)):
        if num > most:
            raise QueryError(f"the list has {num} values", location=keys, fix=f"Give at most {most}.")
    return record


def _lengths(value: Any, keys: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], int]]:
    """Yield the keys of each list in a value, and how many of its values are no lists and records themselves."""
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield from _lengths(each, (*keys, key))
    elif isinstance(value, list):
        values = cast("list[Any]", value)
        num_inner = 0
        for number, each in enumerate(values):
            if isinstance(each, dict | list):
                num_inner += 1
                yield from _lengths(each, (*keys, number))
        yield keys, len(values) - num_inner


def check_one_query(content: Any, *, fix: str) -> None:
    """Raise QueryError where a body is a list of queries, or no query."""
    if not isinstance(content, dict):
        problem = "it is a list of queries" if isinstance(content, list) else "it is not a query"
        raise QueryError(problem, value=content, fix=fix)


def each_query(content: Any, settings: ServerSettings) -> list[Any]:
    """Return the queries of a body, which is one or a list of them, unread.

    Raises:
        ProblemError: more of them than the limit.
    """
    given = cast("list[Any]", content if isinstance(content, list) else [content])
    if len(given) > (most := settings.max_queries):
        limit = f"Send at most {most} queries at once."
        raise ProblemError("invalid-query", f"The list has {len(given)} queries. {limit}")
    return given


def context_field(schema: ContextSchema | None, settings: ServerSettings) -> Any:
    """Return the type of a context in a body: a record of the run's features, with lists within the limit."""
    within = partial(record_within, most=settings.max_context_values)
    return Annotated[Mapping[str, Any], PlainValidator(within, json_schema_input_type=context_model(schema))]


def query_for(schema: ContextSchema | None, settings: ServerSettings) -> type[QueryModel]:
    """Return the model of a query: items, the run's context, and the constraints that are registered now."""
    limits: dict[str, Any] = {"type": "array", "items": SINGLE_VALUE, "maxItems": settings.max_set_length}
    about = (
        f"The set, with [MASK] where an item is missing (at most {settings.max_blanks}); without one, one more item is "
        "proposed. Items that the model does not know are listed in the answer."
    )
    values: Any = Annotated[list[Value], Field(max_length=settings.max_values, fail_fast=True)]
    lists: dict[str, Any] = {
        "one_of": (values | None, Field(default=None, alias="in")),
        "not_in": (values | None, None),
    }
    condition: Any = create_model("Condition", __base__=Condition, __doc__=Condition.__doc__, **lists)
    few = Field(max_length=settings.max_conditions)
    where: Any = Annotated[list[condition], few] | condition | Annotated[dict[str, Test], few]
    one_per: Any = Annotated[list[str], Field(max_length=settings.max_one_per)]
    context = context_field(schema, settings)
    conditions: Any = Annotated[list[condition], few, BeforeValidator(as_conditions, json_schema_input_type=where)]
    attributes: Any = Annotated[one_per, BeforeValidator(as_list, json_schema_input_type=str | one_per)]
    fields: dict[str, Any] = {
        "items": (
            Annotated[
                list[str], Field(max_length=settings.max_set_length), BeforeValidator(names), WithJsonSchema(limits)
            ],
            Field(default=[], description=about),
        ),
        "context": (context | None, None),
        "where": (conditions | None, None),
        "at_most_one_per": (attributes | None, None),
    }
    return create_model("Query", __base__=query_model(), __doc__="A set to complete.", **fields)
