"""A label for a text or a pair of texts, with a context: BERT's head, and one for grades.

It knows no method and no tokenizer. Paper: Denk and Peleteiro Ramallo (2020), section 5.
"""

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.utils.generic import ModelOutput, can_return_tuple

from contextual_bert.errors import ConfigurationError
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_as_text import text_encoder
from contextual_bert.models.masked_lm import IGNORED_LABEL
from contextual_bert.models.modeling_contextual_bert import (
    Context,
    ContextualBertModelOutput,
    ContextualBertPreTrainedModel,
)

SMALLEST_STEP = 1e-6  # between two thresholds: the logarithm of the share of a grade that nobody gives is finite


@dataclass
class ContextualClassifierOutput(ModelOutput):
    """What the two classifiers give.

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
        logits = W z + b; z = tanh(P x_1(N) + p), or with ``classifier_pooling="mean"`` the mean over i of x_i(N);
        with ``is_ordinal``: Pr(y > k) = sigmoid(w z - t_k), t_1 < t_2 < ..., logits = log Pr(y = k)

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
        ConfigurationError: ``is_ordinal`` with less than two labels or with a ``problem_type``.

    Relation to its siblings:
        ``ContextualBertForTokenClassification`` labels every position. With ``conditioning='none'`` it is BERT's; the
        last block computes the first position only, which is all that is read. The mean reads all of them, without
        the pooler: it is for checkpoints that were trained so, whose first position and pooler never learned anything.

    Reference:
        Devlin et al. (2019), section 4.1; for grades McCullagh (1980), "Regression Models for Ordinal Data"; for the
        mean Reimers and Gurevych (2019), "Sentence-BERT", section 3.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForSequenceClassification(ContextualBertConfig(vocab_size=9, num_labels=3, **sizes))
        >>> model(input_ids=torch.tensor([[3, 4, 1]])).logits.shape
        torch.Size([1, 3])
    """

    head_keys = ("classifier.", "bert.pooler.")
    head_fields = ("is_ordinal", "classifier_pooling")

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__(config)
        num_labels = cast(int, config.num_labels)
        if config.is_ordinal and (num_labels < 2 or config.problem_type is not None):
            raise ConfigurationError(
                f"is_ordinal=True with num_labels={num_labels}, problem_type={config.problem_type!r}: grades "
                "need two labels or more and no problem_type."
            )
        self.bert = text_encoder(config, has_pooler=config.classifier_pooling == "cls")
        self.dropout = nn.Dropout(dropout_of(config))
        classifier = OrdinalClassifier if config.is_ordinal else nn.Linear
        self.classifier = classifier(config.hidden_size, num_labels)
        self.post_init()

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
        given = cast(Tensor, input_ids if input_ids is not None else inputs_embeds)
        pooler: Any = self.bert.pooler
        first = torch.arange(given.shape[0], device=given.device) * given.shape[1] if pooler is not None else None
        outputs: ContextualBertModelOutput = self.bert(
            input_ids,
            attention_mask,
            context,
            token_type_ids,
            position_ids,
            inputs_embeds,
            first,
            return_dict=True,
            **kwargs,
        )
        hidden = cast(Tensor, outputs.last_hidden_state)
        pooled = mean_of_text(hidden, attention_mask) if pooler is None else pooler(hidden.unsqueeze(1))
        logits = self.classifier(self.dropout(pooled))
        loss = self._loss(logits, labels, num_items_in_batch) if labels is not None else None
        return classified(outputs, logits, loss)

    def _loss(self, logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        logits, is_given = logits.float(), torch.ones_like(labels, dtype=torch.bool)
        kind = "grades" if self.config.is_ordinal else self.problem_type_of(labels)
        if kind == "regression":
            if num_items_in_batch is not None and bool((labels == IGNORED_LABEL).any()):
                raise ConfigurationError(
                    f"A number to learn is exactly {IGNORED_LABEL}, which transformers' Trainer counts as none. Shift "
                    "or scale the numbers."
                )
            total = functional.mse_loss(logits.view_as(labels), labels.float(), reduction="sum")
        elif kind == "multi_label_classification":
            total = functional.binary_cross_entropy_with_logits(logits, labels.float(), reduction="sum")
        else:  # the log-probabilities of grades are logits, too: their softmax is itself
            labels = labels.view(-1)  # as BERT takes them, also in a column
            total, is_given = functional.cross_entropy(logits, labels, reduction="sum"), labels != IGNORED_LABEL
        return total / (is_given.sum() if num_items_in_batch is None else num_items_in_batch)

    def problem_type_of(self, labels: Tensor) -> str:
        """The config's ``problem_type``; without one, what the first labels say, as in BERT: the config then has it, so
        that a saved model is asked as it was trained."""
        if self.config.problem_type is None:
            several = "multi_label_classification" if labels.is_floating_point() else "single_label_classification"
            self.config.problem_type = "regression" if self.config.num_labels == 1 else several
        return self.config.problem_type


class OrdinalClassifier(nn.Module):
    """log Pr(y = k) from one score and ordered thresholds t_k = t_1 + softplus(d_2) + ... + softplus(d_k).

    Shapes:
        (batch, hidden) -> (batch, labels), log-probabilities.

    Example:
        >>> OrdinalClassifier(8, 5)(torch.zeros(2, 8)).exp().sum(dim=-1).tolist()
        [1.0, 1.0]
    """

    def __init__(self, hidden_size: int, num_labels: int) -> None:
        super().__init__()
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.thresholds = nn.Parameter(torch.empty(num_labels - 1))
        self.initialise()

    def initialise(self, initializer_range: float = 0.0) -> None:
        """Thresholds in the middle of the scale, one unit apart."""
        with torch.no_grad():
            nn.init.constant_(self.thresholds, math.log(math.e - 1))  # softplus gives 1
            nn.init.constant_(self.thresholds[:1], -(len(self.thresholds) - 1) / 2)

    def forward(self, hidden: Tensor) -> Tensor:
        steps = torch.cat([self.thresholds[:1], functional.softplus(self.thresholds[1:]) + SMALLEST_STEP])
        # Not cumsum, which on CUDA is not deterministic.
        ends = (steps * torch.ones_like(steps).expand(len(steps), -1).tril()).sum(dim=1)
        distances = ends - self.score(hidden)
        below, above = functional.logsigmoid(distances), functional.logsigmoid(-distances)
        # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b))
        between = below[:, 1:] + above[:, :-1] + torch.log(-torch.expm1(-steps[1:]))
        return torch.cat([below[:, :1], between, above[:, -1:]], dim=-1)


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
