"""Several processes that serve one port, each with a model, and the process that watches over them.

The processes are forked once the first model is loaded, so that its weights are in memory once. They accept from one
socket: a worker that dies takes only the connections with it that it had accepted.
"""

import gc
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from contextual_bert.errors import ConfigurationError
from contextual_bert.nouns import agreeing, counted
from contextual_bert.server.accepting import drop_new_connections
from contextual_bert.server.app import create_app
from contextual_bert.server.logs import EVENTS, configure_logging
from contextual_bert.server.serving import announce, listening_socket, run_app
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import AnyServedPipeline
from contextual_bert.server.worker_messages import WorkerLink, WorkerMessage, merged_metrics

SECONDS_FOR_METRICS = 2.0
_THREADS = "OMP_NUM_THREADS"
_LONGEST_PAUSE_SECONDS = 30.0
_SECONDS_OF_A_SOUND_START = 10.0
Load = Callable[[], AnyServedPipeline]


def serve_with_workers(
    pipeline: AnyServedPipeline,
    *,
    load: Load,
    settings: ServerSettings,
    num_workers: int,
    host: str,
    port: int,
) -> None:
    """Serve a pipeline by several processes on one port until a signal ends them; port 0 takes a free one.

    Args:
        pipeline: the first version's, on the CPU.
        load: gives the pipeline of the next version, in each worker.
        settings: of all workers together: queues and connections are divided among them.
        num_workers: processes that answer.
        host: name or address to listen on.
        port: to listen on.

    Raises:
        ConfigurationError: the address cannot be listened on, or the model is not on the CPU.
        KeyboardInterrupt: after Ctrl-C, when everything was answered.
    """
    check_can_fork(pipeline, num_workers)
    with listening_socket(settings, host, port) as listener:
        # A thread that writes the log could hold a lock at the moment of a fork.
        configure_logging(is_gathering=False)
        announce(settings, host, listener, workers=num_workers)
        gc.collect()
        gc.freeze()
        Supervisor(listener, host=host, load=load, settings=settings, num_workers=num_workers).run(pipeline)


def check_can_fork(pipeline: AnyServedPipeline, num_workers: int) -> None:
    """Raise ConfigurationError where the model of a pipeline lives on a device that processes cannot share."""
    device = getattr(pipeline.model, "device", None)
    if device is not None and device.type != "cpu":
        raise ConfigurationError(
            f"is not possible with a model on {device.type}, which one process uses",
            setting="workers",
            value=num_workers,
            fix="Give one worker, or the device cpu.",
        )


