"""Binary cross-entropy of targets and drawn items, generalised so that few drawn items do not make it too sure.

Petrov and Macdonald (2023), "gSASRec: Reducing Overconfidence in Sequential Recommendation Trained with Negative
Sampling".
"""

from torch import Tensor, nn

from contextual_bert.models.losses.item_sampler import DrawnItems

CALIBRATION = 0.75  # t of the paper: 0 is the plain binary cross-entropy, 1 leaves nothing of its bias


def gbce(logits: Tensor, own: Tensor, drawn: DrawnItems, *, num_items: int) -> Tensor:
    r"""Return the loss of each target, in nats.

    Formula:
        loss_t = -beta log sigmoid(s_t) - sum_w n_w log(1 - sigmoid(s_w))

        beta = a (t (1 - 1/a) + 1/a);  a = k / (V - 1)

    Symbols:
        w goes over the k items that were drawn among all V alike, the targets of the row left out; t is
        ``CALIBRATION``. The paper divides by k + 1. With thousands of items the gradients of single weights are then as
        small as Adam's epsilon, and nothing is learned.

    Shapes: logits (rows, drawn), own (rows, n) -> (rows, n).

    Args:
        logits: s, minus infinity where a row leaves an item out.
        own: places of its targets among the drawn items.
        drawn: the items.
        num_items: V.

    Relation to its siblings:
        ``sampled_softmax`` learns probabilities of a softmax over all items; what this learns ranks them.

    Example:
        >>> import torch
        >>> drawn = DrawnItems(torch.tensor([3, 7]), torch.zeros(2), torch.tensor([0.0, 1.0]))
        >>> gbce(torch.zeros(1, 2), torch.tensor([[0]]), drawn, num_items=2)
        tensor([[1.3863]])
    """
    of_targets = logits.gather(1, own)
    negatives = nn.functional.softplus(logits).scatter(1, own, 0.0) @ drawn.num_drawn.to(logits.dtype)
    num_drawn = drawn.num_drawn.sum()
    share = (num_drawn / max(num_items - 1, 1)).clamp(max=1.0)
    beta = share * (CALIBRATION * (1 - 1 / share) + 1 / share)
    return negatives.unsqueeze(1) - beta * nn.functional.logsigmoid(of_targets)
