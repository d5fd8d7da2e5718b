"""Counted label shares: the label from the context alone, or from nothing. Nothing is trained.

The text is not read. It knows no tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from contextual_bert.baselines.label_model import LabelModel
from contextual_bert.baselines.shares import UNSEEN_LABEL, Observations, ShareModel
from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError


class LabelShares(LabelModel):
    """A text's label without the text: label shares, or with the context those of somebody like this.

    Formula:
        as ``ShareModel``, with the labels as classes; with ``has_several`` two classes a label, no and yes, and the
        logit of a label is the difference of the two

    Shapes:
        input_ids (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        num_labels: labels.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".
        has_several: whether a text may have several labels. The classes of what is counted are then twice the id of a
            label, and one more where a text has it.

    Raises:
        ConfigurationError: less than two labels.

    Relation to its siblings:
        All others read the text. ``ItemPopularity`` is the same for items.

    Reference:
        The majority baseline, with probabilities.

    Example:
        >>> import torch
        >>> LabelShares(num_labels=2)(input_ids=torch.tensor([[3, 4]]))["logits"].shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        has_several: bool = False,
    ) -> None:
        super().__init__()
        if num_labels < 2:
            raise ConfigurationError(
                "is not allowed: shares are of labels", setting="num_labels", value=num_labels, fix="Give 2 or more."
            )
        read = layout if conditioning == "concat" else ()
        self.has_several = has_several
        self.shares = ShareModel(num_labels * (2 if has_several else 1), layout=read, unseen_prior=UNSEEN_LABEL)

    def fit(self, training: Observations, validation: Observations | None = None) -> dict[str, Any]:
        """Count and fit; return the prior count and, with a context, the strength of the regularisation."""
        # Each decision of several labels is seen in every text: no prior is to be chosen.
        self.shares.fit(training, validation, prior=UNSEEN_LABEL if self.has_several else None)
        return self.shares.settings

    def logits(self, input_ids: Tensor, is_real: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        found = self.shares(context, num_rows=len(input_ids))
        if not self.has_several:
            return found
        no, yes = found.view(len(input_ids), -1, 2).unbind(dim=2)
        return yes - no
