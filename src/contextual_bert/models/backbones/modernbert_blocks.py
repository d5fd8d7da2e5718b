"""ModernBERT's blocks, with the three slots: attention and feed-forward are transformers'."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, ModernBertConfig
from transformers.masking_utils import create_bidirectional_mask, create_bidirectional_sliding_window_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.modernbert.modeling_modernbert import (
    ModernBertEncoderLayer,
    ModernBertPredictionHead,
    ModernBertRotaryEmbedding,
    apply_rotary_pos_emb,
    eager_attention_forward,
)

from contextual_bert.models.backbones.backbone import (
    Blocks,
    ConditionedLayer,
    LayerInput,
    PrenormLayer,
    follow_attention,
)


class ModernBertBlocks(Blocks):
    """ModernBERT's blocks, which normalise what they read and add to a stream that they leave as it is."""

    native: ModernBertConfig | None = None  # made once a model
    pools_mean = True
    has_prenorm = True
    has_position_table = False
    needs_settings = True

    def layer(self, config: Any, index: int) -> ConditionedLayer:
        self.native = self.native or native_config(config)
        return ContextualModernBertLayer(config, self.native, index)

    def layer_inputs(
        self,
        config: Any,
        hidden: Tensor,
        real: Tensor | None,
        position_ids: Tensor | None,
        cache: Cache | None = None,
        shared: nn.Module | None = None,
    ) -> list[LayerInput]:
        native = self.native = self.native or native_config(config)
        follow_attention(native, config)
        if position_ids is None:
            position_ids = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(0)
        masked: dict[str, Any] = {"config": native, "inputs_embeds": hidden, "attention_mask": real}
        masks = {
            "full_attention": create_bidirectional_mask(**masked),
            "sliding_attention": create_bidirectional_sliding_window_mask(**masked),
        }
        kinds: list[str] = native.layer_types  # pyright: ignore[reportAssignmentType]
        rotations = {kind: _rotation(native, kind, position_ids, hidden) for kind in set(kinds)}
        return [LayerInput(masks[kind], {"position_embeddings": rotations[kind]}) for kind in kinds]

    def final_norm(self, config: Any) -> nn.Module:
        return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=config.backbone_settings["norm_bias"])

    def pooler(self, config: Any) -> nn.Module:
        return FirstPosition(native_config(config))

    def masked_lm_transform(self, config: Any) -> nn.Module:
        return ModernBertPredictionHead(native_config(config))

    def token_head(self, config: Any) -> nn.Module:
        return ModernBertPredictionHead(native_config(config))


class FirstPosition(ModernBertPredictionHead):
    """Pooler: ModernBERT's head, of the first position. (batch, length, hidden) -> (batch, hidden)."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        return super().forward(hidden_states[:, 0])


class ContextualModernBertLayer(PrenormLayer, ModernBertEncoderLayer):  # pyright: ignore[reportIncompatibleMethodOverride]
    """One block, whose attention rotates queries and keys by their positions."""

    norms = ("attn_norm", "mlp_norm")

    def __init__(self, config: Any, native: ModernBertConfig, layer_idx: int) -> None:
        ModernBertEncoderLayer.__init__(self, native, layer_idx=layer_idx)
        self.add_conditioning(config, layer_idx)
        if self.point == "attend":
            del self.attn.Wqkv
            if self.conditioning.output_size is not None:
                self.attn.Wo = nn.Linear(self.conditioning.output_size, config.hidden_size, bias=native.attention_bias)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None,
        position_embeddings: tuple[Tensor, Tensor],
        **others: Any,
    ) -> Tensor:
        query, key = apply_rotary_pos_emb(query, key, *position_embeddings, unsqueeze_dim=1)
        name: Any = self.attn.config._attn_implementation  # pyright: ignore[reportPrivateUsage]
        attention = ALL_ATTENTION_FUNCTIONS.get_interface(name, eager_attention_forward)
        dropout = self.attn.attention_dropout if self.training else 0.0
        found = attention(
            self.attn,
            query,
            key,
            value,
            mask,
            dropout=dropout,
            scaling=self.attn.head_dim**-0.5,
            sliding_window=self.attn.sliding_window,
            **others,
        )
        return self.attended(*found)[0].flatten(2)

    def project(self, attended: Tensor) -> Tensor:
        return self.attn.out_drop(self.attn.Wo(attended))


def native_config(config: Any) -> ModernBertConfig:
    """The config of ModernBERT that a model here is one of; blocks beyond the checkpoint's attend to all positions.

    Args:
        config: ContextualBertConfig with ``backbone="modernbert"``.
    """
    settings = dict(config.backbone_settings) | {"attn_implementation": config._attn_implementation}
    kinds, num_layers = settings["layer_types"], config.num_hidden_layers
    settings["layer_types"] = [*kinds, *["full_attention"] * num_layers][:num_layers]
    return ModernBertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        max_position_embeddings=config.max_position_embeddings,
        pad_token_id=None,  # nothing of it reads tokens
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=None,
        sep_token_id=None,
        initializer_range=config.initializer_range,
        norm_eps=config.layer_norm_eps,
        hidden_activation=config.hidden_act,
        mlp_dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        **settings,
    )


def _rotation(config: ModernBertConfig, kind: str, position_ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """(cosine, sine), each (batch or 1, length, head size), by which queries and keys are rotated."""
    frequencies, _ = ModernBertRotaryEmbedding.compute_default_rope_parameters(config, hidden.device, layer_type=kind)
    angles = position_ids[..., None].float() * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(hidden.dtype), angles.sin().to(hidden.dtype)
