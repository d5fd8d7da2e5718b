"""The metrics that reports and comparisons know: key, label, unit, direction, and what a reader must know of each.

Every key ends with its unit: `cross_entropy_nats`, `recall_at_5_percent`. Ranks are computed in `scores`, what
was predicted in `label_predictions` and `answer_predictions`.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, UnknownNameError

DEFAULT_KS = (1, 5, 20, 250)
CROSS_ENTROPY = "cross_entropy_nats"
RECIPROCAL_RANK = "mean_reciprocal_rank"
CALIBRATION_ERROR = "expected_calibration_error"
ACCURACY = "accuracy_percent"
MACRO_F1 = "macro_f1_percent"
MEAN_ABSOLUTE_ERROR = "mean_absolute_error"
ROOT_MEAN_SQUARED_ERROR = "root_mean_squared_error"
ENTITY_PRECISION = "entity_precision_percent"
ENTITY_RECALL = "entity_recall_percent"
ENTITY_F1 = "entity_f1_percent"
EXACT_MATCH = "exact_match_percent"
ANSWER_F1 = "answer_f1_percent"
# The first of these that a task has is what its rows are judged by.
MAIN_METRICS = (ENTITY_F1, ANSWER_F1, ACCURACY, CROSS_ENTROPY)


@dataclass(frozen=True)
class Metric:
    """A metric for people: key, label, unit, printed digits and direction.

    Args:
        key: name in files.
        label, unit: name in tables.
        digits: printed behind the point.
        is_higher_better: direction.
        about: sentence below the tables that have the metric; empty where every reader knows it.
    """

    key: str
    label: str
    unit: str
    digits: int
    is_higher_better: bool
    about: str = ""

    @property
    def heading(self) -> str:
        """Label with the unit in brackets."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def gap_unit(self) -> str:
        """Unit of a difference: of two percentages it is in points, for a percent of the smaller one is another number.

        Example:
            >>> metric_of("accuracy_percent").gap_unit, metric_of("cross_entropy_nats").gap_unit
            ('points', 'nats')
        """
        return "points" if self.unit == "%" else self.unit

    @property
    def gap_heading(self) -> str:
        """Label with the unit of a difference in brackets."""
        return replace(self, unit=self.gap_unit).heading

    def range(self, num_items: int | None = None) -> tuple[float, float]:
        """Return the smallest and the largest possible value, where so many items are ranked."""
        if self.key == RECIPROCAL_RANK:
            return (1 / num_items if num_items else 0.0), 1.0
        return 0.0, 100.0 if self.unit == "%" else math.inf


_OF_GRADES = (
    "MAE and RMSE: of the labels' numbers, or of their places in the order where labels are words. Over all rows at "
    "once, lower is better."
)
_OF_ENTITIES = "An entity counts where its type and both ends are right, over all types, read as seqeval does."
_OF_ANSWERS = (
    "Exact match and F1: of the words of an answer, without case, punctuation and articles, as for SQuAD. A text "
    "without an answer is right or wrong."
)
_METRICS = {
    metric.key: metric
    for metric in (
        Metric(CROSS_ENTROPY, "CE", "nats", 4, False),
        Metric(RECIPROCAL_RANK, "MRR", "", 4, True),
        Metric(CALIBRATION_ERROR, "ECE", "", 4, False),
        Metric(ACCURACY, "accuracy", "%", 2, True),
        Metric(
            MACRO_F1,
            "macro F1",
            "%",
            2,
            True,
            "Macro F1: plain mean over the classes that occur in the truth or the prediction.",
        ),
        Metric(MEAN_ABSOLUTE_ERROR, "MAE", "", 4, False, _OF_GRADES),
        Metric(ROOT_MEAN_SQUARED_ERROR, "RMSE", "", 4, False, _OF_GRADES),
        Metric(ENTITY_PRECISION, "entity precision", "%", 2, True, _OF_ENTITIES),
        Metric(ENTITY_RECALL, "entity recall", "%", 2, True, _OF_ENTITIES),
        Metric(ENTITY_F1, "entity F1", "%", 2, True, _OF_ENTITIES),
        Metric(EXACT_MATCH, "exact match", "%", 2, True, _OF_ANSWERS),
        Metric(ANSWER_F1, "answer F1", "%", 2, True, _OF_ANSWERS),
    )
}


