"""The numbers of one evaluation, as pure functions of ranks and probabilities.

Every value is in the unit its key ends with: `cross_entropy_nats`, `recall_at_5_percent`. Sums are rounded once
(`math.fsum`), so the order of the rows, and with it the number of processes, never changes a digit.
This module does not know what a model, a customer or an item is: only how well the target of a row was ranked.

Paper: section 3 (cross-entropy and recall@k of the masked item). Ties and full ranking: our protocol.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError, UnknownNameError
from contextual_bert.evaluation.number_columns import reject, set_columns

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
# bf16 scorers sum their probabilities in float32: a hair above one is rounding, more is a wrong scorer.
_ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class Scores:
    """How each masked position was ranked: one row a target, columns of equal length.

    Formula: rank of the target = num_better + U, U uniform on 1..num_tied; every metric is its expectation over U.

    Symbols: `log_probability` = log Pr(M = w_i | w_-i, c), natural logarithm; the rest is not in the paper.

    Shapes: every column is (rows,).

    Args:
        example_id: row of the original table; all positions of a set share it.
        position: the masked position within the set.
        log_probability: of the target, in nats; finite, at most 0.
        num_better: items with a strictly higher score than the target.
        num_tied: items with the target's score, the target included: at least 1.
        confidence: the probability of the best-scored item.

    Relation to its siblings: `contextual_bert.inference.scoring.score` makes one; `summarise` gives its plain
    numbers and `evaluate_scores` adds intervals and segments.

    Reference: PROTOCOL, points 1-5.

    Example:
        >>> scores = Scores([7, 7], [0, 1], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> summarise(scores, ks=(1, 5))["recall_at_1_percent"]
        50.0
    """

    example_id: NDArray[np.int64]
    position: NDArray[np.int64]
    log_probability: NDArray[np.float64]
    num_better: NDArray[np.int64]
    num_tied: NDArray[np.int64]
    confidence: NDArray[np.float64]

    def __post_init__(self) -> None:
        set_columns(self, self.as_arrays(), real=("log_probability", "confidence"), row="masked position")
        diverged = "Weights that are NaN give such scores, after a training that diverged or in a damaged file."
        reject(np.isnan(self.log_probability), self.log_probability, "log_probability", "a number", diverged)
        smooth = "A target with probability 0 has infinite cross-entropy: smooth the scorer."
        reject(~np.isfinite(self.log_probability), self.log_probability, "log_probability", "a finite number", smooth)
        limits = "Give natural logarithms of probabilities."
        reject(self.log_probability > _ROUNDING, self.log_probability, "log_probability", "at most 0", limits)
        outside = ~((self.confidence >= 0) & (self.confidence <= 1 + _ROUNDING))
        reject(outside, self.confidence, "confidence", "between 0 and 1", "Give the best item's probability.")
        reject(self.num_better < 0, self.num_better, "num_better", "at least 0", "Count items with a higher score.")
        reject(self.num_tied < 1, self.num_tied, "num_tied", "at least 1", "The target ties with itself: count it.")

    def __len__(self) -> int:
        return len(self.example_id)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """All rows of the parts (of several batches or processes), in the order given."""
        if not parts:
            raise ConfigurationError("No scores to concatenate. Give the parts of at least one batch or process.")
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def select(self, mask: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """The rows a boolean mask or an array of row numbers names."""
        return type(self)(*(getattr(self, field.name)[mask] for field in fields(self)))

    def order(self) -> NDArray[np.int64]:
        """The row numbers that put the rows in the order of (example_id, position)."""
        example, position = self.example_id, self.position
        is_later = (example[1:] > example[:-1]) | ((example[1:] == example[:-1]) & (position[1:] > position[:-1]))
        if is_later.all():
            return np.arange(len(self))
        # The other columns decide between repeats, so that `unique` keeps the same one in any order of the rows.
        columns = (self.confidence, self.num_tied, self.num_better, self.log_probability, position, example)
        return np.lexsort(columns)

    def sorted(self) -> Self:
        """The same rows by (example_id, position): the canonical order."""
        return self.select(self.order())

    def unique(self) -> Self:
        """One row for each (example_id, position): what a sampler repeated to fill its last batch counts once."""
        ordered = self.sorted()
        return ordered.select(np.concatenate([np.ones(min(1, len(self)), dtype=np.bool_), ~ordered._repeats()]))

    def check(self, *, num_items: int | None = None) -> None:
        """Raise unless there are rows, each (example_id, position) once, and ranks that fit the number of items."""
        if len(self) == 0:
            raise DataError("there is no masked position to evaluate", fix="Give a part with at least one set.")
        ordered = self.sorted()
        repeated = np.flatnonzero(ordered._repeats())
        if len(repeated):
            example, position = ordered.example_id[repeated[0]], ordered.position[repeated[0]]
            raise DataError(
                f"example {example}, position {position} was scored more than once ({len(repeated)} rows too many)",
                fix="Mask every position once, or drop the repeats of padded batches with Scores.unique().",
            )
        if num_items is not None:
            ranked = self.num_better + self.num_tied
            fix = "Rank among the same items that num_items counts (reserved ids excluded)."
            reject(ranked > num_items, ranked, "num_better + num_tied", f"at most num_items = {num_items}", fix)

    def as_arrays(self) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
        """Column name -> array, as safetensors stores them; `Scores(**arrays)` is the way back."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _repeats(self) -> NDArray[np.bool_]:
        return (self.example_id[1:] == self.example_id[:-1]) & (self.position[1:] == self.position[:-1])


@dataclass(frozen=True)
class Metric:
    """How a metric is written for people: its key, label, unit, printed digits and direction."""

    key: str
    label: str
    unit: str
    digits: int
    is_higher_better: bool

    @property
    def heading(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def range(self, num_items: int | None = None) -> tuple[float, float]:
        """The smallest and the largest value that there can be, where so many items are ranked."""
        if self.key == RECIPROCAL_RANK:
            return (1 / num_items if num_items else 0.0), 1.0
        return 0.0, 100.0 if self.unit == "%" else math.inf


_METRICS = {
    metric.key: metric
    for metric in (
        Metric(CROSS_ENTROPY, "CE", "nats", 4, False),
        Metric(RECIPROCAL_RANK, "MRR", "", 4, True),
        Metric(CALIBRATION_ERROR, "ECE", "", 4, False),
        Metric(ACCURACY, "accuracy", "%", 2, True),
        Metric(MACRO_F1, "macro F1", "%", 2, True),
        Metric(MEAN_ABSOLUTE_ERROR, "MAE", "", 4, False),
        Metric(ROOT_MEAN_SQUARED_ERROR, "RMSE", "", 4, False),
        Metric(ENTITY_PRECISION, "entity precision", "%", 2, True),
        Metric(ENTITY_RECALL, "entity recall", "%", 2, True),
        Metric(ENTITY_F1, "entity F1", "%", 2, True),
        Metric(EXACT_MATCH, "exact match", "%", 2, True),
        Metric(ANSWER_F1, "answer F1", "%", 2, True),
    )
}


# What is computed from the ranks of true answers, recall aside, and from what was chosen for labels.
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
_SHORT_NAMES = {
    "accuracy": ACCURACY,
    "cross_entropy": CROSS_ENTROPY,
    "entity_f1": ENTITY_F1,
    "entity_precision": ENTITY_PRECISION,
    "entity_recall": ENTITY_RECALL,
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
        raise UnknownNameError(f"Unknown metric {key!r}. Known: recall_at_<k>_percent, {', '.join(_METRICS)}.")
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


def usable_ks(ks: Sequence[int], num_items: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ks to report and those left out because k >= num_items, where recall is 100% whatever the scorer does."""
    if any(isinstance(k, bool) or int(k) != k or k < 1 for k in ks) or len(set(ks)) != len(ks):
        raise ConfigurationError(f"ks = {tuple(ks)}: each k of recall@k must be a whole number >= 1, named once.")
    kept = tuple(int(k) for k in sorted(ks) if num_items is None or k < num_items)
    return kept, tuple(int(k) for k in sorted(ks) if k not in kept)


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


def exact_mean(values: NDArray[np.float64]) -> float:
    """The mean from a sum that is rounded once: the same digits in any order of the rows."""
    return math.fsum(values.tolist()) / len(values)


def calibration_bin_of(confidence: NDArray[np.float64], num_bins: int) -> NDArray[np.int64]:
    """The equal-width bin of each confidence; an edge belongs to the bin above it, 1.0 to the last."""
    if num_bins < 1:
        raise ConfigurationError(f"num_bins = {num_bins}: give at least one calibration bin.")
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
