"""Labels for the tokens of a text, and the span that answers a question, with a context: BERT's heads.

It knows no method and no tokenizer. Paper: Denk and Peleteiro Ramallo (2020), section 5.
"""

from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForQuestionAnswering, AutoModelForTokenClassification
from transformers.utils.generic import ModelOutput, can_return_tuple

from contextual_bert.models.backbones import get_blocks
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_as_text import text_encoder
from contextual_bert.models.label_heads import check_class_weights, weights_like
from contextual_bert.models.masked_lm import IGNORED_LABEL
from contextual_bert.models.modeling_contextual_bert import (
    Context,
    ContextualBertModelOutput,
    ContextualBertPreTrainedModel,
)
from contextual_bert.models.sequence_classification import ContextualClassifierOutput, classified, dropout_of


@dataclass
class ContextualQuestionAnsweringOutput(ModelOutput):
    """As ContextualClassifierOutput, with a score of each position, (batch, length), as start and as end."""

    loss: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    state: Tensor | None = None


class ContextualBertForTokenClassification(ContextualBertPreTrainedModel):
    """A label for each token, given the context: names, parts of speech.

    Formula:
        logits_i = W x_i(N) + b

    Shapes:
        input_ids (batch, length); labels (batch, length), -100 where nothing is asked; logits (batch, length, labels).

    Args:
        config: ContextualBertConfig; ``num_labels``.

    Relation to its siblings:
        With ``conditioning='none'`` it is BertForTokenClassification, bit for bit. Its loss is a mean over the labelled
        tokens of the whole batch, however the batch is split.

    Reference:
        Devlin et al. (2019), section 5.3.

    Example:
        >>> import torch
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForTokenClassification(ContextualBertConfig(vocab_size=9, num_labels=5, **sizes))
        >>> model(input_ids=torch.tensor([[3, 4, 1]])).logits.shape
        torch.Size([1, 3, 5])
    """

    head_keys = ("classifier.", "head.")
    head_fields = ("class_weights",)
    is_causal = False
    auto_class = AutoModelForTokenClassification

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__(config)
        check_class_weights(config)
        self.bert = text_encoder(config)
        self.dropout = nn.Dropout(dropout_of(config))
        self.head = get_blocks(config.backbone).token_head(config)
        self.classifier = nn.Linear(config.hidden_size, cast(int, config.num_labels))
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
        outputs: ContextualBertModelOutput = self.bert(
            input_ids,
            attention_mask,
            context,
            token_type_ids,
            position_ids,
            inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        hidden = self.head(outputs.last_hidden_state) if self.head is not None else outputs.last_hidden_state
        logits = self.classifier(self.dropout(hidden))
        loss = self._loss(logits.float(), labels, num_items_in_batch) if labels is not None else None
        return classified(outputs, logits, loss)

    def _loss(self, logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        weights, labels = weights_like(logits, self.config), labels.flatten()
        total = functional.cross_entropy(logits.flatten(0, 1), labels, weight=weights, reduction="sum")
        return total / ((labels != IGNORED_LABEL).sum() if num_items_in_batch is None else num_items_in_batch)


class ContextualBertForQuestionAnswering(ContextualBertPreTrainedModel):
    """The first and the last token of the answer in a text, given the question and the context.

    Formula:
        (start_i, end_i) = W x_i(N) + b

    Shapes:
        input_ids (batch, length), question and text with their segments in token_type_ids; start_positions,
        end_positions (batch,), at or beyond the length where the answer was cut off; start_logits, end_logits (batch,
        length).

    Args:
        config: ContextualBertConfig.

    Relation to its siblings:
        With ``conditioning='none'`` it is BertForQuestionAnswering, bit for bit.

    Reference:
        Devlin et al. (2019), section 4.2.

    Example:
        >>> import torch
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForQuestionAnswering(ContextualBertConfig(vocab_size=9, **sizes))
        >>> model(input_ids=torch.tensor([[3, 4, 1]])).start_logits.shape
        torch.Size([1, 3])
    """

    head_keys = ("qa_outputs.", "head.")
    head_parts = {"classifier": "qa_outputs"}  # noqa: RUF012
    num_segments = 2
    is_causal = False
    auto_class = AutoModelForQuestionAnswering

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__(config)
        self.loss_type = "ForQuestionAnswering"  # whatever a subclass is called
        self.bert = text_encoder(config)
        self.head = get_blocks(config.backbone).token_head(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
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
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **kwargs: Any,
    ) -> ContextualQuestionAnsweringOutput:
        outputs: ContextualBertModelOutput = self.bert(
            input_ids,
            attention_mask,
            context,
            token_type_ids,
            position_ids,
            inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        hidden = self.head(outputs.last_hidden_state) if self.head is not None else outputs.last_hidden_state
        start_logits, end_logits = self.qa_outputs(hidden).unbind(dim=-1)
        loss, cross_entropy = None, cast(Any, self.loss_function)
        if start_positions is not None and end_positions is not None:
            loss = cross_entropy(start_logits, end_logits, start_positions, end_positions)
        return ContextualQuestionAnsweringOutput(
            loss=loss,
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
            state=outputs.state,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
