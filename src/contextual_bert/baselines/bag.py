"""A bag of items: what many deploy before a transformer, and the bar that one has to clear.

The order and the interplay of items are not seen, only their mean. It has the two faces of the models, a loss for
training and ``score_masked`` for evaluation, and knows nothing of transformers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding, linear

from contextual_bert.candidates import MaskedScores, SoftmaxOver, exclude, excluded_ids, rank_targets
from contextual_bert.context import ContextEncoder, FeatureLayout
from contextual_bert.errors import ConfigurationError
from contextual_bert.item_features import ItemAttributes, ItemEncoder, ItemLayout

IGNORED_LABEL = -100
INITIAL_SCALE = 0.02  # of the vectors of items, and of values of the context
MASK_ID = 1  # without labels, logits are given where the input has it


class BagOfItems(nn.Module):
    """Predicts the masked item from the mean of the others' embeddings and, if wished, the context.

    Formula:
        h = W_x mean(x_j of the visible items) + W_c c + b;  Pr(M = w) = softmax(U ReLU(h) + d)_w

    Symbols:
        x_j item embeddings; c the concatenated feature embeddings; U output matrix, not tied. Of items with features
        both x and U are made of an item's own vectors and of its features', as ``ItemEncoder`` does.

    Shapes:
        input_ids and labels (batch, length), labels -100 where nothing is asked; scores (masked,).

    Args:
        vocab_size: items, reserved ids included.
        layout: the context's features; empty for the bag without context.
        hidden_size: width of h.
        num_reserved: ids below this are no items.
        dropout: probability of dropping a component of h.
        softmax_over: what loss and scores go over, see ``candidates``.
        item_layout: of the items' features, whose values ``attributes`` is then given; None: items are ids alone.

    Relation to its siblings:
        Same data, masks, loss, optimiser and evaluation as the contextual BERT; no attention.

    Reference:
        Mikolov et al. (2013), "Efficient Estimation of Word Representations in Vector Space", the bag-of-words model.

    Example:
        >>> bag = BagOfItems(9, layout=(), hidden_size=4)
        >>> bag(input_ids=torch.tensor([[3, 4, 1]]), labels=torch.tensor([[-100, -100, 5]]))["loss"].shape
        torch.Size([])
    """

    accepts_loss_kwargs = True  # transformers' Trainer then hands over the number of masks of the whole batch

    def __init__(
        self,
        vocab_size: int,
        *,
        layout: Sequence[FeatureLayout],
        hidden_size: int = 256,
        num_reserved: int = 3,
        dropout: float = 0.1,
        softmax_over: SoftmaxOver = "vocabulary",
        item_layout: ItemLayout | None = None,
    ) -> None:
        super().__init__()
        self.softmax_over: SoftmaxOver = softmax_over
        self.num_reserved = num_reserved
        self.hidden_size = hidden_size
        self.items = nn.Embedding(vocab_size, hidden_size)
        self.context_encoder = ContextEncoder(layout, item_size=hidden_size) if layout else None
        self.context = (
            nn.Linear(self.context_encoder.context_size, hidden_size) if self.context_encoder is not None else None
        )
        self.hidden = nn.Linear(hidden_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_size, vocab_size)
        self.attributes = self.item_encoder = self.output_encoder = self.new_item_bias = None
        if item_layout is not None:
            self.attributes = ItemAttributes(item_layout, vocab_size, num_reserved=num_reserved)
            self.item_encoder, self.output_encoder = (ItemEncoder(item_layout, hidden_size) for _ in range(2))
            self.new_item_bias = nn.Embedding(1, 1)
            for projection in (*self.item_encoder.projections, *self.output_encoder.projections):
                nn.init.normal_(cast(nn.Linear, projection).weight, std=INITIAL_SCALE)
        # The context as loud as the items: at variance 1 its values drown them, 0.15 nats on Ta-Feng.
        for vectors in (module for module in self.modules() if isinstance(module, nn.Embedding)):
            nn.init.normal_(vectors.weight, std=INITIAL_SCALE)

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        return self.output.weight.device

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> dict[str, Any]:
        """Return logits (masked, vocabulary) and, with labels, the loss. Reserved ids are not read."""
        asked = labels != IGNORED_LABEL if labels is not None else input_ids == MASK_ID
        rows, _ = asked.nonzero(as_tuple=True)
        logits = self.logits(input_ids, context)[rows]
        if labels is None:
            return {"logits": logits}
        excluded = excluded_ids(
            self.softmax_over, input_ids, set_places(asked, input_ids), reserved=range(self.num_reserved)
        )
        targets = labels[asked]
        total = cross_entropy(exclude(logits.float(), excluded, targets), targets, reduction="sum")
        count = num_items_in_batch if num_items_in_batch is not None else len(logits)
        return {"loss": total / count, "logits": logits}

    def logits(self, input_ids: Tensor, context: Mapping[str, Tensor] | None) -> Tensor:
        """Return the logits of each set: (batch, vocabulary)."""
        drawn = self.attributes.drawn_without_own() if self.training and self.attributes is not None else None
        items = self.item_table(drawn)
        hidden = self.hidden(self.mean_of_visible(input_ids, items))
        if self.context is not None and self.context_encoder is not None:
            if context is None:
                raise ConfigurationError("This bag was built with a context, and none came", fix="Give context=....")
            embedded = self.context_encoder(context, lambda ids: embedding(ids, items))
            hidden = hidden + self.context(embedded.vector)
        return linear(self.dropout(hidden.relu()), *self.output_matrix(drawn))

    def item_table(self, is_without_own: Tensor | None = None) -> Tensor:
        """Return the vectors of all ids: (vocabulary, hidden).

        Args:
            is_without_own: items whose own vector a step of the training leaves out; None: those that training lacks.
        """
        if self.item_encoder is None or self.attributes is None:
            return self.items.weight
        return self.item_encoder(self.items.weight, self.attributes, is_without_own)

    def output_matrix(self, is_without_own: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return U and d: of items with features with what these add; in training a new item is never an answer.

        Args:
            is_without_own: as for ``item_table``.
        """
        if self.output_encoder is None or self.new_item_bias is None or self.attributes is None:
            return self.output.weight, self.output.bias
        return self.output_encoder.output_of(self.output, self.new_item_bias.weight[0], self.attributes, is_without_own)

    def item_encoders(self) -> list[tuple[ItemEncoder, Tensor]]:
        """Return what makes the vectors of items with features, each with the own vectors; none without features."""
        found = [(self.item_encoder, self.items.weight), (self.output_encoder, self.output.weight)]
        return [(encoder, own) for encoder, own in found if encoder is not None]

    def mean_of_visible(self, input_ids: Tensor, items: Tensor) -> Tensor:
        """(batch, hidden): the mean of the vectors of the real items, zero where none is visible."""
        is_visible = (input_ids >= self.num_reserved).unsqueeze(-1)
        total = (embedding(input_ids, items) * is_visible).sum(dim=1)
        return total / is_visible.sum(dim=1).clamp(min=1)

    @torch.no_grad()
    def score_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        labels: Tensor | None = None,
    ) -> MaskedScores:
        """Rank the true item of each masked position: (masked,) each."""
        logits = self.logits(input_ids, context)
        return score_by_logits(
            logits, input_ids, labels, softmax_over=self.softmax_over, num_reserved=self.num_reserved
        )


