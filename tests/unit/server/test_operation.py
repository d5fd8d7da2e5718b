"""Keys, stock, reloads, health and the log: what an operator relies on."""

import asyncio
import gc
import json
import logging
import weakref
from typing import Any

import httpx
import pytest
import torch

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings
from contextual_bert.server.logs import JsonLines
from contextual_bert.server.state import Serving

QUERY = {"items": ["hat"], "context": {"age": 34}, "in_stock": True}


def candidates(answer: Any) -> set[str]:
    return {each["item"] for each in answer["slots"][0]["candidates"]}


def test_with_a_key_nothing_but_health_is_open(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> list[tuple[int, int, int]]:
        app = tools.app(pipeline, settings=ServerSettings(api_key=tools.key))
        found: list[tuple[int, int, int]] = []
        async with tools.served(app) as client:
            for method, url in (
                ("POST", "/v1/complete"), ("POST", "/v1/complete-jointly"), ("POST", "/v1/explain"),
                ("GET", "/v1/schema"), ("GET", "/v1/items"), ("POST", "/v1/admin/stock"),
                ("GET", "/openapi.json"), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"),
            ):  # fmt: skip
                statuses = [
                    (await client.request(method, url, headers=headers, json={})).status_code
                    for headers in ({}, {"X-API-Key": "wröng".encode()}, {"X-API-Key": tools.key})
                ]
                found.append((statuses[0], statuses[1], statuses[2]))
            refused = await client.post("/v1/complete", json={})
            assert refused.headers["www-authenticate"].startswith("ApiKey")
            shown = await client.get("/openapi.json")
            assert "female" not in shown.text and "/v1/complete" not in shown.text
            shown = await client.get("/openapi.json", headers={"X-API-Key": tools.key})
            assert tools.key not in shown.text and "female" in shown.text
        return found

    assert asyncio.run(run()) == [(401, 401, 200)] * 7 + [(200, 200, 200)] * 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": "short"},
        {"api_key": "with a space in it"},
        {"max_batch": 0},
        {"max_queue": 3},
        {"deadline_seconds": 0},
        {"computation_deadline_seconds": float("inf")},
        {"max_forward_passes": 7},
        {"max_exact_fields": 13},
        {"max_computations": 0},
        {"max_completions": 0},
        {"max_conditions": 0},
        {"max_one_per": 0},
        {"max_values": 0},
        {"max_context_values": 0},
    ],
)
def test_settings_that_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        ServerSettings(**wrong)
    assert "short" not in str(raised.value)


def test_a_key_is_not_shown() -> None:
    assert "kkk" not in repr(ServerSettings(api_key="k" * 20))


def test_stock_and_reload(tools: Any) -> None:
    async def run() -> None:
        settings = ServerSettings(api_key=tools.key)
        app = tools.app(tools.make_pipeline(0), load=lambda: tools.make_pipeline(1), settings=settings)
        async with tools.served(app) as client:
            client.headers["X-API-Key"] = tools.key

            async def ask() -> Any:
                return await client.post("/v1/complete?top_k=9", json=QUERY)

            first = await ask()
            assert candidates(first.json()) == {"coat", "belt", "shoes", "17", "scarf"}
            posted = await client.post("/v1/admin/stock", json={"out_of_stock": ["coat", "kilt"], "in_stock": ["bag"]})
            assert posted.json() == {"changed": 2, "unknown_items": ["kilt"]}
            second = await ask()
            assert candidates(second.json()) == {"bag", "belt", "shoes", "17", "scarf"}
            reloaded = await client.post("/v1/admin/reload")
            assert reloaded.json()["number"] == 2
            third = await ask()
            assert third.headers["x-model-version"] == "2"
            assert candidates(third.json()) == candidates(second.json())  # what was posted outlives the reload
            expected = tools.make_pipeline(1)
            expected.catalogue.set_stock(["coat"], False)
            expected.catalogue.set_stock(["bag"], True)
            assert tools.same(third.json(), expected(QUERY, top_k=9))
            refused = await client.post("/v1/complete", json={"context": {"shoe size": 40}})
            assert (refused.status_code, refused.headers["x-model-version"]) == (422, "2")
            for body in ([], {"sold_out": []}, {"in_stock": "bag"}, {"in_stock": ["bag"], "out_of_stock": ["bag"]}):
                assert (await client.post("/v1/admin/stock", json=body)).status_code == 422

    asyncio.run(run())


