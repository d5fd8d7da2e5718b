"""Output layers: grades of one scale, and a start at the shares of the labels."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertForSequenceClassification
from contextual_bert.models.label_heads import OrdinalClassifier, start_at_shares
from contextual_bert.testing import miniature_batch, miniature_config

COUNTS = [[450, 30, 40, 30, 450], [0, 1_000_000, 0, 3, 0], [1, 1], [0, 0, 0], [2, 0, 10_000_000]]


def head_of(num_labels: int, *, is_ordinal: bool) -> nn.Module:
    return OrdinalClassifier(8, num_labels) if is_ordinal else nn.Linear(8, num_labels)


@pytest.mark.parametrize("is_ordinal", [False, True])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_a_head_starts_at_the_shares_of_the_labels(counts: list[int], is_ordinal: bool) -> None:
    head: Any = head_of(len(counts), is_ordinal=is_ordinal)
    start_at_shares(head, counts)
    hidden = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)) * 9
    numbers = torch.tensor(counts, dtype=torch.float64) + 0.5
    found = head(hidden).log_softmax(dim=-1)
    torch.testing.assert_close(found.double(), (numbers / numbers.sum()).log().expand(3, -1), rtol=1e-4, atol=2e-5)


def test_thresholds_are_the_log_odds_of_the_cumulative_shares() -> None:
    head = OrdinalClassifier(8, 4)
    start_at_shares(head, torch.tensor([10, 20, 30, 40]))
    steps = head.thresholds.detach()
    ends = torch.cat([steps[:1], nn.functional.softplus(steps[1:]) + 1e-6]).cumsum(0)
    expected = torch.logit(torch.tensor([10.5, 31.0, 61.5]) / 102)
    torch.testing.assert_close(ends, expected)


@pytest.mark.parametrize("is_ordinal", [False, True])
def test_a_start_can_be_left(is_ordinal: bool) -> None:
    head: Any = head_of(3, is_ordinal=is_ordinal)
    start_at_shares(head, [5, 0, 9])
    hidden = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    nn.functional.cross_entropy(head(hidden), torch.tensor([0, 0, 1, 2, 2, 2])).backward()
    assert all(bool(weight.grad.isfinite().all()) and bool((weight.grad != 0).any()) for weight in head.parameters())


@pytest.mark.parametrize("counts", [[1, 2], [1, 2, -1], [[1, 2, 3]]])
def test_counts_of_other_labels_are_refused(counts: Any) -> None:
    for is_ordinal in (False, True):
        with pytest.raises(ConfigurationError, match=r"for 3 labels\. Give each label the number of its training rows"):
            start_at_shares(head_of(3, is_ordinal=is_ordinal), counts)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_ordinal", [False, True])
def test_a_model_starts_at_the_shares_and_comes_back(is_ordinal: bool, tmp_path: Path) -> None:
    fields = {"has_position_embeddings": True, "type_vocab_size": 2, "num_labels": 3, "is_ordinal": is_ordinal}
    model = ContextualBertForSequenceClassification(miniature_config("global_state_update", **fields)).eval()
    model.start_at_shares([70, 20, 10])
    batch = {name: value for name, value in miniature_batch().items() if name != "labels"}
    logits = model(**batch).logits
    shares = torch.tensor([70.5, 20.5, 10.5]) / 101.5
    torch.testing.assert_close(logits.softmax(dim=-1), shares.expand(len(logits), -1))
    model.save_pretrained(tmp_path)
    again = ContextualBertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(again(**batch).logits, logits)
    assert all(torch.equal(again.state_dict()[name], weight) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("fields", [{"num_labels": 1}, {"num_labels": 3, "problem_type": "regression"}])
def test_numbers_have_no_shares(fields: dict[str, Any]) -> None:
    model = ContextualBertForSequenceClassification(miniature_config("none", **fields))
    with pytest.raises(ConfigurationError, match="start_at_shares is for one label a text"):
        model.start_at_shares([1, 2, 3])


WEIGHTS = [0.5, 1.0, 4.0]


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({}, torch.tensor([0, 2, 2])),
        ({"is_ordinal": True}, torch.tensor([2, 1, 0])),
        ({"problem_type": "multi_label_classification"}, torch.tensor([[0.0, 1, 1], [0, 0, 0], [1, 0, 1]])),
    ],
)
@pytest.mark.parametrize("num_items", [None, 6])
def test_rare_labels_count_more_in_the_loss_alone(fields: dict[str, Any], labels: torch.Tensor, num_items: Any) -> None:
    config: dict[str, Any] = {"has_position_embeddings": True, "type_vocab_size": 2, "num_labels": 3, **fields}
    torch.manual_seed(0)
    plain = ContextualBertForSequenceClassification(miniature_config("none", **config)).eval()
    weighted = ContextualBertForSequenceClassification(miniature_config("none", **config, class_weights=WEIGHTS)).eval()
    weighted.load_state_dict(plain.state_dict())
    batch = {name: value[:3] for name, value in miniature_batch().items() if name not in ("labels", "context")}
    found = weighted(**batch, labels=labels, num_items_in_batch=num_items)
    logits = plain(**batch).logits
    assert torch.equal(found.logits, logits)
    shares = logits.double().sigmoid() if labels.ndim == 2 else logits.double().softmax(dim=-1)
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)
    if labels.ndim == 2:
        total = -(weights * labels * shares.log() + (1 - labels) * (1 - shares).log()).sum()
    else:
        total = -(weights[labels] * shares.log()[torch.arange(3), labels]).sum()
    expected = total / (num_items or labels.numel())
    torch.testing.assert_close(found.loss.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("is_ordinal", [False, True])
def test_a_weighted_head_starts_at_the_weighted_shares(is_ordinal: bool) -> None:
    fields = {"has_position_embeddings": True, "type_vocab_size": 2, "num_labels": 3, "is_ordinal": is_ordinal}
    model = ContextualBertForSequenceClassification(miniature_config("none", **fields, class_weights=WEIGHTS)).eval()
    model.start_at_shares([70, 20, 10])
    batch = {name: value for name, value in miniature_batch().items() if name not in ("labels", "context")}
    weighted = torch.tensor([70.5, 20.5, 10.5]) * torch.tensor(WEIGHTS)
    logits = model(**batch).logits
    torch.testing.assert_close(logits.softmax(dim=-1), (weighted / weighted.sum()).expand(len(logits), -1))


@pytest.mark.parametrize("weights", [[1.0, 2.0], [1.0, 2.0, 0.0]])
def test_weights_are_those_of_the_labels(weights: list[float]) -> None:
    fields = {"has_position_embeddings": True, "type_vocab_size": 2, "num_labels": 3, "class_weights": weights}
    with pytest.raises(ConfigurationError, match=r"class_weights=.* is not a number above 0 for each of num_labels=3"):
        ContextualBertForSequenceClassification(miniature_config("none", **fields))
