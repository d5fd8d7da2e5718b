"""Encoded features as tensors: those of arrays, and rows in which a feature is missing or unknown.

It knows tensors by their forms, as `EncodedContext` gives them, and no schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context.forms import FORMS
from contextual_bert.context.kinds.feature import MULTI_MISSING, FeatureLayout


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


def missing_like(values: Tensor) -> Tensor:
    """Return a tensor of that shape in which the feature is missing in every row; its shape says the form.

    Example:
        >>> missing_like(torch.tensor([3, 1])).tolist(), missing_like(torch.tensor([[4, 5], [3, 0]])).tolist()
        ([0, 0], [[1, 0], [1, 0]])
    """
    missing = torch.zeros_like(values)  # of ids the missing one, of lists padding
    if values.is_floating_point():
        missing[..., -1] = 1
    elif values.ndim > 1:
        missing[..., 0] = MULTI_MISSING
    return missing


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
