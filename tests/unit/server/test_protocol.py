"""OpenAPI says what this run takes and what comes back, and keeps its word."""

import asyncio
import re
from contextlib import suppress
from typing import Any, get_type_hints

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Numerical, Vector
from contextual_bert.inference import CompletionPipeline, Explanation, JointAnswer, query_model
from contextual_bert.server import ServerSettings, create_app
from contextual_bert.server.protocol import context_model, query_for


def document(pipeline: Any) -> dict[str, Any]:
    return create_app(pipeline, settings=ServerSettings(max_set_length=9)).openapi()


def test_the_features_of_the_run_stand_in_the_document(pipeline: CompletionPipeline) -> None:
    schemas = document(pipeline)["components"]["schemas"]
    context = schemas["Context"]
    assert set(context["properties"]) == {"gender", "age", "brands", "month", "date"}
    assert context["additionalProperties"] is False
    known = context["properties"]["gender"]["anyOf"][0]
    assert known["enum"] == ["female", "male"]
    assert context["properties"]["age"]["examples"] == [30.0, 60.0]
    assert schemas["Query"]["properties"]["items"]["maxItems"] == 9
    assert {"in_stock", "where", "budget", "at_most_one_per"} <= set(schemas["Query"]["properties"])
    assert set(schemas["Answer"]["required"]) == {"items", "slots", "unknown_items", "unknown_context", "notes"}
    assert schemas["Slot"]["properties"]["candidates"]["items"]["$ref"].endswith("/Candidate")


def test_what_a_query_may_say_is_what_the_constraints_say_and_no_more_of_it() -> None:
    limits = ServerSettings(max_conditions=5, max_one_per=3)
    described = query_for(None, limits).model_json_schema()["properties"]
    registered = query_model().model_json_schema()["properties"]
    [a_list, _, short_form, _] = registered["where"]["anyOf"]
    a_list["maxItems"], short_form["maxProperties"] = 5, 5
    registered["at_most_one_per"]["anyOf"][1]["maxItems"] = 3
    for key in registered.keys() - {"items", "context"}:
        assert described[key] == registered[key]
    assert list(described) == list(registered)


def test_items_alike_are_asked_for_with_what_a_query_has_beside_its_set(pipeline: CompletionPipeline) -> None:
    found = document(pipeline)
    schemas = found["components"]["schemas"]
    operation = found["paths"]["/v1/similar"]["post"]
    many, one = operation["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    assert one == many["items"] == {"$ref": "#/components/schemas/SimilarQuery"} and many["maxItems"] == 64
    asked, whole = schemas["SimilarQuery"], schemas["Query"]
    assert asked["required"] == ["item"] and asked["additionalProperties"] is False
    assert {*asked["properties"]} == {"item", "context", "guidance", "allow", "deny", "owned", "in_stock", "where"} | {
        "max_price"
    }
    assert all(asked["properties"][key] == whole["properties"][key] for key in asked["properties"] if key != "item")
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert {"$ref": "#/components/schemas/SimilarAnswer"} in answer["anyOf"]


def test_studies_take_one_query_and_say_what_comes_back(pipeline: CompletionPipeline) -> None:
    found = document(pipeline)
    schemas = found["components"]["schemas"]
    for path, record in (("/v1/complete-jointly", JointAnswer), ("/v1/explain", Explanation)):
        operation = found["paths"][path]["post"]
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": "#/components/schemas/Query"}
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer == {"$ref": f"#/components/schemas/{record.__name__}"}
        assert set(schemas[record.__name__]["required"]) == set(get_type_hints(record))
        assert {"409", "422", "429", "503", "504"} <= set(operation["responses"])
    taken = {
        path: [each["name"] for each in found["paths"][path]["post"]["parameters"]]
        for path in ("/v1/complete-jointly", "/v1/explain")
    }
    assert taken == {
        "/v1/complete-jointly": ["num_completions", "diversity", "method", "seed", "deadline_milliseconds"],
        "/v1/explain": ["item", "slot", "deadline_milliseconds"],
    }
    for name, of_it in (
        ("fields", "FieldContribution"), ("other_items", "ItemContribution"), ("counterfactuals", "Counterfactual")
    ):  # fmt: skip
        described = schemas["Explanation"]["properties"][name]
        assert (described["type"], described["items"]["$ref"].rpartition("/")[2]) == ("array", of_it)


def test_components_have_names_that_openapi_allows(tools: Any, pipeline: CompletionPipeline) -> None:
    components = create_app(pipeline, settings=ServerSettings(api_key=tools.key)).openapi()["components"]
    assert list(components["securitySchemes"]) == ["ApiKey"]
    for name in (name for kind in components.values() for name in kind):
        assert re.fullmatch(r"[a-zA-Z0-9._-]+", name), name


def test_kinds_of_features() -> None:
    many = tuple(f"city {number}" for number in range(80))
    schema = ContextSchema(
        features=(
            Categorical(name="city", values=many),
            MultiCategorical(name="class", values=("a",), source="raw class", separator=","),
            Vector(name="photo", size=3),
            Numerical(name="_year", edges=(2010, 2020), source="day", part="year"),
            Numerical(name="income", edges=()),
        )
    )
    described = context_model(schema).model_json_schema()["properties"]
    assert set(described) == {"city", "class", "raw class", "photo", "_year", "day", "income"}
    city = described["city"]["anyOf"][0]
    assert "enum" not in city
    assert city["examples"] == list(many[:10])
    assert {"type": "string"} in described["class"]["anyOf"]
    assert (described["photo"]["anyOf"][0]["minItems"], described["photo"]["anyOf"][0]["maxItems"]) == (3, 3)
    assert "pattern" in described["day"]["anyOf"][0]


def test_a_model_without_a_context_takes_any() -> None:
    properties = query_for(None, ServerSettings()).model_json_schema()
    assert properties["$defs"]["Context"]["additionalProperties"] is True


def test_the_document_follows_the_version(tools: Any) -> None:
    schema = ContextSchema(features=(Categorical(name="shoe_size", values=("40", "41")),))
    app = create_app(tools.make_pipeline(), load=lambda: tools.make_pipeline(schema=schema))
    assert "age" in app.openapi()["components"]["schemas"]["Context"]["properties"]
    app.serving.reload()
    assert set(app.openapi()["components"]["schemas"]["Context"]["properties"]) == {"shoe_size"}


# What the catalogue holds, or that a key needs another, no schema can say: 422 may answer any query.
LEFT_OUT = {"positive_data_acceptance"}


@pytest.mark.slow
def test_the_server_keeps_to_its_document(tools: Any) -> None:
    num_operations, statuses = keeps_to_its_document(tools.app(tools.make_pipeline()))
    assert num_operations == 11
    paths = ("/v1/complete", "/v1/complete-jointly", "/v1/explain", "/v1/items")
    assert {(path, status) for path in paths for status in (200, 422)} <= statuses
    assert not [each for each in statuses if each[1] >= 500]


@pytest.mark.slow
@pytest.mark.parametrize("make", ["make_pipeline", "make_text_pipeline"])
def test_a_server_of_prediction_sets_keeps_to_its_document(tools: Any, make: str) -> None:
    _, statuses = keeps_to_its_document(tools.app(tools.calibrated(getattr(tools, make)())))
    asked = "/v1/complete" if make == "make_pipeline" else "/v1/predict"
    assert {(asked, 200), (asked, 422)} <= statuses
    assert not [each for each in statuses if each[1] >= 500]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "explained"),
    [("label", 200), ("number", 409), ("tags", 409), ("answer", 409), ("pairs", 200), ("words", 409)],
)
def test_a_server_of_texts_keeps_to_its_document(tools: Any, head: str, explained: int) -> None:
    app = tools.app(tools.make_text_pipeline(head, field_dropout=0.2))
    num_operations, statuses = keeps_to_its_document(app)
    assert num_operations == 7
    given = {("/v1/predict", 200), ("/v1/predict", 422), ("/v1/explain", explained), ("/v1/explain", 422)}
    assert given <= statuses
    assert not [each for each in statuses if each[1] >= 500]


