"""Runs of texts over HTTP answer as their pipeline does, whoever asks beside, and refuse what it refuses."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import OnnxQuestionAnsweringPipeline, OnnxTextPipeline, explain_text, export_onnx
from contextual_bert.inference.texts.text_queries import TextRequest
from contextual_bert.server import ServerSettings, tried
from contextual_bert.server.text_routes import PREDICT, batched_size

HEADS = ("label", "grades", "labels", "number", "tags", "answer", "text", "pairs", "words")
CONTEXT = {"guest": "student", "age": 34, "tastes": ["vegan"], "date": "2016-03-05"}


@pytest.fixture(scope="module")
def pipelines(tools: Any) -> dict[str, Any]:
    return {head: tools.make_text_pipeline(head) for head in HEADS}


def query_of(head: str, text: Any = "word1 word2 word3", **beside: Any) -> dict[str, Any]:
    second = {"answer": {"question": "word4"}, "pairs": {"pair": "word5 word6"}}
    own = f"{text} [MASK]" if head == "words" and isinstance(text, str) else text
    return {"text": own, **second.get(head, {}), **beside}


def post(tools: Any, pipeline: Any, *bodies: Any, path: str = PREDICT, **limits: Any) -> list[Any]:
    async def run() -> list[Any]:
        app = tools.app(pipeline, settings=ServerSettings(**limits))
        async with tools.served(app) as client:
            found: list[Any] = []
            for body in bodies:
                given: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
                found.append(await client.post(path, **given))
            return found

    return asyncio.run(run())


@pytest.mark.parametrize("head", HEADS)
def test_each_head_answers_as_its_pipeline(tools: Any, pipelines: dict[str, Any], head: str) -> None:
    pipeline = pipelines[head]
    queries = [query_of(head, context=CONTEXT), query_of(head, "word7 strange", context={"guest": "x"}), query_of(head)]
    one, many, none = post(tools, pipeline, queries[1], queries, [])
    assert [each.status_code for each in (one, many, none)] == [200, 200, 200]
    assert tools.same(one.json(), json.loads(json.dumps(pipeline(queries[1]))))
    assert tools.same(many.json(), json.loads(json.dumps(pipeline(queries))))
    assert none.json() == []
    assert one.json()["unknown_context"] == {"guest": ["x"]}
    assert one.headers["x-model-version"] == "1"


@pytest.mark.parametrize("head", ["label", "grades", "pairs"])
def test_a_calibrated_run_answers_with_prediction_sets(tools: Any, head: str) -> None:
    pipeline = tools.calibrated(tools.make_text_pipeline(head))
    queries = [query_of(head, context=CONTEXT), query_of(head, "word7 strange")]
    (found,) = post(tools, pipeline, queries)
    assert found.status_code == 200
    assert tools.same(found.json(), json.loads(json.dumps(pipeline(queries))))
    assert [each["coverage"] for each in found.json()] == [0.9, 0.9]
    assert found.json()[0]["prediction_set"][0] == found.json()[0]["label"]
    app = tools.app(pipeline)
    answers = app.openapi()["paths"][PREDICT]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert "#/components/schemas/SureTextAnswer" in json.dumps(answers)

    async def described() -> Any:
        async with tools.served(app) as client:
            return (await client.get("/v1/schema")).json()["coverage"]

    assert asyncio.run(described()) == 0.9


@pytest.mark.parametrize("head", ["label", "answer"])
def test_an_export_is_served_as_its_run(tools: Any, head: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pipeline = tools.make_text_pipeline(head, field_dropout=0.2)
    pipeline.model.save_pretrained(tmp_path / "run")
    pipeline.processor.save_pretrained(tmp_path / "run")
    export_onnx(type(pipeline).from_pretrained(tmp_path / "run"), tmp_path / "onnx")
    exported: Any = OnnxQuestionAnsweringPipeline if head == "answer" else OnnxTextPipeline
    queries = [query_of(head, context=CONTEXT), query_of(head, "word7 strange", context={"guest": "x"}), query_of(head)]
    made = exported.from_pretrained(tmp_path / "onnx")
    [served, refused] = post(tools, made, queries, query_of(head, 3))
    [unexplained] = post(tools, made, query_of(head), path="/v1/explain")
    reason = "An export of texts is for answers alone" if head == "label" else "this run gives answers to questions"
    assert unexplained.status_code == 409 and reason in unexplained.json()["detail"]
    assert served.status_code == 200 and refused.status_code == 422
    assert tools.same(served.json(), json.loads(json.dumps(pipeline(queries))))


@pytest.mark.parametrize("head", ["label", "labels", "tags", "answer"])
def test_thirty_two_clients_get_the_digits_of_the_pipeline(tools: Any, pipelines: dict[str, Any], head: str) -> None:
    pipeline, chance = pipelines[head], random.Random(3)
    texts = [" ".join(f"word{chance.randint(1, 17)}" for _ in range(chance.randint(1, 24))) for _ in range(96)]
    queries = [query_of(head, text, context={"age": row}) for row, text in enumerate(texts)]
    if head == "label":
        queries[::5] = [{**query, "guidance": 2.5} for query in queries[::5]]

    async def run() -> list[Any]:
        async with tools.served(tools.app(pipeline, settings=ServerSettings(max_batch=16))) as client:

            async def ask(first: int) -> list[Any]:
                return [await client.post(PREDICT, json=query) for query in queries[first::32]]

            return await asyncio.gather(*map(ask, range(32)))

    for first, responses in enumerate(asyncio.run(run())):
        for query, response in zip(queries[first::32], responses, strict=True):
            assert response.status_code == 200, response.text
            assert rounded(response.json()) == rounded(json.loads(json.dumps(pipeline(query))))


def rounded(value: Any) -> Any:
    """The value with five digits behind the point: what a batch changes is beyond them."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return pytest.approx(value, abs=2e-6) if isinstance(value, float) else value


