"""What is wrong is said as a problem document: field, value, what is allowed, and nothing of the server's inside."""

import asyncio
import gc
import itertools
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from contextual_bert.errors import Message, QueryError
from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings
from contextual_bert.server.problems import KINDS, problem_of
from contextual_bert.server.protocol import QueryReader

SMALL = ServerSettings(max_body_bytes=2000, max_queries=3, max_set_length=4, max_blanks=2, max_top_k=7)
FAULTS: list[tuple[Any, int, str | None]] = [
    ({"items": "hat"}, 422, "/items"),
    ({"items": [["hat"]]}, 422, "/items/0"),
    ({"itmes": []}, 422, "/itmes"),
    ([{"items": []}, {"items": [], "max_price": -1}], 422, "/1/max_price"),
    ([{"items": []}, {"items": [], "context": {"age": "old"}}], 422, "/1/context/age"),
    ({"context": {"agee": 3}}, 422, "/context/agee"),
    ({"context": {"date": "yesterday"}}, 422, "/context/date"),
    ({"context": {"brands": 3}}, 422, "/context/brands"),
    ({"context": []}, 200, None),
    ({"context": [1]}, 422, "/context"),
    ({"where": [{"attribute": "price", "at_most": "cheap"}]}, 422, "/where/0/at_most"),
    ({"where": [{"attribute": "colour", "equals": "red"}]}, 422, "/where/0/attribute"),
    ({"where": [{"attribute": "category", "equals": "hat", "blank": 3}]}, 422, "/where/0/blank"),
    ({"at_most_one_per": ["category", "colour"]}, 422, "/at_most_one_per/1"),
    ({"budget_includes_visible": True}, 422, "/budget_includes_visible"),
    (7, 422, ""),
    ("hat", 422, ""),
    ([[]], 422, "/0"),
    ([{}] * 4, 422, None),
    ({"items": ["hat"] * 5}, 422, "/items"),
    ([{"items": ["[MASK]"] * 3}], 422, "/0/items"),
]


def check_document(response: Any) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    kind = document["type"].rpartition(":")[2]
    assert document["status"] == response.status_code == KINDS[kind][0]
    assert document["title"] and document["detail"]
    assert document["request_id"] == response.headers["x-request-id"]
    for word in ("Traceback", 'File "', ".py", str(Path.home()), "site-packages", "/src/"):
        assert word not in response.text
    return document


async def post(tools: Any, pipeline: Any, requests: list[dict[str, Any]], **settings: Any) -> list[Any]:
    async with tools.served(tools.app(pipeline, **settings)) as client:
        return [await client.request(**{"method": "POST", "url": "/v1/complete", **each}) for each in requests]


def test_every_fault_of_a_query_is_named(tools: Any, pipeline: CompletionPipeline) -> None:
    responses = asyncio.run(post(tools, pipeline, [{"json": body} for body, _, _ in FAULTS], settings=SMALL))
    for (body, status, pointer), response in zip(FAULTS, responses, strict=True):
        assert response.status_code == status, body
        if status == 200:
            continue
        document = check_document(response)
        if pointer is not None:
            assert [each["pointer"] for each in document["errors"]] == [pointer], body


MISLEADING: list[tuple[dict[str, Any], str]] = [
    ({"items": ["coat", "[MASK]"], "customer's age": 3}, "/customer's age"),
    ({"items": ["coat", "[MASK]"], "max_price": 5, "attribute 'price'": 1}, "/attribute 'price'"),
    ({"items": ["coat", "[MASK]"], "no feature": 1, "context": {"agx": 1}}, "/no feature"),
    ({"items": ["coat", "[MASK]"], "unknown key 'a'. Did you mean ": 1}, "/unknown key 'a'. Did you mean "),
    ({"items": ["coat", "[MASK]"], "context": {"row 3: ": 1}}, "/context/row 3: "),
    ({"items": ["coat", "[MASK]"], "a/b~c": 1}, "/a~1b~0c"),
    ({"items": ["coat", "hat", ["[MASK]"]]}, "/items/2"),
    ({"items": [], "allow": ["coat", {}]}, "/allow/1"),
    ({"where": {"category": "hat", "price": {"at_most": "cheap"}}}, "/where/price/at_most"),
    ({"where": {"category": "hat", "colour": "red"}}, "/where/colour"),
    ({"where": {"attribute": "price", "at_most": "cheap"}}, "/where/at_most"),
    ({"at_most_one_per": "colour"}, "/at_most_one_per"),
    ({"at_most_one_per": ["category", "colour"]}, "/at_most_one_per/1"),
]