# What is computed from the ranks of true answers, recall aside, from labels, and from all predictions.
RANK_METRICS = (CROSS_ENTROPY, RECIPROCAL_RANK, CALIBRATION_ERROR, "recall_at_1_percent", "recall_at_5_percent")
LABEL_METRICS = (
    ACCURACY,
    MACRO_F1,
    MEAN_ABSOLUTE_ERROR,
    ROOT_MEAN_SQUARED_ERROR,
    ENTITY_PRECISION,
    ENTITY_RECALL,
    ENTITY_F1,
)
ANSWER_METRICS = (EXACT_MATCH, ANSWER_F1)
PREDICTION_METRICS = (*LABEL_METRICS, *ANSWER_METRICS)
_SHORT_NAMES = {
    "accuracy": ACCURACY,
    "answer_f1": ANSWER_F1,
    "cross_entropy": CROSS_ENTROPY,
    "entity_f1": ENTITY_F1,
    "entity_precision": ENTITY_PRECISION,
    "entity_recall": ENTITY_RECALL,
    "exact_match": EXACT_MATCH,
    "macro_f1": MACRO_F1,
    "mae": MEAN_ABSOLUTE_ERROR,
    "mrr": RECIPROCAL_RANK,
    "rmse": ROOT_MEAN_SQUARED_ERROR,
}


def recall_key(k: int) -> str:
    return f"recall_at_{k}_percent"


def metric_of(key: str) -> Metric:
    """The description of a metric key.

    Example:
        >>> metric_of("recall_at_5_percent").heading
        'recall@5 (%)'
    """
    if key in _METRICS:
        return _METRICS[key]
    k = key.removeprefix("recall_at_").removesuffix("_percent")
    if not k.isdigit() or key != recall_key(int(k)):
        raise UnknownNameError(
            f"Unknown metric {key!r}", allowed=f"Known: recall_at_<k>_percent, {', '.join(_METRICS)}."
        )
    return Metric(key, f"recall@{k}", "%", 2, True)


def metric_key(name: str) -> str:
    """Return the key of a metric by its short name, such as "accuracy", "mrr" or "recall@5"; other names as they are.

    Example:
        >>> metric_key("accuracy"), metric_key("eval_recall@5"), metric_key("loss")
        ('accuracy_percent', 'recall_at_5_percent', 'loss')
    """
    short = name.removeprefix("eval_")
    if short in _SHORT_NAMES:
        return _SHORT_NAMES[short]
    found = re.fullmatch(r"recall(?:@|_at_)(\d+)", short)
    return recall_key(int(found[1])) if found else name


def main_metric(keys: Collection[str]) -> str:
    """Return the key of the metric that rows with these metrics are judged by.

    Example:
        >>> main_metric(["cross_entropy_nats", "accuracy_percent"])
        'accuracy_percent'
    """
    return next(key for key in MAIN_METRICS if key in keys)


def notes_about(keys: Collection[str]) -> list[str]:
    """Return what a reader must know of these metrics, each sentence once."""
    return list(dict.fromkeys(metric_of(key).about for key in keys if metric_of(key).about))


def usable_ks(ks: Sequence[int], num_items: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ks to report and those left out because k >= num_items, where recall is 100% whatever the scorer does."""
    if any(isinstance(k, bool) or int(k) != k or k < 1 for k in ks) or len(set(ks)) != len(ks):
        raise ConfigurationError(
            "is not allowed: each k of recall@k must be a whole number >= 1, named once", setting="ks", value=tuple(ks)
        )
    kept = tuple(int(k) for k in sorted(ks) if num_items is None or k < num_items)
    return kept, tuple(int(k) for k in sorted(ks) if k not in kept)


def exact_mean(values: NDArray[np.float64]) -> float:
    """The mean from a sum that is rounded once: the same digits in any order of the rows."""
    return math.fsum(values.tolist()) / len(values)
