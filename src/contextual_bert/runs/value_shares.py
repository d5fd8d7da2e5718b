"""Share of rows of each part that keep a feature's value, share a bucket's vector, or count as unknown.

It reads encoded contexts. `context.rare_values` says the same of a column before anything is encoded.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.context import Feature

if TYPE_CHECKING:
    from torch import Tensor


def share_line(feature: Feature, contexts: "Mapping[str, Mapping[str, Tensor | NDArray[Any]]]") -> str | None:
    """Return a line on one feature; None for numbers and vectors, and where all rows of all parts keep their value.

    Args:
        feature: what is encoded.
        contexts: part -> its encoded context.

    Example:
        >>> import torch
        >>> from contextual_bert.context import Categorical
        >>> feature = Categorical(name="user", values=("u1",), num_buckets=2)
        >>> share_line(feature, {"train": {"user": torch.tensor([2, 2, 3, 4])}}).partition("; ")[2]
        'train: 50.0% of the rows keep their value, 50.0% a bucket'
    """
    if feature.silenced or feature.cells != "codes" or feature.layout.unknown_id is None:
        return None
    shares = {part: _shares(feature, np.asarray(context[feature.name])) for part, context in contexts.items()}
    if all(own == 1 for own, _, _ in shares.values()):
        return None
    told: list[str] = []
    for part, (own, shared, unknown) in shares.items():
        said = [f"{part}: {own:.1%} of the rows keep their value"]
        said += [f"{shared:.1%} a bucket"] if shared else []
        said += [f"{unknown:.1%} unknown"] if unknown else []
        told.append(", ".join(said))
    buckets = f", {feature.num_shared:,} hashed buckets" if feature.num_shared else ""
    return f"context {feature.name!r}: {len(feature.listed):,} values of their own{buckets}; {'; '.join(told)}"


def _shares(feature: Feature, ids: NDArray[np.int64]) -> tuple[float, float, float]:
    """Return the shares of the given values that are their own, shared and unknown; 1, 0, 0 where none is given."""
    layout, first_shared = feature.layout, feature.first_shared_id
    is_own = (ids >= layout.num_reserved) & (ids < first_shared)
    counts = [int(is_own.sum()), int((ids >= first_shared).sum()), int((ids == layout.unknown_id).sum())]
    total = sum(counts)
    return (counts[0] / total, counts[1] / total, counts[2] / total) if total else (1.0, 0.0, 0.0)
