"""The repeat score: what somebody had before is proposed again, by a score of its own in the one softmax.

A score of the items that a history holds is added to the logits that all items have, so probabilities stay normalised
and a masked item is either old or new to a person. No method is known here. Not in the papers.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from contextual_bert.context.forms import NUM_INTERACTION_FEATURES, interaction_features
from contextual_bert.context.interactions import ITEM, TIMES


class AddedLogits(NamedTuple):
    """What is added to the logits of some items.

    Shapes: items (rows, n) int64, scores (rows, n); an item may occur more than once in a row.
    """

    items: Tensor
    scores: Tensor

    def to_rows(self, logits: Tensor) -> Tensor:
        """Return logits (rows, vocabulary) with the scores added."""
        return logits.scatter_add(1, self.items, self.scores.to(logits.dtype))

    def rows(self, index: slice) -> "AddedLogits":
        """Return those of some rows."""
        return AddedLogits(self.items[index], self.scores[index])


class RepeatScores(nn.Module):
    """Scores of the different items of a history.

    Formula: r_j = w . GELU(A [f_j; b_j; h; T e_j]) + v . e_j

    Symbols: h what the output layer reads at the masked position; e_j vector of item j, normalised; b_j its output
        bias; f_j what `interaction_features` says of it.

    Shapes: hidden (rows, size), history (rows, width, 4), vectors (rows, n, item size), biases (rows, n) of the first
        n -> (rows, n), 0 where the history has no further item.

    Args:
        item_size: width of the item vectors, and of what the output layer reads.
    """

    HIDDEN: ClassVar[int] = 64
    TASTE: ClassVar[int] = 16

    def __init__(self, item_size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(item_size)
        self.taste = nn.Linear(item_size, self.TASTE)
        self.again = nn.Linear(item_size, 1, bias=False)
        self.score = nn.Sequential(
            nn.Linear(NUM_INTERACTION_FEATURES + 1 + item_size + self.TASTE, self.HIDDEN),
            nn.GELU(),
            nn.Linear(self.HIDDEN, 1),
        )

    def forward(self, hidden: Tensor, history: Tensor, vectors: Tensor, biases: Tensor) -> Tensor:
        """Score each different item of each history."""
        width = vectors.shape[1]
        is_there = history[:, :width, TIMES] > 0
        vectors = self.norm(vectors)
        of_rows = hidden[:, None].expand(-1, width, -1)
        features = interaction_features(history)[:, :width].to(vectors.dtype)
        read = torch.cat([features, biases[..., None].to(vectors.dtype), of_rows, self.taste(vectors)], dim=-1)
        return (self.score(read) + self.again(vectors)).squeeze(-1).masked_fill(~is_there, 0.0)


def repeated_items(history: Tensor) -> Tensor:
    """Return the items of a history, padding where it has no further different one: (rows, width)."""
    return history[..., ITEM] * (history[..., TIMES] > 0)
