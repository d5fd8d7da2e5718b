"""Explanations against what the pipeline itself answers to the questions that they are made of."""

import json
import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch
from rich.console import Console

from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError, ContextualBertError, DataError, UnknownNameError
from contextual_bert.inference import CompletionPipeline, Explanation, explain
from contextual_bert.inference.explain import contributions
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.testing import miniature_model, miniature_processor
from contextual_bert.testing.miniature import ITEMS, drawn_anew

CONTEXT: dict[str, Any] = {"sex": "f", "age": 45, "brands": ["a", "c"], "style": [1.0, -0.5]}
QUERY: dict[str, Any] = {"items": ["item-1", "[MASK]", "item-5"], "context": CONTEXT}
RATES = {"context_dropout": 0.1, "field_dropout": 0.2}


def pipeline_for(conditioning: str = "global_state_update", **fields: Any) -> CompletionPipeline:
    return CompletionPipeline(miniature_model(conditioning, **{**RATES, **fields}), miniature_processor())


@pytest.fixture(scope="module")
def pipeline() -> CompletionPipeline:
    return pipeline_for()


@pytest.fixture(scope="module")
def found(pipeline: CompletionPipeline) -> Explanation:
    return explain(pipeline, QUERY)


def answered(pipeline: CompletionPipeline, query: dict[str, Any], slot: int = 0) -> dict[str, float]:
    answer: Any = pipeline(query, top_k=99)
    return {each["item"]: each["probability"] for each in answer["slots"][slot]["candidates"]}


def log_odds(pipeline: CompletionPipeline, query: dict[str, Any], item: str, slot: int = 0) -> float:
    probability = answered(pipeline, query, slot)[item]
    return math.log(probability / (1 - probability))


def by_definition(worth: Callable[[frozenset[str]], float], names: list[str]) -> dict[str, float]:
    """The mean over all orders of what each field adds."""
    known = {names: worth(names) for names in {frozenset(o[:k]) for o in permutations(names) for k in range(5)}}
    orders = list(permutations(names))
    return {
        name: sum(
            known[frozenset(order[: order.index(name) + 1])] - known[frozenset(order[: order.index(name)])]
            for order in orders
        )
        / len(orders)
        for name in names
    }


@pytest.mark.parametrize("changes", [{}, {"guidance": 2.0}, {"deny": ["item-3"], "repeats": True}])
@pytest.mark.parametrize("item", [None, "item-9"])
def test_the_fields_contribute_what_the_definition_says(
    pipeline: CompletionPipeline, changes: dict[str, Any], item: str | None
) -> None:
    query = {**QUERY, **changes}
    explanation = explain(pipeline, query, item=item)
    answers = answered(pipeline, query)
    best = max(answers, key=lambda name: answers[name])
    assert explanation.best_item == best
    assert explanation.item == (item or best)

    def worth(names: frozenset[str]) -> float:
        return log_odds(pipeline, {**query, "context": {name: CONTEXT[name] for name in names}}, explanation.item)

    expected = by_definition(worth, list(CONTEXT))
    assert {each.field: each.log_odds for each in explanation.fields} == pytest.approx(expected, abs=1e-4)
    assert explanation.full_log_odds == pytest.approx(worth(frozenset(CONTEXT)), abs=1e-4)
    assert explanation.base_log_odds == pytest.approx(worth(frozenset()), abs=1e-4)
    assert explanation.probability == pytest.approx(answers[explanation.item], abs=1e-5)
    assert explanation.is_exact and explanation.num_subsets == 16
    assert max(abs(value) for value in expected.values()) > 0.05


def test_the_contributions_sum_to_the_gain(found: Explanation) -> None:
    gain = found.full_log_odds - found.base_log_odds
    assert sum(each.log_odds for each in found.fields) == pytest.approx(gain, abs=1e-12)
    sizes = [abs(each.log_odds) for each in found.fields]
    assert sizes == sorted(sizes, reverse=True)
    assert {each.field: each.value for each in found.fields} == {
        "sex": "f",
        "age": "40 to below 60",
        "brands": "a, c",
        "style": "given",
    }


