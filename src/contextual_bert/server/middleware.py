"""Around every request: its id, its size, its time, its line in the log, and a problem document for whatever escapes.

Plain ASGI, so that a body is counted while it arrives. It knows no route.
"""

import random
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from contextual_bert.server.logs import EVENTS, REQUESTS, RequestRecord
from contextual_bert.server.origins import OriginCheck
from contextual_bert.server.problems import ProblemError
from contextual_bert.server.process import ProcessState
from contextual_bert.server.prometheus import Metrics
from contextual_bert.server.settings import ServerSettings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
RECORD = "contextual_bert.record"
UNMATCHED, GONE = "unmatched", 499
# No answer is kept by a cache or taken for another type by a browser. The page's files say something else.
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.:-]{1,64}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def new_request_id() -> str:
    """Return an id for a request that has none."""
    return f"{random.getrandbits(128):032x}"


class DisconnectedError(Exception):
    """The client went away, amid its request or waiting for the answer: nobody is there to answer."""


class RequestGuard:
    """The outermost layer of the app.

    Args:
        app: what is inside.
        settings: the largest body, hosts and origins.
        metrics: told about every request.
        process: says where the server is bound.
    """

    def __init__(
        self, app: Callable[..., Awaitable[None]], *, settings: ServerSettings, metrics: Metrics, process: ProcessState
    ) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._origins = OriginCheck(settings.allowed_hosts, settings.allowed_origins, process)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        record = RequestRecord(given.decode() if _REQUEST_ID.fullmatch(given) else new_request_id())
        scope[RECORD] = record
        status: list[int] = []

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
                about = {b"x-request-id": record.request_id, b"x-model-version": record.details.get("version")}
                added = [(name, str(value).encode()) for name, value in about.items() if value is not None]
                own = message.get("headers", [])
                present = {name for name, _ in own}
                message["headers"] = [*own, *(each for each in SAFE_HEADERS if each[0] not in present), *added]
            await send(message)

        try:
            await self._run(scope, headers, self._counted(headers, receive), answer)
        finally:
            self._note(scope, record, status[0] if status else GONE)

    async def _run(self, scope: Message, headers: dict[bytes, bytes], receive: Receive, answer: Send) -> None:
        record: RequestRecord = scope[RECORD]
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await answer(message)

        try:
            self._origins.check(scope, headers)
            await self.app(scope, receive, noted)
        except DisconnectedError:
            return
        except Exception as error:
            problem = (
                error
                if isinstance(error, ProblemError)
                else ProblemError("internal-error", "The server's log says more.")
            )
            if problem is not error:
                EVENTS.exception("a request failed", extra={"details": {"request_id": record.request_id}})
            if not has_begun:
                await problem.response(record.request_id)(scope, receive, answer)

    def _counted(self, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        """``receive``, which raises as soon as a body is too large; at once where its length says so."""
        limit, seen = self.settings.max_body_bytes, 0
        length = headers.get(b"content-length", b"0")
        announced = int(length[:20]) if length.isdigit() else 0
        is_whole = False

        async def counted() -> Message:
            nonlocal seen, is_whole
            if announced > limit:
                raise _too_large(limit)
            message = await receive()
            if message["type"] == "http.disconnect" and not is_whole:
                raise DisconnectedError
            is_whole = not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
            return message

        return counted

    def _note(self, scope: Message, record: RequestRecord, status: int) -> None:
        seconds = record.seconds
        matched: tuple[Any, ...] = (scope.get("route"), scope.get("endpoint"))  # static files: an app, no route
        route = next((each.path for each in matched if hasattr(each, "path")), UNMATCHED)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self.metrics.requests.labels(route, method, str(status)).inc()
        self.metrics.request_seconds.labels(route).observe(seconds)
        details = {
            "request_id": record.request_id,
            "method": method,
            "route": route,
            "status": status,
            "milliseconds": round(1000 * seconds, 3),
            **record.details,
        }
        REQUESTS.info("request", extra={"details": details})


def _too_large(limit: int) -> ProblemError:
    return ProblemError("body-too-large", f"A request has at most {limit:,} bytes. Send fewer queries at once.")
