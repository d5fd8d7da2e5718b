"""Counted item shares: the item from the context alone, or from nothing. Nothing is trained."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from contextual_bert.baselines.bag import masked_logits, score_by_logits
from contextual_bert.baselines.shares import Observations, ShareModel
from contextual_bert.candidates import MaskedScores, SoftmaxOver
from contextual_bert.context import FeatureLayout


class ItemPopularity(nn.Module):
    """Predicts the masked item without the other items: popularity, or popularity for somebody with this context.

    Formula:
        as ``ShareModel``, with the items as classes

    Shapes:
        input_ids and labels (batch, length), labels -100 where nothing is asked; scores (masked,).

    Args:
        vocab_size: items, reserved ids included.
        layout: the context's features; empty for popularity alone.
        num_reserved: ids below this are no items.
        softmax_over: what scores go over, see ``candidates``.

    Relation to its siblings:
        ``BagOfItems`` also reads the other items. ``LabelShares`` is the same for labels of texts.

    Reference:
        The baseline MostPop of Rendle et al. (2009), with probabilities.

    Example:
        >>> popularity = ItemPopularity(6, layout=())
        >>> _ = popularity.fit(Observations(torch.tensor([3, 3, 4]), torch.arange(3), {}))
        >>> popularity.score_masked(torch.tensor([[1, 4]]), labels=torch.tensor([[3, -100]])).num_better
        tensor([0])
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        layout: Sequence[FeatureLayout],
        num_reserved: int = 3,
        softmax_over: SoftmaxOver = "vocabulary",
    ) -> None:
        super().__init__()
        self.softmax_over: SoftmaxOver = softmax_over
        self.shares = ShareModel(vocab_size, layout=layout, num_reserved=num_reserved)

    @property
    def device(self) -> torch.device:
        """Return the device of the shares."""
        return self.shares.log_shares.device

    def fit(self, training: Observations, validation: Observations | None = None) -> dict[str, Any]:
        """Count and fit; return the prior count and, with a context, the strength of the regularisation."""
        self.shares.fit(training, validation, is_without_visible=self.softmax_over == "candidates")
        return self.shares.settings

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Return the logits of each place with a [MASK]: (masked, vocabulary)."""
        return masked_logits(self.shares(context, num_rows=len(input_ids)), input_ids)

    @torch.no_grad()
    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        labels: Tensor | None = None,
    ) -> MaskedScores:
        """Rank the true item of each masked position: (masked,) each."""
        logits = self.shares(context, num_rows=len(input_ids))
        return score_by_logits(
            logits, input_ids, labels, softmax_over=self.softmax_over, num_reserved=self.shares.num_reserved
        )
