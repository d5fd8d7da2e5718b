"""The encoder-decoder: it reads a text under a context and writes another one.

The encoder is ContextualBertModel, so the context enters as it does for every other head. No method is known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForSeq2SeqLM, DynamicCache, EncoderDecoderCache, GenerationMixin
from transformers.utils.generic import ModelOutput, can_return_tuple

from contextual_bert.candidates import MaskedScores, rank_targets
from contextual_bert.errors import ConfigurationError
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.cross_attention import TransformerDecoder
from contextual_bert.models.masked_lm import IGNORED_LABEL, score_blocks
from contextual_bert.models.modeling_contextual_bert import Context, ContextualBertModel, ContextualBertPreTrainedModel
from contextual_bert.models.positions import new_position_table
from contextual_bert.models.recurrent_decoder import (
    BahdanauDecoder,
    LuongDecoder,
    PlainGruDecoder,
    Projection,
    num_written,
)

# ``decoder_type`` of a config -> its class.
DECODER_CLASSES: Mapping[str, type[nn.Module]] = {
    "transformer": TransformerDecoder,
    "gru_bahdanau": BahdanauDecoder,
    "gru_luong": LuongDecoder,
    "gru": PlainGruDecoder,
}


@dataclass
class ContextualSeq2SeqLMOutput(ModelOutput):
    """Output of the encoder-decoder.

    Args:
        loss: cross-entropy in nats over the tokens of the targets, when labels were given.
        logits: (batch, m, vocabulary) of each token of the targets.
        past_key_values: what the decoder holds of the tokens that were written and of the source, to write on.
        cross_attentions: (batch, heads, m, n), how much each token of the target reads of each of the source; None
            without attention.
        encoder_last_hidden_state: (batch, n, hidden).
        encoder_hidden_states, encoder_attentions: of the layers of the encoder, where they were asked for.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    past_key_values: EncoderDecoderCache | None = None
    cross_attentions: Tensor | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None


