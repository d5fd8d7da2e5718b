"""A label for a text or a pair of texts, with a context: BERT's head, and one for grades.

It knows no method and no tokenizer. Paper: Denk and Peleteiro Ramallo (2020), section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForSequenceClassification
from transformers.utils.generic import ModelOutput, can_return_tuple

from contextual_bert.errors import ConfigurationError
from contextual_bert.models.backbones import get_blocks
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_as_text import text_encoder
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.document_segments import SegmentTransformer, cut_into_segments, read_in_parts
from contextual_bert.models.label_heads import (
    OrdinalClassifier,
    check_class_weights,
    start_at_shares,
    weights_like,
)
from contextual_bert.models.masked_lm import IGNORED_LABEL
from contextual_bert.models.modeling_contextual_bert import (
    Context,
    ContextualBertModelOutput,
    ContextualBertPreTrainedModel,
)
from contextual_bert.models.truncation import SEGMENT_FIELDS


@dataclass
class ContextualClassifierOutput(ModelOutput):
    """Output of the two classifiers.

    Args:
        loss: when labels were given.
        logits: (batch, labels), or (batch, length, labels) for tokens.
        state: as in ContextualBertModelOutput.
        hidden_states: one (batch, length, hidden) for the input and each block, when asked for.
        attentions: one (batch, heads, length, length) for each block with BERT's self-attention, when asked for.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    state: Tensor | None = None


