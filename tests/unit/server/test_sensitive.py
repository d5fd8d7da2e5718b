"""Values of sensitive features stand in no document, no problem and no line of the log."""

import asyncio
import json
import logging
from typing import Any

import pytest

from contextual_bert.inference import CompletionPipeline
from contextual_bert.server import ServerSettings
from contextual_bert.server.logs import JsonLines

SENSITIVE = ("gender", "age", "brands", "date")


@pytest.fixture
def private(tools: Any, pipeline: CompletionPipeline) -> CompletionPipeline:
    schema = pipeline.processor.schema
    assert schema is not None
    return tools.make_pipeline(schema=schema.with_sensitive(SENSITIVE))


def test_openapi_and_schema_show_types_and_no_values(tools: Any, private: CompletionPipeline) -> None:
    async def run() -> tuple[Any, Any]:
        async with tools.served(tools.app(private)) as client:
            return (await client.get("/openapi.json")).json(), (await client.get("/v1/schema")).json()

    document, schema = asyncio.run(run())
    context = document["components"]["schemas"]["Context"]["properties"]
    assert set(context) == {"gender", "age", "brands", "month", "date"}
    assert context["gender"]["anyOf"] == [{"type": ["string", "number", "boolean"]}, {"type": "null"}]
    for name in ("gender", "age", "brands", "month"):
        assert "examples" not in context[name] and "enum" not in json.dumps(context[name])
    for text in (json.dumps(document), json.dumps(schema["features"])):
        assert "female" not in text and "acme" not in text
    age = next(each for each in schema["features"] if each["name"] == "age")
    for text in (json.dumps(context["age"]), json.dumps(age)):
        assert "30" not in text and "60" not in text
    assert all(each["values"] is None and each["edges"] is None and each["sensitive"] for each in schema["features"])


@pytest.mark.parametrize(
    ("context", "pointer"),
    [
        ({"age": "secret-1"}, "/context/age"),
        ({"brands": {"secret-1": 1}}, "/context/brands"),
        ({"gender": ["secret-1"]}, "/context/gender"),
        ({"date": "secret-1"}, "/context/date"),
        (["secret-1"], "/context"),
        ({"brands": ["secret-1"] * 5000}, "/context/brands"),
        ({"agee": "secret-1"}, "/context/agee"),
        ("secret-1", "/context"),
    ],
)
def test_problems_and_the_log_do_not_repeat_a_value(
    tools: Any, private: CompletionPipeline, caplog: pytest.LogCaptureFixture, context: Any, pointer: str
) -> None:
    async def run() -> Any:
        app = tools.app(private, settings=ServerSettings(has_contexts_in_logs=True))
        async with tools.served(app) as client:
            return await client.post("/v1/complete", json={"items": ["hat"], "context": context})

    with caplog.at_level(logging.INFO, logger="contextual_bert.server"):
        answer = asyncio.run(run())
    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]
    lines = [JsonLines().format(record) for record in caplog.records]
    assert any("(withheld)" in text for text in (answer.text, *lines))
    for text in (answer.text, *lines):
        assert "secret-1" not in text, text


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"items": ["hat"], "age": "secret-1"}, "/age"),  # beside the context
        ({"items": ["hat"], "agee": "secret-1"}, "/agee"),
        ([{"items": ["hat"]}, "secret-1"], "/1"),
        ([{"items": ["hat"]}, [{"context": {"age": "secret-1"}}]], "/1"),
        ("secret-1", ""),
    ],
)
def test_a_value_in_the_wrong_place_is_not_repeated(
    tools: Any, private: CompletionPipeline, caplog: pytest.LogCaptureFixture, body: Any, pointer: str
) -> None:
    async def run() -> Any:
        app = tools.app(private, settings=ServerSettings(has_contexts_in_logs=True))
        async with tools.served(app) as client:
            return await client.post("/v1/complete", json=body)

    with caplog.at_level(logging.INFO, logger="contextual_bert.server"):
        answer = asyncio.run(run())
    assert [(each["pointer"], each["value"]) for each in answer.json()["errors"]] == [(pointer, "(withheld)")]
    for text in (answer.text, *(JsonLines().format(record) for record in caplog.records)):
        assert "secret-1" not in text, text


def test_unknown_values_are_counted_and_not_repeated(
    tools: Any, private: CompletionPipeline, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> Any:
        app = tools.app(private, settings=ServerSettings(has_contexts_in_logs=True))
        async with tools.served(app) as client:
            query = {"items": ["hat"], "context": {"gender": "secret-1", "brands": ["secret-2"]}}
            explained = await client.post("/v1/explain", json={"items": ["hat", "[MASK]"], "context": query["context"]})
            return await client.post("/v1/complete", json=query), explained

    with caplog.at_level(logging.INFO, logger="contextual_bert.server"):
        answer, explained = asyncio.run(run())
    assert answer.json()["unknown_context"] == {"gender": ["(withheld)"], "brands": ["(withheld)"]}
    assert explained.status_code == 200
    for text in (answer.text, explained.text, *(JsonLines().format(record) for record in caplog.records)):
        assert "secret" not in text and "female" not in text
