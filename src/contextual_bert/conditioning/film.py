"""[FiLM]: the state scales and shifts the input of each sub-layer: the modern comparator, not in the paper.

It knows neither features nor items, only the context vector.
"""

import torch
from torch import Tensor, nn

from contextual_bert.conditioning.global_state import GlobalState
from contextual_bert.conditioning.method import BlockSlot, Sizes


class FiLM(GlobalState):
    """Each sub-layer of each block sees its normalised input scaled and shifted by the state.

    Formula:
        state = FNN(c);  (g, b) = M_s state;  sub-layer s reads x (1 + g) + b, its residual path x

    Symbols:
        =====================  =====================================================
        here                   literature
        =====================  =====================================================
        ``modulation.s``       M_s: one map for each of the two sub-layers of a block
        ``g``, ``b``           gamma - 1, beta of FiLM; scale, shift of adaLN
        =====================  =====================================================

    Shapes:
        c (batch, context) -> state (batch, hidden); x (batch, length, hidden) -> the same.

    Relation to its siblings:
        As in ``global_state`` one state serves all blocks; there it is added to the sequence, here it also multiplies.
        M starts at zero, as in adaLN-Zero: at first the model is ``none``.

    Reference:
        Perez et al. (2018), "FiLM: Visual Reasoning with a General Conditioning Layer"; Peebles and Xie (2023),
        "Scalable Diffusion Models with Transformers", section 3.2 (adaLN). The blocks here normalise after a
        sub-layer, as BERT does, so the input of each is normalised already.

    Example:
        >>> FiLM.name
        'film'
    """

    name = "film"
    label = "[FiLM]"

    def block(self, sizes: Sizes, layer: int) -> BlockSlot:
        return Modulation(sizes)


class Modulation(BlockSlot):
    """Scale and shift of the inputs of self-attention (sub-layer 0) and of the feed-forward network (1)."""

    point = "modulate"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.modulation = nn.ModuleList(ScaleAndShift(sizes.hidden_size, 2 * sizes.hidden_size) for _ in range(2))

    def held(self, state: Tensor) -> Tensor:
        return torch.stack([modulation(state) for modulation in self.modulation], dim=1)

    def forward(self, hidden: Tensor, state: Tensor, sublayer: int, held: Tensor | None = None) -> Tensor:
        both = self.modulation[sublayer](state) if held is None else held[:, sublayer]
        scale, shift = both.unsqueeze(1).chunk(2, dim=-1)
        return torch.addcmul(hidden + shift, hidden, scale)


class ScaleAndShift(nn.Linear):
    """M of [FiLM]. Starts at zero, so that a block starts as BERT's."""

    def initialise(self, initializer_range: float) -> None:
        """All zero, whatever scale the other weights start with."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
