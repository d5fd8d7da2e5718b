"""Queries of each kind of model: positions by name, predictions that are those of its pipeline, and what is refused."""

from typing import Any

import pytest
import torch

from contextual_bert import CompletionPipeline, QuestionAnsweringPipeline, TextPipeline
from contextual_bert.errors import QueryError, UnknownNameError
from contextual_bert.inference.activations import record_activations
from contextual_bert.inference.inspected_queries import (
    InspectedAnswer,
    InspectedBlanks,
    InspectedLabel,
    InspectedNext,
    InspectedQuery,
    InspectedSet,
    InspectedTags,
)
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForCausalLM,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
)
from contextual_bert.testing import miniature_model, miniature_processor, miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew

SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
TEXT = {
    **SIZES,
    "vocab_size": 23,
    "type_vocab_size": 2,
    "has_position_embeddings": True,
    "max_position_embeddings": 200,
    "mask_token_id": 1,
    "reserved_token_ids": [0, 1, 2, 3, 4],
}
NAMES = {"id2label": {0: "bad", 1: "good"}}
PROCESSOR = miniature_text_processor()


def text_model(head: Any, **fields: Any) -> Any:
    return drawn_anew(head(ContextualBertConfig(**{**TEXT, **fields})))


def shares_of(asked: InspectedQuery) -> dict[str, torch.Tensor]:
    return asked.shares(record_activations(asked.model, asked.inputs))


def test_a_label_is_that_of_the_pipeline() -> None:
    model = text_model(ContextualBertForSequenceClassification, **NAMES)
    asked = InspectedLabel(model, PROCESSOR, {"text": "word1 word2", "pair": "word3"}, room=9)
    assert asked.tokens == ("[CLS]", "word1", "word2", "[SEP]", "word3", "[SEP]")
    answer: Any = TextPipeline(model, PROCESSOR)({"text": "word1 word2", "pair": "word3"})
    found = {asked.choice_name(choice): float(share) for choice, share in enumerate(shares_of(asked)["label"])}
    assert found == pytest.approx(answer["probabilities"], abs=1e-5)
    cut = InspectedLabel(model, PROCESSOR, {"text": "word1 " * 20}, room=6)
    assert len(cut.tokens) == 6 and "a part of it was not read" in cut.notes[0]


def test_each_word_has_its_tag() -> None:
    model = text_model(ContextualBertForTokenClassification, **NAMES)
    asked = InspectedTags(model, PROCESSOR, {"text": "word1 wordy2 word2"}, room=9)
    answer: Any = TextPipeline(model, PROCESSOR)({"text": "word1 wordy2 word2"})
    found = shares_of(asked)
    assert [*found] == ["1: word1", "2: wordy2", "3: word2"]
    assert [asked.choice_name(int(share.argmax())) for share in found.values()] == answer["label"]
    assert [float(share.max()) for share in found.values()] == pytest.approx(answer["probabilities"], abs=1e-5)


def test_an_answer_begins_and_ends_in_the_text() -> None:
    model = text_model(ContextualBertForQuestionAnswering)
    asked = InspectedAnswer(model, PROCESSOR, {"question": "word1", "text": "word2 word3 word4"}, room=9)
    first, last = shares_of(asked).values()
    assert float(first.sum()) == pytest.approx(1, abs=1e-5)
    assert asked.choice_name(0) == "(no answer)" and asked.choice_name(3) == "4: word2"
    assert not first[1:3].any() and first[3:6].all() and last[3:6].all()
    pipeline = QuestionAnsweringPipeline(model, PROCESSOR, max_answer_tokens=1)
    answer: Any = pipeline({"question": "word1", "text": "word2 word3 word4"})
    alone = first[3:6] * last[3:6]
    assert asked.tokens[3 + int(alone.argmax())] == answer["answer"]
    assert float(alone.max()) == pytest.approx(answer["probability"], rel=1e-4)
    long = InspectedAnswer(model, PROCESSOR, {"question": "word1", "text": "word2 " * 200}, room=40)
    assert len(long.tokens) == 40 and "windows, of which the first is shown" in long.notes[0]


