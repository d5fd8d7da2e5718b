"""Encoded sets with their contexts as tensors, and whole batches of them.

`__getitems__` lets a DataLoader fetch a batch at once, several times faster than row by row. It masks nothing: the
collator does. It knows neither vocabulary nor schema, only ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from contextual_bert.context.kinds import MULTI_PADDING
from contextual_bert.data.hashing import Draw, hash_counters
from contextual_bert.data.ragged import places_of
from contextual_bert.errors import ConfigurationError, DataError

__all__ = ["EveryPosition", "SetBatch", "SetDataset"]


@dataclass(frozen=True, eq=False)
class SetBatch:
    """Some sets, padded to the longest.

    Shapes: item_ids (batch, length), lengths, example_ids and masked_position (batch,), context each (batch, ...).

    Args:
        item_ids: ids of the items; padding behind the end of a set.
        lengths: number of items of each set.
        example_ids: what the masks are drawn from: the row of the table.
        context: encoded context, a tensor a feature.
        masked_position: the one position to mask, where that is fixed.
    """

    item_ids: Tensor
    lengths: Tensor
    example_ids: Tensor
    context: dict[str, Tensor]
    masked_position: Tensor | None = None

    def __len__(self) -> int:
        return len(self.item_ids)

    def __iter__(self) -> Iterator["SetBatch"]:
        """The batch itself: transformers' Trainer looks through what it takes for rows, for unused columns."""
        yield self


