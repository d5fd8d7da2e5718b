"""Labels for tokens and spans for questions: the losses of BERT's heads, whatever the batch is split into."""

from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import BertForQuestionAnswering, BertForTokenClassification

from contextual_bert.models import ContextualBertForQuestionAnswering, ContextualBertForTokenClassification
from contextual_bert.models.plain_bert import plain_bert_config
from contextual_bert.testing import miniature_batch, miniature_config
from contextual_bert.testing.miniature import drawn_anew

TEXT = {"has_position_embeddings": True, "type_vocab_size": 2}
TAGS = torch.tensor([[0, 3, -100, 1, 2], [1, 1, 1, -100, -100], [2, 0, 0, 0, -100], [-100, 1, 2, 3, 0]])


@pytest.fixture
def batch() -> dict[str, Any]:
    return {name: value for name, value in miniature_batch().items() if name != "labels"}


def peer(kind: Any, model: Any) -> Any:
    bert = kind(plain_bert_config(model.config)).eval()
    bert.load_state_dict(model.state_dict())
    return bert


def test_tags_have_the_loss_of_bert(batch: dict[str, Any]) -> None:
    model = drawn_anew(ContextualBertForTokenClassification(miniature_config("none", num_labels=4, **TEXT)))
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    expected = peer(BertForTokenClassification, model)(**inputs, labels=TAGS)
    found = model(**batch, labels=TAGS)
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.loss, expected.loss)


def test_rare_tags_count_more_in_the_loss_alone(batch: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"num_labels": 4, **TEXT}
    plain = drawn_anew(ContextualBertForTokenClassification(miniature_config("film", **fields)))
    weights = [1.0, 2.0, 0.5, 8.0]
    weighted = ContextualBertForTokenClassification(miniature_config("film", **fields, class_weights=weights)).eval()
    weighted.load_state_dict(plain.state_dict())
    found, logits = weighted(**batch, labels=TAGS), plain(**batch).logits
    assert torch.equal(found.logits, logits)
    is_asked = TAGS != -100
    losses = functional.cross_entropy(logits[is_asked], TAGS[is_asked], reduction="none")
    torch.testing.assert_close(found.loss, (losses * torch.tensor(weights)[TAGS[is_asked]]).mean())


def test_the_loss_of_tags_does_not_care_how_the_batch_is_split(batch: dict[str, Any]) -> None:
    model = drawn_anew(ContextualBertForTokenClassification(miniature_config("film", num_labels=4, **TEXT)))
    count = (TAGS != -100).sum()
    parts = [
        model(
            batch["input_ids"][part],
            batch["attention_mask"][part],
            {feature: tensor[part] for feature, tensor in batch["context"].items()},
            labels=TAGS[part],
            num_items_in_batch=count,
        ).loss
        for part in (slice(0, 1), slice(1, 4))
    ]
    torch.testing.assert_close(sum(parts), model(**batch, labels=TAGS).loss)


def test_answers_have_the_loss_of_bert(batch: dict[str, Any]) -> None:
    model = drawn_anew(ContextualBertForQuestionAnswering(miniature_config("none", **TEXT)))
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    spans = {"start_positions": torch.tensor([0, 1, 2, 99]), "end_positions": torch.tensor([2, 1, 3, 99])}
    expected = peer(BertForQuestionAnswering, model)(**inputs, **spans)
    found = model(**batch, **spans)
    assert torch.equal(found.start_logits, expected.start_logits)
    assert torch.equal(found.end_logits, expected.end_logits)
    assert torch.equal(found.loss, expected.loss)


def test_a_subclass_of_another_name_has_the_same_loss() -> None:
    class Names(ContextualBertForTokenClassification):
        pass

    class Answers(ContextualBertForQuestionAnswering):
        pass

    batch = {name: value for name, value in miniature_batch().items() if name != "labels"}
    labels = batch["input_ids"] % 3
    places = {"start_positions": labels[:, 0], "end_positions": labels[:, 1]}
    for original, renamed, asked in (
        (ContextualBertForTokenClassification, Names, {"labels": labels}),
        (ContextualBertForQuestionAnswering, Answers, places),
    ):
        model = original(miniature_config("film", num_labels=3)).eval()
        other = renamed(model.config).eval()
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(**batch, **asked).loss, model(**batch, **asked).loss)
