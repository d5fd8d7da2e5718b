"""Request helpers of the routes that ask the model: bodies within limits, queries, answers, and errors in between.

Of a body only size and form are checked, before anything is computed. What a query may say is for its model, see
``protocol``. Which question is asked, and who computes it, is for the routes to say.
"""

import asyncio
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeVar, cast, get_origin

import numpy as np
from fastapi import Request
from fastapi.responses import Response

from contextual_bert.errors import (
    WITHHELD,
    ConfigurationError,
    ContextualBertError,
    DataError,
    NonFiniteError,
    UnknownNameError,
    did_you_mean,
    rendered,
)
from contextual_bert.json_text import json_text
from contextual_bert.server.logs import EVENTS, RequestRecord
from contextual_bert.server.middleware import RECORD
from contextual_bert.server.problems import (
    ProblemError,
    in_http,
    invalid_parameter,
    is_clients_fault,
    parameter_problem,
    problem_of,
)
from contextual_bert.server.queueing import DeadlineError, DrainingError, QueueFullError
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, Version

SEE = "What it may be is in /openapi.json."
_LARGE_BYTES = 16 * 1024
_MAX_DEPTH = 32  # a query in a list with conditions that have lists of values: 6
_MAX_DIGITS = 4000  # Python itself refuses whole numbers of more than 4,300
# The last quotation mark is optional: a text without an end would be looked for anew at each of its escaped ones.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_DIGITS = re.compile(rb"[0-9]{400,}")
_READER = ThreadPoolExecutor(1, thread_name_prefix="contextual-bert-reading")
Found = TypeVar("Found")

DEADLINE_ABOUT = "Answer within this, or not at all; the server's own limit is the default and the most."


async def read_body(request: Request, *, timeout_seconds: float) -> bytes:
    """Return the body of a request.

    Raises:
        ProblemError: it says to be something else than JSON, or does not arrive in time.
    """
    given = request.headers.getlist("content-type")
    media_type = given[0].partition(";")[0].strip().lower() if len(given) == 1 else None
    if media_type != "application/json":
        # A form of another website can be sent without the browser asking first, JSON cannot.
        said = f"The body has the type {', '.join(given)!r:.80}." if given else "The request has no Content-Type."
        raise ProblemError("not-json", f"{said} Send the header Content-Type: application/json.")
    if (encoding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise ProblemError("not-json", f"The body has the Content-Encoding {encoding!r:.80}. Send it uncompressed.")
    try:
        async with asyncio.timeout(timeout_seconds):
            return await request.body()
    except TimeoutError:
        raise ProblemError(
            "slow-body", f"The body was not there after {timeout_seconds:g} seconds. Try again."
        ) from None


async def beside_the_loop(body: bytes, work: Callable[[], Found]) -> Found:
    """Return what ``work`` makes of a body; a large one does not stop the answers to others meanwhile.

    Large bodies are read one after the other, so that they share the time of one thread.
    """
    if len(body) < _LARGE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_READER, work)


def parse_body(body: bytes, settings: ServerSettings) -> Any:
    """Return the content of a body, whose size and depth are looked at before its content is.

    Raises:
        ProblemError: it is no JSON, or too much.
    """
    check_extent(body, settings)
    try:
        text = body.decode("utf-8")
        content = json.loads(text, parse_constant=_refuse, object_pairs_hook=_record)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(content, ensure_ascii=False).encode("utf-8")  # half a pair of surrogates is no character
    except UnicodeError:
        raise ProblemError(
            "malformed-request", "The body is not UTF-8, or names a character that does not exist."
        ) from None
    except ValueError as error:
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ProblemError("malformed-request", f"The body is not valid JSON{place}. {SEE}") from None
    return content


def check_extent(body: bytes, settings: ServerSettings) -> None:
    """Raise ProblemError unless what claims to be JSON is flat, and has few values and short numbers."""
    most = settings.max_json_values
    # Of a short body what it has at most, strings included, is little enough.
    opened = body.count(b"[") + body.count(b"{")
    if len(body) <= _MAX_DIGITS and opened <= _MAX_DEPTH and opened + body.count(b",") <= most:
        return
    # Cheap bounds first. A value has at most a key and itself between quotation marks.
    if body.count(b'"') > 8 * most and body.count(b'"') - body.count(b'\\"') > 4 * most:
        raise _too_many_values(most)
    bare = _STRING.sub(b"", body)
    if sum(map(bare.count, (b",", b"[", b"{"))) > most:
        raise _too_many_values(most)
    characters = np.frombuffer(bare, np.uint8)
    opening = (characters == ord("[")) | (characters == ord("{"))
    closing = (characters == ord("]")) | (characters == ord("}"))
    depth = np.cumsum(opening.astype(np.int32) - closing.astype(np.int32)).max(initial=0)
    if depth > _MAX_DEPTH:
        raise ProblemError("malformed-request", f"The JSON is nested more than {_MAX_DEPTH} deep. {SEE}")
    if (digits := max(map(len, _DIGITS.findall(bare)), default=0)) > _MAX_DIGITS:
        raise ProblemError(
            "malformed-request", f"A number has {digits:,} digits. Allowed: {_MAX_DIGITS:,}. Send a shorter number."
        )


def _too_many_values(most: int) -> ProblemError:
    fix = "Send fewer queries or shorter lists."
    return ProblemError("body-too-large", f"The body has more than {most:,} values. {fix}")


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ProblemError(
            "malformed-request", f"The key {twice!r:.80} stands twice in one record. Give every key once."
        )
    return record


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


