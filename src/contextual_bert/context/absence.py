"""The states missing and unknown of encoded features: find them, make them, and name those training hardly showed.

A feature that is missing has a state of its own, whose vector is learned from rows that lack it. It knows tensors by
their forms, as `EncodedContext` gives them, and no schema. Not in the paper; docs/decisions/027.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from contextual_bert.context.forms import FORMS
from contextual_bert.context.kinds.feature import MISSING, MULTI_MISSING, FeatureLayout

FEWEST_ROWS = 10  # of a part, from which on a state counts as learned


def is_missing(values: Tensor) -> Tensor:
    """Return which rows of an encoded feature are missing; its shape says the kind, see `EncodedContext`.

    Shapes: (rows,), (rows, width) or (rows, size + 1) -> (rows,) bool.

    Example:
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
        >>> rarely_missing({"sex": torch.tensor([2] * 20), "age": torch.tensor([0, 2] * 10)})
        ['sex']
    """
    return [name for name, values in context.items() if int(is_missing(values).sum()) < fewest]


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