@pytest.mark.parametrize("batch_size", [1, 5, 16, 1000])
def test_batches_change_nothing_but_the_last_digits(
    pipeline: CompletionPipeline, found: Explanation, batch_size: int
) -> None:
    again = explain(pipeline, QUERY, batch_size=batch_size)
    for left, right in zip(again.fields, found.fields, strict=True):
        assert left.field == right.field
        assert left.log_odds == pytest.approx(right.log_odds, abs=1e-5)
    assert [each.item for each in again.counterfactuals] == [each.item for each in found.counterfactuals]


def test_sampled_contributions_are_near_the_exact_ones(pipeline: CompletionPipeline, found: Explanation) -> None:
    sampled = explain(pipeline, QUERY, max_exact_fields=3, num_pairs=200, seed=1)
    exact = {each.field: each.log_odds for each in found.fields}
    assert not sampled.is_exact and found.is_exact
    assert not any(each.standard_error for each in found.fields)
    for each in sampled.fields:
        assert 0 < each.standard_error < 0.05
        assert each.log_odds == pytest.approx(exact[each.field], abs=4 * each.standard_error + 1e-5)
    gain = sampled.full_log_odds - sampled.base_log_odds
    assert sum(each.log_odds for each in sampled.fields) == pytest.approx(gain, abs=1e-12)
    assert "±" in sampled.to_markdown() and "±" not in found.to_markdown()


def test_a_field_that_changes_nothing_contributes_nothing() -> None:
    pipeline = pipeline_for()
    encoder: Any = pipeline.model.bert.context_encoder
    with torch.no_grad():
        encoder.features["sex"].weight[:] = encoder.features["sex"].weight[0]
    contributions = {each.field: each.log_odds for each in explain(pipeline, QUERY).fields}
    assert contributions["sex"] == pytest.approx(0, abs=1e-5)
    assert abs(contributions["age"]) > 0.01


def test_fields_that_are_alike_contribute_the_same() -> None:
    names = ("left", "other", "right")
    schema = ContextSchema(
        features=tuple(Categorical(name=name, values=("a", "b"), embedding_size=3) for name in names)
    )
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
    config = ContextualBertConfig.from_schema(
        schema, conditioning="global_state", vocab_size=len(ITEMS) + 3, **sizes, **RATES
    )
    model: Any = drawn_anew(ContextualBertForMaskedLM(config))
    with torch.no_grad():
        features = model.bert.context_encoder.features
        features["right"].weight.copy_(features["left"].weight)
        readers = [weight for name, weight in model.named_parameters() if weight.ndim == 2 and weight.shape[1] == 9]
        for weight in readers:  # what reads c
            weight[:, 6:] = weight[:, :3]
    assert readers
    pipeline = CompletionPipeline(model, ContextualBertProcessor.from_items(ITEMS, schema))
    fields = explain(pipeline, {"items": ["item-1"], "context": dict.fromkeys(names, "b")}).fields
    contributions = {each.field: each.log_odds for each in fields}
    assert contributions["left"] == pytest.approx(contributions["right"], abs=1e-5)
    assert contributions["left"] != pytest.approx(contributions["other"], abs=1e-3)


def test_fields_that_are_not_given_have_no_contribution(pipeline: CompletionPipeline) -> None:
    query = {**QUERY, "context": {"age": 45, "sex": "nobody knows", "brands": [], "style": None}}
    explanation = explain(pipeline, query)
    assert {each.field: each.value for each in explanation.fields} == {
        "age": "40 to below 60",
        "sex": "(unknown)",
        "brands": "(none)",
    }
    assert explanation.num_subsets == 8
    assert "Not given, so without a contribution: style." in explanation.notes
    nothing = explain(pipeline, {"items": ["item-1"]})
    assert nothing.fields == () and nothing.full_log_odds == nothing.base_log_odds
    assert "together" in nothing.to_markdown()


