"""A bounded queue, and one thread that computes what waits in it, several pieces of work together where they may be.

Clients take turns, so that one who asks a hundred times does not keep another waiting a hundred times as long.

It knows no HTTP, no query and no model.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_WEIGHT_OF_THE_LAST_BATCH = 0.2
Work = TypeVar("Work")


class QueueFullError(Exception):
    """More waits than may; ``retry_after_seconds``: when it should be done."""

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


@dataclass(frozen=True, eq=False)
class Job(Generic[Work]):
    """Work of a client that waits; ``size``: its share of the queue; times are those of ``time.monotonic``."""

    work: Work
    size: int
    queued_at: float
    deadline: float
    future: "Future[Any]"
    client: str = ""

    def is_wanted(self, now: float) -> bool:
        """Return True if somebody still waits for the job. Otherwise its future is cancelled."""
        if self.future.cancelled():
            return False
        if now < self.deadline:
            return True
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(DeadlineError(was_computed=False))
        return False


class Turns(Generic[Work]):
    """Jobs by client. Each client's own stay in order, and the clients take turns.

    Example:
        >>> turns = Turns[str]()
        >>> for client, work in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")):
        ...     turns.append(Job(work, 1, 0.0, 1.0, Future(), client))
        >>> [turns.take().work for _ in range(4)]
        ['a1', 'b1', 'a2', 'a3']
    """

    def __init__(self, jobs: Iterable[Job[Work]] = ()) -> None:
        self._by_client: dict[str, deque[Job[Work]]] = {}
        for job in jobs:
            self.append(job)

    def __bool__(self) -> bool:
        return bool(self._by_client)

    def __iter__(self) -> Iterator[Job[Work]]:
        for jobs in self._by_client.values():
            yield from jobs

    @property
    def first(self) -> Job[Work]:
        """The job whose turn it is."""
        return next(iter(self._by_client.values()))[0]

    @property
    def oldest_queued_at(self) -> float:
        """When the job came that waits longest."""
        return min(jobs[0].queued_at for jobs in self._by_client.values())

    def append(self, job: Job[Work]) -> None:
        """Let a job wait as its client's last one."""
        self._by_client.setdefault(job.client, deque()).append(job)

    def take(self) -> Job[Work]:
        """Remove the job whose turn it is; its client's next one waits for all others' turns."""
        client, jobs = next(iter(self._by_client.items()))
        del self._by_client[client]
        job = jobs.popleft()
        if jobs:
            self._by_client[client] = jobs
        return job

    def remove_last(self, client: str) -> None:
        """Remove the newest job of a client."""
        jobs = self._by_client[client]
        jobs.pop()
        if not jobs:
            del self._by_client[client]

    def unfair(self, client: str, size: int, *, excess: int) -> list[Job[Work]]:
        """Return the jobs to give up for one of this client, newest first, so that the shares become more alike.

        Args:
            client: who asks.
            size: of the new job.
            excess: how much has to go at least.

        Returns:
            An empty list where nobody has so much more than the client that some of it could go.
        """
        shares = {name: sum(job.size for job in jobs) for name, jobs in self._by_client.items()}
        newest = {name: reversed(jobs) for name, jobs in self._by_client.items()}
        own = shares.get(client, 0) + size
        given_up: list[Job[Work]] = []
        while excess > 0 and shares:
            name = max(shares, key=shares.__getitem__)
            job = next(newest[name], None)
            if job is None or name == client or shares[name] - job.size < own:
                return []
            shares[name] -= job.size
            excess -= job.size
            given_up.append(job)
        return given_up if excess <= 0 else []


