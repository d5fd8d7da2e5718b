"""Queries about texts: the keys that a run takes, and the pydantic model that reads a query in Python and over HTTP.

It knows no model and no token. What the schema of the context has to say is for the pipeline to check.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)

from contextual_bert.arrow_types import checked_text
from contextual_bert.context.raw_values import none_if_missing
from contextual_bert.errors import DataError, QueryError, shown
from contextual_bert.inference.queries import MASK, check_count, check_is_query, check_queries
from contextual_bert.inference.query_schema import GUIDANCE, Record, Weight, as_list_or_none, given_value, query_error
from contextual_bert.inference.saved_files import PairUse

Answer = TypeVar("Answer")
TextGives = Literal["label", "labels", "number", "tags", "answer", "text", "words"]


@dataclass(frozen=True)
class TextQueryForm:
    """Form of the queries that a pipeline for texts takes.

    Args:
        gives: the answer to a query: one label, several labels, a number, a tag a word, a piece of the text that
            answers a question, another text, words for each [MASK], or a vector.
        pair: whether a text has a second one.

    Example:
        >>> TextQueryForm("answer").keys, TextQueryForm("label").keys
        (('question', 'text', 'context'), ('text', 'context', 'guidance'))
        >>> TextQueryForm("tags").fix
        'Give {"text": ["word", ...], "context": {...}}, or a list of such queries.'
    """

    gives: TextGives | Literal["vector"]  # vectors are not served
    pair: PairUse = "none"

    @property
    def has_words(self) -> bool:
        """Whether a text is a list of words; one that is no list is split at spaces."""
        return self.gives == "tags"

    @property
    def is_blank_read(self) -> bool:
        """Whether a text may be blank: of such a one there is a label, with a note, and no tag or answer."""
        return self.gives in ("label", "labels", "number")

    @property
    def texts(self) -> tuple[str, ...]:
        """The keys of the texts of a query, in the order in which the model reads them."""
        first = ("question",) if self.gives == "answer" else ()
        return (*first, "text", *(("pair",) if self.pair != "none" else ()))

    @property
    def required(self) -> tuple[str, ...]:
        """The keys of the texts that every query has."""
        return tuple(key for key in self.texts if key != "pair" or self.pair == "required")

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of a query."""
        guided = () if self.gives in ("answer", "text", "vector") else (GUIDANCE,)
        return (*self.texts, "context", *guided)

    @property
    def example(self) -> dict[str, str]:
        """A query that can be answered, of a letter a text."""
        return {**dict.fromkeys(self.texts, "a"), **({"text": f"a {MASK}"} if self.gives == "words" else {})}

    @property
    def fix(self) -> str:
        """What a query looks like, for messages."""
        shapes = {"text": '["word", ...]'} if self.has_words else {}
        needed = [key for key in self.texts if key != "pair" or self.pair == "required"]
        shapes |= {"text": f'"... {MASK} ..."'} if self.gives == "words" else {}
        parts = [f'"{key}": {shapes.get(key, chr(34) + "..." + chr(34))}' for key in needed]
        return f'Give {{{", ".join(parts)}, "context": {{...}}}}, or a list of such queries.'


@dataclass(frozen=True)
class TextRequest:
    """A query about a text as it was read.

    ``text``: the text, or its words where these get tags; ``context``: the record of who asks; ``pair``: the second
    text; ``question``: what is asked about the text; ``guidance``: how personal the answer is to be.
    """

    text: str | list[str]
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pair: str | None = None
    question: str | None = None
    guidance: float = 1.0

    @property
    def sizes(self) -> dict[str, int]:
        """Key -> characters of its text; of words one more each, for the blank between them."""
        found = {"text": len(self.text) if isinstance(self.text, str) else sum(map(len, self.text)) + len(self.text)}
        beside = {"pair": self.pair, "question": self.question}
        return found | {key: len(value) for key, value in beside.items() if value is not None}


TextQuery = Mapping[str, Any] | TextRequest


