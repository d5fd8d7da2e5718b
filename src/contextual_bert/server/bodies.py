"""The body of a request as JSON, within the limits of the server; what is too much is refused before it is computed.

Here are only size and form. What a query may say is for its model, see ``protocol``.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import numpy as np
from fastapi import Request

from contextual_bert.server.problems import ProblemError
from contextual_bert.server.settings import ServerSettings

SEE = "What it may be is in /openapi.json."
_LARGE_BYTES = 16 * 1024
_MAX_DEPTH = 32  # a query in a list with conditions that have lists of values: 6
_MAX_DIGITS = 4000  # Python itself refuses whole numbers of more than 4,300
# The last quotation mark is optional: a text without an end would be looked for anew at each of its escaped ones.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_DIGITS = re.compile(rb"[0-9]{400,}")
_READER = ThreadPoolExecutor(1, thread_name_prefix="contextual-bert-reading")
Found = TypeVar("Found")


async def read_body(request: Request, *, timeout_seconds: float) -> bytes:
    """Return the body of a request.

    Raises:
        ProblemError: it says to be something else than JSON, or does not arrive in time.
    """
    given = request.headers.getlist("content-type")
    media_type = given[0].partition(";")[0].strip().lower() if len(given) == 1 else None
    if media_type != "application/json":
        # A form of another website can be sent without the browser asking first, JSON cannot.
        said = f"The body has the type {', '.join(given)!r:.80}." if given else "The request has no Content-Type."
        raise ProblemError("not-json", f"{said} Send the header Content-Type: application/json.")
    if (encoding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise ProblemError("not-json", f"The body has the Content-Encoding {encoding!r:.80}. Send it uncompressed.")
    try:
        async with asyncio.timeout(timeout_seconds):
            return await request.body()
    except TimeoutError:
        raise ProblemError(
            "slow-body", f"The body was not there after {timeout_seconds:g} seconds. Try again."
        ) from None


async def beside_the_loop(body: bytes, work: Callable[[], Found]) -> Found:
    """Return what ``work`` makes of a body; a large one does not stop the answers to others meanwhile.

    Large bodies are read one after the other, so that they share the time of one thread.
    """
    if len(body) < _LARGE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_READER, work)


def parse_json(body: bytes, settings: ServerSettings) -> Any:
    """Return the content of a body, whose size and depth are looked at before its content is.

    Raises:
        ProblemError: it is no JSON, or too much.
    """
    check_extent(body, settings)
    try:
        text = body.decode("utf-8")
        content = json.loads(text, parse_constant=_refuse, object_pairs_hook=_record)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(content, ensure_ascii=False).encode("utf-8")  # half a pair of surrogates is no character
    except UnicodeError:
        raise ProblemError(
            "malformed-request", "The body is not UTF-8, or names a character that does not exist."
        ) from None
    except ValueError as error:
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ProblemError("malformed-request", f"The body is not valid JSON{place}. {SEE}") from None
    return content


def check_extent(body: bytes, settings: ServerSettings) -> None:
    """Raise ProblemError unless what claims to be JSON is flat, and has few values and short numbers."""
    most = settings.max_json_values
    # Cheap bounds first. A value has at most a key and itself between quotation marks.
    if body.count(b'"') > 8 * most and body.count(b'"') - body.count(b'\\"') > 4 * most:
        raise _too_many_values(most)
    bare = _STRING.sub(b"", body)
    if sum(map(bare.count, (b",", b"[", b"{"))) > most:
        raise _too_many_values(most)
    characters = np.frombuffer(bare, np.uint8)
    opening = (characters == ord("[")) | (characters == ord("{"))
    closing = (characters == ord("]")) | (characters == ord("}"))
    depth = np.cumsum(opening.astype(np.int32) - closing.astype(np.int32)).max(initial=0)
    if depth > _MAX_DEPTH:
        raise ProblemError("malformed-request", f"The JSON is nested more than {_MAX_DEPTH} deep. {SEE}")
    if (digits := max(map(len, _DIGITS.findall(bare)), default=0)) > _MAX_DIGITS:
        raise ProblemError(
            "malformed-request", f"A number has {digits:,} digits. Allowed: {_MAX_DIGITS:,}. Send a shorter number."
        )


def _too_many_values(most: int) -> ProblemError:
    fix = "Send fewer queries or shorter lists."
    return ProblemError("body-too-large", f"The body has more than {most:,} values. {fix}")


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ProblemError(
            "malformed-request", f"The key {twice!r:.80} stands twice in one record. Give every key once."
        )
    return record


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
