"""The forms that a feature's tensor has in a batch: an id a row, a list of ids, or a vector.

Each form says how to embed it, which state is missing or unknown, and what a linear model adds up. A kind of feature
names its form and needs no torch itself. No schema is known here. Paper: section 4.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.context.encoding import missing_like
from contextual_bert.context.interactions import (
    BASKETS_AGO,
    DAYS_AGO,
    ITEM,
    MISSING_ITEM,
    TIMES,
    UNKNOWN_DAYS,
    UNKNOWN_ITEM,
    WIDTH,
)
from contextual_bert.context.kinds.feature import MISSING, MULTI_MISSING, MULTI_PADDING, FeatureLayout, Form
from contextual_bert.errors import ConfigurationError, Message


class TensorForm(ABC):
    """A form: what is computed on the tensors of all features that have it."""

    @abstractmethod
    def module(self, layout: FeatureLayout, *, item_size: int | None = None) -> nn.Module:
        """Make the module that embeds a batch.

        Args:
            layout: of the feature.
            item_size: width of the vectors of the model's items; None where it has none.
        """

    @abstractmethod
    def missing(self, layout: FeatureLayout, num_rows: int, *, device: torch.device | None = None) -> Tensor:
        """Return rows in which the feature is missing."""

    @abstractmethod
    def random(self, layout: FeatureLayout, num_rows: int, *, generator: torch.Generator) -> Tensor:
        """Return random rows, as an export is tried with."""

    @abstractmethod
    def num_terms(self, layout: FeatureLayout) -> int:
        """Return the number of weights that a linear model of the feature has."""

    @abstractmethod
    def terms(self, layout: FeatureLayout, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return which of these weights each row adds up, and how much each counts.

        Shapes:
            (batch, ...) -> (batch, terms) int64, (batch, terms) float32.
        """


class IdForm(TensorForm):
    """An id a row: (batch,) int64. The id 0 is missing."""

    def module(self, layout: FeatureLayout, *, item_size: int | None = None) -> nn.Module:
        return ValueEmbedding(layout.num_embeddings, layout.embedding_size)

    def missing(self, layout: FeatureLayout, num_rows: int, *, device: torch.device | None = None) -> Tensor:
        return torch.full((num_rows,), MISSING, device=device)

    def random(self, layout: FeatureLayout, num_rows: int, *, generator: torch.Generator) -> Tensor:
        return torch.randint(0, layout.num_embeddings, (num_rows,), generator=generator)

    def num_terms(self, layout: FeatureLayout) -> int:
        return layout.num_embeddings

    def terms(self, layout: FeatureLayout, values: Tensor) -> tuple[Tensor, Tensor]:
        return values[:, None], torch.ones(len(values), 1, device=values.device)


class IdListForm(TensorForm):
    """A list of ids a row: (batch, width) int64. The id 0 is padding; a row that begins with 1 is missing."""

    _RANDOM_WIDTH: ClassVar[int] = 2

    def module(self, layout: FeatureLayout, *, item_size: int | None = None) -> nn.Module:
        return MeanEmbedding(layout.num_embeddings, layout.embedding_size)

    def missing(self, layout: FeatureLayout, num_rows: int, *, device: torch.device | None = None) -> Tensor:
        return torch.full((num_rows, 1), MULTI_MISSING, device=device)

    def random(self, layout: FeatureLayout, num_rows: int, *, generator: torch.Generator) -> Tensor:
        return torch.randint(0, layout.num_embeddings, (num_rows, self._RANDOM_WIDTH), generator=generator)

    def num_terms(self, layout: FeatureLayout) -> int:
        return layout.num_embeddings

    def terms(self, layout: FeatureLayout, values: Tensor) -> tuple[Tensor, Tensor]:
        is_real = (values != MULTI_PADDING).float()
        return values, is_real / is_real.sum(dim=1, keepdim=True).clamp(min=1)


