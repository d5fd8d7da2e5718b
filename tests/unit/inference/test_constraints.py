"""Constraints: what each permits, what is said about it, and that no proposal ever breaks one."""

import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contextual_bert.errors import (
    ConfigurationError,
    ContextualBertError,
    DataError,
    QueryError,
    SchemaError,
    UnknownNameError,
)
from contextual_bert.inference import (
    CONSTRAINTS,
    Catalogue,
    CompletionPipeline,
    ConstraintInput,
    OnnxCompletionPipeline,
    constraint,
    export_onnx,
    query_model,
)
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

SHOP: list[dict[str, Any]] = [
    {"id": "parka", "category": "coat", "price": 120.0, "materials": ["wool"], "in_stock": True},
    {"id": "trench", "category": "coat", "price": 80.5, "materials": ["cotton"], "in_stock": True},
    {"id": "beret", "category": "hat", "price": 20.1, "materials": ["wool"], "in_stock": False},
    {"id": "stetson", "category": "hat", "price": 60.2, "materials": ["leather", "felt"], "in_stock": True},
    {"id": "tote", "category": "bag", "price": 30.0, "materials": [], "in_stock": True},
    {"id": "clutch", "category": "bag", "price": None, "materials": ["leather"], "in_stock": True},
    {"id": "boots", "category": "shoes", "price": 90.0, "materials": None, "in_stock": True},
    {"id": "loafers", "category": None, "price": 70.0, "materials": ["suede"], "in_stock": False},
]
ITEMS = [row["id"] for row in SHOP] + ["brooch"]  # the last one is not in the catalogue
ROWS: dict[str, dict[str, Any]] = {row["id"]: row for row in SHOP}


def made(*, catalogue: bool = True) -> CompletionPipeline:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = ContextualBertConfig(vocab_size=len(ITEMS) + 3, initializer_range=0.5, **sizes)
    processor = ContextualBertProcessor.from_items(ITEMS)
    shop = Catalogue(pa.Table.from_pylist(SHOP), processor.items) if catalogue else None
    return CompletionPipeline(ContextualBertForMaskedLM(config), processor, catalogue=shop)


PIPELINE = made()


def answered(query: Mapping[str, Any], pipeline: CompletionPipeline = PIPELINE) -> Any:
    return pipeline(query, top_k=len(ITEMS))


def proposed(query: Mapping[str, Any], slot: int = 0) -> set[str]:
    return {each["item"] for each in answered(query)["slots"][slot]["candidates"]}


def test_a_value_that_nothing_has_is_said() -> None:
    query = {
        "where": [{"attribute": "materials", "not_in": ["Leather", "wool"]}, {"attribute": "category", "equals": "hat"}]
    }
    (note,) = answered(query)["notes"]
    assert note == (
        "where names values of 'materials' that no item of the catalogue has: 'Leather'. Did you mean 'leather'? "
        "Known: 'wool', 'leather', 'cotton', 'felt', 'suede'."
    )
    assert answered({"where": [{"attribute": "price", "at_most": 1000}]})["notes"] == []
    (note,) = answered({"where": [{"attribute": "category", "in": ["hat", "SHOS", "SHOS"]}]})["notes"]
    assert "has: 'SHOS'. Did you mean 'shoes'? Known: " in note
    note = answered({"where": [{"attribute": "category", "equals": "x" * 100_000}]})["notes"][-1]
    assert "Did you mean" not in note
    assert len(note) < 500


def test_owned_is_not_proposed_and_said() -> None:
    answer = answered({"items": ["tote"], "owned": ["parka", "beret", "kilt"]})
    assert {each["item"] for each in answer["slots"][0]["candidates"]}.isdisjoint({"parka", "beret", "tote"})
    assert answer["notes"] == [
        "owned names 1 unknown item to no effect: kilt.",
        "Owned, and so not proposed: parka, beret.",
    ]
    assert answer["slots"][0]["removed"] == {"owned": 2, "repeats": 1}


