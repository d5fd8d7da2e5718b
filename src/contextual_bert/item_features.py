"""Items with features: the vectors of the input and of the output matrix, made of an item's own and of its features'.

An item that training never saw has no vector of its own; what its features say stands for it. The features' values are
stored with the model, encoded. No schema and no vocabulary is known here, only layouts, ids and tensors. Not in the
paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from contextual_bert.context import FeatureLayout
from contextual_bert.context.forms import FORMS
from contextual_bert.errors import ConfigurationError, did_you_mean

ITEM_ENCODERS = ("sum", "mlp")


@dataclass(frozen=True)
class ItemLayout:
    """What a model must know of the features of its items to be built.

    Args:
        features: the layout of each feature, as ``ContextSchema.layout`` says it.
        num_places: values that an item has at most, over all features with ids.
        encoder: "sum" of linear maps, one a feature; "mlp" adds a network that reads the sum.
        dropout: how often, in training, an item is left without its own vector, so that features learn to stand for it.

    Raises:
        ConfigurationError: no such encoder; a dropout that is no share.

    Example:
        >>> ItemLayout((FeatureLayout("colour", "categorical", 5, 0, 8),), num_places=1).num_values
        5
    """

    features: tuple[FeatureLayout, ...]
    num_places: int
    encoder: str = "sum"
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if self.encoder not in ITEM_ENCODERS:
            known = did_you_mean(self.encoder, ITEM_ENCODERS)
            raise ConfigurationError("is unknown", setting="item_encoder", value=self.encoder, allowed=known)
        if not 0 <= self.dropout < 1:
            raise ConfigurationError(
                "is not allowed",
                setting="item_dropout",
                value=self.dropout,
                fix="Give a share, a number from 0 to below 1.",
            )

    @property
    def vectors(self) -> tuple[FeatureLayout, ...]:
        """Return the features that are vectors."""
        return tuple(feature for feature in self.features if feature.form == "vector")

    @property
    def starts(self) -> tuple[int, ...]:
        """Return where the values of each feature begin; of a vector there is one, that it is missing."""
        found = [0]
        for feature in self.features:
            found.append(found[-1] + (1 if feature.form == "vector" else FORMS[feature.form].num_terms(feature)))
        return tuple(found)

    @property
    def num_values(self) -> int:
        """Return the number of values of all features."""
        return self.starts[-1]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values."""
        return {**asdict(self), "features": [asdict(feature) for feature in self.features]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ItemLayout":
        """From what ``to_dict`` gave."""
        features = tuple(FeatureLayout(**feature) for feature in values["features"])
        others: dict[str, Any] = {name: value for name, value in values.items() if name != "features"}
        return cls(features, **others)


class EncodedItems(NamedTuple):
    """The features of items as a model stores them.

    Shapes: value_ids (items, places) int64 and value_weights (items, places) float32, 0 where an item has no more
    values; vectors each (items, size) float32, zeros where one is missing.
    """

    value_ids: Tensor
    value_weights: Tensor
    vectors: dict[str, Tensor]


def encode_items(features: Sequence[FeatureLayout], encoded: Mapping[str, Tensor]) -> EncodedItems:
    """Return the values of all features as one list an item, and its vectors.

    Args:
        features: the layout of each feature.
        encoded: a tensor a feature with a row an item, as ``ContextSchema`` encodes a table.

    Example:
        >>> colour = FeatureLayout("colour", "categorical", 5, 0, 8)
        >>> encode_items([colour], {"colour": torch.tensor([3, 0])}).value_ids.tolist()
        [[3], [0]]
    """
    starts = ItemLayout(tuple(features), num_places=0).starts
    ids: list[Tensor] = []
    weights: list[Tensor] = []
    vectors: dict[str, Tensor] = {}
    for feature, start in zip(features, starts[:-1], strict=True):
        values = encoded[feature.name]
        if feature.form == "vector":
            is_missing = values[:, -1:] > 0
            vectors[feature.name] = values[:, :-1].masked_fill(is_missing, 0.0).float()
            ids.append(torch.full_like(is_missing, start, dtype=torch.int64))
            weights.append(is_missing.float())
        else:
            places, shares = FORMS[feature.form].terms(feature, values)
            ids.append(places + start)
            weights.append(shares)
    return EncodedItems(torch.cat(ids, dim=1), torch.cat(weights, dim=1), vectors)


class ItemAttributes(nn.Module):
    """The encoded features of all items, and which items training has not seen. Stored with the model, not trained.

    Args:
        layout: of the features.
        vocab_size: ids of items, reserved ones included, which have no features.
        num_reserved: the ids before that of the first item.
    """

    value_ids: Tensor
    value_weights: Tensor
    is_new: Tensor

    def __init__(self, layout: ItemLayout, vocab_size: int, *, num_reserved: int) -> None:
        super().__init__()
        self.layout, self.num_reserved = layout, num_reserved
        self.register_buffer("value_ids", torch.zeros(vocab_size, layout.num_places, dtype=torch.int64))
        self.register_buffer("value_weights", torch.zeros(vocab_size, layout.num_places))
        self.register_buffer("is_new", torch.zeros(vocab_size, dtype=torch.bool))
        self.vector_names = tuple(f"vectors_{number}" for number in range(len(layout.vectors)))
        for name, feature in zip(self.vector_names, layout.vectors, strict=True):
            self.register_buffer(name, torch.zeros(vocab_size, feature.vector_size))
        self._bags: tuple[tuple[Any, ...], Bags, Bags] | None = None

    @property
    def vectors(self) -> list[Tensor]:
        """Return the vectors of each feature that has some: (vocabulary, size) each."""
        return [getattr(self, name) for name in self.vector_names]

    @property
    def is_learned(self) -> Tensor:
        """Return which ids are items that training has seen: (vocabulary,)."""
        is_item = torch.arange(len(self.is_new), device=self.is_new.device) >= self.num_reserved
        return is_item & ~self.is_new

    @torch.no_grad()
    def fill(self, items: EncodedItems, *, is_new: Tensor) -> None:
        """Take the features of all items, in the order of their ids.

        Args:
            items: of the items behind the reserved ids; with fewer places than the layout has.
            is_new: (items,), True for an item that training has not seen.
        """
        first, width = self.num_reserved, items.value_ids.shape[1]
        self.value_ids[first:, :width] = items.value_ids.to(self.value_ids)
        self.value_weights[first:, :width] = items.value_weights.to(self.value_weights)
        self.value_ids[first:, width:] = 0
        self.value_weights[first:, width:] = 0
        for vectors, feature in zip(self.vectors, self.layout.vectors, strict=True):
            vectors[first:] = items.vectors[feature.name].to(vectors)
        self.is_new[first:] = is_new.to(self.is_new)

    def dense(self) -> Tensor:
        """Return the weights of all values and the components of all vectors: (vocabulary, values + components)."""
        values = torch.zeros(len(self.value_ids), self.layout.num_values, device=self.value_ids.device)
        values.scatter_add_(1, self.value_ids, self.value_weights)
        return torch.cat([values, *self.vectors], dim=1)

    def drawn_without_own(self) -> Tensor:
        """Draw the items that a training step leaves without their own vectors, those that are new among them."""
        drawn = torch.rand(self.is_new.shape, device=self.is_new.device) < self.layout.dropout
        drawn[: self.num_reserved] = False
        return drawn | self.is_new

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bags": None}

    def bags(self) -> tuple["Bags", "Bags"]:
        """Return the values of each item, and the items of each value, made once."""
        key = _signature(self.value_ids, self.value_weights)
        if self._bags is None or not _is_same(self._bags[0], key):
            is_there = self.value_weights != 0
            rows, values, weights = is_there.nonzero()[:, 0], self.value_ids[is_there], self.value_weights[is_there]
            of_items = Bags.of(rows, values, weights, num_bags=len(self.value_ids))
            of_values = Bags.of(values, rows, weights, num_bags=self.layout.num_values)
            self._bags = (key, of_items, of_values)
        return self._bags[1:]


class Bags(NamedTuple):
    """Weighted sums of rows of a matrix: those of a sparse matrix, several times as fast as its product.

    Shapes: places, weights (entries,); starts (bags,).
    """

    places: Tensor
    starts: Tensor
    weights: Tensor

    @classmethod
    def of(cls, bags: Tensor, places: Tensor, weights: Tensor, *, num_bags: int) -> "Bags":
        """Return the bags of entries that each name their bag, the row that they add and how much it counts."""
        order = bags.argsort(stable=True)
        sizes = torch.bincount(bags, minlength=num_bags)
        return cls(places[order], sizes.cumsum(0) - sizes, weights[order])

    def sums(self, rows: Tensor) -> Tensor:
        """Return the sum of each bag: (rows, size) -> (bags, size)."""
        return nn.functional.embedding_bag(
            self.places, rows, self.starts, per_sample_weights=self.weights.to(rows.dtype), mode="sum"
        )


class _ItemTable(torch.autograd.Function):
    """E + M W with the vector n in the place of some rows of E, for the sparse M of the items' values.

    The gradients are M^T G, G without these rows, and their sum: one pass and one copy, where separate operations would
    each go through a matrix as large as the vocabulary.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, new: Tensor, values: Tensor, bags: tuple[Bags, Bags], rows: Tensor) -> Tensor:
        of_items, ctx.of_values = bags
        ctx.save_for_backward(rows)
        table = of_items.sums(values)
        if len(rows):
            kept = table[rows] + new
            return table.add_(own).index_copy_(0, rows, kept)
        return table.add_(own)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (rows,) = ctx.saved_tensors
        with torch.autocast(gradient.device.type, enabled=False):
            for_values = ctx.of_values.sums(gradient.contiguous())
            for_new = gradient[rows].sum(dim=0, keepdim=True)
            return gradient.index_fill(0, rows, 0.0), for_new, for_values, None, None


class ItemEncoder(nn.Module):
    """The matrix of the items' vectors: an item's own, or that of a new item, and what its features add.

    Formula:
        t_i = [i has an own vector] e_i + [it has none] n + f_i;  f_i = sum_k w_k[a_k(i)] + sum_m V_m v_m(i);
        with ``mlp`` f_i + B GELU(A f_i)

    Symbols: e_i own vector of item i; n the vector of a new item; a_k(i) the value of its feature k, w_k the vectors of
        its values; v_m(i) a given vector, such as a picture's.

    Shapes: weight (vocabulary, size), is_without_own (vocabulary,) -> (vocabulary, size).

    Args:
        layout: of the features.
        size: of the vectors.

    Relation to its siblings: ``ItemAttributes`` has the values; two encoders share them where the matrices of input and
        output are not tied.
    """

    def __init__(self, layout: ItemLayout, size: int) -> None:
        super().__init__()
        self.layout = layout
        self.values = nn.Embedding(layout.num_values, size)
        self.projections = nn.ModuleList(nn.Linear(each.vector_size, size, bias=False) for each in layout.vectors)
        self.new = nn.Embedding(1, size)  # a table of one row, which initialisation by class reaches
        self.network = (
            nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))
            if layout.encoder == "mlp"
            else None
        )
        self._table: tuple[tuple[Any, ...], Tensor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}

    def train(self, mode: bool = True) -> Self:
        self._table = None  # fused optimisers change weights without counting a version
        return super().train(mode)

    @torch.no_grad()
    def take(self, vectors: Tensor) -> None:
        """Take a vector for each value and component, in the order of ``ItemAttributes.dense``; a network adds nothing
        to their sum at first.
        """
        sizes = [self.layout.num_values, *(each.vector_size for each in self.layout.vectors)]
        values, *projections = vectors.split(sizes)
        self.values.weight.copy_(values)
        for projection, rows in zip(self.projections, projections, strict=True):
            cast(nn.Linear, projection).weight.copy_(rows.T)
        if self.network is not None:
            for weight in cast(nn.Module, self.network[-1]).parameters():
                weight.zero_()

    def forward(self, weight: Tensor, attributes: ItemAttributes, is_without_own: Tensor | None = None) -> Tensor:
        """Return the vectors of all items; those of a model that is not trained are made once.

        Args:
            weight: the own vectors.
            attributes: the values of the features.
            is_without_own: items whose own vector is left out; None: those that training has not seen.
        """
        if torch.is_grad_enabled() or is_without_own is not None or torch.compiler.is_compiling():
            return self._made(weight, attributes, attributes.is_new if is_without_own is None else is_without_own)
        key = _signature(weight, *self.parameters(), *attributes.buffers())
        if self._table is None or not _is_same(self._table[0], key):
            self._table = (key, self._made(weight, attributes, attributes.is_new))
        return self._table[1]

    def output_of(
        self, own: nn.Linear, new_bias: Tensor, attributes: ItemAttributes, is_without_own: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the output matrix and its biases; in training a new item is never an answer.

        Args:
            own: the own vectors and biases.
            new_bias: (1,) of an item without a bias of its own.
            attributes: the values of the features.
            is_without_own: in training, items whose own vector and bias are left out; None: those that training has not
                seen.
        """
        weight = self(own.weight, attributes, is_without_own)
        bias = torch.where(attributes.is_new if is_without_own is None else is_without_own, new_bias, own.bias)
        return weight, bias if is_without_own is None else bias.masked_fill(attributes.is_new, -torch.inf)

    def _made(self, weight: Tensor, attributes: ItemAttributes, is_without_own: Tensor) -> Tensor:
        rows = is_without_own.nonzero()[:, 0]
        with torch.autocast(weight.device.type, enabled=False):
            if self.network is None:
                return self._sum(weight, self.new.weight, attributes, rows)
            # The network reads the features alone.
            nothing = torch.zeros_like(weight[:1])
            features = self._sum(torch.zeros_like(weight), nothing, attributes, rows[:0])
            own = weight.index_copy(0, rows, self.new.weight.expand(len(rows), -1))
            return own + features + self.network(features)

    def _sum(self, own: Tensor, new: Tensor, attributes: ItemAttributes, rows: Tensor) -> Tensor:
        """Return own vectors, or that of a new item in these rows, with the features of each item added."""
        total: Any = _ItemTable.apply(own, new, self.values.weight, attributes.bags(), rows)
        for projection, vectors in zip(self.projections, attributes.vectors, strict=True):
            total = total + projection(vectors)
        return total


def _signature(*tensors: Tensor) -> tuple[Any, ...]:
    """Return what changes whenever one of these tensors does."""
    versions = tuple(None if tensor.is_inference() else tensor._version for tensor in tensors)
    places = tuple((tensor.data_ptr(), tensor.device, tensor.dtype) for tensor in tensors)
    return tensors, versions, places


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return True if two signatures are of the same tensors, unchanged."""
    are_known = None not in one[1] and len(one[0]) == len(other[0])
    return are_known and all(a is b for a, b in zip(one[0], other[0], strict=True)) and one[1:] == other[1:]
