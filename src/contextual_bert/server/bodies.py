"""The body of a request as JSON, within the limits of the server; what is too much is refused before it is computed.

What a query may say is for the pipeline to check; here are only shape and size.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

from fastapi import Request

from contextual_bert.inference.queries import MASK, QUERY
from contextual_bert.inference.queries import Request as ReadQuery
from contextual_bert.server.problems import ProblemError, invalid
from contextual_bert.server.settings import ServerSettings

SEE = "What it may be is in /openapi.json."
ONE_QUERY = 'Give {"items": [...], "context": {...}}, one query.'


async def read_json(request: Request, *, timeout_seconds: float) -> Any:
    """The body of a request.

    Raises:
        ProblemError: it is no JSON, or does not arrive in time.
    """
    media_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ProblemError("not-json", f"The body has the type {media_type!r:.80}. Send application/json.")
    try:
        async with asyncio.timeout(timeout_seconds):
            body = await request.body()
    except TimeoutError:
        raise ProblemError(
            "slow-body", f"The body was not there after {timeout_seconds:g} seconds. Try again."
        ) from None
    try:
        text = body.decode("utf-8")
        content = json.loads(text, parse_constant=_refuse)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(content, ensure_ascii=False).encode("utf-8")  # half a pair of surrogates is no character
    except RecursionError:
        raise ProblemError("malformed-request", "The JSON is nested too deeply.") from None
    except UnicodeError:
        raise ProblemError(
            "malformed-request", "The body is not UTF-8, or names a character that does not exist."
        ) from None
    except ValueError as error:
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ProblemError("malformed-request", f"The body is not valid JSON{place}. {SEE}") from None
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def queries_of(content: Any, settings: ServerSettings) -> tuple[list[dict[str, Any]], bool]:
    """The queries of a body, and whether it was a list of them.

    Raises:
        ProblemError: something else, or more than the limits allow.
    """
    is_list = isinstance(content, list)
    queries = cast("list[Any]", content if is_list else [content])
    if len(queries) > settings.max_queries:
        limit = f"Send at most {settings.max_queries} queries at once."
        raise ProblemError("invalid-query", f"The list has {len(queries)} queries. {limit}")
    for row, query in enumerate(queries):
        place = f"[{row}]" if is_list else ""
        if not isinstance(query, dict):
            raise invalid(place or "body", query, "it is not a query", allowed=QUERY)
        check_lengths(cast("dict[str, Any]", query), settings, place=place)
    return queries, is_list


def check_lengths(query: Mapping[str, Any], settings: ServerSettings, *, place: str = "") -> None:
    """Raise ProblemError unless a query has few items, conditions and attributes; other faults are not looked for.

    Args:
        query: as it came.
        settings: how many of each it may have.
        place: of the query in the body.
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
            field = f"{place}.{key}" if place else key
            raise invalid(field, value, problem.format(num=num), allowed=f"Give at most {most}.")
    for key, most in (("where", settings.max_values), ("context", settings.max_context_values)):
        longest = max(_lengths(query.get(key)), default=0)
        if longest > most:
            field = f"{place}.{key}" if place else key
            raise invalid(field, query[key], f"a list in it has {longest} values", allowed=f"Give at most {most}.")


def _lengths(value: Any) -> Iterator[int]:
    """How many values each list in a value has that are no lists and records themselves."""
    if isinstance(value, dict):
        for each in cast("dict[str, Any]", value).values():
            yield from _lengths(each)
    elif isinstance(value, list):
        values = cast("list[Any]", value)
        inner = [each for each in values if isinstance(each, dict | list)]
        for each in inner:
            yield from _lengths(each)
        yield len(values) - len(inner)


def query_of(content: Any) -> Any:
    """The body itself if it may be a query.

    Raises:
        ProblemError: it is a list of them, or something else.
    """
    if not isinstance(content, dict):
        problem = "it is a list of queries" if isinstance(content, list) else "it is not a query"
        raise invalid("body", content, problem, allowed=ONE_QUERY)
    return content


def check_top_k(top_k: int, queries: Sequence[Mapping[str, Any]], settings: ServerSettings) -> None:
    """Raise ProblemError where more proposals are asked for than the limit, of a query that does not list them.

    All items of an ``allow`` list may be ranked: a shop that asks about 500 items wants an answer about each.
    """
    allowed = [len(allow) if isinstance(allow := query.get("allow"), list) else 0 for query in queries]
    if top_k > settings.max_top_k and min(allowed, default=0) < top_k:
        fix = f"Give at most {settings.max_top_k}, or in allow as many items as are to be ranked."
        raise invalid("top_k", top_k, f"it is more than {settings.max_top_k}", allowed=fix)


def check_blanks(query: ReadQuery, settings: ServerSettings, *, place: str = "") -> None:
    """Raise ProblemError unless a query has few [MASK]; an item that is not locked counts as one.

    Args:
        query: as it was read.
        settings: how many it may have.
        place: of the query in the body.
    """
    if (num_blanks := query.items.count(MASK)) <= settings.max_blanks:
        return
    key = "locked" if query.replaced else "items"
    field = f"{place}.{key}" if place else key
    problem = f"the set has {num_blanks} {MASK}" + (" with the items that are not locked" if query.replaced else "")
    raise invalid(field, query.items, problem, allowed=f"Give at most {settings.max_blanks}.")