def test_in_stock_follows_the_catalogue_while_serving() -> None:
    pipeline = made()
    assert pipeline.catalogue is not None
    query = {"items": [], "in_stock": True}
    before = {each["item"] for each in answered(query, pipeline)["slots"][0]["candidates"]}
    assert before == {row["id"] for row in SHOP if row["in_stock"]}
    pipeline.catalogue.set_stock(["parka", "tote"], False)
    pipeline.catalogue.set_stock(["beret"], True)
    after = {each["item"] for each in answered(query, pipeline)["slots"][0]["candidates"]}
    assert after == before - {"parka", "tote"} | {"beret"}
    assert len(answered({"in_stock": False}, pipeline)["slots"][0]["candidates"]) == len(ITEMS)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"category": "coat"}, {"parka", "trench"}),
        ({"category": ["hat", "bag"]}, {"beret", "stetson", "tote", "clutch"}),
        ({"category": "hat", "materials": "wool"}, {"beret"}),
        ({"materials": {"not_in": ["leather", "suede"]}}, {"parka", "trench", "beret", "tote"}),
        ({"price": {"at_least": 60, "at_most": 90}}, {"trench", "stetson", "boots", "loafers"}),
        ({"price": 90}, {"boots"}),
        ({"in_stock": False}, {"beret", "loafers"}),
        ([{"attribute": "category", "in": ["hat"]}, {"attribute": "price", "at_most": 30}], {"beret"}),
        ({"attribute": "category", "equals": "coat"}, {"parka", "trench"}),
        ({"category": "cape"}, set()),
        ({"price": {"above": 80.5}}, {"parka", "boots"}),
        ({"price": {"above": "60.2", "below": 90}}, {"trench", "loafers"}),
        ({"category": {"above": "coat", "at_most": "hat"}}, {"beret", "stetson"}),
        ({"category": np.array(["hat", "bag"])}, {"beret", "stetson", "tote", "clutch"}),
        ([], set(ITEMS)),
    ],
)
def test_where(where: Any, expected: set[str]) -> None:
    assert proposed({"where": where}) == expected


def test_where_for_one_blank() -> None:
    query = {
        "items": ["[MASK]", "tote", "[MASK]"],
        "where": [
            {"attribute": "category", "equals": "coat", "blank": 0},
            {"attribute": "category", "equals": "hat", "blank": 1},
            {"attribute": "materials", "in": ["wool"]},
        ],
    }
    assert (proposed(query, 0), proposed(query, 1)) == ({"parka"}, {"beret"})


def test_max_price_and_budget_of_one_blank_are_the_same() -> None:
    for price in (0, 20.1, 60, 70, 1000):
        expected = {row["id"] for row in SHOP if row["price"] is not None and row["price"] <= price}
        assert proposed({"max_price": price}) == proposed({"budget": price}) == expected


def test_a_budget_over_several_blanks_leaves_enough_for_the_cheapest_others() -> None:
    query = {
        "items": ["[MASK]", "[MASK]"],
        "budget": 110.3,
        "where": [{"attribute": "category", "equals": "hat", "blank": 0}],
    }
    answer = answered(query)
    assert proposed(query, 0) == {"beret", "stetson"}
    assert proposed(query, 1) == {"trench", "beret", "stetson", "tote", "boots", "loafers"}  # up to 110.3 - 20.1
    assert "may break budget. complete_jointly" in answer["notes"][-1]
    assert proposed({**query, "budget": 20.09}, 0) == set()


def test_a_budget_that_includes_the_set() -> None:
    query = {"items": ["tote", "trench"], "budget": 170.7}
    assert "parka" in proposed(query)
    assert proposed({**query, "budget_includes_visible": True}) == {"beret", "stetson"}
    with pytest.raises(DataError, match=r"query 1, budget_includes_visible: .*price of clutch, kilt is unknown"):
        answered({"items": ["clutch", "kilt"], "budget": 9, "budget_includes_visible": True})


def test_cents_do_not_break_a_budget() -> None:
    query = {"items": ["stetson", "[MASK]"], "budget": 60.2 + 20.1, "budget_includes_visible": True}
    assert 80.3 - 60.2 < 20.1  # as floats are
    assert proposed({**query, "budget": 80.3}) == {"beret"}


