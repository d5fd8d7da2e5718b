"""Whole sets and explanations over HTTP are those of the library, and take nothing from who completes."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

import httpx
import pytest
from fastapi import Request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextual_bert.errors import DataError
from contextual_bert.inference import CompletionPipeline, OnnxCompletionPipeline, explain, export_onnx
from contextual_bert.server import ServerSettings
from contextual_bert.server.logs import JsonLines
from contextual_bert.server.requests import client_of
from contextual_bert.server.serving import _seconds_to_finish

NAMES = ("coat", "hat", "bag", "belt", "shoes", "17", "kilt")
JOINTLY, EXPLAIN, COMPLETE = "/v1/complete-jointly", "/v1/explain", "/v1/complete"
QUERY: dict[str, Any] = {"items": ["hat", "[MASK]", "[MASK]"], "context": {"age": 34, "gender": "female"}}
QUERIES = st.fixed_dictionaries(
    {
        "items": st.tuples(st.lists(st.sampled_from(NAMES), max_size=2, unique=True), st.integers(0, 3)).map(
            lambda drawn: [*drawn[0], *["[MASK]"] * drawn[1]]
        ),
        "context": st.fixed_dictionaries(
            {},
            optional={
                "gender": st.sampled_from(["female", "other", None]),
                "age": st.integers(10, 90),
                "brands": st.lists(st.sampled_from(["acme", "initech"]), max_size=2),
            },
        ),
    },
    optional={
        "deny": st.lists(st.sampled_from(NAMES), max_size=2),
        "budget": st.integers(60, 300),
        "at_most_one_per": st.just("category"),
        "guidance": st.sampled_from([0, 2.5]),
    },
)


def fault_of(response: httpx.Response) -> tuple[str, str, str]:
    """Parameter or pointer, problem and what is allowed."""
    assert response.status_code == 422, response.text
    (fault,) = response.json()["errors"]
    assert fault["problem"] in response.json()["detail"]
    return fault.get("parameter", fault.get("pointer")), fault["problem"], fault["allowed"]


def one_answer(tools: Any, pipeline: Any, address: str, query: Any, **limits: Any) -> httpx.Response:
    async def run() -> httpx.Response:
        async with tools.served(tools.app(pipeline, settings=ServerSettings(**limits))) as client:
            return await client.post(address, json=query)

    return asyncio.run(run())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=QUERIES,
    how=st.fixed_dictionaries(
        {},
        optional={
            "method": st.sampled_from(["auto", "exact", "beam", "gibbs"]),
            "num_completions": st.integers(1, 20),
            "diversity": st.integers(1, 8),
            "seed": st.integers(0, 5),
        },
    ),
)
def test_whole_sets_are_those_of_the_library(
    tools: Any, pipeline: CompletionPipeline, query: Any, how: dict[str, Any]
) -> None:
    parameters = "&".join(f"{name}={value}" for name, value in how.items())
    response = one_answer(tools, pipeline, f"{JOINTLY}?{parameters}", query)
    assert response.status_code == 200, response.text
    assert response.headers["x-model-version"] == "1"
    assert tools.same(response.json(), pipeline.complete_jointly(query, **how, batch_size=64))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERIES, item=st.sampled_from([None, *NAMES]), slot=st.integers(0, 2), most=st.integers(1, 3))
def test_explanations_are_those_of_the_library(
    tools: Any, pipeline: CompletionPipeline, query: Any, item: str | None, slot: int, most: int
) -> None:
    slot = min(slot, max(0, query["items"].count("[MASK]") - 1))
    address = f"{EXPLAIN}?slot={slot}" + (f"&item={item}" if item is not None else "")
    response = one_answer(tools, pipeline, address, query, max_exact_fields=most)
    try:
        expected = explain(pipeline, query, item=item, slot=slot, max_exact_fields=most)
    except (DataError, LookupError) as error:
        assert fault_of(response)[1] in str(error)
        return
    assert response.status_code == 200, response.text
    assert tools.same(response.json(), json.loads(json.dumps(asdict(expected))))


def test_beyond_the_exact_fields_an_explanation_is_sampled_with_its_error(tools: Any) -> None:
    query = {"items": ["hat"], "context": {"age": 34, "gender": "female", "brands": ["acme"]}}
    pipeline = tools.make_pipeline()
    exact = one_answer(tools, pipeline, EXPLAIN, query, max_exact_fields=3).json()
    sampled = one_answer(tools, pipeline, EXPLAIN, query, max_exact_fields=2).json()
    assert (exact["is_exact"], exact["num_subsets"], exact["position"]) == (True, 8, 1)
    assert {each["standard_error"] for each in exact["fields"]} == {0.0}
    assert sampled["is_exact"] is False
    assert all(each["standard_error"] > 0 for each in sampled["fields"])


def test_what_is_wrong_with_a_query_or_the_address_is_named(tools: Any, pipeline: CompletionPipeline) -> None:
    single = {"items": ["hat", "[MASK]"]}
    asked: list[tuple[str, Any, str, str]] = [
        (f"{JOINTLY}?", [QUERY], "", "a list of queries"),
        (f"{EXPLAIN}?", [], "", "a list of queries"),
        (f"{EXPLAIN}?", "hat", "", "not a query"),
        (f"{JOINTLY}?", {"itmes": []}, "/itmes", "unknown key"),
        (f"{JOINTLY}?", {"items": [], "context": {"age": "old"}}, "/context/age", "'old' is a string"),
        (f"{EXPLAIN}?", {"items": [], "context": {"agee": 3}}, "/context/agee", "agee"),
        (
            f"{EXPLAIN}?",
            {"items": [], "where": {"colour": "red"}},
            "/where/colour",
            "the catalogue has no attribute 'colour'",
        ),
        (f"{EXPLAIN}?", {"items": [], "allow": ["hat"]}, "", "permits 1 item"),
        (f"{JOINTLY}?num_completions=21&", QUERY, "num_completions", "20 or less"),
        *(
            (f"{JOINTLY}?num_completions={text}&", QUERY, "num_completions", "Give a whole number, as 1 or 20")
            for text in ("1_0", "%2B5", "5.0", "05", "%205")
        ),
        (f"{JOINTLY}?diversity=9&", QUERY, "diversity", "8 or less"),
        (f"{JOINTLY}?method=best&", QUERY, "method", "'auto', 'exact', 'beam' or 'gibbs'"),
        (f"{JOINTLY}?deadline_milliseconds=30001&", QUERY, "deadline_milliseconds", "30000"),
        (f"{EXPLAIN}?item=coatt&", single, "item", "item='coatt' is no item that the model knows"),
        (f"{EXPLAIN}?item=%5BMASK%5D&", single, "item", "item='[MASK]' is no item that the model knows"),
        (f"{EXPLAIN}?item=hat&", single, "item", "item='hat' is not permitted"),
        (f"{EXPLAIN}?slot=1&", single, "slot", "slot=1 asks for [MASK] number 2, and the set has 1"),
        (f"{EXPLAIN}?slot=1&", {"items": []}, "slot", "the set has 1"),
        (f"{EXPLAIN}?slot=8&", single, "slot", "below 8"),
        (f"{EXPLAIN}?item={'x' * 2000}&", single, "item", "is no item that the model knows"),
        (f"{EXPLAIN}?item={'x' * 2001}&", single, "item", "at most 2000"),
    ]

    async def run() -> list[httpx.Response]:
        async with tools.served(tools.app(pipeline)) as client:
            return [await client.post(address, json=body) for address, body, _, _ in asked]

    for (address, body, place, problem), response in zip(asked, asyncio.run(run()), strict=True):
        found = fault_of(response)
        assert (found[0], problem in f"{found[1]}. {found[2]}") == (place, True), (address, body, found)


def test_passes_that_do_not_suffice_are_the_clients_wish(tools: Any, pipeline: CompletionPipeline) -> None:
    response = one_answer(tools, pipeline, f"{JOINTLY}?method=exact", QUERY, max_forward_passes=7, max_blanks=2)
    field, problem, allowed = fault_of(response)
    # 7 items may stand in the first blank, and each asks once for the second.
    assert (field, problem) == (
        "method", "method='exact' over 2 blanks takes up to 8 forward passes, more than the 7 of max_forward_passes"
    )  # fmt: skip
    assert "method='auto'" in allowed and "constraints" in allowed
    assert response.json()["errors"][0]["value"] == '"exact"'
    limits = {"max_forward_passes": 7, "max_blanks": 2}
    assert one_answer(tools, pipeline, JOINTLY, QUERY, **limits).json()["method"] == "beam"


@pytest.mark.parametrize("address", [COMPLETE, JOINTLY, EXPLAIN])
def test_items_that_are_not_locked_are_blanks(tools: Any, pipeline: CompletionPipeline, address: str) -> None:
    query = {"items": ["hat", "bag", "coat"], "locked": []}
    place, problem, allowed = fault_of(one_answer(tools, pipeline, address, query, max_blanks=2))
    assert (place, allowed) == ("/locked", "Give at most 2.")
    assert "3 [MASK]" in problem
    assert one_answer(tools, pipeline, address, query, max_blanks=3).status_code == 200


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        ({"conditioning": "none"}, {"explain": "reads no context", "guidance": "changes nothing", "context": "reads"}),
        ({"field_dropout": 0.0}, {"explain": "trained without field_dropout"}),
        ({"context_dropout": 0.0}, {"guidance": "trained without context_dropout"}),
        ({}, {}),
        ({"has_position_embeddings": True, "time_gaps": "seconds", "type_vocab_size": 64}, {"times": ""}),
    ],
)
def test_what_a_model_cannot_do_is_said(tools: Any, fields: dict[str, Any], lacks: dict[str, str]) -> None:
    async def run() -> tuple[Any, httpx.Response, httpx.Response]:
        async with tools.served(tools.app(tools.make_pipeline(**fields))) as client:
            schema = (await client.get("/v1/schema")).json()
            return schema, await client.post(EXPLAIN, json=QUERY), await client.post(JOINTLY, json=QUERY)

    schema, explained, joint = asyncio.run(run())
    names = ["complete_jointly", "explain", "similar", "guidance", "context", "times"]
    assert [each["name"] for each in schema["capabilities"]] == names
    missing = {each["name"] for each in schema["capabilities"] if not each["is_available"]}
    # Most models read no times: the one that does says so.
    lacks = {**lacks, "times": "--time-gaps"} if "times" not in lacks else {}
    assert missing == set(lacks)
    for each in schema["capabilities"]:
        assert lacks[each["name"]] in each["reason"] if each["name"] in lacks else each["reason"] is None
    assert joint.status_code == 200
    if "explain" in lacks:
        assert (explained.status_code, explained.json()["type"][-9:]) == (409, ":conflict")
        assert lacks["explain"] in explained.json()["detail"]
    else:
        assert explained.status_code == 200


@pytest.mark.slow
def test_an_exported_model_says_what_it_lacks(tools: Any, tmp_path: Any) -> None:
    export_onnx(tools.make_pipeline(), tmp_path / "exported", top_k=3)
    fast = OnnxCompletionPipeline(tmp_path / "exported")

    async def run() -> list[httpx.Response]:
        async with tools.served(tools.app(fast)) as client:
            return [
                await client.get("/v1/schema"),
                await client.post(COMPLETE, json=QUERY),
                await client.post(COMPLETE, params={"top_k": 4}, json=QUERY),
                await client.post(COMPLETE, params={"top_k": 3}, json={**QUERY, "guidance": 2}),
                await client.post(JOINTLY, json=QUERY),
                await client.post(EXPLAIN, json=QUERY),
                await client.post("/v1/similar", json={"item": "coat"}),
            ]

    schema, complete, too_many, *refused = asyncio.run(run())
    assert [each["is_available"] for each in schema.json()["capabilities"]] == [False, False, False, False, True, False]
    assert schema.json()["limits"]["max_top_k"] == 3
    assert [len(each["candidates"]) for each in complete.json()["slots"]] == [3, 3]
    assert fault_of(too_many)[0] == "top_k"
    for each in refused:
        assert (each.status_code, "take the run itself" in each.json()["detail"]) == (409, True)


def test_a_study_delays_no_completion_and_no_completion_a_study(tools: Any, held: Any) -> None:
    async def run() -> list[int]:
        async with tools.served(tools.app(held)) as client:
            studying = [asyncio.create_task(client.post(address, json=QUERY)) for address in (JOINTLY, EXPLAIN)]
            assert await asyncio.to_thread(held.is_studying.wait, 30)
            held.gate.set()
            first = await client.post(COMPLETE, json=QUERY)  # while a study holds its thread
            held.gate.clear()
            held.is_computing.clear()
            completing = asyncio.create_task(client.post(COMPLETE, json=QUERY))
            assert await asyncio.to_thread(held.is_computing.wait, 30)
            held.study_gate.set()
            studied = await asyncio.gather(*studying)  # while a completion holds the other
            assert not completing.done()
            held.gate.set()
            return [each.status_code for each in (first, *studied, await completing)]

    assert asyncio.run(run()) == [200] * 4


def test_studies_wait_in_a_bounded_queue_one_by_one(tools: Any, held: Any, metric: Any) -> None:
    async def run() -> list[httpx.Response]:
        async with tools.served(tools.app(held, settings=ServerSettings(max_computations=2))) as client:
            asked = [asyncio.create_task(client.post(JOINTLY, json={"items": ["tie"]}))]
            assert await asyncio.to_thread(held.is_studying.wait, 30)
            asked += [asyncio.create_task(client.post(JOINTLY, json={"items": [name]})) for name in ("hat", "bag")]
            while metric((await client.get("/metrics")).text, "queue_computations") < 2:
                await asyncio.sleep(0.01)
            refused = await client.post(EXPLAIN, json={"items": ["coat"]})
            held.gate.set()
            completed = await client.post(COMPLETE, json={"items": ["coat"]})
            held.study_gate.set()
            answers = [refused, completed, *await asyncio.gather(*asked)]
            text = (await client.get("/metrics")).text
        assert 'contextual_bert_computation_seconds_count{kind="complete_jointly"} 3.0' in text
        assert metric(text, "computation_queue_seconds_count") == 3
        assert metric(text, "queue_computations") == 0
        return answers

    refused, *taken = asyncio.run(run())
    assert (refused.status_code, refused.json()["type"][-10:]) == (429, "queue-full")
    assert int(refused.headers["retry-after"]) >= 1
    assert [each.status_code for each in taken] == [200] * 4
    assert held.studied == [["tie"], ["hat"], ["bag"]]
    assert held.most_studying == 1


@pytest.mark.parametrize("where", ["in the queue", "in the model"])
def test_a_deadline_ends_the_wait_for_a_study(tools: Any, held: Any, where: str) -> None:
    async def run() -> list[httpx.Response]:
        async with tools.served(tools.app(held)) as client:
            asked: list[Any] = []
            if where == "in the queue":
                asked.append(asyncio.create_task(client.post(JOINTLY, json={"items": ["tie"]})))
                assert await asyncio.to_thread(held.is_studying.wait, 30)
            milliseconds = 80 if asked else 500  # enough to come to the model, where that is wanted
            late = await client.post(f"{JOINTLY}?deadline_milliseconds={milliseconds}", json={"items": ["bag"]})
            held.study_gate.set()
            return [late, *await asyncio.gather(*asked), await client.post(JOINTLY, json={"items": ["hat"]})]

    late, *others = asyncio.run(run())
    assert [each.status_code for each in others] == [200] * len(others)
    if where == "in the queue":
        assert (late.status_code, late.json()["type"][-17:]) == (503, "deadline-exceeded")
        assert held.studied == [["tie"], ["hat"]]
    else:
        assert (late.status_code, late.json()["type"][-8:]) == (504, "too-slow")


def test_studies_that_were_taken_are_finished_and_no_more_are_taken(tools: Any, held: Any, metric: Any) -> None:
    async def run() -> tuple[list[httpx.Response], list[httpx.Response]]:
        app, refused = tools.app(held), list[httpx.Response]()
        async with tools.served(app) as client:
            asked = [
                asyncio.create_task(client.post(JOINTLY, json={"items": [name]})) for name in ("tie", "hat", "bag")
            ]
            while metric((await client.get("/metrics")).text, "queue_computations") < 2:
                await asyncio.sleep(0.01)

            async def late() -> None:
                transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
                async with httpx.AsyncClient(transport=transport, base_url="http://server") as other:
                    while (await other.get("/readyz")).status_code == 200:
                        await asyncio.sleep(0.01)
                    refused.append(await other.post(EXPLAIN, json={"items": ["coat"]}))
                    refused.append(await other.get("/readyz"))
                held.study_gate.set()

            stopping = asyncio.create_task(late())
        await stopping
        return await asyncio.gather(*asked), refused

    answers, refused = asyncio.run(run())
    assert [each.status_code for each in answers] == [200] * 3
    assert [each.status_code for each in refused] == [503, 503]
    assert all(each.json()["type"].endswith("not-ready") for each in refused)


def test_a_study_keeps_the_version_under_which_it_came_in(tools: Any, held: Any, metric: Any) -> None:
    second = tools.make_pipeline(1)

    async def run() -> list[httpx.Response]:
        app = tools.app(held, load=lambda: second)
        async with tools.served(app) as client:
            asked = [asyncio.create_task(client.post(JOINTLY, json=QUERY)) for _ in range(2)]
            asked.append(asyncio.create_task(client.post(EXPLAIN, json=QUERY)))
            assert await asyncio.to_thread(held.is_studying.wait, 30)
            while metric((await client.get("/metrics")).text, "queue_computations") < 2:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(app.serving.reload)
            asked.append(asyncio.create_task(client.post(JOINTLY, json=QUERY)))
            await asyncio.sleep(0)
            held.study_gate.set()
            return await asyncio.gather(*asked)

    *before, after = asyncio.run(run())
    assert [each.headers["x-model-version"] for each in (*before, after)] == ["1", "1", "1", "2"]
    joint = held.inner.complete_jointly(QUERY)
    assert not tools.same(joint, second.complete_jointly(QUERY))
    assert all(tools.same(each.json(), joint) for each in before[:2])
    assert tools.same(before[2].json(), json.loads(json.dumps(asdict(explain(held.inner, QUERY)))))
    assert tools.same(after.json(), second.complete_jointly(QUERY))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("address", [COMPLETE, JOINTLY])
def test_health_sees_both_threads(tools: Any, pipeline: CompletionPipeline, address: str) -> None:
    class Dying(tools.held):
        def __call__(self, queries: Any, *, top_k: int, batch_size: int) -> Any:
            raise SystemExit  # ends the thread, and no handler of errors sees it

        def complete_jointly(self, query: Any, **how: Any) -> Any:
            raise SystemExit

    async def run() -> list[int]:
        async with tools.served(tools.app(Dying(pipeline))) as client:
            found = [(await client.get("/healthz")).status_code]
            asking = asyncio.create_task(client.post(address, json={"items": ["hat"]}))
            for _ in range(1000):
                if (await client.get("/healthz")).status_code != 200:
                    break
                await asyncio.sleep(0.01)
            asking.cancel()
            return [*found, *[(await client.get(url)).status_code for url in ("/healthz", "/readyz")]]

    assert asyncio.run(run()) == [200, 503, 503]


def test_no_more_goes_through_the_model_at_once_than_a_batch(tools: Any) -> None:
    class Watched(CompletionPipeline):
        rows: list[int]

        def logits(self, inputs: Any, *, guidance: Any = 1.0) -> Any:
            self.rows.append(len(inputs["input_ids"]))
            return super().logits(inputs, guidance=guidance)

    made = tools.make_pipeline()
    pipeline = Watched(made.model, made.processor)
    query = {**QUERY, "items": ["[MASK]"] * 3}
    for address in (f"{JOINTLY}?method=exact", f"{JOINTLY}?method=beam", f"{JOINTLY}?method=gibbs", EXPLAIN):
        pipeline.rows = []
        assert one_answer(tools, pipeline, address, query, max_batch=5).status_code == 200
        assert max(pipeline.rows) <= 5 < sum(pipeline.rows)


def test_a_study_is_one_line_of_the_log(
    tools: Any, pipeline: CompletionPipeline, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="contextual_bert.server.requests"):
        assert one_answer(tools, pipeline, EXPLAIN, QUERY).status_code == 200
    (line,) = [json.loads(JsonLines().format(each)) for each in caplog.records if each.getMessage() == "request"]
    assert (line["route"], line["queries"], line["version"]) == (EXPLAIN, 1, 1)
    assert line["milliseconds"] >= line["queue_milliseconds"] + line["model_milliseconds"] > 0
    assert "contexts" not in line


@pytest.mark.parametrize("flood", [10, 100])
def test_clients_share_the_studies_fairly(tools: Any, held: Any, metric: Any, flood: int) -> None:
    async def run() -> tuple[list[int], list[int]]:
        app = tools.app(held, settings=ServerSettings(max_computations=12))
        async with tools.served(app) as client, AsyncExitStack() as stack:

            async def from_address(address: str) -> httpx.AsyncClient:
                transport = httpx.ASGITransport(app=app, client=(address, 1))
                return await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://server"))

            greedy, modest = await from_address("10.0.0.1"), await from_address("10.0.0.2")
            asked = [asyncio.create_task(greedy.post(JOINTLY, json={"items": ["tie"]}))]
            assert await asyncio.to_thread(held.is_studying.wait, 30)
            asked += [asyncio.create_task(greedy.post(JOINTLY, json={"items": ["hat"]})) for _ in range(flood)]
            while metric((await client.get("/metrics")).text, "queue_computations") < min(flood, 12):
                await asyncio.sleep(0.01)
            others = [asyncio.create_task(modest.post(JOINTLY, json={"items": ["bag"]})) for _ in range(2)]
            while metric((await client.get("/metrics")).text, "queue_computations") < min(flood, 10) + 2:
                await asyncio.sleep(0.01)
            held.study_gate.set()
            return [(await each).status_code for each in others], [(await each).status_code for each in asked]

    others, greedy = asyncio.run(run())
    assert others == [200, 200]
    assert held.studied[:5] == [["tie"], ["hat"], ["bag"], ["hat"], ["bag"]]
    assert greedy.count(429) == (90 if flood == 100 else 0)
    assert greedy.count(200) == 11


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("unix", "unix"),
    ],
)
def test_a_client_is_an_address_or_a_network(host: str, client: str) -> None:
    assert client_of(Request({"type": "http", "client": (host, 1)})) == client


def test_the_process_gives_a_study_its_whole_deadline_to_finish() -> None:
    assert _seconds_to_finish(ServerSettings()) == 30
    assert _seconds_to_finish(ServerSettings(computation_deadline_seconds=90.5)) == 91
