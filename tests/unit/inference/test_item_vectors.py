"""The written vectors are those that the model computes with."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from contextual_bert.context import FeatureLayout
from contextual_bert.errors import NonFiniteError
from contextual_bert.inference import CompletionPipeline, item_vectors
from contextual_bert.item_features import ItemLayout
from contextual_bert.testing import miniature_model, miniature_processor

COLOUR = FeatureLayout("colour", "categorical", 5, 0, 8)


def pipeline(**fields: Any) -> CompletionPipeline:
    model = miniature_model("none", **fields)
    if model.config.item_features is not None:
        attributes = model.bert.embeddings.attributes
        attributes.value_ids[4:] = 3
        attributes.value_weights[4:] = 1
        attributes.is_new[5] = True
    return CompletionPipeline(model, miniature_processor())


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=np.float32)


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("layout", [None, ItemLayout((COLOUR,), num_places=1).to_dict()], ids=["names", "features"])
def test_vectors_give_the_logits_of_the_model(layout: Any, is_tied: bool) -> None:
    asked = pipeline(item_features=layout, tie_word_embeddings=is_tied)
    table, names = item_vectors(asked), asked.processor.items.values
    assert table.column("item").to_pylist() == [*names]
    inputs = asked.processor.encode_items([[names[1], "[MASK]"]])
    with torch.no_grad():
        hidden = asked.model.bert(**inputs).last_hidden_state[:, 1]
        state = asked.model.cls.predictions.transform(hidden).numpy()[0]
        logits = asked.model(**inputs).logits.numpy()[0, 3:]
        embedded = asked.model.bert.embeddings.embed_items(torch.tensor([[3 + 2]]), None) if layout else None
    made = numbers(table.column("output_vector")) @ state + numbers(table.column("bias"))
    np.testing.assert_allclose(made, logits, rtol=1e-4, atol=1e-5)
    if embedded is not None:
        np.testing.assert_allclose(numbers(table.column("input_vector"))[2], embedded.numpy()[0, 0], rtol=1e-5)
    if layout is None or is_tied:
        assert np.array_equal(*(numbers(table.column(f"{each}put_vector")) for each in ("in", "out"))) == is_tied
    is_new = table.column("is_new").to_pylist()
    assert [index for index, new in enumerate(is_new) if new] == ([5 - 3] if layout else [])


def test_counts_and_removed_items_are_said() -> None:
    asked = pipeline()
    first, second, *rest = asked.processor.items.values
    asked.processor.removed_items = (second,)
    table = item_vectors(asked, training_counts={first: 7, "another shop's": 3})
    assert table.column("training_count").to_pylist() == [7, 0, *(0 for _ in rest)]
    assert table.column("is_removed").to_pylist() == [False, True, *(False for _ in rest)]
    assert item_vectors(asked).column("training_count").null_count == 2 + len(rest)


def test_numbers_that_are_none_are_an_error() -> None:
    asked = pipeline()
    with torch.no_grad():
        asked.model.get_output_embeddings().bias[4] = torch.nan
    with pytest.raises(NonFiniteError):
        item_vectors(asked)
