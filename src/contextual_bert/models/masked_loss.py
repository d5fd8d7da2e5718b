"""The loss of masked items without the table of all logits, and the items that it leaves out.

It goes through the rows in blocks and makes the gradients on the way, in one buffer, so nothing of (rows, vocabulary)
is ever held. On a CPU the blocks stay in the cache: half the time of the same formula as separate operations. On an
accelerator they are large enough to keep it busy. Paper: sections 3 and 4.
"""

from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["BarredItems", "can_be_fused", "masked_cross_entropy"]

# Logits of one block: 16 MiB in float32; smaller blocks slow down the products, larger ones leave the cache. An
# accelerator has no such cache to leave.
BLOCK_ELEMENTS, ACCELERATOR_BLOCK_ELEMENTS = 2**22, 2**27


class BarredItems(NamedTuple):
    """Items that the softmax of all rows of a set leaves out.

    ``is_barred``: (sets, vocabulary); ``set_of``: (rows,), the set of each row, in rising order.
    """

    is_barred: Tensor
    set_of: Tensor

    def leave_out_(self, logits: Tensor, start: int) -> None:
        """Write minus infinity into the logits of some rows, (n, vocabulary), of which ``start`` is the first."""
        sets, counts = self.set_of[start : start + len(logits)].unique_consecutive(return_counts=True)
        is_barred = self.is_barred[sets]
        # To add a row is several times faster than to fill a mask.
        added = torch.zeros_like(is_barred, dtype=logits.dtype).masked_fill_(is_barred, -torch.inf)
        has_any = is_barred.any(dim=1).tolist()
        for row, is_some, rows in zip(added, has_any, logits.split(counts.tolist()), strict=True):
            if is_some:
                rows.add_(row)


def can_be_fused(device_type: str) -> bool:
    """Return True where a loss may make its gradients on the way: in training, eagerly, and not in float16.

    In float16 a gradient is scaled before it is rounded, and here it would be rounded first.

    Example:
        >>> can_be_fused("cpu")
        True
    """
    is_half = autocast_type(device_type) == torch.float16
    return torch.is_grad_enabled() and not torch.compiler.is_compiling() and not is_half


def autocast_type(device_type: str) -> torch.dtype | None:
    """Return the type of products under autocast; None where it is off, or not there on such a device.

    Example:
        >>> autocast_type("cpu") is None
        True
    """
    is_on = torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)
    return torch.get_autocast_dtype(device_type) if is_on else None


def masked_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    num_items: Tensor | float,
    *,
    excluded: Tensor | None = None,
    barred: BarredItems | None = None,
) -> Tensor:
    """sum_i -log softmax(W h_i + b)[target_i] / num_items.

    Under autocast the products are in its type; the loss and the sums are in float32.

    Shapes:
        hidden (rows, hidden), weight (vocabulary, hidden), bias (vocabulary,), targets (rows,) int64, excluded (rows,
        n) int64 -> ().

    Args:
        hidden: what the output layer reads.
        weight: W.
        bias: b.
        targets: the true ids.
        num_items: what the sum is divided by: the number of rows for the mean.
        excluded: ids that the softmax of each row leaves out, its target excepted; see ``candidates``.
        barred: further ids that it leaves out, the same for all rows of a set.

    Example:
        >>> hidden, weight, targets = torch.ones(2, 3), torch.zeros(4, 3), torch.tensor([0, 3])
        >>> round(float(masked_cross_entropy(hidden, weight, torch.zeros(4), targets, 2)), 4)
        1.3863
    """
    return _MaskedCrossEntropy.apply(hidden, weight, bias, targets, float(num_items), excluded, barred)  # pyright: ignore[reportReturnType]


