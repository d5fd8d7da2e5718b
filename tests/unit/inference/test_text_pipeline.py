"""Texts and contexts in, labels out: what the model says, in the query's own words, faults named by row."""

from pathlib import Path
from typing import Any

import pytest
import torch

from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, UnknownNameError
from contextual_bert.inference import TextPipeline
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.testing import miniature_processor, miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew

PROCESSOR = miniature_text_processor()
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
LAYOUT = {"has_position_embeddings": True, "type_vocab_size": 2, "vocab_size": 23}
QUERIES = [
    {"text": "word1 word2 word3", "context": {"sex": "f"}},
    {"text": "word4", "context": {"sex": "x"}},
    {"text": "word5 strange"},
]


def pipeline_of(
    kind: Any = ContextualBertForSequenceClassification, conditioning: str = "global_state", **fields: Any
) -> TextPipeline:
    fields = {"id2label": {0: "low", 1: "middle", 2: "high"}, **fields}
    config = ContextualBertConfig.from_schema(PROCESSOR.schema, conditioning=conditioning, **LAYOUT, **SIZES, **fields)
    return TextPipeline(drawn_anew(kind(config)), PROCESSOR)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
@pytest.mark.parametrize("is_ordinal", [False, True])
def test_labels_are_what_the_model_says(batch_size: int, is_ordinal: bool) -> None:
    pipeline = pipeline_of(is_ordinal=is_ordinal)
    found: Any = pipeline(QUERIES, batch_size=batch_size)
    for query, answer in zip(QUERIES, found, strict=True):
        inputs = PROCESSOR(text=query["text"], context=[query.get("context", {})])
        expected = pipeline.model(**inputs).logits.softmax(dim=-1)[0].tolist()
        assert list(answer["probabilities"]) == ["low", "middle", "high"]
        assert list(answer["probabilities"].values()) == pytest.approx(expected, abs=1e-5)
        assert answer["label"] == ["low", "middle", "high"][expected.index(max(expected))]
    assert [answer["unknown_context"] for answer in found] == [{}, {"sex": ["x"]}, {}]
    single: Any = pipeline(QUERIES[0])
    assert single["label"] == found[0]["label"]
    assert single["probabilities"] == pytest.approx(found[0]["probabilities"], abs=1e-5)


def test_pairs() -> None:
    pipeline = pipeline_of()
    query = {"text": "word1 word2", "pair": "word3", "context": {"sex": "m"}}
    answer: Any = pipeline(query)
    ids = torch.tensor([[3, 6, 7, 4, 8, 4]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1]])
    context = PROCESSOR(text="word1", context=[{"sex": "m"}])["context"]
    expected = pipeline.model(ids, context=context, token_type_ids=segments).logits.softmax(dim=-1)[0].tolist()
    assert list(answer["probabilities"].values()) == pytest.approx(expected, abs=1e-5)


def test_numbers_and_several_labels() -> None:
    number: Any = pipeline_of(id2label={0: "value"})(QUERIES[0])
    assert isinstance(number["label"], float) and number["probabilities"] == {}
    several: Any = pipeline_of(problem_type="multi_label_classification")(QUERIES[0])
    assert several["label"] == [name for name, share in several["probabilities"].items() if share > 0.5]


def test_words_get_tags() -> None:
    pipeline = pipeline_of(ContextualBertForTokenClassification)
    words = [["word1", "odd", "word3"], ["word4"]]
    found: Any = pipeline([{"text": row, "context": {"sex": "f"}} for row in words])
    assert [len(answer["label"]) for answer in found] == [3, 1]
    inputs = PROCESSOR(text="word1 odd word3", context=[{"sex": "f"}])
    expected = pipeline.model(**inputs).logits[0, 1:-1].argmax(dim=-1).tolist()
    assert found[0]["label"] == [["low", "middle", "high"][index] for index in expected]
    assert all(1 / 3 <= share <= 1 for share in found[0]["probabilities"])
    split: Any = pipeline({"text": "word1 odd word3", "context": {"sex": "f"}})
    assert split["label"] == found[0]["label"]


def test_what_was_not_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESSOR.tokenizer, "model_max_length", 4)
    long: Any = pipeline_of()([{"text": "word1 word2 word3"}, {"text": "word1"}])
    assert [len(answer["notes"]) for answer in long] == [1, 0]
    assert "its end was not read" in long[0]["notes"][0]
    tags: Any = pipeline_of(ContextualBertForTokenClassification)({"text": "word1 word2 word3"})
    assert tags["label"][:2] != [None, None] and tags["label"][2] is None


def test_a_context_that_is_not_used_is_said() -> None:
    answer: Any = pipeline_of(conditioning="none")(QUERIES[0])
    assert "The context was not used" in answer["notes"][0]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ({"text": 3}, DataError, "row 1, column 'text': 3 is no text"),
        ({"text": ""}, DataError, "row 1, column 'text': '' is no text"),
        ({"text": ["word1"]}, DataError, "row 1, column 'text'.*is no text"),
        ({"txt": "word1"}, UnknownNameError, "Query 1: unknown key 'txt'. Did you mean 'text'"),
        ("word1", DataError, "row 1: 'word1' is not a query"),
        ({"text": "word1", "context": 5}, DataError, "row 1, column 'context': 5 is not a record"),
        ({"text": "word1", "pair": "word2"}, DataError, "row 0, column 'pair': None is no second text"),
        ({"text": "word1", "context": {"sexx": "f"}}, UnknownNameError, "Did you mean 'sex'"),
    ],
)
def test_faults_are_named(query: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pipeline_of()([QUERIES[0], query])


@pytest.mark.parametrize("queries", ["word1", 7])
def test_what_is_no_query(queries: Any) -> None:
    with pytest.raises(DataError, match="neither a query nor a list"):
        pipeline_of()(queries)
    with pytest.raises(ConfigurationError, match="batch_size=0"):
        pipeline_of()(QUERIES, batch_size=0)


@pytest.mark.parametrize("kind", [ContextualBertForSequenceClassification, ContextualBertForTokenClassification])
def test_from_the_folder_it_was_saved_in(kind: Any, tmp_path: Path) -> None:
    pipeline = pipeline_of(kind)
    pipeline.model.save_pretrained(tmp_path)
    PROCESSOR.save_pretrained(tmp_path)
    query = {"text": "word1 word2", "context": {"sex": "m"}}
    assert TextPipeline.from_pretrained(tmp_path)(query) == pipeline(query)


def test_folders_that_will_not_do(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="cannot be loaded"):
        TextPipeline.from_pretrained(tmp_path / "nowhere")
    ContextualBertForMaskedLM(ContextualBertConfig(**LAYOUT, **SIZES)).save_pretrained(tmp_path)
    with pytest.raises(RunDirectoryError, match="holds ContextualBertForMaskedLM, which labels no texts"):
        TextPipeline.from_pretrained(tmp_path)


def test_parts_that_do_not_belong_together() -> None:
    model: Any = pipeline_of().model
    with pytest.raises(ConfigurationError, match="is for sets of items"):
        TextPipeline(model, miniature_processor())
    without = ContextualBertProcessor(type(PROCESSOR.feature_extractor)(), PROCESSOR.tokenizer)
    with pytest.raises(ConfigurationError, match="disagree on: sex"):
        TextPipeline(model, without)
