"""CHIM: a context that weighs the weights of one layer of a recurrent network, block by block.

Its paper asks at which of four places a review's author and product belong. Here the context is whatever the schema
makes of it. It knows no tokenizer and no trained word vectors.
Paper: Amplayo (2019), "Rethinking Attribute Representation and Injection for Sentiment Classification", a row of
MA-BERT's table.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from contextual_bert.baselines.label_model import TextHead, WordReader
from contextual_bert.context import ContextEncoder, FeatureLayout
from contextual_bert.errors import ConfigurationError, check_choice
from contextual_bert.recurrent_reading import in_front, states_of

WeighedLayer = Literal["embedding", "encoder", "attention", "classifier"]
TILES = 8  # how often the small matrix stands beside and below itself; the paper has 15 for 300 components


class Importance(nn.Module):
    """What a context makes of each weight of a matrix: a small matrix that stands beside and below itself.

    Formula:
        I = tile(sigmoid(T c))

    Shapes:
        context (batch, context) -> (batch, outputs, inputs), between 0 and 1.

    Args:
        num_inputs, num_outputs: of the matrix.
        context_size: width of c.
        output_tiles: how often the small matrix stands below itself; beside itself it stands ``TILES`` times.

    Raises:
        ConfigurationError: sizes that the tiles do not divide.

    Reference:
        Amplayo (2019), section 3.2.

    Example:
        >>> Importance(8, 16, 2)(torch.zeros(3, 2)).shape
        torch.Size([3, 16, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, context_size: int, *, output_tiles: int = TILES) -> None:
        super().__init__()
        if num_inputs % TILES or num_outputs % output_tiles:
            raise ConfigurationError(
                f"is not allowed: a matrix of {num_outputs} by {num_inputs} is no whole number of tiles",
                setting="hidden_size",
                value=num_inputs,
                fix=f"Give a multiple of {TILES}.",
            )
        self.small = (num_outputs // output_tiles, num_inputs // TILES)
        self.tiles = (output_tiles, TILES)
        self.transform = nn.Linear(context_size, self.small[0] * self.small[1])

    def forward(self, context: Tensor) -> Tensor:
        return self.transform(context).sigmoid().view(len(context), *self.small).repeat(1, *self.tiles)


class WeighedLinear(nn.Module):
    """A linear map whose weights each context weighs, or none does.

    Formula:
        y = (W * I) x + b with the ``Importance`` I of the context;  without context W x + b

    Shapes:
        inputs (batch, ..., inputs), context (batch, context) -> (batch, ..., outputs).

    Args:
        num_inputs, num_outputs: of W.
        context_size: width of the context; 0 for none.

    Example:
        >>> WeighedLinear(8, 16, context_size=2)(torch.zeros(3, 5, 8), torch.zeros(3, 2)).shape
        torch.Size([3, 5, 16])
    """

    def __init__(self, num_inputs: int, num_outputs: int, *, context_size: int = 0) -> None:
        super().__init__()
        self.linear = nn.Linear(num_inputs, num_outputs)
        self.importance = Importance(num_inputs, num_outputs, context_size) if context_size else None

    def forward(self, inputs: Tensor, context: Tensor) -> Tensor:
        if self.importance is None:
            return self.linear(inputs)
        return inputs @ (self.linear.weight * self.importance(context)).transpose(1, 2) + self.linear.bias


class WeighedLSTM(nn.Module):
    """The states of an LSTM of one direction whose weights each context weighs.

    Formula:
        f, i, o = sigmoid and u = tanh of the quarters of (W * I) [x_t ; h] + b;  s = f s + i u;  h = o tanh(s)

    Shapes:
        embedded (batch, length, size), lengths (batch,), context (batch, context) -> (batch, length, hidden).

    Args:
        size: width of x.
        hidden_size: width of h.
        context_size: width of c.
        is_backward: whether it reads from the last token to the first.
    """

    def __init__(self, size: int, hidden_size: int, *, context_size: int, is_backward: bool) -> None:
        super().__init__()
        self.gates = nn.Linear(size + hidden_size, 4 * hidden_size)
        self.importance = Importance(size + hidden_size, 4 * hidden_size, context_size)
        self.hidden_size, self.is_backward = hidden_size, is_backward

    def forward(self, embedded: Tensor, lengths: Tensor, context: Tensor) -> Tensor:
        weights = self.gates.weight * self.importance(context)
        of_inputs, of_state = weights.split([embedded.shape[2], self.hidden_size], dim=2)
        inputs = embedded @ of_inputs.transpose(1, 2) + self.gates.bias
        state = cell = embedded.new_zeros(len(embedded), self.hidden_size)
        steps = range(embedded.shape[1])
        found: list[Tensor] = []
        for step in reversed(steps) if self.is_backward else steps:
            gates = inputs[:, step] + (of_state @ state.unsqueeze(2)).squeeze(2)
            forget, enter, leave, new = gates.chunk(4, dim=1)
            after = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
            is_real = (step < lengths)[:, None]
            cell = torch.where(is_real, after, cell)
            state = torch.where(is_real, leave.sigmoid() * after.tanh(), state)
            found.append(state)
        return torch.stack(found[::-1] if self.is_backward else found, dim=1)


class CHIM(WordReader):
    """A text's label from the states of an LSTM in both directions, with the context in the weights of one layer.

    Formula:
        w_i = tanh(W_1 x_i);  h_i of the LSTM over w;  a_i = softmax over i of v . tanh(W_2 h_i + b);  logits = W_3
        sum_i a_i h_i + b';  one of W_1, the LSTM's weights, W_2 and W_3 is weighed by an ``Importance``

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        vocab_size: ids, reserved ones included.
        num_labels: labels, or 1 for regression.
        layout: the context's features.
        weighed: the layer that the context weighs: "embedding", "encoder", "attention" or "classifier".
        reserved_ids: ids that are not read; what stands before and behind one become neighbours.
        hidden_size: width of the words' vectors and of each direction, a multiple of ``TILES``.
        dropout: probability of dropping a component of a word's vector, of W_1's answers and of the text's vector.

    Raises:
        ConfigurationError: another layer; no features; a width that the tiles do not divide.

    Relation to its siblings:
        ``HierarchicalLSTM`` reads sentences, and adds the context to what the attention scores.

    Example:
        >>> from contextual_bert.testing.miniature import miniature_schema
        >>> model = CHIM(9, num_labels=2, layout=miniature_schema().layout, hidden_size=8)
        >>> model(input_ids=torch.tensor([[3, 4], [5, 6]]))["logits"].shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        weighed: WeighedLayer = "embedding",
        reserved_ids: Sequence[int] = (),
        hidden_size: int = 128,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(reserved_ids)
        check_choice("weighed", weighed, get_args(WeighedLayer))
        if not layout:
            raise ConfigurationError("A layer that the context weighs needs features in layout=...")
        self.context_encoder = ContextEncoder(layout)
        size, width = self.context_encoder.context_size, 2 * hidden_size
        self.embeddings = nn.Embedding(vocab_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.words = WeighedLinear(hidden_size, hidden_size, context_size=size if weighed == "embedding" else 0)
        is_encoder = weighed == "encoder"
        self.recurrence = (
            None if is_encoder else nn.LSTM(hidden_size, hidden_size, batch_first=True, bidirectional=True)
        )
        self.directions = nn.ModuleList(
            WeighedLSTM(hidden_size, hidden_size, context_size=size, is_backward=is_backward)
            for is_backward in (False, True)
            if is_encoder
        )
        self.key = WeighedLinear(width, hidden_size, context_size=size if weighed == "attention" else 0)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.head = TextHead(width, num_labels=num_labels, layout=(), conditioning="none", dropout=dropout)
        is_classifier = weighed == "classifier"
        self.importance = Importance(width, num_labels, size, output_tiles=1) if is_classifier else None

    def logits(self, input_ids: Tensor, is_real: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        given = context or self.context_encoder.missing(len(input_ids), device=input_ids.device)
        vector = self.context_encoder(given).vector
        places, lengths = in_front(self.read_positions(input_ids, is_real))
        words = self.words(self.dropout(self.embeddings(input_ids.gather(1, places))), vector)
        words = self.dropout(words.tanh())
        if self.recurrence is not None:
            states = states_of(self.recurrence, words, lengths)
        else:
            states = torch.cat([each(words, lengths.clamp(min=1), vector) for each in self.directions], dim=2)
        is_read = torch.arange(states.shape[1], device=states.device) < lengths.clamp(min=1)[:, None]
        scores = self.score(self.key(states, vector).tanh()).squeeze(2).masked_fill(~is_read, -torch.inf)
        text = (scores.softmax(dim=1).unsqueeze(2) * states).sum(dim=1)
        if self.importance is None:
            return self.head(text, None)
        weights = self.head.output.weight * self.importance(vector)
        return (weights @ self.head.dropout(text).unsqueeze(2)).squeeze(2) + self.head.output.bias