def test_long_texts_are_cut_and_that_is_said(tools: Any, pipelines: dict[str, Any]) -> None:
    [response] = post(tools, pipelines["label"], query_of("label", "word1 " * 40))
    assert response.json()["notes"][0] == "The text is longer than the model reads: its end was not read."
    [blank] = post(tools, pipelines["label"], query_of("label", " "))
    assert blank.json()["notes"][0].startswith("The tokenizer knows no word of the text")
    [tags] = post(tools, pipelines["tags"], query_of("tags", ["word1"] * 40))
    assert tags.json()["label"][-1] is None and len(tags.json()["label"]) == 40


@pytest.mark.parametrize(
    ("head", "body", "pointer", "words"),
    [
        ("label", {"text": 3}, "/text", "3 is no text"),
        ("label", {"text": ""}, "/text", "'' is no text"),
        ("label", {"text": None}, "/text", "None is no text"),
        ("label", {"text": ["word1"]}, "/text", "is no text"),
        ("label", {"text": {"a": 1}}, "/text", "is no text"),
        ("label", {}, "", "is no text"),
        ("label", [{"text": "word1"}, {"text": True}], "/1/text", "True is no text"),
        ("label", {"text": "word1", "items": ["coat"]}, "/items", "unknown key 'items'"),
        ("label", {"text": "word1", "txt": 1}, "/txt", "unknown key 'txt'"),
        ("label", {"text": "word1", "pair": "word2"}, "/pair", "unknown key 'pair'"),
        ("label", {"text": "word1", "guidance": "much"}, "/guidance", "no number between 0 and 100"),
        ("label", {"text": "word1", "context": ["student"]}, "/context", "is not a record"),
        ("label", {"text": "word1", "context": {"gast": 1}}, "/context/gast", "Did you mean 'guest'"),
        ("label", {"text": "word1", "context": {"age": "old"}}, "/context/age", "'old' is a string, not a number"),
        ("label", {"text": "word1", "context": {"tastes": ["a"] * 9}}, "/context/tastes", "Give at most 8"),
        ("label", {"text": "a" * 301}, "/text", "the text has 301 characters"),
        ("label", [{"text": "a" * 300}] * 2, "", "The texts have 600 characters"),
        ("label", [{"text": "a"}] * 5, "", "The list has 5 queries"),
        ("label", "word1", "", "'word1' is not a query"),
        ("label", 7, "", "7 is not a query"),
        ("pairs", {"text": "word1"}, "", "the key 'pair' is missing"),
        ("pairs", {"text": "word1", "pair": 3}, "/pair", "3 is no second text"),
        ("pairs", {"text": "word1", "pair": "a" * 301}, "/pair", "the text has 301 characters"),
        ("tags", {"text": []}, "/text", "[] is no text"),
        ("tags", {"text": ["word1", 3]}, "/text/1", "3 is no word"),
        ("tags", {"text": " "}, "/text", "' ' is no text"),
        ("tags", {"text": ["a" * 150] * 2}, "/text", "the text has 302 characters"),
        ("answer", {"text": "word1"}, "", "None is no text"),
        ("answer", {"text": "word1", "question": "\t"}, "/question", "is no text"),
        ("answer", {"text": "word1", "question": "word2 " * 19}, "/question", "leaves none for its text"),
        ("answer", {"text": "word1", "question": "word2", "guidance": 2}, "/guidance", "unknown key 'guidance'"),
    ],
)
def test_what_is_wrong_is_named_where_it_stands(
    tools: Any, pipelines: dict[str, Any], head: str, body: Any, pointer: str, words: str
) -> None:
    limits: dict[str, Any] = {
        "max_text_characters": 300,
        "max_all_characters": 500,
        "max_queries": 4,
        "max_context_values": 8,
    }
    [response] = post(tools, pipelines[head], body, **limits)
    problem = response.json()
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert words in json.dumps(problem, ensure_ascii=False) or words in problem["detail"]
    if "errors" in problem:
        assert problem["errors"][0]["pointer"] == pointer
    else:
        assert pointer == ""
    assert not any(word in response.text for word in ("Traceback", "contextual_bert/", "pydantic"))


