"""Plain requests go past the framework's routes and get the same answers; all others take the framework's way."""

import asyncio
import json
from typing import Any

import pytest
from fastapi import Response

from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings
from contextual_bert.server.completion import COMPLETE
from contextual_bert.server.direct_answers import DirectAnswers

QUERY = {"items": ["hat", "[MASK]"], "context": {"age": 34}}
LIMITS = {"top_k": 100, "deadline_milliseconds": 5000}
# A part without a name means nothing to the framework, and is nothing plain.
BY_THE_FRAMEWORK = "&"


def taken(scope: dict[str, Any], *, key: str | None = None) -> Any:
    """The parameters that were read, or None if the request was passed on."""
    seen: list[Any] = []

    async def answer(_: Any, **parameters: int) -> Response:
        seen.append(parameters)
        return Response()

    async def otherwise(*_: Any) -> None:
        seen.append(None)

    async def send(_: Any) -> None:
        pass

    direct = DirectAnswers(otherwise, path=COMPLETE, answer=answer, limits=LIMITS, settings=ServerSettings(api_key=key))
    usual = {"type": "http", "method": "POST", "path": "/v1/complete", "query_string": b"", "headers": []}
    asyncio.run(direct(usual | scope, otherwise, send))  # pyright: ignore[reportArgumentType]
    assert len(seen) == 1
    return seen[0]


@pytest.mark.parametrize(
    ("address", "parameters"),
    [
        (b"", {}),
        (b"top_k=3", {"top_k": 3}),
        (b"deadline_milliseconds=200&top_k=100", {"top_k": 100, "deadline_milliseconds": 200}),
    ],
)
def test_plain_requests_go_the_short_way(address: bytes, parameters: dict[str, int]) -> None:
    assert taken({"query_string": address}) == parameters


@pytest.mark.parametrize(
    "scope",
    [
        {"query_string": b"top_k=101"},
        {"query_string": b"top_k=0"},
        {"query_string": b"top_k=+3"},
        {"query_string": b"top_k=3&top_k=3"},
        {"query_string": b"topk=3"},
        {"query_string": b"&"},
        {"method": "GET"},
        {"path": "/v1/similar"},
        {"path": "/v1/complete/"},
        {"root_path": "/shop"},
        {"type": "websocket"},
    ],
)
def test_all_others_go_the_frameworks_way(scope: dict[str, Any]) -> None:
    assert taken(scope) is None


def test_without_its_key_no_request_goes_the_short_way(tools: Any) -> None:
    name, key = b"x-api-key", tools.key.encode()
    assert taken({"headers": [(name, key)]}, key=tools.key) == {}
    for headers in ([], [(name, b"another")], [(name, key), (name, key)]):
        assert taken({"headers": headers}, key=tools.key) is None


@pytest.mark.parametrize(
    "body", [QUERY, [QUERY, {"items": []}], [], {"items": ["hat"], "colour": 1}, {"items": 3}, "text", b"{", b""]
)
def test_both_ways_answer_alike(tools: Any, pipeline: CompletionPipeline, body: Any) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def run() -> None:
        headers = {"X-Request-ID": "one"}
        async with tools.served(tools.app(pipeline)) as client:
            direct = await client.post("/v1/complete?top_k=3", content=content, headers=headers)
            routed = await client.post(f"/v1/complete?top_k=3{BY_THE_FRAMEWORK}", content=content, headers=headers)
            metrics = (await client.get("/metrics")).text
        assert direct.status_code == routed.status_code
        assert tools.same(direct.json(), routed.json())
        assert direct.headers == routed.headers
        line = f'requests_total{{method="POST",route="/v1/complete",status="{direct.status_code}"}} 2.0'
        assert line in metrics

    asyncio.run(run())


def test_a_middleware_of_the_callers_own_sees_every_request(tools: Any, pipeline: CompletionPipeline) -> None:
    seen: list[str] = []

    class Watching:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope["path"])
            await self.app(scope, receive, send)

    async def run() -> None:
        app = tools.app(pipeline)
        app.add_middleware(Watching)
        async with tools.served(app) as client:
            assert (await client.post("/v1/complete", json=QUERY)).status_code == 200

    asyncio.run(run())
    assert seen == ["/v1/complete"]
