"""[GSU]: a global state that is updated from block to block.

It knows neither features nor items, only the context vector. Paper: section 3, "Global State With Update", equation 2.
"""

from torch import Tensor, nn

from contextual_bert.conditioning.global_state import GlobalStateSlot, ReadState
from contextual_bert.conditioning.method import BlockSlot, ConditioningMethod, FeedForward, Sizes, StateSlot


class GlobalStateUpdate(ConditioningMethod):
    """As [GS], but block l reads state(l).

    Formula:
        state(1) = FNN(c);  state(l+1) = LayerNorm(state(l) + FNN_l(state(l)));  B(l) = V(l) state(l)

    Symbols:
        =====================  =========================================================
        here                   paper
        =====================  =========================================================
        ``state``              c~(l)
        ``update.l``           the transfer function's FNN of block l, weights not shared
        =====================  =========================================================

    Shapes:
        c (batch, context) -> state (batch, hidden).

    Relation to its siblings:
        ``global_state`` is this method without the updates. The residual path and the LayerNorm of the update are not
        in the paper's text: its parameter count has the LayerNorm, and a block of BERT wraps every FNN in add-and-norm.

    Reference:
        Denk and Peleteiro Ramallo (2020), section 3, equation 2.

    Example:
        >>> GlobalStateUpdate.label
        '[GSU]'
    """

    name = "global_state_update"
    label = "[GSU]"
    keeps_checkpoint = True

    def state(self, sizes: Sizes) -> StateSlot:
        return UpdatedStateSlot(sizes)

    def block(self, sizes: Sizes, layer: int) -> BlockSlot:
        return ReadState(sizes)


class UpdatedStateSlot(GlobalStateSlot):
    """state(1) = FNN(c), then one transition between any two blocks."""

    reads_sequence = False

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.update = nn.ModuleList(StateUpdate(sizes) for _ in range(sizes.num_layers - 1))

    def transition(self, layer: int, state: Tensor, hidden: Tensor, mask: Tensor | None) -> Tensor:
        return self.update[layer](state)


class StateUpdate(nn.Module):
    """state <- LayerNorm(state + FNN(state))."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.feed_forward = FeedForward(sizes.hidden_size, sizes.intermediate_size, sizes.hidden_size)
        self.normalisation = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)

    def forward(self, state: Tensor) -> Tensor:
        return self.normalisation(state + self.feed_forward(state))
