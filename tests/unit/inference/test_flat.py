"""Answers as one flat table, whichever pipeline gave them."""

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert import CompletionPipeline, TextPipeline, to_table
from contextual_bert.errors import DataError
from contextual_bert.inference import QuestionAnsweringPipeline
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.testing import miniature_text_processor

SIZES: dict[str, Any] = {
    "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16, "vocab_size": 23,
}  # fmt: skip


@pytest.fixture(scope="module")
def pipeline() -> CompletionPipeline:
    model = ContextualBertForMaskedLM(ContextualBertConfig(**{**SIZES, "vocab_size": 7}))
    return CompletionPipeline(model, ContextualBertProcessor.from_items(["coat", "hat", "bag", "cap"]))


def test_a_row_is_a_candidate(pipeline: CompletionPipeline) -> None:
    answers: Any = pipeline([{"items": ["hat", "[MASK]", "[MASK]"]}, {"items": ["cap"], "allow": ["cap"]}], top_k=2)
    table = to_table(answers)
    assert table.column("query").to_pylist() == [0, 0, 0, 0, 1]
    assert table.column("position").to_pylist() == [1, 1, 2, 2, 1]
    assert table.column("rank").to_pylist() == [1, 2, 1, 2, None]
    expected = [each for slot in answers[0]["slots"] for each in slot["candidates"]]
    assert table.select(["item", "probability"]).slice(0, 4).to_pylist() == expected
    assert table.column("item")[4].as_py() is None
    assert table.column("reason")[4].as_py() == answers[1]["slots"][0]["reason"]
    assert to_table(answers[0]).equals(table.slice(0, 4))
    assert to_table([]).schema == table.schema


def test_new_items_are_marked_where_items_have_features(pipeline: CompletionPipeline) -> None:
    query = {"items": ["hat", "[MASK]", "[MASK]"]}
    plain: Any = [to_table(cast(Any, pipeline(query))), to_table(cast(Any, pipeline.complete_jointly(query)))]
    featured = CompletionPipeline(pipeline.model, pipeline.processor)
    featured.is_new = np.array([False] * 3 + [True, False, False, False])
    found: Any = [to_table(cast(Any, featured(query))), to_table(cast(Any, featured.complete_jointly(query)))]
    for before, table in zip(plain, found, strict=True):
        assert table.drop_columns(["is_new"]).equals(before)
        is_new = dict(zip(table.column("item").to_pylist(), table.column("is_new").to_pylist(), strict=True))
        assert is_new == {"coat": True, "bag": False, "cap": False}
    nothing = to_table([cast(Any, featured(query)), cast(Any, featured({"items": ["hat"], "allow": ["hat"]}))])
    assert nothing.column("is_new")[-1].as_py() is None


def test_a_row_is_a_filled_blank_of_a_whole_set(pipeline: CompletionPipeline) -> None:
    answer: Any = pipeline.complete_jointly({"items": ["hat", "[MASK]", "[MASK]"]}, num_completions=2)
    table = to_table(answer)
    assert table.column("rank").to_pylist() == [1, 1, 2, 2]
    assert table.column("position").to_pylist() == [1, 2, 1, 2]
    assert table.column("item").to_pylist() == [item for each in answer["completions"] for item in each["filled"]]
    assert table.column("log_probability")[0].as_py() == answer["completions"][0]["log_probability"]


def test_a_row_is_a_label_or_a_word_or_a_number() -> None:
    processor = miniature_text_processor()
    config = ContextualBertConfig(id2label={0: "bad", 1: "good"}, **SIZES)
    labels = TextPipeline(ContextualBertForSequenceClassification(config), processor)
    answers: Any = labels([{"text": "word1 word2"}, {"text": "word3"}])
    table = to_table(answers)
    assert table.column("query").to_pylist() == [0, 0, 1, 1]
    assert table.column("label")[0].as_py() == answers[0]["label"]
    assert (
        dict(zip(*table.slice(0, 2).select(["label", "probability"]).to_pydict().values(), strict=True))
        == answers[0]["probabilities"]
    )
    tags = TextPipeline(ContextualBertForTokenClassification(config), processor)
    words: Any = tags({"text": ["word1", "word2", "word3"]})
    assert to_table(words).select(["position", "label", "probability"]).to_pydict() == {
        "position": [0, 1, 2], "label": words["label"], "probability": words["probabilities"],
    }  # fmt: skip
    one = ContextualBertConfig(num_labels=1, problem_type="regression", **SIZES)
    number: Any = TextPipeline(ContextualBertForSequenceClassification(one), processor)({"text": "word1"})
    assert to_table(number).column("number").to_pylist() == [number["label"]]


def test_a_row_is_an_answer_to_a_question() -> None:
    config = ContextualBertConfig(type_vocab_size=2, **SIZES)
    asked = QuestionAnsweringPipeline(ContextualBertForQuestionAnswering(config), miniature_text_processor())
    answer: Any = asked({"question": "word1", "text": "word2 word3"})
    (row,) = to_table([answer]).to_pylist()
    assert row == {"query": 0} | {name: answer[name] for name in row if name != "query"}


@pytest.mark.parametrize("given", [[1], [{"item": "coat"}], pa.table({"a": [1]})])
def test_what_is_no_answer_is_refused(given: Any) -> None:
    with pytest.raises(DataError, match="is no answer"):
        to_table(given)


def test_answers_of_several_kinds_are_no_table(pipeline: CompletionPipeline) -> None:
    answers: Any = [pipeline({"items": ["hat"]}), pipeline.complete_jointly({"items": ["hat"]})]
    with pytest.raises(DataError, match=r"several kinds \(slots, completions\)"):
        to_table(answers)
