"""[SF]: the state of [GSU] also reads the sequence, from block to block. The future work of the paper's section 5.

It knows neither features nor items, only the context vector and what the blocks put out.
"""

import torch
from torch import Tensor, nn

from contextual_bert.conditioning.global_state import StateValue
from contextual_bert.conditioning.global_state_update import GlobalStateUpdate, StateUpdate, UpdatedStateSlot
from contextual_bert.conditioning.method import Sizes, StateSlot


class StateFlow(GlobalStateUpdate):
    """As [GSU], but between two blocks the state attends to the sequence before it is updated.

    Formula:
        u = state(l) + O Attention(Q state(l), K X(l), V X(l));  state(l+1) = LayerNorm(u + FNN_l(u))

    Symbols:
        =====================  ==============================================================
        here                   paper
        =====================  ==============================================================
        ``state``              c~(l)
        ``hidden``             X(l), what block l put out
        ``query``, ``key``     Q, K: as in BERT's self-attention, ``num_heads`` heads
        ``value``, ``output``  V, O: the same; O starts quiet, as every write to the state does
        =====================  ==============================================================

    Shapes:
        c (batch, context) -> state (batch, hidden); X (batch, length, hidden) is read at its real positions only.

    Relation to its siblings:
        With O = 0 it is ``global_state_update``. The order of the items does not count: attention from one vector sums
        over positions.

    Reference:
        Denk and Peleteiro Ramallo (2020), section 5, which proposes a flow from the sequence to the state and does not
        try it. The residual path and the place before the FNN are our choice: a block of BERT attends first, too.

    Example:
        >>> StateFlow.name
        'state_flow'
    """

    name = "state_flow"
    label = "[SF]"

    def state(self, sizes: Sizes) -> StateSlot:
        return FlowingStateSlot(sizes)


class FlowingStateSlot(UpdatedStateSlot):
    """state(1) = FNN(c), then between two blocks a reading of the sequence and an update."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.reading = nn.ModuleList(ReadSequence(sizes) for _ in range(sizes.num_layers - 1))

    def transition(self, layer: int, state: Tensor, hidden: Tensor, mask: Tensor | None) -> Tensor:
        update: StateUpdate = self.update[layer]  # pyright: ignore[reportAssignmentType]
        return update(state + self.reading[layer](state, hidden, mask))


class ReadSequence(nn.Module):
    """Multi-head attention from one vector, the state, to the positions of its set."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.num_heads = sizes.num_heads
        # A stream that blocks only add to grows from block to block.
        self.normalisation = (
            nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps) if sizes.has_prenorm else nn.Identity()
        )
        self.query = nn.Linear(sizes.hidden_size, sizes.hidden_size)
        self.key = nn.Linear(sizes.hidden_size, sizes.hidden_size)
        self.value = nn.Linear(sizes.hidden_size, sizes.hidden_size)
        self.output = StateValue(sizes.hidden_size, sizes.hidden_size)

    def forward(self, state: Tensor, hidden: Tensor, mask: Tensor | None) -> Tensor:
        hidden = self.normalisation(hidden)
        query, key, value = self.query(state.unsqueeze(1)), self.key(hidden), self.value(hidden)
        query, key, value = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in (query, key, value))
        scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask.bool()[:, None, None], torch.finfo(scores.dtype).min)
        read = scores.softmax(dim=-1) @ value
        return self.output(read.flatten(1))
