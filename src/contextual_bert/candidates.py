"""The items that a masked position can hold: what softmax, ranks and probabilities go over.

Models and baselines share these functions, so that all are measured over the same items. Paper: section 3 normalises
over the whole vocabulary, which is ``softmax_over="vocabulary"``.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from contextual_bert.softmax_over import SoftmaxOver


class MaskedScores(NamedTuple):
    """For each masked position the figures that every metric is made of, (masked,) each.

    ``log_probability`` of the true item in nats, how many items scored higher, how many scored the same (the true one
    included), and the probability of the best item.
    """

    log_probability: Tensor
    num_better: Tensor
    num_tied: Tensor
    confidence: Tensor


def excluded_ids(
    softmax_over: SoftmaxOver,
    input_ids: Tensor | None,
    rows: Tensor,
    *,
    reserved: Sequence[int],
    reads_before: bool = False,
) -> Tensor | None:
    """Return the ids that each masked position cannot hold, or None where it may hold all.

    Shapes:
        input_ids (batch, length), rows (masked,) -> (masked, excluded), ids may repeat.

    Args:
        softmax_over: what the softmax goes over.
        input_ids: the sets. None leaves only the reserved ids excluded.
        rows: indices of the masked positions into the flattened input_ids.
        reserved: the ids that are no items.
        reads_before: whether a position knows the items before it alone.

    Example:
        >>> ids = torch.tensor([[5, 1, 4]])
        >>> excluded_ids("candidates", ids, torch.tensor([1]), reserved=(0, 1, 2)).tolist()
        [[0, 1, 2, 5, 1, 4]]
    """
    if softmax_over == "vocabulary":
        return None
    excluded = torch.as_tensor(reserved, dtype=torch.int64, device=rows.device).expand(len(rows), -1)
    if softmax_over == "items" or input_ids is None:
        return excluded
    length = input_ids.shape[1]
    shown = input_ids[rows // length]
    if reads_before:
        is_later = torch.arange(length, device=rows.device) >= (rows % length)[:, None]
        shown = shown.masked_fill(is_later, reserved[0])
    return torch.cat([excluded, shown], dim=1)


def exclude(logits: Tensor, excluded: Tensor | None, targets: Tensor | None = None) -> Tensor:
    """Return the logits with minus infinity at the excluded ids of each row; autograd goes through.

    Shapes:
        logits (rows, vocabulary), excluded (rows, n), targets (rows,).

    Args:
        logits: not changed.
        excluded: from ``excluded_ids``; None excludes nothing.
        targets: the true ids, which are kept although they are excluded: a set that holds its item twice.

    Example:
        >>> exclude(torch.zeros(1, 4), torch.tensor([[0, 3]]), torch.tensor([3])).tolist()
        [[-inf, 0.0, 0.0, 0.0]]
    """
    if excluded is None:
        return logits
    kept = logits.scatter(1, excluded, -torch.inf)
    return kept if targets is None else kept.scatter(1, targets[:, None], logits.gather(1, targets[:, None]))


def rank_targets(logits: Tensor, targets: Tensor, excluded: Tensor | None, *, reserved: Tensor) -> MaskedScores:
    """Rank the true item of each row among all that are not excluded.

    Reserved ids are no rivals, whatever the softmax goes over.

    Shapes:
        logits (rows, vocabulary); targets (rows,); excluded (rows, n).

    Args:
        logits: may be changed.
        targets: the true ids.
        excluded: from ``excluded_ids``; None lets the softmax go over the whole vocabulary.
        reserved: the ids that are no items.

    Example:
        >>> reserved = torch.arange(3)
        >>> scores = rank_targets(torch.zeros(1, 6), torch.tensor([5]), reserved.view(1, 3), reserved=reserved)
        >>> round(float(scores.log_probability.exp()), 4), int(scores.num_tied)
        (0.3333, 3)
    """
    true = targets[:, None]
    logits = exclude(logits, excluded, targets)
    normaliser = logits.logsumexp(dim=-1)
    own = logits.gather(1, true)
    logits[:, reserved] = -torch.inf
    return MaskedScores(
        own.squeeze(1) - normaliser,
        (logits > own).sum(dim=-1),
        (logits == own).sum(dim=-1) + torch.isin(true, reserved).squeeze(1),
        (logits.amax(dim=-1) - normaliser).exp(),
    )
