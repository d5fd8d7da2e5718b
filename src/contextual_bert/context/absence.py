"""Rows whose value of a feature is missing, and the features that training hardly ever showed so.

A feature that is missing has a state of its own, whose vector is learned from rows that lack it. It knows tensors by
their shapes, as `EncodedContext` gives them, and no schema. Not in the paper; docs/decisions/027.
"""

from collections.abc import Mapping

from torch import Tensor

from contextual_bert.context.features import MISSING, MULTI_MISSING

FEWEST_ROWS = 10  # of a part, from which on a state counts as learned


def is_missing(values: Tensor) -> Tensor:
    """Return which rows of an encoded feature are missing; its shape says the kind, see `EncodedContext`.

    Shapes: (rows,), (rows, width) or (rows, size + 1) -> (rows,) bool.

    Example:
        >>> import torch
        >>> is_missing(torch.tensor([3, 0])).tolist(), is_missing(torch.tensor([[4, 5], [1, 0], [3, 0]])).tolist()
        ([False, True], [False, True, False])
    """
    if values.is_floating_point():
        return values[..., -1] > 0
    if values.ndim > 1:
        return (values <= MULTI_MISSING).all(dim=-1)
    return values == MISSING


def rarely_missing(context: Mapping[str, Tensor], *, fewest: int = FEWEST_ROWS) -> list[str]:
    """Return the features that fewer than ``fewest`` rows lack.

    Example:
        >>> import torch
        >>> rarely_missing({"sex": torch.tensor([2] * 20), "age": torch.tensor([0, 2] * 10)})
        ['sex']
    """
    return [name for name, values in context.items() if int(is_missing(values).sum()) < fewest]
