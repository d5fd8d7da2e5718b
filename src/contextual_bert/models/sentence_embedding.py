"""A vector for a text under a context, and the loss by which texts find the documents that belong to them.

It knows no method, no tokenizer and no table.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from transformers.utils.generic import ModelOutput, can_return_tuple

from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.context_as_text import text_encoder
from contextual_bert.models.context_state import ContextState
from contextual_bert.models.modeling_contextual_bert import Context, ContextualBertPreTrainedModel
from contextual_bert.models.sequence_classification import vector_of_text


@dataclass
class SentenceEmbeddingOutput(ModelOutput):
    """Output of the sentence encoder.

    Args:
        loss: cross-entropy in nats over the documents of the batch, when labels were given.
        vectors: (batch, hidden) of the texts, of length 1, in float32.
        logits: (batch, documents), the cosine of each text and document over the temperature, when there are documents.
    """

    loss: Tensor | None = None
    vectors: Tensor | None = None
    logits: Tensor | None = None


class ContextualBertForSentenceEmbedding(ContextualBertPreTrainedModel):
    """Makes a vector of length 1 of a text under a context, and learns from documents that belong to texts.

    Formula:
        v(x, c) = z / |z|, z the mean over i of x_i(N);  loss = mean over k of
        -log exp(v(x_k, c_k) v(d_k) / t) / sum over the documents d of the batch of exp(v(x_k, c_k) v(d) / t)

    Symbols:
        t ``similarity_temperature``; v(d) is the vector of a document without a context, so that documents are indexed
        once for all who ask.

    Shapes:
        input_ids (batch, length); document_ids, document_mask (documents, length); labels (batch,); document_numbers
        (documents,) ascending; vectors (batch, hidden).

    Args:
        config: ContextualBertConfig; ``classifier_pooling`` "mean" takes the mean over the text, any other the first
            position, without BERT's pooler.

    Relation to its siblings:
        ``ContextualBertForSequenceClassification`` pools alike, and has a layer of labels on top. This head has no
        weights of its own. A document that stands in a batch twice is one document there: it is no negative of itself.

    Reference:
        van den Oord et al. (2018), "Representation Learning with Contrastive Predictive Coding", equation 4; Henderson
        et al. (2017), "Efficient Natural Language Response Suggestion", section 4.4, for negatives of the batch;
        Reimers and Gurevych (2019), "Sentence-BERT", section 3, for the mean.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForSentenceEmbedding(ContextualBertConfig(vocab_size=9, **sizes)).eval()
        >>> model(torch.tensor([[3, 4, 1]])).vectors.norm(dim=-1).round(decimals=4).tolist()
        [1.0]
    """

    head_fields = ("classifier_pooling", "similarity_temperature")
    is_causal = False

    def __init__(self, config: ContextualBertConfig) -> None:
        super().__init__(config)
        self.bert = text_encoder(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Context | ContextState | None = None,
        document_ids: Tensor | None = None,
        document_mask: Tensor | None = None,
        document_numbers: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SentenceEmbeddingOutput:
        """Return the vectors of texts, and with documents the logits and the loss.

        Args:
            input_ids, attention_mask: of the texts.
            context: of who asks; None: nothing is known of anybody.
            document_ids, document_mask: of the documents, each once.
            document_numbers: by which ``labels`` name the documents; None: 0, 1, 2, ...
            labels: number of the document of each text.
            **kwargs: ``num_items_in_batch``, over which the loss is a mean.
        """
        vectors = self.embed(input_ids, attention_mask, context)
        if document_ids is None:
            return SentenceEmbeddingOutput(vectors=vectors)
        logits = self.compare(vectors, self.embed(document_ids, document_mask, self._nobody(document_ids)))
        loss = None
        if labels is not None:
            places = labels if document_numbers is None else torch.searchsorted(document_numbers, labels)
            total = functional.cross_entropy(logits, places, reduction="sum")
            number = kwargs.get("num_items_in_batch")
            loss = total / (len(labels) if number is None else number)
        return SentenceEmbeddingOutput(loss=loss, vectors=vectors, logits=logits)

    def embed(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, context: Context | ContextState | None = None
    ) -> Tensor:
        """Return the vectors of texts, (batch, hidden), of length 1, in float32; as for ``forward``."""
        hidden = cast(Tensor, self.bert(input_ids, attention_mask, context, return_dict=True).last_hidden_state)
        pooled = vector_of_text(hidden, attention_mask, pooling=self.config.classifier_pooling)
        return functional.normalize(pooled.float(), dim=-1)

    def compare(self, vectors: Tensor, documents: Tensor) -> Tensor:
        """Return the logits of documents, (batch, documents), from vectors of texts and of documents."""
        return vectors @ documents.T / self.config.similarity_temperature

    def _nobody(self, ids: Tensor) -> Context | None:
        """Return the context of nobody, said in so many words: a batch in training without a context is warned of."""
        if self.config.has_context_as_text:
            return {"": ids.new_zeros((len(ids), 0))}
        encoder = self.bert.context_encoder
        return encoder.missing(len(ids), device=ids.device) if encoder is not None else None
