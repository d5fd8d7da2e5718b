"""Linear probes: how well a linear head reads a target from the hidden states of each layer, and of a mixture of them.

It knows states and classes, no model and no table.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

INVERSE_STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4)  # scikit-learn's C, of standardised states; the first of equals
HELD_OUT = 5  # one of so many training rows chooses among them
MAX_STEPS = 60


class ProbePredictions(NamedTuple):
    """Predictions of fitted probes.

    Shapes: layers (layers, rows); mixture (rows,); weights (layers,), which add up to 1.
    """

    layers: Tensor
    mixture: Tensor
    weights: Tensor


def fit_probes(train: Tensor, targets: Tensor, asked: Tensor) -> ProbePredictions:
    """Fit a linear head to each layer, and one to a learned mixture of all, and predict other rows.

    Formula:
        p = softmax(W_l z_l + b_l) for layer l;  of the mixture softmax(W sum_l a_l z_l + b) with a = softmax(w)

    Symbols:
        z_l the states of layer l, standardised by the mean and deviation of the training rows; the loss is the mean
        cross-entropy + |W|^2 / (2 C rows). Each layer has the C of ``INVERSE_STRENGTHS`` that is right most often on a
        fifth of the training rows, which are then learned from, too. The mixture has that of the best layer.

    Shapes:
        train (layers, rows, width); targets (rows,), classes from 0; asked (layers, other rows, width).

    Reference:
        Tenney et al. (2019), "BERT Rediscovers the Classical NLP Pipeline", section 3; the mixture is that of Peters
        et al. (2018), equation 1.

    Example:
        >>> states = torch.tensor([[[1.0], [-1.0]], [[0.5], [0.5]]]).repeat(1, 50, 1)  # the second layer knows nothing
        >>> found = fit_probes(states, torch.tensor([1, 0] * 50), states)
        >>> found.layers[0, :2].tolist(), bool(found.weights[0] > 0.9)
        ([1, 0], True)
    """
    mean, deviation = train.mean(dim=1, keepdim=True), train.std(dim=1, keepdim=True)
    states, others = ((each - mean) / deviation.clamp(min=1e-5) for each in (train, asked))
    num_layers, num_rows, width = states.shape
    num_classes = int(targets.max()) + 1
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(0))
    held, rest = order[: num_rows // HELD_OUT], order[num_rows // HELD_OUT :]
    accuracy, of_layers = torch.empty(num_layers, len(INVERSE_STRENGTHS)), list[Tensor]()
    for layer, own in enumerate(states):
        tried = fitted_heads(own[rest], targets[rest], num_classes=num_classes, strengths=INVERSE_STRENGTHS)
        accuracy[layer] = (tried(own[held]) == targets[held, None]).float().mean(dim=0)
        chosen = INVERSE_STRENGTHS[int(accuracy[layer].argmax())]
        fitted = fitted_heads(own, targets, num_classes=num_classes, strengths=[chosen])
        of_layers.append(fitted(others[layer])[:, 0])
    strength = INVERSE_STRENGTHS[int(accuracy.argmax()) % len(INVERSE_STRENGTHS)]

    head = torch.zeros(width, num_classes, requires_grad=True)
    bias = torch.zeros(num_classes, requires_grad=True)
    scores = torch.zeros(num_layers, requires_grad=True)
    decay = 1 / (strength * num_rows)

    def mixed(each: Tensor) -> Tensor:
        return torch.einsum("l,lrw->rw", scores.softmax(dim=0), each) @ head + bias

    minimise(lambda: cross_entropy(mixed(states), targets) + decay / 2 * head.square().sum(), [head, bias, scores])
    with torch.no_grad():
        return ProbePredictions(torch.stack(of_layers), mixed(others).argmax(dim=-1), scores.softmax(dim=0))


def fitted_heads(
    states: Tensor, targets: Tensor, *, num_classes: int, strengths: Sequence[float]
) -> Callable[[Tensor], Tensor]:
    """Fit a linear head a strength, and return what predicts classes, (rows, strengths), from states (rows, width).

    Args:
        states: (rows, width), standardised.
        targets: (rows,).
        num_classes: that there are.
        strengths: the inverse strength of the regularisation of each head.
    """
    (num_rows, width), num_tries = states.shape, len(strengths)
    heads = torch.zeros(width, num_tries * num_classes, requires_grad=True)
    biases = torch.zeros(num_tries * num_classes, requires_grad=True)
    decays = (1 / (torch.tensor(strengths) * num_rows)).repeat_interleave(num_classes)
    every = targets.repeat_interleave(num_tries)

    def logits_of(rows: Tensor) -> Tensor:
        return (rows @ heads + biases).view(-1, num_tries, num_classes)

    def loss() -> Tensor:
        penalty = (decays / 2 * heads.square().sum(dim=0)).sum()
        return num_tries * cross_entropy(logits_of(states).flatten(0, 1), every) + penalty

    minimise(loss, [heads, biases])
    return lambda rows: logits_of(rows).argmax(dim=-1)


def minimise(loss_of: Callable[[], Tensor], weights: Sequence[Tensor]) -> None:
    """Change the weights to those of the least loss that ``MAX_STEPS`` steps of L-BFGS find."""
    optimizer = torch.optim.LBFGS(
        weights, max_iter=MAX_STEPS, tolerance_grad=1e-4, tolerance_change=1e-5, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    optimizer.step(closure)  # pyright: ignore[reportArgumentType]  (typed for a float)
