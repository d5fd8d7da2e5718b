"""A socket, signals and the loop around an app. What the app does is not known here.

SIGTERM and Ctrl-C stop taking connections, answer what was taken, and end; SIGHUP loads the run again.
"""

import asyncio
import gc
import ipaddress
import math
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from contextual_bert.errors import ConfigurationError
from contextual_bert.server.accepting import BACKLOG, Acceptor, room_for_connections
from contextual_bert.server.connections import Connection, ConnectionLimit
from contextual_bert.server.logs import EVENTS, configure_logging
from contextual_bert.server.process import ProcessState
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.settings import ServerSettings

_SECONDS_TO_FINISH = 30


def serve(app: FastAPI, *, host: str, port: int) -> None:
    """Serve an app of ``create_app`` until a signal ends it; port 0 takes a free one, which the log names.

    Raises:
        ConfigurationError: the address is taken, or not one of this machine; or it is every address of the machine, and
            the app has neither a key nor allowed hosts.
        KeyboardInterrupt: after Ctrl-C, when everything was answered.
    """
    settings = getattr(app, "settings", None) or ServerSettings()
    with listening_socket(settings, host, port) as listener:
        configure_logging()
        announce(settings, host, listener)
        reload = app.reload if hasattr(app, "reload") else lambda: None  # pyright: ignore[reportAttributeAccessIssue]
        with _handling(signal.SIGHUP, reload):
            run_app(app, listener, host=host)


def listening_socket(settings: ServerSettings, host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigurationError: see ``serve``.
    """
    exposure(settings, host)
    with _refusal_in_words(host, port):
        listener = socket.create_server((host, port), family=_family(host), backlog=BACKLOG)
    # asyncio does this for sockets that say they are TCP, which create_server's do not. Without it the end of an answer
    # waits for the client's delayed acknowledgement of its beginning: 40 ms on a connection that is kept.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def announce(settings: ServerSettings, host: str, listener: socket.socket, **details: object) -> None:
    """Write to the log where a server listens, and what its operator should know."""
    for remark in exposure(settings, host):
        EVENTS.warning(remark)
    address = listener.getsockname()
    shown = f"[{address[0]}]" if listener.family == socket.AF_INET6 else address[0]
    EVENTS.info("listening", extra={"details": {"url": f"http://{shown}:{address[1]}", **details}})


def run_app(app: FastAPI, listener: socket.socket, *, host: str, is_shared: bool = False) -> None:
    """Answer what comes to a socket until a signal ends it.

    Args:
        app: of ``create_app``.
        listener: the socket, which is closed at the end.
        host: the name or address that it was bound to.
        is_shared: whether other processes accept from it, too.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
    """
    server = LimitedServer(app, listener, host=host, is_shared=is_shared)
    # What is loaded by now stays. A full collection that looked through half a million objects of the libraries each
    # time would stop every request for a quarter of a second.
    gc.collect()
    gc.freeze()
    with _handling(signal.SIGTERM, lambda: None), listener:
        server.run()


def check_can_listen(host: str, port: int) -> None:
    """Raise ConfigurationError where an address cannot be listened on: before a run is loaded.

    Example:
        >>> check_can_listen("127.0.0.1", 0)
    """
    with _refusal_in_words(host, port), socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as create_server does
        probe.bind((host, port))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


@contextmanager
def _refusal_in_words(host: str, port: int) -> Generator[None]:
    """Turn the system's refusal of an address into a ConfigurationError."""
    try:
        yield
    except (OSError, OverflowError) as error:
        fix = "Give another host or port."
        raise ConfigurationError(f"{host}:{port} cannot be listened on: {error}", fix=fix) from error


def exposure(settings: ServerSettings, host: str) -> list[str]:
    """Return what an operator should know about a server that others can reach.

    Raises:
        ConfigurationError: everybody could reach it under any name, and nothing says who may ask.
    """
    is_everywhere = host in ("", "0.0.0.0", "::")
    if settings.api_key is not None:
        return []
    if is_everywhere and not settings.allowed_hosts:
        raise ConfigurationError(
            "listens on every address of this machine, and without a key everybody who reaches it may ask",
            setting="host",
            value=host,
            fix="Set a key (api_key, --api-key-file), or name the hosts that the server answers for "
            "(allowed_hosts, --allow-host). 127.0.0.1 needs neither.",
        )
    if is_everywhere or not _is_loopback(host):
        return [f"No key is set: everybody who reaches {host} may ask this server."]
    return []


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LimitedServer(uvicorn.Server):
    """uvicorn's server with limited connections, and a stop that loses no request.

    Args:
        app: of ``create_app``.
        listener: the socket that listens.
        host: the name or address that it was bound to.
        is_shared: whether other processes accept from the socket, too.
    """

    def __init__(self, app: FastAPI, listener: socket.socket, *, host: str, is_shared: bool = False) -> None:
        settings = getattr(app, "settings", None) or ServerSettings()
        process = getattr(app, "process", None) or ProcessState()
        process.bound_host, process.is_stopping = host, False
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",
                timeout_graceful_shutdown=_seconds_to_finish(settings),
            )
        )
        room = room_for_connections(settings.max_connections)
        if room < settings.max_connections:
            about = {"max_connections": room, "asked_for": settings.max_connections}
            EVENTS.warning("the limit of file descriptors allows fewer connections", extra={"details": about})
        metrics = getattr(app, "metrics", None) or Metrics()
        self._listener, self._is_shared = listener, is_shared
        self._acceptor: Acceptor | None = None
        self._limit = ConnectionLimit(settings, metrics, process, max_connections=room)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the app, then accept connections."""
        await super().startup(sockets=[])
        make_connection = partial(
            Connection,
            limit=self._limit,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self._acceptor = Acceptor(self._listener, make_connection, self._limit, is_shared=self._is_shared)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what comes on open connections for a while, each time for the last time; then close the idle ones.

        A client learns from ``Connection: close`` that it needs a new connection. Closing an idle connection at once
        would reset a request that is underway.
        """
        self._limit.process.is_stopping = True
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limit.settings.stop_grace_seconds
        acceptor = self._acceptor
        if acceptor is not None:
            await acceptor.finish()
        details = {"connections": self._limit.size}
        EVENTS.info("stopping", extra={"details": details})
        while (self._limit.size or (acceptor is not None and acceptor.num_coming)) and not self.force_exit:
            if loop.time() >= end:
                break
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


def _seconds_to_finish(settings: ServerSettings) -> int:
    """Return the seconds for which a stop waits. Work taken just before the signal has its whole deadline."""
    return max(_SECONDS_TO_FINISH, math.ceil(max(settings.deadline_seconds, settings.computation_deadline_seconds)))


class _handling:  # noqa: N801  (a context manager, used as a function)
    """A signal's handler inside a block; uvicorn has its own for SIGTERM and repeats the signal when it is done."""

    def __init__(self, number: int, handler: Callable[[], Any]) -> None:
        self._number, self._handler = number, handler

    def __enter__(self) -> None:
        self._before = signal.signal(self._number, lambda *_: self._handler())

    def __exit__(self, *_: object) -> None:
        signal.signal(self._number, self._before)
