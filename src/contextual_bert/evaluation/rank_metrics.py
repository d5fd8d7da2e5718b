"""The metrics of ranks and probabilities, as pure functions of scores.

Sums are rounded once (`math.fsum`), so the order of the rows, and with it the number of processes, never changes a
digit.

Reference: Contextual BERT, section 3, for cross-entropy and recall@k of the masked item; docs/protocol.md for ties and
the full ranking.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.metrics import (
    CALIBRATION_ERROR,
    CROSS_ENTROPY,
    DEFAULT_KS,
    RECIPROCAL_RANK,
    exact_mean,
    recall_key,
    usable_ks,
)
from contextual_bert.evaluation.scores import Scores


def expected_recall(scores: Scores, k: int) -> NDArray[np.float64]:
    """Per row: the probability that the target is among the first k when ties are broken at random."""
    return np.clip((k - scores.num_better) / scores.num_tied, 0.0, 1.0)


def expected_reciprocal_rank(scores: Scores) -> NDArray[np.float64]:
    """Per row: the mean of 1/rank over the ranks the tied items share."""
    last = scores.num_better + scores.num_tied
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, last.max(initial=0) + 1))])
    tied = (harmonic[last] - harmonic[scores.num_better]) / scores.num_tied
    # The difference of two harmonic numbers loses digits at deep ranks; without a tie it is not needed.
    return np.where(scores.num_tied == 1, 1.0 / last, tied)


def row_values(scores: Scores, ks: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """Key -> one value a row, for the metrics that are means over rows (all but the calibration error)."""
    values = {CROSS_ENTROPY: -scores.log_probability}
    values |= {recall_key(k): 100.0 * expected_recall(scores, k) for k in ks}
    return values | {RECIPROCAL_RANK: expected_reciprocal_rank(scores)}


def calibration_bin_of(confidence: NDArray[np.float64], num_bins: int) -> NDArray[np.int64]:
    """The equal-width bin of each confidence; an edge belongs to the bin above it, 1.0 to the last."""
    if num_bins < 1:
        raise ConfigurationError(
            "is not allowed", setting="num_bins", value=num_bins, fix="Give at least one calibration bin."
        )
    return np.searchsorted(np.linspace(0.0, 1.0, num_bins + 1)[1:-1], confidence, side="right")


def expected_calibration_error(scores: Scores, *, num_bins: int = 15) -> float:
    """Sum over bins of |sum of (top item right - confidence)| / rows, for the best-scored item (Guo et al. 2017)."""
    gap = expected_recall(scores, 1) - scores.confidence
    bins = calibration_bin_of(scores.confidence, num_bins)
    return math.fsum(abs(math.fsum(gap[bins == each].tolist())) for each in np.unique(bins)) / len(scores)


def summarise(
    scores: Scores, *, ks: Sequence[int] = DEFAULT_KS, num_items: int | None = None, num_bins: int = 15
) -> dict[str, float]:
    """The plain numbers without intervals; recall@k is left out where k >= num_items (100% by definition)."""
    scores.check(num_items=num_items)
    kept, _ = usable_ks(ks, num_items)
    numbers = {key: exact_mean(values) for key, values in row_values(scores, kept).items()}
    return numbers | {CALIBRATION_ERROR: expected_calibration_error(scores, num_bins=num_bins)}


def recall_curve(scores: Scores, *, largest_k: int, num_points: int = 40) -> tuple[tuple[int, float], ...]:
    """(k, recall@k in percent) at ks spread evenly on a logarithmic axis from 1 to `largest_k`."""
    ks = np.unique(np.geomspace(1, max(largest_k, 1), num_points).round().astype(np.int64)).tolist()
    return tuple((k, 100.0 * exact_mean(expected_recall(scores, k))) for k in ks)
