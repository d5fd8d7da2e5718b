"""``/v1/complete``: queries in, answers out, by way of the batcher. It computes nothing itself."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from contextual_bert.inference.queries import read_request
from contextual_bert.server.batching import Batcher, Computed, DeadlineError, DrainingError, QueueFullError
from contextual_bert.server.bodies import queries_of, read_json
from contextual_bert.server.logs import RequestRecord
from contextual_bert.server.middleware import RECORD
from contextual_bert.server.problems import ProblemError, is_clients_fault, problem_of
from contextual_bert.server.protocol import answer_model
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, Version

VERSION_HEADER = "X-Model-Version"
COMPLETE = "/v1/complete"
_Answer: Any = answer_model()


def completion_routes(serving: Serving, batcher: Batcher, settings: ServerSettings) -> APIRouter:
    """The routes that need the model."""
    router = APIRouter(tags=["completion"])
    top_k_about = "Proposals a slot."
    deadline_about = "Answer within this, or not at all; the server's own limit is the default and the most."
    longest = round(1000 * settings.deadline_seconds)

    @router.post(COMPLETE, response_model=_Answer | list[_Answer], summary="Complete one set, or many")
    async def complete(
        request: Request,
        top_k: Annotated[int, Query(ge=1, le=settings.max_top_k, description=top_k_about)] = min(5, settings.max_top_k),
        deadline_milliseconds: Annotated[int, Query(ge=1, le=longest, description=deadline_about)] = longest,
    ) -> Response:
        """Propose items for every [MASK]. The body is a query, or a list of queries; so is the answer.

        The header X-Model-Version says which version of the model answered: all queries of a request get the same.
        """
        record: RequestRecord = request.scope[RECORD]
        version = serving.current
        content = await read_json(request, timeout_seconds=settings.deadline_seconds)
        queries, is_list = queries_of(content, settings)
        record.details |= {"queries": len(queries), "version": version.number}
        if settings.has_contexts_in_logs:
            record.details["contexts"] = [query.get("context") for query in queries]
        try:
            for row, query in enumerate(queries):
                read_request(query, row=row)  # what is clearly wrong shall disturb no batch
            seconds = deadline_milliseconds / 1000 - record.seconds
            computed = await _computed(batcher, version, queries, top_k=top_k, deadline_seconds=seconds)
        except Exception as error:
            raise _problem(error, version, queries, is_list=is_list) from error
        record.details |= {
            "batch": computed.batch_queries,
            "queue_milliseconds": round(1000 * computed.queue_seconds, 3),
            "model_milliseconds": round(1000 * computed.model_seconds, 3),
        }
        body = json.dumps(computed.answers if is_list else computed.answers[0], ensure_ascii=False)
        return Response(body, media_type="application/json", headers={VERSION_HEADER: str(version.number)})

    # A route that explains a completion belongs here: it shares the body, the limits and the problems above.
    return router


async def _computed(
    batcher: Batcher, version: Version, queries: Sequence[Mapping[str, Any]], *, top_k: int, deadline_seconds: float
) -> Computed:
    if not queries:
        return Computed([], 0, 0.0, 0.0)
    if deadline_seconds <= 0:
        raise DeadlineError(was_computed=False)
    return await batcher.complete(version, queries, top_k=top_k, deadline_seconds=deadline_seconds)


def _problem(error: Exception, version: Version, queries: Sequence[Any], *, is_list: bool) -> Exception:
    """What to tell the client about an error; the error itself if it is no news for the client."""
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
    if is_clients_fault(error):
        return problem_of(error, queries, is_list=is_list, known=version.feature_names)  # pyright: ignore[reportArgumentType]
    return error
