"""The rows of an output matrix as arrays: scores of all ids, or of some. It imports no torch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OutputRows:
    """W and b of the logits W h + b.

    Shapes: weight (vocabulary, size), bias (vocabulary,).

    Example:
        >>> rows = OutputRows(np.eye(3, dtype=np.float32), np.array([0, 0, 1], np.float32))
        >>> rows.scores(np.array([2, 3, 4], np.float32), np.array([2, 0])).tolist()
        [5.0, 2.0]
    """

    weight: Floats
    bias: Floats

    def scores(self, state: Floats, ids: Ids | None = None) -> Floats:
        """Return the logits of some ids, or of all: state (size,) -> (n,)."""
        if ids is None:
            return self.weight @ state + self.bias
        return self.weight.take(ids, axis=0) @ state + self.bias.take(ids)

    def some(self, ids: Ids) -> "OutputRows":
        """Return these rows, in a place of their own."""
        return OutputRows(self.weight[ids], self.bias[ids])

    def extended(self, rows: slice, *, multiple: int) -> Floats:
        """Return some rows with their bias as one more column: their product with a state and a 1 is the logit.

        Args:
            rows: which.
            multiple: columns of zeros follow until their number is a multiple of this.
        """
        chosen = self.weight[rows]
        width = -(-(chosen.shape[1] + 1) // multiple) * multiple
        found = np.zeros((len(chosen), width), np.float32)
        found[:, : chosen.shape[1]], found[:, chosen.shape[1]] = chosen, self.bias[rows]
        return found
