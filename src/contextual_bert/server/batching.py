"""Requests of many clients, computed together by one thread.

While the model computes, requests gather; what has gathered is the next batch. It knows no HTTP and no JSON.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from contextual_bert.inference import Answer
from contextual_bert.inference.queries import Request as Query
from contextual_bert.server.metrics import Metrics
from contextual_bert.server.queueing import Job, WorkQueue
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Version


class Computed(NamedTuple):
    """The answers of a request, and how it came to them."""

    answers: list[Answer]
    batch_queries: int
    queue_seconds: float
    model_seconds: float


class BatchedRequest(NamedTuple):
    """One request for completions: queries and settings."""

    version: Version
    queries: Sequence[Query]
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
        queries: Sequence[Query],
        *,
        top_k: int,
        deadline_seconds: float,
        client: str = "",
    ) -> Computed:
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
            answers = requests[0].version.answers(queries, top_k=top_k, batch_size=self._batch_size)
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
                own = [_cut(answer, request.top_k) for answer in own]
            job.future.set_result(Computed(own, len(queries), started - job.queued_at, seconds))

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


def _cut(answer: Answer, top_k: int) -> Answer:
    """The answer that ``top_k`` alone would have got: the best come first."""
    return {**answer, "slots": [{**slot, "candidates": slot["candidates"][:top_k]} for slot in answer["slots"]]}