class TargetDecoder(nn.Module):
    """A decoder between the embeddings of the target and the layer of the vocabulary.

    Args:
        config: says which decoder.
    """

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__()
        size, eps = config.embedding_size or config.hidden_size, config.layer_norm_eps
        is_recurrent = config.decoder_type != "transformer"
        self.position_embeddings = None if is_recurrent else new_position_table(config, size)
        self.norm = nn.LayerNorm(size, eps=eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.projection = Projection(size, config.hidden_size)
        self.blocks = DECODER_CLASSES[cast(str, config.decoder_type)](config)
        self.transform = nn.Sequential(Projection(config.hidden_size, size), nn.GELU(), nn.LayerNorm(size, eps=eps))
        self.lm_head = nn.Linear(size, config.vocab_size)

    def forward(
        self, embedded: Tensor, source: Tensor, is_real: Tensor, cache: EncoderDecoderCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return what the layer of the vocabulary reads, (batch, m, size), and the weights of attention."""
        if self.position_embeddings is not None:
            places = torch.arange(embedded.shape[1], device=embedded.device) + num_written(cache)
            embedded = embedded + self.position_embeddings(places)
        target = self.projection(self.dropout(self.norm(embedded)))
        hidden, weights = self.blocks(target, source, is_real, cache)
        return self.transform(hidden), weights


class ContextualBertForSeq2SeqLM(ContextualBertPreTrainedModel, GenerationMixin):
    """Reads a text and writes another one, token by token, under a context.

    Formula:
        Pr(y_t | y_1 ... y_(t-1), x, c) = softmax(W o_t + b), o_t = decoder(y_(<t), encoder(x, c)), with W the matrix of
        the token embeddings where they are tied

    Shapes:
        input_ids (batch, n); labels (batch, m), the tokens of the target with the one that ends it, -100 behind it;
        logits (batch, m, vocabulary).

    Args:
        config: ContextualBertConfig with a ``decoder_type``: "transformer", "gru_bahdanau", "gru_luong" or "gru".

    Relation to its siblings:
        ``ContextualBertForCausalLM`` writes without a text that it reads.

    Reference:
        Sutskever et al. (2014), Bahdanau et al. (2015), Luong et al. (2015), Vaswani et al. (2017).

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> config = ContextualBertConfig(vocab_size=9, decoder_type="gru_luong", decoder_start_token_id=2, **sizes)
        >>> model = ContextualBertForSeq2SeqLM(config)
        >>> model(torch.tensor([[3, 4, 1]]), labels=torch.tensor([[5, 6]])).logits.shape
        torch.Size([1, 2, 9])
    """

    _tied_weights_keys = {"decoder.lm_head.weight": "bert.embeddings.word_embeddings.weight"}  # noqa: RUF012
    head_keys = ("decoder.",)
    is_causal = False
    main_input_name = "input_ids"
    auto_class = AutoModelForSeq2SeqLM
    checkpoint_class: ClassVar[Any] = AutoModel

    def __init__(self, config: ContextualBertConfig) -> None:
        if config.decoder_type is None or config.decoder_start_token_id is None:
            name = "decoder_type" if config.decoder_type is None else "decoder_start_token_id"
            raise ConfigurationError(
                "is missing: an encoder-decoder writes with one",
                setting=name,
                value=None,
                allowed=f"Allowed: {', '.join(DECODER_CLASSES)}." if name == "decoder_type" else "",
                fix="Give the id of the token before each target." if name != "decoder_type" else "",
            )
        if not 0 <= config.decoder_start_token_id < config.vocab_size:
            raise ConfigurationError(
                "is no id of the vocabulary",
                setting="decoder_start_token_id",
                value=config.decoder_start_token_id,
                fix=f"Give one from 0 to {config.vocab_size - 1:,}.",
            )
        super().__init__(config)
        self.bert = ContextualBertModel(config)
        self.decoder = TargetDecoder(config)
        self.post_init()

    def get_encoder(self, modality: str | None = None) -> ContextualBertModel:
        return self.bert

    def get_output_embeddings(self) -> nn.Linear:
        return self.decoder.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.decoder.lm_head = new_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: Any = None,
        labels: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        **kwargs: Any,
    ) -> ContextualSeq2SeqLMOutput:
        if kwargs.pop("use_cache", False) and past_key_values is None:
            past_key_values = empty_cache()
        if decoder_input_ids is None:
            if labels is None:
                raise ConfigurationError("Give labels, or the decoder_input_ids that are written so far.")
            decoder_input_ids = self.shifted(labels)
        if encoder_outputs is None:
            names = ("output_attentions", "output_hidden_states")
            wanted = {name: kwargs.get(name) for name in names[not self.config.blocks.has_attention :]}
            encoder_outputs = self.bert(input_ids, attention_mask, context, return_dict=True, **wanted)
        source = encoder_outputs[0]
        hidden, weights = self._decoded(decoder_input_ids, source, attention_mask, past_key_values)
        logits, loss = self.decoder.lm_head(hidden), None
        if labels is not None:
            targets = labels.flatten()
            total = nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), targets, ignore_index=IGNORED_LABEL, reduction="sum"
            )
            number = kwargs.get("num_items_in_batch")
            loss = total / (number if number is not None else (targets != IGNORED_LABEL).sum())
        return ContextualSeq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=past_key_values,
            cross_attentions=weights,
            encoder_last_hidden_state=source,
            encoder_hidden_states=getattr(encoder_outputs, "hidden_states", None),
            encoder_attentions=getattr(encoder_outputs, "attentions", None),
        )

    @torch.no_grad()
    def score_targets(
        self,
        input_ids: Tensor,
        labels: Tensor,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
    ) -> MaskedScores:
        """Rank each token of the targets among all that could follow those before it.

        Returns:
            MaskedScores, (asked,) each, target after target.
        """
        source = self.bert(input_ids, attention_mask, context, return_dict=True).last_hidden_state
        hidden, _ = self._decoded(self.shifted(labels), source, attention_mask)
        is_asked = labels != IGNORED_LABEL
        hidden, targets = hidden[is_asked], labels[is_asked]
        parts = [
            rank_targets(
                self.decoder.lm_head(hidden[block]).float(), targets[block], None, reserved=targets.new_zeros(0)
            )
            for block in score_blocks(len(hidden), self.config.vocab_size)
        ]
        return MaskedScores(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    def generate(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, inputs: Tensor | None = None, *, context: Context | ContextState | None = None, **settings: Any
    ) -> Any:
        """Write a target for each source, as transformers' ``generate`` does, under a context.

        Args:
            inputs: (batch, n) ids of the sources, padded behind, with an ``attention_mask``.
            context: a tensor a feature with a row a source, or what ``encode_context`` made of it; None: nothing is
                known.
            **settings: of transformers' ``generate``. Without ``do_sample`` and beams the likeliest token is taken.

        Raises:
            ConfigurationError: a context of a model that reads none.
        """
        if context and not self.config.reads_context:
            raise ConfigurationError(
                "is not allowed: this model reads no context", setting="context", fix="Leave it out."
            )
        given = {"context": context} if context else {}
        own = {"do_sample": False, "decoder_start_token_id": self.config.decoder_start_token_id}
        if settings.get("use_cache", True):  # transformers makes one with the layers of the encoder
            own |= {"use_cache": True, "past_key_values": empty_cache()}
        return cast(Any, super()).generate(inputs, **{**own, **settings, **given})

    def _decoded(
        self, written: Tensor, source: Tensor, mask: Tensor | None, cache: EncoderDecoderCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return what the layer of the vocabulary reads, and the weights of attention."""
        is_real = mask.bool() if mask is not None else source.new_ones(source.shape[:2], dtype=torch.bool)
        return self.decoder(self.bert.embeddings.embed_items(written), source, is_real, cache)

    def shifted(self, labels: Tensor) -> Tensor:
        """Return what the decoder reads to write ``labels``: the start, and all of them but the last.

        Args:
            labels: (batch, m), -100 behind the end of each.
        """
        before = nn.functional.pad(labels[:, :-1], (1, 0), value=cast(int, self.config.decoder_start_token_id))
        return before.masked_fill(before == IGNORED_LABEL, cast(int, self.config.pad_token_id))


def empty_cache() -> EncoderDecoderCache:
    """Return a cache of texts of which nothing is written."""
    return EncoderDecoderCache(DynamicCache(), DynamicCache())
