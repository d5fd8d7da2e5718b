"""The loss of masked items over the items of a batch and some that are drawn: its time does not grow with their number.

Only the rows of the output matrix that were drawn have a gradient, and it is sparse; see ``training.row_updates``.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from contextual_bert.item_loss import ItemLoss
from contextual_bert.models.losses.gbce import gbce
from contextual_bert.models.losses.item_sampler import ItemSampler
from contextual_bert.models.losses.sampled_softmax import sampled_softmax

NO_TARGET = -100  # where a set has fewer targets than others


class SampledLoss(nn.Module):
    """A sampled loss of the rows of a batch, all of which are compared with the same drawn items.

    Args:
        name: "sampled_softmax" or "gbce".
        sampler: draws the items.

    Example:
        >>> sampler = ItemSampler(torch.tensor([0, 1, 1]), num_negatives=8, reserved=(0,))
        >>> sampled = SampledLoss("sampled_softmax", sampler)
        >>> losses = sampled(torch.zeros(2, 4), nn.Linear(4, 3), torch.tensor([[1], [2]]), torch.tensor([[0], [0]]))
        >>> losses.shape
        torch.Size([2, 1])
    """

    def __init__(self, name: ItemLoss, sampler: ItemSampler) -> None:
        super().__init__()
        losses: dict[str, Any] = {
            "sampled_softmax": sampled_softmax,
            "gbce": partial(gbce, num_items=len(sampler.items)),
        }
        self.name, self.sampler, self.loss = name, sampler, losses[name]

    def forward(self, read: Tensor, decoder: nn.Linear, targets: Tensor, excluded: Tensor | None) -> Tensor:
        """Return the loss of each target in nats, 0 where there is none.

        Shapes: read (rows, size), targets (rows, n), excluded (rows, ids) -> (rows, n).

        Args:
            read: what the output matrix reads of each row.
            decoder: the output matrix. Where its ``sparse`` is true, so is the gradient.
            targets: ids, ``NO_TARGET`` where a row has fewer.
            excluded: ids that a row leaves out, its targets excepted.
        """
        is_asked = targets != NO_TARGET
        drawn = self.sampler(targets[is_asked])
        rows = nn.functional.embedding(drawn.ids, decoder.weight, sparse=bool(getattr(decoder, "sparse", False)))
        logits = nn.functional.linear(read, rows, decoder.bias[drawn.ids]).float()
        # A place without a target repeats the largest one of its row.
        own = torch.searchsorted(drawn.ids, torch.where(is_asked, targets, targets.amax(1, keepdim=True)))
        if excluded is not None:
            place = torch.searchsorted(drawn.ids, excluded.contiguous()).clamp(max=len(drawn.ids) - 1)
            row, number = (drawn.ids[place] == excluded).nonzero(as_tuple=True)
            is_out = torch.zeros_like(logits, dtype=torch.bool)
            is_out[row, place[row, number]] = True
            logits = logits.masked_fill(is_out.scatter(1, own, False), -torch.inf)
        return self.loss(logits, own, drawn) * is_asked