class ContextualBertForSequenceClassification(ContextualBertPreTrainedModel):
    """One label, several labels, a grade or a number for a text or a pair of texts, given the context.

    Formula:
        logits = W z + b; z = tanh(P x_1(N) + p), with ``classifier_pooling="first"`` x_1(N), or with "mean" the mean
        over i of x_i(N); with ``is_ordinal``: logits = log Pr(y = k) of ``OrdinalClassifier``

    Symbols:
        ===============  =======================================================
        here             literature
        ===============  =======================================================
        ``classifier``   W, b; w and the thresholds t of a cumulative logit model
        ``bert.pooler``  P, p
        ===============  =======================================================

    Shapes:
        input_ids (batch, length); labels (batch,), or (batch, labels) of 0 and 1 for several labels; logits (batch,
        labels).

    Args:
        config: ContextualBertConfig; ``num_labels``, ``problem_type`` as for BertForSequenceClassification;
            ``is_ordinal`` where the labels are grades 0, 1, 2, ... of one scale; ``classifier_pooling``.

    Raises:
        ConfigurationError: ``number_bins`` of other labels; ``is_ordinal`` with less than two labels or with a
            ``problem_type``; in segments anything but ids of single texts, or hidden states that are asked for.

    Relation to its siblings:
        ``ContextualBertForTokenClassification`` labels every position. With ``conditioning='none'`` it is BERT's; the
        last block computes the first position only, which is all that is read. The mean reads all of them, without
        the pooler: it is for checkpoints that were trained so, whose first position and pooler never learned anything.
        The first position without the pooler is MA-BERT's. With ``segment_length`` z is of a ``SegmentTransformer``
        over such vectors of the segments of the text, each read with the context: ToBERT. State, hidden states and
        attention are then those of segments, and are not given.

    Reference:
        Devlin et al. (2019), section 4.1; for grades McCullagh (1980), "Regression Models for Ordinal Data"; for the
        mean Reimers and Gurevych (2019), "Sentence-BERT", section 3; for the first position alone Zhang et al. (2021),
        "MA-BERT", section 2.2.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForSequenceClassification(ContextualBertConfig(vocab_size=9, num_labels=3, **sizes))
        >>> model(input_ids=torch.tensor([[3, 4, 1]])).logits.shape
        torch.Size([1, 3])
    """

    head_keys = ("classifier.", "bert.pooler.", "segments.")
    head_parts = {"head": "bert.pooler"}  # noqa: RUF012
    head_fields = ("is_ordinal", "number_bins", "class_weights", "classifier_pooling", *SEGMENT_FIELDS)
    is_causal = False
    auto_class = AutoModelForSequenceClassification

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__(config)
        num_labels = cast(int, config.num_labels)
        if config.is_ordinal and (num_labels < 2 or config.problem_type is not None):
            raise ConfigurationError(
                f"with num_labels={num_labels}, problem_type={config.problem_type!r}: grades need two labels "
                "or more and no problem_type",
                setting="is_ordinal",
                value=True,
            )
        if config.number_bins is not None and len(config.number_bins) != num_labels:
            raise ConfigurationError(
                f"are not those of num_labels={num_labels}",
                setting="number_bins",
                value=config.number_bins,
                fix="Give the least, the largest and the mean number of each label.",
            )
        check_class_weights(config)
        pools_mean = config.classifier_pooling == "mean" and get_blocks(config.backbone).pools_mean
        has_pooler = config.classifier_pooling == "cls" or pools_mean
        self.bert = text_encoder(config, has_pooler=has_pooler)
        self.dropout = nn.Dropout(dropout_of(config))
        classifier = OrdinalClassifier if config.is_ordinal else nn.Linear
        self.classifier = classifier(config.hidden_size, num_labels)
        self.segments = SegmentTransformer(config) if config.segment_length is not None else None
        self.post_init()

    def start_at_shares(self, counts: Sequence[int] | Tensor, *, num_texts: int | None = None) -> None:
        """Let the output layer begin with the shares of the labels in training; see ``label_heads.start_at_shares``.

        Args:
            counts: how often each label occurs in the training part, in the order of the ids.
            num_texts: of the training part, for a model of several labels a text, and for no other.

        Raises:
            ConfigurationError: the model learns numbers; several labels a text without ``num_texts``; counts of other
                labels.
        """
        has_several = self.config.problem_type == "multi_label_classification"
        if self.config.problem_type == "regression" or self.config.num_labels == 1 or has_several != bool(num_texts):
            raise ConfigurationError(
                "start_at_shares is for one label a text, or with num_texts for several, and this model learns others",
                fix="Leave it out, or give num_texts for several labels a text.",
            )
        start_at_shares(self.classifier, counts, num_texts=num_texts, weights=self.config.class_weights)

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
        **kwargs: Any,
    ) -> ContextualClassifierOutput:
        num_items_in_batch = kwargs.pop("num_items_in_batch", None)
        if self.segments is None:
            given = input_ids, attention_mask, context, token_type_ids, position_ids, inputs_embeds
            outputs, pooled = self._vectors(*given, **kwargs)
        else:
            taken = {name: value for name, value in kwargs.items() if name != "return_dict"}
            others = (token_type_ids, position_ids, inputs_embeds, *taken.values())
            if input_ids is None or any(each is not None and each is not False for each in others):
                raise ConfigurationError(
                    "A text that is read in segments takes ids and a mask of single texts, and gives logits alone",
                    fix="Give input_ids, attention_mask and context.",
                )
            outputs, pooled = ContextualBertModelOutput(), self._of_documents(input_ids, attention_mask, context)
        logits = self.classifier(self.dropout(pooled))
        loss = self._loss(logits, labels, num_items_in_batch) if labels is not None else None
        return classified(outputs, logits, loss)

    def _vectors(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        context: Context | ContextState | None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[ContextualBertModelOutput, Tensor]:
        """The encoder's output, and the vectors of texts that it reads whole: (batch, hidden)."""
        given = cast(Tensor, input_ids if input_ids is not None else inputs_embeds)
        pooler: Any = self.bert.pooler
        reads_first = self.config.classifier_pooling != "mean"
        first = torch.arange(given.shape[0], device=given.device) * given.shape[1] if reads_first else None
        kwargs["return_dict"] = True
        outputs: ContextualBertModelOutput = self.bert(
            input_ids, attention_mask, context, token_type_ids, position_ids, inputs_embeds, first, **kwargs
        )
        hidden = cast(Tensor, outputs.last_hidden_state)
        pooled = hidden if reads_first else mean_of_text(hidden, attention_mask)
        return outputs, pooled if pooler is None else pooler(pooled.unsqueeze(1))

    def _of_documents(
        self, input_ids: Tensor, attention_mask: Tensor | None, context: Context | ContextState | None
    ) -> Tensor:
        """The vectors of texts that are read in segments: (batch, hidden)."""
        segments = cut_into_segments(
            input_ids,
            attention_mask,
            length=cast(int, self.config.segment_length),
            overlap=self.config.segment_overlap,
            padding_id=cast(int, self.config.pad_token_id),
        )
        if isinstance(context, ContextState):
            context = context.for_sets(len(input_ids), conditioning=self.config.conditioning)

        def read(chosen: Tensor) -> Tensor:
            texts, own = segments.text[chosen], context
            if isinstance(context, ContextState):
                own = context.rows(texts)
            elif context is not None:
                own = {name: each[texts] for name, each in context.items()}
            return self._vectors(segments.input_ids[chosen], segments.attention_mask[chosen], own)[1]

        is_kept = self.training and torch.is_grad_enabled()
        vectors = read_in_parts(read, len(segments.text), is_kept=is_kept, device=input_ids.device)
        return cast(SegmentTransformer, self.segments)(vectors, segments)

    def _loss(self, logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        logits, is_given = logits.float(), torch.ones_like(labels, dtype=torch.bool)
        kind = "grades" if self.config.is_ordinal else self.problem_type_of(labels)
        weights = weights_like(logits, self.config)
        if kind == "regression":
            if num_items_in_batch is not None and bool((labels == IGNORED_LABEL).any()):
                raise ConfigurationError(
                    f"A number to learn is exactly {IGNORED_LABEL}, which transformers' Trainer counts as none",
                    fix="Shift or scale the numbers.",
                )
            total = functional.mse_loss(logits.view_as(labels), labels.float(), reduction="sum")
        elif kind == "multi_label_classification":
            total = functional.binary_cross_entropy_with_logits(
                logits, labels.float(), pos_weight=weights, reduction="sum"
            )
        else:  # the log-probabilities of grades are logits, too: their softmax is itself
            labels = labels.view(-1)  # as BERT takes them, also in a column
            total = functional.cross_entropy(logits, labels, weight=weights, reduction="sum")
            is_given = labels != IGNORED_LABEL
        return total / (is_given.sum() if num_items_in_batch is None else num_items_in_batch)

    def problem_type_of(self, labels: Tensor) -> str:
        """The config's ``problem_type``; without one, what the first labels say, as in BERT: the config then has it, so
        that a saved model is asked as it was trained."""
        if self.config.problem_type is None:
            several = "multi_label_classification" if labels.is_floating_point() else "single_label_classification"
            self.config.problem_type = "regression" if self.config.num_labels == 1 else several
        return self.config.problem_type


def mean_of_text(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """(batch, length, hidden) -> (batch, hidden): the mean over the positions that are no padding."""
    if attention_mask is None:
        return hidden.mean(dim=1)
    if attention_mask.ndim != 2:
        raise ConfigurationError(
            f"attention_mask has the shape {tuple(attention_mask.shape)}: a mean over the text takes (batch, length)."
        )
    # Counted behind the product: in bfloat16 shares of 1/n would add up to anything between 0.998 and 1.003.
    total = (attention_mask.to(hidden.dtype).unsqueeze(1) @ hidden).squeeze(1)
    return (total / attention_mask.sum(dim=1, keepdim=True).clamp(min=1)).to(hidden.dtype)


def vector_of_text(hidden: Tensor, attention_mask: Tensor | None, *, pooling: str) -> Tensor:
    """(batch, length, hidden) -> (batch, hidden): what ``classifier_pooling`` reads, without BERT's pooler."""
    return mean_of_text(hidden, attention_mask) if pooling == "mean" else hidden[:, 0]


def classified(outputs: ContextualBertModelOutput, logits: Tensor, loss: Tensor | None) -> ContextualClassifierOutput:
    return ContextualClassifierOutput(
        loss=loss,
        logits=logits,
        state=outputs.state,
        hidden_states=outputs.hidden_states,
        attentions=outputs.attentions,
    )


def dropout_of(config: ContextualBertConfig) -> float:
    return config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
