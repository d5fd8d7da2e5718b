"""Scores of an evaluation: the rank of each row's true answer, its probability, and the metrics of both.

Sets, labels, tags, answers and hidden words share the one type. Sums are rounded once (`math.fsum`), so the order of
the rows, and with it the number of processes, never changes a digit. No model, customer or item is known here.
Reference: Contextual BERT, section 3, for cross-entropy and recall@k of the masked item; docs/protocol.md for ties
and the full ranking.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.answer_predictions import AnswerPredictions
from contextual_bert.evaluation.label_predictions import LabelPredictions
from contextual_bert.evaluation.metrics import (
    CALIBRATION_ERROR,
    CROSS_ENTROPY,
    DEFAULT_KS,
    RECIPROCAL_RANK,
    exact_mean,
    recall_key,
    usable_ks,
)
from contextual_bert.evaluation.multi_label_predictions import MultiLabelPredictions
from contextual_bert.evaluation.number_columns import reject, set_columns
from contextual_bert.evaluation.number_predictions import NumberPredictions
from contextual_bert.evaluation.sentence_predictions import SentencePredictions
from contextual_bert.evaluation.set_predictions import SetPredictions
from contextual_bert.evaluation.text_predictions import TextPredictions

# bf16 scorers sum their probabilities in float32: a hair above one is rounding, more is a wrong scorer.
_ROUNDING = 1e-3
Predictions = (
    LabelPredictions
    | MultiLabelPredictions
    | NumberPredictions
    | AnswerPredictions
    | SetPredictions
    | TextPredictions
    | SentencePredictions
)
_COLUMNS = ("example_id", "position", "log_probability", "num_better", "num_tied", "confidence")


@dataclass(frozen=True, eq=False)
class Scores:
    """The rank of the true answer of each row, and the predictions where there are some.

    Formula: rank of the target = num_better + U, U uniform on 1..num_tied; every metric is its expectation over U.

    Symbols: `log_probability` = log Pr(M = w_i | w_-i, c), natural logarithm; the rest is not in the paper.

    Shapes: every column is (rows,).

    Args:
        example_id: row of the original table; all positions of a set, or words of a text, share it.
        position: the masked position within the set; of a tag that of its word; of several
            labels the id of the label; of an answer twice its window for the
            first token, one more for the last.
        log_probability: of the target, in nats; finite, at most 0.
        num_better: items with a strictly higher score than the target.
        num_tied: items with the target's score, the target included: at least 1.
        confidence: the probability of the best-scored item.
        predictions: the label predicted for each of these rows, the answer to each question, or the sets that were
            hidden as a whole, or the decisions about pairs of sentences; None for items and words that were hidden one
            at a time, which are judged by ranks alone.
        num_unknown_targets: positions that are not here, for their item is unknown to the vocabulary and has no rank.
        num_possible: positions from which these were drawn; None where all were scored.

    Raises:
        ConfigurationError: columns of different lengths.
        DataError: a value that cannot be; predictions of other rows.

    Relation to its siblings: `contextual_bert.inference.scoring.score` makes one; `summarise` gives its plain
    numbers and `evaluate_scores` adds intervals and segments.

    Reference: docs/protocol.md.

    Example:
        >>> scores = Scores([7, 7], [0, 1], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> from contextual_bert.evaluation import summarise
        >>> summarise(scores, ks=(1, 5))["recall_at_1_percent"]
        50.0
    """

    example_id: NDArray[np.int64]
    position: NDArray[np.int64]
    log_probability: NDArray[np.float64]
    num_better: NDArray[np.int64]
    num_tied: NDArray[np.int64]
    confidence: NDArray[np.float64]
    predictions: Predictions | None = None
    num_unknown_targets: int = 0
    num_possible: int | None = None

    def __post_init__(self) -> None:
        set_columns(self, _COLUMNS, real=("log_probability", "confidence"), row="masked position")
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
        if self.predictions is not None and not self.predictions.is_of(self.example_id, self.position):
            raise DataError("the predictions are not of the scored rows", fix="Predict what was scored, in its order.")

    def __len__(self) -> int:
        return len(self.example_id)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return all rows of the parts (of several batches or processes), in the order given."""
        if not parts:
            raise ConfigurationError("No scores to concatenate", fix="Give the parts of at least one batch or process.")
        columns = (np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS)
        return cls(
            *columns,
            predictions=_concatenated([part.predictions for part in parts]),
            num_unknown_targets=sum(part.num_unknown_targets for part in parts),
        )

    def select(self, mask: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """Return the rows that a boolean mask or an array of row numbers names, with their predictions."""
        columns = [getattr(self, name)[mask] for name in _COLUMNS]
        predictions = self.predictions
        if isinstance(predictions, LabelPredictions | SetPredictions):
            predictions = predictions.select(mask)
        elif predictions is not None:
            predictions = predictions.select(np.isin(predictions.example_id, columns[0]))
        chosen = dict(zip(_COLUMNS, columns, strict=True))
        return replace(self, **chosen, predictions=predictions)

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
        """Return the same rows, and their predictions, by (example_id, position): the canonical order."""
        ordered = self.select(self.order())
        return ordered if self.predictions is None else replace(ordered, predictions=self.predictions.sorted())

    def unique(self) -> Self:
        """One row for each (example_id, position): what a sampler repeated to fill its last batch counts once."""
        ordered = self.sorted()
        return ordered.select(np.concatenate([np.ones(min(1, len(self)), dtype=np.bool_), ~ordered._repeats()]))

    def check(self, *, num_items: int | None = None) -> None:
        """Raise unless there are rows, each (example_id, position) once, and ranks that fit the number of items."""
        if len(self) == 0:
            raise DataError("there is no scored row to evaluate", fix="Give a part with at least one set or text.")
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
        """Column name -> array, as safetensors stores them; `Scores(**arrays)` is the way back, but for predictions."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def _repeats(self) -> NDArray[np.bool_]:
        return (self.example_id[1:] == self.example_id[:-1]) & (self.position[1:] == self.position[:-1])


def _concatenated(parts: Sequence[Predictions | None]) -> Predictions | None:
    kinds = {type(part) for part in parts}
    if len(kinds) > 1:
        raise ConfigurationError("The parts have predictions of different kinds", fix="Concatenate scores of one kind.")
    kind: Any = next(iter(kinds), type(None))
    return None if kind is type(None) else kind.concatenate(parts)


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
