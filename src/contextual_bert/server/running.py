"""A socket, signals and the loop around an app. What the app does is not known here.

SIGTERM and Ctrl-C stop taking connections, answer what was taken, and end; SIGHUP loads the run again.
"""

import gc
import math
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from contextual_bert.errors import ConfigurationError
from contextual_bert.server.logs import EVENTS, configure_logging
from contextual_bert.server.operation import reload_now
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.settings import ServerSettings

_SECONDS_TO_FINISH = 30
_BACKLOG = 2048


def serve(app: FastAPI, *, host: str, port: int) -> None:
    """Serve an app of ``create_app`` until a signal ends it; port 0 takes a free one, which the log names.

    Raises:
        ConfigurationError: the address is taken, or not one of this machine.
        KeyboardInterrupt: after Ctrl-C, when everything was answered.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"{host}:{port} cannot be listened on: {error}. Give another host or port.") from error
    # asyncio does this for sockets that say they are TCP, which create_server's do not. Without it the end of an answer
    # waits for the client's delayed acknowledgement of its beginning: 40 ms on a connection that is kept.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    configure_logging()
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_seconds_to_finish(getattr(app, "settings", None)),
        )
    )
    # What is loaded by now stays. A full collection that looked through half a million objects of the libraries each
    # time would stop every request for a quarter of a second.
    gc.collect()
    gc.freeze()
    address = listener.getsockname()
    shown = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
    EVENTS.info("listening", extra={"details": {"url": f"http://{shown}:{address[1]}"}})
    with _handling(signal.SIGHUP, _reloader(app)), _handling(signal.SIGTERM, lambda: None), listener:
        server.run(sockets=[listener])


def _seconds_to_finish(settings: ServerSettings | None) -> int:
    """What was taken just before the signal has its whole deadline."""
    longest = max(settings.deadline_seconds, settings.study_deadline_seconds) if settings is not None else 0
    return max(_SECONDS_TO_FINISH, math.ceil(longest))


def _reloader(app: FastAPI) -> Callable[[], None]:
    def reload() -> None:
        with suppress(ProblemError):  # the log has it
            reload_now(app.serving)  # pyright: ignore[reportAttributeAccessIssue]

    return lambda: threading.Thread(target=reload, name="contextual-bert-reload", daemon=True).start()


class _handling:  # noqa: N801  (a context manager, used as a function)
    """A signal's handler inside a block; uvicorn has its own for SIGTERM and repeats the signal when it is done."""

    def __init__(self, number: int, handler: Callable[[], None]) -> None:
        self._number, self._handler = number, handler

    def __enter__(self) -> None:
        self._before = signal.signal(self._number, lambda *_: self._handler())

    def __exit__(self, *_: object) -> None:
        signal.signal(self._number, self._before)