class VectorForm(TensorForm):
    """A vector a row: (batch, vector_size + 1) float32. The last component is 1 where the vector is missing."""

    def module(self, layout: FeatureLayout, *, item_size: int | None = None) -> nn.Module:
        return VectorProjection(layout.vector_size, layout.embedding_size)

    def missing(self, layout: FeatureLayout, num_rows: int, *, device: torch.device | None = None) -> Tensor:
        values = torch.zeros(num_rows, layout.vector_size + 1, device=device)
        values[:, -1] = 1
        return values

    def random(self, layout: FeatureLayout, num_rows: int, *, generator: torch.Generator) -> Tensor:
        values = torch.randn(num_rows, layout.vector_size + 1, generator=generator)
        values[:, -1] = torch.arange(num_rows) % 2
        return values

    def num_terms(self, layout: FeatureLayout) -> int:
        return layout.vector_size + 1

    def terms(self, layout: FeatureLayout, values: Tensor) -> tuple[Tensor, Tensor]:
        is_missing = values[:, -1:] > 0
        places = torch.arange(layout.vector_size + 1, device=values.device).expand(len(values), -1)
        return places, torch.cat([values[:, :-1].masked_fill(is_missing, 0.0), is_missing.to(values)], dim=1)


class HistoryForm(TensorForm):
    """Interactions a row: (batch, width, 4) int64, see `interactions`. Padding has the item 0, missing the item 1."""

    _RANDOM_WIDTH: ClassVar[int] = 2
    _NUM_BUCKETS: ClassVar[int] = 512  # of a linear model, which shares its weights among items

    def module(self, layout: FeatureLayout, *, item_size: int | None = None) -> nn.Module:
        if item_size is None:
            raise ConfigurationError(
                f"the feature {layout.name!r} is a history, and this model has no vectors of items",
                fix=Message("Leave it out ({exclude}), or take a model of sets.", exclude=(layout.name,)),
            )
        return HistoryPooling(item_size, layout.embedding_size)

    def missing(self, layout: FeatureLayout, num_rows: int, *, device: torch.device | None = None) -> Tensor:
        values = torch.zeros(num_rows, 1, WIDTH, dtype=torch.int64, device=device)
        values[..., ITEM] = MISSING_ITEM
        return values

    def random(self, layout: FeatureLayout, num_rows: int, *, generator: torch.Generator) -> Tensor:
        values = torch.zeros(num_rows, self._RANDOM_WIDTH, WIDTH, dtype=torch.int64)
        values[..., ITEM] = UNKNOWN_ITEM + torch.arange(self._RANDOM_WIDTH) * torch.randint(
            0, 2, (num_rows, 1), generator=generator
        )
        values[..., BASKETS_AGO] = torch.randint(0, 3, (num_rows, 1), generator=generator)
        values[..., TIMES], values[..., DAYS_AGO] = 1, UNKNOWN_DAYS
        return values

    def num_terms(self, layout: FeatureLayout) -> int:
        return 1 + self._NUM_BUCKETS

    def terms(self, layout: FeatureLayout, values: Tensor) -> tuple[Tensor, Tensor]:
        times = values[..., TIMES]
        is_there = (times > 0).float()
        places = torch.where(times > 0, 1 + values[..., ITEM] % self._NUM_BUCKETS, 0)
        shares = is_there / is_there.sum(dim=1, keepdim=True).clamp(min=1)
        shares[:, 0] += (is_there.sum(dim=1) == 0).float()  # nothing before: the term 0
        return places, shares


FORMS: Mapping[Form, TensorForm] = {
    "id": IdForm(),
    "id_list": IdListForm(),
    "vector": VectorForm(),
    "history": HistoryForm(),
}


class ValueEmbedding(nn.Embedding):
    """One row of a table for each id: a category, or the bin of a number.

    Shapes: (batch,) -> (batch, size).

    Example:
        >>> ValueEmbedding(4, 8)(torch.tensor([0, 3])).shape
        torch.Size([2, 8])
    """