@pytest.mark.parametrize("is_list", [False, True])
def test_the_pointer_leads_to_the_faulty_value(tools: Any, pipeline: CompletionPipeline, is_list: bool) -> None:
    bodies: list[Any] = [[{"items": []}, query] if is_list else query for query, _ in MISLEADING]
    responses = asyncio.run(post(tools, pipeline, [{"json": body} for body in bodies]))
    for (query, pointer), response in zip(MISLEADING, responses, strict=True):
        (fault,) = check_document(response)["errors"]
        assert fault["pointer"] == f"/1{pointer}" * is_list + pointer * (not is_list), query
        assert "parameter" not in fault


def test_the_value_and_what_is_allowed_are_said(tools: Any, pipeline: CompletionPipeline) -> None:
    (response,) = asyncio.run(post(tools, pipeline, [{"json": {"context": {"age": "old"}}}]))
    (fault,) = response.json()["errors"]
    assert fault["value"] == '"old"'
    assert "finite number" in fault["allowed"]


PRICE = {"attribute": "price", "at_least": 0}


@pytest.mark.parametrize("url", ["/v1/complete", "/v1/complete-jointly", "/v1/explain"])
def test_a_query_has_few_conditions_and_attributes(tools: Any, pipeline: CompletionPipeline, url: str) -> None:
    within: list[dict[str, Any]] = [
        {"where": [PRICE] * 3},
        {"where": {**PRICE, "at_most": 99, "blank": 0}},  # four keys, one condition
        {"where": {"price": {"at_least": 0}, "in_stock": True, "category": {"not_in": ["hat"]}}},
        {"at_most_one_per": "category"},
        {"at_most_one_per": ["category"] * 2},
    ]
    beyond: list[tuple[dict[str, Any], str, str]] = [
        ({"where": [{}] * 4}, "it has 4 conditions", "Give at most 3."),  # what they are is not even read
        ({"where": {str(number): "red" for number in range(5)}}, "it has 5 conditions", "Give at most 3."),
        ({"at_most_one_per": ["category"] * 3}, "it has 3 attributes", "Give at most 2."),
    ]
    limits = ServerSettings(max_conditions=3, max_one_per=2)
    requests = [{"url": url, "json": query} for query in [*within, *(query for query, _, _ in beyond)]]
    responses = asyncio.run(post(tools, pipeline, requests, settings=limits))
    assert [each.status_code for each in responses] == [200] * len(within) + [422] * len(beyond)
    for (query, problem, allowed), response in zip(beyond, responses[len(within) :], strict=True):
        (fault,) = check_document(response)["errors"]
        assert (fault["pointer"], fault["problem"], fault["allowed"]) == (f"/{next(iter(query))}", problem, allowed)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"where": {"category": {"in": ["hat"] * 4}}}, "/0/where/category/in"),
        ({"where": [PRICE, {"attribute": "category", "not_in": ["hat"] * 4}]}, "/0/where/1/not_in"),
        ({"where": {"category": ["hat"] * 4}}, "/0/where/category"),
        ({"context": {"brands": ["acme"] * 3}}, "/0/context/brands"),
    ],
)
def test_a_query_has_short_lists_of_values(
    tools: Any, pipeline: CompletionPipeline, query: dict[str, Any], pointer: str
) -> None:
    within = [{"where": {"category": {"in": ["hat"] * 3}}}, {"where": [PRICE] * 5}]
    limits = ServerSettings(max_values=3, max_context_values=2)
    requests = [{"json": each} for each in (within, [query])]
    responses = asyncio.run(post(tools, pipeline, requests, settings=limits))
    assert [each.status_code for each in responses] == [200, 422]
    (fault,) = check_document(responses[1])["errors"]
    assert fault["pointer"] == pointer
    assert "the list has" in fault["problem"]