def test_at_most_one_per_category() -> None:
    assert proposed({"items": ["parka", "tote", "brooch"], "at_most_one_per": "category"}) == {
        "beret",
        "stetson",
        "boots",
    }
    assert proposed({"items": [], "at_most_one_per": ["category"]}) == set(ITEMS) - {"loafers", "brooch"}


def test_excluded_probability_is_the_models() -> None:
    everything = {
        each["item"]: each["probability"]
        for each in answered({"repeats": True, "items": ["tote"]})["slots"][0]["candidates"]
    }
    slot = answered({"items": ["tote"], "where": {"category": ["coat", "hat"]}})["slots"][0]
    kept = {"parka", "trench", "beret", "stetson"}
    assert slot["excluded_probability"] == pytest.approx(1 - sum(everything[item] for item in kept))
    assert slot["normalised_over"] == "permitted items"
    for each in slot["candidates"]:
        expected = everything[each["item"]] / (1 - slot["excluded_probability"])
        assert each["probability"] == pytest.approx(expected, rel=1e-4)
    assert answered({"items": []})["slots"][0]["excluded_probability"] == 0


def test_the_reason_names_the_constraint_that_took_the_last_item() -> None:
    answer = answered({"items": ["tote"], "where": {"category": "hat"}, "max_price": 50, "deny": ["beret"]})
    slot = answer["slots"][0]
    assert (slot["candidates"], slot["num_permitted"], slot["excluded_probability"]) == ([], 0, 1)
    assert slot["reason"] == "No item is left after max_price: of 9 items, deny took 1, where took 7, max_price took 1."
    assert answer["notes"] == [f"Item 2: {slot['reason']}"]


FAULTS: list[tuple[Any, type[ContextualBertError], tuple[int | str, ...], str]] = [
    ({"max_price": -1}, QueryError, ("max_price",), "-1 is not allowed. Give 0 or more"),
    ({"max_price": "ten"}, QueryError, ("max_price",), "'ten' is not allowed. Give a number"),
    ({"max_price": True}, QueryError, ("max_price",), "True is not allowed"),
    ({"budget": float("nan")}, QueryError, ("budget",), "nan is not allowed. Give a finite number"),
    ({"in_stock": 1}, QueryError, ("in_stock",), "1 is neither true nor false"),
    ({"owned": "parka"}, QueryError, ("owned",), "'parka' is not a list of items. Give a list: \"owned\""),
    ({"owned": ["parka", {}]}, QueryError, ("owned", 1), ""),
    ({"budget_includes_visible": True}, QueryError, ("budget_includes_visible",), "it belongs to budget"),
    ({"where": {"categry": "coat"}}, UnknownNameError, ("where", "categry"), "Did you mean 'category'"),
    ({"where": {"category": {"at_most": 3}}}, QueryError, ("where", "category"), "'category' holds no numbers"),
    ({"where": {"price": {"at_most": "x"}}}, QueryError, ("where", "price", "at_most"), "'price' holds numbers"),
    ({"where": {"price": {"above": [3]}}}, QueryError, ("where", "price", "above"), r"\[3\] is no limit"),
    ({"where": {"price": {"atmost": 3}}}, UnknownNameError, ("where", "price", "atmost"), "Did you mean 'at_most'"),
    ({"where": [{"equals": 3}]}, QueryError, ("where", 0), "the key 'attribute' is missing. Give"),
    ({"where": [{"attribute": "price"}]}, QueryError, ("where", 0), "the condition .* tests nothing"),
    ({"where": [{"attribute": "price", "in": [[1]]}]}, QueryError, ("where", 0, "in", 0), r"\[1\] is a list"),
    (
        {"where": [{"attribute": "price", "equals": 1, "blank": 1}]},
        QueryError,
        ("where", 0, "blank"),
        "there is no blank 1",
    ),
    (
        {"where": {"price": {"attribute": "category", "at_most": 3}}},
        QueryError,
        ("where",),
        "the condition on 'price' names the attribute 'category', too",
    ),
    ({"where": "coat"}, QueryError, ("where",), '\'coat\' is not allowed.*short {"category": "coat"}'),
    ({"at_most_one_per": "colour"}, UnknownNameError, ("at_most_one_per",), "no attribute 'colour'"),
    ({"at_most_one_per": ["category", "colour"]}, UnknownNameError, ("at_most_one_per", 1), "no attribute 'colour'"),
    ({"at_most_one_per": "materials"}, SchemaError, ("at_most_one_per",), "'materials' holds lists"),
]


