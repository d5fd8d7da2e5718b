"""Encoded features as tensors that share the memory of their arrays."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def as_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Return a tensor for each array, without a copy.

    Example:
        >>> import numpy as np
        >>> as_tensors({"sex": np.array([3, 0])})["sex"].tolist()
        [3, 0]
    """
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