def test_values_that_the_model_never_saw_are_named(pipeline: CompletionPipeline) -> None:
    notes = explain(pipeline, {**QUERY, "context": {"sex": "f", "brands": ["a", "never-seen"]}}).notes
    assert "Unknown values of brands, treated as unknown: never-seen." in notes
    assert not any("Unknown values" in note for note in explain(pipeline, QUERY).notes)


def test_each_item_counts_by_what_is_missing_without_it(pipeline: CompletionPipeline) -> None:
    query = {**QUERY, "items": ["item-1", "item-4", "[MASK]", "item-5"]}
    explanation = explain(pipeline, query)
    assert [(each.item, each.position) for each in explanation.other_items] == [
        ("item-1", 0),
        ("item-4", 1),
        ("item-5", 3),
    ]
    for each in explanation.other_items:
        fewer = [item for item in query["items"] if item != each.item]
        without = log_odds(pipeline, {**query, "items": fewer, "deny": [each.item]}, explanation.item)
        assert each.log_odds == pytest.approx(explanation.full_log_odds - without, abs=1e-4)
    assert explain(pipeline, {**QUERY, "items": []}).other_items == ()


def test_counterfactuals_are_the_values_under_which_another_item_is_best(pipeline: CompletionPipeline) -> None:
    found = explain(pipeline, {**QUERY, "items": ["item-4"]})
    expected: list[tuple[str, str, str, Any]] = []
    others = {
        "sex": {"m": "m"},
        "age": {"below 20": 10, "20 to below 40": 30, "60 and above": 70},  # 45 is what was given
    }
    for field, values in others.items():
        for name, value in values.items():
            query = {"items": ["item-4"], "context": {**CONTEXT, field: value}}
            answers = answered(pipeline, query)
            best = max(answers, key=lambda item: answers[item])
            if best != found.best_item:
                expected.append((field, name, best, pytest.approx(answers[best], abs=1e-5)))
    assert [(each.field, each.value, each.item, each.probability) for each in found.counterfactuals] == expected
    assert 0 < len(expected) < 4


def test_a_field_that_is_not_given_has_counterfactuals_too(pipeline: CompletionPipeline) -> None:
    context = {name: value for name, value in CONTEXT.items() if name != "age"}
    explained = [explain(pipeline, {"items": [item, "[MASK]"], "context": context}) for item in ITEMS]
    blank = next(one for one in explained if any(each.field == "age" for each in one.counterfactuals))
    each = next(each for each in blank.counterfactuals if each.field == "age")
    ages = {"below 20": 10, "20 to below 40": 30, "40 to below 60": 50, "60 and above": 70}
    answers = answered(pipeline, {"items": list(blank.items), "context": {**context, "age": ages[each.value]}})
    assert max(answers, key=lambda item: answers[item]) == each.item


