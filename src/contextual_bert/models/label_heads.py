"""Output layers of classifiers: classes, or grades of one scale, and their start at the shares of the labels.

This module knows no text and no method. Paper: McCullagh (1980).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.errors import ConfigurationError

SMALLEST_STEP = 1e-6  # between two thresholds: the logarithm of the share of a grade that nobody gives is finite
PSEUDO_COUNT = 0.5  # of each label, Jeffreys' prior: the share of a label that does not occur is finite in logarithms


def check_class_weights(config: Any) -> None:
    """Raise ConfigurationError unless a configuration has a weight above 0 for each label, or none at all."""
    weights = config.class_weights
    if weights is not None and (len(weights) != config.num_labels or min(weights) <= 0):
        raise ConfigurationError(
            f"is not a number above 0 for each of num_labels={config.num_labels}",
            setting="class_weights",
            value=weights,
            fix="Give one for each label, in the order of the ids, or leave it out.",
        )


def weights_like(logits: Tensor, config: Any) -> Tensor | None:
    """Return the weights of the labels in the loss, (labels,), beside logits; None where all count alike."""
    return None if config.class_weights is None else logits.new_tensor(config.class_weights)


class OrdinalClassifier(nn.Module):
    """log Pr(y = k) of grades of one scale, from one score and ordered thresholds: a cumulative logit model.

    Formula:
        Pr(y <= k) = sigmoid(t_k - w h); t_1 = d_1, t_k = t_(k-1) + softplus(d_k) for k = 2 ... K - 1

    Symbols:
        h the vector of a text; w ``score``; d ``thresholds``. The thresholds t rise for any d. The score has no bias:
        d_1 moves all of them.

    Shapes:
        (batch, hidden) -> (batch, labels), log-probabilities.

    Args:
        hidden_size: width of h.
        num_labels: grades, K, 2 or more.

    Relation to its siblings:
        A linear layer takes the labels as classes without an order. CORAL has the same Pr(y <= k) and another loss,
        K - 1 binary ones. CORN has a score for each threshold. docs/decisions/026 compares them.

    Reference:
        McCullagh (1980), "Regression Models for Ordinal Data", section 2; Cao et al. (2020), "Rank consistent ordinal
        regression" (CORAL); Shi et al. (2021), "Deep Neural Networks for Rank-Consistent Ordinal Regression" (CORN).

    Example:
        >>> OrdinalClassifier(8, 4)(torch.zeros(1, 8)).exp().round(decimals=4).tolist()
        [[0.25, 0.25, 0.25, 0.25]]
    """

    def __init__(self, hidden_size: int, num_labels: int) -> None:
        super().__init__()
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.thresholds = nn.Parameter(torch.empty(num_labels - 1))
        self.initialise()

    @property
    def num_labels(self) -> int:
        """The number of grades."""
        return len(self.thresholds) + 1

    def initialise(self, initializer_range: float = 0.0) -> None:
        """Set the thresholds so that a score of 0 gives every grade the same share."""
        self.start_at(torch.full((self.num_labels,), 1 / self.num_labels, dtype=torch.float64))

    @torch.no_grad()
    def start_at(self, shares: Tensor) -> None:
        """Set the thresholds so that a score of 0 gives these shares, (labels,), all above 0."""
        below = shares.double().cumsum(dim=0)[:-1]
        above = shares.double().flip(0).cumsum(dim=0).flip(0)[1:]  # not 1 - below, which loses the digits of rare ones
        ends = below.log() - above.log()
        steps = (ends.diff() - SMALLEST_STEP).clamp(min=SMALLEST_STEP / 100)
        self.thresholds.copy_(torch.cat([ends[:1], steps + torch.log(-torch.expm1(-steps))]))  # softplus undone

    def forward(self, hidden: Tensor) -> Tensor:
        steps = torch.cat([self.thresholds[:1], functional.softplus(self.thresholds[1:]) + SMALLEST_STEP])
        # Not cumsum, which on CUDA is not deterministic.
        ends = (steps * torch.ones_like(steps).expand(len(steps), -1).tril()).sum(dim=1)
        distances = ends - self.score(hidden)
        below, above = functional.logsigmoid(distances), functional.logsigmoid(-distances)
        # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b))
        between = below[:, 1:] + above[:, :-1] + torch.log(-torch.expm1(-steps[1:]))
        return torch.cat([below[:, :1], between, above[:, -1:]], dim=-1)


@torch.no_grad()
def start_at_shares(
    head: nn.Linear | OrdinalClassifier,
    counts: Sequence[int] | Tensor,
    *,
    num_texts: int | None = None,
    weights: Sequence[float] | None = None,
) -> None:
    """Let an output layer begin with the shares of the labels in training, whatever it reads.

    The first loss is the entropy of the labels. Nothing is left to learn but what the texts tell.

    Formula:
        p_k = (n_k + 1/2) / (n + K/2); classes: W = 0, b_k = log p_k; grades: w = 0, t_k = logit(p_1 + ... + p_k);
        several labels a text, of N: W = 0, b_k = logit((n_k + 1/2) / (N + 1)); with weights w_k of the loss p_k is
        that of w_k (n_k + 1/2), and b_k = logit + log w_k

    Args:
        head: the output layer, with a bias.
        counts: n_k, how often each label occurs in the training part, in the order of the ids.
        num_texts: N, where a text may have several labels; None: it has one.
        weights: w_k, how much each label counts in the loss; None: all alike.

    Raises:
        ConfigurationError: counts that are not one whole number for each label, or more than ``num_texts``.

    Reference:
        Lin et al. (2017), "Focal Loss", section 4.1, for a bias at the logarithm of a prior. The pseudo-count of 1/2 is
        Jeffreys' (1946).

    Example:
        >>> head = OrdinalClassifier(8, 3)
        >>> start_at_shares(head, [60, 30, 10])
        >>> head(torch.randn(1, 8)).exp()
        tensor([[0.5961, 0.3005, 0.1034]], grad_fn=<ExpBackward0>)
    """
    numbers = torch.as_tensor(counts, dtype=torch.float64)
    num_labels = head.num_labels if isinstance(head, OrdinalClassifier) else head.out_features
    is_outside = bool((numbers < 0).any()) or (num_texts is not None and bool((numbers > num_texts).any()))
    if numbers.shape != (num_labels,) or is_outside:
        raise ConfigurationError(
            f"counts={numbers.tolist()!r:.80} for {num_labels} labels",
            fix="Give each label the number of its training rows.",
        )
    counting = torch.ones_like(numbers) if weights is None else numbers.new_tensor(weights)
    if num_texts is not None and isinstance(head, nn.Linear):
        nn.init.zeros_(head.weight)
        head.bias.copy_(((numbers + PSEUDO_COUNT) / (num_texts + 2 * PSEUDO_COUNT)).logit() + counting.log())
        return
    weighted = (numbers + PSEUDO_COUNT) * counting
    shares = weighted / weighted.sum()
    if isinstance(head, OrdinalClassifier):
        nn.init.zeros_(head.score.weight)
        head.start_at(shares)
        return
    nn.init.zeros_(head.weight)
    head.bias.copy_(shares.log())
