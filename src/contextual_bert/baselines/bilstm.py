"""A recurrent network that reads a text in both directions: a label for the text, or one for each token.

Padding is not computed. It knows no tokenizer, no trained word vectors and no characters of a word.
Papers: Graves and Schmidhuber (2005); for texts Conneau et al. (2017), for tokens Huang, Xu and Yu (2015).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from contextual_bert.baselines.bag import IGNORED_LABEL
from contextual_bert.baselines.crf import LinearChainCRF
from contextual_bert.baselines.label_model import (
    LabelModel,
    TextClassifier,
    TextHead,
    embedded_beside,
    real_positions,
)
from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError
from contextual_bert.recurrent_reading import in_front, states_of


class StatesOfBothDirections(nn.Module):
    """The states of a recurrent network at each token that is read, forward and backward side by side; 0 at the others.

    Shapes:
        input_ids, is_read (batch, length); vectors (batch, length, size), after ``widen``; states (batch, length, 2
        hidden).

    Args:
        vocab_size: ids, reserved ones included.
        hidden_size: width of the token embeddings and of each direction.
        num_layers: layers of two directions each.
        dropout: probability of dropping a component of an embedding, and of a state between layers.
        kind: of the network.

    Reference:
        Graves and Schmidhuber (2005), "Framewise Phoneme Classification with Bidirectional LSTM".

    Example:
        >>> module = StatesOfBothDirections(9, hidden_size=4, num_layers=1, dropout=0.0)
        >>> module(torch.tensor([[3, 4]]), torch.tensor([[True, False]]))[0, 1].tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        hidden_size: int,
        num_layers: int,
        dropout: float,
        kind: type[nn.LSTM] | type[nn.GRU] = nn.LSTM,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ConfigurationError("is not allowed", setting="num_layers", value=num_layers, fix="Give 1 or more.")
        self.embeddings = nn.Embedding(vocab_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.recurrence = self._recurrence(kind, hidden_size, hidden_size, num_layers)

    def _recurrence(self, kind: Any, size: int, hidden_size: int, num_layers: int) -> nn.RNNBase:
        between = self.dropout.p if num_layers > 1 else 0.0  # torch warns where there is no place between layers
        return kind(size, hidden_size, num_layers, batch_first=True, bidirectional=True, dropout=between)

    def widen(self, size: int) -> None:
        """Read vectors of so many components beside the embeddings. The network's weights are drawn anew."""
        old = self.recurrence
        self.recurrence = self._recurrence(type(old), old.input_size + size, old.hidden_size, old.num_layers)

    def forward(self, input_ids: Tensor, is_read: Tensor, vectors: Tensor | None = None) -> Tensor:
        places, lengths = in_front(is_read)
        embedded = self.dropout(embedded_beside(self.embeddings, input_ids, vectors, places=places))
        states = states_of(self.recurrence, embedded, lengths)
        is_padding = torch.arange(places.shape[1], device=places.device) >= lengths[:, None]
        states = states.masked_fill(is_padding.unsqueeze(2), 0.0)
        whole = states.new_zeros(*input_ids.shape, states.shape[2])
        return whole.scatter(1, places.unsqueeze(2).expand_as(states), states)


class BiLSTM(TextClassifier):
    """A text's label from the largest value that each component of the states reaches.

    Formula:
        h = max over i of [f_i ; g_i];  logits = W [h ; c] + b

    Symbols:
        f_i and g_i the last layer's states at token i, read forward and backward.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        vocab_size: ids, reserved ones included.
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".
        reserved_ids: ids that are not read; what stands before and behind one become neighbours.
        hidden_size: width of the token embeddings and of each direction.
        num_layers: layers of two directions each.
        dropout: probability of dropping a component of an embedding, of a state between layers and of h.

    Raises:
        ConfigurationError: as ``TextHead``; no layers.

    Relation to its siblings:
        ``BiLSTMTagger`` labels every token. The maximum, not the mean, because Conneau et al. found it better.

    Reference:
        Conneau et al. (2017), "Supervised Learning of Universal Sentence Representations", section 3.2.2.

    Example:
        >>> BiLSTM(9, num_labels=2, hidden_size=4)(input_ids=torch.tensor([[3, 4], [5, 6]]))["logits"].shape
        torch.Size([2, 2])
    """

    kind: ClassVar[type[nn.LSTM] | type[nn.GRU]] = nn.LSTM

    def __init__(
        self,
        vocab_size: int,
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        reserved_ids: Sequence[int] = (),
        hidden_size: int = 128,
        num_layers: int = 1,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(
            2 * hidden_size,
            num_labels=num_labels,
            layout=layout,
            conditioning=conditioning,
            reserved_ids=reserved_ids,
            dropout=dropout,
        )
        self.states = StatesOfBothDirections(
            vocab_size, hidden_size=hidden_size, num_layers=num_layers, dropout=dropout, kind=self.kind
        )

    def widen(self, size: int) -> None:
        self.states.widen(size)

    def text_vectors(self, input_ids: Tensor, is_read: Tensor, vectors: Tensor | None = None) -> Tensor:
        states = self.states(input_ids, is_read, vectors).masked_fill(~is_read.unsqueeze(2), -torch.inf).amax(dim=1)
        return states.masked_fill(~is_read.any(dim=1, keepdim=True), 0.0)


class BiLSTMTagger(LabelModel):
    """A label for each token, by itself or, with a conditional random field, with those of its neighbours.

    Formula:
        logits_i = W [f_i ; g_i ; c] + b;  with ``has_crf`` they are the emissions of ``LinearChainCRF``

    Symbols:
        f_i and g_i the last layer's states at token i, read forward and backward; c the context.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch, length), -100 where nothing is asked; logits (batch,
        length, labels).

    Args:
        vocab_size: ids, reserved ones included; all real tokens are read, [CLS] and [SEP] too.
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".
        has_crf: the labels of a text are one chain; ``predict`` then reads it as a whole, an argmax of the logits
            would not.
        hidden_size: width of the token embeddings and of each direction.
        num_layers: layers of two directions each.
        dropout: probability of dropping a component of an embedding, of a state between layers and of the last one.

    Raises:
        ConfigurationError: as ``TextHead``; no layers; a chain of less than two labels.

    Relation to its siblings:
        ``BiLSTM`` labels the text as a whole. A chain's loss, too, is a sum over texts divided
        by the number of labels.

    Reference:
        Huang, Xu and Yu (2015), "Bidirectional LSTM-CRF Models for Sequence Tagging".

    Example:
        >>> tagger = BiLSTMTagger(9, num_labels=5, has_crf=True, hidden_size=4)
        >>> tagger(input_ids=torch.tensor([[3, 4, 1]]))["logits"].shape
        torch.Size([1, 3, 5])
    """

    kind: ClassVar[type[nn.LSTM] | type[nn.GRU]] = nn.LSTM

    def __init__(
        self,
        vocab_size: int,
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        has_crf: bool = False,
        hidden_size: int = 128,
        num_layers: int = 1,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        self.states = StatesOfBothDirections(
            vocab_size, hidden_size=hidden_size, num_layers=num_layers, dropout=dropout, kind=self.kind
        )
        self.head = TextHead(
            2 * hidden_size, num_labels=num_labels, layout=layout, conditioning=conditioning, dropout=dropout
        )
        self.crf = LinearChainCRF(num_labels) if has_crf else None

    def widen(self, size: int) -> None:
        self.states.widen(size)

    def logits(
        self,
        input_ids: Tensor,
        is_real: Tensor,
        context: Mapping[str, Tensor] | None,
        vectors: Tensor | None = None,
    ) -> Tensor:
        return self.head(self.states(input_ids, is_real, vectors), context)

    def total_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().total_loss(logits, labels) if self.crf is None else -self.crf(logits, labels).sum()

    @torch.no_grad()
    def predict(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        is_asked: Tensor | None = None,
        characters: Tensor | None = None,
    ) -> Tensor:
        """The label (batch, length) of each position asked for, by default of each real one; -100 elsewhere.

        Give a chain the positions that had labels in training: the first piece of each word.
        """
        if self.head.output.out_features == 1:
            raise ConfigurationError(
                "With num_labels=1 there is no label to choose", fix="Read the numbers from the logits."
            )
        logits = self(input_ids, attention_mask, context, characters=characters)["logits"]
        is_asked = real_positions(input_ids, attention_mask) if is_asked is None else is_asked
        if self.crf is not None:
            return self.crf.decode(logits, is_asked)
        return logits.argmax(dim=-1).masked_fill(~is_asked, IGNORED_LABEL)
