"""A body that would keep others waiting is refused by its size and depth, before its content is looked at."""

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings, requests
from contextual_bert.server.problems import ProblemError

LARGEST = (1 << 20) - 100


def filled(head: str, unit: str, tail: str) -> bytes:
    count = (LARGEST - len(head) - len(tail)) // len(unit)
    return ((head + unit * count).rstrip(",") + tail).encode()


HEAVY = {
    "lists": filled('{"items": [', "[],", "]}"),
    "records": filled('{"items": [', "{},", "]}"),
    "texts": filled('{"items": [], "allow": [', '"a",', "]}"),
    "numbers": filled('{"items": [], "deny": [', "1e308,", "]}"),
    "short numbers": filled('{"items": [], "deny": [', "1,", "]}"),
    "depth": b"[" * LARGEST,
    "depth of records": b'{"a":' * (LARGEST // 5),
    "many depths": filled('{"items": [', "[" * 400 + "]" * 400 + ",", "]}"),
    "depth in a context": b'{"context": {"gender": ' + b"[" * 900 + b"]" * 900 + b"}}",
    "long numbers": filled('{"items": [', "9" * 4299 + ",", "]}"),
    "5,000 digits": b'{"max_price": ' + b"9" * 5000 + b"}",
    "a long fraction": b'{"max_price": 0.' + b"9" * (LARGEST - 100) + b"}",
    "keys": ("{" + ",".join(f'"k{number:x}":1' for number in range(80_000)) + "}").encode(),
    "equal keys": filled('{"items": [],', '"items": [],', '"max_price": 1}'),
    "quotation marks without an end": b'{"items": ["' + b'\\"' * (LARGEST // 2 - 100),
    "quotation marks": b'"' * LARGEST,
    "backslashes without an end": b'{"items": ["' + b"\\" * (LARGEST - 100),
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_body_is_refused_before_it_is_taken_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[object] = []
    monkeypatch.setattr(requests.json, "loads", lambda *given, **_: looked_at.append(given) or {})
    started = time.process_time()
    try:
        requests.parse_body(HEAVY[name], ServerSettings())
    except ProblemError as problem:
        assert problem.kind in ("body-too-large", "malformed-request")
        assert looked_at == []
    else:  # one short text of JSON is taken apart fast, whatever is in it
        assert name in ("quotation marks without an end", "backslashes without an end")
    assert time.process_time() - started < 0.6


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_body_gets_an_answer_soon(tools: Any, pipeline: CompletionPipeline, name: str) -> None:
    async def run() -> tuple[int, float]:
        async with tools.served(tools.app(pipeline)) as client:
            await client.post("/v1/complete", json={})
            started = time.process_time()
            response = await client.post("/v1/complete", content=HEAVY[name])
            return response.status_code, time.process_time() - started

    status, seconds = asyncio.run(run())
    assert status in (400, 413)
    assert seconds < 1


def test_what_a_shop_sends_passes(tools: Any, pipeline: CompletionPipeline) -> None:
    allowed = [f"coat-{number}" for number in range(500)]
    queries = [{"items": ["hat", "[MASK]"], "context": {"age": 3}, "allow": ["hat", *allowed]} for _ in range(64)]

    async def run() -> list[int]:
        async with tools.served(tools.app(pipeline, settings=ServerSettings(deadline_seconds=60))) as client:
            texts = [json.dumps(queries), '{"items": ["' + '[{,\\"' * 60_000 + '"]}', " " * 900_000 + "{}"]
            return [(await client.post("/v1/complete", content=text)).status_code for text in texts]

    assert asyncio.run(run()) == [200] * 3


def test_a_key_that_stands_twice_is_refused(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> list[Any]:
        async with tools.served(tools.app(pipeline)) as client:
            return [
                await client.post("/v1/complete", content=text)
                for text in ('{"items": ["hat"], "items": ["bag"]}', '{"context": {"age": 3, "age": 70}}')
            ]

    for response, key in zip(asyncio.run(run()), ("items", "age"), strict=True):
        assert response.status_code == 400
        assert f"The key '{key}' stands twice" in response.json()["detail"]


def test_conditions_are_counted_over_all_queries(tools: Any, pipeline: CompletionPipeline) -> None:
    price = {"attribute": "price", "at_least": 0}
    settings = ServerSettings(max_conditions=4, max_all_conditions=6)

    async def run() -> list[int]:
        async with tools.served(tools.app(pipeline, settings=settings)) as client:
            bodies = ([{"where": [price] * 3}] * 2, [{"where": [price] * 4}, {"where": [price] * 3}])
            return [(await client.post("/v1/complete", json=body)).status_code for body in bodies]

    assert asyncio.run(run()) == [200, 422]


def test_a_large_body_is_read_beside_the_loop() -> None:
    async def run() -> list[str]:
        return [
            await requests.beside_the_loop(body, lambda: threading.current_thread().name)
            for body in (b"{}", b" " * 100_000, b" " * 200_000)
        ]

    small, large, other = asyncio.run(run())
    assert small == threading.current_thread().name
    assert large == other != small