class _MaskedCrossEntropy(torch.autograd.Function):
    """Gradients are made in forward; backward hands them out, once."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        num_items: float,
        excluded: Tensor | None,
        barred: BarredItems | None,
    ) -> Tensor:
        needs_hidden, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        product_type = torch.promote_types(hidden.dtype, weight.dtype)
        product_type = autocast_type(hidden.device.type) or product_type
        sum_type = torch.promote_types(product_type, torch.float32)
        scale = torch.tensor(num_items, dtype=sum_type).reciprocal().item()  # infinite, not an error, without items
        inputs, matrix, offset = (tensor.to(product_type) for tensor in (hidden, weight, bias))
        device, on_cpu = hidden.device, hidden.device.type == "cpu"
        elements = BLOCK_ELEMENTS if on_cpu else ACCELERATOR_BLOCK_ELEMENTS
        size = min(len(inputs), max(32, elements // len(matrix)))
        logits = torch.empty(size, len(matrix), dtype=product_type, device=device)
        is_mixed = sum_type != product_type
        exponentials = logits.to(sum_type) if is_mixed else logits
        losses = torch.empty(len(inputs), dtype=sum_type, device=device)
        for_hidden = torch.empty(inputs.shape, dtype=sum_type, device=device)
        for_weight = torch.zeros(matrix.shape if needs_weight else 0, dtype=sum_type, device=device)
        of_block = matrix.shape if needs_weight and is_mixed else 0
        for_weight_of_block = torch.empty(of_block, dtype=product_type, device=device)
        for_bias = torch.zeros(offset.shape, dtype=sum_type, device=device)
        has_autocast = torch.amp.is_autocast_available(hidden.device.type)
        with torch.autocast(hidden.device.type, enabled=False) if has_autocast else nullcontext():
            for start in range(0, len(inputs), max(size, 1)):
                rows = slice(start, start + size)
                block, sums = logits[: len(inputs[rows])], exponentials[: len(inputs[rows])]
                torch.addmm(offset, inputs[rows], matrix.t(), out=block)
                own = block.gather(1, targets[rows, None])
                if excluded is not None:
                    block.scatter_(1, excluded[rows], -torch.inf)
                if barred is not None:
                    barred.leave_out_(block, start)
                if excluded is not None or barred is not None:
                    block.scatter_(1, targets[rows, None], own)
                highest = block.amax(dim=1, keepdim=True)
                torch.sub(block, highest, out=sums).exp_()
                normaliser = sums.sum(dim=1, keepdim=True)
                losses[rows] = (normaliser.log() + (highest - own)).squeeze(1)
                # softmax = exponentials / normaliser: dividing the small factor of each product spares a pass.
                share = scale / normaliser
                if needs_bias:
                    for_bias.addmv_(sums.t(), share.squeeze(1))
                if is_mixed and (needs_hidden or needs_weight):
                    block.copy_(sums)
                if needs_hidden:
                    torch.mul(torch.mm(block, matrix), share, out=for_hidden[rows])
                if needs_weight:
                    scaled = (inputs[rows] * share).to(product_type)
                    if is_mixed:
                        for_weight.add_(torch.mm(block.t(), scaled, out=for_weight_of_block))
                    else:
                        for_weight.addmm_(block.t(), scaled)
            if needs_hidden:
                for_hidden.sub_(matrix[targets], alpha=scale)
            if needs_weight:
                for_weight.index_add_(0, targets, inputs.to(sum_type), alpha=-scale)
            if needs_bias:
                for_bias.index_add_(0, targets, torch.full(targets.shape, -scale, dtype=sum_type, device=device))
        ctx.gradients = (
            for_hidden.to(hidden.dtype) if needs_hidden else None,
            for_weight.to(weight.dtype) if needs_weight else None,
            for_bias.to(bias.dtype) if needs_bias else None,
        )
        return losses.sum() / num_items

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError(
                "The loss was differentiated twice: compute it again instead of backward(retain_graph=True)."
            )
        # On an accelerator to read the number would wait for all that is under way.
        is_one = gradient.device.type == "cpu" and float(gradient) == 1
        return (
            *(each if each is None or is_one else each.mul_(gradient) for each in gradients),
            None,
            None,
            None,
            None,
        )