def test_bodies_that_are_no_queries(tools: Any, pipelines: dict[str, Any]) -> None:
    bodies = [b'{"text": "\\ud800"}', b'{"text": "a', b'{"text": "' + b"a" * 1_000_000 + b'"}', b"\xff", b""]
    found = post(tools, pipelines["label"], *bodies)
    assert [each.status_code for each in found] == [400, 400, 422, 400, 400]
    assert "the text has 1,000,000 characters" in found[2].text and len(found[2].text) < 2000
    [large] = post(tools, pipelines["label"], b'{"text": "' + b"a" * (1 << 20) + b'"}')
    assert large.status_code == 413


def test_a_faulty_query_spoils_no_batch(tools: Any, pipelines: dict[str, Any]) -> None:
    queries = [query_of("label", context={"age": age}) for age in (1, "old", 2, {"a": 1}, 3)]

    async def run() -> list[Any]:
        settings = ServerSettings(max_wait_milliseconds=50)
        async with tools.served(tools.app(pipelines["label"], settings=settings)) as client:
            return await asyncio.gather(*(client.post(PREDICT, json=query) for query in queries))

    found = asyncio.run(run())
    assert [each.status_code for each in found] == [200, 422, 200, 422, 200]
    assert [each.json()["errors"][0]["pointer"] for each in found if each.status_code == 422] == ["/context/age"] * 2


def test_pairs_where_the_run_does_not_say_whether_it_has_them(tools: Any) -> None:
    pipeline = tools.make_text_pipeline("pairs")
    pipeline.form = type(pipeline.form)("label", "optional")
    queries = [query_of("label"), query_of("pairs"), query_of("label", pair=None)]

    async def run() -> list[Any]:
        settings = ServerSettings(max_wait_milliseconds=50)
        async with tools.served(tools.app(pipeline, settings=settings)) as client:
            return await asyncio.gather(*(client.post(PREDICT, json=query) for query in queries))

    for query, response in zip(queries, asyncio.run(run()), strict=True):
        assert tools.same(response.json(), pipeline(query))
    [mixed] = post(tools, pipeline, queries[:2])
    assert mixed.status_code == 422 and mixed.json()["errors"][0]["pointer"] == "/0"


