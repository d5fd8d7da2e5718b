"""Calibration of new items: how often a model expects one, beside how often one is asked for.

A model whose items have features can propose items that training never saw. It can rank them well among each other and
still propose all of them too seldom, or too often; the loss of new items alone would then change with a shift of all
their scores, at the price of the others. No model is known here. Paper: not there.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.calibration import calibrate
from contextual_bert.evaluation.intervals import ClusterBootstrap, Interval, cluster_codes
from contextual_bert.evaluation.metrics import exact_mean
from contextual_bert.evaluation.scores import Scores
from contextual_bert.evaluation.serialization import JsonText


@dataclass(frozen=True)
class NewItemCalibration(JsonText):
    """The share of rows that ask for a new item, and the share that the model expected.

    Formula: expected = mean over rows of sum over new items of Pr(item | row); error = sum over bins of their share of
        rows * |expected - asked| in the bin.

    Args:
        expected: share of rows, 0 to 1.
        asked: share of rows, 0 to 1.
        excess: expected less asked, resampled together.
        error: calibration error of the event that a new item is asked for, over equal bins, 0 to 1.
        chance_error: the error that perfectly calibrated probabilities would show by chance.

    Relation to its siblings: `calibrate_new_items` makes it; `Report.new_items` holds it.
    """

    expected: Interval
    asked: Interval
    excess: Interval
    error: Interval
    chance_error: float

    def note(self, row_name: str) -> str:
        """Return what it says, in two sentences; ``row_name`` is what a row is, such as "masked position"."""
        low, high = (100 * each for each in (self.excess.low, self.excess.high))
        return (
            f"Items that training never saw: expected at {100 * self.expected.value:.2f}% of the {row_name}s, asked "
            f"for at {100 * self.asked.value:.2f}% (difference {100 * self.excess.value:+.2f} points [{low:+.2f}, "
            f"{high:+.2f}]). Calibration error of that probability {self.error.value:.4f}; by chance alone about "
            f"{self.chance_error:.4f}."
        )


def calibrate_new_items(
    scores: Scores,
    expected: NDArray[np.float64],
    is_new: NDArray[np.bool_],
    *,
    clusters: NDArray[np.generic],
    num_bins: int,
    num_resamples: int,
    seed: int,
    level: float,
) -> NewItemCalibration:
    """Compare the probability of all new items together with whether one is asked for.

    Shapes: all are (rows,).

    Args:
        scores: the rows.
        expected: the probability of the new items together.
        is_new: whether the true item is one.
        clusters: each row's customer, or its set.
        num_bins: of the calibration error.
        num_resamples, seed, level: of the bootstrap over customers.

    Raises:
        ConfigurationError: other numbers of rows.

    Example:
        >>> scores = Scores([0, 1], [0, 0], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> expected, is_new = np.array([0.6, 0.2]), np.array([True, False])
        >>> settings = {"num_bins": 15, "num_resamples": 100, "seed": 0, "level": 0.95}
        >>> found = calibrate_new_items(scores, expected, is_new, clusters=np.array([0, 1]), **settings)
        >>> round(found.expected.value, 3), found.asked.value, round(found.error.value, 3)
        (0.4, 0.5, 0.3)
    """
    if not len(scores) == len(expected) == len(is_new) == len(clusters):
        raise ConfigurationError("There is another number of rows", fix="Give a value a scored row.")
    codes, asked = cluster_codes(clusters), is_new.astype(np.float64)
    draws = ClusterBootstrap(codes, num_resamples=num_resamples, seed=seed)
    columns = np.stack([expected, asked, expected - asked], axis=1)
    ranges = ((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0))
    share, of_asked, excess = (
        draws.interval(exact_mean(column), replicates, level=level, within=within)
        for column, replicates, within in zip(columns.T, draws.resampled_means(columns).T, ranges, strict=True)
    )
    # The event is an answer that is right when a new item is asked for.
    event = replace(
        scores, num_better=1 - is_new.astype(np.int64), num_tied=np.ones(len(scores), np.int64), confidence=expected
    )
    found = calibrate(event, clusters=codes, draws=draws, num_bins=num_bins, level=level)
    return NewItemCalibration(share, of_asked, excess, found.error, found.chance_error)
