"""Signals while the command line is imported. Ctrl-C ends it with a sentence; SIGHUP does not end ``serve``.

An import may take an interrupt for a fault of what it imports, or pass it over.
"""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType

EXIT_CODE = 130
is_interrupted = False  # since the commands run
is_said = False  # whatever was said after that


@contextmanager
def ending_at_interrupt() -> Generator[None]:
    """End the process at Ctrl-C, without a traceback, where Python's own handler is in place."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, _end)
    except ValueError:  # imported in another thread, which hears no signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore_hangups() -> None:
    """Ignore SIGHUP where the command is ``serve``, until the server has a handler and after it had one.

    SIGHUP asks a server to load its run again. Before it read the run, and after it stopped, that means nothing.
    """
    command = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), None)
    if command == "serve" and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        with suppress(ValueError):  # imported in another thread, which hears no signals
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


def remember_interrupts() -> None:
    """Raise KeyboardInterrupt at Ctrl-C as before, and set ``is_interrupted``."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _remember)


def say_if_unsaid() -> None:
    """Say that the command was interrupted, unless a sentence said so already."""
    if is_interrupted and not is_said:
        print("contextual-bert: Interrupted.", file=sys.stderr)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(sys.stderr.fileno(), b"contextual-bert: Interrupted.\n")
    os._exit(EXIT_CODE)


def _remember(number: int, frame: FrameType | None) -> None:
    global is_interrupted
    is_interrupted = True
    raise KeyboardInterrupt
