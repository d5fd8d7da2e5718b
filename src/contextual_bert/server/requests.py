"""Request helpers of the routes that ask the model: reading of queries, answers, and errors in between.

Which question is asked, and who computes it, is for the routes to say.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

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
)
from contextual_bert.inference.queries import Request as Query
from contextual_bert.json_text import json_text
from contextual_bert.server.bodies import beside_the_loop, parse_json, read_body
from contextual_bert.server.logs import EVENTS, RequestRecord
from contextual_bert.server.middleware import RECORD
from contextual_bert.server.problems import (
    ProblemError,
    invalid_parameter,
    is_clients_fault,
    parameter_problem,
    problem_of,
)
from contextual_bert.server.queueing import DeadlineError, DrainingError, QueueFullError
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, Version

DEADLINE_ABOUT = "Answer within this, or not at all; the server's own limit is the default and the most."


class CompletionRequest(NamedTuple):
    """The queries of an HTTP request.

    Args:
        version: under which they came in.
        queries: read once, here. The pipeline takes them as they are.
        body: as it was parsed, for the place of a fault.
        record: of the request, for the log.
    """

    version: Version
    queries: list[Query]
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
        return ProblemError("conflict", str(error)) if isinstance(error, ConfigurationError) else error

    def answer(self, content: Any, *, queue_seconds: float, model_seconds: float) -> Response:
        """The answer; the log is told how long it took."""
        self.record.details |= {
            "queue_milliseconds": round(1000 * queue_seconds, 3),
            "model_milliseconds": round(1000 * model_seconds, 3),
        }
        return Response(json_text(content, ensure_ascii=False), media_type="application/json")


async def check_parameters(request: Request) -> None:
    """A dependency that lets a request pass if its route takes every parameter of its address.

    Raises:
        ProblemError: one that would be ignored.
    """
    known = {each.alias for each in request.scope["route"].dependant.query_params}
    for name, value in request.query_params.items():
        if name not in known:
            raise invalid_parameter(name, value, "the parameter is unknown", allowed=did_you_mean(name, known))


def client_of(request: Request) -> str:
    """Return who asks: the address of the client, of IPv6 the network of 64 bits, which is one subscriber's.

    A proxy on this machine says who it asks for in X-Forwarded-For.
    """
    name = request.client.host if request.client is not None else ""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False).network_address)
    return str(address)


async def read_completion_request(
    request: Request, serving: Serving, settings: ServerSettings, *, is_single: bool = False
) -> CompletionRequest:
    """Return the queries of a request, or its only one, within the limits; the log is told about them.

    Raises:
        ProblemError: they are no queries, or too much.
    """
    record: RequestRecord = request.scope[RECORD]
    version = serving.current
    body = await read_body(request, timeout_seconds=settings.deadline_seconds)

    def read() -> CompletionRequest:
        content = parse_json(body, settings)
        given = cast("list[Any]", content if isinstance(content, list) else [content])
        record.details |= {"queries": len(given), "version": version.number}
        if settings.has_contexts_in_logs:
            contexts = [each.get("context") for each in given if isinstance(each, dict)]
            record.details["contexts"] = [withheld(context, version) for context in contexts]
        try:
            queries = version.reader.read(content, is_single=is_single)
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
