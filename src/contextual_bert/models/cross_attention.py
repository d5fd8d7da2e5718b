"""The Transformer decoder: blocks that read the target from left to right, and the source by cross-attention.

It knows the hidden states of an encoder, and no context, tokenizer or checkpoint.

Paper: Vaswani et al. (2017), "Attention Is All You Need", section 3.1.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.activations import ACT2FN

from contextual_bert.models.recurrent_decoder import Projection, attended, num_written, source_keys


class HeadedAttention(nn.Module):
    """Attention of several heads, from one sequence to another.

    Formula:
        softmax(Q K / sqrt(d)) V, of each head

    Shapes:
        own (batch, m, hidden); keys and values (batch, heads, n, hidden / heads), see ``read``; is_seen (batch or 1, 1,
        m or 1, n); returns (batch, m, hidden) and the weights (batch, heads, m, n).
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, self.num_heads = config.hidden_size, config.num_attention_heads
        self.query, self.key, self.value, self.output = (Projection(size, size) for _ in range(4))
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def read(self, other: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of a sequence (batch, n, hidden)."""
        return self._by_head(self.key(other)), self._by_head(self.value(other))

    def forward(self, own: Tensor, keys: Tensor, values: Tensor, is_seen: Tensor) -> tuple[Tensor, Tensor]:
        query = self._by_head(self.query(own))
        weights = attended(query @ keys.transpose(-1, -2) / query.shape[-1] ** 0.5, is_seen)
        read = (self.dropout(weights) @ values).transpose(1, 2).flatten(-2)
        return self.output(read), weights

    def _by_head(self, hidden: Tensor) -> Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class DecoderBlock(nn.Module):
    """A block with the LayerNorm before each part: self-attention to what is written, cross-attention, feed-forward.

    Args:
        config: a ContextualBertConfig.
        number: of the block, from 0.

    Reference:
        Vaswani et al. (2017), section 3.1; Xiong et al. (2020), "On Layer Normalization in the Transformer
        Architecture", for the place of the LayerNorm.
    """

    def __init__(self, config: Any, number: int) -> None:
        super().__init__()
        self.number = number
        size, eps = config.hidden_size, config.layer_norm_eps
        self.own_norm, self.source_norm, self.feed_norm = (nn.LayerNorm(size, eps=eps) for _ in range(3))
        self.own_attention, self.source_attention = HeadedAttention(config), HeadedAttention(config)
        wide = config.intermediate_size
        self.feed_forward = nn.Sequential(Projection(size, wide), ACT2FN[config.hidden_act], Projection(wide, size))
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, hidden: Tensor, source: Tensor, is_before: Tensor, is_real: Tensor, cache: EncoderDecoderCache | None
    ) -> tuple[Tensor, Tensor]:
        normed = self.own_norm(hidden)
        own = self.own_attention.read(normed)
        if cache is not None:
            own = cache.self_attention_cache.update(*own, self.number)
        hidden = hidden + self.dropout(self.own_attention(normed, *own, is_before)[0])
        keys = source_keys(cache, self.number, lambda: self.source_attention.read(source))
        read, weights = self.source_attention(self.source_norm(hidden), *keys, is_real)
        hidden = hidden + self.dropout(read)
        return hidden + self.dropout(self.feed_forward(self.feed_norm(hidden))), weights


class TransformerDecoder(nn.Module):
    """Blocks with cross-attention, and a LayerNorm behind them.

    Shapes:
        target (batch, m, hidden), embedded tokens; source (batch, n, hidden); is_real (batch, n), False for padding;
        returns (batch, m, hidden) and the weights of the last block's cross-attention (batch, heads, m, n). A cache
        holds the keys and values of what was read and written before; those of ``target`` are added to it.

    Args:
        config: a ContextualBertConfig: its sizes and ``num_decoder_layers``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        layers = config.num_decoder_layers or config.num_hidden_layers
        self.layer = nn.ModuleList(DecoderBlock(config, number) for number in range(layers))
        self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(
        self, target: Tensor, source: Tensor, is_real: Tensor, cache: EncoderDecoderCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        length, past = target.shape[1], num_written(cache)
        is_before = torch.ones(length, past + length, dtype=torch.bool, device=target.device).tril(past)[None, None]
        weights = None
        for block in self.layer:
            target, weights = block(target, source, is_before, is_real[:, None, None], cache)
        return self.final_norm(target), weights