class MeanEmbedding(nn.Embedding):
    """The mean of the rows of the real ids; padding counts for nothing.

    e = sum_j [id_j != padding] E[id_j] / sum_j [id_j != padding]

    Shapes: (batch, width) -> (batch, size).

    Relation to its siblings: `nn.EmbeddingBag` with the ids of a row as its bag; a row of padding alone gives zeros.

    Example:
        >>> module = MeanEmbedding(6, 8)
        >>> torch.equal(module(torch.tensor([[4, 5, 0, 0]])), module(torch.tensor([[4, 5]])))
        True
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the overridden method
        return functional.embedding_bag(input, self.weight, mode="mean", padding_idx=MULTI_PADDING)

    def for_export(self) -> nn.Module:
        """Return a module that computes the same and that ONNX has operators for."""
        return SummedMeanEmbedding(self)


class SummedMeanEmbedding(nn.Module):
    """MeanEmbedding from a gather and two sums: the exporter makes a loop over the rows of an embedding bag."""

    def __init__(self, embedding: MeanEmbedding) -> None:
        super().__init__()
        weight = embedding.weight.detach().clone()
        weight[MULTI_PADDING] = 0
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        num_values = (ids != MULTI_PADDING).float().sum(dim=1, keepdim=True)
        return functional.embedding(ids, self.weight).sum(dim=1) / num_values.clamp(min=1)


class HistoryPooling(nn.Module):
    """A history, pooled by attention over its different items; a learned row where it is missing or empty.

    Formula: a_hj = softmax_j(u_h GELU(A [f_j; e_j])_h), e = B [sum_j a_1j V e_j; ...; sum_j a_Hj V e_j]

    Symbols: e_j vector of the item j in the model, normalised; f_j what `interaction_features` says of it; h heads.

    Shapes: values (batch, width, 4) and vectors (batch, n, item size) of the first n -> (batch, size).

    Relation to its siblings: it reads the item vectors of the model, where the others have tables of their own.
    """

    HEADS: ClassVar[int] = 4
    HIDDEN: ClassVar[int] = 64
    DROPOUT: ClassVar[float] = 0.3

    def __init__(self, item_size: int, embedding_size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(item_size)
        self.dropout = nn.Dropout(self.DROPOUT)
        self.attention = nn.Sequential(
            nn.Linear(NUM_INTERACTION_FEATURES + item_size, self.HIDDEN), nn.GELU(), nn.Linear(self.HIDDEN, self.HEADS)
        )
        self.value = nn.Linear(item_size, item_size)
        self.output = nn.Linear(self.HEADS * item_size, embedding_size)
        self.without = nn.Embedding(2, embedding_size)  # empty, missing

    def forward(self, values: Tensor, vectors: Tensor) -> Tensor:
        """Pool each history, or take the learned row."""
        is_there = values[:, : vectors.shape[1], TIMES] > 0
        vectors = self.dropout(self.norm(vectors))
        features = interaction_features(values)[:, : vectors.shape[1]].to(vectors.dtype)
        scores = self.attention(torch.cat([features, vectors], dim=-1))
        if self.training:  # a part of the history stays unseen, so that none of its items is learned by heart
            is_seen = is_there & (torch.rand_like(scores[..., 0]) >= self.DROPOUT)
            is_there = torch.where(is_seen.any(dim=1, keepdim=True), is_seen, is_there)
        scores = scores.masked_fill(~is_there[..., None], torch.finfo(scores.dtype).min)
        pooled = torch.einsum("bjh,bjd->bhd", scores.softmax(dim=1), self.value(vectors)).flatten(1)
        is_missing = (values[:, 0, ITEM] == MISSING_ITEM).long()
        return torch.where(is_there.any(dim=1, keepdim=True), self.output(pooled), self.without(is_missing))


NUM_INTERACTION_FEATURES = 10


def different_items(values: Tensor) -> Tensor:
    """Return the first interactions of each history, as many as the most different items of one; a graph keeps all.

    Example:
        >>> different_items(torch.tensor([[[5, 0, 2, -1], [5, 1, 0, -1]]])).tolist()
        [[[5, 0, 2, -1]]]
    """
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return values
    return values[:, : max(1, int((values[..., TIMES] > 0).sum(dim=1).max()))]


def interaction_features(values: Tensor) -> Tensor:
    """Return what a history says of each of its different items: how often, how recently, among how much.

    Shapes:
        (batch, width, 4) -> (batch, width, 10) float32; of older interactions with an item the numbers mean nothing.

    Args:
        values: as `interactions` has them.

    Example:
        >>> interaction_features(torch.tensor([[[5, 0, 2, -1], [5, 1, 0, -1]]]))[0, 0, :3]
        tensor([0.6931, 1.0000, 1.0000])
    """
    is_real = values[..., ITEM] > MISSING_ITEM
    ago, times = values[..., BASKETS_AGO].float(), values[..., TIMES].clamp(min=1).float()
    days = values[..., DAYS_AGO]
    has_days = (days >= 0).float()
    num_baskets = torch.where(is_real, ago + 1, 1.0).amax(dim=1, keepdim=True)
    num_items = (values[..., TIMES] > 0).sum(dim=1, keepdim=True).clamp(min=1).float()
    return torch.stack(
        [
            times.log(),
            times / num_baskets,
            (times > 1).float(),
            (-ago).exp(),
            (ago == 0).float(),
            ago.log1p(),
            num_baskets.log().expand_as(ago),
            num_items.log().expand_as(ago),
            has_days,
            days.clamp(min=0).float().log1p() * has_days,
        ],
        dim=-1,
    )


class VectorProjection(nn.Module):
    """A given vector, projected; a learned vector where it is missing.

    e = W v + b, or the only row of `missing`.

    Shapes: (batch, vector_size + 1) -> (batch, size); the last component is 1 where the vector is missing.

    Example:
        >>> VectorProjection(16, 8)(torch.zeros(2, 17)).shape
        torch.Size([2, 8])
    """

    def __init__(self, vector_size: int, embedding_size: int) -> None:
        super().__init__()
        self.projection = nn.Linear(vector_size, embedding_size)
        # A table of one row, and not a parameter, so that initialisation by module class reaches it.
        self.missing = nn.Embedding(1, embedding_size)

    def forward(self, vectors: Tensor) -> Tensor:
        """Project each vector, or take the learned row."""
        is_missing = vectors[..., -1:] > 0
        # Modules are called and their weights not looked at, which may be elsewhere (offloaded) or packed (quantised).
        learned = self.missing(torch.zeros(1, dtype=torch.long, device=vectors.device))
        projected = self.projection(vectors[..., :-1].to(learned.dtype))
        return torch.where(is_missing, learned, projected)


def as_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Return a tensor for each array, without a copy.

    Example:
        >>> import numpy as np
        >>> as_tensors({"sex": np.array([3, 0])})["sex"].tolist()
        [3, 0]
    """
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def missing_context(
    layout: Sequence[FeatureLayout], num_rows: int, *, device: torch.device | None = None
) -> dict[str, Tensor]:
    """Return the encoded context of rows of which nothing is known: every feature in its state `missing`.

    Example:
        >>> missing_context([FeatureLayout("sex", "categorical", 4, 0, 8)], 2)
        {'sex': tensor([0, 0])}
    """
    return {shape.name: FORMS[shape.form].missing(shape, num_rows, device=device) for shape in layout}


def unknown_like(values: Tensor, layout: FeatureLayout) -> Tensor:
    """Return a tensor of that shape in which every row has a value that the schema does not know.

    Numbers and vectors have no such state: they are missing.

    Example:
        >>> unknown_like(torch.tensor([[4, 5], [3, 0]]), FeatureLayout("brands", "multi_categorical", 6, 0, 8)).tolist()
        [[2, 0], [2, 0]]
    """
    unknown = missing_like(values)
    if layout.unknown_id is not None:
        unknown.view(len(unknown), -1)[:, 0] = layout.unknown_id
    return unknown
