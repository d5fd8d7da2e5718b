"""The smallest recurrent network: a text's label from the last state of one that reads from left to right.

It knows no tokenizer. Paper: Elman (1990), "Finding Structure in Time".
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from contextual_bert.baselines.label_model import TextClassifier, embedded_beside
from contextual_bert.context import FeatureLayout
from contextual_bert.recurrent_reading import in_front, states_of


class LastStateRNN(TextClassifier):
    """A text's label from the state behind its last token.

    Formula:
        h_i = tanh(W x_i + U h_{i-1} + b);  logits = V [h_n ; c] + b'

    Symbols:
        x_i the vector of token i of n; c the context.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        vocab_size: ids, reserved ones included.
        num_labels: labels, or 1 for regression.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".
        reserved_ids: ids that are not read; what stands before and behind one become neighbours.
        hidden_size: width of the token embeddings and of the state.
        dropout: probability of dropping a component of an embedding and of h_n.

    Raises:
        ConfigurationError: as ``TextHead``.

    Relation to its siblings:
        ``BiLSTM`` remembers longer, reads from both sides, and takes the largest of all states.

    Reference:
        Elman (1990), "Finding Structure in Time".

    Example:
        >>> LastStateRNN(9, num_labels=2)(input_ids=torch.tensor([[3, 4], [5, 6]]))["logits"].shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        reserved_ids: Sequence[int] = (),
        hidden_size: int = 128,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(
            hidden_size,
            num_labels=num_labels,
            layout=layout,
            conditioning=conditioning,
            reserved_ids=reserved_ids,
            dropout=dropout,
        )
        self.embeddings = nn.Embedding(vocab_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.recurrence = nn.RNN(hidden_size, hidden_size, batch_first=True)

    def widen(self, size: int) -> None:
        old = self.recurrence
        self.recurrence = nn.RNN(old.input_size + size, old.hidden_size, batch_first=True)

    def text_vectors(self, input_ids: Tensor, is_read: Tensor, vectors: Tensor | None = None) -> Tensor:
        places, lengths = in_front(is_read)
        embedded = self.dropout(embedded_beside(self.embeddings, input_ids, vectors, places=places))
        states = states_of(self.recurrence, embedded, lengths)
        last = states[torch.arange(len(states), device=states.device), lengths.clamp(min=1) - 1]
        return last.masked_fill(~is_read.any(dim=1, keepdim=True), 0.0)
