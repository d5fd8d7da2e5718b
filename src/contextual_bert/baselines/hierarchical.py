"""Words make sentences, sentences make a text: NSC, NSC+LA, NSC+UPA and HUAPA, for whatever context there is.

Their papers know two features, the author and the product of a review; here each is as wide as the schema makes it, and
there may be any number. Words are the tokens, their vectors start at random. No tokenizer is known.
Papers: Chen et al. (2016), "Neural Sentiment Classification with User and Product Attention"; Wu et al. (2018),
"Improving Review Representations with User Attention and Product Attention for Sentiment Classification". Both are rows
of MA-BERT's table.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from contextual_bert.baselines.label_model import (
    TextHead,
    WordReader,
    id_buffer,
    mean_over_labels,
    real_positions,
    summed_loss,
)
from contextual_bert.baselines.sentence_splitting import Sentences, sentence_ends, split_sentences
from contextual_bert.context import ContextEncoder, FeatureLayout
from contextual_bert.errors import ConfigurationError
from contextual_bert.recurrent_reading import states_of

# "mean" (NSC), "attention" (NSC+LA), "context" (NSC+UPA: attention scored with the context), "features" (HUAPA: a
# hierarchy for each feature, whose attention is scored with it alone).
SentencePooling = Literal["mean", "attention", "context", "features"]
OWN_LOSS = 0.6  # of the hierarchies' own losses together, beside that of all of them; HUAPA has 0.3 and 0.3 for 0.4


class SequencePooling(nn.Module):
    """The mean of the states of a sequence, or their sum by attention, scored with a context where there is one.

    Formula:
        a_i = softmax over i of v . tanh(W h_i + U c + b);  pooled = sum_i a_i h_i;  without attention a_i = 1 / n

    Shapes:
        states (rows, length, hidden), lengths (rows,), context (rows, context) -> (rows, hidden).

    Args:
        hidden_size: width of h.
        has_attention: whether there is an a to learn.
        context_size: width of c; 0 for none.

    Reference:
        Chen et al. (2016), equations 5 to 8.

    Example:
        >>> pool = SequencePooling(2, has_attention=False)
        >>> pool(torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]]), torch.tensor([2]), None).tolist()
        [[2.0, 3.0]]
    """

    def __init__(self, hidden_size: int, *, has_attention: bool, context_size: int = 0) -> None:
        super().__init__()
        self.key = nn.Linear(hidden_size, hidden_size) if has_attention else None
        self.context = nn.Linear(context_size, hidden_size, bias=False) if context_size else None
        self.score = nn.Linear(hidden_size, 1, bias=False) if has_attention else None

    def forward(self, states: Tensor, lengths: Tensor, context: Tensor | None) -> Tensor:
        is_real = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
        if self.key is None or self.score is None:
            return (states * is_real.unsqueeze(2)).sum(dim=1) / lengths[:, None]
        keys = self.key(states)
        if self.context is not None and context is not None:
            keys = keys + self.context(context).unsqueeze(1)
        weights = self.score(keys.tanh()).squeeze(2).masked_fill(~is_real, -torch.inf).softmax(dim=1)
        return (weights.unsqueeze(2) * states).sum(dim=1)


class Hierarchy(nn.Module):
    """A vector for each text, from those of its sentences, from those of its words.

    Shapes:
        embedded (sentences, words, size) -> (batch, 2 hidden).

    Args:
        size: width of the words' vectors.
        hidden_size: width of each direction.
        has_attention, context_size: as for ``SequencePooling``.

    Reference:
        Chen et al. (2016), section 3.2; Wu et al. (2018), section "Hierarchical".
    """

    def __init__(self, size: int, hidden_size: int, *, has_attention: bool, context_size: int) -> None:
        super().__init__()
        both: dict[str, Any] = {"batch_first": True, "bidirectional": True}
        self.of_words = nn.LSTM(size, hidden_size, **both)
        self.of_sentences = nn.LSTM(2 * hidden_size, hidden_size, **both)
        settings: dict[str, Any] = {"has_attention": has_attention, "context_size": context_size}
        self.word_pooling = SequencePooling(2 * hidden_size, **settings)
        self.sentence_pooling = SequencePooling(2 * hidden_size, **settings)

    def forward(self, embedded: Tensor, sentences: Sentences, context: Tensor | None) -> Tensor:
        states = states_of(self.of_words, embedded, sentences.num_words)
        of_sentences = context[sentences.text] if context is not None else None
        pooled = self.word_pooling(states, sentences.num_words, of_sentences)
        longest = int(sentences.num_sentences.max())
        grid = pooled.new_zeros(len(sentences.num_sentences), longest, pooled.shape[1])
        grid = grid.index_put((sentences.text, sentences.place), pooled)
        states = states_of(self.of_sentences, grid, sentences.num_sentences)
        return self.sentence_pooling(states, sentences.num_sentences, context)


class HierarchicalLSTM(WordReader):
    """A text's label from its sentences, and theirs from their words, with the context in the attention or without.

    Formula:
        logits = W [d_1 ; ... ; d_k ; c] + b of k hierarchies: one, or with "features" one for each feature. Its loss is
        then 0.4 L(logits) + 0.6 / k sum_i L(W_i d_i + b_i).

    Symbols:
        d the vector of a ``Hierarchy``; c the context, with "concat" alone.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        vocabulary: the token of each id, reserved ones included; a run of ``sentence_ends`` ends a sentence.
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none", or "concat" where the attention does not read the context.
        pooling: "mean" (NSC), "attention" (NSC+LA), "context" (NSC+UPA) or "features" (HUAPA).
        reserved_ids: ids that are not read; what stands before and behind one become neighbours.
        hidden_size: width of the word vectors and of each direction.
        dropout: probability of dropping a component of a word's vector and of the text's.

    Raises:
        ConfigurationError: as ``TextHead``; "context" or "features" without features, or with "concat".

    Relation to its siblings:
        ``BiLSTM`` reads the text as one sentence. The papers drop nothing and start from word vectors of their corpus.

    Example:
        >>> model = HierarchicalLSTM(["[PAD]", "so", "good", "."], num_labels=2, hidden_size=4)
        >>> model(input_ids=torch.tensor([[1, 2, 3, 2]]))["logits"].shape
        torch.Size([1, 2])
    """

    sentence_ends: Tensor

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        pooling: SentencePooling = "mean",
        reserved_ids: Sequence[int] = (),
        hidden_size: int = 128,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(reserved_ids)
        reads_context = pooling in ("context", "features")
        if reads_context and not layout:
            raise ConfigurationError(
                "needs features in layout=...; without any, give 'attention'", setting="pooling", value=pooling
            )
        if reads_context and conditioning != "none":
            raise ConfigurationError(
                f"does not go with pooling={pooling!r}, which reads the context already",
                setting="conditioning",
                value=conditioning,
                fix="Leave it out.",
            )
        self.register_buffer("sentence_ends", id_buffer(sentence_ends(vocabulary)), persistent=False)
        self.pooling = pooling
        self.context_encoder = ContextEncoder(layout) if reads_context else None
        self.embeddings = nn.Embedding(len(vocabulary), hidden_size)
        self.dropout = nn.Dropout(dropout)
        sizes = [0]
        if self.context_encoder is not None:
            whole = [self.context_encoder.context_size]
            sizes = [feature.embedding_size for feature in layout] if pooling == "features" else whole
        self.hierarchies = nn.ModuleList(
            Hierarchy(hidden_size, hidden_size, has_attention=pooling != "mean", context_size=size) for size in sizes
        )
        width = 2 * hidden_size
        self.head = TextHead(
            width * len(sizes), num_labels=num_labels, layout=layout, conditioning=conditioning, dropout=dropout
        )
        self.own_outputs = nn.ModuleList(nn.Linear(width, num_labels) for _ in sizes if len(sizes) > 1)

    def text_vectors(self, input_ids: Tensor, is_real: Tensor, context: Mapping[str, Tensor] | None) -> list[Tensor]:
        """(batch, 2 hidden) of each hierarchy; ``context=None`` is a context of which every feature is missing."""
        sentences = split_sentences(input_ids, self.read_positions(input_ids, is_real), self.sentence_ends)
        embedded = self.dropout(self.embeddings(sentences.words))
        vectors: Sequence[Tensor | None] = [None]
        if self.context_encoder is not None:
            given = context or self.context_encoder.missing(len(input_ids), device=input_ids.device)
            found = self.context_encoder(given)
            vectors = found.features if self.pooling == "features" else [found.vector]
        return [each(embedded, sentences, vector) for each, vector in zip(self.hierarchies, vectors, strict=True)]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        characters: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Logits and, with labels, the loss: in training of each hierarchy, too; ``characters`` are not read."""
        vectors = self.text_vectors(input_ids, real_positions(input_ids, attention_mask), context)
        logits = self.head(torch.cat(vectors, dim=1), context)
        if labels is None:
            return {"logits": logits}
        total = self.total_loss(logits, labels)
        if self.training and len(self.own_outputs):
            own = [summed_loss(output(each), labels) for output, each in zip(self.own_outputs, vectors, strict=True)]
            total = (1 - OWN_LOSS) * total + OWN_LOSS * torch.stack(own).mean()
        return {"loss": mean_over_labels(total, labels, num_items_in_batch), "logits": logits}
