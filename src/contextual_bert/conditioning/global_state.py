"""[GS]: a global state made from the context, read by every block.

It knows neither features nor items, only the context vector. Paper: section 3, "Global State", equation 1, Figure 1.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn

from contextual_bert.conditioning.method import BlockSlot, ConditioningMethod, FeedForward, Sizes, StateSlot
from contextual_bert.context.encoder import ContextEmbedding

BERT_INITIALIZER_RANGE = 0.02


class GlobalState(ConditioningMethod):
    """One state for all blocks; each block reads it between self-attention and feed-forward.

    Formula:
        state = FNN(c);  B = V state;  B^ = LayerNorm(Dropout(B) + A^)

    Symbols:
        =====================  ====================================================
        here                   paper
        =====================  ====================================================
        ``state``              c~, the global state
        ``value``              V^V; V^Q and V^K cancel and do not exist here
        ``hidden`` (input)     A^, the block's attention output after add-and-norm
        =====================  ====================================================

    Shapes:
        c (batch, context) -> state (batch, hidden); hidden (batch, length, hidden) -> the same.

    Relation to its siblings:
        ``global_state_update`` gives each block a state of its own. Unlike ``concat`` and ``new_position`` the context
        enters every block. On a pretrained BERT it starts as BERT: V = 0, and the read's LayerNorm takes over scale and
        bias of the one before it, since LayerNorm(LayerNorm(x)) = LayerNorm(x) only without them
        (docs/decisions/011).

    Reference:
        Denk and Peleteiro Ramallo (2020), section 3, equation 1.

    Example:
        >>> GlobalState().input(sizes=None) is None
        True
    """

    name = "global_state"
    label = "[GS]"
    keeps_checkpoint = True

    def state(self, sizes: Sizes) -> StateSlot:
        return GlobalStateSlot(sizes)

    def block(self, sizes: Sizes, layer: int) -> BlockSlot:
        return ReadState(sizes)


class GlobalStateSlot(StateSlot):
    """state(1) = FNN(c), the same for all blocks."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.context = FeedForward(sizes.context_size, sizes.hidden_size, sizes.hidden_size)

    def start_as_checkpoint(self) -> None:
        """The blocks read nothing at first; what they will read differs between contexts as much as c does."""
        first, _, second = cast(Any, self.context)
        nn.init.kaiming_normal_(first.weight, nonlinearity="relu")
        nn.init.kaiming_normal_(second.weight, nonlinearity="linear")

    def initial(self, context: ContextEmbedding) -> Tensor:
        return self.context(context.vector)


class ReadState(BlockSlot):
    """Attention over a single vector is that vector's value: one dense layer a row, broadcast over the positions.

    The LayerNorm has no parameters of its own, as Table 1 counts, but on a pretrained BERT, whose they are. Where a
    block normalises what it reads, there is none: B is added to the stream.
    """

    point = "read"
    taken_over = ("normalisation",)

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.value = StateValue(sizes.hidden_size, sizes.hidden_size)
        self.dropout = nn.Dropout(sizes.dropout)
        self.normalisation = (
            nn.Identity()
            if sizes.has_prenorm
            else nn.LayerNorm(
                sizes.hidden_size, eps=sizes.layer_norm_eps, elementwise_affine=sizes.has_pretrained_start
            )
        )

    @torch.no_grad()
    def start_as_checkpoint(self, attention_norm: nn.LayerNorm | None) -> None:
        self.value.weight.zero_()
        self.value.bias.zero_()
        if attention_norm is not None:
            self.normalisation.load_state_dict(attention_norm.state_dict())
            attention_norm.reset_parameters()

    def held(self, state: Tensor) -> Tensor:
        return self.value(state)

    def forward(self, hidden: Tensor, state: Tensor, held: Tensor | None = None) -> Tensor:
        value = self.value(state) if held is None else held
        # B is one vector, so Dropout(B) is drawn once a row, not at each position (docs/decisions/007).
        value = self.dropout(value).unsqueeze(1)
        return self.normalisation(value + hidden)


class StateValue(nn.Linear):
    """V^V of [GS] and [GSU]. Starts quiet, whatever scale the other weights start with.

    LayerNorm(B + A^) shares the unit variance between state and items. A state as loud as the items, in every block,
    drowns what the masked position reads of the others, and training stays on the plateau (docs/decisions/006).
    """

    def initialise(self, initializer_range: float) -> None:
        """Normal with BERT's standard deviation, or the model's own if that is smaller."""
        nn.init.normal_(self.weight, std=min(initializer_range, BERT_INITIALIZER_RANGE))
