"""Learning curves, and whether training had converged when it ended.

A method that is still falling was compared too early: its number says what the budget allowed, not what the method can.
This module does not know trainers; a curve is a list of points. Note what "flat" cannot say: a learning rate that
decays to nothing flattens every curve.

Paper: not there. docs/protocol.md, "Equal treatment".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.intervals import seed_mean
from contextual_bert.evaluation.serialization import CAN_LACK, JsonText

# The resolution of a study of three seeds: the paper's standard errors are 0.004 to 0.008 nats. What one more epoch
# would change by less cannot be told from another seed.
STILL_FALLING_NATS_PER_EPOCH = -0.005
# An epoch of a small table is a few steps. What training that goes on would bring is looked at over at least so many.
FEWEST_STEPS_AHEAD = 500
# Through two points every line fits.
_FEWEST_POINTS = 3


@dataclass(frozen=True)
class LearningPoint:
    """One evaluation during training.

    Args:
        epoch, step: when it was.
        train_loss_nats: None where none was logged since the last one.
        validation_cross_entropy_nats: of the validation part.
        validation_metrics: further metrics of the validation part by key, such as the accuracy of next sentences.
    """

    epoch: float
    step: int
    train_loss_nats: float | None
    validation_cross_entropy_nats: float
    validation_metrics: dict[str, float] = field(default_factory=dict[str, float], metadata={CAN_LACK: True})


@dataclass(frozen=True)
class LearningCurve(JsonText):
    """Validation cross-entropy of one run over its training.

    Args:
        name: of the method.
        seed: of the training.
        points: in the order of training.

    Relation to its siblings: a `Run` holds the scores at the end; `Convergence` sums up the curves of one method.

    Reference: docs/protocol.md, "Equal treatment".

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
            raise ConfigurationError(f"{place} has no point", fix="Evaluate at least once, or leave the curve out.")
        for point in self.points:
            if not (math.isfinite(point.epoch) and math.isfinite(point.validation_cross_entropy_nats)):
                raise ConfigurationError(
                    f"{place} has {point}", fix="Give finite numbers; leave out what was not measured."
                )
        epochs = [point.epoch for point in self.points]
        if any(later <= earlier for earlier, later in pairwise(epochs)):
            raise ConfigurationError(f"{place} has epochs {epochs}", fix="Give each once, in the order of training.")


@dataclass(frozen=True)
class Convergence:
    """The slope at the end of training, as a mean over the seeds whose curves are long enough.

    Args:
        name: of the method.
        slope_nats_per_epoch: None where no curve is long enough.
        num_seeds: seeds in the mean.
        has_turned: the last evaluation was worse than the one before it, as a mean over the same seeds. With few
            epochs the slope may still be that of the first ones.
        steps_per_epoch: optimizer steps in an epoch, as a mean over the same seeds. None: not known.

    Example:
        >>> Convergence("none", -0.0023, 1, steps_per_epoch=48).is_still_falling
        True
    """

    name: str
    slope_nats_per_epoch: float | None
    num_seeds: int
    has_turned: bool = False
    steps_per_epoch: float | None = None

    @property
    def slope_ahead_nats(self) -> float | None:
        """Return the expected change by an epoch more, or by ``FEWEST_STEPS_AHEAD`` steps if that is more."""
        if self.slope_nats_per_epoch is None:
            return None
        return self.slope_nats_per_epoch * max(1.0, FEWEST_STEPS_AHEAD / (self.steps_per_epoch or math.inf))

    @property
    def is_still_falling(self) -> bool:
        """Return True if more training would have gained more than a study of a few seeds can tell apart."""
        return self._has_fallen and not self.has_turned

    @property
    def _has_fallen(self) -> bool:
        return self.slope_ahead_nats is not None and self.slope_ahead_nats < STILL_FALLING_NATS_PER_EPOCH

    @property
    def is_rising(self) -> bool:
        """Return True if the last epochs made the validation worse: overfitting, unless the best epoch was kept."""
        return self.slope_ahead_nats is not None and self.slope_ahead_nats > -STILL_FALLING_NATS_PER_EPOCH

    def __str__(self) -> str:
        """Return the words of a table cell.

        Example:
            >>> str(Convergence("none", -0.012, 3)), str(Convergence("none", -0.001, 3))
            ('still falling (-0.0120 nats an epoch)', 'flat (-0.0010 nats an epoch)')
            >>> str(Convergence("none", -0.012, 3, has_turned=True))
            'fallen, and risen in the last step (-0.0120 nats an epoch)'
            >>> str(Convergence("none", -0.0023, 1, steps_per_epoch=48))
            'still falling (-0.0023 nats an epoch of 48 steps)'
        """
        if self.slope_nats_per_epoch is None:
            return f"unknown (fewer than {_FEWEST_POINTS} evaluations)"
        fallen = "fallen, and risen in the last step" if self.has_turned else "still falling"
        word = fallen if self._has_fallen else "rising" if self.is_rising else "flat"
        epoch = "an epoch" if self.steps_per_epoch is None else f"an epoch of {self.steps_per_epoch:,.0f} steps"
        return f"{word} ({self.slope_nats_per_epoch:+.4f} nats {epoch})"


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
        raise ConfigurationError(
            "is not allowed", setting="share", value=share, fix="Give a number above 0 and at most 1, such as 0.2."
        )
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
        long = [curve for curve, slope in zip(own, slopes, strict=True) if slope is not None]
        if not long:
            found.append(Convergence(name, None, 0))
            continue
        found.append(
            Convergence(
                name,
                seed_mean(measured).mean,
                len(measured),
                has_turned=sum(map(_last_change, long)) > 0,
                steps_per_epoch=seed_mean([_steps_per_epoch(curve) for curve in long]).mean,
            )
        )
    return tuple(found)


def _steps_per_epoch(curve: LearningCurve) -> float:
    return curve.points[-1].step / curve.points[-1].epoch


def _last_change(curve: LearningCurve) -> float:
    """By how many nats the last evaluation was worse than the one before it."""
    before, last = curve.points[-2:]
    return last.validation_cross_entropy_nats - before.validation_cross_entropy_nats
