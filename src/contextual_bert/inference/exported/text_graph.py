"""Graph of a model of texts: from the encoding of a context and the tokens of texts to logits.

It knows no file, no word and no method. What is exported is the head as it is; of BERT's blocks some modules are put in
the form of fewer nodes, see ``lean``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from contextual_bert.inference.exported.completion_graph import lean, state_from
from contextual_bert.inference.exported.graph_files import random_context
from contextual_bert.models import (
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    span_logits,
)
from contextual_bert.models.context_words import FIRST_WORD

TextModel = (
    ContextualBertForSequenceClassification | ContextualBertForTokenClassification | ContextualBertForQuestionAnswering
)
NUM_WORDS = 5  # of an example of a context that is read as words


class TextGraph(nn.Module):
    """Logits of texts, or of their tokens; of questions the logarithms of probabilities.

    Formula:
        of a question: log softmax over the places where an answer may stand, see ``span_logits``

    Shapes:
        input_ids, attention_mask, token_type_ids (batch, length) int64; state: what ``carried`` names, (batch, ...)
        each; words (batch, width) int64, of a model that reads its context as words -> (batch, labels), (batch, length,
        labels), or of questions (batch, 2, length).

    Args:
        model: it is copied, not changed.
    """

    def __init__(self, model: TextModel) -> None:
        super().__init__()
        self.model: Any = lean(model)
        self.finds_answers = isinstance(model, ContextualBertForQuestionAnswering)
        config, bert = self.model.config, self.model.bert
        has_reader = bert.encoder.conditioning is not None and bert.encoder.conditioning.reads_sequence
        pools_mean = not self.finds_answers and config.classifier_pooling == "mean"
        needs_rows = bert.conditioning is not None or has_reader or pools_mean or config.has_context_as_text
        # As for CompletionGraph: a mask of four dimensions is taken as it is, and made from two it is fifteen nodes.
        self.has_whole_mask = config.backbone == "bert" and not needs_rows

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        state: Mapping[str, Tensor],
        token_type_ids: Tensor | None = None,
        words: Tensor | None = None,
    ) -> Tensor:
        config, mask = self.model.config, attention_mask
        context: Any = (
            {"words": words} if words is not None else state_from(self.model, state, num_rows=input_ids.shape[0])
        )
        if self.has_whole_mask:
            mask = attention_mask[:, None, None, :] > attention_mask[:, None, :, None] - 1
        given: dict[str, Any] = {"input_ids": input_ids, "attention_mask": mask, "context": context}
        if config.has_position_embeddings and not config.has_position_table and words is None:
            # A row a text: onnxruntime's rotation of queries and keys does not broadcast over a batch.
            places = torch.arange(input_ids.shape[1], device=input_ids.device)
            given["position_ids"] = places.expand(input_ids.shape)
        outputs = self.model(**given, token_type_ids=token_type_ids)
        if not self.finds_answers:
            return outputs.logits
        inputs: Any = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        return span_logits(outputs, inputs).log_softmax(dim=-1)


class TextExample(NamedTuple):
    """Inputs of a TextGraph, with the context itself in place of its state."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor | None
    context: dict[str, Tensor]


def text_example(model: TextModel, *, batch_size: int, length: int, seed: int = 0) -> TextExample:
    """Random texts and contexts; padding, the end of the first half and the numbers of values differ by row.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForTokenClassification(ContextualBertConfig(vocab_size=9, **sizes))
        >>> text_example(model, batch_size=2, length=5).input_ids.shape
        torch.Size([2, 5])
    """
    generator, config = torch.Generator().manual_seed(seed), model.config

    def draw(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    least = min(3, length)
    sizes = draw(least, length + 1, batch_size)
    sizes[0] = length
    places = torch.arange(length)
    is_real = places < sizes.unsqueeze(1)
    padding = config.pad_token_id or 0
    ids = draw(min(3, config.vocab_size - 1), config.vocab_size, batch_size, length).masked_fill(~is_real, padding)
    halves = None
    if config.type_vocab_size > 1:
        firsts = 1 + (torch.rand(batch_size, generator=generator) * (sizes - 2).clamp(min=1)).long()
        halves = ((places >= firsts.unsqueeze(1)) & is_real).long()
    elif config.type_vocab_size:
        halves = torch.zeros_like(ids)
    context = random_context(model, num_rows=batch_size, generator=generator)
    if config.has_context_as_text:
        words = FIRST_WORD + draw(min(3, config.vocab_size - 1), config.vocab_size, batch_size, NUM_WORDS)
        counts = draw(0, NUM_WORDS + 1, batch_size)
        counts[0] = NUM_WORDS
        context = {"words": words.masked_fill(torch.arange(NUM_WORDS) >= counts.unsqueeze(1), 0)}
    return TextExample(ids, is_real.long(), halves, context)
