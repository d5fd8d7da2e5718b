"""Neighbours of items: by hand, under constraints, for a person, and for faulty queries."""

import importlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError, DataError, NonFiniteError, UnknownNameError
from contextual_bert.inference import Catalogue, CompletionPipeline, similar_items
from contextual_bert.item_features import ItemLayout
from contextual_bert.testing import miniature_model, miniature_processor

similar_items_module = importlib.import_module("contextual_bert.inference.similar_items")
CONTEXT = {"age": 30, "sex": "f"}


def pipeline(method: str = "global_state", **fields: Any) -> CompletionPipeline:
    model = miniature_model(method, **fields)
    if model.config.item_features is not None:
        model.bert.embeddings.attributes.is_new[5] = True
    return CompletionPipeline(model, miniature_processor())


def similarities(asked: CompletionPipeline) -> np.ndarray:
    """(items, items), in numpy."""
    rows = asked.model.input_matrix().detach().numpy().astype(np.float64)[3:]
    rows = rows - rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def names_in(answer: Any) -> list[str]:
    return [each["item"] for each in answer["similar"]]


def test_the_nearest_are_those_by_hand() -> None:
    asked = pipeline("none")
    names, expected = asked.processor.items.values, similarities(asked)
    answers = similar_items(asked, [{"item": name} for name in names], top_k=len(names), batch_size=2)
    for index, answer in enumerate(answers):
        order = [other for other in np.argsort(-expected[index], kind="stable") if other != index]
        assert answer["item"] == names[index] and names_in(answer) == [names[other] for other in order]
        np.testing.assert_allclose(
            [each["similarity"] for each in answer["similar"]], expected[index, order], rtol=1e-4, atol=1e-5
        )
        assert answer["num_permitted"] == len(names) - 1 and answer["removed"] == {} and answer["notes"] == []
        assert {*answer["similar"][0]} == {"item", "similarity"}
    assert similar_items(asked, {"item": names[0]}, top_k=1) == {**answers[0], "similar": answers[0]["similar"][:1]}


def test_who_asks_decides_among_what_is_alike() -> None:
    asked, other = pipeline(), {**CONTEXT, "age": 70}
    names, expected = asked.processor.items.values, similarities(asked)
    for context in (CONTEXT, other):
        first = asked({"items": ["[MASK]"], "context": context}, top_k=len(names))["slots"][0]["candidates"]
        taste = {each["item"]: each["probability"] for each in first}
        for weight in (0.0, 3.0):
            answer = similar_items(
                asked, {"item": names[1], "context": context}, top_k=len(names), similarity_weight=weight
            )
            made = {
                name: taste[name] * np.exp(weight * expected[1, index])
                for index, name in enumerate(names)
                if index != 1
            }
            found = {each["item"]: each["probability"] for each in answer["similar"]}
            assert names_in(answer) == sorted(made, key=lambda name: -made[name])
            np.testing.assert_allclose([found[name] / made[name] for name in made], 1 / sum(made.values()), rtol=1e-3)


def test_answers_do_not_depend_on_what_else_is_asked() -> None:
    asked = pipeline()
    first, second, third, *_ = asked.processor.items.values
    queries = [{"item": first}, {"item": second, "context": CONTEXT}, {"item": third, "deny": [first]}]
    together = similar_items(asked, queries, top_k=3)
    for query, answer in zip(queries, together, strict=True):
        alone = similar_items(asked, query, top_k=3)
        assert names_in(alone) == names_in(answer) and {*alone["similar"][0]} == {*answer["similar"][0]}


def test_constraints_say_what_may_be_named() -> None:
    asked = pipeline("none")
    first, second, third, *rest = asked.processor.items.values
    table = {"id": [first, second, third], "price": [5.0, 10.0, 90.0], "in_stock": [True, True, False]}
    shop = Catalogue(pa.table(table), asked.processor.items)
    asked = CompletionPipeline(asked.model, asked.processor, catalogue=shop)
    found = similar_items(asked, {"item": first, "where": {"price": {"at_most": 50}}}, top_k=10)
    assert names_in(found) == [second] and found["num_permitted"] == 1 and found["removed"] == {"where": len(rest) + 1}
    everything = names_in(similar_items(asked, {"item": third}, top_k=50))
    there = names_in(similar_items(asked, {"item": third, "in_stock": True}, top_k=50))
    assert there == [name for name in everything if name in (first, second)]
    none = similar_items(asked, {"item": first, "max_price": 1})
    assert none["similar"] == [] and "max_price" in str(none["reason"])
    asked.processor.removed_items = (second,)
    assert second not in names_in(similar_items(asked, {"item": first}, top_k=50))