def keeps_to_its_document(app: Any) -> tuple[int, set[tuple[str, int]]]:
    """The number of operations of an app, and what it answers to requests that its document allows, or does not."""
    load_all_checks()
    kept = [check for check in CHECKS.get_all() if check.__name__ not in LEFT_OUT]
    statuses: set[tuple[str, int]] = set()
    with TestClient(app) as client:
        operations = [each.ok() for each in schemathesis.openapi.from_dict(app.openapi()).get_all_operations()]
        for operation in operations:
            for mode in GenerationMode:

                @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
                @given(case=operation.as_strategy(generation_mode=mode))
                def keeps_its_word(case: Any) -> None:
                    request = case.as_transport_kwargs(base_url="http://testserver")
                    names = ("method", "url", "headers", "params", "json")
                    known = {name: request[name] for name in names if name in request}
                    deadline = known.get("params", {}).get("deadline_milliseconds")
                    if isinstance(deadline, int) and 0 < deadline < 5000:  # allowed, and this is no test of speed
                        known["params"]["deadline_milliseconds"] = 5000
                    response = client.request(**known, content=request.get("data"))
                    statuses.add((case.operation.path, response.status_code))
                    # A body that is too large is refused before it is read, which this check does not know.
                    is_read = response.status_code != 413
                    checks = [each for each in kept if is_read or each.__name__ != "negative_data_rejection"]
                    case.validate_response(response, checks=checks)

                with suppress(Unsatisfiable):  # nothing can be wrong in a request without parameters
                    keeps_its_word()
    return len(operations), statuses


def test_schema_and_items(tools: Any, pipeline: CompletionPipeline) -> None:
    async def run() -> list[Any]:
        async with tools.served(tools.app(pipeline)) as client:
            urls = ("/v1/schema", "/v1/items?text=A&limit=2", "/v1/items?text=sc&match=prefix", "/v1/items?offset=99")
            return [(await client.get(url)).json() for url in urls]

    schema, page, prefix, beyond = asyncio.run(run())
    assert [each["name"] for each in schema["features"]] == ["gender", "age", "brands", "month"]
    assert schema["features"][3]["reads"] == "date"
    assert schema["counts"] == {"items": 8, "items_in_catalogue": 7, "in_stock": 6}
    assert {"budget", "budget_includes_visible"} <= {key for each in schema["constraints"] for key in each["keys"]}
    assert schema["limits"]["max_queries"] == 64
    assert page["total"] == 4  # coat, hat, bag, scarf
    assert [each["item"] for each in page["items"]] == ["coat", "hat"]
    assert page["items"][0] == {"item": "coat", "in_stock": True, "attributes": {"category": "coat", "price": 90.0}}
    assert [each["item"] for each in prefix["items"]] == ["scarf"]
    assert prefix["items"][0]["attributes"]["price"] is None
    assert beyond == {"total": 8, "offset": 99, "items": []}
