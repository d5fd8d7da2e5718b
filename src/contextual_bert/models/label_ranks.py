"""Where the true label stands among all: for texts and words what the masked-item head says of items.

It knows logits and labels only.
"""

import torch
from torch import Tensor

from contextual_bert.models.masked_lm import MaskedScores


@torch.no_grad()
def rank_labels(logits: Tensor, labels: Tensor) -> MaskedScores:
    """Rank the true label of each row.

    Shapes:
        logits (rows, labels), labels (rows,) from 0 on -> MaskedScores, (rows,) each.

    Args:
        logits: of any scale; log-probabilities are logits, too.
        labels: the true ones.

    Relation to its siblings:
        ``ContextualBertForMaskedLM.score_masked`` does it for items, without holding all logits.

    Example:
        >>> scores = rank_labels(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([1]))
        >>> int(scores.num_better), int(scores.num_tied)
        (1, 2)
    """
    shares = logits.float().log_softmax(dim=-1)
    own = shares.gather(1, labels[:, None])
    return MaskedScores(
        own.squeeze(1), (shares > own).sum(dim=-1), (shares == own).sum(dim=-1), shares.amax(dim=-1).exp()
    )