@pytest.mark.parametrize(("query", "kind", "keys", "message"), FAULTS)
def test_a_faulty_constraint_is_named_by_row_and_path(
    query: Any, kind: type[ContextualBertError], keys: tuple[int | str, ...], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        PIPELINE([{"items": ["tote"]}, query])
    assert caught.value.location == (1, *keys)


@pytest.mark.parametrize("query", [{"in_stock": True}, {"max_price": 3}, {"where": {"category": "coat"}}])
def test_without_a_catalogue(query: Any) -> None:
    with pytest.raises(DataError, match=f"query 1, {next(iter(query))}: it needs a catalogue"):
        answered(query, made(catalogue=False))


def test_a_catalogue_of_another_vocabulary() -> None:
    other = ContextualBertProcessor.from_items(ITEMS[:-1])
    catalogue = Catalogue(pa.Table.from_pylist(SHOP), other.items)
    with pytest.raises(ConfigurationError, match="another vocabulary"):
        CompletionPipeline(PIPELINE.model, PIPELINE.processor, catalogue=catalogue)


def test_null_is_as_good_as_absent() -> None:
    empty = dict.fromkeys([key for each in CONSTRAINTS.values() for key in each.keys])
    assert answered({"items": ["tote"], **empty}) == answered({"items": ["tote"]})


def test_the_model_of_a_query_for_servers() -> None:
    model = query_model()
    query = {"items": ["tote", 17], "budget": 3, "where": {"category": "coat"}, "context": {"age": 3}}
    checked = model.model_validate(query).model_dump(by_alias=True, exclude_none=True)
    where = [{"attribute": "category", "equals": "coat"}]
    assert checked == {"items": ["tote", "17"], "budget": 3, "where": where, "context": {"age": 3}}
    assert (
        answered({**checked, "context": {}})["slots"]
        == answered({**query, "items": ["tote", "17"], "context": {}})["slots"]
    )
    assert set(model.model_json_schema()["properties"]) >= {"items", "context", "budget_includes_visible", "where"}


def test_a_key_belongs_to_one_constraint() -> None:
    with pytest.raises(ConfigurationError, match="'mine' has the keys budget of another one"):

        @constraint
        def mine(asked: ConstraintInput, value: float, *, budget: float = 0) -> np.ndarray: ...

    with pytest.raises(ConfigurationError, match="'yours' takes no value"):

        @constraint
        def yours(asked: ConstraintInput) -> np.ndarray: ...


CATEGORIES = ["coat", "hat", "bag", "shoes"]
PRICES = st.sampled_from([0, 20.1, 30, 50, 60.2, 80.5, 100.6, 150, 200])
NAMES = st.lists(st.sampled_from([*ITEMS, "kilt"]), max_size=4, unique=True)
CONDITIONS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"attribute": st.just("category"), "in": st.lists(st.sampled_from(CATEGORIES), max_size=3)}
        ),
        st.fixed_dictionaries({"attribute": st.just("materials"), "not_in": st.just(["leather", "wool"])}),
        st.fixed_dictionaries({"attribute": st.just("price"), "at_most": PRICES}),
        st.fixed_dictionaries({"attribute": st.just("price"), "at_least": PRICES, "blank": st.just(0)}),
    ),
    max_size=2,
)
QUERIES = st.fixed_dictionaries(
    {"items": st.lists(st.sampled_from(["parka", "tote", "stetson", "boots", "[MASK]"]), max_size=4)},
    optional={
        "allow": st.lists(st.sampled_from(ITEMS), min_size=4, unique=True),
        "deny": NAMES,
        "owned": NAMES,
        "repeats": st.booleans(),
        "in_stock": st.booleans(),
        "where": CONDITIONS,
        "max_price": PRICES,
        "budget": PRICES,
        "at_most_one_per": st.just("category"),
    },
)


