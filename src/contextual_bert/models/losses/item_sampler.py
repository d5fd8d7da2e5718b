"""Draws the items that a sampled loss compares a target with: those of the batch, and others of all alike.

Yang et al. (2020), "Mixed Negative Sampling for Learning Two-tower Neural Networks in Recommendations".
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from contextual_bert.item_loss import NUM_NEGATIVES


class DrawnItems(NamedTuple):
    """Items that the rows of a batch share, each once and in rising order, and how often they were taken.

    Args:
        ids: (drawn,) int64.
        log_weights: (drawn,), log of how often an item was taken, over how often it is on average.
        num_drawn: (drawn,), how often it was drawn among all items alike, the targets of the batch left aside.
    """

    ids: Tensor
    log_weights: Tensor
    num_drawn: Tensor


class ItemSampler(nn.Module):
    """Takes the targets of a batch, and ``num_negatives`` items drawn uniformly, with replacement.

    Formula:
        E[n_w] = B p_w + k / V

    Symbols:
        n_w is how often item w is taken, B the number of targets of the batch, p_w the share of w in the training
        part, k ``num_negatives``, V the number of items. A sum over the drawn items, each weighted n_w / E[n_w], is on
        average that over all items.

    Args:
        counts: (vocabulary,), how often each id occurs in the training part.
        num_negatives: items that are drawn.
        reserved: ids that are no items, and are not drawn.

    Example:
        >>> sampler = ItemSampler(torch.tensor([0, 0, 3, 1]), num_negatives=2, reserved=(0, 1))
        >>> drawn = sampler(torch.tensor([2, 2, 3]))
        >>> drawn.ids.tolist(), int(drawn.num_drawn.sum())
        ([2, 3], 2)
    """

    items: Tensor
    shares: Tensor

    def __init__(self, counts: Tensor, *, num_negatives: int = NUM_NEGATIVES, reserved: Sequence[int] = ()) -> None:
        super().__init__()
        is_item = torch.ones(len(counts), dtype=torch.bool)
        is_item[list(reserved)] = False
        self.num_negatives = num_negatives
        self.register_buffer("items", is_item.nonzero(as_tuple=True)[0], persistent=False)
        shares = torch.where(is_item, counts, 0).double()
        self.register_buffer("shares", (shares / shares.sum().clamp(min=1)).float(), persistent=False)

    def forward(self, targets: Tensor) -> DrawnItems:
        """Take the items of a batch.

        Shapes: targets (targets,) -> DrawnItems.
        """
        own = targets.unique()
        drawn = self.items[torch.randint(len(self.items), (self.num_negatives,), device=targets.device)]
        ids, place = torch.cat([own, drawn]).unique(return_inverse=True)
        of_batch, of_all = (torch.zeros(len(ids), device=ids.device) for _ in range(2))
        of_all.index_add_(0, place[len(own) :], torch.ones(len(drawn), device=ids.device))
        of_batch.index_add_(0, torch.searchsorted(ids, targets), torch.ones(len(targets), device=ids.device))
        expected = len(targets) * self.shares[ids] + self.num_negatives / len(self.items)
        return DrawnItems(ids, ((of_batch + of_all) / expected).log(), of_all)
