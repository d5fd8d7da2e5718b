"""Encoded histories of a data set as one flat tensor and offsets: long ones do not widen the rows of others.

``SequenceDataset`` holds them in place of padded tensors. Chosen rows are tensors, padded to the longest of them.
"""

from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context.interactions import ITEM, NO_ITEM


class RaggedRows:
    """Histories of different lengths, with what data sets ask of a tensor (rows, width, 4) that is padded with 0.

    Rows are chosen by number: ``rows[index]`` is a tensor, padded to the longest of the chosen rows. One row by itself
    is as wide as the longest of all.

    Shapes: interactions (interactions of all rows, 4), offsets (rows + 1,).

    Args:
        interactions: those of all rows, row after row.
        offsets: row i has `interactions[offsets[i] : offsets[i + 1]]`.

    Example:
        >>> rows = RaggedRows.of(torch.tensor([[[5, 0, 1, 2], [7, 1, 1, 9]], [[4, 0, 1, 2], [0, 0, 0, 0]]]))
        >>> rows.shape, rows[torch.tensor([1])].tolist(), rows.nbytes
        (torch.Size([2, 2, 4]), [[[4, 0, 1, 2]]], 120)
    """

    def __init__(self, interactions: Tensor, offsets: Tensor) -> None:
        self.interactions, self.offsets = interactions, offsets
        lengths = offsets.diff()
        width = max(1, int(lengths.max())) if len(lengths) else 1
        self.shape = torch.Size((len(lengths), width, interactions.shape[1]))
        self.ndim = len(self.shape)

    @classmethod
    def of(cls, padded: Tensor) -> Self:
        """Return the rows of a padded tensor that ``arranged`` gave."""
        is_real = padded[..., ITEM] != NO_ITEM
        offsets = torch.zeros(len(padded) + 1, dtype=torch.int64)
        torch.cumsum(is_real.sum(dim=1), dim=0, out=offsets[1:])
        return cls(padded[is_real], offsets)

    @property
    def nbytes(self) -> int:
        """Return the bytes that are held."""
        return self.interactions.nbytes + self.offsets.nbytes

    @property
    def row_sizes(self) -> Tensor:
        """Return the length of each row, without padding."""
        return self.offsets.diff()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Tensor:
        is_ready = isinstance(index, Tensor) and index.dtype == torch.int64
        rows = index if is_ready else torch.arange(len(self))[index]
        if rows.dim() == 0:
            return self._padded(rows[None], self.shape[1])[0]
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        return self._padded(rows, max(1, int(lengths.max())) if len(rows) else 1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.numpy().astype(dtype or np.int64, copy=False)

    def dim(self) -> int:
        """Return the number of dimensions of the padded tensor."""
        return self.ndim

    def is_floating_point(self) -> bool:
        """Return False: ids and counts."""
        return False

    def numpy(self) -> NDArray[np.int64]:
        """Return all rows padded, as a new array that nobody holds."""
        return self[:].numpy()

    def first(self) -> Tensor:
        """Return the first interaction of each row, 0 in all of it where there is none: (rows, 1, 4)."""
        return self._padded(torch.arange(len(self)), 1)

    def take(self, rows: Tensor) -> Self:
        """Return some rows, in that order, without padding."""
        lengths = self.row_sizes[rows]
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        places = torch.arange(int(offsets[-1])) + torch.repeat_interleave(self.offsets[rows] - offsets[:-1], lengths)
        return type(self)(self.interactions[places], offsets)

    def _padded(self, rows: Tensor, width: int) -> Tensor:
        places = torch.arange(width)
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        at = starts[:, None] + places
        is_padding = at >= ends[:, None]
        if not len(self.interactions):
            return self.interactions.new_zeros((len(rows), width, self.shape[2]))
        return self.interactions[at.clamp_(max=len(self.interactions) - 1)].masked_fill_(is_padding[..., None], NO_ITEM)


def without_padding(context: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return an encoded context whose histories are ``RaggedRows``; they stand for the tensors that they were."""
    ragged = {name: cast(Tensor, RaggedRows.of(values)) for name, values in context.items() if values.dim() > 2}
    return {**context, **ragged}


def rows_of(values: Tensor, rows: Tensor) -> Tensor:
    """Return some rows of a feature as a data set holds it: ``RaggedRows`` stay without padding."""
    return values.take(rows) if isinstance(values, RaggedRows) else values[rows]


def first_values(context: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return an encoded context as ``is_missing`` reads it: of ``RaggedRows`` the first interaction of each row."""
    return {
        name: values.first().numpy() if isinstance(values, RaggedRows) else values.numpy()
        for name, values in context.items()
    }