def test_the_first_faulty_value_of_many_ends_the_reading() -> None:
    reader = QueryReader(None, ServerSettings())
    for where, place in (({"category": [{}] * 9000}, "category"), ([{"attribute": "category", "in": [{}] * 9000}], 0)):
        with pytest.raises(QueryError) as caught:
            reader.read([{}, {"where": where}])
        assert caught.value.location == (1, "where", place, *(["in"] if place == 0 else []), 0)
        assert isinstance(found := caught.value.__context__, ValidationError)
        assert found.error_count() == 1


def test_by_default_a_query_has_64_conditions_and_16_attributes(tools: Any, pipeline: CompletionPipeline) -> None:
    long: list[dict[str, Any]] = [{"where": [PRICE] * 65}, {"at_most_one_per": ["category"] * 17}]
    few: list[dict[str, Any]] = [{"where": [PRICE] * 64}, {"at_most_one_per": ["category"] * 16}]
    responses = asyncio.run(post(tools, pipeline, [{"json": [{}, query]} for query in [*long, *few]]))
    assert [each.status_code for each in responses] == [422, 422, 200, 200]
    assert [each.json()["errors"][0]["pointer"] for each in responses[:2]] == ["/1/where", "/1/at_most_one_per"]


@pytest.mark.parametrize(
    ("request_", "status", "kind"),
    [
        ({"content": b"{"}, 400, "malformed-request"),
        ({"content": b""}, 400, "malformed-request"),
        ({"content": b'{"items": [NaN]}'}, 400, "malformed-request"),
        ({"content": b'{"items": ["\xff"]}'}, 400, "malformed-request"),
        ({"content": b'{"items": ["\\ud800"]}'}, 400, "malformed-request"),
        ({"content": b"[" * 1900}, 400, "malformed-request"),
        ({"content": b'{"max_price": ' + b"9" * 1900 + b"}"}, 422, "invalid-query"),
        ({"content": b'{"context": {"age": 1e999}}'}, 422, "invalid-query"),
        ({"content": b"items=hat", "headers": {"content-type": "text/plain"}}, 415, "not-json"),
        ({"content": b" " * 2001}, 413, "body-too-large"),
        ({"json": {}, "params": {"top_k": 8}}, 422, "invalid-query"),
        ({"json": {}, "params": {"top_k": "many"}}, 422, "invalid-query"),
        ({"json": {}, "params": {"deadline_milliseconds": 5001}}, 422, "invalid-query"),
        ({"method": "GET"}, 405, "method-not-allowed"),
        ({"url": "/v2/complete"}, 404, "not-found"),
        ({"method": "GET", "url": "/v1/items?limit=0"}, 422, "invalid-query"),
        ({"url": "/v1/admin/reload"}, 403, "not-administered"),
    ],
)
def test_requests_that_are_refused(
    tools: Any, pipeline: CompletionPipeline, request_: dict[str, Any], status: int, kind: str
) -> None:
    (response,) = asyncio.run(post(tools, pipeline, [request_], settings=SMALL))
    assert response.status_code == status, response.text
    assert check_document(response)["type"].endswith(kind)


