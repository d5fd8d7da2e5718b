"""Reloads in a thread of their own, one at a time: each request for one gets a reload that began after it.

Requests that come during a reload share the next one. So the newest files are what is served in the end.
"""

import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue

from contextual_bert.server.logs import EVENTS
from contextual_bert.server.state import Serving, Version


class Reloader:
    """A thread that loads new versions.

    Args:
        serving: what answers.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        # A SimpleQueue may be filled by a signal's handler, whatever the interrupted thread was doing.
        self._asked: SimpleQueue[Future[Version] | None] = SimpleQueue()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; what was asked for before is done now."""
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="contextual-bert-reload", daemon=True)
        self._thread.start()

    def close(self, *, timeout_seconds: float | None = None) -> None:
        """Wait for the reload that runs, give up those that wait, and end the thread.

        An interpreter that ends while a thread loads a model aborts the process.
        """
        self._is_closing = True
        self._asked.put(None)
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def ask(self) -> "Future[Version]":
        """Ask for a reload; the future has its version, or what went wrong, which the log has, too."""
        asked = Future["Version"]()
        self._asked.put(asked)
        return asked

    def _run(self) -> None:
        while (first := self._asked.get()) is not None:
            asked, is_over = [first], False
            while True:
                try:
                    another = self._asked.get_nowait()
                except Empty:
                    break
                if another is None:
                    is_over = True
                else:
                    asked.append(another)
            if is_over:
                for each in asked:
                    each.cancel()
                return
            self._reload(asked)

    def _reload(self, asked: "list[Future[Version]]") -> None:
        EVENTS.info("reloading", extra={"details": {"times_asked": len(asked)}})
        try:
            version = self._serving.reload()
        except Exception as error:
            if self._is_closing:
                EVENTS.info("reload given up")
            else:
                details = {"reason": str(error), "version": self._serving.current.number}
                EVENTS.exception("reload failed", extra={"details": details})
            for each in asked:
                if not each.cancelled():
                    each.set_exception(error)
        else:
            EVENTS.info("reloaded", extra={"details": version.described()})
            for each in asked:
                if not each.cancelled():
                    each.set_result(version)
