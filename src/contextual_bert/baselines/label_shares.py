"""How often each label occurs, for whom: the label from the context alone, or from nothing.

The text is not read. It knows no tokens.
"""

from collections.abc import Sequence

from torch import Tensor

from contextual_bert.baselines.text import TextClassifier
from contextual_bert.context import FeatureLayout


class LabelShares(TextClassifier):
    """A text's label without the text: popularity, or with the context popularity for such a person.

    Formula:
        logits = W [0 ; c] + b;  without context b

    Shapes:
        input_ids (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".

    Relation to its siblings:
        All others read the text. ``BagOfItems`` without items is the same for items.

    Reference:
        PROTOCOL, point 9: a control that stands in every table.

    Example:
        >>> import torch
        >>> LabelShares(num_labels=2)(input_ids=torch.tensor([[3, 4]]))["logits"].shape
        torch.Size([1, 2])
    """

    def __init__(self, *, num_labels: int, layout: Sequence[FeatureLayout] = (), conditioning: str = "none") -> None:
        super().__init__(
            1, num_labels=num_labels, layout=layout, conditioning=conditioning, reserved_ids=(), dropout=0.0
        )

    def text_vectors(self, input_ids: Tensor, is_read: Tensor) -> Tensor:
        return next(self.head.parameters()).new_zeros(len(input_ids), 1)
