"""An item that is called like a reserved token is an unknown item: only [MASK] means something in a set."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.inference import Catalogue, CompletionPipeline
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor

RESERVED = ["[PAD]", "[UNK]"]


@pytest.fixture(scope="module")
def pipeline() -> CompletionPipeline:
    torch.manual_seed(0)
    processor = ContextualBertProcessor.from_items(["coat", "hat", "bag"])
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = ContextualBertConfig(vocab_size=6, intermediate_size=16, initializer_range=0.5, **sizes)
    shop = pa.table({"id": ["coat", "hat", "bag"], "price": [30.0, 20.0, 10.0], "in_stock": [True] * 3})
    return CompletionPipeline(ContextualBertForMaskedLM(config), processor, catalogue=Catalogue(shop, processor.items))


@pytest.mark.parametrize("name", [*RESERVED, "[CLS]", "[SEP]", "[pad]"])
def test_it_counts_as_unknown(pipeline: CompletionPipeline, name: str) -> None:
    def answer(item: str) -> Any:
        return pipeline({"items": [item, "hat", "[MASK]"]}, top_k=3)

    assert answer(name)["unknown_items"] == [name]
    assert answer(name)["slots"] == answer("never seen")["slots"]
    joint: Any = pipeline.complete_jointly({"items": [name, "[MASK]"]})
    assert joint["unknown_items"] == [name]


@pytest.mark.parametrize("key", ["allow", "deny", "owned"])
def test_it_changes_nothing_where_items_are_named(pipeline: CompletionPipeline, key: str) -> None:
    for name in (*RESERVED, "[MASK]"):
        answer: Any = pipeline({"items": ["hat"], key: [name, "coat"]}, top_k=3)
        plain: Any = pipeline({"items": ["hat"], key: ["never seen", "coat"]}, top_k=3)
        assert answer["slots"] == plain["slots"]
        assert any("names 1 unknown item " in note and name in note for note in answer["notes"])


def test_the_price_of_the_set_is_not_that_of_a_token(pipeline: CompletionPipeline) -> None:
    with pytest.raises(Exception, match=r"the price of \[PAD\] is unknown"):
        pipeline({"items": ["[PAD]", "[MASK]"], "budget": 50, "budget_includes_visible": True})


def test_the_encoder_gives_it_the_id_of_unknown_items(pipeline: CompletionPipeline) -> None:
    encoded = pipeline.processor.encode_items([["[PAD]", "hat", "[MASK]", "[UNK]", "coat"], ["hat"]])
    assert encoded["input_ids"].tolist() == [[2, 4, 1, 2, 3], [4, 0, 0, 0, 0]]
    assert encoded["attention_mask"].tolist() == [[1] * 5, [1, 0, 0, 0, 0]]


def test_it_has_no_stock(pipeline: CompletionPipeline) -> None:
    catalogue = pipeline.catalogue
    assert catalogue is not None
    before = catalogue.in_stock.copy()
    assert catalogue.set_stock(["[PAD]", "[MASK]"], True) == ("[PAD]", "[MASK]")
    assert np.array_equal(before, catalogue.in_stock)
    assert catalogue.record("[UNK]") == {}
