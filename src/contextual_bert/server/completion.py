"""``/v1/complete``: queries in, answers out. The queries of many clients are computed together by one thread.

While the model computes, requests gather. What has gathered is the next batch.
"""

import time
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import Answer
from contextual_bert.inference.completion_answers import shortened
from contextual_bert.inference.queries import Request as ReadQuery
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.protocol import AS_WRITTEN
from contextual_bert.server.queueing import Job, WorkQueue
from contextual_bert.server.requests import DEADLINE_ABOUT, client_of, read_completion_request
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Serving, Version

COMPLETE = "/v1/complete"


class CompletedRequest(NamedTuple):
    """The answers of a request, and how it came to them."""

    answers: list[Answer]
    batch_queries: int
    queue_seconds: float
    model_seconds: float


class BatchedRequest(NamedTuple):
    """One request for completions: queries and settings."""

    version: Version
    queries: Sequence[ReadQuery]
    top_k: int


class Batcher:
    """Computes the queries of many requests in one forward pass.

    Args:
        settings: how large a batch and the queue may be, and how long the first request waits for others.
        metrics: told about batches.

    Relation to its siblings:
        A batch has requests of one ``Version`` only. A faulty request is answered for itself: the others of its batch
        are computed without it.
    """

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self._batch_size, self._metrics = settings.max_batch, metrics
        self.queue = WorkQueue[BatchedRequest](
            self._compute,
            name="contextual-bert-model",
            max_size=settings.max_queue,
            max_batch=settings.max_batch,
            wait_seconds=settings.max_wait_milliseconds / 1000,
            may_join=lambda request, first: request.version is first.version,
            on_dropped=metrics.dropped.inc,
        )
        metrics.queue.set_function(lambda: self.queue.size)

    async def complete(
        self,
        version: Version,
        queries: Sequence[ReadQuery],
        *,
        top_k: int,
        deadline_seconds: float,
        client: str = "",
    ) -> CompletedRequest:
        """The answers to the queries of a request; ``client``: who asks, for a fair share of the queue.

        Raises:
            QueueFullError, DrainingError, DeadlineError: it was not computed, or too late.
            Exception: what the pipeline raised about these queries.
        """
        request = BatchedRequest(version, queries, top_k)
        return await self.queue.ask(request, size=len(queries), deadline_seconds=deadline_seconds, client=client)

    def _compute(self, batch: Sequence[Job[BatchedRequest]]) -> None:
        started = time.monotonic()
        requests = [job.work for job in batch]
        queries = [query for request in requests for query in request.queries]
        top_k = max(request.top_k for request in requests)
        try:
            answers = requests[0].version.pipeline(queries, top_k=top_k, batch_size=self._batch_size)
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
                job.work.version.check(job.work.queries)
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


def completion_routes(serving: Serving, batcher: Batcher, settings: ServerSettings) -> APIRouter:
    """The route that is asked most: many queries, each [MASK] by itself."""
    router = APIRouter(tags=["completion"])
    top_k_about = f"Proposals a slot, more than {settings.max_top_k:,} only where each query allows so many items."
    most = max(settings.max_top_k, settings.max_values)
    longest, usual = round(1000 * settings.deadline_seconds), min(5, settings.max_top_k)

    @router.post(COMPLETE, response_model=Answer | list[Answer], summary="Complete one set, or many")
    async def complete(
        request: Request,
        top_k: Annotated[int, Query(ge=1, le=most, description=top_k_about), AS_WRITTEN] = usual,
        deadline_milliseconds: Annotated[
            int, Query(ge=1, le=longest, description=DEADLINE_ABOUT), AS_WRITTEN
        ] = longest,
    ) -> Response:
        """Propose items for every [MASK]. The body is a query, or a list of queries; so is the answer.

        The header X-Model-Version says which version of the model answered: all queries of a request get the same.
        """
        asked = await read_completion_request(request, serving, settings)
        try:
            check_top_k(top_k, asked.queries, settings)
        except ConfigurationError as error:
            raise asked.problem(error, {"top_k": top_k}) from None
        computed = CompletedRequest([], 0, 0.0, 0.0)
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
