"""Guidance: logits between and beyond those with and without the context, computed here by hand."""

from typing import Any

import pytest
import torch

from contextual_bert.errors import DataError
from contextual_bert.inference import CompletionPipeline, TextPipeline
from contextual_bert.models import ContextualBertConfig, ContextualBertForSequenceClassification
from contextual_bert.testing import miniature_model, miniature_processor, miniature_text_processor
from contextual_bert.testing.miniature import ITEMS, drawn_anew

CONTEXT = {"sex": "f", "age": 45, "brands": ["a", "c"], "style": [1.0, -0.5]}
WEIGHTS = (0.0, 0.4, 1.0, 1.5, 4.0)


def pipeline_for(conditioning: str = "global_state_update", **fields: Any) -> CompletionPipeline:
    model = miniature_model(conditioning, **{"context_dropout": 0.1, **fields})
    return CompletionPipeline(model, miniature_processor())


@pytest.fixture(scope="module")
def pipeline() -> CompletionPipeline:
    return pipeline_for()


def logits_of(pipeline: CompletionPipeline, items: list[str], context: dict[str, Any]) -> torch.Tensor:
    """(masked, items) of the model itself."""
    with torch.no_grad():
        return pipeline.model(**pipeline.processor(items=[items], context=[context])).logits[:, 3:]


def expected(pipeline: CompletionPipeline, items: list[str], weight: float) -> list[dict[str, float]]:
    with_context, without = (logits_of(pipeline, items, context) for context in (CONTEXT, {}))
    logits = (1 - weight) * without + weight * with_context
    return [dict(zip(ITEMS, row.softmax(dim=0).tolist(), strict=True)) for row in logits]


def found_in(answer: Any, slot: int = 0) -> dict[str, float]:
    return {each["item"]: each["probability"] for each in answer["slots"][slot]["candidates"]}


def test_the_two_predictions_differ(pipeline: CompletionPipeline) -> None:
    personal, anonymous = (expected(pipeline, ["item-1", "[MASK]"], weight)[0] for weight in (1, 0))
    assert max(abs(personal[item] - anonymous[item]) for item in ITEMS) > 0.02


@pytest.mark.parametrize("weight", WEIGHTS)
def test_an_answer_is_as_personal_as_it_is_asked_to_be(pipeline: CompletionPipeline, weight: float) -> None:
    items = ["[MASK]", "item-1", "[MASK]"]
    answer = pipeline({"items": items, "context": CONTEXT, "guidance": weight, "repeats": True}, top_k=99)
    for slot, probabilities in enumerate(expected(pipeline, items, weight)):
        assert found_in(answer, slot) == pytest.approx(probabilities, abs=1e-5)


def test_rows_of_one_batch_are_guided_each_by_itself(pipeline: CompletionPipeline) -> None:
    sets = [["[MASK]", "item-1"], ["item-2", "item-3", "item-4", "[MASK]"], ["[MASK]", "item-5", "[MASK]"]]
    queries = [
        {"items": items, "context": CONTEXT, "guidance": weight, "repeats": True}
        for items in sets
        for weight in WEIGHTS
    ]
    answers: Any = pipeline(queries, top_k=99, batch_size=7)
    for query, answer in zip(queries, answers, strict=True):
        for slot, probabilities in enumerate(expected(pipeline, query["items"], query["guidance"])):
            assert found_in(answer, slot) == pytest.approx(probabilities, abs=1e-5)


def test_without_guidance_nothing_is_computed_twice_and_the_digits_stay(
    pipeline: CompletionPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, sizes = pipeline.model.forward, []

    def counted(**inputs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        return forward(**inputs)

    monkeypatch.setattr(pipeline.model, "forward", counted)
    query = {"items": ["item-1"], "context": CONTEXT}
    plain = pipeline(query)
    for weight in (1, 1.0, None):  # null is as good as absent, as with every other key
        assert pipeline({**query, "guidance": weight}) == plain
    assert sizes == [1, 1, 1, 1]
    sizes.clear()
    pipeline([query, {**query, "guidance": 2}, query, {**query, "guidance": 0}])
    assert sizes == [4, 2]


def test_constraints_hold_under_guidance(pipeline: CompletionPipeline) -> None:
    query = {"items": ["item-1"], "context": CONTEXT, "guidance": 3, "allow": ["item-4", "item-7", "item-1"]}
    found = found_in(pipeline(query, top_k=99))
    weights = expected(pipeline, ["item-1", "[MASK]"], 3)[0]
    assert found.keys() == {"item-4", "item-7"}
    assert found["item-4"] / found["item-7"] == pytest.approx(weights["item-4"] / weights["item-7"], rel=1e-4)


def test_an_answer_says_what_was_never_learned(pipeline: CompletionPipeline) -> None:
    query = {"items": ["item-1"], "context": CONTEXT}
    untrained = pipeline_for(context_dropout=0.0, field_dropout=0.3)
    for weight in (0, 2.5):
        assert pipeline({**query, "guidance": weight})["notes"] == []  # pyright: ignore
        [note] = untrained({**query, "guidance": weight})["notes"]  # pyright: ignore
        assert note.startswith(f"guidance={weight} starts from") and "context_dropout" in note
    assert untrained({**query, "guidance": 1})["notes"] == untrained(query)["notes"] == []  # pyright: ignore
    blind = pipeline_for("none")
    notes = blind({**query, "guidance": 2})["notes"]  # pyright: ignore
    assert notes[1] == "guidance=2 changes nothing: this model was trained with conditioning='none'."
    assert found_in(blind({**query, "guidance": 2}, top_k=9)) == pytest.approx(found_in(blind(query, top_k=9)))


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "much", True])
def test_what_is_no_guidance(pipeline: CompletionPipeline, value: Any) -> None:
    with pytest.raises(DataError, match=r"query 2, guidance: .* is no number between 0 and 100\. Give 0"):
        pipeline([{"items": ["item-1"]}, {"items": ["item-1"], "guidance": value}])


@pytest.mark.parametrize("is_ordinal", [False, True])
def test_labels_of_texts_are_guided_too(is_ordinal: bool) -> None:
    processor = miniature_text_processor()
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
    fields = {"vocab_size": 23, "id2label": {0: "low", 1: "middle", 2: "high"}, "is_ordinal": is_ordinal}
    config = ContextualBertConfig.from_schema(processor.schema, conditioning="global_state", **sizes, **fields)
    pipeline = TextPipeline(drawn_anew(ContextualBertForSequenceClassification(config)), processor)
    query: dict[str, Any] = {"text": "word1 word2", "context": {"sex": "f"}}
    with torch.no_grad():
        with_context, without = (
            pipeline.model(**processor(text=[query["text"]], context=[context])).logits[0]
            for context in (query["context"], {})
        )
    assert float((with_context - without).abs().max()) > 0.01
    answers: Any = pipeline([{**query, "guidance": weight} for weight in WEIGHTS] + [query])
    for weight, answer in zip((*WEIGHTS, 1.0), answers, strict=True):
        shares = (without + weight * (with_context - without)).softmax(dim=0).tolist()
        assert list(answer["probabilities"].values()) == pytest.approx(shares, abs=1e-5)
        assert len(answer["notes"]) == (weight != 1)