def test_long_texts_count_as_several() -> None:
    settings = ServerSettings(max_queue=80)
    assert batched_size([], settings) == 0
    assert batched_size([TextRequest("a"), TextRequest("a" * 2000)], settings) == 2
    assert batched_size([TextRequest("a" * 2001), TextRequest("a", question="a" * 4000)], settings) == 5
    assert batched_size([TextRequest("a" * 20_000)] * 10, settings) == 80


def test_operations_of_sets_are_named_and_not_offered(tools: Any, pipelines: dict[str, Any], pipeline: Any) -> None:
    for path in ("complete", "similar", "complete-jointly", "items", "admin/stock"):
        [response] = post(tools, pipelines["tags"], {"items": ["coat"]}, path=f"/v1/{path}")
        assert response.status_code == 404
        assert "This server has a run of texts and answers /v1/predict" in response.json()["detail"]
    [response] = post(tools, pipeline, {"text": "word1"})
    assert response.status_code == 404
    assert "This server has a run of sets and answers /v1/complete" in response.json()["detail"]


def test_the_other_addresses(tools: Any, pipelines: dict[str, Any], metric: Any) -> None:
    async def run() -> None:
        settings = ServerSettings(api_key=tools.key)
        async with tools.served(tools.app(pipelines["tags"], settings=settings)) as client:
            assert (await client.post(PREDICT, json=query_of("tags"))).status_code == 401
            client.headers["X-API-Key"] = tools.key
            assert (await client.post(PREDICT, json=query_of("tags"))).status_code == 200
            assert (await client.post(f"{PREDICT}?deadline_milliseconds=4000", json=query_of("tags"))).is_success
            assert (await client.post(f"{PREDICT}?top_k=3", json=query_of("tags"))).status_code == 422
            assert (await client.get(PREDICT)).status_code == 405
            for path in ("/healthz", "/readyz"):
                assert (await client.get(path)).status_code == 200
            text = (await client.get("/metrics")).text
            assert metric(text, "batch_queries_sum") == 2
            page = await client.get("/")
            assert page.status_code == 200 and "static/texts.js" in page.text and "/v1/predict" not in page.text
            assert (await client.get("/static/page.css")).status_code == 200
            schema = (await client.get("/v1/schema")).json()
            assert (schema["gives"], schema["texts"], schema["max_tokens"]) == ("tags", ["text"], 20)
            assert schema["required"] == ["text"]
            assert schema["labels"] == ["low", "middle", "high"]
            assert [each["name"] for each in schema["features"]] == ["guest", "age", "tastes", "month"]
            assert {each["name"]: each["is_available"] for each in schema["capabilities"]} == {
                "explain": False,
                "guidance": True,
                "context": True,
            }
            assert schema["limits"]["max_text_characters"] == 20_000 and "max_blanks" not in schema["limits"]

    asyncio.run(run())


def test_a_label_is_explained_as_in_python(tools: Any) -> None:
    for head in ("label", "grades", "labels", "pairs"):
        pipeline = tools.make_text_pipeline(head, field_dropout=0.2)
        query = query_of(head, context=CONTEXT | {"tastes": ["raw"]}, guidance=1.5)
        [best] = post(tools, pipeline, query, path="/v1/explain")
        [one] = post(tools, pipeline, query, path="/v1/explain?label=high")
        for response, label in ((best, None), (one, "high")):
            assert response.status_code == 200, response.text
            expected = json.loads(explain_text(pipeline, query, label=label).to_json())
            assert tools.same(response.json(), expected)
        assert one.json()["label"] == "high" and [each["word"] for each in one.json()["words"]][:1] == ["word1"]
        assert "Unknown values of tastes, treated as unknown: raw." in one.json()["notes"]


