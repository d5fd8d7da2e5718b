"""Cached context encodings, reusable for many sets of one customer. No item enters here.

It knows no method: how much of the way from context to blocks is free of items, the method's own state slot says.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from contextual_bert.context import ContextEmbedding
from contextual_bert.models.compatibility import check_state


@dataclass(frozen=True)
class ContextState:
    """The embedded context of customers, and the states that the blocks read; given in place of ``context``.

    Shapes:
        embedding.vector (customers, context); states[l] (customers, ...), what block l reads; held[l] (customers, ...).

    Args:
        conditioning: the method of the model that made it: no other may read it.
        num_rows: customers; one customer serves any number of sets.
        embedding: what the context encoder gave, None where the method takes no context.
        states: as many as do not depend on the items: all, the first (``state_flow``, whose blocks change it by what
            they read in the set), or none (methods without a state slot, which read ``embedding``).
        held: what each block makes of its state, where it is held while a text is written; empty elsewhere.

    Relation to its siblings:
        ``EncodedContext`` holds ids, before any weight has seen them. A state is of the weights that made it: make it
        anew after training.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(vocab_size=9, **sizes))
        >>> model.encode_context({}).states
        ()
    """

    conditioning: str
    num_rows: int
    embedding: ContextEmbedding | None
    states: tuple[Tensor, ...] = ()
    held: tuple[Tensor | None, ...] = ()

    def to(self, device: str | torch.device) -> Self:
        """The same on ``device``."""
        return self._map(lambda tensor: tensor.to(device))

    def for_sets(self, num_sets: int, *, conditioning: str) -> Self:
        """A row a set: one customer's row serves all sets, several customers have one set each.

        Raises:
            ConfigurationError: another number of rows, or the state of a model with another method.
        """
        is_empty = self.embedding is None and not self.states
        num_rows = num_sets if is_empty else self.num_rows
        check_state(made_with=self.conditioning, conditioning=conditioning, num_rows=num_rows, num_sets=num_sets)
        if num_rows == num_sets:
            return self
        return self._map(lambda tensor: tensor.expand(num_sets, *tensor.shape[1:]), num_rows=num_sets)

    def rows(self, index: Tensor) -> Self:
        """The chosen rows, by number."""
        return self._map(lambda tensor: tensor[index], num_rows=len(index))

    def joined(self, other: Self) -> Self:
        """These rows, and behind them those of another state of the same model; one row of it goes with each of these.

        Args:
            other: with as many rows, or one.
        """
        second = other.for_sets(self.num_rows, conditioning=self.conditioning)
        embedding = self.embedding
        if embedding is not None and second.embedding is not None:
            pairs = zip(embedding.features, second.embedding.features, strict=True)
            vector = torch.cat([embedding.vector, second.embedding.vector])
            both = zip(embedding.histories, second.embedding.histories, strict=True)
            histories = tuple(_of_one_width(*pair) for pair in both)
            embedding = ContextEmbedding(vector, tuple(torch.cat(pair) for pair in pairs), histories)
        states = tuple(torch.cat(pair) for pair in zip(self.states, second.states, strict=True))
        held = tuple(_of_both(*pair) for pair in zip(self.held, second.held, strict=True))
        return replace(self, num_rows=2 * self.num_rows, embedding=embedding, states=states, held=held)

    def _map(self, change: Callable[[Tensor], Tensor], **fields: int) -> Self:
        embedding = self.embedding
        if embedding is not None:
            features, histories = (tuple(map(change, each)) for each in (embedding.features, embedding.histories))
            embedding = ContextEmbedding(change(embedding.vector), features, histories)
        held = tuple(each if each is None else change(each) for each in self.held)
        return replace(self, embedding=embedding, states=tuple(map(change, self.states)), held=held, **fields)


def _of_one_width(first: Tensor, second: Tensor) -> Tensor:
    """Return the rows of two histories, padded to the longer one."""
    width = max(first.shape[1], second.shape[1])
    return torch.cat([nn.functional.pad(each, (0, 0, 0, width - each.shape[1])) for each in (first, second)])


def _of_both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return torch.cat([first, second]) if first is not None and second is not None else None
