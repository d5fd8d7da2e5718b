"""The next-sentence head beside the masked-item head: BertForPreTraining's, under every method, and its losses."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForPreTraining

from contextual_bert import ContextualBertForMaskedLM
from contextual_bert.conditioning import METHODS, get_method
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import (
    batch_rows,
    drawn_anew,
    miniature_batch,
    miniature_model,
    miniature_schema,
)

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
PAIRS = {
    "input_ids": torch.tensor([[3, 6, 1, 4, 8, 4], [3, 9, 4, 1, 7, 4]]),
    "token_type_ids": torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]),
}
LABELS = {
    "labels": torch.tensor([[-100, -100, 7, -100, -100, -100], [-100, -100, -100, 5, -100, -100]]),
    "next_sentence_label": torch.tensor([0, 1]),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[BertForPreTraining, Path]:
    bert = drawn_anew(BertForPreTraining(BertConfig(vocab_size=23, **SIZES))).eval()
    folder = tmp_path_factory.mktemp("bert")
    miniature_checkpoint(bert, folder)
    return bert, folder


def test_it_is_berts(plain: tuple[BertForPreTraining, Path], tmp_path: Path) -> None:
    bert, folder = plain
    model: Any = ContextualBertForMaskedLM.from_checkpoint(
        folder, conditioning="none", has_next_sentence_head=True
    ).eval()
    theirs, ours = bert(**PAIRS, **LABELS), model(**PAIRS, **LABELS)
    torch.testing.assert_close(ours.next_sentence_logits, theirs.seq_relationship_logits)
    torch.testing.assert_close(ours.logits, theirs.prediction_logits)
    assert ours.loss.item() == pytest.approx(theirs.loss.item(), rel=1e-6)
    torch.testing.assert_close(model.score_next_sentence(**PAIRS), theirs.seq_relationship_logits)
    model.train()  # the loss of hidden words is then made without logits
    assert model(**PAIRS, **LABELS).loss.item() == pytest.approx(theirs.loss.item(), rel=1e-5)
    model.eval().save_pretrained(tmp_path)
    again: Any = ContextualBertForMaskedLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(**PAIRS).next_sentence_logits, theirs.seq_relationship_logits)
    assert set(bert.state_dict()) == set(model.state_dict())


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_decides(method: str, plain: tuple[BertForPreTraining, Path]) -> None:
    fields: dict[str, Any] = {
        "has_position_embeddings": True, "type_vocab_size": 2, "has_next_sentence_head": True,
    }  # fmt: skip
    model: Any = miniature_model(method, **fields)
    batch = {key: value for key, value in miniature_batch().items() if key != "labels"}
    found = model(**batch).next_sentence_logits
    assert torch.allclose(model.score_next_sentence(**batch), found, atol=1e-6)
    other = model(**{**batch, "context": batch_rows(batch, [1, 1, 2, 3])["context"]}).next_sentence_logits
    assert torch.allclose(other[1:], found[1:], atol=1e-6)
    assert torch.equal(other[0], found[0]) != get_method(method).has_context
    if not get_method(method).keeps_checkpoint:
        return
    bert, folder = plain  # it starts with the decision of the checkpoint, whatever the context is
    started: Any = ContextualBertForMaskedLM.from_checkpoint(
        folder, schema=miniature_schema(), conditioning=method, has_next_sentence_head=True
    ).eval()
    context = batch_rows(batch, [0, 1])["context"]
    ours = started(**PAIRS, context=context if get_method(method).has_context else None).next_sentence_logits
    assert torch.allclose(ours, bert(**PAIRS).seq_relationship_logits, atol=1e-4)


def test_a_step_of_several_batches_is_one_of_all(plain: tuple[BertForPreTraining, Path]) -> None:
    model: Any = ContextualBertForMaskedLM.from_checkpoint(
        plain[1], conditioning="none", has_next_sentence_head=True
    ).train()
    whole = model(**PAIRS, **LABELS).loss
    parts = [
        model(**{name: value[[row]] for name, value in {**PAIRS, **LABELS}.items()}, num_items_in_batch=2).loss
        for row in (0, 1)
    ]
    assert float(sum(parts)) == pytest.approx(float(whole), rel=1e-6)


def test_without_the_head_nothing_is_decided(plain: tuple[BertForPreTraining, Path]) -> None:
    model: Any = ContextualBertForMaskedLM.from_checkpoint(plain[1], conditioning="none").eval()
    assert model(**PAIRS, **LABELS).next_sentence_logits is None and model.bert.pooler is None
    headed: Any = ContextualBertForMaskedLM.from_checkpoint(
        plain[1], conditioning="none", has_next_sentence_head=True
    ).eval()
    alone = headed(**PAIRS, next_sentence_label=LABELS["next_sentence_label"])
    expected = torch.nn.functional.cross_entropy(alone.next_sentence_logits, LABELS["next_sentence_label"])
    assert float(alone.loss) == pytest.approx(float(expected))
