"""Texts that are read in segments: where they are cut, and that a document is what its segments say, each with the
context of its own document."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertForSequenceClassification, document_segments
from contextual_bert.models.document_segments import Segments, cut_into_segments
from contextual_bert.models.sequence_classification import mean_of_text
from contextual_bert.testing import miniature_batch, miniature_config
from contextual_bert.testing.miniature import drawn_anew

TEXT = {"has_position_embeddings": True, "max_position_embeddings": 6, "segment_length": 6}
FIRST, LAST = 1, 2  # in the place of [CLS] and [SEP]


def model_of(method_name: str = "global_state_update", **fields: Any) -> ContextualBertForSequenceClassification:
    return drawn_anew(ContextualBertForSequenceClassification(miniature_config(method_name, **{**TEXT, **fields})))


def documents(*sizes: int) -> dict[str, Tensor]:
    """Documents with so many tokens between the first and the last, padded to one length."""
    drawn = torch.Generator().manual_seed(0)
    width = max(sizes) + 2
    ids = torch.zeros(len(sizes), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, size in enumerate(sizes):
        inner = torch.randint(3, 9, (size,), generator=drawn)
        ids[row, : size + 2] = torch.cat([torch.tensor([FIRST]), inner, torch.tensor([LAST])])
        mask[row, : size + 2] = 1
    return {"input_ids": ids, "attention_mask": mask}


def context_of(num_rows: int) -> dict[str, Tensor]:
    return {name: values[:num_rows] for name, values in miniature_batch()["context"].items()}


@pytest.mark.parametrize("overlap", [0, 1, 3])
@pytest.mark.parametrize("sizes", [(0, 1, 4), (5, 8, 9), (23,), (4, 30, 0, 7)])
def test_segments_are_those_of_a_plain_loop(sizes: tuple[int, ...], overlap: int) -> None:
    given = documents(*sizes)
    found = cut_into_segments(given["input_ids"], given["attention_mask"], length=6, overlap=overlap, padding_id=0)
    expected: list[list[int]] = []
    counts: list[int] = []
    for row, size in enumerate(sizes):
        inner, start, before = given["input_ids"][row, 1 : size + 1].tolist(), 0, len(expected)
        while True:
            expected.append([FIRST, *inner[start : start + 4], LAST])
            if start + 4 >= size:
                break
            start += 4 - overlap
        counts.append(len(expected) - before)
    is_real = found.attention_mask.bool()
    assert [ids[real].tolist() for ids, real in zip(found.input_ids, is_real, strict=True)] == expected
    assert found.num_segments.tolist() == counts
    assert not found.input_ids[~is_real].any()


def test_padding_at_the_start_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Pad them at their end"):
        cut_into_segments(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1, 1]]), length=6, overlap=0, padding_id=0)


@pytest.mark.parametrize("pooling", ["cls", "first", "mean"])
@pytest.mark.parametrize("method_name", ["none", "global_state_update", "concat", "multi_attribute", "state_flow"])
def test_a_document_is_what_its_segments_say(method_name: str, pooling: str) -> None:
    model = model_of(method_name, classifier_pooling=pooling, segment_overlap=1)
    given, context = documents(2, 11, 5), context_of(3) if method_name != "none" else None
    found = model(**given, context=context).logits
    assert model.segments is not None
    for row in range(3):
        own = {name: values[row : row + 1] for name, values in context.items()} if context is not None else None
        size = int(given["attention_mask"][row].sum())
        cut = cut_into_segments(given["input_ids"][row : row + 1, :size], None, length=6, overlap=1, padding_id=0)
        vectors = []
        for ids, mask in zip(cut.input_ids, cut.attention_mask, strict=True):
            read = ids[mask.bool()].unsqueeze(0)
            hidden = model.bert(read, context=own).last_hidden_state
            vector = mean_of_text(hidden, None) if pooling == "mean" else hidden[:, 0]
            vectors.append(model.bert.pooler(vector.unsqueeze(1)) if model.bert.pooler is not None else vector)
        stacked = torch.cat(vectors)
        alone = Segments(*cut[:2], torch.zeros(len(stacked)).long(), torch.arange(len(stacked)), cut.num_segments)
        expected = model.classifier(model.segments(stacked, alone))
        torch.testing.assert_close(found[row : row + 1], expected, atol=1e-5, rtol=1e-5)


def test_later_segments_and_their_order_change_the_answer() -> None:
    model, given = model_of("none"), documents(8)
    other, turned = given["input_ids"].clone(), given["input_ids"].clone()
    other[0, 7] = 3 if other[0, 7] != 3 else 4
    turned[0, 1:9] = torch.cat([turned[0, 5:9], turned[0, 1:5]])
    logits = [model(input_ids=ids).logits for ids in (given["input_ids"], other, turned)]
    assert not torch.allclose(logits[0], logits[1])
    with torch.no_grad():
        model.segments.positions.scale.fill_(1.0)
    assert not torch.allclose(model(input_ids=given["input_ids"]).logits, model(input_ids=turned).logits)


def test_a_document_in_parts_has_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of().train()
    for each in model.modules():
        if isinstance(each, torch.nn.Dropout):
            each.p = 0.0
    batch = {**documents(14, 3, 9), "context": context_of(3), "labels": torch.tensor([0, 1, 1])}
    gradients = []
    for at_once in (100, 2):
        monkeypatch.setattr(document_segments, "SEGMENTS_AT_ONCE", at_once)
        model.zero_grad()
        model(**batch).loss.backward()
        gradients.append({name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-5, rtol=1e-4)


def test_an_encoded_context_serves_each_segment() -> None:
    model, given = model_of(), documents(9, 2)
    context = context_of(2)
    expected = model(**given, context=context).logits
    torch.testing.assert_close(model(**given, context=model.encode_context(context)).logits, expected)


def test_a_saved_model_gives_the_same(tmp_path: Path) -> None:
    model, given = model_of("none"), documents(9, 2)
    model.save_pretrained(tmp_path)
    loaded = ContextualBertForSequenceClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(loaded(**given).logits, model(**given).logits)


@pytest.mark.parametrize(
    "given", [{"token_type_ids": torch.ones(1, 6).long()}, {"output_attentions": True}, {"output_hidden_states": True}]
)
def test_what_no_document_has_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="read in segments takes ids"):
        model_of("none")(**documents(4), **given)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"segment_length": 7}, "segment_length=7 is not allowed"),
        ({"segment_length": 2}, "segment_length=2 is not allowed"),
        ({"segment_overlap": 4}, "segment_overlap=4 is not allowed"),
        ({"segment_overlap": -1}, "segment_overlap=-1 is not allowed"),
        ({"num_segment_layers": 0}, "num_segment_layers=0 is not allowed"),
        ({"has_context_as_text": True}, "is for a context that a method reads"),
    ],
)
def test_sizes_that_cannot_be_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        miniature_config("none", **{**TEXT, **fields})
