"""Learning curves, and whether training had converged when it ended.

A method that is still falling was compared too early: its number says what the budget allowed, not what the method can.
This module does not know trainers; a curve is a list of points. Note what "flat" cannot say: a learning rate that
decays to nothing flattens every curve.

Paper: not there. PROTOCOL, point 8.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.intervals import seed_mean
from contextual_bert.evaluation.serialization import JsonText

# The resolution of a study of three seeds: the paper's standard errors are 0.004 to 0.008 nats. What one more epoch
# would change by less cannot be told from another seed.
STILL_FALLING_NATS_PER_EPOCH = -0.005
# Through two points every line fits.
_FEWEST_POINTS = 3


@dataclass(frozen=True)
class LearningPoint:
    """One evaluation during training; the training loss is None where none was logged since the last one."""

    epoch: float
    step: int
    train_loss_nats: float | None
    validation_cross_entropy_nats: float


@dataclass(frozen=True)
class LearningCurve(JsonText):
    """How the validation cross-entropy of one run went down.

    Args:
        name: of the method.
        seed: of the training.
        points: in the order of training.

    Relation to its siblings: a `Run` holds the scores at the end; `Convergence` sums up the curves of one method.

    Reference: PROTOCOL, point 8.

    Example:
        >>> points = [LearningPoint(epoch, 10 * epoch, None, 5.0 - 0.1 * epoch) for epoch in (1, 2, 3)]
        >>> curve = LearningCurve("none", 0, tuple(points))
        >>> LearningCurve.from_json(curve.to_json()) == curve
        True
    """

    name: str
    seed: int
    points: tuple[LearningPoint, ...]

    def __post_init__(self) -> None:
        place = f"The learning curve of {self.name!r} (seed {self.seed})"
        if not self.points:
            raise ConfigurationError(f"{place} has no point. Evaluate at least once, or leave the curve out.")
        for point in self.points:
            if not (math.isfinite(point.epoch) and math.isfinite(point.validation_cross_entropy_nats)):
                raise ConfigurationError(f"{place} has {point}. Give finite numbers; leave out what was not measured.")
        epochs = [point.epoch for point in self.points]
        if any(later <= earlier for earlier, later in pairwise(epochs)):
            raise ConfigurationError(f"{place} has epochs {epochs}. Give each once, in the order of training.")


@dataclass(frozen=True)
class Convergence:
    """The slope at the end of training, mean over the seeds whose curves are long enough; None where none is.

    ``has_turned`` says that the last evaluation was worse than the one before it, mean over the same seeds: of a few
    epochs the slope may still be that of the first ones.
    """

    name: str
    slope_nats_per_epoch: float | None
    num_seeds: int
    has_turned: bool = False

    @property
    def is_still_falling(self) -> bool:
        """Whether one more epoch would have gained more than a study of a few seeds can tell apart."""
        return self._has_fallen and not self.has_turned

    @property
    def _has_fallen(self) -> bool:
        return self.slope_nats_per_epoch is not None and self.slope_nats_per_epoch < STILL_FALLING_NATS_PER_EPOCH

    @property
    def is_rising(self) -> bool:
        """Whether the last epochs made the validation worse: overfitting, unless the best checkpoint was kept."""
        return self.slope_nats_per_epoch is not None and self.slope_nats_per_epoch > -STILL_FALLING_NATS_PER_EPOCH

    def __str__(self) -> str:
        """How a table says it.

        Example:
            >>> str(Convergence("none", -0.012, 3)), str(Convergence("none", -0.001, 3))
            ('still falling (-0.0120 nats an epoch)', 'flat (-0.0010 nats an epoch)')
            >>> str(Convergence("none", -0.012, 3, has_turned=True))
            'fallen, and risen in the last step (-0.0120 nats an epoch)'
        """
        if self.slope_nats_per_epoch is None:
            return f"unknown (fewer than {_FEWEST_POINTS} evaluations)"
        fallen = "fallen, and risen in the last step" if self.has_turned else "still falling"
        word = fallen if self._has_fallen else "rising" if self.is_rising else "flat"
        return f"{word} ({self.slope_nats_per_epoch:+.4f} nats an epoch)"


def slope_of_last_part(curve: LearningCurve, share: float = 0.2, *, since: float = 0.0) -> float | None:
    """Nats per epoch that the validation cross-entropy changed at the end, by least squares; negative is falling.

    Args:
        curve: of one run; its training begins at epoch 0.
        share: of the epochs that count as the end; where fewer than three evaluations lie in it, the last three.
        since: epoch after which training was what it was at the end; a change of its masks makes a step in the
            curve, and a line through that is no slope. A curve that ends before it has no such step.

    Returns:
        The slope, or None where fewer than three points are left.

    Example:
        >>> points = [LearningPoint(epoch, epoch, None, 5.0 - 0.1 * epoch) for epoch in range(1, 11)]
        >>> round(slope_of_last_part(LearningCurve("none", 0, tuple(points))), 6)
        -0.1
    """
    if not 0 < share <= 1:
        raise ConfigurationError(f"share = {share}: give a number above 0 and at most 1, such as 0.2.")
    points = [point for point in curve.points if point.epoch > since or curve.points[-1].epoch <= since]
    if len(points) < _FEWEST_POINTS:
        return None
    begin = (1 - share) * points[-1].epoch
    num_last = max(_FEWEST_POINTS, sum(point.epoch >= begin for point in points))
    last = points[-num_last:]
    epochs = np.array([point.epoch for point in last])
    losses = np.array([point.validation_cross_entropy_nats for point in last])
    centred = epochs - epochs.mean()
    return float((centred * (losses - losses.mean())).sum() / (centred**2).sum())


def measure_convergence(
    curves: Sequence[LearningCurve], *, share: float = 0.2, since: float = 0.0
) -> tuple[Convergence, ...]:
    """One Convergence a method, in the order in which the methods first come; arguments as `slope_of_last_part`."""
    found: list[Convergence] = []
    for name in dict.fromkeys(curve.name for curve in curves):
        own = [curve for curve in curves if curve.name == name]
        slopes = [slope_of_last_part(curve, share, since=since) for curve in own]
        measured = [slope for slope in slopes if slope is not None]
        steps = [_last_step(curve) for curve, slope in zip(own, slopes, strict=True) if slope is not None]
        mean = seed_mean(measured).mean if measured else None
        found.append(Convergence(name, mean, len(measured), has_turned=sum(steps) > 0))
    return tuple(found)


def _last_step(curve: LearningCurve) -> float:
    """By how many nats the last evaluation was worse than the one before it."""
    before, last = curve.points[-2:]
    return last.validation_cross_entropy_nats - before.validation_cross_entropy_nats