def _tell(loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[Any]", done: "Future[Any]") -> None:
    """Hand what a thread found over to the loop that waits for it."""

    def hand_over() -> None:
        if answer.done():
            return
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(done.result())

    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(hand_over)


class WorkQueue(Generic[Work]):
    """A thread, and what waits for it.

    Args:
        compute: called in the thread with the jobs of a batch; it gives each of their futures a result or an error.
        name: of the thread.
        max_size: how much may wait.
        max_batch: how much is computed together; a job that is larger is computed by itself.
        wait_seconds: how long the first job of a batch waits for others while the thread is idle.
        may_join: whether a piece of work can be computed together with the first of a batch.
        on_dropped: told how many jobs were given up because nobody waits for them any more.

    Relation to its siblings:
        ``completion.py`` computes completions with one, ``computations.py`` whatever takes long with another, so that
        neither waits for the other.
    """

    def __init__(
        self,
        compute: Callable[[list[Job[Work]]], None],
        *,
        name: str,
        max_size: int,
        max_batch: int = 1,
        wait_seconds: float = 0.0,
        may_join: Callable[[Work, Work], bool] = lambda *_: True,
        on_dropped: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.size = 0
        self._compute, self._name, self._may_join, self._on_dropped = compute, name, may_join, on_dropped
        self._max_size, self._max_batch, self._wait_seconds = max_size, max_batch, wait_seconds
        self._jobs = Turns[Work]()
        self._seconds_per_unit = 0.0
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    @property
    def is_alive(self) -> bool:
        """Return True if the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_taking(self) -> bool:
        """Return True if new work is taken."""
        return self.is_alive and not self._is_closing

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: it runs already: two servers share this app.
        """
        if self.is_alive:
            raise RuntimeError("The app is served already. Make another one with create_app.")
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def close(self, *, timeout_seconds: float | None = None) -> None:
        """Take no more, compute what was taken, and stop."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    async def ask(self, work: Work, *, size: int = 1, deadline_seconds: float, client: str = "") -> Any:
        """Return the result of ``compute``.

        Raises:
            QueueFullError, DrainingError, DeadlineError: it was not computed, or too late.
            Exception: what ``compute`` gave in its place.
        """
        if deadline_seconds <= 0:
            raise DeadlineError(was_computed=False)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        future = self.submit(work, size=size, deadline_seconds=deadline_seconds, client=client)

        def is_late() -> None:
            if not answer.done():
                answer.set_exception(DeadlineError(was_computed=not future.cancel()))

        # asyncio.wait_for(asyncio.wrap_future(future)) does the same with three times the calls.
        future.add_done_callback(lambda done: _tell(loop, answer, done))
        deadline = loop.call_later(deadline_seconds, is_late)
        try:
            return await answer
        finally:
            deadline.cancel()
            future.cancel()  # of a client that left; what is done stays as it is

    def submit(self, work: Work, *, size: int = 1, deadline_seconds: float, client: str = "") -> "Future[Any]":
        """Put work into the queue; what ``compute`` finds will be in the future.

        Where the queue is full, the newest work of the client with most of it is given up for a client with less: its
        future then has a QueueFullError.

        Raises:
            QueueFullError, DrainingError: it was not taken.
        """
        now = time.monotonic()
        job = Job(work, size, now, now + deadline_seconds, Future[Any](), client)
        with self._changed:
            if not self.is_taking:
                raise DrainingError
            if self.size + size > self._max_size:
                self._keep_wanted(now)
            if (excess := self.size + size - self._max_size) > 0:
                given_up = self._jobs.unfair(client, size, excess=excess)
                if not given_up:
                    raise self._full()
                for each in given_up:
                    self._jobs.remove_last(each.client)
                    self.size -= each.size
                    if each.future.set_running_or_notify_cancel():
                        each.future.set_exception(self._full())
                self._on_dropped(len(given_up))
            self._jobs.append(job)
            self.size += size
            self._changed.notify()
        return job.future

    def _full(self) -> QueueFullError:
        return QueueFullError(max(1, math.ceil(self.size * self._seconds_per_unit)))

    def _keep_wanted(self, now: float) -> None:
        waiting = list(self._jobs)
        kept = [job for job in waiting if job.is_wanted(now)]
        self._on_dropped(len(waiting) - len(kept))
        self._jobs = Turns(kept)
        self.size = sum(job.size for job in kept)

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                started = time.monotonic()
                self._compute(batch)
                self._note(sum(job.size for job in batch), time.monotonic() - started)
                batch.clear()  # a version that was replaced is not kept while nothing comes

    def _next_batch(self) -> list[Job[Work]] | None:
        """The jobs to compute together, none where nobody waits for them any more; None at the end."""
        with self._changed:
            while not self._jobs:
                if self._is_closing:
                    return None
                self._changed.wait()
            ready_at = self._jobs.oldest_queued_at + self._wait_seconds
            while self.size < self._max_batch and not self._is_closing:
                if (seconds := ready_at - time.monotonic()) <= 0:
                    break
                self._changed.wait(seconds)
            return self._take(time.monotonic())

    def _take(self, now: float) -> list[Job[Work]]:
        batch: list[Job[Work]] = []
        room = self._max_batch
        while self._jobs:
            job = self._jobs.first
            if batch and (job.size > room or not self._may_join(job.work, batch[0].work)):
                break
            self._jobs.take()
            self.size -= job.size
            if job.is_wanted(now) and job.future.set_running_or_notify_cancel():
                batch.append(job)
                room -= job.size
            else:
                self._on_dropped(1)
        return batch

    def _note(self, size: int, seconds: float) -> None:
        weight = _WEIGHT_OF_THE_LAST_BATCH if self._seconds_per_unit else 1.0
        self._seconds_per_unit += weight * (seconds / size - self._seconds_per_unit)
