"""Gaps between losses: of a run to counted shares, and of the training part to others.

`ShareGap`: shares need no training (popularity of items or tokens, shares of labels). A model that is not ahead of them
has learned nothing that can be told. docs/protocol.md, "Equal treatment".

`MembershipGap`: whoever knows a row and can ask the model compares its loss with that of other rows, to tell who is in
the training part. References: Yeom et al. 2018, theorem 2, for the gap; Efron and Tibshirani 1993 for its interval;
Obuchowski 1997 for the interval of the area; Carlini et al. 2022 for what stands out at few false alarms.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contextual_bert.errors import joined
from contextual_bert.evaluation.intervals import (
    ClusterBootstrap,
    Interval,
    cluster_codes,
    cluster_interval,
    paired_bootstrap,
)
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, exact_mean, metric_of
from contextual_bert.evaluation.scores import Scores
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import interval_cell

_FEWEST_OTHERS = 100  # of whom one in a hundred is somebody
_TOO_FEW = "All rows are of one customer, or there is one row: no interval can be had."


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
        gap = interval_cell(self.gap_nats, metric_of(CROSS_ENTROPY), is_signed=True)
        said = (
            f"on the {self.part} part the loss is {self.run_nats:.4f} nats and that of the {self.shares} "
            f"{self.shares_nats:.4f}, {gap}."
        )
        if not math.isfinite(self.gap_nats.high):
            return f"Whether something was learned cannot be told: {said} {_TOO_FEW}"
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


@dataclass(frozen=True)
class MembershipGap(JsonText):
    """The loss on a sample of the training part beside that on the evaluated part.

    Formula: gap = mean loss of the evaluated rows - mean loss of the training rows, in nats; AUC = Pr(a training row
    has a smaller loss than an evaluated row), ties by half.

    Args:
        training_nats: mean loss of the sample of the training part.
        evaluated_nats: mean loss of the evaluated part.
        gap_nats: the second less the first. Its interval resamples the customers of both.
        num_training_rows: rows of the sample.
        part: the evaluated part.
        auc: area under the curve of the attack that calls rows of a small loss trained on; 0.5 is chance. Its interval
            is the closed form over the customers of both.
        caught_percent: of the training rows, those of a smaller loss than all but 1% of the evaluated rows; 1 is
            chance. None where there are fewer than 100 of these.

    Relation to its siblings: `compare_losses` makes it; `Report.membership` holds it.

    Reference: Yeom et al., Privacy Risk in Machine Learning, 2018.

    Example:
        >>> low, high = (Scores([row], [0], np.log([share]), [0], [1], [0.5]) for row, share in ((0, 0.5), (1, 0.25)))
        >>> gap = compare_losses(low, high, part="test", num_resamples=100, seed=0, level=0.95).gap_nats
        >>> round(gap.value, 3), gap.num_clusters
        (0.693, 2)
    """

    training_nats: float
    evaluated_nats: float
    gap_nats: Interval
    num_training_rows: int
    part: str
    auc: Interval
    caught_percent: float | None

    def note(self) -> str:
        """Return what the gap says, in sentences."""
        gap = interval_cell(self.gap_nats, metric_of(CROSS_ENTROPY))
        said = (
            f"Membership: the loss is {self.training_nats:.4f} nats on {self.num_training_rows:,} rows of the training "
            f"part and {self.evaluated_nats:.4f} on the {self.part} part. The gap is {gap}."
        )
        if not math.isfinite(self.gap_nats.low):
            return f"{said} {_TOO_FEW}"
        said += (
            " Who guesses by the loss which rows were trained on has an AUC of "
            f"{self.auc.value:.3f} [{self.auc.low:.3f}, {self.auc.high:.3f}]; 0.5 is chance{self._caught}."
        )
        if self.gap_nats.low > 0:
            return (
                f"{said} Rows of the training part can be told from others by their loss, better than by chance. "
                "Train for fewer epochs, or on more customers, where that matters."
            )
        return f"{said} On average training rows are not told from others by their loss; single ones may be."

    @property
    def _caught(self) -> str:
        if self.caught_percent is None:
            return ""
        return f", and catches {self.caught_percent:.1f}% of them where 1% of the others are taken for one"


def compare_losses(
    training: Scores,
    evaluated: Scores,
    *,
    part: str,
    clusters: tuple[ArrayLike, ArrayLike] | None = None,
    num_resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> MembershipGap:
    """Compare the losses of two parts.

    Args:
        training: scores of rows of the training part.
        evaluated: scores of rows of the evaluated part.
        part: its name.
        clusters: the customers of the rows of both. None: each set, or text, is a cluster of its own.
        num_resamples: of the bootstrap.
        seed: of the bootstrap.
        level: of the interval.
    """
    own, others = clusters if clusters is not None else (training.example_id, evaluated.example_id)
    codes = cluster_codes(np.concatenate([np.asarray(own), np.asarray(others)]))
    losses = -np.concatenate([training.log_probability, evaluated.log_probability])
    is_training = np.arange(len(losses)) < len(training)
    columns = np.stack([is_training, is_training * losses, ~is_training, ~is_training * losses], axis=1)
    draws = ClusterBootstrap(codes, num_resamples=num_resamples, seed=seed)
    means = draws.resampled_means(columns.astype(np.float64)).T
    is_whole = (means[0] > 0) & (means[2] > 0)  # a resample of few customers may lack a part
    replicates = means[3, is_whole] / means[2, is_whole] - means[1, is_whole] / means[0, is_whole]
    first, second = exact_mean(losses[is_training]), exact_mean(losses[~is_training])
    interval = draws.interval(second - first, replicates, level=level)
    area = _area(losses, is_training, codes, level=level)
    others = losses[~is_training]
    found = float(np.mean(losses[is_training] < np.quantile(others, 0.01))) if len(others) >= _FEWEST_OTHERS else None
    caught = 100 * found if found is not None else None
    return MembershipGap(first, second, interval, int(is_training.sum()), part, area, caught)


def _area(
    losses: NDArray[np.float64], is_training: NDArray[np.bool_], clusters: NDArray[np.int64], *, level: float
) -> Interval:
    """Return the area under the curve that tells training rows by their smaller loss, with its interval.

    Formula: variance = C / (C - 1) * sum over clusters of (sum of (V_i - AUC) / m + sum of (V_j - AUC) / n)^2, with V
    the share of the other part that a row is told from, and m and n the rows of the two parts.
    """
    own, others = np.sort(losses[is_training]), np.sort(losses[~is_training])
    placed = np.empty(len(losses))
    above = [np.searchsorted(others, losses[is_training], side=side) for side in ("left", "right")]
    below = [np.searchsorted(own, losses[~is_training], side=side) for side in ("left", "right")]
    placed[is_training] = 1 - (above[0] + above[1]) / (2 * len(others))
    placed[~is_training] = (below[0] + below[1]) / (2 * len(own))
    area = exact_mean(placed[is_training])
    scale = len(losses) / np.where(is_training, len(own), len(others))
    found = cluster_interval(area + scale * (placed - area), clusters, level=level)
    low, high = np.clip([found.low, found.high], 0.0, 1.0).tolist()  # an unknown end stays unknown
    return replace(found, value=area, low=low, high=high)
