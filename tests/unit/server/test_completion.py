"""Answers over HTTP are those of the pipeline, whoever asks beside and in whatever batch."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextual_bert.inference import CompletionPipeline, similar_items
from contextual_bert.server import ServerSettings

NAMES = ("coat", "hat", "bag", "belt", "shoes", "17", "kilt")
CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "gender": st.sampled_from(["female", "male", "other", None]),
        "age": st.integers(10, 90),
        "brands": st.lists(st.sampled_from(["acme", "hooli", "initech"]), max_size=3),
        "date": st.dates().map(str),
    },
)
QUERIES = st.fixed_dictionaries(
    {"items": st.lists(st.sampled_from(NAMES), max_size=3, unique=True).map(lambda items: [*items, "[MASK]"])},
    optional={
        "context": CONTEXTS,
        "deny": st.lists(st.sampled_from(NAMES), max_size=2),
        "in_stock": st.booleans(),
        "max_price": st.integers(0, 100),
        "where": st.sampled_from([{"category": ["coat", "hat"]}, [{"attribute": "price", "at_least": 10}]]),
    },
)


def test_a_calibrated_run_answers_with_prediction_sets(tools: Any) -> None:
    pipeline = tools.calibrated(tools.make_pipeline())
    queries = [{"items": ["hat", "[MASK]"], "context": {"age": 34}}, {"items": ["[MASK]"], "in_stock": True}]

    async def run() -> None:
        app = tools.app(pipeline)
        async with tools.served(app) as client:
            answers = (await client.post("/v1/complete", json=queries, params={"top_k": 3})).json()
            schema = (await client.get("/v1/schema")).json()
        assert tools.same(answers, pipeline(queries, top_k=3))
        for answer in answers:
            assert answer["slots"][0]["coverage"] == schema["coverage"] == 0.9
            assert answer["slots"][0]["prediction_set"][0] == answer["slots"][0]["candidates"][0]["item"]
        assert "SureSlot" in app.openapi()["components"]["schemas"]

    asyncio.run(run())


def test_a_query_gets_an_answer_and_a_list_a_list(tools: Any, pipeline: CompletionPipeline) -> None:
    query = {"items": ["hat", "[MASK]", "kilt"], "context": {"age": 34, "gender": "x"}, "in_stock": True}

    async def run() -> None:
        async with tools.served(tools.app(pipeline)) as client:
            one = await client.post("/v1/complete?top_k=3", json=query)
            many = await client.post("/v1/complete?top_k=3", json=[query, {"items": []}])
            none = await client.post("/v1/complete", json=[])
        assert [each.status_code for each in (one, many, none)] == [200, 200, 200]
        assert tools.same(one.json(), pipeline(query, top_k=3))
        assert one.json()["unknown_items"] == ["kilt"]
        assert one.json()["unknown_context"] == {"gender": ["x"]}
        assert tools.same(many.json(), pipeline([query, {"items": []}], top_k=3))
        assert none.json() == []
        assert one.headers["x-model-version"] == "1"

    asyncio.run(run())


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(st.tuples(QUERIES, st.integers(1, 9)), min_size=1, max_size=24), seed=st.integers(0, 99))
def test_everybody_gets_the_own_answer(
    tools: Any, pipeline: CompletionPipeline, asked: list[tuple[Any, int]], seed: int
) -> None:
    order = list(range(len(asked)))
    random.Random(seed).shuffle(order)

    async def run() -> list[Any]:
        limits = ServerSettings(max_batch=8, max_wait_milliseconds=5)
        async with tools.served(tools.app(pipeline, settings=limits)) as client:
            sent = [client.post(f"/v1/complete?top_k={asked[row][1]}", json=asked[row][0]) for row in order]
            return await asyncio.gather(*sent)

    for row, response in zip(order, asyncio.run(run()), strict=True):
        query, top_k = asked[row]
        assert response.status_code == 200, response.text
        assert tools.same(response.json(), pipeline(query, top_k=top_k))


def test_waiting_requests_are_computed_together(tools: Any, held: Any, metric: Any) -> None:
    async def run() -> str:
        limits = ServerSettings(max_batch=4, max_wait_milliseconds=0)
        async with tools.served(tools.app(held, settings=limits)) as client:
            first = asyncio.create_task(client.post("/v1/complete", json={"items": ["tie"]}))
            await asyncio.to_thread(held.is_computing.wait, 30)
            rest = [asyncio.create_task(client.post("/v1/complete", json={"items": [n]})) for n in tools.items[:6]]
            while metric((await client.get("/metrics")).text, "queue_queries") < 6:
                await asyncio.sleep(0.01)
            held.gate.set()
            assert [each.status_code for each in await asyncio.gather(first, *rest)] == [200] * 7
            return (await client.get("/metrics")).text

    text = asyncio.run(run())
    assert [len(batch) for batch in held.computed] == [1, 4, 2]
    assert metric(text, "batch_queries_count") == 3
    assert metric(text, "batch_queries_sum") == 7
    assert metric(text, "queue_queries") == 0


def test_a_faulty_query_spoils_no_batch(tools: Any, held: Any) -> None:
    bodies = [
        {"items": ["coat"]},
        {"items": ["hat"], "context": {"age": "old"}},  # found only where contexts are encoded
        {"items": ["bag"]},
        {"items": ["bag"], "where": {"colour": "red"}},  # found only in the catalogue
    ]

    async def run() -> list[Any]:
        async with tools.served(tools.app(held)) as client:
            first = asyncio.create_task(client.post("/v1/complete", json={"items": ["tie"]}))
            await asyncio.to_thread(held.is_computing.wait, 30)
            rest = [asyncio.create_task(client.post("/v1/complete", json=body)) for body in bodies]
            await asyncio.sleep(0.05)
            held.gate.set()
            await first
            return await asyncio.gather(*rest)

    answers = asyncio.run(run())
    assert [each.status_code for each in answers] == [200, 422, 200, 422]
    assert [answers[row].json()["errors"][0]["pointer"] for row in (1, 3)] == ["/context/age", "/where/colour"]
    assert tools.same(answers[2].json(), held.inner(bodies[2]))
    assert held.computed[-1] == [["coat"], ["bag"]]


def test_a_full_queue_says_when_to_come_back(tools: Any, held: Any) -> None:
    async def run() -> list[Any]:
        limits = ServerSettings(max_queue=2, max_queries=2)
        async with tools.served(tools.app(held, settings=limits)) as client:
            first = asyncio.create_task(client.post("/v1/complete", json={"items": ["tie"]}))
            await asyncio.to_thread(held.is_computing.wait, 30)
            waiting = asyncio.create_task(client.post("/v1/complete", json=[{"items": ["hat"]}] * 2))
            await asyncio.sleep(0.05)
            refused = await client.post("/v1/complete", json={"items": ["bag"]})
            held.gate.set()
            return [refused, *await asyncio.gather(first, waiting)]

    refused, *taken = asyncio.run(run())
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["type"] == "urn:contextual-bert:problem:queue-full"
    assert [each.status_code for each in taken] == [200, 200]


@pytest.mark.parametrize("where", ["in the queue", "in the model"])
def test_a_deadline_ends_the_wait(tools: Any, held: Any, where: str) -> None:
    late = {"items": ["bag"]}

    async def run() -> list[Any]:
        async with tools.served(tools.app(held)) as client:
            if where == "in the queue":
                first = asyncio.create_task(client.post("/v1/complete", json={"items": ["tie"]}))
                await asyncio.to_thread(held.is_computing.wait, 30)
            else:
                first = asyncio.create_task(asyncio.sleep(0))
            milliseconds = 80 if where == "in the queue" else 500  # enough to come to the model, where that is wanted
            refused = await client.post(f"/v1/complete?deadline_milliseconds={milliseconds}", json=late)
            held.gate.set()
            await first
            last = await client.post("/v1/complete", json={"items": ["hat"]})
            return [refused, last]

    refused, last = asyncio.run(run())
    assert last.status_code == 200
    assert "Traceback" not in refused.text
    if where == "in the queue":
        assert (refused.status_code, refused.json()["type"][-17:]) == (503, "deadline-exceeded")
        assert ["bag"] not in [items for batch in held.computed for items in batch]
    else:
        assert (refused.status_code, refused.json()["type"][-8:]) == (504, "too-slow")


def test_what_was_taken_is_answered_before_the_server_stops(tools: Any, held: Any) -> None:
    async def run() -> list[Any]:
        app = tools.app(held, settings=ServerSettings(max_batch=1))
        async with tools.served(app) as client:
            asked = [asyncio.create_task(client.post("/v1/complete", json={"items": [n]})) for n in tools.items[:5]]
            await asyncio.to_thread(held.is_computing.wait, 30)
            asyncio.get_running_loop().call_later(0.2, held.gate.set)
            await asyncio.sleep(0.05)
        return await asyncio.gather(*asked)

    answers = asyncio.run(run())
    assert [each.status_code for each in answers] == [200] * 5


def test_all_of_an_allowed_list_are_ranked(tools: Any, pipeline: CompletionPipeline) -> None:
    allowed = list(pipeline.processor.items.values)
    limits = ServerSettings(max_top_k=2)

    async def run() -> list[Any]:
        async with tools.served(tools.app(pipeline, settings=limits)) as client:
            address = f"/v1/complete?top_k={len(allowed)}"
            bodies: list[Any] = [{"allow": allowed}, [{"allow": allowed}, {}], {"allow": allowed[1:]}, {}]
            return [await client.post(address, json=body) for body in bodies]

    ranked, *refused = asyncio.run(run())
    assert ranked.status_code == 200, ranked.text
    assert {each["item"] for each in ranked.json()["slots"][0]["candidates"]} == set(allowed)
    for response in refused:
        assert response.status_code == 422
        assert response.json()["errors"][0]["parameter"] == "top_k"
        assert response.json()["errors"][0]["allowed"].startswith("Give at most 2, or in allow as many items")


ITEM_QUERIES = st.fixed_dictionaries(
    {"item": st.sampled_from(["coat", "hat", "bag", "17", 17])},
    optional={
        "context": CONTEXTS,
        "deny": st.lists(st.sampled_from(NAMES), max_size=2),
        "in_stock": st.booleans(),
        "where": st.sampled_from([{"category": ["coat", "hat"]}, {"price": {"at_least": 20}}]),
    },
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(
        st.tuples(ITEM_QUERIES, st.integers(1, 9), st.sampled_from(["16", "2.5", "0"])), min_size=1, max_size=12
    )
)
def test_everybody_gets_the_own_items_alike(
    tools: Any, pipeline: CompletionPipeline, asked: list[tuple[Any, int, str]]
) -> None:
    async def run() -> list[Any]:
        limits = ServerSettings(max_batch=8, max_wait_milliseconds=5)
        async with tools.served(tools.app(pipeline, settings=limits)) as client:
            address = "/v1/similar?top_k={}&similarity_weight={}"
            sent = [client.post(address.format(top_k, weight), json=query) for query, top_k, weight in asked]
            beside = client.post("/v1/complete", json={"items": ["coat"]})
            return await asyncio.gather(*sent, beside)

    *answers, beside = asyncio.run(run())
    assert beside.json()["slots"]
    for response, (query, top_k, weight) in zip(answers, asked, strict=True):
        assert response.status_code == 200, response.text
        expected = similar_items(pipeline, query, top_k=top_k, similarity_weight=float(weight))
        assert tools.same(response.json(), expected)


def test_items_alike_are_answered_in_a_list_and_each_fault_is_named(tools: Any, pipeline: CompletionPipeline) -> None:
    many = [{"item": "coat", "context": {"age": 34}}, {"item": "hat"}]
    faults: list[tuple[str, Any, str, str]] = [
        ("", {"item": "coatt"}, "/item", "does not know 'coatt'"),
        ("", [{"item": "coat"}, {"item": "hat", "deni": []}], "/1/deni", "unknown key 'deni'"),
        ("", {"item": "coat", "items": ["hat"]}, "/items", "unknown key 'items'"),
        ("", {"item": "coat", "at_most_one_per": "category"}, "/at_most_one_per", "unknown key"),
        ("", {"context": {}}, "", "no item is named"),
        ("", {"item": ["coat"]}, "/item", "list"),
        ("", {"item": "coat", "context": {"agee": 3}}, "/context/agee", "agee"),
        ("", {"item": "coat", "where": [{"attribute": "price", "above": 1}] * 65}, "/where", "65 conditions"),
        ("?top_k=0", {"item": "coat"}, "top_k", "not allowed"),
        ("?top_k=101", {"item": "coat"}, "top_k", "more than 100"),
        ("?top_k=1_0", {"item": "coat"}, "top_k", "not allowed"),
        ("?similarity_weight=nan", {"item": "coat"}, "similarity_weight", "not allowed"),
        ("?similarity_weight=1001", {"item": "coat"}, "similarity_weight", "not allowed"),
        ("?similarity_weight=-1", {"item": "coat"}, "similarity_weight", "not allowed"),
    ]

    async def run() -> list[Any]:
        async with tools.served(tools.app(pipeline)) as client:
            found = [await client.post("/v1/similar?top_k=3", json=many), await client.post("/v1/similar", json=[])]
            beyond = await client.post("/v1/similar", json=[{"item": "coat"}] * 65)
            wrong = [await client.post(f"/v1/similar{address}", json=query) for address, query, _, _ in faults]
            return [*found, beyond, *wrong]

    answered, nothing, beyond, *wrong = asyncio.run(run())
    assert tools.same(answered.json(), similar_items(pipeline, many, top_k=3))
    assert answered.headers["x-model-version"] == "1" and nothing.json() == []
    assert beyond.status_code == 422 and "at most 64" in beyond.json()["detail"]
    for response, (_, _, place, told) in zip(wrong, faults, strict=True):
        assert response.status_code == 422, response.text
        (fault,) = response.json()["errors"]
        assert fault.get("parameter", fault.get("pointer")) == place
        assert told in response.json()["detail"]
