"""Labels for texts: the losses of BERT's head, grades, and a loss that does not care how the batch is split."""

from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import BertForSequenceClassification

from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertForSequenceClassification
from contextual_bert.models.label_heads import OrdinalClassifier
from contextual_bert.models.plain_bert import plain_bert_config
from contextual_bert.models.sequence_classification import mean_of_text
from contextual_bert.testing import miniature_batch, miniature_config
from contextual_bert.testing.miniature import drawn_anew

TEXT = {"has_position_embeddings": True, "type_vocab_size": 2}


def model_of(method_name: str = "global_state_update", **fields: Any) -> ContextualBertForSequenceClassification:
    return drawn_anew(ContextualBertForSequenceClassification(miniature_config(method_name, **{**TEXT, **fields})))


@pytest.fixture
def batch() -> dict[str, Any]:
    return {name: value for name, value in miniature_batch().items() if name != "labels"}


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"num_labels": 3}, torch.tensor([0, 2, 1, 1])),
        ({"num_labels": 1}, torch.tensor([0.5, -1.0, 2.0, 0.0])),
        ({"num_labels": 3}, torch.tensor([[0.0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]])),
        ({"num_labels": 2, "problem_type": "regression"}, torch.tensor([[0.0, 1], [1, 0], [2, 3], [0, 0]])),
    ],
)
def test_the_loss_is_that_of_bert(fields: dict[str, Any], labels: torch.Tensor, batch: dict[str, Any]) -> None:
    model = model_of("none", **fields)
    bert = BertForSequenceClassification(plain_bert_config(model.config)).eval()
    bert.load_state_dict(model.state_dict())
    expected = bert(batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels)
    found = model(**batch, labels=labels)
    torch.testing.assert_close(found.loss, expected.loss)
    torch.testing.assert_close(found.logits, expected.logits)
    assert model.config.problem_type == bert.config.problem_type  # a saved model is asked as it was trained


def test_the_loss_does_not_care_how_the_batch_is_split(batch: dict[str, Any]) -> None:
    for fields, labels in (
        ({"num_labels": 3}, torch.tensor([0, 2, 1, 1])),
        ({"num_labels": 3, "is_ordinal": True}, torch.tensor([0, 2, 1, 1])),
        ({"num_labels": 1}, torch.tensor([0.5, -1.0, 2.0, 0.0])),
    ):
        model = model_of(**fields)
        rows = [
            {
                **{name: value[part] for name, value in batch.items() if name != "context"},
                "context": {feature: tensor[part] for feature, tensor in batch["context"].items()},
                "labels": labels[part],
            }
            for part in (slice(0, 1), slice(1, 4))
        ]
        parts = sum(model(**each, num_items_in_batch=torch.tensor(4)).loss for each in rows)
        torch.testing.assert_close(parts, model(**batch, labels=labels).loss)


def test_all_hidden_states_on_request(batch: dict[str, Any]) -> None:
    model = model_of("new_position", num_labels=3)
    outputs = model(**batch, output_hidden_states=True)
    assert [tuple(states.shape) for states in outputs.hidden_states] == [(4, 5, 32)] * 4
    torch.testing.assert_close(outputs.logits, model(**batch).logits)


@pytest.mark.parametrize("method_name", ["none", "new_position", "global_state_update"])
def test_the_mean_is_that_of_the_text_alone(method_name: str, batch: dict[str, Any]) -> None:
    model = model_of(method_name, num_labels=3, classifier_pooling="mean")
    assert not any("pooler" in name for name, _ in model.named_parameters())  # no weight that nothing trains
    hidden = model.bert(**batch).last_hidden_state
    lengths = batch["attention_mask"].sum(dim=1).tolist()
    assert len(set(lengths)) > 1
    means = torch.stack([row[:length].mean(dim=0) for row, length in zip(hidden, lengths, strict=True)])
    found = model(**batch).logits
    torch.testing.assert_close(found, model.classifier(means))
    alone = {name: value[:1, : lengths[0]] for name, value in batch.items() if name != "context"}
    context = {feature: tensor[:1] for feature, tensor in batch["context"].items()}
    torch.testing.assert_close(model(**alone, context=context).logits, found[:1])
    del alone["attention_mask"]
    torch.testing.assert_close(model(**alone, context=context).logits, found[:1])


