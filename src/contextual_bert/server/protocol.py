"""Models of requests, made from the run that is served, for OpenAPI.

A context has the run's own features with their values, a query the constraints that are registered. The models
describe. What a query may hold is checked by the pipeline itself, so that the server and the library say the same.
Answers need no model here: their types are those of the library.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema, create_model

from contextual_bert.context import ContextSchema
from contextual_bert.context.kinds.feature import SINGLE_VALUE
from contextual_bert.inference import query_model
from contextual_bert.inference.query_schema import Condition, Test
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Version

REFERENCE = "#/components/schemas/{model}"
_DAY = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])([T ].*)?$"


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
    described: dict[str, dict[str, Any]] = {each.name: each.json_schema() for each in schema.features}
    for each in schema.features:
        if each.column not in described:
            described[each.column] = _date_schema() if each.date is not None else each.json_schema()
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


def query_for(schema: ContextSchema | None, settings: ServerSettings) -> type[BaseModel]:
    """The model of a query: items, the run's context, and the constraints that are registered now."""
    limits: dict[str, Any] = {"type": "array", "items": SINGLE_VALUE, "maxItems": settings.max_set_length}
    about = (
        f"The set, with [MASK] where an item is missing (at most {settings.max_blanks}); without one, one more item is "
        "proposed. Items that the model does not know are listed in the answer."
    )
    few = Field(max_length=settings.max_conditions)
    where: Any = Annotated[list[Condition], few] | Condition | Annotated[dict[str, Test], few]
    one_per: Any = str | Annotated[list[str], Field(max_length=settings.max_one_per)]
    fields: dict[str, Any] = {
        "items": (Annotated[list[str], WithJsonSchema(limits)], Field(default=[], description=about)),
        "context": (context_model(schema) | None, None),
        "where": (where | None, None),
        "at_most_one_per": (one_per | None, None),
    }
    return create_model("Query", __base__=query_model(), __doc__="A set to complete.", **fields)


class BodySchemas(NamedTuple):
    """Schemas of the body of a request: ``single``, a query; ``many``, a query or a list; ``definitions`` by name."""

    single: Mapping[str, Any]
    many: Mapping[str, Any]
    definitions: Mapping[str, Any]


def body_schemas(version: Version, settings: ServerSettings) -> BodySchemas:
    """The schemas of the bodies that this version takes."""
    query: Any = query_for(version.pipeline.processor.schema, settings)
    many: Any = Annotated[list[query], Field(max_length=settings.max_queries)]
    schema = TypeAdapter(query | many).json_schema(ref_template=REFERENCE)
    definitions = schema.pop("$defs")
    return BodySchemas({"$ref": REFERENCE.format(model=query.__name__)}, schema, definitions)
