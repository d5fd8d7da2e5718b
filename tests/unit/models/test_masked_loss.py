"""The loss without logits equals cross-entropy of the product: value, gradients, and what it does not support."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from contextual_bert.models import masked_loss as module
from contextual_bert.models.masked_loss import BarredItems, can_be_fused, masked_cross_entropy
from contextual_bert.testing import miniature_batch, miniature_model

ROWS, WIDTH, VOCABULARY = 70, 6, 40


def leaves(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((ROWS, WIDTH), (VOCABULARY, WIDTH), (VOCABULARY,))
    hidden, weight, bias = (torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)
    targets = torch.randint(VOCABULARY, (ROWS,), generator=generator)
    return hidden.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), targets


def expected(dtype: torch.dtype = torch.float64, *, num_items: float = ROWS) -> tuple[Tensor, tuple[Tensor, ...]]:
    hidden, weight, bias, targets = leaves(dtype)
    loss = functional.cross_entropy(hidden @ weight.t() + bias, targets, reduction="sum") / num_items
    return loss, torch.autograd.grad(loss, (hidden, weight, bias))


@pytest.mark.parametrize("block_elements", [1, 33 * VOCABULARY, 2**22])
@pytest.mark.parametrize("num_items", [ROWS, 3.5])
def test_value_and_gradients_for_any_block(
    block_elements: int, num_items: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", block_elements)
    hidden, weight, bias, targets = leaves()
    loss = masked_cross_entropy(hidden, weight, bias, targets, num_items)
    gradients = torch.autograd.grad(loss, (hidden, weight, bias))
    torch.testing.assert_close((loss, gradients), expected(num_items=num_items))


def test_a_factor_behind_the_loss_reaches_the_gradients() -> None:
    hidden, weight, bias, targets = leaves()
    gradients = torch.autograd.grad(
        masked_cross_entropy(hidden, weight, bias, targets, ROWS) / 4, (hidden, weight, bias)
    )
    torch.testing.assert_close(tuple(4 * gradient for gradient in gradients), expected()[1])


def test_far_logits_neither_overflow_nor_vanish() -> None:
    hidden, weight, _, targets = leaves(torch.float32)
    bias = torch.linspace(-300, 300, VOCABULARY).requires_grad_()
    loss = masked_cross_entropy(hidden, weight, bias, targets, ROWS)
    torch.testing.assert_close(loss, functional.cross_entropy(hidden @ weight.t() + bias, targets))
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, (hidden, weight, bias)))


def test_frozen_weights_get_no_gradient() -> None:
    hidden, weight, bias, targets = leaves()
    masked_cross_entropy(hidden, weight.detach(), bias.detach(), targets, ROWS).backward()
    assert hidden.grad is not None
    torch.testing.assert_close(hidden.grad, expected()[1][0])
    assert weight.grad is None


def test_under_autocast_the_loss_and_the_gradients_of_the_weights_are_float32() -> None:
    hidden, weight, bias, targets = leaves(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = masked_cross_entropy(hidden, weight, bias, targets, ROWS)
    assert loss.dtype == torch.float32
    loss.backward()
    reference, gradients = expected(torch.float32)
    torch.testing.assert_close(loss, reference, rtol=1e-2, atol=1e-2)
    for leaf, gradient in zip((hidden, weight, bias), gradients, strict=True):
        assert leaf.grad is not None
        torch.testing.assert_close(leaf.grad, gradient, rtol=0.05, atol=0.02 * float(gradient.abs().max()))


def test_without_rows_the_sum_is_zero_and_the_mean_is_not_a_number() -> None:
    hidden, weight, bias, targets = leaves()
    assert masked_cross_entropy(hidden[:0], weight, bias, targets[:0], 2).item() == 0


def test_a_second_backward_says_what_to_do() -> None:
    hidden, weight, bias, targets = leaves()
    loss = masked_cross_entropy(hidden, weight, bias, targets, ROWS)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute it again"):
        loss.backward()


@pytest.mark.parametrize("num_items", [None, torch.tensor(7)])
def test_training_with_and_without_logits_gives_the_same_loss_and_gradients(num_items: Tensor | None) -> None:
    model = miniature_model("global_state_update", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
    found: list[dict[str, Tensor]] = []
    for settings in ({}, {"logits_at": "masked"}):
        model.zero_grad()
        outputs = model(**miniature_batch(), num_items_in_batch=num_items, **settings)
        assert (outputs.logits is None) == (not settings)
        outputs.loss.backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        found.append({"loss": outputs.loss.detach(), **gradients})
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_a_loss_function_of_the_users_own_is_used() -> None:
    model = miniature_model("none").train()
    model.loss_function = lambda logits, **others: logits.sum() * 0 + 5
    outputs = model(**miniature_batch())
    assert outputs.loss.item() == 5
    assert outputs.logits is not None


def test_an_adapter_around_the_output_layer_is_used() -> None:
    class Doubled(torch.nn.Linear):
        def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the overridden method
            return 2 * super().forward(input)

    model = miniature_model("none", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
    before = model(**miniature_batch()).loss
    model.cls.predictions.decoder.__class__ = Doubled
    assert not torch.isclose(before, model(**miniature_batch()).loss)


@pytest.mark.parametrize("block_elements", [1, 33 * VOCABULARY, 2**22])
def test_items_that_are_barred_for_a_set_have_no_part_in_its_rows(
    block_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", block_elements)
    hidden, weight, bias, targets = leaves()
    generator = torch.Generator().manual_seed(1)
    set_of = torch.randint(9, (ROWS,), generator=generator).sort().values
    is_barred = torch.rand(9, VOCABULARY, generator=generator) < 0.4
    is_barred[3] = False
    logits = hidden @ weight.t() + bias
    left = is_barred[set_of].scatter(1, targets[:, None], False)  # the true item stays
    wanted = functional.cross_entropy(logits.masked_fill(left, -torch.inf), targets)
    loss = masked_cross_entropy(hidden, weight, bias, targets, ROWS, barred=BarredItems(is_barred, set_of))
    torch.testing.assert_close(loss, wanted)
    found, expected_ones = (torch.autograd.grad(each, (hidden, weight, bias)) for each in (loss, wanted))
    torch.testing.assert_close(found, expected_ones)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_everything_is_made_on_the_device_of_what_is_read(is_mixed: bool) -> None:
    """On a device without memory of its own, where a tensor of another one is refused."""
    hidden, weight, bias, targets = (each.to("meta") for each in leaves(torch.float32))
    read = [each.detach().requires_grad_() for each in (hidden, weight, bias)]
    excluded = torch.zeros(ROWS, 2, dtype=torch.int64, device="meta")
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_mixed):
        loss = masked_cross_entropy(*read, targets, ROWS, excluded=excluded)
    loss.backward()
    assert [each.grad.device.type for each in read if each.grad is not None] == ["meta"] * 3


def test_what_makes_its_gradients_at_once_is_not_compiled_and_not_in_float16() -> None:
    assert can_be_fused("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert can_be_fused("cpu")
    with torch.autocast("cpu", dtype=torch.float16):
        assert not can_be_fused("cpu")
    with torch.no_grad():
        assert not can_be_fused("cpu")
