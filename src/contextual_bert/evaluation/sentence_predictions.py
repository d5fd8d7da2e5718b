"""Scores of the decision whether a sentence follows another. It knows numbers alone."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation.example_predictions import ExamplePredictions
from contextual_bert.evaluation.metrics import NEXT_SENTENCE
from contextual_bert.evaluation.number_columns import reject, set_columns


@dataclass(frozen=True, eq=False)
class SentencePredictions(ExamplePredictions):
    """Number of right decisions about the pairs of sentences of each text.

    Formula: accuracy = sum of num_right / sum of num_pairs. Half of the pairs follow each other, so guessing has 50%.

    Shapes: every column is (rows,).

    Args:
        example_id: row of the original table, each once.
        num_pairs: pairs of the text that were decided.
        num_right: those of them that were decided rightly.

    Raises:
        ConfigurationError: columns of different lengths.
        DataError: a value that cannot be.

    Relation to its siblings: ``LabelPredictions`` has a row a scored label; here the scored rows are hidden tokens.

    Reference: Devlin et al. (2019), section 3.1.

    Example:
        >>> rows = SentencePredictions.of_pairs(np.array([7, 7, 8]), np.array([True, False, True]))
        >>> rows.num_pairs.tolist(), rows.num_right.tolist()
        ([2, 1], [1, 1])
    """

    num_pairs: NDArray[np.int64]
    num_right: NDArray[np.int64]

    def __post_init__(self) -> None:
        set_columns(self, self.as_arrays(), row="text")
        reject(self.num_pairs < 1, self.num_pairs, "num_pairs", "at least 1", "Leave texts without a pair out.")
        outside = (self.num_right < 0) | (self.num_right > self.num_pairs)
        reject(outside, self.num_right, "num_right", "between 0 and num_pairs", "Count the pairs of the text.")

    @classmethod
    def of_pairs(cls, example_id: NDArray[np.int64], is_right: NDArray[np.bool_]) -> Self:
        """Count the decisions of each text.

        Args:
            example_id: row of the text of each pair.
            is_right: whether the decision about it is.
        """
        rows, text = np.unique(example_id, return_inverse=True)
        counts = (np.bincount(text, weights=each, minlength=len(rows)) for each in (np.ones(len(text)), is_right))
        num_pairs, num_right = (each.astype(np.int64) for each in counts)
        return cls(rows, num_pairs, num_right)

    def columns(self) -> NDArray[np.float64]:
        """(rows, 2): right decisions, and all."""
        return np.stack([self.num_right, self.num_pairs], axis=1).astype(np.float64)

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over rows of ``columns``, for each of the leading axes."""
        return {NEXT_SENTENCE: 100 * means[..., 0] / means[..., 1]}
