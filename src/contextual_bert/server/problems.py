"""What a client is told when something is wrong: problem documents after RFC 9457.

They name the field, its value and what is allowed, and nothing of the server's inside: no path, no traceback.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from fastapi.responses import Response

from contextual_bert.context.withheld import WITHHELD
from contextual_bert.errors import ConfigurationError, ContextualBertError, DataError, SchemaError, UnknownNameError
from contextual_bert.inference.catalogue_columns import PRICE
from contextual_bert.inference.queries import placed_row
from contextual_bert.json_text import echoed, json_text

MEDIA_TYPE = "application/problem+json"
LONGEST_VALUE, LONGEST_TEXT = 80, 1000  # characters
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
_FIELD = re.compile(r"^(?P<field>[\w.\[\]]+): (?=The )")
_PARAMETER = re.compile(r"^(?P<name>\w+)(?:: (?=The )|=)")


class Fault(TypedDict):
    """One thing that is wrong: ``field``: its path in the request; ``value``: as it was given, cut short."""

    field: str
    value: str | None
    problem: str
    allowed: str


class ProblemError(Exception):
    """Something to tell the client.

    Args:
        kind: one of KINDS.
        detail: what is wrong with this request, in a sentence.
        faults: which fields, where it is about fields.
        headers: of the answer, such as Retry-After.
    """

    def __init__(
        self, kind: str, detail: str, *, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None
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


def shown(value: object) -> str:
    """A value as JSON, cut to what a person reads."""
    return _cut(echoed(value), LONGEST_VALUE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def invalid(field: str, value: object, problem: str, *, allowed: str) -> ProblemError:
    """The problem of a single field."""
    fault = Fault(field=field, value=shown(value), problem=problem, allowed=allowed)
    return ProblemError("invalid-query", f"{field}: {problem}. {allowed}".rstrip(), faults=[fault])


def is_clients_fault(error: BaseException) -> bool:
    """Whether a query is to blame for an error of the pipeline."""
    return isinstance(error, DataError | UnknownNameError | SchemaError)


def parameter_problem(error: Exception, parameters: Mapping[str, Any]) -> ProblemError | None:
    """What the pipeline found wrong with a parameter of the address; None where it found something else.

    Args:
        error: of the pipeline.
        parameters: by the names that the pipeline has for them, with their values.

    Example:
        >>> error = ConfigurationError("slot=2 asks for [MASK] number 3, and the set has 1. Ask for that.")
        >>> parameter_problem(error, {"slot": 2}).faults[0]["field"]
        'slot'
    """
    if isinstance(error, DataError):
        name, problem, allowed = error.column if error.row is None else None, error.problem, error.fix
    elif isinstance(error, ConfigurationError | UnknownNameError):
        problem, _, allowed = str(error).partition(". ")
        found = _PARAMETER.match(problem)
        name = found["name"] if found else None
    else:
        return None
    if name is None or name not in parameters:
        return None
    return invalid(name, parameters[name], problem.removeprefix(f"{name}: "), allowed=allowed)


def problem_of(
    error: ContextualBertError,
    queries: Sequence[Any],
    *,
    is_list: bool,
    known: frozenset[str] = frozenset(),
    sensitive: frozenset[str] = frozenset(),
) -> ProblemError:
    """What the pipeline found wrong in a query, by the path of its field.

    Args:
        error: of the pipeline, for which ``is_clients_fault``.
        queries: what it was about.
        is_list: whether the request was a list, and not a single query.
        known: the names that a context may have.
        sensitive: those whose values are withheld.

    Example:
        >>> error = DataError("'old' is a str, not a number", row=0, column="age", fix="Give a number.")
        >>> problem_of(error, [{"context": {"age": "old"}}], is_list=False).faults[0]["field"]
        'context.age'
    """
    (row, text), path, allowed = placed_row(error), None, ""
    query = queries[row] if row is not None and row < len(queries) else None
    if isinstance(error, DataError):
        text, allowed = error.problem, error.fix
        path = _full_path(error.column, query) if error.column is not None else None
    else:
        text, _, allowed = text.partition(". ")
        if named := _FIELD.match(text):
            path, text = named["field"], text[named.end() :]
        else:
            path = _stranger(error, query, known)
    steps = ([f"[{row}]"] if is_list and row is not None else []) + ([path] if path else [])
    field = ".".join(steps).replace("].[", "][")
    value = _value_at(path, query)
    if value is not None and sensitive and path is not None:
        head, _, name = path.partition("context.")
        if path == "context":  # as a whole it may hold a sensitive value, and so may the text
            value, text = WITHHELD, f"the value {WITHHELD} is not allowed"
        elif not head and name in sensitive:
            value = WITHHELD
    fault = Fault(field=field, value=value, problem=text, allowed=allowed)
    detail = f"{text.rstrip('.')}. {allowed}".rstrip()
    return ProblemError("invalid-query", f"{field}: {detail}" if field else detail, faults=[fault])


def _full_path(column: str, query: Any) -> str:
    """The path of a column of an error: that of a context's feature is under ``context``."""
    top = re.split(r"[.\[]", column)[0]
    context: Any = query.get("context") if isinstance(query, Mapping) else None
    is_feature = isinstance(context, Mapping) and column in context and top not in (query or {})
    return f"context.{column}" if is_feature else column


def _stranger(error: Exception, query: Any, known: frozenset[str]) -> str | None:
    """The key that an error without a path is about."""
    if isinstance(query, Mapping) and (attribute := re.search(r"attribute '(.*?)'", str(error))):
        return _naming(attribute[1], query)
    context: Any = query.get("context") if isinstance(query, Mapping) else None
    if "no feature" in str(error) and isinstance(context, Mapping):
        return next((f"context.{key}" for key in context if key not in known), None)
    # The quotation mark at its end is missing where a long key was cut.
    named = re.search(r"unknown key '(?P<key>.*?)'?\.? (?:Did you mean|Known: )", str(error), flags=re.DOTALL)
    return named["key"] if named is not None and isinstance(query, Mapping) else None


def _naming(attribute: str, query: Mapping[str, Any]) -> str | None:
    """The key of a query that needs this attribute of the catalogue."""
    implied = [key for key in ("max_price", "budget") if attribute == PRICE and query.get(key) is not None]
    named = [
        key for key, value in query.items() if attribute == value or (isinstance(value, list) and attribute in value)
    ]
    return next(iter([*named, *implied]), None)


def _value_at(path: str | None, query: Any) -> str | None:
    if path is None:
        return None
    head, _, rest = path.partition(".")
    value: Any = query
    steps = ["context", rest] if head == "context" and rest else re.findall(r"[^.\[\]]+", path)
    try:
        for step in steps:
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (LookupError, TypeError, ValueError):
        return None
    return shown(value)