def test_of_a_field_with_very_many_values_no_other_is_asked_for_and_a_note_says_so(
    pipeline: CompletionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [{"items": [item, "[MASK]"], "context": {}} for item in ITEMS]
    explained = [(query, explain(pipeline, query)) for query in queries]
    query, whole = next(
        each for each in explained if {other.field for other in each[1].counterfactuals} == {"sex", "age"}
    )
    monkeypatch.setattr(contributions, "MAX_OTHER_VALUES", 3)  # age has four bins
    found = explain(pipeline, query)
    left = [(each.value, each.item) for each in whole.counterfactuals if each.field == "sex"]
    assert [(each.value, each.item) for each in found.counterfactuals] == left
    assert found.other_items
    [note] = set(found.notes) - set(whole.notes)
    assert note == "With more than 3 values, so what others would get was not asked: age."


def test_a_slot_of_several(pipeline: CompletionPipeline) -> None:
    query = {**QUERY, "items": ["[MASK]", "item-1", "[MASK]"]}
    for slot, position in ((0, 0), (1, 2)):
        explanation = explain(pipeline, query, item="item-8", slot=slot)
        assert explanation.position == position
        assert explanation.full_log_odds == pytest.approx(log_odds(pipeline, query, "item-8", slot), abs=1e-4)
    with pytest.raises(ConfigurationError, match=r"slot=2 asks for \[MASK\] number 3, and the set has 2"):
        explain(pipeline, query, slot=2)


def test_a_model_that_never_saw_a_field_absent_is_not_explained() -> None:
    with pytest.raises(
        ContextualBertError, match=r"never been shown a context with a field absent.*field_dropout=0\.1"
    ):
        explain(pipeline_for(field_dropout=0.0), QUERY)
    with pytest.raises(ContextualBertError, match=r"conditioning='none' and reads no context"):
        explain(pipeline_for("none"), QUERY)
    [note] = explain(pipeline_for(context_dropout=0.0), QUERY).notes
    assert note.startswith("Trained without context_dropout")


@pytest.mark.parametrize(
    ("changes", "settings", "kind", "message"),
    [
        (
            {},
            {"item": "item-77"},
            UnknownNameError,
            "is no item that the model knows. Did you mean 'item-7'",
        ),
        ({}, {"item": "§"}, UnknownNameError, "item='§' is no item that the model knows. Name one"),
        ({}, {"item": "item-1"}, DataError, "'item-1' is not permitted by the query.*, or give repeats=True"),
        ({"deny": ["item-3"]}, {"item": "item-3"}, DataError, "'item-3' is not permitted"),
        ({"allow": ["item-3"]}, {}, DataError, "permits 1 item, so there is no choice"),
        ({"allow": []}, {}, DataError, "permits 0 items"),
        ({"contxt": {}}, {}, UnknownNameError, "'contxt'"),
        ({"context": {"agee": 3}}, {}, UnknownNameError, "'agee'"),
        ({"guidance": -1}, {}, DataError, "guidance"),
        ({}, {"batch_size": 0}, ConfigurationError, "batch_size=0"),
        ({}, {"max_exact_fields": 99}, ConfigurationError, "max_exact=99"),
    ],
)
def test_what_cannot_be_explained(
    pipeline: CompletionPipeline, changes: dict[str, Any], settings: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        explain(pipeline, {**QUERY, **changes}, **settings)


def test_it_is_json_and_comes_back(found: Explanation) -> None:
    assert Explanation.from_json(found.to_json()) == found
    keys = {"field", "value", "log_odds", "standard_error", "is_told_apart"}
    assert json.loads(found.to_json())["fields"][0].keys() == keys


def test_it_is_laid_out_for_people(pipeline: CompletionPipeline) -> None:
    explanation = explain(pipeline, {**QUERY, "items": ["item-4"]}, item="item-2")
    markdown = explanation.to_markdown()
    first = explanation.fields[0]
    assert f"| {first.field} | {first.value} | {first.log_odds:+.3f} | × {math.exp(first.log_odds):.2f} |" in markdown
    assert f"(the best is {explanation.best_item})" in markdown
    changed = explanation.counterfactuals[0]
    assert any(
        line.startswith(f"| {changed.field} | ") and line.endswith(f" | {changed.item} |") and changed.value in line
        for line in markdown.splitlines()
    )
    console = Console(width=120, file=None, record=True)
    with console.capture() as captured:
        console.print(explanation.to_rich())
    lines = [line for line in captured.get().splitlines() if "│" in line]
    assert len(lines) == len(explanation.fields) + 1
    bars = [line.count("█") for line in lines]
    assert bars[0] == bars[-1] == 10 and bars[:-1] == sorted(bars[:-1], reverse=True)
    for line, each in zip(lines, explanation.fields, strict=False):
        assert line.index("█") > line.index("│") if each.log_odds > 0 else line.index("█") < line.index("│")