def test_without_a_catalogue_there_is_no_stock(tools: Any) -> None:
    async def run() -> Any:
        app = tools.app(tools.make_pipeline(has_catalogue=False), settings=ServerSettings(api_key=tools.key))
        async with tools.served(app) as client:
            headers = {"X-API-Key": tools.key}
            return [
                await client.post("/v1/admin/stock", json={"in_stock": ["hat"]}, headers=headers),
                await client.post("/v1/admin/reload", headers=headers),
            ]

    assert [each.status_code for each in asyncio.run(run())] == [409, 409]


def test_a_failed_reload_changes_nothing(tools: Any, metric: Any, caplog: pytest.LogCaptureFixture) -> None:
    def load() -> Any:
        raise OSError("/secret/run is damaged")

    async def run() -> None:
        app = tools.app(tools.make_pipeline(), load=load, settings=ServerSettings(api_key=tools.key))
        async with tools.served(app) as client:
            client.headers["X-API-Key"] = tools.key
            failed = await client.post("/v1/admin/reload")
            assert (failed.status_code, failed.json()["type"][-13:]) == (500, "reload-failed")
            assert "secret" not in failed.text
            assert (await client.post("/v1/complete", json=QUERY)).headers["x-model-version"] == "1"
            text = (await client.get("/metrics")).text
            assert 'contextual_bert_reloads_total{outcome="failed"} 1.0' in text
            assert (metric(text, "model_version"), metric(text, "last_reload_succeeded")) == (1, 0)
            shown = (await client.get("/v1/schema")).json()["version"]
            assert shown["number"] == 1 and shown["reload_failed_at"] >= shown["loaded_at"]

    asyncio.run(run())
    (told,) = [record for record in caplog.records if record.getMessage() == "reload failed"]
    assert told.__dict__["details"] == {"reason": "/secret/run is damaged", "version": 1}
    assert "secret" in str(told.exc_info)


def test_a_run_that_diverged_does_not_replace_one_that_answers(tools: Any) -> None:
    def load() -> Any:
        pipeline = tools.make_pipeline()
        with torch.no_grad():
            pipeline.model.cls.predictions.bias.fill_(torch.nan)
        return pipeline

    async def run() -> None:
        app = tools.app(tools.make_pipeline(), load=load, settings=ServerSettings(api_key=tools.key))
        async with tools.served(app) as client:
            client.headers["X-API-Key"] = tools.key
            assert (await client.post("/v1/admin/reload")).status_code == 500
            assert (await client.post("/v1/complete", json=QUERY)).headers["x-model-version"] == "1"

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/v1/complete", "/v1/complete-jointly", "/v1/explain"])
def test_a_model_of_nans_answers_with_a_problem_in_words(tools: Any, path: str, caplog: Any) -> None:
    pipeline = tools.make_pipeline()
    with torch.no_grad():
        pipeline.model.cls.predictions.bias.fill_(torch.nan)

    async def run() -> None:
        async with tools.served(tools.app(pipeline)) as client:
            answer = await client.post(path, json={"items": ["[MASK]", "[MASK]"], "context": {"age": 30}})
            assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
            assert answer.json()["type"] == "urn:contextual-bert:problem:no-numbers"
            assert "The server's log says why" in answer.json()["detail"]
            assert "NaN" not in answer.text.replace("gives NaN", "")

    asyncio.run(run())
    assert any("its weights hold NaN or infinity: cls.predictions.bias" in each.message for each in caplog.records)


def test_a_context_far_from_training_is_answered_with_a_remark(tools: Any) -> None:
    async def run() -> None:
        async with tools.served(tools.app(tools.make_pipeline())) as client:
            answer = await client.post("/v1/complete", json={"items": ["[MASK]"], "context": {"age": 1e30}})
            assert answer.status_code == 200
            assert "far outside of the bins" in answer.json()["notes"][0]
            refused = await client.post("/v1/complete", content=b'{"items": ["[MASK]"], "context": {"age": 1e999}}')
            assert refused.status_code == 422
            assert "not a finite number" in refused.json()["detail"]
            assert refused.json()["errors"][0]["value"] == "Infinity"

    asyncio.run(run())


