"""h11's parser, made strict: what two servers could read as two different requests is refused.

h11 follows RFC 9112 where it allows a recipient to be lenient. A proxy that is lenient in another way would see another
request than this server does (request smuggling). The same holds for a body that is slow to take apart.
"""

import re
from typing import Any

import h11

from contextual_bert.server.problems import ProblemError

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
