"""Connections of clients: deadlines, a limit on how many there are, an end that loses no answer, and strict HTTP.

uvicorn reads and answers the requests. What it leaves to a proxy is here, because a server may stand without one. h11
follows RFC 9112 where it allows a recipient to be lenient. A proxy that is lenient in another way would see another
request than this server does (request smuggling), so what two servers could read as two requests is refused.
"""

import asyncio
import logging
import re
import select
import time
from collections.abc import Iterator
from enum import IntEnum
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from contextual_bert.server.logs import EVENTS, REQUESTS, RequestRecord
from contextual_bert.server.middleware import SAFE_HEADERS, UNMATCHED, new_request_id
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.process import ProcessState
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.settings import ServerSettings

MAX_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 100
# A chunk costs the event loop some 15 microseconds, however small it is.
MAX_CHUNKS = 10_000
_END_OF_HEAD = b"\r\n\r\n"
_LONE_LINE_BREAK = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_FOLDED_LINE = re.compile(rb"\r\n[ \t]")
_LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_ENCODING = re.compile(rb"^transfer-encoding[ \t]*:", re.IGNORECASE | re.MULTILINE)
_ABSOLUTE = re.compile(rb"https?://(?P<host>[^/?#]*)(?P<rest>[/?].*|)", re.IGNORECASE)
_RESEND = "Send one request as RFC 9112 has it."

CLOSE_HEADER = (b"connection", b"close")
# A client that has its answer closes its side. Until then what it still sends is read and dropped: closing with unread
# data would reset the connection, and the answer would be lost with it.
SECONDS_TO_LINGER = 2.0
SECONDS_TO_TAKE_AN_ANSWER = 30.0
SECONDS_BETWEEN_LINES = 60.0
_PROTOCOL_LOG = logging.getLogger("contextual_bert.server.protocol")
_PROTOCOL_LOG.setLevel(logging.ERROR)  # uvicorn's line for each faulty request says less than ours


class StrictConnection(h11.Connection):
    """The server's side of a connection, which refuses ambiguous heads and bodies of tiny chunks.

    ``fault`` is the problem to answer with after ``RemoteProtocolError``.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self.fault = ProblemError("malformed-request", f"This is not HTTP/1.1. {_RESEND}")
        self._num_chunks = 0

    def next_event(self) -> Any:
        """Return what h11 finds next.

        Raises:
            RemoteProtocolError: of h11, or because the head or the chunks are refused.
        """
        if self.their_state is h11.IDLE:
            self._num_chunks = 0
            self._check_head(self.trailing_data[0])
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:
                self.fault = _too_large()
            raise
        if isinstance(event, h11.Request):
            return _in_origin_form(event)
        if isinstance(event, h11.Data):
            self._num_chunks += bool(event.chunk_start)
            if self._num_chunks > MAX_CHUNKS:
                self._refuse(f"The body has more than {MAX_CHUNKS:,} chunks. Send larger ones.")
        return event

    def _check_head(self, received: bytes) -> None:
        head, end, _ = received.partition(_END_OF_HEAD)
        if len(head) > MAX_HEAD_BYTES or head.count(b"\r\n") > MAX_HEADERS:
            self.fault = _too_large()
            raise h11.RemoteProtocolError("the head is too large", 431)
        if _LONE_LINE_BREAK.search(head):
            self._refuse(f"A line of the head ends with CR or LF alone. End each line with CRLF. {_RESEND}")
        if not end:
            return
        if _FOLDED_LINE.search(head):
            self._refuse(f"A header is folded over two lines. Write each header on one line. {_RESEND}")
        lengths, num_encodings = _LENGTH.findall(head), len(_ENCODING.findall(head))
        if lengths and num_encodings:
            self._refuse(f"The request has both Content-Length and Transfer-Encoding. Send one of them. {_RESEND}")
        if len(lengths) > 1:
            self._refuse(f"The request has Content-Length {len(lengths)} times. Send it once. {_RESEND}")
        if lengths and not lengths[0].isdigit():
            self._refuse(f"The Content-Length is no number of bytes. {_RESEND}")
        if num_encodings and not head.partition(b"\r\n")[0].endswith(b"HTTP/1.1"):
            self._refuse(f"Transfer-Encoding needs HTTP/1.1. {_RESEND}")

    def _refuse(self, detail: str) -> None:
        self.fault = ProblemError("malformed-request", detail)
        raise h11.RemoteProtocolError(detail)


def _in_origin_form(request: h11.Request) -> h11.Request:
    """The request with a path as its target; where that was a whole address, its host is the request's (RFC 9112)."""
    found = _ABSOLUTE.fullmatch(request.target)
    if found is None:
        return request
    rest = found["rest"] if found["rest"].startswith(b"/") else b"/" + found["rest"]
    headers = [(name, found["host"] if name == b"host" else value) for name, value in request.headers]
    if not any(name == b"host" for name, _ in headers):  # of HTTP/1.0
        headers.append((b"host", found["host"]))
    return h11.Request(method=request.method, target=rest, headers=headers, http_version=request.http_version)


