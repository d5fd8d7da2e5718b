"""Contextual BERT, top to bottom: the path of a batch through Layer, Encoder, Model and the masked-item head.

BERT's own parts (attention, feed-forward, embeddings' names, initialisation) are those of transformers; what is here is
where the context enters. The conditioning method fills three slots: ``state`` (Encoder), ``input`` (Model) and
``block`` (Layer); this file does not know which method it serves. It knows nothing of items or feature values, only of
ids.

Paper: Denk and Peleteiro Ramallo (2020), section 3, Figure 1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers.loss.loss_utils import ForMaskedLMLoss
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.bert.modeling_bert import (
    BertLayer,
    BertLMPredictionHead,
    BertModel,
    BertOnlyMLMHead,
    BertPreTrainedModel,
    BertSelfAttention,
)
from transformers.utils.generic import ModelOutput, can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from contextual_bert.conditioning import get_method
from contextual_bert.context import ContextEmbedding, ContextEncoder
from contextual_bert.errors import ConfigurationError
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.masked_cross_entropy import masked_cross_entropy

Context = Mapping[str, Tensor]
IGNORED_LABEL = -100
MAX_SCORE_ELEMENTS = 2**24  # logits held at once while ranking: 64 MiB in float32


class ContextualBertEmbeddings(nn.Module):
    """x_i = LayerNorm(item embedding [+ segment embedding] [+ position embedding]); parameters have BERT's names."""

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.position_embeddings = (
            nn.Embedding(config.max_position_embeddings, size) if config.has_position_embeddings else None
        )
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size) if config.type_vocab_size else None
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        embeddings = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        for name, ids, table in (
            ("token_type_ids", token_type_ids, self.token_type_embeddings),
            ("position_ids", position_ids, self.position_embeddings),
        ):
            if ids is not None and table is None:
                raise ConfigurationError(f"{name} was given, and this model has no embeddings for it. Leave it out.")
        if self.token_type_embeddings is not None:
            if token_type_ids is None:
                token_type_ids = embeddings.new_zeros(embeddings.shape[:2], dtype=torch.long)
            embeddings = embeddings + self.token_type_embeddings(token_type_ids)
        if self.position_embeddings is not None:
            if position_ids is None:
                position_ids = torch.arange(embeddings.shape[1], device=embeddings.device).unsqueeze(0)
            embeddings = embeddings + self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(embeddings))


class ContextualBertLayer(BertLayer):
    """One block of Figure 1: self-attention, reading the state, feed-forward; each ends in add-and-norm.

    The method's module, if it has one for this block, is entered at the point it names: ``attend``, ``read`` or
    ``modulate``.
    """

    conditioning: Any  # BlockSlot, or None where `point` is None

    def __init__(self, config: ContextualBertConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx=layer_idx)
        self.conditioning = get_method(config.conditioning).block(config.sizes, layer_idx)
        self.point = self.conditioning.point if self.conditioning is not None else None
        if self.point == "attend":
            del self.attention.self

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
            attended = self.conditioning(read, mask, state)
        else:
            attended, _ = self.attention.self(read, attention_mask=mask, **kwargs)
        if rows is not None:
            # What follows treats each position by itself: each asked position is a sequence of length 1 from here on.
            sets = rows // hidden.shape[1]
            state = state.index_select(0, sets) if state is not None else None
            attended, hidden = (each.flatten(0, 1).index_select(0, rows).unsqueeze(1) for each in (attended, hidden))
        hidden = self.attention.output(attended, hidden)
        if self.point == "read":
            hidden = self.conditioning(hidden, state)
        read = self.conditioning(hidden, state, 1) if self.point == "modulate" else hidden
        hidden = self.output(self.intermediate(read), hidden)
        return hidden.squeeze(1) if rows is not None else hidden


class ContextualBertEncoder(nn.Module):
    """The stack of blocks, and the global state that travels beside the sequence."""

    conditioning: Any  # StateSlot or None

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(ContextualBertLayer(config, index) for index in range(config.num_hidden_layers))
        self.conditioning = get_method(config.conditioning).state(config.sizes)

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor | None,
        context: ContextEmbedding | None,
        rows: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        state = self.conditioning.initial(context) if self.conditioning is not None else None
        for index, layer in enumerate(self.layer):
            if index > 0 and self.conditioning is not None:
                state = self.conditioning.transition(index - 1, state, hidden, mask)
            is_last = index == len(self.layer) - 1
            hidden = layer(hidden, mask, state, rows if is_last else None, **kwargs)
        return hidden, state


