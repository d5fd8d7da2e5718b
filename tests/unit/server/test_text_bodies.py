"""The document of a run of texts names its texts, its features and the limits, and follows the version."""

from typing import Any

import pytest

from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.texts.text_queries import TextQueryForm
from contextual_bert.server import ServerSettings, create_app
from contextual_bert.server.text_bodies import text_query_for


def body_of(app: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    document = app.openapi()
    body = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return body, document["components"]["schemas"]


def test_the_document_says_what_this_run_takes(tools: Any) -> None:
    app = create_app(tools.make_text_pipeline("answer"), settings=ServerSettings(max_queries=9))
    body, schemas = body_of(app)
    one = {"$ref": "#/components/schemas/TextQuery"}
    assert body == {"anyOf": [one, {"type": "array", "items": one, "maxItems": 9}]}
    query = schemas["TextQuery"]
    assert query["required"] == ["question", "text"] and query["additionalProperties"] is False
    assert set(query["properties"]) == {"question", "text", "context"}
    assert query["properties"]["text"]["maxLength"] == 20_000
    assert set(schemas["Context"]["properties"]) == {"guest", "age", "tastes", "month", "date"}
    assert schemas["Context"]["properties"]["guest"]["anyOf"][0]["enum"] == ["student", "family"]
    assert {"answer", "start", "end"} <= {*schemas["TextSpan"]["required"]}
    paths = {path for path in app.openapi()["paths"] if path.startswith("/v1")}
    assert paths == {"/v1/predict", "/v1/explain", "/v1/schema", "/v1/admin/reload"}


@pytest.mark.parametrize(
    ("form", "required"),
    [
        (TextQueryForm("tags"), ["text"]),
        (TextQueryForm("label", "required"), ["text", "pair"]),
        (TextQueryForm("number", "optional"), ["text"]),
    ],
)
def test_each_form_has_its_own_body(form: TextQueryForm, required: list[str]) -> None:
    schema = text_query_for(form, None, ServerSettings()).model_json_schema()
    assert schema["required"] == required
    assert {*schema["properties"]} == {*form.keys}


def test_words_are_a_list_or_a_text() -> None:
    schema = text_query_for(TextQueryForm("tags"), None, ServerSettings()).model_json_schema()
    assert [each["type"] for each in schema["properties"]["text"]["anyOf"]] == ["array", "string"]


def test_the_document_follows_the_version(tools: Any) -> None:
    schema = ContextSchema(features=(Categorical(name="floor", values=("1", "2")),))
    first, second = tools.make_text_pipeline(), tools.make_text_pipeline(schema=schema)
    app = create_app(first, load=lambda: second)
    assert "age" in body_of(app)[1]["Context"]["properties"]
    app.serving.reload()
    assert set(body_of(app)[1]["Context"]["properties"]) == {"floor"}


def test_a_request_may_have_a_whole_text() -> None:
    with pytest.raises(ConfigurationError, match="max_all_characters=100 is less than one text may have: 200 char"):
        ServerSettings(max_text_characters=200, max_all_characters=100)
