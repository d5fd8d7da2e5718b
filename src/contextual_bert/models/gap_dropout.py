"""Time gaps that are left out while training, so that a model learns what it would say without them.

It knows ids of gaps, no times. ``contextual_bert.data.time_gaps`` says which gap has which id.
"""

import torch
from torch import Tensor

from contextual_bert.time_units import UNKNOWN_GAP

_SHARE = 0.1


def with_unknown_gaps(gaps: Tensor) -> Tensor:
    """Return the gaps of a training batch with some unknown: a tenth of them, and all of a tenth of the sequences.

    A query may come without any time, or without that of its [MASK] alone.

    Shapes: gaps (batch, length) -> (batch, length).

    Example:
        >>> found = with_unknown_gaps(torch.full((100, 50), 7))
        >>> sorted(set(found.unique().tolist())), bool((found == 0).all(dim=1).any())
        ([0, 7], True)
    """
    is_whole = torch.rand(gaps.shape[0], 1, device=gaps.device) < _SHARE
    is_single = torch.rand(gaps.shape, device=gaps.device) < _SHARE
    return gaps.masked_fill(is_whole | is_single, UNKNOWN_GAP)
