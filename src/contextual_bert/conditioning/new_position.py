"""[NP]: the context is one more position of the input. Paper: section 3, "New Position"."""

import torch
from torch import Tensor, nn

from contextual_bert.conditioning.method import ConditioningMethod, InputSlot, Sizes
from contextual_bert.context.encoder import ContextEmbedding


class NewPosition(ConditioningMethod):
    """W c is prepended to the sequence; every position may attend to it.

    Formula:
        X <- [W c, x_1, ..., x_n]

    Symbols:
        =====================  =====================================
        here                   paper
        =====================  =====================================
        ``context.weight``     W (we add a bias: Table 1 counts one)
        =====================  =====================================

    Shapes:
        embeddings (batch, length, hidden) -> (batch, 1 + length, hidden); the model drops the first position after the
        last block.

    Relation to its siblings:
        As ``concat`` it only touches the input, but leaves it to attention how much of the context each position takes.
        On a pretrained BERT it starts as a second [SEP], whatever the context is (W = 0); all others see it, so it
        cannot start as BERT.

    Reference:
        Denk and Peleteiro Ramallo (2020), section 3, I_[NP].

    Example:
        >>> NewPositionInput.num_added_positions
        1
    """

    name = "new_position"
    label = "[NP]"

    def input(self, sizes: Sizes) -> InputSlot:
        return NewPositionInput(sizes)


class NewPositionInput(InputSlot):
    """The map W of [NP]."""

    num_added_positions = 1

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.context = nn.Linear(sizes.context_size, sizes.hidden_size)

    @torch.no_grad()
    def start_as_checkpoint(self, neutral: Tensor) -> None:
        self.context.weight.zero_()
        self.context.bias.copy_(neutral)

    def forward(
        self, embeddings: Tensor, mask: Tensor | None, context: ContextEmbedding
    ) -> tuple[Tensor, Tensor | None]:
        position = self.context(context.vector).unsqueeze(1).to(embeddings.dtype)
        if mask is not None:
            mask = torch.cat([mask.new_ones(mask.shape[0], 1), mask], dim=1)
        return torch.cat([position, embeddings], dim=1), mask