def test_what_is_new_and_what_is_unknown_is_said() -> None:
    layout = ItemLayout((FeatureLayout("colour", "categorical", 5, 0, 8),), num_places=1).to_dict()
    asked = pipeline(item_features=layout)
    new, other = asked.processor.items.value_of(5), asked.processor.items.value_of(4)
    answer = similar_items(asked, {"item": other, "context": {**CONTEXT, "sex": "?"}}, top_k=10)
    assert [each["item"] for each in answer["similar"] if each.get("is_new")] == [new]
    assert f"Proposed, new and known by features alone: {new}." in answer["notes"]
    assert answer["unknown_context"] == {"sex": ["?"]}
    assert f"{new} is new, and known by features alone." in similar_items(asked, {"item": new})["notes"]
    unread = similar_items(pipeline("none"), {"item": other, "context": CONTEXT})
    assert "The context was not used" in unread["notes"][0] and "probability" not in unread["similar"][0]


@pytest.mark.parametrize(
    ("query", "kind", "keys", "told"),
    [
        ({}, DataError, (0, "item"), "no item is named"),
        ({"item": ["a"]}, DataError, (0, "item"), "list"),
        ({"item": "cot"}, UnknownNameError, (0, "item"), "Did you mean"),
        ({"item": 0, "items": []}, UnknownNameError, (0, "items"), "unknown key"),
        ({"item": "ITEM", "contxt": {}}, UnknownNameError, (0, "contxt"), "Did you mean 'context'"),
        ({"item": "ITEM", "context": {"agx": 1}}, UnknownNameError, (0, "context", "agx"), "Did you mean 'age'"),
        ({"item": "ITEM", "max_price": "dear"}, DataError, (0, "max_price"), "dear"),
        ({"item": "ITEM", "in_stock": True}, DataError, (0, "in_stock"), "needs a catalogue"),
    ],
    ids=str,
)
def test_faulty_queries_are_named(query: Any, kind: type[Exception], keys: tuple[Any, ...], told: str) -> None:
    asked = pipeline()
    first = asked.processor.items.values[0]
    values = {"ITEM": first, "cot": first + "x"}
    if isinstance(query.get("item"), str):
        query = {**query, "item": values[query["item"]]}
    with pytest.raises(kind, match=told) as caught:
        similar_items(asked, [query])
    assert caught.value.place.keys == keys


def test_settings_and_weights_are_checked() -> None:
    asked = pipeline()
    query = {"item": asked.processor.items.values[0]}
    for setting in ({"top_k": 0}, {"batch_size": 0}, {"similarity_weight": -1}, {"similarity_weight": float("nan")}):
        with pytest.raises(ConfigurationError) as caught:
            similar_items(asked, query, **setting)
        assert caught.value.place.name == next(iter(setting))
    with torch.no_grad():
        asked.model.get_output_embeddings().weight[4] = torch.nan
        asked.model.get_input_embeddings().weight[4] = torch.nan
    with pytest.raises(NonFiniteError):
        similar_items(asked, query)


@pytest.mark.parametrize("has_features", [False, True])
def test_directions_are_made_once_and_anew_where_vectors_change(has_features: bool) -> None:
    layout = ItemLayout((FeatureLayout("colour", "categorical", 5, 0, 8),), num_places=1).to_dict()
    asked = pipeline(item_features=layout) if has_features else pipeline()
    model, item = asked.model, asked.processor.items.values[0]
    similar_items(asked, {"item": item, "context": CONTEXT})
    made = similar_items_module.item_directions(model)
    assert similar_items_module.item_directions(model) is made
    with torch.no_grad():
        encoder = model.bert.embeddings.item_encoder
        weight = encoder.new.weight if has_features else model.get_input_embeddings().weight
        weight.add_(torch.arange(weight.shape[1]))
        model.get_input_embeddings().weight[5].mul_(-3)
    now = similar_items_module.item_directions(model)
    assert now is not made and not torch.allclose(now, made)
    np.testing.assert_allclose((now[3:] @ now[3:].T).detach().numpy(), similarities(asked), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("has_features", [False, True])
def test_directions_are_made_anew_after_a_step_that_counts_no_version(has_features: bool) -> None:
    layout = ItemLayout((FeatureLayout("colour", "categorical", 5, 0, 8),), num_places=1).to_dict()
    asked = pipeline(item_features=layout) if has_features else pipeline()
    model = asked.model
    made, table = similar_items_module.item_directions(model), model.input_matrix().detach().clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model.train()
    items = torch.tensor([[5, 6, 1]])
    labels = torch.tensor([[-100, -100, 7]])
    model(items, labels=labels).loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        now = model.input_matrix()
        expected = model.without_item_features().get_input_embeddings().weight
        assert not torch.allclose(now, table)
        if has_features:
            embeddings = model.bert.embeddings
            expected = embeddings.item_encoder._made(
                embeddings.word_embeddings.weight, embeddings.attributes, embeddings.attributes.is_new
            )
        torch.testing.assert_close(now, expected)
    assert not torch.allclose(similar_items_module.item_directions(model), made)
