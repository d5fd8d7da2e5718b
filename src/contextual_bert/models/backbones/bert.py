"""BERT: the architecture whose names are this package's own, and its blocks.

Attention, feed-forward and initialisation are transformers'; what is here is where the context enters: Figure 1 of the
paper.
"""

from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers import Cache
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert.modeling_bert import BertLayer, BertPooler, eager_attention_forward

from contextual_bert.errors import CheckpointError
from contextual_bert.models.backbones.backbone import Backbone, Blocks, ConditionedLayer, LayerInput, asked_rows
from contextual_bert.places import PathPlace

BERT_FIELDS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "type_vocab_size",
    "layer_norm_eps",
    "classifier_dropout",
)


class Bert(Backbone):
    """BERT, and what was pretrained as one: its weights are loaded under their own names.

    Reference:
        Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding".
    """

    model_types = ("bert",)
    fields = {name: name for name in BERT_FIELDS}  # noqa: RUF012
    masked_lm_weight = "cls.predictions.transform.dense.weight"

    def check(self, config: Any, checkpoint: object) -> None:
        places = getattr(config, "position_embedding_type", None) or "absolute"
        if places != "absolute":
            raise CheckpointError(
                f"its position_embedding_type is {places!r}, and what it learned of positions cannot be taken over",
                fix="Give one with absolute positions.",
                place=PathPlace(str(checkpoint), is_subject=False),
            )


class BertBlocks(Blocks):
    """BERT's blocks, which normalise what they have added."""

    can_hide_later = True

    def layer(self, config: Any, index: int) -> ConditionedLayer:
        return ContextualBertLayer(config, index)

    def layer_inputs(
        self,
        config: Any,
        hidden: Tensor,
        real: Tensor | None,
        position_ids: Tensor | None,
        cache: Cache | None = None,
        shared: nn.Module | None = None,
    ) -> list[LayerInput]:
        if config.predicts_next:
            mask = create_causal_mask(config=config, inputs_embeds=hidden, attention_mask=real, past_key_values=None)
        else:
            mask = create_bidirectional_mask(config=config, inputs_embeds=hidden, attention_mask=real)
        return [LayerInput(mask)] * config.num_hidden_layers

    def pooler(self, config: Any) -> nn.Module:
        made = BertPooler(config)
        made.activation = ACT2FN[config.pooler_act]
        return made


class ContextualBertLayer(ConditionedLayer, BertLayer):
    """One block of Figure 1: self-attention, reading the state, feed-forward; each ends in add-and-norm.

    The method's module, if it has one for this block, is entered at the point it names: ``attend``, ``read`` or
    ``modulate``.
    """

    def __init__(self, config: Any, layer_idx: int) -> None:
        BertLayer.__init__(self, config, layer_idx=layer_idx)
        self.config = config
        # For transformers' attention functions, which read it where there is no mask.
        self.is_causal = self.attention.self.is_causal = config.predicts_next
        self.add_conditioning(config, layer_idx)
        if self.conditioning is not None and self.point == "attend":
            del self.attention.self
            if self.conditioning.output_size is not None:
                self.attention.output.dense = nn.Linear(self.conditioning.output_size, config.hidden_size)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        hidden: Tensor,
        mask: Tensor | None = None,
        state: Tensor | None = None,
        rows: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Hidden states (batch, length, hidden); with ``rows``, into the flattened (batch * length), only these."""
        read = self.conditioning(hidden, state, 0) if self.point == "modulate" else hidden
        if self.point == "attend":
            attended = self.conditioning(read, partial(self.attend, mask=mask, **kwargs), state)
        else:
            attended, _ = self.attention.self(read, attention_mask=mask, **kwargs)
        if rows is not None:
            attended, _ = asked_rows(rows, attended, None)
            hidden, state = asked_rows(rows, hidden, state)
        hidden = self.attention.output(attended, hidden)
        if self.point == "read":
            hidden = self.conditioning(hidden, state)
        read = self.conditioning(hidden, state, 1) if self.point == "modulate" else hidden
        hidden = self.output(self.intermediate(read), hidden)
        return hidden.squeeze(1) if rows is not None else hidden

    def use_activation(self, name: str) -> bool:
        self.intermediate.intermediate_act_fn = ACT2FN[name]
        return True

    @property
    def attention_norm(self) -> nn.LayerNorm:
        return self.attention.output.LayerNorm

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None, **kwargs: Any) -> Tensor:
        """The attention that ``attn_implementation`` names, as in BERT's: heads (batch, heads, length, head size) ->
        (batch, length, heads * head size)."""
        if mask is not None and mask.ndim == 4 and mask.shape[1] not in (1, query.shape[1]):
            mask = mask.repeat(1, query.shape[1] // mask.shape[1], 1, 1)  # a method has several groups of heads
        name: Any = self.config._attn_implementation  # pyright: ignore[reportPrivateUsage]
        attention = ALL_ATTENTION_FUNCTIONS.get_interface(name, eager_attention_forward)
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        scaling = query.shape[-1] ** -0.5
        found = attention(self, query, key, value, mask, dropout=dropout, scaling=scaling, **kwargs)
        return self.attended(*found)[0].flatten(2)
