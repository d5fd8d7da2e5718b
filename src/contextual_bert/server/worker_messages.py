"""What workers and their supervisor say to each other, and the worker's end of it.

A request that came to one worker may concern all: a reload, posted stock, the metrics. The worker asks the supervisor,
which asks every worker, itself included, and gives their answers back.
"""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

Subject = Literal["reload", "stock", "metrics"]


class WorkerMessage(NamedTuple):
    """One message, either way.

    Args:
        number: of the question, which its answer repeats; numbers of the two directions are apart.
        subject: what it is about.
        content: changes of the stock, number of a version, text of the metrics, ...
        is_answer: whether it answers a question of the other side.
        error: what went wrong, in an answer.
    """

    number: int
    subject: Subject
    content: Any = None
    is_answer: bool = False
    error: str | None = None


class WorkerFailedError(Exception):
    """A worker could not do what it was asked for; its log says more."""


def stop_this_process() -> None:
    """Send SIGTERM to this process, which then answers what it has and ends."""
    os.kill(os.getpid(), signal.SIGTERM)


class WorkerLink:
    """The worker's end of the connection to its supervisor.

    Args:
        connection: to the supervisor.
        worker: number of this worker, from 1.
        version: number of the version that this worker loads first.
        on_lost: called when the supervisor is gone, and nobody would start or stop this worker.

    Relation to its siblings:
        ``workers.py`` has the other end.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        worker: int,
        version: int = 1,
        on_lost: Callable[[], object] = stop_this_process,
    ) -> None:
        self.worker, self.version, self._on_lost = worker, version, on_lost
        self._connection, self._sending = connection, threading.Lock()
        self._asked: dict[int, Future[Any]] = {}
        self._num_asked = 0
        self._handlers: Mapping[str, Callable[[Any], Future[Any]]] = {}

    def start(self, handlers: Mapping[str, Callable[[Any], "Future[Any]"]]) -> None:
        """Answer the supervisor's questions from now on, in a thread.

        Args:
            handlers: subject -> what does it, from the content of a question to a future with that of the answer.
        """
        self._handlers = handlers
        threading.Thread(target=self._listen, name="contextual-bert-supervised", daemon=True).start()

    def ask(self, subject: Subject, content: Any = None) -> "Future[Any]":
        """Ask the supervisor to have something done by all workers; the future has what came of it.

        The future has a ``WorkerFailedError`` where a worker failed.
        """
        answer = Future[Any]()
        with self._sending:
            self._num_asked += 1
            self._asked[self._num_asked] = answer
            self._connection.send(WorkerMessage(self._num_asked, subject, content))
        return answer

    def _send(self, message: WorkerMessage) -> None:
        with self._sending:
            self._connection.send(message)

    def _listen(self) -> None:
        try:
            while True:
                message: WorkerMessage = self._connection.recv()
                if message.is_answer:
                    self._finish(message)
                else:
                    self._do(message)
        except (OSError, EOFError):
            self._on_lost()

    def _finish(self, message: WorkerMessage) -> None:
        future = self._asked.pop(message.number)
        if not future.set_running_or_notify_cancel():
            return
        if message.error is not None:
            future.set_exception(WorkerFailedError(message.error))
        else:
            future.set_result(message.content)

    def _do(self, message: WorkerMessage) -> None:
        def answer(done: "Future[Any]") -> None:
            error = None if done.cancelled() else done.exception()
            is_failed = done.cancelled() or error is not None
            content = None if is_failed else done.result()
            said = (str(error) or type(error).__name__) if is_failed else None
            try:
                self._send(WorkerMessage(message.number, message.subject, content, is_answer=True, error=said))
            except OSError:
                return  # the supervisor is gone

        self._handlers[message.subject](message.content).add_done_callback(answer)


def merged_metrics(texts: Mapping[int, str]) -> str:
    """Return the metrics of several workers as one text, each sample with the label ``worker``.

    Args:
        texts: number of a worker -> its metrics in Prometheus' text format.

    Example:
        >>> about = "# HELP requests_total Requests.\\n# TYPE requests_total counter\\n"
        >>> texts = {worker: f'{about}requests_total{{route="/"}} {worker + 2}.0' for worker in (1, 2)}
        >>> print(merged_metrics(texts), end="")
        # HELP requests_total Requests.
        # TYPE requests_total counter
        requests_total{worker="1",route="/"} 3.0
        requests_total{worker="2",route="/"} 4.0
    """
    samples: dict[str, list[str]] = {}
    for worker, text in texts.items():
        about = ""
        for line in text.splitlines():
            if line.startswith("# HELP"):
                about = line
            elif line.startswith("#"):
                about += f"\n{line}"
                samples.setdefault(about, [])
            else:
                name, brace, rest = line.partition("{")
                if not brace:
                    name, _, rest = line.partition(" ")
                label = f'{name}{{worker="{worker}"'
                samples[about].append(f"{label},{rest}" if brace else f"{label}}} {rest}")
    return "".join(f"{about}\n" + "".join(f"{line}\n" for line in lines) for about, lines in samples.items())
