"""The model that reads queries about texts, made from the run that is served. OpenAPI describes the same model.

A query has the texts that the run takes and its own features, with the lengths that the server allows. How much of a
text the model reads is for the pipeline to say in its answer.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, cast

from pydantic import Field, WithJsonSchema, create_model

from contextual_bert.context import ContextSchema
from contextual_bert.errors import QueryError
from contextual_bert.inference.texts.text_queries import (
    TextQueryForm,
    TextQueryModel,
    TextRequest,
    read_text_request,
    text_query_model,
)
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.protocol import REFERENCE, body_schema, check_one_query, context_field, each_query
from contextual_bert.server.settings import ServerSettings

_ABOUT = {
    "text": "The text. What the model does not read of a long one is said in the answer.",
    "pair": "The second text, which belongs to the first.",
    "question": "What is asked about the text.",
}
_WORDS = "The words, each of which gets a tag; or a text, which is split at spaces."


class TextBodySchemas(NamedTuple):
    """Schemas of the bodies of requests.

    ``single``: a query; ``many``: a query or a list of them; ``definitions`` by name.
    """

    single: Mapping[str, Any]
    many: Mapping[str, Any]
    definitions: Mapping[str, Any]


class TextReader:
    """Reads the queries of a request about texts, and says for OpenAPI what it takes.

    Args:
        form: of the queries.
        schema: of the run's context.
        settings: how much a request may have.
    """

    def __init__(self, form: TextQueryForm, schema: ContextSchema | None, settings: ServerSettings) -> None:
        self.form, self._settings = form, settings
        self.model = text_query_for(form, schema, settings)

    def read(self, content: Any, *, is_single: bool = False) -> list[TextRequest]:
        """Return the queries of a body, which is one or a list of them.

        Args:
            content: of the body.
            is_single: it may not be a list.

        Raises:
            ProblemError, QueryError, UnknownNameError: something else, or more than the limits allow.
        """
        if is_single:
            check_one_query(content, fix=self.form.fix.partition(", or")[0] + ".")
        given = each_query(content, self._settings)
        queries = [
            read_text_request(query, row=row, form=self.form, model=self.model) for row, query in enumerate(given)
        ]
        total, most = 0, self._settings.max_text_characters
        for row, query in enumerate(queries):
            for key, size in query.sizes.items():
                total += size
                if size > most:
                    problem = f"the text has {size:,} characters"
                    raise QueryError(problem, location=(row, key), fix=f"Give at most {most:,}.")
        if total > (most := self._settings.max_all_characters):
            limit = f"Send fewer texts at once: all together have at most {most:,}."
            raise ProblemError("invalid-query", f"The texts have {total:,} characters. {limit}")
        return queries

    def schemas(self) -> TextBodySchemas:
        """Return the JSON schemas of the bodies that are read."""
        schema = body_schema(self.model, self._settings)
        definitions = schema.pop("$defs")
        return TextBodySchemas({"$ref": REFERENCE.format(model=self.model.__name__)}, schema, definitions)


def text_query_for(form: TextQueryForm, schema: ContextSchema | None, settings: ServerSettings) -> type[TextQueryModel]:
    """Return the model of a query of this form, with the run's context and the server's limits.

    Example:
        >>> model = text_query_for(TextQueryForm("answer"), None, ServerSettings(max_text_characters=99))
        >>> model.model_json_schema()["properties"]["question"]["maxLength"]
        99
    """
    base = text_query_model(form)
    fields: dict[str, Any] = {"context": (context_field(schema, settings) | None, None)}
    for key in form.texts:
        own = base.model_fields[key]
        limits: dict[str, Any] = {"type": "string", "maxLength": settings.max_text_characters}
        if key != "pair":
            limits |= {"minLength": 1} if form.is_blank_read and key == "text" else {"minLength": 1, "pattern": r"\S"}
        about = _ABOUT[key]
        if key == "text" and form.has_words:
            about, word = _WORDS, {"type": "string"}
            limits = {"anyOf": [{"type": "array", "items": word, "minItems": 1}, {**limits, "pattern": r"\S"}]}
        if not own.is_required():
            limits = {"anyOf": [limits, {"type": "null"}]}
        kind: Any = Annotated[cast(Any, own.annotation), *own.metadata, WithJsonSchema(limits)]
        default: Any = ... if own.is_required() else None
        fields[key] = (kind, Field(default=default, description=about))
    return create_model("TextQuery", __base__=base, __doc__=base.__doc__, **fields)
