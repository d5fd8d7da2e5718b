"""Predicted numbers: the metrics are those of scikit-learn, runs are compared on equal truths, faults are named."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from contextual_bert.errors import DataError
from contextual_bert.evaluation import LabelPredictions, NumberPredictions, Run, Scores, compare_runs, evaluate_scores


def drawn(num_rows: int = 60, *, noise: float = 1.0) -> NumberPredictions:
    numbers = np.random.default_rng(0)
    true = numbers.normal(10, 4, num_rows)
    predicted = true + noise * numbers.normal(size=num_rows)
    return NumberPredictions(np.arange(num_rows), predicted, predicted - 1.5, predicted + 1.5, true)


def scores_of(rows: NumberPredictions) -> Scores:
    places = np.zeros(len(rows), dtype=np.int64)
    return Scores(rows.example_id, places, np.full(len(rows), -1.0), places, places + 1, places + 0.4, predictions=rows)


def test_the_metrics_are_those_of_scikit_learn() -> None:
    rows = drawn()
    found = evaluate_scores(scores_of(rows)).metrics
    assert found["mean_absolute_error"].value == pytest.approx(mean_absolute_error(rows.true, rows.predicted))
    assert found["root_mean_squared_error"].value == pytest.approx(root_mean_squared_error(rows.true, rows.predicted))
    inside = np.abs(rows.true - rows.predicted) <= 1.5
    assert found["interval_coverage_percent"].value == pytest.approx(100 * inside.mean())
    assert found["interval_width"].value == pytest.approx(3.0)
    interval = found["root_mean_squared_error"]
    assert interval.low < interval.value < interval.high


def test_runs_are_compared_by_the_error_and_only_on_one_truth() -> None:
    good, poor = scores_of(drawn()), scores_of(drawn(noise=3.0))
    comparison = compare_runs([Run("good", 0, good), Run("poor", 0, poor)], reference="poor")
    assert comparison.main == "root_mean_squared_error"
    assert [row.name for row in comparison.rows] == ["good", "poor"]
    other = drawn()
    moved = replace(other, true=other.true + 1)
    with pytest.raises(DataError, match="is true for example 0"):
        compare_runs([Run("good", 0, good), Run("other", 0, scores_of(moved))], reference="good")
    labels = LabelPredictions(
        other.example_id, np.zeros(len(other)), np.zeros(len(other)), np.zeros(len(other)), names=("a", "b")
    )
    with pytest.raises(DataError, match="predictions of one kind"):
        compare_runs([Run("good", 0, good), Run("labels", 0, replace(good, predictions=labels))], reference="good")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"true": np.full(60, np.nan)}, "must be finite"),
        ({"low": np.full(60, 99.0)}, "at most high"),
        ({"example_id": np.zeros(60, dtype=np.int64)}, "occurs more than once"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        replace(drawn(), **change)


def test_parts_of_one_kind_are_joined() -> None:
    rows = drawn()
    halves = [rows.select(np.arange(60) < 30), rows.select(np.arange(60) >= 30)]
    assert NumberPredictions.concatenate(halves).true.tolist() == rows.true.tolist()
    joined = Scores.concatenate([scores_of(each) for each in halves])
    assert isinstance(joined.predictions, NumberPredictions)
    assert len(joined) == 60
