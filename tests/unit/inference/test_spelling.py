"""Names in other forms, through the pipeline: in sets, constraints, catalogues and vocabularies of before."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError
from contextual_bert.inference import BulkSettings, Catalogue, CompletionPipeline, complete_table, encode_texts
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.testing import miniature_text_processor

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def made(processor: ContextualBertProcessor, catalogue: pa.Table | None = None) -> CompletionPipeline:
    torch.manual_seed(0)
    size, schema = len(processor.items), processor.schema
    if schema is None:
        config = ContextualBertConfig(vocab_size=size, conditioning="none", **SIZES)
    else:
        config = ContextualBertConfig.from_schema(schema, vocab_size=size, conditioning="film", **SIZES)
    shop = Catalogue(catalogue, processor.items) if catalogue is not None else None
    return CompletionPipeline(ContextualBertForMaskedLM(config), processor, catalogue=shop)


def proposed(pipeline: CompletionPipeline, **query: Any) -> set[str]:
    answer: Any = pipeline({"items": ["tea", "[MASK]"], **query}, top_k=10)
    return {each["item"] for each in answer["slots"][0]["candidates"]}


@pytest.mark.parametrize("name", [DECOMPOSED, f" {COMPOSED}", f"{COMPOSED}\u200b", COMPOSED], ids=ascii)
def test_a_name_in_another_form_is_the_item(name: str) -> None:
    shop = pa.table({"id": [f"{DECOMPOSED} ", "tea", "cake"], "kind": [f" {DECOMPOSED}", "drink", "food"]})
    pipeline = made(ContextualBertProcessor.from_items([COMPOSED, "tea", "cake"]), shop)
    assert proposed(pipeline, deny=[name]) == {"cake"}
    assert proposed(pipeline, owned=[name]) == {"cake"}
    assert proposed(pipeline, allow=[name]) == {COMPOSED}
    assert proposed(pipeline, where={"kind": name}) == {COMPOSED}
    assert proposed(pipeline, where={"kind": {"not_in": [name]}}) == {"cake"}
    answer: Any = pipeline({"items": [name, " [MASK]"]}, top_k=10)
    assert answer["unknown_items"] == []
    assert {each["item"] for each in answer["slots"][0]["candidates"]} == {"tea", "cake"}


def test_items_that_are_one_are_refused_in_a_new_vocabulary() -> None:
    assert ContextualBertProcessor.from_items([" tea", DECOMPOSED]).items.values == ("tea", COMPOSED)
    with pytest.raises(ConfigurationError, match="Items must be distinct"):
        ContextualBertProcessor.from_items([COMPOSED, DECOMPOSED])


def test_a_run_stores_its_rule_and_another_is_refused(tmp_path: Path) -> None:
    pipeline = made(ContextualBertProcessor.from_items(["tea", "cake"]))
    pipeline.model.save_pretrained(tmp_path)
    pipeline.processor.save_pretrained(tmp_path)
    stored = tmp_path / "processor_config.json"
    assert '"value_spelling": "nfc-trimmed"' in stored.read_text()
    assert ContextualBertProcessor.from_pretrained(tmp_path).value_spelling == "nfc-trimmed"
    stored.write_text(stored.read_text().replace("nfc-trimmed", "nfkc-folded"))
    with pytest.raises(
        (RunDirectoryError, ConfigurationError), match="'nfkc-folded', which this version does not have"
    ):
        CompletionPipeline.from_pretrained(tmp_path)


def test_tables_are_read_in_the_same_spelling(tmp_path: Path) -> None:
    schema = ContextSchema(features=(Categorical(name="when", values=("work",)),))
    pipeline = made(ContextualBertProcessor.from_items([COMPOSED, "tea", "cake"], schema))
    table = pa.table(
        {"items": [["tea"], [f" {DECOMPOSED}"]], "when": ["work ", "\u00a0work"], "deny": [[DECOMPOSED], ["cake "]]}
    )
    report = complete_table(pipeline, table, tmp_path / "out", settings=BulkSettings())
    (line,) = report.unknown
    assert line.startswith("taken for constraints")
    found = [pa.parquet.read_table(path) for path in (tmp_path / "out").glob("*.parquet")]  # pyright: ignore
    assert [set(names) for names in found[0]["candidates"].to_pylist()] == [{"cake"}, {"tea"}]


def test_labels_are_spelt_by_the_rule() -> None:
    table = pa.table({"text": ["word1", "word2", "word3"], "mood": ["good ", "bad", "good"], "sex": ["f"] * 3})
    encoded = encode_texts(table, miniature_text_processor(), text="text", label="mood")
    assert encoded.labels == ("bad", "good")
    assert encoded.dataset.labels is not None
    assert encoded.dataset.labels.tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="'fine' is not among"):
        encode_texts(
            pa.table({"text": ["word1"], "mood": ["fine"], "sex": ["f"]}),
            miniature_text_processor(),
            text="text",
            label="mood",
            labels=["bad", "good "],
        )