@pytest.mark.parametrize("method_name", ["none", "new_position", "global_state_update", "multi_attribute"])
def test_the_first_position_is_read_as_it_is(method_name: str, batch: dict[str, Any]) -> None:
    model = model_of(method_name, num_labels=3, classifier_pooling="first")
    assert not any("pooler" in name for name, _ in model.named_parameters())
    hidden = model.bert(**batch).last_hidden_state
    torch.testing.assert_close(model(**batch).logits, model.classifier(hidden[:, 0]))


@pytest.mark.parametrize("length", [3, 7, 13])
def test_the_mean_of_equal_tokens_is_the_token_in_bfloat16_too(length: int) -> None:
    hidden, mask = torch.full((1, length + 2, 4), 2.0), torch.ones(1, length + 2, dtype=torch.long)
    mask[0, length:] = 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = mean_of_text(hidden, mask)
    assert torch.equal(found, torch.full((1, 4), 2.0)) and found.dtype == hidden.dtype


@pytest.mark.parametrize("is_ordinal", [False, True])
def test_labels_may_come_in_a_column(is_ordinal: bool, batch: dict[str, Any]) -> None:
    model, labels = model_of(num_labels=4, is_ordinal=is_ordinal), torch.tensor([0, 1, 2, 3])
    assert torch.equal(model(**batch, labels=labels[:, None]).loss, model(**batch, labels=labels).loss)


def test_an_unknown_pooling_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"classifier_pooling='avg'.*mean"):
        model_of(num_labels=3, classifier_pooling="avg")


def test_grades_are_probabilities_in_order() -> None:
    head = OrdinalClassifier(8, 5)
    hidden = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)) * 30
    torch.nn.init.normal_(head.score.weight, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores = head.score(hidden).squeeze(1)
        logits = head(hidden)
    assert logits.isfinite().all()
    torch.testing.assert_close(logits.exp().sum(dim=-1), torch.ones(40))
    expected = (logits.exp() * torch.arange(5.0)).sum(dim=-1)
    assert torch.equal(expected.argsort(), scores.argsort()) or bool((expected[scores.argsort()].diff() >= -1e-6).all())
    thresholds = torch.logit(torch.tensor([0.2, 0.4, 0.6, 0.8]))
    above = torch.sigmoid(scores[:, None] - thresholds)
    torch.testing.assert_close(logits.exp().flip(-1).cumsum(-1).flip(-1)[:, 1:], above, rtol=1e-4, atol=1e-5)


def test_a_grade_that_nobody_gives_keeps_the_loss_finite() -> None:
    head = OrdinalClassifier(8, 5)
    with torch.no_grad():
        head.thresholds[1] = -120.0  # softplus of it is 0
    scores = head(torch.ones(2, 8))
    functional.nll_loss(scores, torch.tensor([1, 3])).backward()
    assert bool(scores.isfinite().all()) and bool(head.thresholds.grad.isfinite().all())
    torch.testing.assert_close(scores.exp().sum(dim=-1), torch.ones(2))


def test_grades_train_and_come_back(batch: dict[str, Any], tmp_path: Any) -> None:
    model = model_of(num_labels=4, is_ordinal=True)
    labels = torch.tensor([0, 1, 2, 3])
    found = model(**batch, labels=labels)
    torch.testing.assert_close(found.loss, functional.nll_loss(found.logits, labels))
    found.loss.backward()
    assert all(bool(weight.grad.any()) for weight in model.classifier.parameters())  # type: ignore[union-attr]
    model.save_pretrained(tmp_path)
    again = ContextualBertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(again(**batch).logits, found.logits)
    fresh = ContextualBertForSequenceClassification(model.config)
    assert fresh.classifier.thresholds.diff().abs().sum() > 0 and fresh.classifier.thresholds.isfinite().all()


@pytest.mark.parametrize("fields", [{"num_labels": 1}, {"num_labels": 3, "problem_type": "regression"}])
def test_grades_that_cannot_be(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="grades need two labels or more and no problem_type"):
        model_of(is_ordinal=True, **fields)


def test_a_number_that_a_trainer_takes_for_none_is_refused(batch: dict[str, Any]) -> None:
    model, labels = model_of("none", num_labels=1), torch.tensor([0.5, -100.0, 2.0, 0.0])
    assert bool(model(**batch, labels=labels).loss.isfinite())
    with pytest.raises(ConfigurationError, match=r"exactly -100, which transformers' Trainer counts as none"):
        model(**batch, labels=labels, num_items_in_batch=torch.tensor(3))