def price_of(item: str) -> float:
    price = ROWS.get(item, {}).get("price")
    return np.inf if price is None else price


def fulfils(item: str, condition: Mapping[str, Any]) -> bool:
    """A condition on one item, read from the shop's rows alone."""
    value = ROWS.get(item, {}).get(condition["attribute"])
    if value is None:
        return False
    values = value if isinstance(value, list) else [value]
    return (
        ("in" not in condition or any(each in condition["in"] for each in values))
        and ("not_in" not in condition or not any(each in condition["not_in"] for each in values))
        and ("at_most" not in condition or value <= condition["at_most"])
        and ("at_least" not in condition or value >= condition["at_least"])
    )


def may_be(item: str, blank: int, query: Mapping[str, Any]) -> bool:
    """Every constraint but the budget over several blanks, for one item in one blank, the slow way."""
    category = ROWS.get(item, {}).get("category")
    taken = {ROWS.get(each, {}).get("category") for each in query["items"]}
    return (
        item in query.get("allow", ITEMS)
        and item not in query.get("deny", [])
        and item not in query.get("owned", [])
        and (query.get("repeats", False) or item not in query["items"])
        and (not query.get("in_stock", False) or ROWS.get(item, {}).get("in_stock", False))
        and all(fulfils(item, each) for each in query.get("where", []) if each.get("blank") in (None, blank))
        and price_of(item) <= query.get("max_price", np.inf)
        and ("at_most_one_per" not in query or (category is not None and category not in taken))
    )


def brute_force(query: Mapping[str, Any], num_blanks: int) -> list[set[str]]:
    permitted = [{item for item in ITEMS if may_be(item, blank, query)} for blank in range(num_blanks)]
    if "budget" not in query:
        return permitted
    cheapest = [min((price_of(item) for item in items), default=np.inf) for items in permitted]
    kept: list[set[str]] = []
    for blank, items in enumerate(permitted):
        rest = sum(each for other, each in enumerate(cheapest) if other != blank and np.isfinite(each))
        kept.append({item for item in items if price_of(item) + rest <= query["budget"] + 1e-6})
    return kept


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> CompletionPipeline:
    """The same pipeline, computed by onnxruntime."""
    folder = tmp_path_factory.mktemp("exported")
    export_onnx(PIPELINE, folder / "onnx", top_k=len(ITEMS) + 3)
    return OnnxCompletionPipeline(folder / "onnx", catalogue=pa.Table.from_pylist(SHOP))


@pytest.mark.parametrize("is_exported", [False, True], ids=["torch", "onnx"])
@settings(max_examples=150, deadline=None, derandomize=True)
@given(query=QUERIES)
def test_proposals_are_those_of_brute_force(
    exported: CompletionPipeline, is_exported: bool, query: dict[str, Any]
) -> None:
    """The same items and probabilities as looking at one item after the other: so no constraint is ever violated."""
    answer = answered(query, exported if is_exported else PIPELINE)
    free = answered({"items": answer["items"], "repeats": True})
    expected = brute_force(query, len(answer["slots"]))
    for slot, whole, items in zip(answer["slots"], free["slots"], expected, strict=True):
        probability = {each["item"]: each["probability"] for each in whole["candidates"]}
        mass = sum(probability[item] for item in items)
        found = {each["item"]: each["probability"] for each in slot["candidates"]}
        assert found.keys() == items
        assert slot["num_permitted"] == len(items)
        assert slot["excluded_probability"] == pytest.approx(1 - mass, abs=1e-5)
        assert found == {item: pytest.approx(probability[item] / mass, rel=1e-3, abs=1e-9) for item in items}
        assert (slot["reason"] is None) == bool(items)
        assert sum(slot["removed"].values()) == len(ITEMS) - len(items)