def score_by_logits(
    logits: Tensor,
    input_ids: Tensor,
    labels: Tensor | None,
    *,
    softmax_over: SoftmaxOver,
    num_reserved: int,
) -> MaskedScores:
    """Rank the true item of each masked position by the logits of its set.

    Args:
        logits: of each set (batch, vocabulary).
        input_ids: the sets (batch, length).
        labels: (batch, length), -100 where nothing is asked.
        softmax_over: see ``candidates``.
        num_reserved: ids below this are no items.

    Raises:
        ConfigurationError: there are no labels.
    """
    if labels is None:
        raise ConfigurationError("Scoring needs labels: the true item at each masked position, -100 elsewhere.")
    asked = labels != IGNORED_LABEL
    reserved = torch.arange(num_reserved, device=input_ids.device)
    excluded = excluded_ids(softmax_over, input_ids, set_places(asked, input_ids), reserved=range(num_reserved))
    of_asked = logits[asked.nonzero(as_tuple=True)[0]]
    of_asked = of_asked.to(torch.promote_types(of_asked.dtype, torch.float32))
    return rank_targets(of_asked, labels[asked], excluded, reserved=reserved)


def masked_logits(logits: Tensor, input_ids: Tensor) -> dict[str, Tensor]:
    """Return the logits (batch, vocabulary) of each place with a [MASK], as models give them without labels.

    Example:
        >>> masked_logits(torch.zeros(2, 9), torch.tensor([[5, 1], [6, 7]]))["logits"].shape
        torch.Size([1, 9])
    """
    return {"logits": logits[(input_ids == MASK_ID).nonzero(as_tuple=True)[0]]}


def set_places(asked: Tensor, input_ids: Tensor) -> Tensor:
    """Return for all that is asked a place of its set in the flattened input_ids, whatever is asked of a set."""
    return asked.nonzero(as_tuple=True)[0] * input_ids.shape[1]
