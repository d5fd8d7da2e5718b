"""What /v1/schema and /v1/items say of the catalogue, against what stands in the table."""

import asyncio
import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextual_bert.context import FeatureLayout
from contextual_bert.inference import Catalogue, CompletionPipeline
from contextual_bert.item_features import ItemLayout
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.server import ServerSettings, column_descriptions, state
from contextual_bert.server.column_descriptions import attributes_of

CALLED = {"coat": "Grey Parka", "hat": "Bowler", "bag": None, "belt": "Belt of leather", "17": "Coat hanger"}


def shop_with(pipeline: CompletionPipeline, columns: dict[str, Any]) -> CompletionPipeline:
    catalogue = Catalogue(pa.table({"id": list(CALLED), **columns}), pipeline.processor.items)
    return CompletionPipeline(pipeline.model, pipeline.processor, catalogue=catalogue)


def get(tools: Any, pipeline: Any, *addresses: str, **limits: Any) -> list[Any]:
    async def run() -> list[Any]:
        async with tools.served(tools.app(pipeline, settings=ServerSettings(**limits))) as client:
            return [await client.get(address) for address in addresses]

    return asyncio.run(run())


def found(response: Any) -> tuple[int, list[str]]:
    assert response.status_code == 200, response.text
    return response.json()["total"], [each["item"] for each in response.json()["items"]]


def test_each_kind_of_column() -> None:
    many = [f"word {number:02d}" for number in range(51)]
    rows = len(many)
    rest: list[Any] = [None] * (rows - 3)
    table = pa.table(
        {
            "text": ["b", "a", "b", *rest],
            "many": many,
            "few": [*many[:50], None],
            "large": pa.array(["b", None, "a", *rest], pa.large_string()),
            "coded": pa.array(["b", None, "a", *rest]).dictionary_encode(),
            "whole": [3, None, -4, *rest],
            "real": [float("nan"), float("inf"), 2.5, *rest],
            "decimal": [Decimal("9.90"), None, Decimal("1.10"), *rest],
            "coded number": pa.array([7, None, 3, *rest]).dictionary_encode(),
            "empty": pa.array([None] * rows, pa.float64()),
            "flag": [True, None, False, *rest],
            "words": [["x", "a"], [], ["a", None], *rest],
            "many words": [many, [], None, *rest],
            "numbers": [[1, 2], [], None, *rest],
            "day": [datetime.date(2016, 3, 5), None, None, *rest],
            "nothing": pa.nulls(rows),
            "record": [{"a": 1}, None, None, *rest],
        }
    )
    described = {each["name"]: tuple(each.values())[1:] for each in attributes_of(table)}
    assert described == {
        "text": ("text", ["a", "b"], None, None),
        "many": ("text", None, None, None),
        "few": ("text", many[:50], None, None),
        "large": ("text", ["a", "b"], None, None),
        "coded": ("text", ["a", "b"], None, None),
        "whole": ("number", None, -4.0, 3.0),
        "real": ("number", None, 2.5, 2.5),
        "decimal": ("number", None, 1.1, 9.9),
        "coded number": ("number", None, 3.0, 7.0),
        "empty": ("number", None, None, None),
        "flag": ("flag", None, None, None),
        "words": ("list", ["a", "x"], None, None),
        "many words": ("list", None, None, None),
        "numbers": ("list", None, None, None),
        "day": ("other", None, None, None),
        "nothing": ("other", None, None, None),
        "record": ("other", None, None, None),
    }


def test_the_schema_describes_the_catalogue_of_its_version_once(
    tools: Any, pipeline: CompletionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def counted(table: pa.Table) -> Any:
        asked.append(table.column_names)
        return column_descriptions.attributes_of(table)

    monkeypatch.setattr(state, "attributes_of", counted)
    later = shop_with(pipeline, {"colour": ["red", "red", "blue", None, None]})

    async def run() -> list[Any]:
        app = tools.app(pipeline, load=lambda: later)
        async with tools.served(app) as client:
            before = [(await client.get("/v1/schema")).json()["attributes"] for _ in range(3)]
            app.serving.reload()
            return [*before, (await client.get("/v1/schema")).json()["attributes"]]

    first, second, third, after = asyncio.run(run())
    ids = sorted(["coat", "hat", "bag", "belt", "shoes", "17", "scarf"])  # the model knows no kilt, the shop no tie
    assert first == second == third
    assert first[0] == {"name": "id", "kind": "text", "values": ids, "lowest": None, "highest": None}
    assert {each["name"]: (each["kind"], each["lowest"], each["highest"]) for each in first[1:]} == {
        "category": ("text", None, None), "price": ("number", 5.0, 90.0), "in_stock": ("flag", None, None)
    }  # fmt: skip
    assert after[1] == {"name": "colour", "kind": "text", "values": ["blue", "red"], "lowest": None, "highest": None}
    assert asked == [["id", "category", "price", "in_stock"], ["id", "colour"]]


def test_without_a_catalogue_there_are_no_attributes(tools: Any) -> None:
    (schema,) = get(tools, tools.make_pipeline(has_catalogue=False), "/v1/schema", max_completions=7)
    assert schema.json()["attributes"] == []
    limits = schema.json()["limits"]
    assert {name: limits[name] for name in ("max_completions", "max_forward_passes", "max_computations")} == {
        "max_completions": 7, "max_forward_passes": 1000, "max_computations": 16
    }  # fmt: skip
    assert (limits["max_exact_fields"], limits["computation_deadline_seconds"]) == (10, 30)
    assert all(isinstance(value, int | float) for value in limits.values())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.one_of(st.text("coatCOAT 17eßé%_.\\", max_size=3), st.sampled_from(["PARKA", "coat h", "bELT"])),
    match=st.sampled_from(["substring", "prefix"]),
)
def test_a_text_finds_ids_and_names(tools: Any, pipeline: CompletionPipeline, text: str, match: str) -> None:
    shop = shop_with(pipeline, {"name": list(CALLED.values())})
    (response,) = get(tools, shop, f"/v1/items?text={quote(text)}&match={match}")

    def fits(name: str | None) -> bool:
        lower = (name or "").lower()
        return name is not None and (lower.startswith(text.lower()) if match == "prefix" else text.lower() in lower)

    expected = [item for item in tools.items if fits(item) or fits(CALLED.get(item))]
    assert found(response) == (len(expected), expected)