@pytest.mark.parametrize(
    ("method", "url", "parameter", "meant"),
    [
        ("POST", "/v1/complete?top_k=3&topk=3", "topk", "Did you mean 'top_k'? Known: deadline_milliseconds, top_k."),
        ("POST", "/v1/complete-jointly?num_completion=3", "num_completion", "Did you mean 'num_completions'?"),
        ("POST", "/v1/explain?top_k=3", "top_k", "Known: deadline_milliseconds, item, slot."),
        ("GET", "/v1/items?txt=coat", "txt", "Did you mean 'text'?"),
        ("GET", "/v1/schema?text=coat", "text", "Known: (nothing)."),
        ("POST", "/v1/admin/reload?force=1", "force", "Known: (nothing)."),
        ("POST", "/v1/admin/stock?item=coat", "item", "Known: (nothing)."),
    ],
)
def test_a_parameter_that_would_be_ignored_is_refused(
    tools: Any, pipeline: CompletionPipeline, method: str, url: str, parameter: str, meant: str
) -> None:
    asked = {"method": method, "url": url, "json": {}, "headers": {"X-API-Key": tools.key}}
    (response,) = asyncio.run(post(tools, pipeline, [asked], settings=ServerSettings(api_key=tools.key)))
    (fault,) = check_document(response)["errors"]
    assert (response.status_code, fault["parameter"], fault["problem"]) == (422, parameter, "the parameter is unknown")
    assert meant in fault["allowed"]


def test_a_parameter_with_two_values_is_refused(tools: Any, pipeline: CompletionPipeline) -> None:
    query = {"items": ["coat-1", "[MASK]"]}
    asked = [
        {"method": "POST", "url": "/v1/complete?top_k=1&top_k=2", "json": query, "headers": {}},
        {"method": "GET", "url": "/v1/items?item=coat-1&item=coat-2", "headers": {}},
    ]
    twice, listed = asyncio.run(post(tools, pipeline, asked))
    (fault,) = check_document(twice)["errors"]
    assert (twice.status_code, fault["parameter"], fault["allowed"]) == (422, "top_k", "one value")
    assert fault["problem"] == "the parameter is given 2 times"
    assert listed.status_code == 200


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"context": {LONG: 1}}, "/context"),
        ({"context": LONG}, "/context"),
        ({LONG: 1}, ""),
        ({"items": LONG}, "/items"),
        ({"items": ["hat"], "locked": [LONG]}, "/locked/0"),
        ({"in_stock": LONG}, "/in_stock"),
        ({"guidance": LONG}, "/guidance"),
        ({"at_most_one_per": LONG}, "/at_most_one_per"),
        ({"where": {LONG: "red"}}, "/where"),
        ({"where": {LONG: {"attribute": LONG}}}, "/where"),
        ({"where": [{"attribute": "price", LONG: 1}]}, "/where/0"),
        ({"where": [{"attribute": "price", "equals": [LONG]}]}, "/where/0/equals"),
    ],
)
def test_a_problem_is_short_however_long_the_request(
    tools: Any, pipeline: CompletionPipeline, query: dict[str, Any], pointer: str
) -> None:
    (response,) = asyncio.run(post(tools, pipeline, [{"json": query}]))
    document = check_document(response)
    (fault,) = document["errors"]
    assert response.status_code == 422
    assert fault["pointer"] == pointer
    assert max(map(len, [document["detail"], *filter(None, fault.values())])) <= 1000
    assert len(response.content) < 4000


def test_an_address_with_a_slash_too_many_is_no_other_address(tools: Any, pipeline: CompletionPipeline) -> None:
    asked = [{"method": "GET", "url": url} for url in ("/healthz/", "/v1/schema/", "/static")]
    for response in asyncio.run(post(tools, pipeline, asked)):
        assert response.status_code == 404
        assert check_document(response)["type"].endswith("not-found")


