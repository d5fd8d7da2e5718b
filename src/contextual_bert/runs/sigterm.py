"""The end at SIGTERM, with which schedulers stop what they run: what is open is closed, and one sentence says so.

It needs no torch. ``termination`` lets a training finish its step first.
"""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["EXIT_CODE", "Terminated", "at_sigterm", "ending_at_sigterm"]

EXIT_CODE = 128 + signal.SIGTERM


class Terminated(SystemExit):
    """End of the process after SIGTERM, with exit code 143.

    Args:
        sentence: what happened, for the command line.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(EXIT_CODE)
        self.sentence = sentence


@contextmanager
def ending_at_sigterm(sentence: str) -> Generator[None]:
    """Raise Terminated when SIGTERM comes, so that what is open is closed and what was begun is cleaned up.

    Args:
        sentence: what is left then.
    """

    def end() -> None:
        raise Terminated(sentence)

    with at_sigterm(end):
        yield


@contextmanager
def at_sigterm(act: Callable[[], None]) -> Generator[None]:
    """Call a function when SIGTERM comes; outside the main thread, which alone hears signals, change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        act()

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