def shares_of(settings: ServerSettings, num_workers: int) -> ServerSettings:
    """Return the settings of one of several workers: a share of the queues and connections, all else as it is.

    Example:
        >>> shares_of(ServerSettings(max_queue=1024, max_connections=999), 2).max_connections
        500
    """
    if num_workers == 1:
        return settings
    return replace(
        settings,
        max_queue=max(settings.max_queries, -(-settings.max_queue // num_workers)),
        max_connections=-(-settings.max_connections // num_workers),
        max_computations=-(-settings.max_computations // num_workers),
    )


@dataclass(eq=False)
class Worker:
    """One worker as the supervisor sees it.

    ``pause_seconds``: how long its number waits for a new process, should this one die.
    """

    number: int
    process: Any
    connection: Any
    started_at: float
    pause_seconds: float


@dataclass(eq=False)
class SharedQuestion:
    """A question of one worker that all of them answer.

    ``asked_by``: who wants to know, None for a signal; ``waiting``: workers that have not answered.
    """

    asked_by: tuple[Worker, int] | None
    subject: Any
    waiting: set[Worker]
    deadline: float
    found: dict[int, Any] = field(default_factory=dict[int, Any])
    error: str | None = None


class Supervisor:
    """Starts workers, watches over them, and passes on what concerns all. It answers no request.

    Args:
        listener: the socket that all workers accept from.
        host: the name or address that it was bound to.
        load: gives the pipeline of a new version, in a worker.
        settings: of all workers together.
        num_workers: processes that answer.
    """

    def __init__(
        self, listener: socket.socket, *, host: str, load: Load, settings: ServerSettings, num_workers: int
    ) -> None:
        self._listener, self._host, self._load = listener, host, load
        self._settings, self._num_workers = shares_of(settings, num_workers), num_workers
        self._context = multiprocessing.get_context("fork")
        self._workers: dict[int, Worker] = {}
        self._due: dict[int, tuple[float, float]] = {}  # number -> when to start it, and the pause after that
        self._first: AnyServedPipeline | None = None  # what a new worker serves, until a reload
        self._version = 1
        self._stock: dict[str, bool] = {}
        self._questions: dict[int, SharedQuestion] = {}
        self._num_questions = self._num_restarts = 0
        self._reloads: deque[tuple[Worker, int] | None] = deque()
        self._reload: list[tuple[Worker, int] | None] = []  # who waits for the reload that runs
        self._still_to_reload: deque[Worker] = deque()
        self._reload_version = 1
        self._signals: list[int] = []
        self._alarm: socket.socket | None = None

    def run(self, pipeline: AnyServedPipeline) -> None:
        """Serve until a signal comes.

        Raises:
            KeyboardInterrupt: the signal was SIGINT.
        """
        self._first = pipeline
        waking, alarm = socket.socketpair()
        waking.setblocking(False)
        alarm.setblocking(False)
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {each: signal.signal(each, lambda number, _: self._signals.append(number)) for each in numbers}
        old_alarm = signal.set_wakeup_fd(alarm.fileno(), warn_on_full_buffer=False)
        self._alarm = waking
        del pipeline
        try:
            for number in range(1, self._num_workers + 1):
                self._start(number, pause_seconds=1.0)
            ended_by = self._watch()
            self._stop()
        finally:
            signal.set_wakeup_fd(old_alarm)
            for each, handler in before.items():
                signal.signal(each, handler)
            waking.close()
            alarm.close()
        if ended_by == signal.SIGINT:
            raise KeyboardInterrupt

    # Processes

    def _start(self, number: int, *, pause_seconds: float) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=self._work, args=(number, theirs, ours), name=f"contextual-bert-worker-{number}"
        )
        process.start()
        theirs.close()
        self._workers[number] = Worker(number, process, ours, time.monotonic(), pause_seconds)

    def _work(self, number: int, connection: Any, others_end: Any) -> None:
        """Serve, in the process of a worker."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the supervisor says when to reload
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # A terminal sends Ctrl-C to all processes: whoever still loads goes with the supervisor's SIGTERM.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for inherited in (others_end, *(each.connection for each in self._workers.values())):
            inherited.close()  # an end that lives on here would hide that the supervisor died
        self._workers.clear()
        configure_logging(worker=number)
        share_processors(self._num_workers)
        link = WorkerLink(connection, worker=number, version=self._version)
        try:
            pipeline = self._first if self._first is not None else self._load()
        except Exception as error:
            EVENTS.exception("a worker could not load the run", extra={"details": {"reason": str(error)}})
            logging.shutdown()
            sys.exit(1)
        self._first = None
        app = create_app(pipeline, load=self._load, settings=self._settings, link=link)
        del pipeline
        if self._stock:
            app.serving.set_stock(self._stock)
        with suppress(KeyboardInterrupt):
            run_app(app, self._listener, host=self._host, is_shared=True)
        logging.shutdown()  # writes what waits

    # Watching

    def _watch(self) -> int:
        """Return the signal that ends the server."""
        assert self._alarm is not None
        while True:
            while self._signals:
                if (number := self._signals.pop(0)) != signal.SIGHUP:
                    return number
                self._reloads.append(None)
            self._go_on()
            for ready in multiprocessing.connection.wait(self._sources(), timeout=self._seconds_to_wait()):
                if ready is self._alarm:
                    with suppress(BlockingIOError):
                        self._alarm.recv(4096)
            self._read_messages()
            self._note_deaths()

    def _sources(self) -> list[Any]:
        workers = self._workers.values()
        return [self._alarm, *(each.connection for each in workers), *(each.process.sentinel for each in workers)]

    def _seconds_to_wait(self) -> float | None:
        times = [question.deadline for question in self._questions.values()] + [due for due, _ in self._due.values()]
        soonest = min(times, default=float("inf"))
        return None if soonest == float("inf") else max(0.0, soonest - time.monotonic())

    def _go_on(self) -> None:
        """Do what is due: new processes, answers whose time is over, the next reload."""
        now = time.monotonic()
        for number, (due, pause) in list(self._due.items()):
            if now >= due:
                del self._due[number]
                self._num_restarts += 1
                self._start(number, pause_seconds=pause)
        for key, question in list(self._questions.items()):
            if not question.waiting or now >= question.deadline:
                del self._questions[key]
                self._finish(question)
        if self._reloads and not self._reload:
            self._begin_reload()

    def _read_messages(self) -> None:
        for worker in list(self._workers.values()):
            with suppress(EOFError, OSError):  # it died, which its sentinel says
                while worker.connection.poll():
                    self._take(worker, worker.connection.recv())

    def _note_deaths(self) -> None:
        for number, worker in list(self._workers.items()):
            if worker.process.exitcode is None:
                continue
            del self._workers[number]
            worker.connection.close()
            lived = time.monotonic() - worker.started_at
            pause = 0.0 if lived >= _SECONDS_OF_A_SOUND_START else worker.pause_seconds
            after = 1.0 if not pause else min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self._due[number] = time.monotonic() + pause, after
            details = {"worker": number, "pid": worker.process.pid, "exit": exit_in_words(worker.process.exitcode)}
            EVENTS.error("a worker died", extra={"details": {**details, "starts_anew_in_seconds": round(pause, 1)}})
            for question in self._questions.values():
                question.waiting.discard(worker)
                if question.subject == "reload":
                    question.error = f"worker {number} died"

    # Questions

    def _take(self, worker: Worker, message: WorkerMessage) -> None:
        if message.is_answer:
            if (question := self._questions.get(message.number)) is not None:
                question.waiting.discard(worker)
                question.found[worker.number] = message.content
                question.error = question.error or message.error
        elif message.subject == "reload":
            self._reloads.append((worker, message.number))
        else:
            if message.subject == "stock":
                self._stock |= message.content
            seconds = SECONDS_FOR_METRICS if message.subject == "metrics" else self._settings.deadline_seconds
            workers = set(self._workers.values())
            self._ask(message.subject, message.content, workers, (worker, message.number), seconds=seconds)

    def _ask(
        self, subject: Any, content: Any, workers: set[Worker], asked_by: tuple[Worker, int] | None, *, seconds: float
    ) -> None:
        self._num_questions += 1
        question = SharedQuestion(asked_by, subject, set(workers), time.monotonic() + seconds)
        self._questions[self._num_questions] = question
        for worker in workers:
            try:
                worker.connection.send(WorkerMessage(self._num_questions, subject, content))
            except OSError:
                question.waiting.discard(worker)

    def _finish(self, question: SharedQuestion) -> None:
        if question.subject == "reload":
            self._go_on_reloading(question)
            return
        content: Any = None
        if question.subject == "metrics":
            texts = {number: text for number, text in sorted(question.found.items()) if text}
            content = merged_metrics(texts) + self._own_metrics()
        self._answer(question.asked_by, question.subject, content, error=question.error)

    def _answer(self, asked_by: tuple[Worker, int] | None, subject: Any, content: Any, *, error: str | None) -> None:
        if asked_by is None:
            return
        worker, number = asked_by
        with suppress(OSError):  # it died meanwhile
            worker.connection.send(WorkerMessage(number, subject, content, is_answer=True, error=error))

    def _own_metrics(self) -> str:
        return (
            "# HELP contextual_bert_workers Workers that run.\n# TYPE contextual_bert_workers gauge\n"
            f"contextual_bert_workers {float(len(self._workers))}\n"
            "# HELP contextual_bert_worker_restarts_total Workers that were started in place of one that died.\n"
            "# TYPE contextual_bert_worker_restarts_total counter\n"
            f"contextual_bert_worker_restarts_total {float(self._num_restarts)}\n"
        )

    # Reloads, one worker after the other: one more model is in memory, and the others answer

    def _begin_reload(self) -> None:
        self._reload = list(self._reloads)
        self._reloads.clear()
        self._reload_version = self._version + 1
        self._still_to_reload = deque(self._workers.values())
        self._first = None  # whoever starts from now on reads the files
        self._reload_next()

    def _reload_next(self) -> None:
        while self._still_to_reload:
            worker = self._still_to_reload.popleft()
            if worker.number in self._workers and self._workers[worker.number] is worker:
                self._ask("reload", self._reload_version, {worker}, None, seconds=float("inf"))
                return
        self._end_reload(None)

    def _go_on_reloading(self, question: SharedQuestion) -> None:
        if question.error is not None:
            self._end_reload(question.error)
            return
        self._version = self._reload_version
        self._reload_next()

    def _end_reload(self, error: str | None) -> None:
        asked, self._reload = self._reload, []
        for each in asked:
            self._answer(each, "reload", self._version, error=error)

    # The end

    def _stop(self) -> None:
        """Let every worker answer what it has, and wait for their ends; a second signal hurries them."""
        alarm = self._alarm
        assert alarm is not None
        drop_new_connections(self._listener)
        EVENTS.info("stopping workers", extra={"details": {"workers": len(self._workers)}})
        self._signal(signal.SIGTERM)
        while self._workers:
            multiprocessing.connection.wait([alarm, *(each.process.sentinel for each in self._workers.values())])
            with suppress(BlockingIOError):
                alarm.recv(4096)
            if any(number != signal.SIGHUP for number in self._signals):
                self._signal(signal.SIGINT)
            self._signals.clear()
            for number, worker in list(self._workers.items()):
                if worker.process.exitcode is not None:
                    del self._workers[number]
        EVENTS.info("all workers stopped")

    def _signal(self, number: int) -> None:
        for worker in self._workers.values():
            with suppress(ProcessLookupError):
                os.kill(worker.process.pid, number)


@contextmanager
def with_one_thread() -> Generator[None]:
    """Let torch compute with one thread inside the block: a process that is forked has no pool of threads.

    Torch reads the number when it is imported, if it was not yet.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


def share_processors(num_workers: int) -> None:
    """Let torch use the share of the processors that one of several workers has, where torch was imported."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    share = max(1, (os.cpu_count() or 1) // num_workers)
    given = os.environ.get(_THREADS, "")
    torch.set_num_threads(min(share, int(given)) if given.isdigit() and int(given) else share)


def exit_in_words(code: int) -> str:
    """Return how a process ended.

    Example:
        >>> exit_in_words(-9), exit_in_words(1)
        ('signal SIGKILL', 'exit code 1')
    """
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def workers_remark(num_workers: int, num_processors: int | None) -> list[str]:
    """Return a remark on more workers than the machine has processors.

    Example:
        >>> workers_remark(3, 2)
        ['3 workers share 2 processors: more than one worker a processor takes memory and answers no faster.']
    """
    if num_processors is None or num_workers <= num_processors:
        return []
    workers, processors = counted(num_workers, "worker"), counted(num_processors, "processor")
    return [
        f"{workers} {agreeing('share', num_workers)} {processors}: more than one worker a processor takes memory and "
        "answers no faster."
    ]
