"""Predicted numbers of texts with their intervals, and their metrics. It knows numbers alone: no model and no text."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation.example_predictions import ExamplePredictions
from contextual_bert.evaluation.metrics import (
    INTERVAL_COVERAGE,
    INTERVAL_WIDTH,
    MEAN_ABSOLUTE_ERROR,
    ROOT_MEAN_SQUARED_ERROR,
)
from contextual_bert.evaluation.number_columns import reject, set_columns

_REAL = ("predicted", "low", "high", "true")


@dataclass(frozen=True, eq=False)
class NumberPredictions(ExamplePredictions):
    """The number that was predicted for each text, the interval around it, and the true one.

    Formula: MAE = mean of |predicted - true|; RMSE = root of the mean of (predicted - true)^2; coverage = mean of
    [low <= true <= high]; width = mean of high - low.

    Shapes: every column is (rows,).

    Args:
        example_id: row of the original table, each once.
        predicted: the numbers that were predicted.
        low, high: the ends of the interval that should hold the true number.
        true: the numbers that are right.

    Raises:
        ConfigurationError: columns of different lengths.
        DataError: a number that is not finite, ends in the wrong order, a text twice.

    Relation to its siblings: ``LabelPredictions`` is for labels and grades, of which one is chosen.

    Reference: docs/protocol.md.

    Example:
        >>> rows = NumberPredictions([7, 8], predicted=[2.0, 5.0], low=[1.0, 4.5], high=[3.0, 6.0], true=[2.0, 4.0])
        >>> {key: round(float(value), 2) for key, value in rows.metrics(rows.columns().mean(axis=0)).items()}
        {'mean_absolute_error': 0.5, 'root_mean_squared_error': 0.71, 'interval_coverage_percent': 50.0, \
'interval_width': 1.75}
    """

    predicted: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    true: NDArray[np.float64]

    def __post_init__(self) -> None:
        set_columns(self, self.as_arrays(), real=_REAL, row="text")
        for name in _REAL:
            column = getattr(self, name)
            reject(~np.isfinite(column), column, name, "finite", "Give numbers.")
        reject(self.low > self.high, self.low, "low", "at most high", "Give the ends of each interval in their order.")
        self.check_each_once("text", advice="Predict every text once")

    def columns(self) -> NDArray[np.float64]:
        """(rows, 4): the columns whose means ``metrics`` takes."""
        distance = np.abs(self.predicted - self.true)
        is_covered = (self.low <= self.true) & (self.true <= self.high)
        columns = (distance, distance**2, is_covered, self.high - self.low)
        return np.stack(columns, axis=1, dtype=np.float64)

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over rows of ``columns``, for each of the leading axes."""
        return {
            MEAN_ABSOLUTE_ERROR: means[..., 0],
            ROOT_MEAN_SQUARED_ERROR: np.sqrt(means[..., 1]),
            INTERVAL_COVERAGE: 100 * means[..., 2],
            INTERVAL_WIDTH: means[..., 3],
        }
