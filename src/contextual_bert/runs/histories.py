"""The history of a trainer, as transformers keeps it, and the learning curve in it."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from contextual_bert.evaluation import LearningCurve, LearningPoint
from contextual_bert.evaluation.metrics import CROSS_ENTROPY
from contextual_bert.json_text import echoed
from contextual_bert.training.recipe import Recipe


def curve_of(recipe: Recipe, history: Sequence[Mapping[str, Any]]) -> LearningCurve | None:
    """Return the learning curve of a trainer's history, None where nothing was evaluated during training.

    Raises:
        ConfigurationError: epochs that do not rise, or a cross-entropy that is not finite.
        TypeError: an entry without its epoch and step, or with another value than a number.
    """
    points: list[LearningPoint] = []
    train_loss: float | None = None
    for entry in history:
        train_loss = _number(entry, "loss") if "loss" in entry else train_loss
        if f"eval_{CROSS_ENTROPY}" in entry:
            epoch, step, validation = (_number(entry, name) for name in ("epoch", "step", f"eval_{CROSS_ENTROPY}"))
            points.append(LearningPoint(epoch, int(step), train_loss, validation))
            train_loss = None
    return LearningCurve(recipe.label, recipe.seed, tuple(points)) if points else None


def _number(entry: Mapping[str, Any], name: str) -> float:
    value: object = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {echoed(value)}, and must be a number")
    return float(value)