class TextQueryModel(BaseModel):
    """Base of the models that read a query about a text: who asks; ``text_query_model`` adds the texts.

    The model of a server has its limits beside them, and the run's own features in the document of the context.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    context: Record | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_missing(cls, given: Mapping[Any, Any]) -> dict[Any, Any]:
        """Leave out what says nothing, such as null and NA of pandas; a text that is left out is looked at as null."""
        kept = {key: given_value(value) if key == GUIDANCE else value for key, value in given.items()}
        kept = {key: value for key, value in kept.items() if not _says_nothing(key, value)}
        return {key: None for key in ("question", "text") if key in cls.model_fields} | kept


def _says_nothing(key: Any, value: Any) -> bool:
    if key == "context":
        value = none_if_missing(value)
        return value is None or (not hasattr(value, "ndim") and not value)
    return value is None and key in ("pair", GUIDANCE)


def _text(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not value:
        raise _no_text(value, info)
    return _whole(value, info.field_name)


def _text_to_read(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _no_text(value, info)
    return _text(value, info)


def _second_text(value: Any) -> str:
    if not isinstance(value, str):
        raise QueryError(f"{shown(value)} is no second text", location=("pair",), value=value, fix="Give text as pair.")
    return _whole(value, "pair")


def _words(value: Any, info: ValidationInfo) -> list[str]:
    words: list[Any] | None = value.split() if isinstance(value, str) else as_list_or_none(value)
    if not words:
        raise _no_text(value, info)
    for number, word in enumerate(words):
        if not isinstance(word, str):
            location = (cast(str, info.field_name), number)
            raise QueryError(f"{shown(word)} is no word", location=location, value=word, fix="Give a list of words.")
        _whole(word, info.field_name, number)
    return words


def _no_text(value: Any, info: ValidationInfo) -> QueryError:
    return QueryError(f"{shown(value)} is no text", location=(cast(str, info.field_name),), value=value)


def _whole(text: str, *keys: Any) -> str:
    """Return the text, of which no character is half of one."""
    try:
        return checked_text(text)
    except DataError as error:
        raise QueryError(error.problem, location=keys, value=error.value, fix=error.fix) from None


_TEXT: Any = Annotated[str, BeforeValidator(_text)]
_TEXT_TO_READ: Any = Annotated[str, BeforeValidator(_text_to_read)]
_SECOND_TEXT: Any = Annotated[str, BeforeValidator(_second_text)]
_OPTIONAL_TEXT: Any = Annotated[str | None, BeforeValidator(_second_text)]
_WORDS: Any = Annotated[list[str], BeforeValidator(_words, json_schema_input_type=list[str] | str)]


@lru_cache
def text_query_model(form: TextQueryForm) -> type[TextQueryModel]:
    """Return the model of a query of this form: its texts, who asks and, where it is read, how personal it is to be.

    Example:
        >>> text_query_model(TextQueryForm("answer")).model_json_schema()["required"]
        ['question', 'text']
    """
    text = _WORDS if form.has_words else _TEXT if form.is_blank_read else _TEXT_TO_READ
    kinds = {"text": text, "pair": _SECOND_TEXT}
    fields: dict[str, Any] = {key: (kinds.get(key, _TEXT_TO_READ), ...) for key in form.texts}
    if form.pair == "optional":
        fields["pair"] = (_OPTIONAL_TEXT, None)
    if GUIDANCE in form.keys:
        weight: Any = Weight
        fields[GUIDANCE] = (weight | None, None)
    return create_model("TextQuery", __base__=TextQueryModel, __doc__="A text, and who asks.", **fields)


def read_text_request(
    query: TextQuery, *, row: int, form: TextQueryForm, model: type[TextQueryModel] | None = None
) -> TextRequest:
    """Return the request of a query; a request that was read is itself.

    Args:
        query: as the user gave it.
        row: its number, for messages.
        form: what the pipeline takes.
        model: reads it; default: ``text_query_model(form)``.

    Raises:
        QueryError, UnknownNameError: the query is no mapping, has an unknown key, or the value of one is faulty.

    Example:
        >>> read_text_request({"text": "a quiet room"}, row=0, form=TextQueryForm("tags")).text
        ['a', 'quiet', 'room']
    """
    if isinstance(query, TextRequest):
        return query
    check_is_query(query, row=row, fix=form.fix)
    try:
        read: Any = (model or text_query_model(form)).model_validate(query)
    except ValidationError as error:
        found = query_error(error, query, known=form.keys)
        if isinstance(found, QueryError) and not found.fix:
            parts: Any = {"location": found.location, "value": found.value, "allowed": found.allowed}
            found = QueryError(found.problem, **parts, fix=form.fix)
        raise found.within(row) from None
    beside = {key: getattr(read, key, None) for key in ("pair", "question")}
    guidance = getattr(read, GUIDANCE, None)
    return TextRequest(read.text, read.context or {}, **beside, guidance=1.0 if guidance is None else guidance)


def one_or_many(
    queries: object, answered: Callable[..., list[Answer]], *, form: TextQueryForm, batch_size: int
) -> Answer | list[Answer]:
    """Return the answer to one query, or those to a list of them.

    Args:
        queries: what came.
        answered: gives the answers to a list of queries that is not empty, so many a forward pass.
        form: of the queries.
        batch_size: queries a forward pass.

    Raises:
        ConfigurationError: a number of queries below 1.
        DataError: neither a query nor a list.

    Example:
        >>> one_or_many([], lambda queries, batch_size: ["never asked"], form=TextQueryForm("label"), batch_size=8)
        []
    """
    check_count("batch_size", batch_size)
    if isinstance(queries, Mapping | TextRequest):
        return answered([queries], batch_size=1)[0]
    given = check_queries(queries, fix=form.fix)
    return answered(given, batch_size=batch_size) if given else []
