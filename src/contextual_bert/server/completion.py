"""``/v1/complete`` and ``/v1/similar``: queries for sets in, proposals out, computed in the batches of all clients."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from contextual_bert import inference
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import Answer, SimilarAnswer
from contextual_bert.inference.completion_answers import SureAnswer
from contextual_bert.inference.queries import Request as ReadQuery
from contextual_bert.inference.similar_queries import LARGEST_WEIGHT, SIMILARITY_WEIGHT, SimilarRequest
from contextual_bert.server.batching import BatchedRequest, Batcher, answered
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.protocol import AS_DECIMAL, AS_WRITTEN
from contextual_bert.server.requests import DEADLINE_ABOUT, CompletionRequest, read_completion_request
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, Version

COMPLETE, SIMILAR = "/v1/complete", "/v1/similar"


@dataclass(frozen=True)
class Completing:
    """The question of ``/v1/complete``; requests of equal questions are computed together."""

    def compute(self, pipeline: Any, queries: Sequence[Any], *, top_k: int, batch_size: int) -> list[Any]:
        """Return the answers to the queries."""
        return pipeline(queries, top_k=top_k, batch_size=batch_size)

    def check(self, version: Version, queries: Sequence[Any]) -> None:
        """Raise what computing would raise about these queries, as far as that can be told without it."""
        version.check(queries)


@dataclass(frozen=True)
class FindingSimilar:
    """The question of ``/v1/similar``.

    Args:
        similarity_weight: see ``similar_items``.
        top_k: neighbours an item. Answers are not shortened.
    """

    similarity_weight: float
    top_k: int

    def compute(self, pipeline: Any, queries: Sequence[Any], *, top_k: int, batch_size: int) -> list[Any]:
        """Return the neighbours of the items."""
        # A server of an export has no use for what finds them, which imports torch.
        found = inference.similar_items(
            pipeline, queries, top_k=top_k, similarity_weight=self.similarity_weight, batch_size=batch_size
        )
        return cast("list[Any]", found)

    def check(self, version: Version, queries: Sequence[Any]) -> None:
        """Raise nothing: each request of a faulty batch is computed for itself."""


async def _proposed(
    request: Request,
    asked: CompletionRequest,
    batcher: Batcher,
    settings: ServerSettings,
    *,
    question: Completing | FindingSimilar,
    top_k: int,
    deadline_milliseconds: int,
) -> Response:
    """Answer a request with so many proposals, if it may ask for them; see ``answered``."""
    parameters = {"top_k": top_k, **vars(question)}
    try:
        check_top_k(top_k, asked.queries, settings)
    except ConfigurationError as error:
        raise asked.problem(error, parameters) from None
    work = BatchedRequest(asked.version, question, asked.queries, len(asked.queries), top_k)
    return await answered(
        request, asked, batcher, work=work, parameters=parameters, deadline_milliseconds=deadline_milliseconds
    )


class CompletionAnswerer:
    """Answers requests for completions, whichever way they come.

    Args:
        serving: the version that answers.
        batcher: computes.
        settings: limits of the server.
    """

    def __init__(self, serving: Serving, batcher: Batcher, settings: ServerSettings) -> None:
        self._serving, self._batcher, self._settings = serving, batcher, settings
        self.usual_top_k = min(5, settings.max_top_k)
        self.longest_milliseconds = round(1000 * settings.deadline_seconds)

    @property
    def limits(self) -> dict[str, int]:
        """The highest number that each parameter of the address may have."""
        most = max(self._settings.max_top_k, self._settings.max_values)
        return {"top_k": most, "deadline_milliseconds": self.longest_milliseconds}

    async def __call__(
        self, request: Request, *, top_k: int | None = None, deadline_milliseconds: int | None = None
    ) -> Response:
        """Return the answer to a request; the parameters of the address are within ``limits``."""
        asked = await read_completion_request(request, self._serving, self._settings, read_queries=_queries_for_sets)
        return await _proposed(
            request,
            asked,
            self._batcher,
            self._settings,
            question=Completing(),
            top_k=top_k or self.usual_top_k,
            deadline_milliseconds=deadline_milliseconds or self.longest_milliseconds,
        )


def completion_routes(
    serving: Serving, batcher: Batcher, settings: ServerSettings, answerer: CompletionAnswerer
) -> APIRouter:
    """The routes that are asked most: many queries, each [MASK] by itself, and items alike."""
    router = APIRouter(tags=["completion"])
    top_k_about = "{} more than " + f"{settings.max_top_k:,} only where each query allows so many items."
    most, longest = answerer.limits.values()
    usual = answerer.usual_top_k
    deadline = Query(ge=1, le=longest, description=DEADLINE_ABOUT)
    weight_about = "With a context: how much the similarity counts beside the person, 0 for not at all."

    answer: Any = Answer if serving.current.coverage is None else SureAnswer

    @router.post(COMPLETE, response_model=answer | list[answer], summary="Complete one set, or many")
    async def complete(
        request: Request,
        top_k: Annotated[
            int, Query(ge=1, le=most, description=top_k_about.format("Proposals a slot,")), AS_WRITTEN
        ] = usual,
        deadline_milliseconds: Annotated[int, deadline, AS_WRITTEN] = longest,
    ) -> Response:
        """Propose items for every [MASK]. The body is a query, or a list of queries; so is the answer.

        The header X-Model-Version says which version of the model answered: all queries of a request get the same.
        """
        return await answerer(request, top_k=top_k, deadline_milliseconds=deadline_milliseconds)

    @router.post(SIMILAR, response_model=SimilarAnswer | list[SimilarAnswer], summary="Items alike")
    async def similar(
        request: Request,
        top_k: Annotated[
            int, Query(ge=1, le=most, description=top_k_about.format("Neighbours an item,")), AS_WRITTEN
        ] = min(10, settings.max_top_k),
        similarity_weight: Annotated[
            float, Query(ge=0, le=LARGEST_WEIGHT, description=weight_about), AS_DECIMAL
        ] = SIMILARITY_WEIGHT,
        deadline_milliseconds: Annotated[int, deadline, AS_WRITTEN] = longest,
    ) -> Response:
        """Name the items that the model treats most like an item, for anybody or, with a context, for who asks.

        The body is a query, or a list of queries; so is the answer.
        """
        asked = await read_completion_request(request, serving, settings, read_queries=_queries_for_items)
        if (reason := asked.version.missing_capabilities["similar"]) is not None:
            raise ProblemError("conflict", reason)
        return await _proposed(
            request,
            asked,
            batcher,
            settings,
            question=FindingSimilar(similarity_weight, top_k),
            top_k=top_k,
            deadline_milliseconds=deadline_milliseconds,
        )

    return router


def _queries_for_sets(version: Version, content: Any) -> list[ReadQuery]:
    return version.reader.read(content)


def _queries_for_items(version: Version, content: Any) -> list[SimilarRequest]:
    return version.reader.read_similar(content)


def check_top_k(top_k: int, queries: Sequence[ReadQuery | SimilarRequest], settings: ServerSettings) -> None:
    """Raise ConfigurationError where more proposals are asked for than the limit, of a query that does not list them.

    All items of an ``allow`` list may be ranked: a shop that asks about 500 items wants an answer about each.
    """
    allowed = [len(query.settings.get("allow", {}).get("allow", ())) for query in queries]
    if top_k > settings.max_top_k and min(allowed, default=0) < top_k:
        fix = f"Give at most {settings.max_top_k}, or in allow as many items as are to be ranked."
        raise ConfigurationError(f"is more than {settings.max_top_k}", setting="top_k", value=top_k, fix=fix)
