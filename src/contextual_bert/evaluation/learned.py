"""Check that a run has learned anything: its loss beside that of counted shares, without a context or a text.

Shares need no training: popularity of items or tokens, shares of labels. A model that is not ahead of them has learned
nothing that can be told. This module knows no model: only the losses of two on the same rows.

Paper: not there. docs/protocol.md, "Equal treatment".
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contextual_bert.errors import joined
from contextual_bert.evaluation.intervals import Interval, paired_bootstrap
from contextual_bert.evaluation.metrics import exact_mean
from contextual_bert.evaluation.serialization import JsonText


@dataclass(frozen=True)
class ShareGap(JsonText):
    """The loss of a run beside that of counted shares, on the same rows.

    Formula: gap = mean loss of the run - mean loss of the shares, in nats; below 0 the run is ahead.

    Args:
        shares: what was counted, such as "label shares".
        part: whose rows these are.
        run_nats: mean loss of the run.
        shares_nats: mean loss of the shares.
        gap_nats: paired, its interval resamples customers.
        advice: what to try where nothing was learned.

    Relation to its siblings: `compare_with_shares` makes it; `Report.learned` holds it.

    Example:
        >>> gap = compare_with_shares(np.ones(9), np.ones(9), np.arange(9), shares="label shares", part="validation")
        >>> gap.has_learned
        False
    """

    shares: str
    part: str
    run_nats: float
    shares_nats: float
    gap_nats: Interval
    advice: str = ""

    @property
    def has_learned(self) -> bool:
        """Return True if the interval of the gap lies below 0."""
        return self.gap_nats.high < 0

    def note(self) -> str:
        """Return what the gap says, in sentences."""
        gap = self.gap_nats
        said = (
            f"on the {self.part} part the loss is {self.run_nats:.4f} nats and that of the {self.shares} "
            f"{self.shares_nats:.4f}, {gap.value:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]."
        )
        if self.has_learned:
            return f"Something was learned: {said}"
        return joined(f"Nothing was learned that can be told: {said}", *((" ", self.advice) if self.advice else ()))


def compare_with_shares(
    run: NDArray[np.float64],
    counted: NDArray[np.float64],
    clusters: ArrayLike,
    *,
    shares: str,
    part: str,
    advice: str = "",
) -> ShareGap:
    """Compare the losses of a run with those of counted shares.

    Shapes: run, counted and clusters (rows,).

    Args:
        run: loss of each row, in nats.
        counted: loss of the shares on the same rows.
        clusters: the customer of each row.
        shares: what was counted.
        part: whose rows these are.
        advice: what to try where nothing was learned.
    """
    gap = paired_bootstrap(run, counted, clusters).interval
    return ShareGap(shares, part, exact_mean(run), exact_mean(counted), gap, advice)