def context_of(context: Mapping[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    """The context of these rows; lists of values as wide as the longest of them, not of the table's.

    Example:
        >>> context_of({"brands": torch.tensor([[4, 5, 6], [4, 0, 0]])}, torch.tensor([1]))
        {'brands': tensor([[4]])}
    """
    rows = {name: values[index] for name, values in context.items()}
    for name, values in rows.items():
        if values.dim() == 2 and not values.is_floating_point():
            filled = (values != MULTI_PADDING).any(dim=0).nonzero()
            rows[name] = values[:, : int(filled.max()) + 1 if len(filled) else 1]
    return rows


class SetDataset(Dataset[dict[str, Any]]):
    """Sets as one flat tensor of item ids and offsets, with one row of context for each.

    Shapes: item_ids (items of all sets,), offsets (sets + 1,), context each (sets, ...), example_ids (sets,).

    Args:
        item_ids: ids of all items, one set after the other.
        offsets: set i is `item_ids[offsets[i] : offsets[i + 1]]`; no set is empty.
        context: a tensor a feature with a row a set; an empty mapping where there is no context.
        example_ids: a number for each set that stays the same whatever else is in the data: the row of the table.
        pad_id: id behind the end of a set.

    Example:
        >>> dataset = SetDataset([5, 6, 7], [0, 2, 3], context={"age": torch.tensor([1, 2])}, example_ids=[0, 4])
        >>> dataset.__getitems__([1, 0]).item_ids
        tensor([[7, 0],
                [5, 6]])
    """

    def __init__(
        self,
        item_ids: Tensor | np.ndarray | Sequence[int],
        offsets: Tensor | np.ndarray | Sequence[int],
        *,
        context: Mapping[str, Tensor],
        example_ids: Tensor | np.ndarray | Sequence[int],
        pad_id: int = 0,
    ) -> None:
        self.item_ids = _long(item_ids)
        self.offsets = _long(offsets)
        self.example_ids = _long(example_ids)
        self.context = dict(context)
        self.pad_id = pad_id
        count = len(self.offsets) - 1
        if count < 0 or int(self.offsets[0]) != 0 or int(self.offsets[-1]) != len(self.item_ids):
            raise ConfigurationError(
                f"offsets must go from 0 to the number of items, {len(self.item_ids)}: use those of the SetTable "
                "that the items come from."
            )
        if count and int(self.offsets.diff().min()) < 1:
            raise DataError(
                f"the set {int(self.offsets.diff().argmin())} is empty, nothing in it can be masked",
                fix="Read the sets with read_sets: it drops empty ones.",
            )
        for name, rows in (("example_ids", self.example_ids), *self.context.items()):
            if len(rows) != count:
                raise ConfigurationError(
                    f"{name!r} has {len(rows)} rows for {count} sets: give one row a set, in the same order."
                )

    def __len__(self) -> int:
        return len(self.example_ids)

    @property
    def sizes(self) -> np.ndarray:
        """Number of items of each set: what the sampler needs."""
        return self.offsets.diff().numpy()

    def with_context(self, context: Mapping[str, Tensor]) -> "SetDataset":
        """The same sets for other people; this data set stays as it is."""
        return SetDataset(
            self.item_ids, self.offsets, context=context, example_ids=self.example_ids, pad_id=self.pad_id
        )

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"set {index} of {len(self)}: give a number from 0 to {len(self) - 1}.")
        index %= len(self)
        items = self.item_ids[int(self.offsets[index]) : int(self.offsets[index + 1])]
        context = {name: values[index] for name, values in self.context.items()}
        return {"items": items, "context": context, "example_id": int(self.example_ids[index])}

    def __getitems__(self, indices: Sequence[int] | Tensor) -> SetBatch:
        index = torch.as_tensor(indices, dtype=torch.int64)
        starts = self.offsets[index]
        lengths = self.offsets[index + 1] - starts
        places = torch.arange(int(lengths.max()))
        real = places < lengths[:, None]
        flat = (starts[:, None] + places).clamp_(max=len(self.item_ids) - 1)
        return SetBatch(
            item_ids=self.item_ids[flat].masked_fill_(~real, self.pad_id),
            lengths=lengths,
            example_ids=self.example_ids[index],
            context=context_of(self.context, index),
        )


class EveryPosition(Dataset[dict[str, Any]]):
    """Each (set, position) of a dataset once: what evaluation masks.

    Ordered by the length of the set, then by set and position: consecutive batches need next to no padding. Keeps two
    numbers a position, never a copy of the sets. Protocol, point 2.

    Args:
        dataset: the sets.
        leave_out: ids that are not masked: [CLS] and [SEP] of a text.
        most: how many positions to keep at most, those with the smallest hash of (example id, position). So the sample
            is the same for every run on these rows; None keeps all.

    Example:
        >>> dataset = SetDataset([5, 6, 7], [0, 2, 3], context={}, example_ids=[0, 4])
        >>> len(EveryPosition(dataset, most=2))
        2
        >>> every = EveryPosition(dataset)
        >>> list(zip(every.set_index.tolist(), every.positions.tolist()))
        [(1, 0), (0, 0), (0, 1)]
    """

    def __init__(self, dataset: SetDataset, *, leave_out: Sequence[int] = (), most: int | None = None) -> None:
        self.dataset = dataset
        sizes = dataset.sizes
        order = np.argsort(sizes, kind="stable")
        set_index = torch.from_numpy(np.repeat(order, sizes[order]))
        positions = torch.from_numpy(places_of(sizes[order]))
        is_asked = slice(None)
        if leave_out:
            is_asked = ~torch.isin(dataset.item_ids[dataset.offsets[set_index] + positions], _long(leave_out))
        self.set_index, self.positions = set_index[is_asked], positions[is_asked]
        self.num_possible = len(self.positions)
        if most is not None and most < self.num_possible:
            ids = dataset.example_ids[self.set_index].numpy()
            keys = hash_counters(0, 0, Draw.SCORED_POSITION, ids, self.positions.numpy())
            kept = torch.from_numpy(np.sort(np.argpartition(keys, most)[:most]))
            self.set_index, self.positions = self.set_index[kept], self.positions[kept]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def sizes(self) -> np.ndarray:
        """Number of items of the set of each row."""
        return self.dataset.sizes[self.set_index.numpy()]

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}: give a number from 0 to {len(self) - 1}.")
        example = self.dataset[int(self.set_index[index])]
        return {**example, "masked_position": int(self.positions[index])}

    def __getitems__(self, indices: Sequence[int] | Tensor) -> SetBatch:
        index = torch.as_tensor(indices, dtype=torch.int64)
        batch = self.dataset.__getitems__(self.set_index[index])
        return SetBatch(batch.item_ids, batch.lengths, batch.example_ids, batch.context, self.positions[index])


def _long(values: Tensor | np.ndarray | Sequence[int]) -> Tensor:
    return torch.as_tensor(
        np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values, dtype=torch.int64
    )
