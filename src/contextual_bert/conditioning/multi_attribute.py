"""[MA]: every feature of the context scales queries, keys and values of an attention of its own: MA-BERT.

It knows the feature's embeddings one by one, not what they mean. Paper: MA-BERT (2021), sections 2.1 and 2.2.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from contextual_bert.conditioning.method import Attend, BlockSlot, ConditioningMethod, MethodSettings, Sizes, StateSlot
from contextual_bert.context.encoder import ContextEmbedding

PAPER_RANGE = 0.25


@dataclass(frozen=True, kw_only=True)
class MultiAttributeSettings(MethodSettings):
    """Settings of ``multi_attribute``.

    Args:
        attribute_start: where E begins: "paper" is U(-0.25, 0.25), "released" the normal 0.02 of the authors' code,
            "ones" is 1 + e with e from the normal 0.02, at which attention is BERT's.
        attribute_width: width of the features' embeddings: "feature" is that of the schema, which a linear map takes to
            the model's; "model" is the model's own, without a map, as in the paper.
        attribute_act: activation of the feed-forward network of its blocks: "model" is that of BERT's blocks, "relu"
            is as the paper's section 2.2 has it.
        has_attribute_values: whether E scales the values, too, and not only queries and keys. Without, V_m = T W_v,m:
            the paper's control "BERT Attention (bias)".
    """

    attribute_start: Literal["ones", "paper", "released"] = "ones"
    attribute_width: Literal["feature", "model"] = "feature"
    attribute_act: Literal["model", "relu"] = "model"
    has_attribute_values: bool = True


class MultiAttribute(ConditioningMethod):
    """Blocks whose self-attention is done once for each feature m, scaled by its vector E_m.

    Formula:
        Q_m = T W_q,m * E_m;  K_m = T W_k,m * E_m;  V_m = T W_v,m * E_m;  U_m = softmax(Q_m K_m' / sqrt(d)) V_m;
        Y = [U_1 ... U_M] W_o, then add-and-norm, feed-forward, add-and-norm, as in BERT

    Symbols:
        ==========================  ===============================================================
        here                        paper
        ==========================  ===============================================================
        ``hidden``                  T
        ``state``                   E_A, one vector a feature; each head has its part of it
        ``query``, ``key``          W_q,m and W_k,m for all m side by side, without bias
        ``value``                   W_v,m
        ``attention.output.dense``  W_o, M times as wide as BERT's
        ==========================  ===============================================================

    Shapes:
        c as features (batch, size of feature m) -> state (batch, features, hidden); hidden (batch, length, hidden) ->
        (batch, length, features * hidden).

    Relation to its siblings:
        The others add the context to the sequence or put it beside it; here it multiplies, inside the attention. On a
        pretrained BERT only ``num_extra_layers`` new blocks on top do so; from scratch all blocks do. A feature
        whose embedding has not the model's width is mapped to it and keeps its scale; the paper gives it that width
        (``attribute_width="model"``).

    Reference:
        Zhang et al. (2021), "MA-BERT: Learning Representation by Incorporating Multi-Attribute Knowledge in
        Transformers", equations 2 to 6.

    Example:
        >>> MultiAttribute.num_extra_layers
        6
    """

    name = "multi_attribute"
    label = "[MA]"
    num_extra_layers = 6
    has_unit_context = False
    settings_class = MultiAttributeSettings
    settings: MultiAttributeSettings

    def state(self, sizes: Sizes) -> StateSlot:
        return AttributeState(sizes, starts_at_one=self.settings.attribute_start == "ones")

    def block(self, sizes: Sizes, layer: int) -> BlockSlot | None:
        is_extra = layer >= sizes.num_layers - (sizes.num_extra_layers or sizes.num_layers)
        return MultiAttributeAttention(sizes, self.settings) if is_extra else None

    def feature_width(self, hidden_size: int) -> int | None:
        return hidden_size if self.settings.attribute_width == "model" else None

    def initialise_feature(self, weight: Tensor, sizes: Sizes) -> None:
        if self.settings.attribute_start == "paper":
            nn.init.uniform_(weight, -PAPER_RANGE, PAPER_RANGE)


class AttributeState(StateSlot):
    """E: the features' embeddings, as wide as the model, the same for all blocks."""

    def __init__(self, sizes: Sizes, *, starts_at_one: bool) -> None:
        super().__init__()
        self.starts_at_one = starts_at_one
        self.attributes = nn.ModuleList(
            nn.Identity() if size == sizes.hidden_size else ToModelWidth(size, sizes.hidden_size, bias=False)
            for size in sizes.feature_sizes
        )

    def initial(self, context: ContextEmbedding) -> Tensor:
        vectors = [attribute(feature) for attribute, feature in zip(self.attributes, context.features, strict=True)]
        state = torch.stack(vectors, dim=1)
        return 1 + state if self.starts_at_one else state


class ToModelWidth(nn.Linear):
    """Maps a feature's embedding to the model's width. What comes out starts with the scale of what goes in."""

    def initialise(self, initializer_range: float) -> None:
        """Variance 1 / fan-in, whatever scale the other weights start with (He et al. 2015)."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="linear")

    def forward(self, feature: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        # Not in bfloat16, whose steps near one are a third of the 0.02 by which contexts differ at first.
        with torch.autocast(feature.device.type, enabled=False):
            return super().forward(feature.to(self.weight.dtype))


class MultiAttributeAttention(BlockSlot):
    """U_1 to U_M side by side: the attentions of all features in one product."""

    point = "attend"
    reads_context = False

    def __init__(self, sizes: Sizes, settings: MultiAttributeSettings) -> None:
        super().__init__()
        self.output_size = len(sizes.feature_sizes) * sizes.hidden_size
        self.head_size = sizes.hidden_size // sizes.num_heads
        self.has_attribute_values = settings.has_attribute_values
        self.hidden_act = None if settings.attribute_act == "model" else settings.attribute_act
        self.query = nn.Linear(sizes.hidden_size, self.output_size, bias=False)
        self.key = nn.Linear(sizes.hidden_size, self.output_size, bias=False)
        self.value = nn.Linear(sizes.hidden_size, self.output_size, bias=False)

    def forward(self, hidden: Tensor, attend: Attend, state: Tensor) -> Tensor:
        scale = state.flatten(1).unsqueeze(1)
        value = self.value(hidden)
        query, key, value = (
            each.unflatten(-1, (-1, self.head_size)).transpose(1, 2)
            for each in (
                self.query(hidden) * scale,
                self.key(hidden) * scale,
                value * scale if self.has_attribute_values else value,
            )
        )
        if self.has_attribute_values:
            return attend(query, key, value)
        # The scores are then all through which E and the maps of queries and keys learn. Where tokens are alike that
        # gradient is a small difference of large numbers, of which a fused kernel in bfloat16 leaves noise.
        with torch.autocast(hidden.device.type, enabled=False):
            return attend(query, key, value.to(query.dtype))