def test_a_hidden_token_is_one_of_the_vocabulary() -> None:
    model = text_model(ContextualBertForMaskedLM)
    asked = InspectedBlanks(model, PROCESSOR, {"text": "word1 [MASK] word2 [MASK]"}, room=9)
    found = shares_of(asked)
    assert [*found] == ["[MASK] at 3", "[MASK] at 5"]
    for share in found.values():
        assert float(share.sum()) == pytest.approx(1, abs=1e-5) and not share[:5].any()
    logits = model(asked.inputs["input_ids"], logits_at="all").logits[0, 2, 5:].softmax(dim=-1)
    torch.testing.assert_close(found["[MASK] at 3"][5:], logits, atol=1e-4, rtol=1e-3)
    assert shares_of(InspectedBlanks(model, PROCESSOR, {"text": "word1"}, room=9)) == {}


def test_the_next_token_follows_the_text() -> None:
    gpt = {"backbone": "gpt2", "eos_token_id": 4, "type_vocab_size": 0}
    model = text_model(ContextualBertForCausalLM, **gpt)
    asked = InspectedNext(model, PROCESSOR, {"text": "word1 word2"}, room=9)
    assert asked.tokens == ("[CLS]", "word1", "word2")  # and no end behind it
    (share,) = shares_of(asked).values()
    written = model.generate(asked.inputs["input_ids"], max_new_tokens=1, do_sample=False, eos_token_id=None)
    assert int(share.argmax()) == int(written[0, -1])


def test_a_set_is_completed_as_by_its_pipeline() -> None:
    model, processor = miniature_model("none"), miniature_processor()
    asked = InspectedSet(model, processor, {"items": ["item-1", "hat", "item-2"]}, room=9)
    assert asked.tokens == ("item-1", "[UNK]", "item-2", "[MASK]")
    assert asked.notes == ["Items that the model never saw, read as [UNK]: hat."]
    (share,) = shares_of(asked).values()
    answer: Any = CompletionPipeline(model, processor)({"items": ["item-1", "hat", "item-2"], "repeats": True}, top_k=1)
    (best,) = answer["slots"][0]["candidates"]
    assert asked.choice_name(int(share.argmax())) == best["item"]
    assert float(share.max()) == pytest.approx(best["probability"], abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "query", "location"),
    [
        (InspectedLabel, {}, (0, "text")),
        (InspectedLabel, {"text": "  "}, (0, "text")),
        (InspectedLabel, {"text": ["word1"]}, (0, "text")),
        (InspectedLabel, {"text": "word1", "pair": ""}, (0, "pair")),
        (InspectedLabel, {"text": "\ud800"}, (0, "text")),
        (InspectedLabel, {"text": "word1", "items": ["a"]}, (0, "items")),
        (InspectedTags, {"text": "word1", "pair": "word2"}, (0, "pair")),
        (InspectedLabel, {"text": "word1 " * 150}, (0, "pair")),
        (InspectedAnswer, {"text": "word1"}, (0, "question")),
        (InspectedAnswer, {"question": "word1"}, (0, "text")),
        (InspectedSet, {"items": 3}, (0, "items")),
        (InspectedSet, {"text": "word1"}, (0, "text")),
    ],
    ids=repr,
)
def test_a_faulty_query_is_named_by_its_place(kind: Any, query: dict[str, Any], location: tuple[Any, ...]) -> None:
    of_sets = kind is InspectedSet
    head = {InspectedTags: ContextualBertForTokenClassification, InspectedAnswer: ContextualBertForQuestionAnswering}
    model = miniature_model("none") if of_sets else text_model(head.get(kind, ContextualBertForSequenceClassification))
    processor = miniature_processor() if of_sets else PROCESSOR
    with pytest.raises((QueryError, UnknownNameError)) as refused:
        kind(model, processor, query, room=199)
    assert refused.value.location[: len(location)] == location


def test_a_pair_needs_two_segments() -> None:
    model = text_model(ContextualBertForSequenceClassification, type_vocab_size=1)
    with pytest.raises(QueryError, match="one segment") as refused:
        InspectedLabel(model, PROCESSOR, {"text": "word1", "pair": "word2"}, room=9)
    assert refused.value.location == (0, "pair")