@dataclass
class ContextualBertModelOutput(BaseModelOutput):
    """What the model gives: BaseModelOutput and the state that the last block read, None without a state slot."""

    state: Tensor | None = None


@dataclass
class ContextualMaskedLMOutput(ModelOutput):
    """What the masked-item head gives.

    Args:
        loss: cross-entropy in nats over the masked positions, when labels were given.
        logits: (masked, vocabulary), the masked positions row after row; (batch, length, vocabulary) with
            ``logits_at='all'``. While training on labels there may be none, unless ``logits_at`` asks for them.
        state: as in ContextualBertModelOutput.
        hidden_states: one (batch, length, hidden) for the input and each block, when asked for.
        attentions: one (batch, heads, length, length) for each block, when asked for; with a prepended position it is
            shown.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    state: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class ContextualBertPreTrainedModel(BertPreTrainedModel):
    """Initialisation (normal, 0.02, as BERT), loading and saving for all models of this file."""

    config: ContextualBertConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    config_class = ContextualBertConfig
    # HF reads a plain list and a plain dict.
    _no_split_modules = ["ContextualBertEmbeddings", "ContextualBertLayer"]  # noqa: RUF012
    _can_record_outputs = {"hidden_states": ContextualBertLayer, "attentions": BertSelfAttention}  # noqa: RUF012

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, BertLMPredictionHead) and "bias" not in dict(module.named_parameters(recurse=False)):
            return  # an untied head keeps its bias in the decoder
        super()._init_weights(module)
        # A method's own leaf module may know better, for instance a gate that starts at zero.
        initialise = getattr(module, "initialise", None)
        if callable(initialise):
            initialise(self.config.initializer_range)


class ContextualBertModel(ContextualBertPreTrainedModel, BertModel):  # pyright: ignore[reportIncompatibleVariableOverride]
    """BERT's encoder with a context.

    Formula:
        c = [e_1; ...; e_F];  X0 = input(Embeddings(items), c);  s = state(c);  X(l+1) = Block_l(X(l), s(l))

    Symbols:
        =====================  ==================================
        here                   paper
        =====================  ==================================
        ``context_encoder``    the feature embeddings, giving c
        ``state``              c~, c~(l)
        ``last_hidden_state``  X(N)
        =====================  ==================================

    Shapes:
        input_ids (batch, length) int64; attention_mask (batch, length) of 0 and 1, or None; context: a tensor a
        feature, with batch rows; last_hidden_state (batch, length, hidden), or (rows, hidden) where ``rows``, indices
        into the flattened (batch * length), says which positions are wanted: the last block then spares the others.

    Args:
        config: ContextualBertConfig.

    Relation to its siblings:
        With ``conditioning='none'`` and position embeddings it computes what transformers' BertModel computes, bit for
        bit.

    Reference:
        Denk and Peleteiro Ramallo (2020), section 3.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertModel(ContextualBertConfig(vocab_size=9, **sizes))
        >>> model(input_ids=torch.tensor([[3, 4, 1]])).last_hidden_state.shape
        torch.Size([1, 3, 8])
    """

    def __init__(self, config: ContextualBertConfig) -> None:
        ContextualBertPreTrainedModel.__init__(self, config)
        method = get_method(config.conditioning)
        self.embeddings = ContextualBertEmbeddings(config)
        self.context_encoder = ContextEncoder(config.layout) if method.has_context else None
        self.conditioning = method.input(config.sizes)
        self.encoder = ContextualBertEncoder(config)
        self.post_init()

    @can_return_tuple
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        context: Context | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        rows: Tensor | None = None,
        **kwargs: Any,
    ) -> ContextualBertModelOutput:
        if (input_ids is None) == (inputs_embeds is None):
            raise ConfigurationError("Give either input_ids or inputs_embeds.")
        embeddings = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        if not kwargs.get("output_hidden_states", self.config.output_hidden_states):
            return self.encode(embeddings, attention_mask, context, rows, **kwargs)
        outputs = self.encode(embeddings, attention_mask, context, **kwargs)
        if rows is not None:
            hidden = cast(Tensor, outputs.last_hidden_state)
            outputs.last_hidden_state = cast(Any, hidden.flatten(0, 1)[rows])
        if self.num_added_positions:
            # None where the caller chose other layers: output_hidden_states may be a list of indices.
            all_states: Any = outputs.hidden_states
            outputs.hidden_states = tuple(  # pyright: ignore[reportAttributeAccessIssue]
                states if states is None else states[:, states.shape[1] - embeddings.shape[1] :]
                for states in all_states
            )
        return outputs

    @merge_with_config_defaults
    @capture_outputs
    def encode(
        self,
        embeddings: Tensor,
        attention_mask: Tensor | None,
        context: Context | None,
        rows: Tensor | None = None,
        **kwargs: Any,
    ) -> ContextualBertModelOutput:
        """From embedded items to hidden states: where the context enters. Called by ``forward``."""
        embedded_context = self.embed_context(context, batch_size=embeddings.shape[0])
        added = self.num_added_positions
        if rows is not None and added:
            rows = rows + added * (rows // embeddings.shape[1] + 1)
        if self.conditioning is not None:
            embeddings, attention_mask = self.conditioning(embeddings, attention_mask, embedded_context)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=embeddings, attention_mask=attention_mask)
        hidden, state = self.encoder(embeddings, mask, embedded_context, rows, **kwargs)
        return ContextualBertModelOutput(
            last_hidden_state=hidden if rows is not None else hidden[:, added:], state=state
        )

    @property
    def num_added_positions(self) -> int:
        """Positions that the input slot puts in front, dropped again at the end."""
        return self.conditioning.num_added_positions if self.conditioning is not None else 0

    def embed_context(self, context: Context | None, *, batch_size: int) -> ContextEmbedding | None:
        """The feature embeddings of a batch, None where the method takes no context.

        Raises:
            ConfigurationError: no context for a method that needs one, or one with another number of rows.
        """
        if self.context_encoder is None:
            return None
        if context is None:
            raise ConfigurationError(
                f"conditioning={self.config.conditioning!r} needs context=..., and none came. Encode it with the "
                "processor: processor(items=..., context=[{}]) states that every feature is missing."
            )
        embedded = self.context_encoder(context)
        if embedded.vector.shape[0] != batch_size:
            raise ConfigurationError(
                f"context has {embedded.vector.shape[0]} rows and input_ids {batch_size}. Give one context a row."
            )
        return embedded


class MaskedScores(NamedTuple):
    """For each masked position the figures that every metric is made of, (masked,) each.

    ``log_probability`` of the true item in nats, how many items scored higher, how many scored the same (the true one
    included), and the probability of the best item.
    """

    log_probability: Tensor
    num_better: Tensor
    num_tied: Tensor
    confidence: Tensor


class ContextualBertForMaskedLM(ContextualBertPreTrainedModel):
    """Fills masked positions, given the other items and the context.

    Formula:
        Pr(M = w | w_-i, c) = softmax(W GELU(D x_i(N) + d) + b)_w

    Shapes:
        input_ids (batch, length); labels (batch, length) with -100 where nothing is asked; logits (masked, vocabulary)
        with the masked positions row after row, or (batch, length, vocabulary) with ``logits_at='all'``.

    Args:
        config: ContextualBertConfig; ``tie_word_embeddings`` decides whether W is the matrix of the item embeddings.

    Relation to its siblings:
        The keys of the state are those of BertForMaskedLM; new ones contain ``conditioning.`` or ``context_encoder.``.

    Reference:
        Denk and Peleteiro Ramallo (2020), sections 3 and 4; Devlin et al. (2019), section 3.1.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=9, **sizes))
        >>> model(input_ids=torch.tensor([[3, 4, 1]])).logits.shape
        torch.Size([1, 9])
    """

    _tied_weights_keys = {  # noqa: RUF012  (HF reads a plain dict)
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__(config)
        self.bert = ContextualBertModel(config)
        self.cls = BertOnlyMLMHead(config)
        head: Any = self.cls.predictions
        if not config.has_head_layer_norm:
            head.transform.LayerNorm = nn.Identity()
        if not config.tie_word_embeddings:
            head.bias = None
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.cls.predictions.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.cls.predictions.decoder = new_embeddings
        if self.config.tie_word_embeddings:
            self.cls.predictions.bias = new_embeddings.bias

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        context: Context | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        logits_at: Literal["masked", "all"] | None = None,
        **kwargs: Any,
    ) -> ContextualMaskedLMOutput:
        num_items_in_batch = kwargs.pop("num_items_in_batch", None)
        if logits_at not in ("masked", "all", None):
            raise ConfigurationError(f"logits_at={logits_at!r}: give 'masked' (the default) or 'all'.")
        rows = self.masked_rows(input_ids, labels) if logits_at != "all" else None
        outputs = self.bert(
            input_ids,
            attention_mask,
            context,
            token_type_ids,
            position_ids,
            inputs_embeds,
            rows,
            return_dict=True,
            **kwargs,
        )
        scored = outputs.last_hidden_state
        targets = labels.flatten()[rows] if labels is not None and rows is not None else labels
        logits = loss = None
        if targets is not None and logits_at is None and self.has_fused_loss(scored):
            num_items = len(targets) if num_items_in_batch is None else num_items_in_batch
            head: Any = self.cls.predictions
            weight, bias = head.decoder.weight, head.decoder.bias
            loss = masked_cross_entropy(head.transform(scored), weight, bias, targets, num_items)
        else:
            logits = self.cls(scored)
            if targets is not None:
                cross_entropy: Any = self.loss_function
                loss = cross_entropy(
                    logits=logits, labels=targets, vocab_size=logits.shape[-1], num_items_in_batch=num_items_in_batch
                )
        return ContextualMaskedLMOutput(
            loss=loss,
            logits=logits,
            state=outputs.state,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def has_fused_loss(self, hidden: Tensor) -> bool:
        """Whether the loss is computed without logits: while training on a CPU, where that halves the head's time."""
        is_eager_cpu = hidden.device.type == "cpu" and not torch.compiler.is_compiling()
        # An adapter around the output layer, or a loss function of the user's own, must not be passed over.
        is_usual = (
            type(self.cls.predictions.decoder) is nn.Linear and cast(object, self.loss_function) is ForMaskedLMLoss
        )
        return self.training and torch.is_grad_enabled() and is_eager_cpu and is_usual

    def masked_rows(self, input_ids: Tensor | None, labels: Tensor | None) -> Tensor:
        """Indices into the flattened (batch * length) of the positions asked for: with a label, else holding [MASK]."""
        if labels is not None:
            asked = labels != IGNORED_LABEL
        elif input_ids is not None:
            asked = input_ids == self.config.mask_token_id
        else:
            raise ConfigurationError("With inputs_embeds, say where to predict: give labels, or logits_at='all'.")
        return asked.flatten().nonzero(as_tuple=True)[0]

    @torch.no_grad()
    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Context | None = None,
        labels: Tensor | None = None,
    ) -> MaskedScores:
        """Rank the true item of each masked position against the whole vocabulary, in constant memory.

        Reserved ids are no rivals; a true item that is itself reserved ([UNK]) ties with itself. Each block holds whole
        rows of at most ``MAX_SCORE_ELEMENTS`` logits, so the true item and its rivals come from the same product and a
        tie is exact.

        Returns:
            MaskedScores, (masked,) each, the masked positions row after row.
        """
        rows = self.masked_rows(input_ids, labels)
        blocks = self.logit_blocks(self.bert(input_ids, attention_mask, context, rows=rows).last_hidden_state)
        targets = labels.flatten()[rows] if labels is not None else None
        if targets is None:
            raise ConfigurationError("Scoring needs labels: the true item at each masked position, -100 elsewhere.")
        reserved = torch.as_tensor(self.config.reserved_token_ids, dtype=torch.long, device=rows.device)
        parts: list[MaskedScores] = []
        for start, logits in blocks:
            true = targets[start : start + logits.shape[0], None]
            normaliser = logits.logsumexp(dim=-1)
            own = logits.gather(1, true)
            logits[:, reserved] = -torch.inf
            parts.append(
                MaskedScores(
                    own.squeeze(1) - normaliser,
                    (logits > own).sum(dim=-1),
                    (logits == own).sum(dim=-1) + torch.isin(true, reserved).squeeze(1),
                    (logits.amax(dim=-1) - normaliser).exp(),
                )
            )
        return MaskedScores(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    def logit_blocks(self, hidden: Tensor) -> Iterator[tuple[int, Tensor]]:
        """(first row, float32 logits) of blocks of ``hidden`` (rows, hidden), each at most ``MAX_SCORE_ELEMENTS``."""
        size = max(1, MAX_SCORE_ELEMENTS // self.config.vocab_size)
        for start in range(0, max(1, hidden.shape[0]), size):
            yield start, self.cls(hidden[start : start + size]).float()
