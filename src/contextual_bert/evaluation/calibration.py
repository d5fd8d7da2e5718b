"""Calibration: confidence against how often the best answer is right.

This module does not know where probabilities come from; the error itself is `metrics.expected_calibration_error`.

Paper: not there. Reference: Guo et al., On Calibration of Modern Neural Networks, 2017, equation 3.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation.intervals import ClusterBootstrap, Interval, bounded, cluster_interval
from contextual_bert.evaluation.metrics import exact_mean
from contextual_bert.evaluation.scores import Scores, calibration_bin_of, expected_calibration_error, expected_recall

# Gaps this close to each other differ by rounding.
_NO_SPREAD = 1e-9


@dataclass(frozen=True)
class CalibrationBin:
    """One bin of confidence: its edges, the mean confidence in it, and how often the top item was right (0 to 1)."""

    low: float
    high: float
    num_rows: int
    confidence: float
    accuracy: Interval


@dataclass(frozen=True)
class Calibration:
    """Calibration error with its interval, the error chance alone would show, and the bins that are not empty."""

    error: Interval
    chance_error: float
    bins: tuple[CalibrationBin, ...]


def calibrate(
    scores: Scores, *, clusters: NDArray[np.int64], draws: ClusterBootstrap, num_bins: int, level: float
) -> Calibration:
    """Measure the calibration of the top item over equal-width bins.

    The estimate is biased upwards (noise in a bin cannot cancel), and a percentile interval, biased twice, can miss its
    own estimate: the interval here is estimate +- z * bootstrap standard error, cut at 0, beside the error that a
    perfectly calibrated scorer would show from chance alone, sqrt(2 / pi) * sum over bins of share * standard error,
    where the error is that of draws with the probabilities said, times what the customers' rows share.
    """
    right = expected_recall(scores, 1)
    index = calibration_bin_of(scores.confidence, num_bins)
    used = np.unique(index)
    bins: list[CalibrationBin] = []
    chance = 0.0
    for each in used.tolist():
        inside = index == each
        gaps, confidence = right[inside] - scores.confidence[inside], exact_mean(scores.confidence[inside])
        accuracy = bounded(
            cluster_interval(right[inside], clusters[inside], level=level), within=(0.0, 1.0), level=level
        )
        bins.append(CalibrationBin(each / num_bins, (each + 1) / num_bins, len(gaps), confidence, accuracy))
        # Outcomes that come true as often as said, as unlike each other within a customer as those seen.
        variance = exact_mean(scores.confidence[inside] * (1 - scores.confidence[inside])) / len(gaps)
        noise = math.sqrt(max(0.0, variance * _design_effect(gaps, clusters[inside])))
        chance += math.sqrt(2 / math.pi) * noise * len(gaps) / len(scores)
    columns = np.where(index[:, None] == used[None, :], (right - scores.confidence)[:, None], 0.0)
    replicates = np.abs(draws.resampled_means(columns)).sum(axis=1)
    value = expected_calibration_error(scores, num_bins=num_bins)
    return Calibration(_centred(draws, value, replicates, level), chance, tuple(bins))


def _design_effect(gaps: NDArray[np.float64], clusters: NDArray[np.int64]) -> float:
    """Return the factor by which clusters enlarge the variance of a mean (Kish 1965); 1 if unknown."""
    together = cluster_interval(gaps, clusters).standard_error
    is_unknown = math.isnan(together) or np.ptp(gaps) < _NO_SPREAD
    return 1.0 if is_unknown else float(together**2 * len(gaps) / gaps.var(ddof=1))


def _centred(draws: ClusterBootstrap, value: float, replicates: NDArray[np.float64], level: float) -> Interval:
    percentile = draws.interval(value, replicates, level=level)
    half = NormalDist().inv_cdf((1 + level) / 2) * percentile.standard_error
    low = math.nan if math.isnan(half) else max(0.0, value - half)
    return replace(percentile, low=low, high=value + half)
