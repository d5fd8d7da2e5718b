"""Texts with [MASK] and contexts in, words out: what the model says of each, and where it stands in the text."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, SchemaError, UnknownNameError
from contextual_bert.inference import FillMaskPipeline, PredictionSettings, TablePredictor, predict_table
from contextual_bert.inference.saved_files import learned_kind
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForSequenceClassification,
    ContextualBertProcessor,
)
from contextual_bert.testing import miniature_processor, miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew

PROCESSOR = miniature_text_processor()
SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16, "vocab_size": 23,
    "has_position_embeddings": True, "type_vocab_size": 2, "reserved_token_ids": [0, 1, 2, 3, 4],
    "max_position_embeddings": 12, "context_dropout": 0.1,
}  # fmt: skip
QUERIES: list[dict[str, Any]] = [
    {"text": "word1 [MASK] word3", "context": {"sex": "f"}},
    {"text": "[MASK] word4 strange [MASK]", "context": {"sex": "x"}},
    {"text": "word5 [MASK]"},
]


def pipeline_of(conditioning: str = "global_state", *, top_k: int = 5, **fields: Any) -> FillMaskPipeline:
    torch.manual_seed(0)
    config = ContextualBertConfig.from_schema(PROCESSOR.schema, conditioning=conditioning, **{**SIZES, **fields})
    return FillMaskPipeline(drawn_anew(ContextualBertForMaskedLM(config)), PROCESSOR, top_k=top_k)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
@pytest.mark.parametrize("conditioning", ["none", "global_state", "concat", "global_state_update", "film"])
def test_words_are_what_the_model_says(conditioning: str, batch_size: int) -> None:
    pipeline = pipeline_of(conditioning, top_k=18)
    found: Any = pipeline(QUERIES, batch_size=batch_size)
    reads = pipeline.model.config.reads_context
    for query, answer in zip(QUERIES, found, strict=True):
        inputs = PROCESSOR(text=query["text"], context=[query.get("context", {})])
        if not reads:
            inputs.pop("context")
        with torch.no_grad():
            logits = pipeline.model(**inputs).logits
        is_mask = inputs["input_ids"][0] == PROCESSOR.tokenizer.mask_token_id
        logits = logits.view(-1, 23)[is_mask] if logits.dim() == 3 else logits
        expected = logits.index_fill(1, torch.tensor([0, 1, 2, 3, 4]), -torch.inf).softmax(dim=-1)
        assert len(answer["slots"]) == len(expected) == query["text"].count("[MASK]")
        for slot, shares in zip(answer["slots"], expected, strict=True):
            assert query["text"][slot["start"] :].startswith("[MASK]")
            assert sum(each["probability"] for each in slot["candidates"]) == pytest.approx(1, abs=1e-5)
            for each in slot["candidates"]:
                word_id = PROCESSOR.tokenizer.convert_tokens_to_ids(each["word"])
                assert each["probability"] == pytest.approx(float(shares[word_id]), abs=1e-5)
            probabilities = [each["probability"] for each in slot["candidates"]]
            assert probabilities == sorted(probabilities, reverse=True)
    assert [each["unknown_context"] for each in found] == ([{}, {"sex": ["x"]}, {}])
    first = [slot["candidates"][0]["word"] for slot in found[1]["slots"]]
    assert found[1]["filled"] == f"{first[0]} word4 strange {first[1]}"
    assert any("filled by itself" in note for note in found[1]["notes"])


def test_it_matters_who_asks_and_how_personal_it_is_to_be() -> None:
    pipeline = pipeline_of()
    ask = lambda **beside: pipeline({"text": "word1 [MASK]", **beside})["slots"][0]["candidates"]  # type: ignore[index, call-overload]  # noqa: E731
    women, men, nobody = ask(context={"sex": "f"}), ask(context={"sex": "m"}), ask()
    assert women != men
    none: Any = pipeline({"text": "word1 [MASK]", "context": {"sex": "f"}, "guidance": 0})
    assert [each["word"] for each in none["slots"][0]["candidates"]] == [each["word"] for each in nobody]
    plain: Any = pipeline_of("none")({"text": "word1 [MASK]", "context": {"sex": "f"}})
    assert any("context" in note for note in plain["notes"])


def test_a_text_that_is_too_long_loses_the_masks_of_its_end() -> None:
    text = " ".join(["word1", "[MASK]"] * 8)
    found: Any = pipeline_of()({"text": text})
    assert len(found["slots"]) == 5  # of 12 tokens, without [CLS] and [SEP]
    assert found["filled"].count("[MASK]") == 3
    assert found["notes"][0].startswith("The text is longer than the model reads: its end was not, nor was the [MASK]")
    cut: Any = pipeline_of()({"text": "[MASK]" + " word1" * 20})
    assert cut["notes"][0] == "The text is longer than the model reads: its end was not read."


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"text": "word1 word2"}, r"query 1, text: there is no \[MASK\] in the text"),
        ({"text": "word1 [mask]"}, r"there is no \[MASK\]"),
        ({"text": " "}, "is no text"),
        ({"text": "[MASK]", "pair": "word1"}, "unknown key 'pair'"),
        ({"text": "[MASK]", "context": {"sexx": "f"}}, "sexx"),
        ({}, r"Give \{\"text\": \"... \[MASK\] ...\""),
    ],
)
def test_a_faulty_query_is_named(query: dict[str, Any], words: str) -> None:
    with pytest.raises((DataError, UnknownNameError), match=words):
        pipeline_of()(query)


def test_a_table_gets_its_words(tmp_path: Path) -> None:
    pipeline = pipeline_of(top_k=3)
    table = pa.table({"text": [each["text"] for each in QUERIES], "sex": ["f", "x", None]})
    found = pipeline.fill_table(table, batch_size=2)
    answers: Any = pipeline(QUERIES)
    for row, answer in zip(found.table.to_pylist(), answers, strict=True):
        assert row["predicted_text"] == answer["filled"]
        assert row["candidates"] == [[each["word"] for each in slot["candidates"]] for slot in answer["slots"]]
        shares = [each["probability"] for slot in answer["slots"] for each in slot["candidates"]]
        assert [each for slot in row["probabilities"] for each in slot] == pytest.approx(shares, abs=1e-6)
    assert "3 texts, none of them cut" in found.report.lines()
    with pytest.raises(DataError, match=r"row 2, column 'text': there is no \[MASK\]"):
        pipeline.fill_table(table.set_column(0, "text", [["[MASK]", "word1", "[MASK]"]]))
    with pytest.raises(SchemaError):
        pipeline.fill_table(table.drop_columns(["sex"]))
    pipeline.model.save_pretrained(tmp_path / "run")
    PROCESSOR.save_pretrained(tmp_path / "run")
    assert learned_kind(tmp_path / "run") == "masked_text"
    predictor = TablePredictor.from_run(tmp_path / "run", PredictionSettings(top_k=3))
    predict_table(predictor, table, tmp_path / "out.parquet")
    with pytest.raises(ConfigurationError, match="top_k=0"):
        PredictionSettings(top_k=0)


def test_a_tokenizer_with_marks_of_spaces_and_another_mask_is_read(tmp_path: Path) -> None:
    letters = {name: number for number, name in enumerate(["<s>", "<mask>", "</s>", "<pad>", "<unk>"])}
    vocabulary = {**letters, **{name: 5 + number for number, name in enumerate(["Ġa", "Ġb", "c", "a", "b", "Ġ"])}}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[("Ġ", "a"), ("Ġ", "b")], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {
        "cls_token": "<s>",
        "mask_token": "<mask>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    }
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    processor = ContextualBertProcessor(ContextFeatureExtractor(), tokenizer)
    config = ContextualBertConfig(**{**SIZES, "vocab_size": 11, "context_dropout": 0.0})
    pipeline = FillMaskPipeline(drawn_anew(ContextualBertForMaskedLM(config)), processor, top_k=9)
    found: Any = pipeline([{"text": "a [MASK] b"}, {"text": "a <mask> b"}])
    assert found[0]["slots"][0] == {**found[1]["slots"][0]}
    words = {each["word"] for each in found[0]["slots"][0]["candidates"]}
    assert {"a", "b", "##c", "##a", "##b"} <= words
    best = found[0]["slots"][0]["candidates"][0]["word"]
    assert found[0]["filled"] == (f"a{best[2:]} b" if best.startswith("##") else f"a {best} b")


def test_other_models_are_refused(tmp_path: Path) -> None:
    config = ContextualBertConfig(**SIZES, num_labels=3)
    with pytest.raises(ConfigurationError, match="fills no hidden words"):
        FillMaskPipeline(ContextualBertForSequenceClassification(config), PROCESSOR)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is for sets of items"):
        FillMaskPipeline(ContextualBertForMaskedLM(config), miniature_processor())
    with pytest.raises(ConfigurationError, match="top_k=0"):
        FillMaskPipeline(ContextualBertForMaskedLM(config), PROCESSOR, top_k=0)
    ContextualBertForSequenceClassification(config).save_pretrained(tmp_path)
    PROCESSOR.save_pretrained(tmp_path)
    with pytest.raises(RunDirectoryError, match="ContextualBertForMaskedLM"):
        FillMaskPipeline.from_pretrained(tmp_path)
    (tmp_path / "sets").mkdir()
    ContextualBertForMaskedLM(ContextualBertConfig(**SIZES)).save_pretrained(tmp_path / "sets")
    miniature_processor().save_pretrained(tmp_path / "sets")
    assert learned_kind(tmp_path / "sets") is None
    assert json.loads((tmp_path / "sets" / "config.json").read_text())["architectures"] == ["ContextualBertForMaskedLM"]
