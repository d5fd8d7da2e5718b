"""The state missing of encoded features: which rows have it, and which features training hardly ever lacked.

A feature that is missing has a state of its own, whose vector is learned from rows that lack it. It knows arrays by
their shapes, as `EncodedContext` gives them, and no schema. Not in the paper; docs/decisions/027.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.context.kinds.feature import MISSING, MULTI_MISSING

FEWEST_ROWS = 10  # of a part, from which on a state counts as learned


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows of an encoded feature are missing; its shape says the kind, see `EncodedContext`.

    Shapes: (rows,), (rows, width) or (rows, size + 1) -> (rows,) bool.

    Example:
        >>> is_missing(np.array([3, 0])).tolist(), is_missing(np.array([[4, 5], [1, 0], [3, 0]])).tolist()
        ([False, True], [False, True, False])
    """
    if values.dtype.kind == "f":
        return values[..., -1] > 0
    if values.ndim > 1:
        return np.all(values <= MULTI_MISSING, axis=-1)
    return values == MISSING


def rarely_missing(context: Mapping[str, NDArray[Any]], *, fewest: int = FEWEST_ROWS) -> list[str]:
    """Return the features that fewer than ``fewest`` rows lack.

    Example:
        >>> rarely_missing({"sex": np.array([2] * 20), "age": np.array([0, 2] * 10)})
        ['sex']
    """
    return [name for name, values in context.items() if int(is_missing(values).sum()) < fewest]