class CompletionRequest(NamedTuple):
    """The queries of an HTTP request.

    Args:
        version: under which they came in.
        queries: read once, here, each a ``Request`` or a ``SimilarRequest``. The pipeline takes them as they are.
        body: as it was parsed, for the place of a fault.
        record: of the request, for the log.
    """

    version: Version
    queries: list[Any]
    body: Any
    record: RequestRecord

    @property
    def is_list(self) -> bool:
        """Whether the body was a list of queries, and so the answer is one."""
        return isinstance(self.body, list)

    def seconds_left(self, deadline_milliseconds: int) -> float:
        """Until the deadline, which runs from the arrival of the request."""
        return deadline_milliseconds / 1000 - self.record.seconds

    def problem(self, error: Exception, parameters: Mapping[str, Any]) -> Exception:
        """Return the problem document for an error. An error that is no news for the client is returned as it is.

        Args:
            error: of the queue or the pipeline.
            parameters: of the address, by the names that the pipeline has for them.
        """
        if (problem := _of_the_queue(error) or parameter_problem(error, parameters)) is not None:
            return problem
        if is_clients_fault(error):
            return problem_of(cast(ContextualBertError, error), self.body, sensitive=self.version.sensitive_names)
        if isinstance(error, NonFiniteError):
            EVENTS.error(str(error), extra={"details": {"request_id": self.record.request_id}})
            return ProblemError("no-numbers", "The model gives NaN for this query. The server's log says why.")
        # What this model cannot do, in the library's words.
        return ProblemError("conflict", rendered(error, in_http)) if isinstance(error, ConfigurationError) else error

    def answer(self, content: Any, *, queue_seconds: float, model_seconds: float) -> Response:
        """The answer; the log is told how long it took."""
        self.record.details |= {
            "queue_milliseconds": round(1000 * queue_seconds, 3),
            "model_milliseconds": round(1000 * model_seconds, 3),
        }
        return Response(json_text(content, ensure_ascii=False), media_type="application/json")


async def check_query_parameters(request: Request) -> None:
    """A dependency that lets a request pass if its route takes every parameter of its address.

    Raises:
        ProblemError: one that would be ignored, or one of several values for a parameter that has one.
    """
    fields = {each.alias: each.field_info.annotation for each in request.scope["route"].dependant.query_params}
    for name, value in request.query_params.items():
        if name not in fields:
            raise invalid_parameter(name, value, "the parameter is unknown", allowed=did_you_mean(name, fields))
        given = request.query_params.getlist(name)
        if len(given) > 1 and get_origin(fields[name]) is not list:
            raise invalid_parameter(name, given, f"the parameter is given {len(given)} times", allowed="one value")


def client_of(request: Request) -> str:
    """Return who asks: the address of the client, of IPv6 the network of 64 bits, which is one subscriber's.

    A proxy on this machine says who it asks for in X-Forwarded-For.
    """
    return _subscriber_of(request.client.host if request.client is not None else "")


@lru_cache(4096)
def _subscriber_of(name: str) -> str:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False).network_address)
    return str(address)


async def read_completion_request(
    request: Request, serving: Serving, settings: ServerSettings, *, read_queries: Callable[[Version, Any], list[Any]]
) -> CompletionRequest:
    """Return the queries of a request within the limits; the log is told about them.

    Args:
        request: whose body has them.
        serving: the version that answers.
        settings: how much a request may have.
        read_queries: from a version and the content of a body to the queries.

    Raises:
        ProblemError: they are no queries, or too much.
    """
    record: RequestRecord = request.scope[RECORD]
    version = serving.current
    body = await read_body(request, timeout_seconds=settings.deadline_seconds)

    def read() -> CompletionRequest:
        content = parse_body(body, settings)
        given = cast("list[Any]", content if isinstance(content, list) else [content])
        record.details |= {"queries": len(given), "version": version.number}
        if settings.has_contexts_in_logs:
            contexts = [each.get("context") for each in given if isinstance(each, dict)]
            record.details["contexts"] = [withheld(context, version) for context in contexts]
        try:
            queries = read_queries(version, content)
        except (DataError, UnknownNameError) as error:
            raise problem_of(error, content, sensitive=version.sensitive_names) from error
        return CompletionRequest(version, queries, content, record)

    return await beside_the_loop(body, read)


def withheld(context: Any, version: Version) -> Any:
    """Return a context without the values of sensitive features, and of names that may be misspelt ones of them."""
    sensitive, known = version.sensitive_names, version.feature_names
    if not sensitive or context is None:
        return context
    if not isinstance(context, Mapping):
        return WITHHELD
    record = cast("Mapping[str, Any]", context)
    return {name: WITHHELD if name in sensitive or name not in known else value for name, value in record.items()}


def _of_the_queue(error: Exception) -> ProblemError | None:
    if isinstance(error, QueueFullError):
        seconds = str(error.retry_after_seconds)
        detail = f"The queue is full; it should be empty in {seconds} s. Try again then."
        return ProblemError("queue-full", detail, headers={"Retry-After": seconds})
    if isinstance(error, DrainingError):
        return ProblemError("not-ready", "The server is stopping. Ask another one.", headers={"Retry-After": "1"})
    if isinstance(error, DeadlineError):
        if error.was_computed:
            return ProblemError(
                "too-slow", "The model did not answer within the deadline. Ask for less, or wait longer."
            )
        detail = "The deadline passed before it was the query's turn. Try again, or wait longer."
        return ProblemError("deadline-exceeded", detail, headers={"Retry-After": "1"})
    return None
