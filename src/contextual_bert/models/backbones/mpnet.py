"""MPNet: BERT's blocks, and biases of attention that it learned of the distance of two positions."""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Cache

from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.models.backbones.backbone import SEGMENTS, LayerInput
from contextual_bert.models.backbones.bert import BERT_FIELDS, BertBlocks
from contextual_bert.models.backbones.roberta import Roberta
from contextual_bert.places import PathPlace

LACKING = ("type_vocab_size", "classifier_dropout")  # of BERT's fields
NUM_BUCKETS, MAX_DISTANCE = 32, 128  # which transformers leaves no choice
ATTENTIONS = ("sdpa", "eager")


class MPNet(Roberta):
    """MPNet: RoBERTa's positions and heads. Both segments start as zero.

    Reference:
        Song et al. (2020), "MPNet: Masked and Permuted Pre-training for Language Understanding".
    """

    model_types = ("mpnet",)
    names = (
        (r"^mpnet\.", "bert."),
        (r"\.attention\.attn\.q\.", ".attention.self.query."),
        (r"\.attention\.attn\.k\.", ".attention.self.key."),
        (r"\.attention\.attn\.v\.", ".attention.self.value."),
        (r"\.attention\.attn\.o\.", ".attention.output.dense."),
        (r"\.attention\.LayerNorm\.", ".attention.output.LayerNorm."),
        (r"\.encoder\.relative_attention_bias\.", ".encoder.shared."),
        *Roberta.names[1:],
    )
    fields = {name: name for name in BERT_FIELDS if name not in LACKING}  # noqa: RUF012
    fixed_fields = {"type_vocab_size": 2, "backbone": "mpnet", "backbone_settings": {}}  # noqa: RUF012
    made = (SEGMENTS,)
    padding_id = 1
    is_exact = False  # transformers adds the biases before the mask, and has no sdpa

    def check(self, config: Any, checkpoint: object) -> None:
        super().check(config, checkpoint)
        needed = {"pad_token_id": self.padding_id, "relative_attention_num_buckets": NUM_BUCKETS}
        for name, value in needed.items():
            if getattr(config, name) != value:
                raise CheckpointError(
                    f"its {name} is {getattr(config, name)}",
                    allowed=f"Allowed: {value}.",
                    fix="Give an MPNet as transformers computes it.",
                    place=PathPlace(str(checkpoint), is_subject=False),
                )


class MPNetBlocks(BertBlocks):
    """BERT's blocks, whose mask also holds the bias of each distance, a head."""

    def shared(self, config: Any) -> nn.Module:
        return DistanceBias(NUM_BUCKETS, config.num_attention_heads)

    def layer_inputs(
        self,
        config: Any,
        hidden: Tensor,
        real: Tensor | None,
        position_ids: Tensor | None,
        cache: Cache | None = None,
        shared: nn.Module | None = None,
    ) -> list[LayerInput]:
        name = config._attn_implementation
        if name not in ATTENTIONS:
            raise ConfigurationError(
                "cannot add biases of distances",
                setting="attn_implementation",
                value=name,
                allowed=f"Allowed: {', '.join(ATTENTIONS)}.",
            )
        if position_ids is None:
            position_ids = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(0)
        bias = cast(nn.Module, shared)(position_ids).to(hidden.dtype)
        inputs = super().layer_inputs(config, hidden, real, position_ids)
        mask = inputs[0].mask
        if mask is None:
            bias = bias.expand(hidden.shape[0], -1, -1, -1)
        elif mask.dtype == torch.bool:
            bias = bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
        else:
            bias = (bias + mask).clamp(min=torch.finfo(bias.dtype).min)
        return [LayerInput(bias)] * len(inputs)


class DistanceBias(nn.Embedding):
    """A bias for each distance and head. Distances up to 7 have one each, longer ones share: T5's buckets.

    Positions (batch or 1, length) -> (batch or 1, heads, length, length), of a query's distance to each key.
    """

    def forward(self, positions: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ahead = positions[:, None, :] - positions[:, :, None]
        half, distance = NUM_BUCKETS // 2, ahead.abs()
        exact = half // 2
        farther = (distance.clamp(min=1).float() / exact).log() / math.log(MAX_DISTANCE / exact) * (half - exact)
        bucket = torch.where(distance < exact, distance, (exact + farther.long()).clamp(max=half - 1))
        return super().forward(bucket + half * (ahead > 0)).permute(0, 3, 1, 2)
