"""The processor: raw values to tensors, and back from its files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoProcessor, PreTrainedTokenizerFast

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical
from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.models import (
    RESERVED_ITEMS,
    ContextFeatureExtractor,
    ContextualBertConfig,
    ContextualBertProcessor,
)
from contextual_bert.testing.miniature import RECORDS, SETS, miniature_processor

SCHEMA = ContextSchema(
    features=(Categorical(name="sex", values=("f", "m")), MultiCategorical(name="brands", values=("a", "b")))
)
ITEMS = ("coat", "hat", "red shoe", "Schal", "hat,blue")


@pytest.fixture
def processor() -> ContextualBertProcessor:
    return ContextualBertProcessor.from_items(ITEMS, SCHEMA)


def test_ids_start_with_the_reserved_ones(processor: ContextualBertProcessor) -> None:
    assert RESERVED_ITEMS == ("[PAD]", "[MASK]", "[UNK]")
    assert [processor.items.id_of(item) for item in (*RESERVED_ITEMS, *ITEMS)] == list(range(8))
    config = ContextualBertConfig()
    assert (config.pad_token_id, config.mask_token_id, tuple(config.reserved_token_ids)) == (0, 1, (0, 1, 2))


def test_sets_and_records_become_a_padded_batch(processor: ContextualBertProcessor) -> None:
    batch = processor(items=[["hat", "[MASK]"], ["red shoe"]], context=[{"sex": "m", "brands": ["a", "b"]}, {}])
    assert batch["input_ids"].tolist() == [[4, 1], [5, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert batch["context"]["sex"].tolist() == [3, 0]
    assert batch["context"]["brands"].tolist()[0] == [4, 5]


def test_unknown_items_become_unk(processor: ContextualBertProcessor) -> None:
    ids = processor(items=[["hat", "boat", "HAT", "[PAD]", "[UNK]"]])["input_ids"]
    assert ids.tolist() == [[4, 2, 2, 2, 2]]


def test_without_records_every_feature_is_missing(processor: ContextualBertProcessor) -> None:
    missing = processor(items=[["hat"]] * 2)["context"]
    assert all(torch.equal(tensor, processor(items=[["hat"]] * 2, context=[{}, {}])["context"][name])
               for name, tensor in missing.items())  # fmt: skip
    assert missing["sex"].tolist() == [0, 0]


def test_a_model_without_context_gets_none() -> None:
    batch = ContextualBertProcessor.from_items(ITEMS)(items=[["hat"]], context=[{"sex": "f"}])
    assert sorted(batch) == ["attention_mask", "input_ids"]


def test_unknown_values_are_a_state_and_unknown_features_an_error(processor: ContextualBertProcessor) -> None:
    assert processor(items=[["hat"]], context=[{"sex": "x"}])["context"]["sex"].tolist() == [1]
    with pytest.raises(UnknownNameError, match="Did you mean 'sex'"):
        processor(items=[["hat"]], context=[{"sexx": "f"}])
    with pytest.raises(DataError, match="brands"):
        processor(items=[["hat"]], context=[{"brands": {"a": 1}}])


def test_as_many_records_as_sets(processor: ContextualBertProcessor) -> None:
    with pytest.raises(ConfigurationError, match=r"2 rows came with 1 context records\. Give one record a row"):
        processor(items=[["hat"], ["coat"]], context=[{}])


@pytest.mark.parametrize("settings", [{"return_tensors": "np"}, {"padding": True}])
def test_keywords_that_mean_nothing_here_are_refused(
    processor: ContextualBertProcessor, settings: dict[str, object]
) -> None:
    with pytest.raises(ConfigurationError, match=r"takes a context and nothing else|gives torch tensors"):
        processor(items=[["hat"]], **settings)
    assert processor(items=[["hat"]], return_tensors="pt")["input_ids"].tolist() == [[4]]


@pytest.mark.parametrize("inputs", [{}, {"items": [["hat"]], "text": "hat"}])
def test_items_or_text(processor: ContextualBertProcessor, inputs: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"Give either items=.* or text="):
        processor(**inputs)


def test_one_is_for_items_and_one_for_text(processor: ContextualBertProcessor, checkpoint: Path) -> None:
    for_text = ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA)
    assert for_text.is_for_text and not processor.is_for_text
    with pytest.raises(ConfigurationError, match="is for sets of items"):
        processor(text="hat")
    for ask in (lambda: for_text(items=[["hat"]]), lambda: for_text.items):
        with pytest.raises(ConfigurationError, match="is for text and has no items"):
            ask()


def test_texts_and_pairs(checkpoint: Path) -> None:
    processor = ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA)
    batch = processor(text=["word1 word2", "word3"], text_pair=["word4", "word5 word6"], context=[{"sex": "m"}, {}])
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 6)
    assert batch["context"]["sex"].tolist() == [3, 0]
    assert processor(text="word1")["input_ids"].shape[0] == 1
    assert processor(text=["word1 word2 word3"], max_length=2)["input_ids"].shape == (1, 2)


def test_a_long_text_in_windows_has_its_context_in_each(checkpoint: Path) -> None:
    processor = ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA)
    windows = {"max_length": 6, "truncation": "only_second", "stride": 1, "return_overflowing_tokens": True}
    batch = processor(
        text=["word1", "word1"],
        text_pair=["word2 word3 word4 word5", "word2"],
        context=[{"sex": "m"}, {}],
        **windows,
    )
    assert batch["overflow_to_sample_mapping"].tolist() == [0, 0, 0, 1]
    assert batch["context"]["sex"].tolist() == [3, 3, 3, 0]
    with pytest.raises(ConfigurationError, match="2 rows came with 4 context records"):
        processor(text=["word1"] * 2, text_pair=["word2 word3 word4 word5", "word2"], context=[{}] * 4, **windows)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"text": ["word1", None]}, DataError, r"row 2, column 'text': None is no text"),
        ({"text": ["word1"], "text_pair": [3]}, DataError, r"row 1, column 'text_pair': 3 is no text"),
        ({"text": ["word1", "word2"], "text_pair": ["word3"]}, ConfigurationError, "2 texts came with 1 second texts"),
        ({"text": ["word1"], "text_pair": []}, ConfigurationError, "1 texts came with 0 second texts"),
        ({"text": ["word1", "a\udc00"]}, DataError, "row 2, column 'text': .*half of a character"),
        ({"text": "word1", "context": {"sex": "f"}}, DataError, r"\{'sex': 'f'\} is one record. Give a list of them"),
        ({"text": ["word1"], "context": [{}, {}]}, ConfigurationError, "1 rows came with 2 context records"),
    ],
)
def test_texts_that_cannot_be_encoded(
    inputs: dict[str, Any], error: type[Exception], message: str, checkpoint: Path
) -> None:
    with pytest.raises(error, match=message):
        ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA)(**inputs)


def test_texts_may_come_as_arrays(checkpoint: Path) -> None:
    processor = ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA)
    texts: dict[str, Any] = {"text": ["word1", "word2"], "text_pair": ["word3", "word4"]}
    arrays: dict[str, Any] = {name: np.array(values) for name, values in texts.items()}
    assert torch.equal(processor(**arrays)["input_ids"], processor(**texts)["input_ids"])


@pytest.mark.parametrize("items", [("hat", "hat"), ("hat", "[MASK]")])
def test_items_are_distinct(items: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="Items must be distinct and none of"):
        ContextualBertProcessor.from_items(items)


def test_another_tokenizer_is_refused(processor: ContextualBertProcessor) -> None:
    other = ContextualBertProcessor.from_items(ITEMS).tokenizer.backend_tokenizer.to_str().replace("[PAD]", "<p>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=type(processor.tokenizer.backend_tokenizer).from_str(other))
    with pytest.raises(ConfigurationError, match=r"The first ids must be \[PAD\], \[MASK\], \[UNK\], not <p>"):
        ContextualBertProcessor(ContextFeatureExtractor(), tokenizer)


@pytest.mark.parametrize("schema", [SCHEMA, None])
@pytest.mark.parametrize("loader", [ContextualBertProcessor, AutoProcessor])
def test_it_comes_back_from_its_files(schema: ContextSchema | None, loader: type, tmp_path: Path) -> None:
    ContextualBertProcessor.from_items(ITEMS, schema).save_pretrained(tmp_path)
    ContextualBertConfig().save_pretrained(tmp_path)
    again = loader.from_pretrained(tmp_path)
    assert type(again) is ContextualBertProcessor
    assert again.schema == schema
    assert again.items.values == ITEMS
    inputs = {"items": [["hat,blue", "[MASK]", "boat"]], "context": [{"sex": "f", "brands": []}]}
    expected = ContextualBertProcessor.from_items(ITEMS, schema)(**inputs)
    found = again(**inputs)
    assert torch.equal(found["input_ids"], expected["input_ids"])
    assert all(torch.equal(found["context"][name], expected["context"][name]) for name in expected.get("context", {}))


def test_new_items_are_appended(processor: ContextualBertProcessor) -> None:
    longer = processor.with_items(["boat", "hat", "boat", "kite"])
    assert longer.items.values == (*ITEMS, "boat", "kite")
    assert longer.schema == SCHEMA
    assert processor.items.values == ITEMS, "the old one stays as it is"


def test_no_sets_at_all(processor: ContextualBertProcessor) -> None:
    assert tuple(processor(items=[])["input_ids"].shape) == (0, 0)


@pytest.mark.parametrize("loader", [ContextualBertProcessor, AutoProcessor])
def test_one_for_text_comes_back_from_its_files(loader: type, checkpoint: Path, tmp_path: Path) -> None:
    processor = ContextualBertProcessor.from_checkpoint(checkpoint, SCHEMA)
    processor.save_pretrained(tmp_path / "saved")
    ContextualBertConfig().save_pretrained(tmp_path / "saved")
    again = loader.from_pretrained(tmp_path / "saved")
    assert type(again) is ContextualBertProcessor
    assert again.is_for_text and again.schema == SCHEMA
    inputs = {"text": ["word1 word2", "word9"], "context": [{"sex": "f"}, {}]}
    expected, found = processor(**inputs), again(**inputs)
    assert all(torch.equal(found[name], expected[name]) for name in ("input_ids", "attention_mask"))


def test_a_batch_takes_its_context_along() -> None:
    moved = miniature_processor()(items=SETS, context=RECORDS).to("meta")
    assert {value.device.type for value in (moved["input_ids"], *moved["context"].values())} == {"meta"}
    made = miniature_processor()(items=SETS, context=RECORDS)
    assert made.to(torch.float16) is made
    assert (made["context"]["style"].dtype, made["context"]["sex"].dtype) == (torch.float16, torch.int64)
    without = ContextualBertProcessor.from_items(ITEMS, None)(items=[["coat"]])
    assert without.to("meta")["input_ids"].device.type == "meta"
