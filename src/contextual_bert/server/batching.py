"""Requests of many clients, computed together: a bounded queue and one thread that has the model to itself.

While the model computes, requests gather; what has gathered is the next batch. It knows no HTTP and no JSON.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from contextual_bert.inference import Answer
from contextual_bert.server.metrics import Metrics
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Version

_WEIGHT_OF_THE_LAST_BATCH = 0.2


class QueueFullError(Exception):
    """More queries wait than may; ``retry_after_seconds``: when they should be done."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__(f"{retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


class DrainingError(Exception):
    """The server stops and takes no more."""


class DeadlineError(Exception):
    """Too late; ``was_computed``: the model had begun with it."""

    def __init__(self, *, was_computed: bool) -> None:
        super().__init__()
        self.was_computed = was_computed


class Computed(NamedTuple):
    """The answers of a request, and how it came to them."""

    answers: list[Answer]
    batch_queries: int
    queue_seconds: float
    model_seconds: float


@dataclass(frozen=True, eq=False)
class Job:
    """A request that waits; times are those of ``time.monotonic``."""

    version: Version
    queries: Sequence[Mapping[str, Any]]
    top_k: int
    queued_at: float
    deadline: float
    future: "Future[Computed]"

    def is_wanted(self, now: float) -> bool:
        """Whether somebody still waits for it; if not, its future is told so."""
        if self.future.cancelled():
            return False
        if now < self.deadline:
            return True
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(DeadlineError(was_computed=False))
        return False


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
        self._settings, self._metrics = settings, metrics
        self._jobs: deque[Job] = deque()
        self._num_queries = 0
        self._seconds_per_query = 0.0
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        metrics.watch_queue(lambda: self._num_queries)

    @property
    def is_alive(self) -> bool:
        """Whether the model's thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_taking(self) -> bool:
        """Whether new requests are taken."""
        return self.is_alive and not self._is_closing

    def start(self) -> None:
        """Start the model's thread.

        Raises:
            RuntimeError: it runs already: two servers share this app.
        """
        if self.is_alive:
            raise RuntimeError("The app is served already. Make another one with create_app.")
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="contextual-bert-model", daemon=True)
        self._thread.start()

    def close(self, *, timeout_seconds: float | None = None) -> None:
        """Take no more, compute what was taken, and stop."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    async def complete(
        self, version: Version, queries: Sequence[Mapping[str, Any]], *, top_k: int, deadline_seconds: float
    ) -> Computed:
        """The answers to the queries of a request.

        Raises:
            QueueFullError, DrainingError, DeadlineError: it was not computed, or too late.
            Exception: what the pipeline raised about these queries.
        """
        future = self.submit(version, queries, top_k=top_k, deadline_seconds=deadline_seconds)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), deadline_seconds)
        except TimeoutError:
            raise DeadlineError(was_computed=not future.cancel()) from None

    def submit(
        self, version: Version, queries: Sequence[Mapping[str, Any]], *, top_k: int, deadline_seconds: float
    ) -> "Future[Computed]":
        """Put a request into the queue; its answers will be in the future.

        Raises:
            QueueFullError, DrainingError: it was not taken.
        """
        now = time.monotonic()
        job = Job(version, queries, top_k, now, now + deadline_seconds, Future())
        with self._changed:
            if not self.is_taking:
                raise DrainingError
            if self._num_queries + len(queries) > self._settings.max_queue:
                self._keep_wanted(now)
            if self._num_queries + len(queries) > self._settings.max_queue:
                raise QueueFullError(max(1, math.ceil(self._num_queries * self._seconds_per_query)))
            self._jobs.append(job)
            self._num_queries += len(queries)
            self._changed.notify()
        return job.future

    def _keep_wanted(self, now: float) -> None:
        kept = [job for job in self._jobs if job.is_wanted(now)]
        self._metrics.dropped.inc(len(self._jobs) - len(kept))
        self._jobs = deque(kept)
        self._num_queries = sum(len(job.queries) for job in kept)

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                self._compute(batch)
                batch.clear()  # a version that was replaced is not kept while nothing comes

    def _next_batch(self) -> list[Job] | None:
        """The requests to compute together, none where nobody waits for them any more; None at the end."""
        with self._changed:
            while not self._jobs:
                if self._is_closing:
                    return None
                self._changed.wait()
            ready_at = self._jobs[0].queued_at + self._settings.max_wait_milliseconds / 1000
            while self._num_queries < self._settings.max_batch and not self._is_closing:
                if (seconds := ready_at - time.monotonic()) <= 0:
                    break
                self._changed.wait(seconds)
            return self._take(time.monotonic())

    def _take(self, now: float) -> list[Job]:
        batch: list[Job] = []
        room = self._settings.max_batch
        while self._jobs:
            job = self._jobs[0]
            if batch and (job.version is not batch[0].version or len(job.queries) > room):
                break
            self._jobs.popleft()
            self._num_queries -= len(job.queries)
            if job.is_wanted(now) and job.future.set_running_or_notify_cancel():
                batch.append(job)
                room -= len(job.queries)
            else:
                self._metrics.dropped.inc()
        return batch

    def _compute(self, batch: Sequence[Job]) -> None:
        started = time.monotonic()
        queries = [query for job in batch for query in job.queries]
        top_k = max(job.top_k for job in batch)
        try:
            answers = batch[0].version.answers(queries, top_k=top_k, batch_size=self._settings.max_batch)
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
            else:
                self._compute_sound_ones(batch)
            return
        seconds = time.monotonic() - started
        self._note(len(queries), seconds, [started - job.queued_at for job in batch])
        first = 0
        for job in batch:
            own = answers[first : first + len(job.queries)]
            first += len(job.queries)
            if job.top_k < top_k:
                own = [_cut(answer, job.top_k) for answer in own]
            job.future.set_result(Computed(own, len(queries), started - job.queued_at, seconds))

    def _compute_sound_ones(self, batch: Sequence[Job]) -> None:
        """One request of the batch is faulty: tell it so, and compute the others."""
        sound: list[Job] = []
        for job in batch:
            try:
                job.version.check(job.queries)
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
        newest = seconds / num_queries
        weight = _WEIGHT_OF_THE_LAST_BATCH if self._seconds_per_query else 1.0
        self._seconds_per_query += weight * (newest - self._seconds_per_query)


def _cut(answer: Answer, top_k: int) -> Answer:
    """The answer that ``top_k`` alone would have got: the best come first."""
    return {**answer, "slots": [{**slot, "candidates": slot["candidates"][:top_k]} for slot in answer["slots"]]}