def _too_large() -> ProblemError:
    detail = f"A head has at most {MAX_HEAD_BYTES:,} bytes and {MAX_HEADERS} headers. Send fewer or shorter headers."
    return ProblemError("head-too-large", detail)


class Stage(IntEnum):
    """Progress of a connection. Where room is needed, the oldest connection of the lowest stage is closed."""

    LINGERING = 0  # answered for the last time
    SILENT = 1  # has never sent anything
    HEAD = 2  # amid the head of a request
    IDLE = 3  # answered, and kept for the next request
    BODY = 4  # amid the body of a request
    BUSY = 5  # its request was read: it is answered, never closed


class SeldomLog:
    """A warning at most once a minute, with the number of events since the last one."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._written_at: dict[str, float] = {}

    def warn(self, event: str, **details: object) -> None:
        """Count an event; write it if the last line about it is a minute old."""
        now = time.monotonic()
        self._counts[event] = self._counts.get(event, 0) + 1
        if now - self._written_at.get(event, -SECONDS_BETWEEN_LINES) >= SECONDS_BETWEEN_LINES:
            self._written_at[event] = now
            EVENTS.warning(event, extra={"details": {"times": self._counts.pop(event), **details}})


class ConnectionLimit:
    """All connections of a server by their stage, oldest first.

    Args:
        settings: deadlines.
        metrics: told how many connections there are, and why some were closed.
        process: says whether the server stops.
        max_connections: more are never open.
    """

    def __init__(
        self, settings: ServerSettings, metrics: Metrics, process: ProcessState, *, max_connections: int
    ) -> None:
        self.settings, self.metrics, self.process, self.max_connections = settings, metrics, process, max_connections
        self.log = SeldomLog()
        self._by_stage: dict[Stage, dict[Connection, None]] = {stage: {} for stage in Stage}
        metrics.connections.set_function(lambda: self.size)

    @property
    def size(self) -> int:
        """Number of open connections."""
        return sum(map(len, self._by_stage.values()))

    def enter(self, connection: "Connection", stage: Stage) -> None:
        """Note the stage of a connection as its newest."""
        self.leave(connection)
        connection.stage = stage
        self._by_stage[stage][connection] = None

    def leave(self, connection: "Connection") -> None:
        """Forget a connection."""
        self._by_stage[connection.stage].pop(connection, None)

    def has_room(self, *, num_coming: int = 0) -> bool:
        """Return whether one more connection may be open beside these and ``num_coming`` that were just accepted."""
        return self.size + num_coming < self.max_connections

    def make_room(self) -> bool:
        """Return whether one more connection may be open, after closing one that waits if need be."""
        return self.has_room() or self.close_waiting("limit")

    def close_waiting(self, reason: str) -> bool:
        """Close the connection that is missed least; False where each one has a request that was read."""
        found = next((each for each in self._waiting() if each.is_quiet), None) or next(self._waiting(), None)
        if found is not None:
            found.drop(reason)
        return found is not None

    def _waiting(self) -> Iterator["Connection"]:
        for stage in Stage:
            if stage is not Stage.BUSY:
                yield from self._by_stage[stage]

    def note_closed(self, reason: str) -> None:
        """Count a connection that the server closed."""
        self.metrics.closed_connections.labels(reason).inc()
        if reason in ("limit", "descriptors", "refused"):
            self.log.warn("too many connections", reason=reason, max_connections=self.max_connections)


class LingeringTransport:
    """A transport whose ``close`` sends what is left and then waits for the client to close.

    After ``hold`` what is written next waits for what follows it: head and body of an answer are one write.
    """

    def __init__(self, inner: asyncio.Transport, connection: "Connection") -> None:
        self._inner, self._connection, self._is_closed = inner, connection, False
        self._is_held, self._held = False, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def is_closing(self) -> bool:
        """Return whether nothing more is sent."""
        return self._is_closed or self._inner.is_closing()

    def hold(self) -> None:
        """Let the next write wait for the one after it, or for the end."""
        self._is_held = True

    def write(self, data: bytes) -> None:
        """Send, unless the connection is closed."""
        if self.is_closing():
            return
        if self._is_held:
            self._is_held, self._held = False, data
            return
        self._inner.write(self._held + data)
        self._held = b""

    def close(self) -> None:
        """Send the end of the stream, and close once the client has done so or a deadline passes."""
        if self.is_closing():
            return
        self._is_held = False
        if self._held:
            self.write(b"")
        self._is_closed = True
        try:
            self._inner.write_eof()
        except OSError:  # the client is gone
            self._inner.abort()
            return
        self._inner.resume_reading()
        self._connection.linger()


class Connection(H11Protocol):
    """uvicorn's connection with strict parsing, deadlines and a place in the ``ConnectionLimit``.

    Args:
        limit: shared by all connections of the server.
        given: what uvicorn gives its connections.

    Relation to its siblings:
        ``middleware.py`` sees requests, this class sees what comes before one and between two.
    """

    def __init__(self, *, limit: ConnectionLimit, **given: Any) -> None:
        super().__init__(**given)
        self.stage = Stage.SILENT
        self.logger = _PROTOCOL_LOG
        self.access_log = False
        self.conn: StrictConnection = StrictConnection()  # pyright: ignore[reportIncompatibleVariableOverride]
        self.timeout_keep_alive = limit.settings.idle_seconds  # pyright: ignore[reportAttributeAccessIssue]
        self._limit = limit
        self._inner: asyncio.Transport | None = None
        self._inner_app = self.app
        self.app = self._answered  # pyright: ignore[reportAttributeAccessIssue]
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._linger_until = 0.0

    # What asyncio calls

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        self._inner = transport
        super().connection_made(cast(Any, LingeringTransport(transport, self)))
        self._enter(Stage.SILENT)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._limit.leave(self)
        self._clear_deadlines()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Read a piece of a request; drop it if the last answer was given."""
        if self.stage is not Stage.LINGERING:
            super().data_received(data)

    def pause_writing(self) -> None:
        """Give a client that takes nothing of its answer a deadline."""
        super().pause_writing()
        self._write_deadline = self.loop.call_later(SECONDS_TO_TAKE_AN_ANSWER, self.drop, "answer not taken")

    def resume_writing(self) -> None:
        """Go on: the client takes its answer."""
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None
        super().resume_writing()

    # What uvicorn calls

    def handle_events(self) -> None:
        """Take apart what was received, then see how far the connection has come."""
        super().handle_events()
        self._enter(self._stage_now())

    def on_response_complete(self) -> None:
        """Wait for the next request, or take apart what came of it already."""
        super().on_response_complete()
        if self.stage is not Stage.LINGERING:
            self._enter(self._stage_now())

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that has been idle for too long."""
        if self.stage is Stage.IDLE and not self._has_unread_data():
            self._limit.note_closed("idle")
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, and close."""
        self.refuse(self.conn.fault)

    def shutdown(self) -> None:
        """Close at the end of a server's grace, unless a request is read or is about to be."""
        if self.stage in (Stage.BODY, Stage.BUSY):
            self.cycle.keep_alive = False
        elif not self._has_unread_data():
            self.transport.close()

    # What the limit and the transport call

    @property
    def is_quiet(self) -> bool:
        """Return True if the client has taken its answers and nothing that it sent is about to be read."""
        return self._inner is None or not (self._inner.get_write_buffer_size() or self._has_unread_data())

    def drop(self, reason: str) -> None:
        """Close at once, whatever is underway."""
        self._limit.note_closed(reason)
        self._limit.leave(self)
        if self._inner is not None:
            self._inner.abort()

    def refuse(self, problem: ProblemError) -> None:
        """Answer with a problem from outside of the app, and close."""
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        if cycle is not None and not cycle.response_complete:
            has_begun = cycle.response_started
            cycle.disconnected = True
            cycle.message_event.set()
            if has_begun:
                self.drop(problem.kind)
                return
        record = RequestRecord(new_request_id())
        self.transport.write(raw_response(problem, record.request_id))
        self._limit.metrics.requests.labels(UNMATCHED, "other", str(problem.status)).inc()
        details = {"request_id": record.request_id, "method": "other", "route": UNMATCHED, "status": problem.status}
        REQUESTS.info("request", extra={"details": {**details, "problem": problem.kind}})
        self.transport.close()

    def linger(self) -> None:
        """Wait for the client to close."""
        self._linger_until = self.loop.time() + SECONDS_TO_TAKE_AN_ANSWER
        self._enter(Stage.LINGERING)

    # Inside

    async def _answered(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the app; its answer says ``Connection: close`` where the connection ends with it."""
        cycle = self.cycle

        async def closing(message: Any) -> None:
            if message["type"] == "http.response.start":
                # After an answer to half a request, what follows on the connection is no request.
                if self._limit.process.is_stopping or cycle.more_body:
                    message["headers"] = [*message.get("headers", []), CLOSE_HEADER]
                if cycle is self.cycle:
                    cast(Any, self.transport).hold()
            await send(message)

        await self._inner_app(scope, receive, closing)

    def _stage_now(self) -> Stage:
        if self.transport.is_closing():
            return Stage.LINGERING
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        if cycle is not None and not cycle.response_complete:
            return Stage.BODY if cycle.more_body else Stage.BUSY
        if self.conn.trailing_data[0]:
            return Stage.HEAD
        return Stage.SILENT if cycle is None else Stage.IDLE

    def _enter(self, stage: Stage) -> None:
        """Note the stage; each one but IDLE and BUSY, which have their own, has a deadline from its beginning."""
        if self._inner is None or self._inner.is_closing() or (stage is self.stage and self._deadline is not None):
            return
        # The deadline of a head runs from the opening of the connection, or from its own first byte.
        goes_on = stage is Stage.HEAD and self.stage is Stage.SILENT and self._deadline is not None
        self._limit.enter(self, stage)
        if goes_on:
            return
        self._clear_deadline()
        settings = self._limit.settings
        if stage in (Stage.SILENT, Stage.HEAD):
            self._deadline = self.loop.call_later(settings.header_seconds, self._head_is_late)
        elif stage is Stage.BODY:
            # The route answers 408 before; this is for a body that no route reads.
            self._deadline = self.loop.call_later(settings.deadline_seconds + 1, self.drop, "body deadline")
        elif stage is Stage.LINGERING:
            self._deadline = self.loop.call_later(SECONDS_TO_LINGER, self._end_lingering)

    def _head_is_late(self) -> None:
        if self.stage is Stage.SILENT and self._has_unread_data():  # to be read now, and late soon
            self._deadline = self.loop.call_later(1, self._head_is_late)
            return
        self._limit.note_closed("header deadline")
        if self.stage is Stage.SILENT:
            self.transport.close()
        else:
            detail = f"The head of the request was not there after {self._limit.settings.header_seconds:g} seconds."
            self.refuse(ProblemError("slow-body", f"{detail} Try again."))

    def _end_lingering(self) -> None:
        assert self._inner is not None
        if self._inner.get_write_buffer_size() and self.loop.time() < self._linger_until:
            self._deadline = self.loop.call_later(SECONDS_TO_LINGER, self._end_lingering)
        else:
            self._inner.abort()

    def _has_unread_data(self) -> bool:
        """Return whether the system has received bytes, or the end of the stream, that were not read yet."""
        assert self._inner is not None
        if self._inner.is_closing():
            return False
        descriptor = self._inner.get_extra_info("socket").fileno()
        if descriptor < 0:
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _clear_deadlines(self) -> None:
        self._clear_deadline()
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None


def raw_response(problem: ProblemError, request_id: str) -> bytes:
    """Return a whole HTTP/1.1 answer that closes its connection."""
    response = problem.response(request_id)
    headers = [*response.raw_headers, *SAFE_HEADERS, (b"x-request-id", request_id.encode()), CLOSE_HEADER]
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode(), *map(b": ".join, headers)]
    return b"\r\n".join([*lines, b"", bytes(response.body)])
