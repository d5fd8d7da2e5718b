"""Recurrent decoders: a GRU that writes a text, with attention to what was read or with a summary of it alone.

They know the hidden states of an encoder, and no context, tokenizer or checkpoint.

Papers: Sutskever et al. (2014), Bahdanau et al. (2015), Luong et al. (2015).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache

from contextual_bert.recurrent_reading import read_on


class Projection(nn.Linear):
    """A linear layer of a decoder, which starts with Glorot's scale, not BERT's: scores of attention start apart."""

    def initialise(self, initializer_range: float) -> None:
        """Draw new weights."""
        nn.init.xavier_uniform_(self.weight)
        bias: Any = self.bias
        if bias is not None:
            nn.init.zeros_(bias)


class DecoderGru(nn.GRU):
    """A GRU, whose weights start as those of torch."""

    def initialise(self, initializer_range: float) -> None:
        """Draw new weights."""
        self.reset_parameters()


class SourceSummary(nn.Module):
    """The first state of each layer: tanh(W m), with m the mean of the hidden states of the source.

    Shapes:
        source (batch, n, hidden), is_real (batch, n); the states (layers, batch, hidden).
    """

    def __init__(self, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.to_state = Projection(hidden_size, hidden_size * num_layers)

    def forward(self, source: Tensor, is_real: Tensor) -> Tensor:
        weight = is_real.to(source.dtype)[..., None]
        mean = (source * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        states = torch.tanh(self.to_state(mean))
        return states.unflatten(-1, (self.num_layers, -1)).transpose(0, 1).contiguous()


class RecurrentDecoder(nn.Module, ABC):
    """Base of the recurrent decoders.

    Shapes:
        target (batch, m, hidden), embedded tokens; source (batch, n, hidden); is_real (batch, n), False for padding;
        returns (batch, m, hidden) and the weights of attention (batch, 1, m, n), None without attention. A cache holds
        the states after each token that was written before; those of ``target`` are added to it.

    Args:
        config: a ContextualBertConfig: its widths and ``num_decoder_layers``.
    """

    input_size = 1  # in hidden sizes

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, layers = config.hidden_size, config.num_decoder_layers or config.num_hidden_layers
        self.summary = SourceSummary(size, layers)
        self.gru = DecoderGru(size * self.input_size, size, num_layers=layers, batch_first=True)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    @abstractmethod
    def forward(
        self, target: Tensor, source: Tensor, is_real: Tensor, cache: EncoderDecoderCache | None = None
    ) -> tuple[Tensor, Tensor | None]: ...

    def first_state(self, source: Tensor, is_real: Tensor, cache: EncoderDecoderCache | None) -> Tensor:
        """Return the state before the target, (layers, batch, hidden): that of the cache, else a summary."""
        if not num_written(cache):
            return self.summary(source, is_real)
        layer: Any = cast(EncoderDecoderCache, cache).self_attention_cache.layers[0]
        return layer.keys[:, :, -1].transpose(0, 1).contiguous()

    def keep(self, state: Tensor, length: int, cache: EncoderDecoderCache | None) -> None:
        """Add the state after the target to the cache, as often as the target has tokens."""
        if cache is not None:
            states = state.transpose(0, 1)[:, :, None].expand(-1, -1, length, -1)
            cache.self_attention_cache.update(states, states[..., :0], 0)


class PlainGruDecoder(RecurrentDecoder):
    """A GRU that knows the source by its first state alone, without attention.

    Formula:
        s_t = GRU(y_(t-1), s_(t-1)), s_0 = tanh(W mean(h))

    Reference:
        Sutskever et al. (2014), "Sequence to Sequence Learning with Neural Networks"; the mean in place of the last
        state, for the encoder reads in both directions.
    """

    def forward(
        self, target: Tensor, source: Tensor, is_real: Tensor, cache: EncoderDecoderCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        states, last = read_on(self.gru, target, self.first_state(source, is_real, cache))
        self.keep(last, target.shape[1], cache)
        return self.dropout(states), None


class LuongDecoder(RecurrentDecoder):
    """A GRU with the multiplicative score of attention, read after each step.

    Formula:
        s_t = GRU(y_(t-1), s_(t-1)); a_t = softmax_j(s_t W h_j); o_t = tanh(W_c [sum_j a_tj h_j; s_t])

    Reference:
        Luong et al. (2015), "Effective Approaches to Attention-based Neural Machine Translation", equations 5 to 8,
        the score "general", without input feeding.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        size = config.hidden_size
        self.key = Projection(size, size, bias=False)
        self.combine = Projection(2 * size, size, bias=False)

    def forward(
        self, target: Tensor, source: Tensor, is_real: Tensor, cache: EncoderDecoderCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        states, last = read_on(self.gru, target, self.first_state(source, is_real, cache))
        self.keep(last, target.shape[1], cache)
        keys = source_keys(cache, 0, lambda: (self.key(source)[:, None],) * 2)[0][:, 0]
        scores = states @ keys.transpose(1, 2)
        weights = attended(scores, is_real[:, None])
        read = torch.cat([weights @ source, states], dim=-1)
        return self.dropout(torch.tanh(self.combine(read))), weights[:, None]


class BahdanauDecoder(RecurrentDecoder):
    """A GRU with the additive score of attention, read before each step.

    Formula:
        a_t = softmax_j(v tanh(W s_(t-1) + U h_j)); c_t = sum_j a_tj h_j; s_t = GRU([y_(t-1); c_t], s_(t-1));
        o_t = tanh(W_o [s_t; c_t])

    Reference:
        Bahdanau et al. (2015), "Neural Machine Translation by Jointly Learning to Align and Translate", section 3.1
        and appendix A.1.2; one tanh in place of its maxout.
    """

    input_size = 2

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        size = config.hidden_size
        self.query = Projection(size, size, bias=False)
        self.key = Projection(size, size)
        self.score = Projection(size, 1, bias=False)
        self.combine = Projection(2 * size, size)

    def forward(
        self, target: Tensor, source: Tensor, is_real: Tensor, cache: EncoderDecoderCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        state = self.first_state(source, is_real, cache)
        keys = source_keys(cache, 0, lambda: (self.key(source)[:, None],) * 2)[0][:, 0]
        outputs, weights = list[Tensor](), list[Tensor]()
        for step in range(target.shape[1]):
            scores = self.score(torch.tanh(self.query(state[-1])[:, None] + keys)).squeeze(-1)
            attention = attended(scores, is_real)
            read = (attention[:, None] @ source).squeeze(1)
            _, state = read_on(self.gru, torch.cat([target[:, step], read], dim=-1)[:, None], state)
            outputs.append(torch.cat([state[-1], read], dim=-1))
            weights.append(attention)
        self.keep(state, target.shape[1], cache)
        hidden = torch.tanh(self.combine(torch.stack(outputs, dim=1)))
        return self.dropout(hidden), torch.stack(weights, dim=1)[:, None]


def num_written(cache: EncoderDecoderCache | None) -> int:
    """Return how many tokens of the target a cache holds."""
    return int(cache.get_seq_length()) if cache is not None else 0


def source_keys(
    cache: EncoderDecoderCache | None, number: int, read: Callable[[], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Return the keys and values of the source: those that a cache holds, or what ``read`` gives, which is then held.

    Args:
        cache: of the texts that are written; None: nothing is held.
        number: of the layer that asks.
        read: computes keys and values, (batch, heads, n, width) each.
    """
    if cache is None:
        return read()
    if not cache.is_updated.get(number):
        cache.cross_attention_cache.update(*read(), number)
        cache.is_updated[number] = True
    layer: Any = cache.cross_attention_cache.layers[number]
    return layer.keys, layer.values


def attended(scores: Tensor, is_real: Tensor) -> Tensor:
    """Return the weights of attention, 0 for padding.

    Example:
        >>> attended(torch.zeros(1, 3), torch.tensor([[True, True, False]])).tolist()
        [[0.5, 0.5, 0.0]]
    """
    return scores.masked_fill(~is_real, torch.finfo(scores.dtype).min).softmax(dim=-1)
