"""A short way for the plain requests that are asked most, past the framework's routes and dependencies.

Matching a route, making its dependencies and reading its parameters cost more than all else that a request needs of
the event loop. The answer is the same: everything unusual goes the framework's way.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from contextual_bert.server.keys import HEADER
from contextual_bert.server.middleware import Message, Receive, Send
from contextual_bert.server.settings import ServerSettings

_HEADER = HEADER.lower().encode()
_PARAMETER = re.compile(rb"(top_k|deadline_milliseconds)=([1-9][0-9]{0,8})")


@dataclass(frozen=True)
class MatchedRoute:
    """The route of a request, as metrics and log name it."""

    path: str


class DirectAnswers:
    """Middleware that answers plain requests to one address itself.

    A request is plain if its method is POST, it has the key where there is one, and its address has nothing but
    parameters within their limits, ``top_k`` and ``deadline_milliseconds``.

    Args:
        app: what answers all other requests.
        path: of the address.
        answer: gives the answer from a request and the parameters of its address.
        limits: parameter -> the highest number that it may have.
        settings: has the key.
    """

    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        *,
        path: str,
        answer: Callable[..., Awaitable[Response]],
        limits: dict[str, int],
        settings: ServerSettings,
    ) -> None:
        self.app, self._path, self._answer, self._limits = app, path, answer, limits
        self._key = settings.api_key.encode() if settings.api_key is not None else None
        self._route = MatchedRoute(path)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        parameters = self._parameters(scope) if scope["type"] == "http" and scope["path"] == self._path else None
        if parameters is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = self._route
        response = await self._answer(Request(scope, receive), **parameters)
        await response(scope, receive, send)

    def _parameters(self, scope: Message) -> dict[str, int] | None:
        """Return the parameters of the address, None where the request is not plain."""
        if scope["method"] != "POST" or scope.get("root_path") or not self._has_key(scope["headers"]):
            return None
        found: dict[str, int] = {}
        given: bytes = scope["query_string"]
        for part in given.split(b"&") if given else ():
            match = _PARAMETER.fullmatch(part)
            name, value = (match[1].decode(), int(match[2])) if match is not None else ("", 0)
            if name in found or not 0 < value <= self._limits.get(name, 0):
                return None
            found[name] = value
        return found

    def _has_key(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        if self._key is None:
            return True
        given: Any = [value for name, value in headers if name == _HEADER]
        return len(given) == 1 and secrets.compare_digest(given[0], self._key)