@pytest.mark.parametrize(
    ("body", "parameters", "status", "pointer", "words"),
    [
        ([{"text": "word1"}], "", 422, "", "it is a list of queries"),
        (7, "", 422, "", "it is not a query"),
        ({"text": 3}, "", 422, "/text", "3 is no text"),
        ({"text": "word1", "context": {"age": "old"}}, "", 422, "/context/age", "not a number"),
        ({"text": "a" * 301}, "", 422, "/text", "the text has 301 characters"),
        ({"text": "word1"}, "?label=hihg", 422, None, "Did you mean 'high'"),
        ({"text": "word1"}, "?label=" + "a" * 3000, 422, None, "label"),
        ({"text": "word1"}, "?item=coat", 422, None, "the parameter is unknown"),
        ({"text": "word1"}, "?deadline_milliseconds=0", 422, None, "deadline_milliseconds"),
    ],
)
def test_what_cannot_be_explained_is_named_where_it_stands(
    tools: Any, body: Any, parameters: str, status: int, pointer: str | None, words: str
) -> None:
    pipeline = tools.make_text_pipeline("label", field_dropout=0.2)
    [response] = post(tools, pipeline, body, path=f"/v1/explain{parameters}", max_text_characters=300)
    problem = response.json()
    assert response.status_code == status and words in json.dumps(problem, ensure_ascii=False)
    if pointer:
        assert problem["errors"][0]["pointer"] == pointer
    assert not any(word in response.text for word in ("Traceback", "contextual_bert/", "pydantic"))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("label", "trained without field_dropout"),
        ("tags", "this run gives tags of words"),
        ("answer", "this run gives answers to questions"),
        ("text", "this run gives texts"),
        ("number", "this run gives numbers"),
    ],
)
def test_what_a_run_cannot_explain_is_a_conflict_and_said_beforehand(
    tools: Any, pipelines: dict[str, Any], head: str, words: str
) -> None:
    [response] = post(tools, pipelines[head], query_of(head), path="/v1/explain")
    assert response.status_code == 409 and words in response.json()["detail"]

    async def run() -> None:
        async with tools.served(tools.app(pipelines[head])) as client:
            schema = (await client.get("/v1/schema")).json()
            [explain] = [each for each in schema["capabilities"] if each["name"] == "explain"]
            assert not explain["is_available"] and words in explain["reason"]

    asyncio.run(run())


def test_a_reload_answers_with_the_new_run_and_refuses_another_kind(tools: Any, pipeline: Any) -> None:
    first, second = tools.make_text_pipeline("label"), tools.make_text_pipeline("grades")
    loaded = [second, tools.make_text_pipeline("tags"), pipeline]
    query = query_of("label", context=CONTEXT)

    async def run() -> None:
        app = tools.app(first, load=lambda: loaded.pop(0), settings=ServerSettings(api_key=tools.key))
        async with tools.served(app) as client:
            client.headers["X-API-Key"] = tools.key
            assert tools.same((await client.post(PREDICT, json=query)).json(), first(query))
            assert (await client.post("/v1/admin/reload")).json()["number"] == 2
            found = await client.post(PREDICT, json=query)
            assert found.headers["x-model-version"] == "2" and tools.same(found.json(), second(query))
            for _ in range(2):
                assert (await client.post("/v1/admin/reload")).status_code == 500
                assert (await client.post(PREDICT, json=query)).headers["x-model-version"] == "2"
            with pytest.raises(ConfigurationError, match=r"gives items of sets, and .* gives label\. Start another"):
                loaded.append(pipeline)
                app.serving.reload()

    asyncio.run(run())


@pytest.mark.parametrize("head", HEADS)
def test_a_run_is_tried_before_it_serves(pipelines: dict[str, Any], head: str) -> None:
    assert tried(pipelines[head]) is pipelines[head]