def test_reloads_under_load_lose_no_request_and_mix_no_models(tools: Any) -> None:
    versions = [tools.make_pipeline(seed) for seed in range(6)]
    queries = [{"items": [name], "context": {"age": 20 + 10 * row}} for row, name in enumerate(tools.items)]
    expected = [[pipeline(query, top_k=3) for query in queries] for pipeline in versions]
    rest = iter(versions[1:])

    async def run() -> list[tuple[int, Any]]:
        app = tools.app(versions[0], load=lambda: next(rest), settings=ServerSettings(max_batch=4))
        is_over = asyncio.Event()
        answers: list[tuple[int, Any]] = []
        async with tools.served(app) as client:

            async def ask(row: int) -> None:
                while not is_over.is_set():
                    answers.append((row, await client.post("/v1/complete?top_k=3", json=queries[row])))

            askers = [asyncio.create_task(ask(row)) for row in range(len(queries))]
            for _ in range(5):
                await asyncio.sleep(0.15)
                await asyncio.to_thread(app.serving.reload)
            await asyncio.sleep(0.15)
            is_over.set()
            await asyncio.gather(*askers)
        return answers

    answers = asyncio.run(run())
    seen = {int(response.headers["x-model-version"]) for _, response in answers}
    assert seen == {1, 2, 3, 4, 5, 6}
    for row, response in answers:
        assert response.status_code == 200
        assert tools.same(response.json(), expected[int(response.headers["x-model-version"]) - 1][row])


def test_a_replaced_model_is_freed(tools: Any) -> None:
    first = tools.make_pipeline()
    serving = Serving(first, load=tools.make_pipeline)
    model = weakref.ref(first.model)
    del first
    serving.reload()
    gc.collect()
    assert model() is None


def test_health_follows_the_life_of_the_server(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> None:
        app = tools.app(pipeline)
        async with tools.served(app) as client:
            assert [(await client.get(url)).status_code for url in ("/healthz", "/readyz")] == [200, 200]
            with pytest.raises(RuntimeError, match="served already"):
                async with tools.served(app):
                    pass
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as client:
            assert [(await client.get(url)).status_code for url in ("/healthz", "/readyz")] == [503, 503]
            assert (await client.post("/v1/complete", json=QUERY)).json()["type"].endswith("not-ready")

    asyncio.run(run())


def test_whoever_watches_may_ask_for_the_head_alone(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> list[int]:
        async with tools.served(tools.app(pipeline)) as client:
            return [(await client.head(url)).status_code for url in ("/", "/healthz", "/readyz", "/static/page.js")]

    assert asyncio.run(run()) == [200] * 4


def test_the_metrics_tell_the_files_of_the_page_from_addresses_that_do_not_exist(
    tools: Any, pipeline: CompletionPipeline
) -> None:
    async def run() -> str:
        async with tools.served(tools.app(pipeline)) as client:
            for url in ("/static/page.js", "/static/page.css", "/static/nothing.js", "/nothing"):
                await client.get(url)
            return (await client.get("/metrics")).text

    text = asyncio.run(run())
    for route, status, count in (("/static", 200, 2), ("/static", 404, 1), ("unmatched", 404, 1)):
        assert f'requests_total{{method="GET",route="{route}",status="{status}"}} {count}.0' in text


@pytest.mark.parametrize("has_contexts", [False, True])
def test_a_request_is_one_line_of_the_log(
    tools: Any, pipeline: CompletionPipeline, caplog: pytest.LogCaptureFixture, has_contexts: bool
) -> None:
    async def run() -> None:
        settings = ServerSettings(has_contexts_in_logs=has_contexts)
        async with tools.served(tools.app(pipeline, settings=settings)) as client:
            given = await client.post("/v1/complete", json=QUERY, headers={"X-Request-ID": "mine-1"})
            assert given.headers["x-request-id"] == "mine-1"
            await client.post("/v1/complete", json={"context": {"age": "34 or so"}}, headers={"X-Request-ID": "a b"})

    with caplog.at_level(logging.INFO, logger="contextual_bert.server.requests"):
        asyncio.run(run())
    lines = [json.loads(JsonLines().format(each)) for each in caplog.records if each.getMessage() == "request"]
    assert [(line["route"], line["status"]) for line in lines] == [("/v1/complete", 200), ("/v1/complete", 422)]
    assert {"milliseconds", "batch", "queue_milliseconds", "model_milliseconds", "version"} <= set(lines[0])
    assert (lines[0]["request_id"], lines[1]["request_id"] == "a b") == ("mine-1", False)
    assert ("34" in json.dumps([line.get("contexts") for line in lines])) is has_contexts
    assert all("contexts" in line for line in lines) is has_contexts
    assert ("34 or so" in caplog.text) is False
