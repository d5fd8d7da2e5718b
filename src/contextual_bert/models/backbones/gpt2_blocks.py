"""GPT-2's blocks, with the three slots: attention and feed-forward are transformers'."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, GPT2Config
from transformers.masking_utils import create_causal_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Attention, GPT2Block, eager_attention_forward
from transformers.pytorch_utils import Conv1D

from contextual_bert.models.backbones.backbone import (
    Blocks,
    ConditionedLayer,
    LayerInput,
    PrenormLayer,
    follow_attention,
)


class Gpt2Blocks(Blocks):
    """GPT-2's blocks, which normalise what they read, add to a stream, and see no later position."""

    is_causal = True
    has_prenorm = True
    has_embedding_norm = False
    native: GPT2Config | None = None  # made once a model

    def layer(self, config: Any, index: int) -> ConditionedLayer:
        self.native = self.native or gpt2_config(config)
        return ContextualGpt2Layer(config, self.native, index)

    def layer_inputs(
        self,
        config: Any,
        hidden: Tensor,
        real: Tensor | None,
        position_ids: Tensor | None,
        cache: Cache | None = None,
        shared: nn.Module | None = None,
    ) -> list[LayerInput]:
        native = self.native = self.native or gpt2_config(config)
        follow_attention(native, config)
        mask = create_causal_mask(config=native, inputs_embeds=hidden, attention_mask=real, past_key_values=cache)
        return [LayerInput(mask, {"past_key_values": cache})] * config.num_hidden_layers

    def final_norm(self, config: Any) -> nn.Module:
        return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    @torch.no_grad()
    def initialise(self, module: nn.Module, config: Any) -> None:
        spread = config.initializer_range
        if isinstance(module, Conv1D):
            nn.init.normal_(module.weight, std=spread)
            nn.init.zeros_(module.bias)
        # What two layers a block add to the stream is made smaller, so that it does not grow with the depth.
        if isinstance(module, GPT2Attention | GPT2MLP):
            nn.init.normal_(module.c_proj.weight, std=spread / math.sqrt(2 * config.num_hidden_layers))


class ContextualGpt2Layer(PrenormLayer, GPT2Block):  # pyright: ignore[reportIncompatibleMethodOverride]
    """One block, whose attention is to what came before.

    A cache holds keys and values of the tokens alone: the state is given again with each of them.
    """

    norms = ("ln_1", "ln_2")

    def __init__(self, config: Any, native: GPT2Config, layer_idx: int) -> None:
        GPT2Block.__init__(self, native, layer_idx=layer_idx)
        self.add_conditioning(config, layer_idx)
        if self.point == "attend":
            del self.attn.c_attn
            if self.conditioning.output_size is not None:
                self.attn.c_proj = Conv1D(config.hidden_size, self.conditioning.output_size)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None,
        past_key_values: Cache | None = None,
        **others: Any,
    ) -> Tensor:
        own: Any = self.attn
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, own.layer_idx)
        name: Any = own.config._attn_implementation  # pyright: ignore[reportPrivateUsage]
        attention = ALL_ATTENTION_FUNCTIONS.get_interface(name, eager_attention_forward)
        dropout = own.attn_dropout.p if self.training else 0.0
        found = attention(own, query, key, value, mask, dropout=dropout, scaling=own.scaling, **others)
        return self.attended(*found)[0].flatten(2)

    def project(self, attended: Tensor) -> Tensor:
        return self.attn.resid_dropout(self.attn.c_proj(attended))


def gpt2_config(config: Any) -> GPT2Config:
    """The config of GPT-2 that a model here is one of.

    Args:
        config: ContextualBertConfig with ``backbone="gpt2"``.
    """
    settings = dict(config.backbone_settings or {}) | {"attn_implementation": config._attn_implementation}
    settings.pop("embedding_dropout", None)
    return GPT2Config(
        vocab_size=config.vocab_size,
        n_embd=config.hidden_size,
        n_layer=config.num_hidden_layers,
        n_head=config.num_attention_heads,
        n_inner=config.intermediate_size,
        n_positions=config.max_position_embeddings,
        activation_function=config.hidden_act,
        resid_pdrop=config.hidden_dropout_prob,
        attn_pdrop=config.attention_probs_dropout_prob,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        bos_token_id=None,  # nothing of it reads tokens
        eos_token_id=None,
        **settings,
    )
