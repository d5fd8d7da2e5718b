"""Where the vectors of items' features start, and what becomes of values that training never shows.

`data.cooccurrence` gives the items their first vectors. What of these the features can say is handed to the features,
so that they start with what they know, and an item's own vector with what is particular to it.
"""

import itertools
from typing import Any

import torch
from torch import Tensor, nn

from contextual_bert.item_features import EncodedItems, ItemAttributes, ItemEncoder

# Strength of the ridge, in items: of a value that as few items have, half is believed.
NUM_DOUBTED_ITEMS = 5.0


def encoders_of(model: nn.Module) -> list[tuple[ItemEncoder, Tensor]]:
    """Return the encoders of a model's item features, each with the items' own vectors; none of what trains none."""
    found: Any = model
    return found.item_encoders() if hasattr(model, "item_encoders") else []


def stored_features(model: nn.Module) -> ItemAttributes | None:
    """Return the encoded features of a model's items, None where they have none."""
    return next((module for module in model.modules() if isinstance(module, ItemAttributes)), None)


def give_features(model: nn.Module, items: EncodedItems, learned: Tensor) -> None:
    """Store the features of the items in a new model.

    Args:
        model: built for features of this layout.
        items: those behind the reserved ids.
        learned: (items,), True for an item that the training part has.
    """
    attributes = stored_features(model)
    assert attributes is not None
    attributes.fill(items, is_new=~learned)


@torch.no_grad()
def start_with_features(model: nn.Module) -> None:
    """Move what the features can say of the items' first vectors to the features: the sums stay as they are.

    Formula:
        W = (X^T X + l I)^-1 X^T C;  own vectors E = C - X W

    Symbols: C (items, size) first vectors; X (items, values) the values of the items that are learned from; W the
        vectors of the values; l ``NUM_DOUBTED_ITEMS``.
    """
    attributes = stored_features(model)
    if attributes is None:
        return
    chosen = attributes.is_learned
    matrix = attributes.dense()[chosen].double()
    products = matrix.T @ matrix
    products.diagonal().add_(NUM_DOUBTED_ITEMS)
    for encoder, own in encoders_of(model):
        vectors = torch.linalg.solve(products, matrix.T @ own[chosen].double())
        own[chosen] -= (matrix @ vectors).to(own)
        encoder.take(vectors.to(own))
        encoder.new.weight.zero_()


@torch.no_grad()
def settle_values(model: nn.Module) -> None:
    """Give values that no learned item has, unknown ones too, the mean vector of the other values of their feature."""
    attributes = stored_features(model)
    if attributes is None:
        return
    counts = attributes.bags()[1].sums(attributes.is_learned.to(attributes.value_weights)[:, None])
    starts = attributes.layout.starts
    for encoder, _ in encoders_of(model):
        for start, stop in itertools.pairwise(starts):
            weights = counts[start:stop].to(encoder.values.weight)
            rows = encoder.values.weight[start:stop]
            mean = (weights * rows).sum(dim=0) / weights.sum().clamp(min=1)
            encoder.values.weight[start:stop] = torch.where(weights > 0, rows, mean)
