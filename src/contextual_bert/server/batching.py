"""One thread that computes the queries of many clients together, for whatever is asked.

While the model computes, requests gather. What has gathered is the next batch.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from fastapi import Request
from fastapi.responses import Response

from contextual_bert.inference.completion_answers import shortened
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.queueing import Job, WorkQueue
from contextual_bert.server.requests import CompletionRequest, client_of
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Version


class CompletedRequest(NamedTuple):
    """The answers of a request, and how it came to them."""

    answers: list[Any]
    batch_queries: int
    queue_seconds: float
    model_seconds: float


class BatchedQuestion(Protocol):
    """Protocol of what is asked of a pipeline; requests of equal questions are computed together."""

    def compute(self, pipeline: Any, queries: Sequence[Any], *, top_k: int, batch_size: int) -> list[Any]:
        """Return the answers to the queries."""
        ...

    def check(self, version: Version, queries: Sequence[Any]) -> None:
        """Raise what computing would raise about these queries, as far as that can be told without it."""
        ...


class BatchedRequest(NamedTuple):
    """One request for answers.

    Args:
        version: under which it came in.
        question: what is asked.
        queries: about what.
        size: its share of a batch and of the queue, in queries of the usual length.
        top_k: proposals a query, of questions that have several.
    """

    version: Version
    question: BatchedQuestion
    queries: Sequence[Any]
    size: int
    top_k: int = 1


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
        return await self.queue.ask(request, size=request.size, deadline_seconds=deadline_seconds, client=client)

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
    *,
    work: BatchedRequest,
    parameters: Mapping[str, Any],
    deadline_milliseconds: int,
) -> Response:
    """Answer a request with what the batcher computes for its queries.

    Args:
        request: of HTTP.
        asked: its queries.
        batcher: computes.
        work: what is computed.
        parameters: of the address, by the names that the pipeline has for them.
        deadline_milliseconds: of the address.
    """
    computed = CompletedRequest([], 0, 0.0, 0.0)
    if asked.queries:
        seconds = asked.seconds_left(deadline_milliseconds)
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
