"""The queue by itself: what is computed together, what is refused, and that nothing is lost or overtaken."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextual_bert.server.queueing import DeadlineError, DrainingError, Job, QueueFullError, WorkQueue


class Held:
    """Computes the double of numbers once ``gate`` is set, and remembers the batches."""

    def __init__(self) -> None:
        self.gate, self.is_computing = threading.Event(), threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, jobs: Sequence[Job[int]]) -> None:
        self.is_computing.set()
        assert self.gate.wait(30)
        self.batches.append([job.work for job in jobs])
        for job in jobs:
            job.future.set_result(2 * job.work)


@contextmanager
def started(held: Held, **limits: Any) -> Iterator[WorkQueue[int]]:
    """A queue that runs; its thread is busy with the number -1."""
    queue = WorkQueue[int](held, name="test", **limits)
    queue.start()
    queue.submit(-1, deadline_seconds=60)
    assert held.is_computing.wait(30)
    yield queue
    held.gate.set()
    queue.close(timeout_seconds=30)
    assert not queue.is_alive


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), max_size=12), max_batch=st.integers(1, 8), parity=st.booleans())
def test_batches_are_full_in_order_and_of_one_kind(sizes: list[int], max_batch: int, parity: bool) -> None:
    held = Held()
    limits: dict[str, Any] = {"max_size": 99, "max_batch": max_batch}
    if parity:
        limits["may_join"] = lambda work, first: work % 2 == first % 2
    with started(held, **limits) as queue:
        futures = [queue.submit(work, size=size, deadline_seconds=60) for work, size in enumerate(sizes)]
        assert queue.size == sum(sizes)
        held.gate.set()
        assert [future.result(30) for future in futures] == [2 * work for work in range(len(sizes))]
    batches = held.batches[1:]
    assert [work for batch in batches for work in batch] == list(range(len(sizes)))
    for batch, following in zip_longest(batches, batches[1:]):
        taken = sum(sizes[work] for work in batch)
        assert taken <= max_batch or len(batch) == 1
        assert not parity or len({work % 2 for work in batch}) == 1
        if following:  # what came next did not fit, or was of the other kind
            other = parity and following[0] % 2 != batch[0] % 2
            assert other or taken + sizes[following[0]] > max_batch


def test_a_full_queue_refuses_and_forgets_whom_nobody_waits_for() -> None:
    held, dropped = Held(), list[int]()
    with started(held, max_size=3, on_dropped=dropped.append) as queue:
        first = queue.submit(1, size=2, deadline_seconds=60)
        late = queue.submit(2, deadline_seconds=0)
        with pytest.raises(QueueFullError) as raised:
            queue.submit(3, size=2, deadline_seconds=60)  # the late one makes room for one, not for two
        assert raised.value.retry_after_seconds >= 1
        fourth = queue.submit(4, deadline_seconds=60)
        assert first.cancel()
        fifth = queue.submit(5, size=2, deadline_seconds=60)
        held.gate.set()
        assert (fourth.result(30), fifth.result(30)) == (8, 10)
        with pytest.raises(DeadlineError):
            late.result(30)
    assert [work for batch in held.batches for work in batch] == [-1, 4, 5]
    assert sum(dropped) == 2


def test_closing_computes_what_was_taken_and_takes_no_more() -> None:
    held = Held()
    with started(held, max_size=9) as queue:
        futures = [queue.submit(work, deadline_seconds=60) for work in range(3)]
        closing = threading.Thread(target=queue.close)
        closing.start()
        while queue.is_taking:
            pass
        with pytest.raises(DrainingError):
            queue.submit(7, deadline_seconds=60)
        held.gate.set()
        closing.join(30)
        assert [future.result(0) for future in futures] == [0, 2, 4]


def test_a_queue_can_be_started_again_but_not_twice() -> None:
    held = Held()
    held.gate.set()
    with started(held, max_size=9) as queue:
        with pytest.raises(RuntimeError, match="served already"):
            queue.start()
        queue.close(timeout_seconds=30)
        queue.start()
        assert queue.submit(21, deadline_seconds=60).result(30) == 42


def test_clients_take_turns_whoever_came_first() -> None:
    held = Held()
    with started(held, max_size=200) as queue:
        many = [queue.submit(work, deadline_seconds=60, client="many") for work in range(100)]
        few = [queue.submit(1000 + work, deadline_seconds=60, client="few") for work in range(3)]
        held.gate.set()
        assert [each.result(30) for each in [*many, *few]]
    order = [work for batch in held.batches[1:] for work in batch]
    assert order[:7] == [0, 1000, 1, 1001, 2, 1002, 3]
    assert [work for work in order if work < 1000] == list(range(100))


def test_a_full_queue_gives_up_the_newest_work_of_the_greediest_client() -> None:
    held, dropped = Held(), list[int]()
    with started(held, max_size=8, on_dropped=dropped.append) as queue:
        many = [queue.submit(work, deadline_seconds=60, client="many") for work in range(8)]
        few = [queue.submit(100 + work, deadline_seconds=60, client="few") for work in range(4)]
        for client in ("few", "many"):  # each has half of the queue now
            with pytest.raises(QueueFullError):
                queue.submit(200, deadline_seconds=60, client=client)
        third = queue.submit(300, size=2, deadline_seconds=60, client="third")
        assert queue.size == 8
        held.gate.set()
        answered = {each.result(30) for each in (*many[:3], *few[:3], third)}
        for each in (*many[4:], many[3], few[3]):
            assert isinstance(each.exception(30), QueueFullError)
    assert answered == {0, 2, 4, 200, 202, 204, 600}
    assert sum(dropped) == 6


def test_a_large_job_displaces_enough_or_nothing() -> None:
    held = Held()
    with started(held, max_size=8) as queue:
        waiting = [queue.submit(work, deadline_seconds=60, client=f"{work % 2}") for work in range(8)]
        with pytest.raises(QueueFullError):
            queue.submit(9, size=5, deadline_seconds=60, client="new")
        assert queue.size == 8
        held.gate.set()
        assert [each.result(30) for each in waiting] == [2 * work for work in range(8)]
