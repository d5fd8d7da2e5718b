"""The body of a request as JSON, within the limits of the server; what is too much is refused before it is computed.

What a query may say is for the pipeline to check; here are only shape and size.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from fastapi import Request

from contextual_bert.errors import ConfigurationError, Key, QueryError
from contextual_bert.inference.queries import MASK, QUERY
from contextual_bert.inference.queries import Request as ReadQuery
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
ONE_QUERY = 'Give {"items": [...], "context": {...}}, one query.'


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
    too_many = ProblemError(
        "body-too-large", f"The body has more than {most:,} values. Send fewer queries or shorter lists."
    )
    # Cheap bounds first. A value has at most a key and itself between quotation marks.
    if body.count(b'"') > 8 * most and body.count(b'"') - body.count(b'\\"') > 4 * most:
        raise too_many
    bare = _STRING.sub(b"", body)
    if sum(map(bare.count, (b",", b"[", b"{"))) > most:
        raise too_many
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


def queries_of(content: Any, settings: ServerSettings) -> list[dict[str, Any]]:
    """Return the queries of a body, which is one or a list of them.

    Raises:
        ProblemError, QueryError: something else, or more than the limits allow.
    """
    queries = cast("list[Any]", content if isinstance(content, list) else [content])
    if len(queries) > settings.max_queries:
        limit = f"Send at most {settings.max_queries} queries at once."
        raise ProblemError("invalid-query", f"The list has {len(queries)} queries. {limit}")
    for row, query in enumerate(queries):
        if not isinstance(query, dict):
            raise QueryError("it is not a query", location=(row,), value=query, fix=QUERY)
        check_lengths(cast("dict[str, Any]", query), settings, row=row)
    num_conditions = sum(_num_conditions(query.get("where")) for query in queries)
    if num_conditions > settings.max_all_conditions:
        limit = f"Send fewer queries at once: all together have at most {settings.max_all_conditions:,}."
        raise ProblemError("invalid-query", f"The queries have {num_conditions:,} conditions in where. {limit}")
    return queries


def _num_conditions(where: Any) -> int:
    """Return how many conditions a ``where`` has; one that is no list is one or has the short form."""
    if where is None:
        return 0
    if isinstance(where, list):
        return len(cast("list[Any]", where))
    return len(cast("dict[str, Any]", where)) if isinstance(where, dict) and "attribute" not in where else 1


def check_lengths(query: Mapping[str, Any], settings: ServerSettings, *, row: int) -> None:
    """Raise QueryError unless a query has few items, conditions and attributes; other faults are not looked for.

    Args:
        query: as it came.
        settings: how many of each it may have.
        row: the number of the query.
    """
    limits = (
        ("items", settings.max_set_length, "the set has {num} items"),
        ("where", settings.max_conditions, "it has {num} conditions"),
        ("at_most_one_per", settings.max_one_per, "it has {num} attributes"),
    )
    for key, most, problem in limits:
        value: Any = query.get(key)
        has_short_form = key == "where" and isinstance(value, dict) and "attribute" not in value  # {attribute: test}
        if (isinstance(value, list) or has_short_form) and (num := len(cast("list[Any]", value))) > most:
            raise QueryError(problem.format(num=num), location=(row, key), fix=f"Give at most {most}.")
    for key, most in (("where", settings.max_values), ("context", settings.max_context_values)):
        for keys, num in _lengths(query.get(key), ()):
            if num > most:
                raise QueryError(f"the list has {num} values", location=(row, key, *keys), fix=f"Give at most {most}.")


def _lengths(value: Any, keys: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], int]]:
    """Yield the keys of each list in a value, and how many of its values are no lists and records themselves."""
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield from _lengths(each, (*keys, key))
    elif isinstance(value, list):
        values = cast("list[Any]", value)
        num_inner = 0
        for number, each in enumerate(values):
            if isinstance(each, dict | list):
                num_inner += 1
                yield from _lengths(each, (*keys, number))
        yield keys, len(values) - num_inner


def query_of(content: Any) -> Any:
    """The body itself if it may be a query.

    Raises:
        QueryError: it is a list of them, or something else.
    """
    if not isinstance(content, dict):
        problem = "it is a list of queries" if isinstance(content, list) else "it is not a query"
        raise QueryError(problem, value=content, fix=ONE_QUERY)
    return content


def check_top_k(top_k: int, queries: Sequence[ReadQuery], settings: ServerSettings) -> None:
    """Raise ConfigurationError where more proposals are asked for than the limit, of a query that does not list them.

    All items of an ``allow`` list may be ranked: a shop that asks about 500 items wants an answer about each.
    """
    allowed = [len(query.settings.get("allow", {}).get("allow", ())) for query in queries]
    if top_k > settings.max_top_k and min(allowed, default=0) < top_k:
        fix = f"Give at most {settings.max_top_k}, or in allow as many items as are to be ranked."
        raise ConfigurationError(f"is more than {settings.max_top_k}", setting="top_k", value=top_k, fix=fix)


def check_blanks(query: ReadQuery, settings: ServerSettings, *, row: int) -> None:
    """Raise QueryError unless a query has few [MASK]; an item that is not locked counts as one.

    Args:
        query: as it was read.
        settings: how many it may have.
        row: the number of the query.
    """
    if (num_blanks := query.items.count(MASK)) <= settings.max_blanks:
        return
    key = "locked" if query.replaced else "items"
    problem = f"the set has {num_blanks} {MASK}" + (" with the items that are not locked" if query.replaced else "")
    raise QueryError(problem, location=(row, key), fix=f"Give at most {settings.max_blanks}.")
