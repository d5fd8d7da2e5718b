"""Steps of weights whose gradient is sparse: only the rows that a batch read are touched.

Duchi et al. (2011), "Adaptive Subgradient Methods", and Loshchilov and Hutter (2019), "Decoupled Weight Decay
Regularization", with one sum or average of squares for a row instead of one for a number.
"""

from collections.abc import Container, Iterable
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from contextual_bert.errors import ConfigurationError

ROWS = "row_rule"  # of a group: "adagrad" or "adam"
EPSILON = 1e-10


class RowUpdates(torch.optim.Optimizer):
    """What ``update_rows`` makes of an optimiser: groups with sparse gradients have steps of their own.

    Formula:
        adagrad: s_r = s_r + mean(g_r^2);  E_r = E_r - rate g_r / sqrt(s_r), for each row r that has a gradient g_r

        adam: m_r = b1 m_r + (1 - b1) g_r;  v_r = b2 v_r + (1 - b2) mean(g_r^2);
              E_r = exp(-decay R_r) E_r - rate (m_r / (1 - b1^n_r)) / (sqrt(v_r / (1 - b2^n_r)) + epsilon)

    Symbols:
        n_r is how many steps the row had, R_r the sum of the rates since its last one: what AdamW would have taken from
        it meanwhile.

    Relation to its siblings:
        torch's Adagrad keeps a sum for each number, SparseAdam two averages, which is two or three times the memory.
        SparseAdam counts all steps, so that a row that comes up late starts with steps of three times the rate.

    Example:
        >>> rows = nn.Embedding(3, 2, sparse=True)
        >>> optimiser = update_rows(torch.optim.AdamW([rows.weight], lr=0.5), [rows.weight])
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
                    step = self._step_adam if group[ROWS] == "adam" else self._step_adagrad
                    step(weight, group)
        return loss

    def _state_of(self, weight: Tensor, *names: str) -> Any:
        """What is kept of a weight, with a number for each row by these names, zeros at first."""
        state: Any = self.state[weight]
        if not state:
            for name in names:
                state[name] = torch.zeros(len(weight), dtype=weight.dtype, device=weight.device)
            state["step"] = torch.zeros(())  # which Adam looks for in all states that it loads
        state["step"] += 1
        return state

    @torch.no_grad()
    def _step_adam(self, weight: Tensor, group: Any) -> None:
        gradient, rate, (beta1, beta2) = summed_rows(cast(Tensor, weight.grad)), float(group["lr"]), group["betas"]
        rows, values = gradient.indices()[0], gradient.values()
        state = self._state_of(weight, "row_steps", "row_squares", "decayed_at")
        if "row_means" not in state:
            state["row_means"] = torch.zeros_like(weight)
            state["rates"] = torch.zeros((), dtype=weight.dtype)
        state["rates"] += rate
        steps = state["row_steps"][rows] + 1
        squares = state["row_squares"][rows].lerp_(values.square().mean(dim=1), 1 - beta2)
        means = state["row_means"][rows].lerp_(values, 1 - beta1)
        rates = float(state["rates"])
        kept = torch.exp((state["decayed_at"][rows] - rates) * group.get("weight_decay", 0.0))
        length = rate / (1 - beta1**steps) / ((squares / (1 - beta2**steps)).sqrt() + group["eps"])
        weight[rows] = weight[rows] * kept.unsqueeze(1) - means * length.unsqueeze(1)
        state["row_steps"][rows], state["row_squares"][rows], state["row_means"][rows] = steps, squares, means
        state["decayed_at"][rows] = rates

    @torch.no_grad()
    def _step_adagrad(self, weight: Tensor, group: Any) -> None:
        gradient, rate = summed_rows(cast(Tensor, weight.grad)), float(group["lr"])
        rows, values = gradient.indices()[0], gradient.values()
        state = self._state_of(weight, "row_sums")
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
    """Return the trained weights of a model that have sparse gradients: those of modules whose ``sparse`` is true.

    Example:
        >>> len(sparse_weights(nn.Embedding(3, 2))), len(sparse_weights(nn.Embedding(3, 2, sparse=True)))
        (0, 1)
    """
    found = [cast(nn.Parameter, each.weight) for each in model.modules() if getattr(each, "sparse", False) is True]
    return [weight for weight in {id(each): each for each in found}.values() if weight.requires_grad]


def update_rows(
    optimizer: Any, weights: Iterable[nn.Parameter], *, rule: Literal["adagrad", "adam"] = "adagrad"
) -> Any:
    """Let an optimiser touch only those rows of some weights that have a gradient.

    Args:
        optimizer: changed in place; the weights leave the groups that they are in.
        weights: with sparse gradients.
        rule: "adagrad" has no weight decay; "adam" has that of the group, and its betas and epsilon.

    Raises:
        ConfigurationError: "adam" beside an optimiser that is none.
    """
    moved = {id(weight) for weight in weights}
    for group in list(optimizer.param_groups):
        found = [weight for weight in group["params"] if id(weight) in moved]
        if not found:
            continue
        check_row_rule(rule, group, optimizer=type(optimizer).__name__)
        group["params"] = [weight for weight in group["params"] if id(weight) not in moved]
        decay = group.get("weight_decay", 0.0) if rule == "adam" else 0.0
        optimizer.add_param_group({**group, "params": found, "weight_decay": decay, ROWS: rule})
    optimizer.__class__ = type(f"RowWise{type(optimizer).__name__}", (RowUpdates, type(optimizer)), {})
    return optimizer


def check_row_rule(rule: str, settings: Container[str], *, optimizer: str) -> None:
    """Raise ConfigurationError for steps of Adam by rows beside an optimiser that is none.

    Args:
        rule: of the rows.
        settings: names of the optimiser's own settings.
        optimizer: its name.

    Example:
        >>> check_row_rule("adam", ("betas", "eps"), optimizer="adamw_torch")
    """
    if rule == "adam" and not all(name in settings for name in ("betas", "eps")):
        raise ConfigurationError(
            "has no averages by row, as the matrices of items need with a sampled loss",
            setting="optim",
            value=optimizer,
            fix="Take adamw_torch.",
        )


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
