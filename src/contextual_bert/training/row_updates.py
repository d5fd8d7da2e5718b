"""Steps of weights whose gradient is sparse: only the rows that a batch read are touched.

Duchi et al. (2011), "Adaptive Subgradient Methods", with one sum for a row instead of one for a number.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

ROWS = "has_row_updates"
EPSILON = 1e-10


class RowUpdates(torch.optim.Optimizer):
    """What ``update_rows`` makes of an optimiser: groups with sparse gradients have steps of their own.

    Formula:
        s_r = s_r + mean(g_r^2);  E_r = E_r - rate g_r / sqrt(s_r), for each row r that has a gradient g_r

    Relation to its siblings:
        torch's Adagrad keeps a sum for each number, SparseAdam two averages, which is two or three times the memory.

    Example:
        >>> rows = nn.Embedding(3, 2, sparse=True)
        >>> optimiser = update_rows(torch.optim.AdamW([nn.Parameter(torch.zeros(1))], lr=0.5), [rows.weight])
        >>> before = rows.weight.detach().clone()
        >>> rows(torch.tensor([1])).sum().backward()
        >>> optimiser.step()
        >>> before - rows.weight.detach()
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.0000, 0.0000]])
    """

    def step(self, closure: Any = None) -> Any:
        """Take a step of the other weights, then of the rows."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group.get(ROWS)]
        try:
            loss = super().step(closure)
        finally:
            self.param_groups = groups
        for group in groups:
            for weight in group["params"] if group.get(ROWS) else ():
                if weight.grad is not None:
                    self._step_rows(weight, float(group["lr"]))
        return loss

    @torch.no_grad()
    def _step_rows(self, weight: Tensor, rate: float) -> None:
        gradient = summed_rows(cast(Tensor, weight.grad))
        rows, values = gradient.indices()[0], gradient.values()
        state: Any = self.state[weight]
        if not state:
            state["row_sums"] = torch.zeros(len(weight), dtype=weight.dtype, device=weight.device)
            state["step"] = torch.zeros(())  # which Adam looks for in all states that it loads
        state["step"] += 1
        sums = state["row_sums"][rows] + torch.linalg.vector_norm(values, dim=1).square() / values.shape[1]
        state["row_sums"][rows] = sums
        weight.index_add_(0, rows, values.mul_((-rate / (sums.sqrt() + EPSILON)).unsqueeze(1)))


def summed_rows(gradient: Tensor) -> Tensor:
    """Return a sparse gradient that has each row once; where that is so already, without the work.

    Example:
        >>> gradient = torch.sparse_coo_tensor([[0, 2, 2]], torch.ones(3, 1), (4, 1))
        >>> summed_rows(gradient).values().flatten().tolist()
        [1.0, 2.0]
    """
    if not gradient.is_coalesced() and bool((gradient._indices()[0].diff() > 0).all()):
        gradient._coalesced_(True)  # which autograd forgets
    return gradient.coalesce()


def sparse_weights(model: nn.Module) -> list[nn.Parameter]:
    """Return the trained weights of a model that have sparse gradients.

    Example:
        >>> len(sparse_weights(nn.Embedding(3, 2))), len(sparse_weights(nn.Embedding(3, 2, sparse=True)))
        (0, 1)
    """
    modules = (each for each in model.modules() if isinstance(each, nn.Embedding | nn.EmbeddingBag) and each.sparse)
    return [cast(nn.Parameter, each.weight) for each in modules if each.weight.requires_grad]


def update_rows(optimizer: Any, weights: Iterable[nn.Parameter]) -> Any:
    """Let an optimiser touch only those rows of some weights that have a gradient, without weight decay.

    Args:
        optimizer: changed in place; the weights leave the groups that they are in.
        weights: with sparse gradients.
    """
    moved = {id(weight): weight for weight in weights}
    for group in optimizer.param_groups:
        group["params"] = [weight for weight in group["params"] if id(weight) not in moved]
    optimizer.add_param_group({"params": [*moved.values()], "weight_decay": 0.0, ROWS: True})
    optimizer.__class__ = type(f"RowWise{type(optimizer).__name__}", (RowUpdates, type(optimizer)), {})
    return optimizer


def clip_sparse_and_dense(model: nn.Module, max_norm: float) -> Tensor:
    """Shorten the gradient of a model that is longer than ``max_norm``; return its length before.

    Args:
        model: after backward; of its sparse gradients each row is summed up.
        max_norm: the most that is left; infinity shortens nothing.
    """
    values: list[Tensor] = []
    for weight in model.parameters():
        if weight.grad is not None:
            if weight.grad.is_sparse:
                weight.grad = summed_rows(weight.grad)
            values.append(weight.grad.values() if weight.grad.is_sparse else weight.grad)
    norm = torch.nn.utils.get_total_norm(values)
    if norm > max_norm:
        for each in values:
            each.mul_(max_norm / (norm + 1e-6))
    return norm
