"""Features of an item as reasons, against what the model says of an item with other features."""

from typing import Any

import pyarrow as pa
import pytest
import torch

from contextual_bert.context import Categorical, ContextSchema, Numerical
from contextual_bert.inference import Catalogue, CompletionPipeline, Explanation, explain
from contextual_bert.inference.explain import item_reasons
from contextual_bert.inference.explain.set_question import SetQuestion
from contextual_bert.inference.item_schema import infer_item_schema
from contextual_bert.inference.item_table import encode_catalogue
from contextual_bert.item_features import ItemAttributes, ItemLayout
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

ITEMS = ["coat", "hat", "bag", "belt", "scarf", "tie"]
SHOP = {
    "id": ITEMS,
    "colour": ["red", "blue", "red", "blue", "red", "blue"],
    "tags": [["soft", "warm"], ["warm"], ["soft"], [], ["soft", "warm"], ["warm"]],
    "picture": [[1.0, 0.5], [0.2, 0.1], None, [0.3, 0.9], [0.4, 0.4], [2.0, 1.5]],
}
SCHEMA = ContextSchema(features=(Categorical(name="sex", values=("f", "m")), Numerical(name="age", edges=(30, 60))))
QUERY: dict[str, Any] = {"items": ["hat", "[MASK]", "[MASK]"], "context": {"sex": "f", "age": 34}, "deny": ["tie"]}


def pipeline(*, encoder: str = "sum", **fields: bool) -> CompletionPipeline:
    torch.manual_seed(0)
    processor = ContextualBertProcessor.from_items(ITEMS, SCHEMA)
    shop = Catalogue(pa.table(SHOP), processor.items)
    schema = infer_item_schema(shop).schema
    items = encode_catalogue(shop, schema, processor.items)
    layout = ItemLayout(schema.layout, num_places=items.value_ids.shape[1], encoder=encoder)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    rates = {"context_dropout": 0.1, "field_dropout": 0.2}
    more: dict[str, Any] = {"softmax_over": "candidates", "tie_word_embeddings": False, **sizes, **rates, **fields}
    config = ContextualBertConfig.from_schema(
        SCHEMA, conditioning="global_state_update", vocab_size=9, item_features=layout.to_dict(), **more
    )
    model = ContextualBertForMaskedLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    is_new = torch.tensor([name == "scarf" for name in ITEMS])
    model.bert.embeddings.attributes.fill(items, is_new=is_new)
    return CompletionPipeline(model, processor.with_item_schema(schema))


def logit_of(asked: SetQuestion, chosen: int) -> float:
    [logits] = asked.answers(asked.context)
    return float(logits[0, chosen])


def terms(stored: dict[str, torch.Tensor], row: int, span: range, *, is_of: bool) -> list[tuple[int, float]]:
    """The values of an item that are of one feature, or of all others."""
    pairs = zip(stored["value_ids"][row].tolist(), stored["value_weights"][row].tolist(), strict=True)
    return [(place, weight) for place, weight in pairs if weight and (place in span) == is_of]


@pytest.mark.parametrize("fields", [{}, {"tie_word_embeddings": True}, {"has_context_at_output": True}])
@pytest.mark.parametrize("guidance", [1.0, 2.5])
def test_a_feature_counts_by_what_the_item_would_lose_with_the_features_of_others(
    guidance: float, fields: dict[str, bool]
) -> None:
    pipe = pipeline(**fields)
    asked = SetQuestion(pipe, {**QUERY, "guidance": guidance}, slot=1, batch_size=64)
    attributes: ItemAttributes = pipe.model.bert.embeddings.attributes
    starts, layout = attributes.layout.starts, attributes.layout
    [logits] = asked.answers(asked.context)
    for chosen, index in enumerate(asked.permitted.tolist()):
        own = item_reasons.item_reasons(asked, chosen, logits[0])
        assert own is not None and own.is_sum and own.num_items == 4
        assert own.is_new == (asked.names[chosen] == "scarf")
        found = {each.feature: each.logit for each in own.features}
        total = float(logits[0, chosen] - logits.mean())
        assert own.logit == pytest.approx(total, abs=1e-5)
        assert sum(found.values()) + own.own_logit == pytest.approx(total, abs=1e-5)
        before = {name: value.clone() for name, value in attributes.named_buffers()}
        for number, feature in enumerate(layout.features):
            with_others: list[float] = []
            span = range(starts[number], starts[number + 1])
            for other in asked.permitted.tolist():
                pairs = [*terms(before, index, span, is_of=False), *terms(before, other, span, is_of=True)]
                pairs += [(0, 0.0)] * (layout.num_places - len(pairs))
                attributes.value_ids[index] = torch.tensor([place for place, _ in pairs])
                attributes.value_weights[index] = torch.tensor([weight for _, weight in pairs])
                if feature.form == "vector":
                    attributes.vectors[0][index] = before["vectors_0"][other]
                with_others.append(logit_of(asked, chosen))
                for name, value in attributes.named_buffers():
                    value.copy_(before[name])
            mean = sum(with_others) / len(with_others)
            assert found[feature.name] == pytest.approx(logit_of(asked, chosen) - mean, abs=1e-4), feature.name


def test_contributions_of_a_network_are_shapley_values_and_labelled_so() -> None:
    pipe = pipeline(encoder="mlp")
    found = explain(pipe, QUERY, item="coat", slot=0)
    own = found.item_reasons
    assert own is not None and not own.is_sum
    assert sum(each.logit for each in own.features) + own.own_logit == pytest.approx(own.logit)
    assert any("A network reads all features at once" in line for line in found.footer())
    encoder, _ = pipe.model.item_encoders()[-1]
    with torch.no_grad():  # of a network that says nothing, they are those of the sum
        for weight in encoder.network[-1].parameters():
            weight.zero_()
    flat = explain(pipe, QUERY, item="coat", slot=0).item_reasons
    encoder.network = None
    added = explain(pipe, QUERY, item="coat", slot=0).item_reasons
    assert flat is not None and added is not None
    for one, other in zip(flat.features, added.features, strict=True):
        assert (one.feature, one.value) == (other.feature, other.value)
        assert one.logit == pytest.approx(other.logit, abs=1e-5)


def test_an_explanation_shows_what_the_item_is() -> None:
    found = explain(pipeline(), QUERY, item="bag", slot=0)
    own = found.item_reasons
    assert own is not None
    values = {each.feature: each.value for each in own.features}
    assert values == {"colour": "red", "tags": "soft", "picture": "(missing)"}
    assert [abs(each.logit) for each in own.features] == sorted(
        (abs(each.logit) for each in own.features), reverse=True
    )
    text = found.to_markdown()
    assert "What bag itself is" in text and "its own vector" in text and "Exact, for the features are added up" in text
    best = [each for each in own.features if each.logit > 0]
    assert f"For bag itself speaks: {best[0].feature} {best[0].value}" in text
    assert Explanation.from_json(found.to_json()) == found
    new = explain(pipeline(), QUERY, item="scarf", slot=0)
    assert "what all new items have in common" in new.to_markdown()


def test_a_run_whose_items_are_names_alone_has_no_such_reasons() -> None:
    torch.manual_seed(0)
    processor = ContextualBertProcessor.from_items(ITEMS, SCHEMA)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    rates = {"context_dropout": 0.1, "field_dropout": 0.2}
    config = ContextualBertConfig.from_schema(SCHEMA, conditioning="film", vocab_size=9, **sizes, **rates)
    found = explain(CompletionPipeline(ContextualBertForMaskedLM(config), processor), QUERY)
    assert found.item_reasons is None and "itself" not in found.to_markdown()
