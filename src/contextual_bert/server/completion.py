"""``/v1/complete`` and ``/v1/similar``: queries in, answers out. One thread computes those of many clients together.

While the model computes, requests gather. What has gathered is the next batch.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from contextual_bert import inference
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import Answer, SimilarAnswer
from contextual_bert.inference.completion_answers import shortened
from contextual_bert.inference.queries import Request as ReadQuery
from contextual_bert.inference.similar_queries import LARGEST_WEIGHT, SIMILARITY_WEIGHT, SimilarRequest
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.protocol import AS_DECIMAL, AS_WRITTEN
from contextual_bert.server.queueing import Job, WorkQueue
from contextual_bert.server.requests import DEADLINE_ABOUT, CompletionRequest, client_of, read_completion_request
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, Version

COMPLETE, SIMILAR = "/v1/complete", "/v1/similar"


class CompletedRequest(NamedTuple):
    """The answers of a request, and how it came to them."""

    answers: list[Any]
    batch_queries: int
    queue_seconds: float
    model_seconds: float


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


class BatchedRequest(NamedTuple):
    """One request for answers: queries and settings."""

    version: Version
    question: Completing | FindingSimilar
    queries: Sequence[Any]
    top_k: int


class Batcher:
    """Computes the queries of many requests in one forward pass.

    Args:
        settings: how large a batch and the queue may be, and how long the first request waits for others.
        metrics: told about batches.

    Relation to its siblings:
        A batch has requests of one ``Version`` and one question only. A faulty request is answered for itself: the
        others of its batch are computed without it.
    """

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self._batch_size, self._metrics = settings.max_batch, metrics
        self.queue = WorkQueue[BatchedRequest](
            self._compute,
            name="contextual-bert-model",
            max_size=settings.max_queue,
            max_batch=settings.max_batch,
            wait_seconds=settings.max_wait_milliseconds / 1000,
            may_join=lambda request, first: request.version is first.version and request.question == first.question,
            on_dropped=metrics.dropped.inc,
        )
        metrics.queue.set_function(lambda: self.queue.size)

    async def answer(self, request: BatchedRequest, *, deadline_seconds: float, client: str = "") -> CompletedRequest:
        """The answers to the queries of a request; ``client``: who asks, for a fair share of the queue.

        Raises:
            QueueFullError, DrainingError, DeadlineError: it was not computed, or too late.
            Exception: what the pipeline raised about these queries.
        """
        size = len(request.queries)
        return await self.queue.ask(request, size=size, deadline_seconds=deadline_seconds, client=client)

    def _compute(self, batch: Sequence[Job[BatchedRequest]]) -> None:
        started = time.monotonic()
        requests = [job.work for job in batch]
        queries = [query for request in requests for query in request.queries]
        top_k = max(request.top_k for request in requests)
        try:
            pipeline = requests[0].version.pipeline
            answers = requests[0].question.compute(pipeline, queries, top_k=top_k, batch_size=self._batch_size)
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
            else:
                self._compute_sound_ones(batch)
            return
        seconds = time.monotonic() - started
        self._note(len(queries), seconds, [started - job.queued_at for job in batch])
        first = 0
        for job, request in zip(batch, requests, strict=True):
            own = answers[first : first + len(request.queries)]
            first += len(request.queries)
            if request.top_k < top_k:
                own = [shortened(answer, request.top_k) for answer in own]
            job.future.set_result(CompletedRequest(own, len(queries), started - job.queued_at, seconds))

    def _compute_sound_ones(self, batch: Sequence[Job[BatchedRequest]]) -> None:
        """One request of the batch is faulty: tell it so, and compute the others."""
        sound: list[Job[BatchedRequest]] = []
        for job in batch:
            try:
                job.work.question.check(job.work.version, job.work.queries)
            except Exception as error:
                job.future.set_exception(error)
            else:
                sound.append(job)
        groups = [sound] if 0 < len(sound) < len(batch) else [[job] for job in sound]
        for group in groups:
            self._compute(group)

    def _note(self, num_queries: int, seconds: float, queue_seconds: Sequence[float]) -> None:
        self._metrics.batch_queries.observe(num_queries)
        self._metrics.batch_seconds.observe(seconds)
        for waited in queue_seconds:
            self._metrics.queue_seconds.observe(waited)


async def answered(
    request: Request,
    asked: CompletionRequest,
    batcher: Batcher,
    settings: ServerSettings,
    *,
    question: Completing | FindingSimilar,
    top_k: int,
    deadline_milliseconds: int,
) -> Response:
    """Answer a request with what the batcher computes for its queries.

    Args:
        request: of HTTP.
        asked: its queries.
        batcher: computes.
        settings: limits of the server.
        question: what is asked.
        top_k, deadline_milliseconds: of the address, as the fields of the question.
    """
    parameters = {"top_k": top_k, **vars(question)}
    try:
        check_top_k(top_k, asked.queries, settings)
    except ConfigurationError as error:
        raise asked.problem(error, parameters) from None
    computed = CompletedRequest([], 0, 0.0, 0.0)
    if asked.queries:
        work, seconds = (
            BatchedRequest(asked.version, question, asked.queries, top_k),
            asked.seconds_left(deadline_milliseconds),
        )
        try:
            computed = await batcher.answer(work, deadline_seconds=seconds, client=client_of(request))
        except Exception as error:
            raise asked.problem(error, parameters) from error
    asked.record.details["batch"] = computed.batch_queries
    return asked.answer(
        computed.answers if asked.is_list else computed.answers[0],
        queue_seconds=computed.queue_seconds,
        model_seconds=computed.model_seconds,
    )


def completion_routes(serving: Serving, batcher: Batcher, settings: ServerSettings) -> APIRouter:
    """The routes that are asked most: many queries, each [MASK] by itself, and items alike."""
    router = APIRouter(tags=["completion"])
    top_k_about = "{} more than " + f"{settings.max_top_k:,} only where each query allows so many items."
    most = max(settings.max_top_k, settings.max_values)
    longest, usual = round(1000 * settings.deadline_seconds), min(5, settings.max_top_k)
    deadline = Query(ge=1, le=longest, description=DEADLINE_ABOUT)
    weight_about = "With a context: how much the similarity counts beside the person, 0 for not at all."

    @router.post(COMPLETE, response_model=Answer | list[Answer], summary="Complete one set, or many")
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
        asked = await read_completion_request(request, serving, settings, read_queries=_queries_for_sets)
        return await answered(
            request,
            asked,
            batcher,
            settings,
            question=Completing(),
            top_k=top_k,
            deadline_milliseconds=deadline_milliseconds,
        )

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
        return await answered(
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