def test_a_body_without_a_length_is_counted_while_it_arrives(tools: Any, pipeline: CompletionPipeline) -> None:
    sent = 0

    async def body() -> Any:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b" " * 500

    (response,) = asyncio.run(post(tools, pipeline, [{"content": body()}], settings=SMALL))
    assert check_document(response)["type"].endswith("body-too-large")
    assert "content-length" not in response.request.headers


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_body_that_does_not_arrive_ends(
    tools: Any, pipeline: CompletionPipeline, caplog: pytest.LogCaptureFixture, is_gone: bool
) -> None:
    async def run() -> tuple[list[Any], bytes]:
        app = tools.app(pipeline, settings=ServerSettings(deadline_seconds=0.1))
        messages: list[Any] = []
        parts = [{"type": "http.request", "body": b"{", "more_body": True}]

        async def receive() -> Any:
            if parts:
                return parts.pop()
            if is_gone:
                return {"type": "http.disconnect"}
            return await asyncio.sleep(30)

        async def send(message: Any) -> None:
            messages.append(message)

        async with tools.served(app) as client:
            scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/complete", "query_string": b""}
            scope["headers"] = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            await app(scope | {"raw_path": b"/v1/complete", "root_path": "", "scheme": "http"}, receive, send)
            return messages, (await client.get("/metrics")).content

    messages, metrics = asyncio.run(run())
    assert not [record for record in caplog.records if record.exc_info]
    if is_gone:
        assert messages == []
        assert b'route="/v1/complete",status="499"} 1.0' in metrics
    else:
        assert messages[0]["status"] == 408
        assert json.loads(messages[1]["body"])["type"].endswith("slow-body")


def test_a_mistake_of_the_server_tells_nothing(
    tools: Any, pipeline: CompletionPipeline, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(tools.held):
        def __call__(self, queries: Any, *, top_k: int, batch_size: int) -> Any:
            raise RuntimeError("/secret/place")

    (response,) = asyncio.run(post(tools, Broken(pipeline), [{"json": {"items": ["hat"]}}]))
    assert response.status_code == 500
    assert "secret" not in json.dumps(check_document(response))
    assert any(record.exc_info and "secret" in str(record.exc_info[1]) for record in caplog.records)


def malformed(number: int) -> bytes:
    """A request that is wrong in one of many ways."""
    draw = random.Random(number)
    good = json.dumps({"items": ["hat", "[MASK]"], "context": {"age": 34}, "where": {"price": {"at_most": 50}}})
    junk = [None, True, -1, 1e300, "", "x" * 50, [], {}, [[]], {"a": {}}, "\x00", "1e5", ["hat", None]]
    kind = number % 4
    if kind == 0:
        return good[: draw.randrange(1, len(good) - 1)].encode()
    if kind == 1:
        text = bytearray(good.encode())
        for _ in range(3):
            text[draw.randrange(len(text))] = draw.randrange(256)
        return bytes(text)
    keys = ["items", "context", "where", "allow", "budget", "in_stock", "at_most_one_per", "repeats", "nothing"]
    query = {draw.choice(keys): draw.choice(junk) for _ in range(3)}
    if kind == 3:
        query["context"] = {draw.choice(["gender", "age", "brands", "date", "month", "x"]): draw.choice(junk)}
    return json.dumps(draw.choice([query, [query], [query, draw.choice(junk)]])).encode()


def test_malformed_requests_leave_nothing_behind(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> tuple[set[int], int]:
        async with tools.served(tools.app(pipeline)) as client:

            async def send(numbers: range) -> set[int]:
                found: set[int] = set()
                for number in numbers:
                    response = await client.post("/v1/complete", content=malformed(number))
                    found.add(response.status_code)
                    if response.status_code != 200:
                        check_document(response)
                return found

            statuses = await send(range(250))
            tracemalloc.start()
            held: list[int] = []
            for _ in range(4):  # the same again: caches are full
                statuses |= await send(range(250))
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.stop()
            assert (await client.post("/v1/complete", json={"items": ["hat"]})).status_code == 200
            # What else runs in this process may take memory once; what requests leave behind, each round adds.
            return statuses, min(after - before for before, after in itertools.pairwise(held))

    statuses, grown = asyncio.run(run())
    assert statuses <= {200, 400, 422}
    assert {400, 422} <= statuses
    assert grown < 50_000  # 200 bytes a request


def test_a_setting_of_the_server_is_told_in_words_of_a_client() -> None:
    error = QueryError("it needs a catalogue", location=("where",), fix=Message("Give {catalogue}.", catalogue=...))
    document = problem_of(error, {"where": {"price": 3}}).document("1")
    assert document["errors"][0]["allowed"] == "Give a catalogue (--catalogue) when the server is started."
    assert "=..." not in document["detail"]
