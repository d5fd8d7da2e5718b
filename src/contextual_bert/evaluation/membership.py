"""Membership: the distance of the training loss below others, which tells who is in the training part.

Whoever knows a row and can ask the model compares its loss with that of other rows. The gap is what such a guess lives
on, on average. This module knows no model: only the scores of two parts.

Paper: not there. References: Yeom et al. 2018, theorem 2, for the gap; Efron and Tibshirani 1993 for its interval.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contextual_bert.evaluation.intervals import ClusterBootstrap, Interval, cluster_codes
from contextual_bert.evaluation.metrics import exact_mean
from contextual_bert.evaluation.scores import Scores
from contextual_bert.evaluation.serialization import JsonText


@dataclass(frozen=True)
class LossGap(JsonText):
    """The loss on a sample of the training part beside that on the evaluated part.

    Formula: gap = mean loss of the evaluated rows - mean loss of the training rows, in nats.

    Args:
        training_nats: mean loss of the sample of the training part.
        evaluated_nats: mean loss of the evaluated part.
        gap_nats: the second less the first. Its interval resamples the customers of both.
        num_training_rows: rows of the sample.
        part: the evaluated part.

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

    def note(self) -> str:
        """Return what the gap says, in sentences."""
        gap, part = self.gap_nats, self.part
        said = (
            f"Membership: the loss is {self.training_nats:.4f} nats on {self.num_training_rows:,} rows of the training "
            f"part and {self.evaluated_nats:.4f} on the {part} part. The gap is {gap.value:.4f} "
            f"[{gap.low:.4f}, {gap.high:.4f}]."
        )
        if gap.low > 0:
            return (
                f"{said} Rows of the training part can be told from others by their loss, better than by chance. "
                "Train for fewer epochs, or on more customers, where that matters."
            )
        return f"{said} On average training rows are not told from others by their loss; single ones may be."


def compare_losses(
    training: Scores,
    evaluated: Scores,
    *,
    part: str,
    clusters: tuple[ArrayLike, ArrayLike] | None = None,
    num_resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> LossGap:
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
    return LossGap(first, second, interval, int(is_training.sum()), part)
