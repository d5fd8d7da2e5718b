"""Problem documents (RFC 9457): what a client is told when something is wrong.

They name the place (RFC 6901), the value and what is allowed. They name nothing of the server's inside: no path, no
traceback.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired

from fastapi.responses import Response
from typing_extensions import TypedDict

from contextual_bert.errors import (
    NAME,
    WITHHELD,
    ContextualBertError,
    DataError,
    SchemaError,
    UnknownNameError,
    in_python,
    rendered,
    spelled,
)
from contextual_bert.inference.query_schema import existing_keys
from contextual_bert.json_text import echoed, json_text
from contextual_bert.places import Key, QueryPlace, SettingPlace

MEDIA_TYPE = "application/problem+json"
LONGEST_VALUE, LONGEST_TEXT = 80, 1000  # characters
# Setting -> what it is called where a server is started.
_OF_THE_SERVER = {
    "batch_size": "the queries a batch (--max-batch)",
    "catalogue": "a catalogue (--catalogue)",
    "max_forward_passes": "the forward passes of a query (--max-forward-passes)",
}
# Kind -> status, title. The kinds stand in docs/guides/serve.md.
KINDS: dict[str, tuple[int, str]] = {
    "malformed-request": (400, "The request is not readable"),
    "key-needed": (401, "The API key is missing or wrong"),
    "cross-origin": (403, "Pages of other websites may not ask this server"),
    "not-administered": (403, "This server was started without an API key and cannot be administered"),
    "not-found": (404, "There is nothing here"),
    "method-not-allowed": (405, "This address does not take that method"),
    "slow-body": (408, "The request took too long to arrive"),
    "conflict": (409, "The server cannot do this now"),
    "body-too-large": (413, "The request is too large"),
    "not-json": (415, "The request is not JSON"),
    "wrong-host": (421, "This server does not answer for that host"),
    "invalid-query": (422, "A value is not allowed"),
    "queue-full": (429, "Too many queries are waiting"),
    "head-too-large": (431, "The address or the headers are too large"),
    "internal-error": (500, "The server made a mistake"),
    "no-numbers": (500, "The model gives no numbers"),
    "reload-failed": (500, "The new version could not be loaded"),
    "deadline-exceeded": (503, "The query waited too long and was not computed"),
    "not-ready": (503, "The server does not take queries now"),
    "too-slow": (504, "The answer came too late"),
}


class InvalidValue(TypedDict):
    """One thing that is wrong in a request, at a ``pointer`` or in a ``parameter``.

    Args:
        pointer: JSON pointer (RFC 6901) to the value in the body.
        parameter: of the address.
        value: as it was given, cut short; null where there is none.
        problem: what is wrong with it.
        allowed: what is allowed, and what to do.
    """

    pointer: NotRequired[str]
    parameter: NotRequired[str]
    value: str | None
    problem: str
    allowed: str


class ProblemError(Exception):
    """Something to tell the client.

    Args:
        kind: one of KINDS.
        detail: what is wrong with this request, in a sentence.
        faults: of single values of the request.
        headers: of the answer, such as Retry-After.
    """

    def __init__(
        self, kind: str, detail: str, *, faults: Sequence[InvalidValue] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.faults, self.headers = kind, detail, tuple(faults), dict(headers or {})

    @property
    def status(self) -> int:
        """The status of the answer."""
        return KINDS[self.kind][0]

    def document(self, request_id: str) -> dict[str, Any]:
        """The members of RFC 9457, and the faults; a document is short, however long the request was."""
        status, title = KINDS[self.kind]
        members: dict[str, Any] = {
            "type": f"urn:contextual-bert:problem:{self.kind}",
            "title": title,
            "status": status,
            "detail": _cut(self.detail, LONGEST_TEXT),
            "request_id": request_id,
        }
        texts: list[dict[str, Any]] = [
            {name: _cut(text, LONGEST_TEXT) if isinstance(text, str) else text for name, text in fault.items()}
            for fault in self.faults
        ]
        return members | ({"errors": texts} if texts else {})

    def response(self, request_id: str) -> Response:
        """The answer."""
        # Values are echoed: of what is no character, JSON can only hold the escaped form.
        body = json_text(self.document(request_id))
        return Response(body, status_code=self.status, media_type=MEDIA_TYPE, headers=self.headers)


def json_excerpt(value: object) -> str:
    """A value as JSON, cut to what a person reads."""
    return _cut(echoed(value), LONGEST_VALUE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def invalid_parameter(name: str, value: object, problem: str, *, allowed: str) -> ProblemError:
    """Return the problem of a parameter of the address."""
    fault = InvalidValue(parameter=name, value=json_excerpt(value), problem=problem, allowed=allowed)
    return ProblemError("invalid-query", f"{name}: {problem}. {allowed}".rstrip(), faults=[fault])


def is_clients_fault(error: BaseException) -> bool:
    """Return whether a query is to blame for an error of the pipeline."""
    return isinstance(error, DataError | UnknownNameError | SchemaError)


def parameter_problem(error: Exception, parameters: Mapping[str, Any]) -> ProblemError | None:
    """Return the problem of a parameter of the address; None where something else is wrong.

    Args:
        error: of the pipeline.
        parameters: by the names that the pipeline has for them, with their values.

    Example:
        >>> from contextual_bert.errors import ConfigurationError
        >>> error = ConfigurationError("is too large", setting="slot", value=2, fix="Give less.")
        >>> parameter_problem(error, {"slot": 2}).faults[0]["parameter"]
        'slot'
    """
    if not isinstance(error, ContextualBertError) or not isinstance(error.place, SettingPlace):
        return None
    name = error.place.name
    if name not in parameters:
        return None
    problem = f"{error.place.text(error.value, in_http)}{spelled(error.problem, in_http)}"
    fault = InvalidValue(parameter=name, value=json_excerpt(parameters[name]), problem=problem, allowed=_advice(error))
    return ProblemError("invalid-query", rendered(error, in_http), faults=[fault])


def problem_of(error: ContextualBertError, body: Any, *, sensitive: frozenset[str] = frozenset()) -> ProblemError:
    """Return the problem of a value in the body of a request.

    Args:
        error: of the pipeline, for which ``is_clients_fault``. Its location leads into the body.
        body: of the request: a query, or a list of queries.
        sensitive: names in a context whose values are withheld.

    Example:
        >>> from contextual_bert.errors import QueryError
        >>> error = QueryError("'old' is no number", location=("context", "age"), fix="Give a number.")
        >>> problem_of(error, {"context": {"age": "old"}}).faults[0]["pointer"]
        '/context/age'
    """
    place = error.place if isinstance(error.place, QueryPlace) else QueryPlace()
    keys = existing_keys(body, place.keys if isinstance(body, list) else place.inner)
    inner, is_told = QueryPlace(keys).inner, error.value is not NAME
    value = json_excerpt(_value_at(body, keys)) if inner or is_told else None
    if value is not None and sensitive and _may_tell(inner, error, sensitive):
        value = WITHHELD
        error = error.withheld() if is_told and not isinstance(error, UnknownNameError) else error
    fault = InvalidValue(
        pointer=pointer_to(keys), value=value, problem=spelled(error.problem, in_http), allowed=_advice(error)
    )
    detail = rendered(error, in_http, place=QueryPlace(keys).text(None, in_http))
    return ProblemError("invalid-query", detail, faults=[fault])


def in_http(name: str, value: object) -> str:
    """Return a setting as a client knows it: a parameter of the address, or what the server was started with.

    Example:
        >>> in_http("top_k", 3), in_http("method", "auto"), in_http("catalogue", ...)
        ('top_k=3', "method='auto'", 'a catalogue (--catalogue) when the server is started')
    """
    if name in _OF_THE_SERVER:
        return f"{_OF_THE_SERVER[name]} when the server is started"
    if value is NAME or value is ...:
        return name
    return in_python(name, value) if isinstance(value, str) else f"{name}={json_excerpt(value)}"


def _advice(error: ContextualBertError) -> str:
    """Return the sentences on allowed values and the fix, in the words of a client."""
    return " ".join(spelled(part, in_http) for part in (error.allowed, error.fix) if part)


def _may_tell(inner: Sequence[Key], error: ContextualBertError, sensitive: frozenset[str]) -> bool:
    """Return whether a value of a query may hold that of a sensitive feature, misspelt or in the wrong place."""
    if not inner or isinstance(error, UnknownNameError):
        return True
    return inner[0] == "context" and (len(inner) == 1 or inner[1] in sensitive)


def _value_at(body: Any, keys: Sequence[Key]) -> Any:
    for key in keys:
        body = body[key]
    return body


def pointer_to(keys: Sequence[Key]) -> str:
    """Return the JSON pointer (RFC 6901) of these keys, or of as many of them as a problem has room for.

    Example:
        >>> pointer_to((1, "context", "days/week"))
        '/1/context/days~1week'
    """
    pointer = ""
    for key in keys:
        longer = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if len(longer) > LONGEST_TEXT:
            break
        pointer = longer
    return pointer
