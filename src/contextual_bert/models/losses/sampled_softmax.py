"""Softmax over the items of a batch and some that are drawn, corrected for how often each is drawn.

Bengio and Senecal (2008), "Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic Language
Model"; Yi et al. (2019), "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations".
"""

from torch import Tensor

from contextual_bert.models.losses.item_sampler import DrawnItems

__all__ = ["sampled_softmax"]


def sampled_softmax(logits: Tensor, own: Tensor, drawn: DrawnItems) -> Tensor:
    """Return the loss of each target, in nats.

    Formula:
        loss_t = log(sum_o exp(s_o) + sum_(w not o) n_w / E[n_w] exp(s_w)) - s_t

    Symbols:
        o goes over the targets of the row, which are always in its softmax; w over the other items that were drawn. On
        average over the draws the sum is that over all items.

    Shapes: logits (rows, drawn), own (rows, n) -> (rows, n).

    Args:
        logits: s, minus infinity where a row leaves an item out.
        own: places of its targets among the drawn items; the same one may stand several times.
        drawn: the items.

    Example:
        >>> import torch
        >>> drawn = DrawnItems(torch.tensor([3, 7]), torch.tensor([0.0, 2.0]).log(), torch.tensor([0.0, 2.0]))
        >>> sampled_softmax(torch.zeros(1, 2), torch.tensor([[0]]), drawn).exp()
        tensor([[3.]])
    """
    of_targets = logits.gather(1, own)
    weighted = (logits + drawn.log_weights).scatter(1, own, of_targets)
    return weighted.logsumexp(1, keepdim=True) - of_targets
