"""The control with a context that says nothing: each set, or text, gets the context of another, each epoch anew.

Same model, same number of parameters, same distribution of contexts, no information. A model that gains from it has
found a leak. It knows neither models nor metrics. PROTOCOL, point 9.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contextual_bert.data.dataset import SetBatch, SetDataset
from contextual_bert.data.hashing import hash_counters
from contextual_bert.data.texts import TextDataset

__all__ = ["ShuffledContext", "ShuffledTexts"]


class ShuffledContext(SetDataset):
    """A data set whose contexts are dealt out anew, as a pure function of (seed, epoch, place of the set).

    Formula: set i gets the context of set order[i], where order sorts hash(seed, epoch, j) over all j.

    Symbols: j place of a set in the data set.

    Shapes: as SetDataset; `context` itself stays the sets' own, so that segments name the true values.

    Args:
        dataset: the sets with their own contexts.
        seed: seed of the hash.

    Relation to its siblings: `MaskingCollator` takes epochs in the same way; `MaskEpoch` tells both.

    Reference: PROTOCOL, point 9.

    Example:
        >>> own = SetDataset([5, 6, 7], [0, 1, 2, 3], context={"age": torch.tensor([1, 2, 3])}, example_ids=[0, 1, 2])
        >>> dealt = ShuffledContext(own, seed=0).__getitems__([0, 1, 2]).context["age"]
        >>> sorted(dealt.tolist()), own.context["age"].tolist()
        ([1, 2, 3], [1, 2, 3])
    """

    def __init__(self, dataset: SetDataset, *, seed: int) -> None:
        super().__init__(
            dataset.item_ids,
            dataset.offsets,
            context=dataset.context,
            example_ids=dataset.example_ids,
            pad_id=dataset.pad_id,
        )
        self.deal = _Deal(len(self), seed)

    def set_epoch(self, epoch: int) -> None:
        """Deal the contexts out anew; also in workers that run already."""
        self.deal.epoch.fill_(epoch)

    def __getitem__(self, index: int) -> dict[str, Any]:
        example = super().__getitem__(index)
        other = int(self.deal.order[index])
        return {**example, "context": {name: values[other] for name, values in self.context.items()}}

    def __getitems__(self, indices: Sequence[int] | Tensor) -> SetBatch:
        others = self.deal.order[torch.as_tensor(indices, dtype=torch.int64)]
        context = {name: values[others] for name, values in self.context.items()}
        return replace(super().__getitems__(indices), context=context)


class ShuffledTexts(TextDataset):
    """``ShuffledContext`` for texts. All windows of a question have the context of one other question.

    Args:
        dataset: the texts with their own contexts.
        seed: seed of the hash.

    Example:
        >>> age = torch.tensor([1, 2, 3])
        >>> own = TextDataset(torch.tensor([5, 6, 7]), torch.tensor([0, 1, 2, 3]), context={"age": age})
        >>> sorted(ShuffledTexts(own, seed=0).__getitems__([0, 1, 2])["context"]["age"].tolist())
        [1, 2, 3]
    """

    def __init__(self, dataset: TextDataset, *, seed: int) -> None:
        super().__init__(
            dataset.token_ids,
            dataset.offsets,
            context=dataset.context,
            labels=dataset.labels,
            second_starts=dataset.second_starts,
            spans=dataset.spans,
            example_ids=dataset.example_ids,
            pad_id=dataset.pad_id,
        )
        _, self.example, sizes = self.example_ids.unique_consecutive(return_inverse=True, return_counts=True)
        self.first = sizes.cumsum(dim=0) - sizes
        self.deal = _Deal(len(sizes), seed)

    def set_epoch(self, epoch: int) -> None:
        """Deal the contexts out anew; also in workers that run already."""
        self.deal.epoch.fill_(epoch)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = super().__getitem__(index)
        other = self._others(torch.tensor([index]))
        context = {name: values[other].squeeze(0) for name, values in self.context.items()}
        return {**row, "context": context} if context else row

    def __getitems__(self, indices: Sequence[int] | Tensor) -> dict[str, Any]:
        others = self._others(torch.as_tensor(indices, dtype=torch.int64))
        context = {"context": {name: values[others] for name, values in self.context.items()}} if self.context else {}
        return {**super().__getitems__(indices), **context}

    def _others(self, index: Tensor) -> Tensor:
        """Whose context these rows have."""
        return self.first[self.deal.order[self.example[index]]]


class _Deal:
    """Whose context each row has in an epoch."""

    def __init__(self, num_rows: int, seed: int) -> None:
        self.num_rows, self.seed = num_rows, seed
        # Shared memory: workers that were started before an epoch begins still see its number.
        self.epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._dealt: tuple[int, Tensor] | None = None

    @property
    def order(self) -> Tensor:
        """(rows,): row -> the row whose context it has."""
        epoch = int(self.epoch)
        if self._dealt is None or self._dealt[0] != epoch:
            keys = hash_counters(self.seed, epoch, np.arange(self.num_rows))
            self._dealt = epoch, torch.from_numpy(keys.argsort(kind="stable"))
        return self._dealt[1]