@pytest.mark.parametrize("names", [[3, 1, 4, 1, 5], [["Parka"], [], None, [], []], [None] * 5])
def test_names_that_are_no_text_are_not_searched(tools: Any, pipeline: CompletionPipeline, names: Any) -> None:
    responses = get(tools, shop_with(pipeline, {"name": names}), "/v1/items?text=1", "/v1/items?text=parka")
    assert [found(each) for each in responses] == [(1, ["17"]), (0, [])]


def test_items_by_id(tools: Any, pipeline: CompletionPipeline) -> None:
    many = "&".join(f"item={item}" for item in tools.items)
    asked = {
        "item=tie&item=kilt&item=coat&item=[MASK]&item=coat": (3, ["tie", "coat", "coat"]),
        "item=17&text=": (1, ["17"]),
        "item=CO": (0, []),
        many: (8, list(tools.items)),
        f"{many}&limit=3&offset=2": (8, list(tools.items[2:5])),
    }
    responses = get(tools, pipeline, *(f"/v1/items?{each}" for each in asked), max_page=8)
    assert [found(each) for each in responses] == list(asked.values())
    assert responses[0].json()["items"][1] == {
        "item": "coat", "in_stock": True, "attributes": {"category": "coat", "price": 90.0}
    }  # fmt: skip
    page, both, too_many = get(
        tools, pipeline, "/v1/items", "/v1/items?item=coat&text=co", f"/v1/items?{many}&item=tie", max_page=8
    )
    assert found(page)[0] == 8 and len(found(page)[1]) == 8
    assert [each.status_code for each in (both, too_many)] == [422, 422]
    assert [each.json()["errors"][0]["parameter"] for each in (both, too_many)] == ["item", "item"]


def test_a_silenced_feature_is_named_as_one(tools: Any, pipeline: CompletionPipeline) -> None:
    schema = pipeline.processor.schema
    assert schema is not None
    silenced = tools.make_pipeline(schema=schema.with_silenced(["age"]))
    described, document = (each.json() for each in get(tools, silenced, "/v1/schema", "/openapi.json"))
    assert [each["name"] for each in described["features"] if each["silenced"]] == ["age"]
    properties = document["components"]["schemas"]["Context"]["properties"]
    assert [name for name, each in properties.items() if each["description"].startswith("Checked and not")] == ["age"]


def test_new_items_are_said_where_items_have_features(tools: Any, pipeline: CompletionPipeline) -> None:
    layout = ItemLayout((FeatureLayout("colour", "categorical", 5, 0, 8),), num_places=1).to_dict()
    model = tools.make_pipeline(item_features=layout).model
    model.bert.embeddings.attributes.is_new[3 + tools.items.index("hat")] = True
    featured = CompletionPipeline(model, pipeline.processor, catalogue=pipeline.catalogue)
    asked = ("/v1/items?item=hat&item=coat", "/v1/schema")
    items, schema = get(tools, featured, *asked)
    assert [each["is_new"] for each in items.json()["items"]] == [True, False]
    assert schema.json()["counts"]["new_items"] == 1
    fewer = ContextualBertProcessor.from_items(tools.items, pipeline.processor.schema)
    fewer.removed_items = ("coat",)
    (items,) = get(tools, CompletionPipeline(pipeline.model, fewer), asked[0])
    assert [each["is_removed"] for each in items.json()["items"]] == [False, True]
    plain, schema = get(tools, pipeline, *asked)
    assert [{*each} for each in plain.json()["items"]] == [{"item", "in_stock", "attributes"}] * 2
    assert "new_items" not in schema.json()["counts"]
