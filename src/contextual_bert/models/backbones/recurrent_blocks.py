"""Recurrent blocks, with the slots: an LSTM or a GRU in place of self-attention, in both directions or from left to
right.

Papers: Hochreiter and Schmidhuber (1997), "Long Short-Term Memory"; Cho et al. (2014), "Learning Phrase Representations
using RNN Encoder-Decoder"; Schuster and Paliwal (1997), "Bidirectional Recurrent Neural Networks".
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import Cache
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.bert.modeling_bert import BertPooler

from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.models.backbones.backbone import Blocks, ConditionedLayer, LayerInput, PrenormLayer
from contextual_bert.recurrent_reading import in_front, read_lengths, read_on


class Recurrence(nn.Module):
    """One recurrent layer that passes over padding, wherever it stands.

    Formula:
        LSTM: i, f, o = sigmoid(W x_t + U h_(t-1) + b), c_t = f c_(t-1) + i tanh(W' x_t + U' h_(t-1) + b'),
        h_t = o tanh(c_t);  in both directions [h_t ; h'_t], each of half the width, h' read from the end

    Shapes:
        hidden (batch, length, hidden) -> the same; attention_mask (batch, length) of 0 and 1, with a cache of its
        positions, too. A cache holds the states after each position, of blocks that read from left to right.

    Args:
        config: a ContextualBertConfig, whose backbone says which.
        index: of the block.

    Raises:
        ConfigurationError: an odd width in both directions.

    Relation to its siblings:
        ``BiLSTM`` and ``BiGRU`` among the baselines read without blocks around them, and their context is put beside
        the text's vector alone.
    """

    def __init__(self, config: Any, index: int) -> None:
        super().__init__()
        self.index, size = index, config.hidden_size
        is_bidirectional = not config.blocks.is_causal
        if is_bidirectional and size % 2:
            raise ConfigurationError(
                Message("is odd, and half of it is that of each direction of {backbone}", backbone=config.backbone),
                setting="hidden_size",
                value=size,
                fix="Give an even number.",
            )
        self.rnn = config.blocks.network(
            size, size // 2 if is_bidirectional else size, batch_first=True, bidirectional=is_bidirectional
        )
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        hidden: Tensor,
        *,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        before = self._before(past_key_values)
        if attention_mask is None:
            found, after = read_on(self.rnn, hidden, before)
        else:
            found, after = self._packed(hidden, attention_mask[:, -hidden.shape[1] :].bool(), before)
        if past_key_values is not None:
            self._keep(after, hidden.shape[1], past_key_values)
        return self.dropout(found), None

    def _packed(self, hidden: Tensor, is_real: Tensor, before: Any) -> tuple[Tensor, Any]:
        """Read what is real alone: it is put in front, and what was found of it back to its places."""
        places, lengths = in_front(is_real)
        places = places[..., None].expand(-1, -1, hidden.shape[2])
        read, after = read_lengths(self.rnn, hidden.gather(1, places), lengths, before)
        found = read.new_zeros(hidden.shape).scatter(1, places, read)
        return found.masked_fill(~is_real[..., None], 0.0), after  # a row without a position was read as one

    def _before(self, cache: Cache | None) -> Any:
        if cache is None or not cache.get_seq_length(self.index):
            return None
        layer: Any = cache.layers[self.index]
        states = [each[:, :, -1].transpose(0, 1).contiguous() for each in (layer.keys, layer.values)]
        return tuple(states) if isinstance(self.rnn, nn.LSTM) else states[0]

    def _keep(self, after: Any, length: int, cache: Cache) -> None:
        """Hold the states behind the last position, as often as there are new ones: so are positions counted."""
        state, cell = after if isinstance(after, tuple) else (after, after[..., :0])
        both = (each.transpose(0, 1)[:, :, None].expand(-1, -1, length, -1) for each in (state, cell))
        cache.update(*both, self.index)


class RecurrentLayer(PrenormLayer, GradientCheckpointingLayer):
    """One block: a recurrent layer, reading the state, feed-forward; each adds to the stream it reads normalised."""

    norms = ("recurrence_norm", "feed_forward_norm")

    def __init__(self, config: Any, index: int) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.layer_norm_eps
        self.attn = Recurrence(config, index)  # what stands where other blocks attend
        self.recurrence_norm, self.feed_forward_norm = nn.LayerNorm(size, eps=eps), nn.LayerNorm(size, eps=eps)
        self.mlp = nn.Sequential(
            nn.Linear(size, config.intermediate_size),
            ACT2FN[config.hidden_act],
            nn.Linear(config.intermediate_size, size),
            nn.Dropout(config.hidden_dropout_prob),
        )
        self.add_conditioning(config, index)
        if self.point == "attend":
            raise ConfigurationError(
                Message("conditions attention, and the blocks of {backbone} have none", backbone=config.backbone),
                setting="conditioning",
                value=config.conditioning,
                fix=Message("Take {conditioning}.", conditioning="global_state_update"),
            )


class RecurrentBlocks(Blocks):
    """Blocks whose order of positions is that of reading: they need no table of positions."""

    has_prenorm = True
    has_position_table = False
    has_attention = False
    network: ClassVar[type[nn.RNNBase]]

    def layer(self, config: Any, index: int) -> ConditionedLayer:
        return RecurrentLayer(config, index)

    def layer_inputs(
        self,
        config: Any,
        hidden: Tensor,
        real: Tensor | None,
        position_ids: Tensor | None,
        cache: Cache | None = None,
        shared: nn.Module | None = None,
    ) -> Sequence[LayerInput]:
        if real is not None and real.ndim != 2:
            raise ConfigurationError(
                f"has the shape {tuple(real.shape)}, and recurrent blocks take (batch, length) of 0 and 1",
                setting="attention_mask",
            )
        return [LayerInput(real, {"past_key_values": cache})] * config.num_hidden_layers

    def initialise(self, module: nn.Module, config: Any) -> None:
        if isinstance(module, nn.RNNBase):
            module.reset_parameters()

    def final_norm(self, config: Any) -> nn.Module:
        return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def pooler(self, config: Any) -> nn.Module:
        return BertPooler(config)


class BiLstmBlocks(RecurrentBlocks):
    """LSTMs in both directions."""

    network = nn.LSTM


class BiGruBlocks(RecurrentBlocks):
    """GRUs in both directions."""

    network = nn.GRU


class LstmBlocks(BiLstmBlocks):
    """LSTMs from left to right."""

    is_causal = True
    can_hide_later = True


class GruBlocks(BiGruBlocks):
    """GRUs from left to right."""

    is_causal = True
    can_hide_later = True
