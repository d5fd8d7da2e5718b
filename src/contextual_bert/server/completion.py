"""``/v1/complete``: queries in, answers out, by way of the batcher. It computes nothing itself."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import Answer
from contextual_bert.inference.queries import Request as ReadQuery
from contextual_bert.server.batching import Batcher, Computed
from contextual_bert.server.requests import DEADLINE_ABOUT, client_of, read_completion_request
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving

COMPLETE = "/v1/complete"


def completion_routes(serving: Serving, batcher: Batcher, settings: ServerSettings) -> APIRouter:
    """The route that is asked most: many queries, each [MASK] by itself."""
    router = APIRouter(tags=["completion"])
    top_k_about = f"Proposals a slot, more than {settings.max_top_k:,} only where each query allows so many items."
    most = max(settings.max_top_k, settings.max_values)
    longest = round(1000 * settings.deadline_seconds)

    @router.post(COMPLETE, response_model=Answer | list[Answer], summary="Complete one set, or many")
    async def complete(
        request: Request,
        top_k: Annotated[int, Query(ge=1, le=most, description=top_k_about)] = min(5, settings.max_top_k),
        deadline_milliseconds: Annotated[int, Query(ge=1, le=longest, description=DEADLINE_ABOUT)] = longest,
    ) -> Response:
        """Propose items for every [MASK]. The body is a query, or a list of queries; so is the answer.

        The header X-Model-Version says which version of the model answered: all queries of a request get the same.
        """
        asked = await read_completion_request(request, serving, settings)
        try:
            check_top_k(top_k, asked.queries, settings)
        except ConfigurationError as error:
            raise asked.problem(error, {"top_k": top_k}) from None
        computed = Computed([], 0, 0.0, 0.0)
        if asked.queries:
            seconds = asked.seconds_left(deadline_milliseconds)
            try:
                computed = await batcher.complete(
                    asked.version,
                    asked.queries,
                    top_k=top_k,
                    deadline_seconds=seconds,
                    client=client_of(request),
                )
            except Exception as error:
                raise asked.problem(error, {"top_k": top_k}) from error
        asked.record.details["batch"] = computed.batch_queries
        return asked.answer(
            computed.answers if asked.is_list else computed.answers[0],
            queue_seconds=computed.queue_seconds,
            model_seconds=computed.model_seconds,
        )

    return router


def check_top_k(top_k: int, queries: Sequence[ReadQuery], settings: ServerSettings) -> None:
    """Raise ConfigurationError where more proposals are asked for than the limit, of a query that does not list them.

    All items of an ``allow`` list may be ranked: a shop that asks about 500 items wants an answer about each.
    """
    allowed = [len(query.settings.get("allow", {}).get("allow", ())) for query in queries]
    if top_k > settings.max_top_k and min(allowed, default=0) < top_k:
        fix = f"Give at most {settings.max_top_k}, or in allow as many items as are to be ranked."
        raise ConfigurationError(f"is more than {settings.max_top_k}", setting="top_k", value=top_k, fix=fix)
