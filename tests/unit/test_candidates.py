"""What the softmax goes over: reserved ids and visible items take no mass, in losses and scores alike."""

import math
from typing import Any

import pytest
import torch
from torch.nn import functional

from contextual_bert.candidates import excluded_ids, rank_targets
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.models.masked_loss import masked_cross_entropy

NUM_ITEMS = 20
SIZES = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
INPUTS = torch.tensor([[5, 6, 1, 0], [7, 1, 8, 9]])
LABELS = torch.tensor([[-100, -100, 10, -100], [-100, 11, -100, -100]])
VISIBLE = ([5, 6], [7, 8, 9])


def model_for(softmax_over: str, **fields: Any) -> ContextualBertForMaskedLM:
    torch.manual_seed(0)
    config = ContextualBertConfig(vocab_size=NUM_ITEMS + 3, softmax_over=softmax_over, **SIZES, **fields)
    return ContextualBertForMaskedLM(config).eval()


@pytest.mark.parametrize(
    ("softmax_over", "num_asked"), [("vocabulary", NUM_ITEMS + 3), ("items", NUM_ITEMS), ("candidates", NUM_ITEMS - 2)]
)
def test_a_model_that_knows_nothing_has_the_logarithm_of_what_can_be_asked(softmax_over: str, num_asked: int) -> None:
    model = model_for(softmax_over)
    with torch.no_grad():
        model.cls.predictions.decoder.weight.zero_()
        model.get_output_embeddings().bias.zero_()
        loss = model(input_ids=INPUTS[:1], labels=LABELS[:1]).loss
        scores = model.score_masked(INPUTS[:1], labels=LABELS[:1])
    assert float(loss) == pytest.approx(math.log(num_asked))
    assert -float(scores.log_probability) == pytest.approx(math.log(num_asked))
    assert float(scores.confidence) == pytest.approx(1 / num_asked)
    assert int(scores.num_tied) == (NUM_ITEMS - 2 if softmax_over == "candidates" else NUM_ITEMS)


@pytest.mark.parametrize("softmax_over", ["vocabulary", "items", "candidates"])
@pytest.mark.parametrize("logits_at", [None, "all"])
def test_each_way_to_the_loss_is_the_same_loss(softmax_over: str, logits_at: Any) -> None:
    model = model_for(softmax_over)
    logits = model(input_ids=INPUTS).logits.detach()
    if softmax_over != "vocabulary":
        logits[:, :3] = -torch.inf
    if softmax_over == "candidates":
        for row, ids in enumerate(VISIBLE):
            logits[row, ids] = -torch.inf
    expected = functional.cross_entropy(logits, torch.tensor([10, 11]))
    torch.testing.assert_close(model(input_ids=INPUTS, labels=LABELS, logits_at=logits_at).loss, expected)
    torch.testing.assert_close(-model.score_masked(INPUTS, labels=LABELS).log_probability.mean(), expected)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    fused = model(input_ids=INPUTS, labels=LABELS, logits_at=logits_at).loss
    torch.testing.assert_close(fused, expected)
    fused.backward()
    own = model.get_output_embeddings().bias.grad
    assert own is not None
    shares = logits.softmax(-1)
    shares[[0, 1], [10, 11]] -= 1
    torch.testing.assert_close(own, shares.mean(0))


def test_a_target_that_the_set_shows_stays_in_the_softmax() -> None:
    inputs, labels = torch.tensor([[5, 1]]), torch.tensor([[-100, 5]])
    scores = model_for("candidates").score_masked(inputs, labels=labels)
    assert float(scores.log_probability) > -math.log(1e6)
    assert int(scores.num_tied) == 1


@pytest.mark.parametrize("has_mixed_types", [False, True])
def test_the_fused_loss_and_its_gradients(has_mixed_types: bool) -> None:
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(9, 4), torch.randn(30, 4), torch.randn(30)
    targets, excluded = torch.randint(3, 30, (9,)), torch.randint(0, 30, (9, 6))
    leaves = [each.requires_grad_() for each in (hidden, weight, bias)]
    logits = hidden @ weight.t() + bias
    is_out = torch.zeros(9, 30, dtype=torch.bool).scatter(1, excluded, True).scatter(1, targets[:, None], False)
    expected = functional.cross_entropy(logits.masked_fill(is_out, -torch.inf), targets)
    gradients = torch.autograd.grad(expected, leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_mixed_types):
        found = masked_cross_entropy(hidden, weight, bias, targets, 9, excluded=excluded)
    tolerance = {"atol": 3e-2, "rtol": 3e-2} if has_mixed_types else {"atol": 1e-6, "rtol": 1e-5}
    torch.testing.assert_close(found, expected, **tolerance)
    for own, theirs in zip(torch.autograd.grad(found, leaves), gradients, strict=True):
        torch.testing.assert_close(own, theirs, **tolerance)


def test_without_ids_only_the_reserved_ones_are_left_out() -> None:
    found = excluded_ids("candidates", None, torch.arange(2), reserved=(0, 1, 2))
    assert found is not None and found.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_ranks_leave_out_what_the_softmax_leaves_out() -> None:
    logits = torch.tensor([[9.0, 9.0, 9.0, 3.0, 2.0, 1.0]])
    reserved = torch.arange(3)
    inputs, rows, target = torch.tensor([[3, 1]]), torch.tensor([1]), torch.tensor([4])
    candidates = excluded_ids("candidates", inputs, rows, reserved=(0, 1, 2))
    assert rank_targets(logits.clone(), target, candidates, reserved=reserved).num_better.tolist() == [0]
    items = excluded_ids("items", inputs, rows, reserved=(0, 1, 2))
    assert rank_targets(logits.clone(), target, items, reserved=reserved).num_better.tolist() == [1]


def test_a_word_that_names_nothing() -> None:
    with pytest.raises(ConfigurationError, match=r"softmax_over='item'.*Did you mean 'items'"):
        model_for("item")