def test_what_the_shop_knows_of_an_item_that_the_model_does_not_counts() -> None:
    arrival = {"id": "cap", "category": "hat", "price": 60.0, "materials": None, "in_stock": True}
    table, items = pa.Table.from_pylist([*SHOP, arrival]), PIPELINE.processor.items
    pipeline = CompletionPipeline(PIPELINE.model, PIPELINE.processor, catalogue=Catalogue(table, items))
    query: dict[str, Any] = {"items": ["cap", "[MASK]"], "at_most_one_per": "category"}
    one_hat = {each["item"] for each in answered(query, pipeline)["slots"][0]["candidates"]}
    assert one_hat == {"parka", "trench", "tote", "clutch", "boots"}
    query = {"items": ["cap", "[MASK]"], "budget": 95, "budget_includes_visible": True}
    cheap = {each["item"] for each in answered(query, pipeline)["slots"][0]["candidates"]}
    assert cheap == {"beret", "tote"}
    assert answered({**query, "items": ["kilt", "[MASK]"], "budget_includes_visible": False}, pipeline)["slots"]
    with pytest.raises(DataError, match="the price of kilt is unknown"):
        answered({**query, "items": ["kilt", "[MASK]"]}, pipeline)


def test_an_arrival_of_unknown_category_counts_for_none() -> None:
    codes = {row["id"]: float(number) for number, row in enumerate(SHOP)}
    table = pa.table(
        {"id": [*codes, "cap"], "line": [*codes.values(), float("nan")], "price": [1.0] * (len(codes) + 1)}
    )
    pipeline = CompletionPipeline(
        PIPELINE.model, PIPELINE.processor, catalogue=Catalogue(table, PIPELINE.processor.items)
    )
    found = answered({"items": ["cap", "[MASK]"], "at_most_one_per": "line"}, pipeline)["slots"][0]["candidates"]
    assert {each["item"] for each in found} == {*codes}


def test_a_condition_on_the_stock_is_on_the_stock_of_now() -> None:
    pipeline = made()
    assert pipeline.catalogue is not None
    pipeline.catalogue.set_stock(["parka", "tote"], False)
    for query in ({"in_stock": True}, {"where": {"in_stock": True}}):
        found = {each["item"] for each in answered({"items": ["[MASK]"], **query}, pipeline)["slots"][0]["candidates"]}
        assert found == {"trench", "stetson", "clutch", "boots"}


def test_an_attribute_named_often_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    groups = Catalogue.groups
    monkeypatch.setattr(Catalogue, "groups", lambda self, name: looked.append(name) or groups(self, name))
    answered({"items": ["[MASK]"], "at_most_one_per": ["category"] * 1000})
    assert set(looked) == {"category"}
    assert len(looked) < 5


@pytest.mark.parametrize("price", ["80", "80.0", np.float32(80), np.int64(80), Decimal("80")])
def test_a_price_as_tables_and_forms_have_it(price: Any) -> None:
    assert proposed({"max_price": price}) == proposed({"max_price": 80})
    assert proposed({"budget": price}) == proposed({"budget": 80})


def test_constraints_from_a_row_of_pandas() -> None:
    pd: Any = pytest.importorskip("pandas")
    frame = pd.DataFrame({"deny": [["parka"], float("nan")], "allow": [pd.NA, ["parka", "tote"]]})
    assert [proposed(record) for record in frame.to_dict("records")] == [set(ITEMS) - {"parka"}, {"parka", "tote"}]
    assert proposed({"deny": pd.Series(["parka"]), "in_stock": np.bool_(False)}) == set(ITEMS) - {"parka"}
    assert proposed({"allow": pa.array(["parka", "tote"])}) == {"parka", "tote"}


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("from contextual_bert import CompletionPipeline", marks=pytest.mark.slow),  # torch anew
        "from contextual_bert.inference import constraint",
    ],
)
def test_the_registry_is_full_whatever_is_imported_first(first: str) -> None:
    code = f"{first}\nfrom contextual_bert.inference.queries import known_keys\nprint(*known_keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"where", "deny", "budget", "in_stock", "items"} <= set(done.stdout.split())
