"""[C]: the context is concatenated with every position of the input. Paper: section 3, "Concat"."""

import torch
from torch import Tensor, nn

from contextual_bert.conditioning.method import ConditioningMethod, InputSlot, Sizes
from contextual_bert.context.encoder import ContextEmbedding


class Concat(ConditioningMethod):
    """Every position becomes FNN([x_i ; c]).

    Formula:
        x_i <- W2 max(0, W_x x_i + W_c c + b1) + b2

    Symbols:
        ========================  =====================
        here                      paper
        ========================  =====================
        ``[items | context]``     W of I_[C]
        ``c``                     c, the context vector
        ========================  =====================

    Shapes:
        embeddings (batch, length, hidden) -> the same.

    Relation to its siblings:
        As ``new_position`` it only touches the input. The paper writes one matrix W; its parameter count needs the
        two-layer map built here. On a pretrained BERT its inner layer is twice as wide, for x = max(0, x) - max(0, -x):
        so it starts as the identity.

    Reference:
        Denk and Peleteiro Ramallo (2020), section 3, I_[C].

    Example:
        >>> Concat().block(sizes=None, layer=0) is None
        True
    """

    name = "concat"
    label = "[C]"
    keeps_checkpoint = True

    def input(self, sizes: Sizes) -> InputSlot:
        return ConcatInput(sizes)


class ConcatInput(InputSlot):
    """The two-layer map of [C].

    The product with [x; c] is split: W_c c is the same at every position, so it is computed once a row and broadcast.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        inner_size = 2 * sizes.hidden_size if sizes.has_pretrained_start else sizes.hidden_size
        self.items = nn.Linear(sizes.hidden_size, inner_size, bias=False)
        self.context = nn.Linear(sizes.context_size, inner_size)
        self.output = nn.Linear(inner_size, sizes.hidden_size)

    @torch.no_grad()
    def start_as_checkpoint(self, neutral: Tensor) -> None:
        identity = torch.eye(self.output.out_features)
        self.items.weight.copy_(torch.cat([identity, -identity]))
        self.output.weight.copy_(torch.cat([identity, -identity], dim=1))
        self.output.bias.zero_()
        self.context.weight.zero_()
        self.context.bias.zero_()

    def forward(
        self, embeddings: Tensor, mask: Tensor | None, context: ContextEmbedding
    ) -> tuple[Tensor, Tensor | None]:
        inner = self.items(embeddings) + self.context(context.vector).unsqueeze(1)
        return self.output(inner.relu()), mask
