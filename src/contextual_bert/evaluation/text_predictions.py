"""Scores of texts that a model writes from others: which are written whole.

It knows numbers alone: no model and no token.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation.example_predictions import ExamplePredictions
from contextual_bert.evaluation.metrics import EXACT_TEXT
from contextual_bert.evaluation.number_columns import reject, set_columns


@dataclass(frozen=True, eq=False)
class TextPredictions(ExamplePredictions):
    """Whether each text is written as its target, token by token.

    Formula: exact match = mean of [the likeliest token is the target's, at each place, the end included]. A text that
    is written greedily is its target in just these cases: by induction, each token is then asked behind the same ones.

    Shapes: every column is (rows,).

    Args:
        example_id: row of the original table, each once.
        exact_text: 0 or 1.

    Raises:
        ConfigurationError: columns of different lengths.
        DataError: a value that cannot be.

    Relation to its siblings: ``AnswerPredictions`` compares answers without case, punctuation and articles.

    Reference: none; the definition of greedy decoding.

    Example:
        >>> TextPredictions.of_ranks(np.array([7, 7, 8]), np.array([0, 0, 2]), np.array([1, 1, 1])).exact_text.tolist()
        [1.0, 0.0]
    """

    exact_text: NDArray[np.float64]

    def __post_init__(self) -> None:
        set_columns(self, self.as_arrays(), real=("exact_text",), row="text")
        column = self.exact_text
        reject(~((column >= 0) & (column <= 1)), column, "exact_text", "between 0 and 1", "Give shares, no percents.")

    @classmethod
    def of_ranks(
        cls, example_id: NDArray[np.int64], num_better: NDArray[np.int64], num_tied: NDArray[np.int64]
    ) -> Self:
        """Say which texts are written whole, of the ranks of their tokens. A tie counts as another token.

        Args:
            example_id: row of the text of each token.
            num_better: tokens with a higher score.
            num_tied: tokens with the same score, itself included.
        """
        rows, text = np.unique(example_id, return_inverse=True)
        is_wrong = (num_better > 0) | (num_tied > 1)
        return cls(rows, (np.bincount(text, weights=is_wrong, minlength=len(rows)) == 0).astype(np.float64))

    def columns(self) -> NDArray[np.float64]:
        """(rows, 1): exact match."""
        return self.exact_text[:, None]

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over rows of ``columns``, for each of the leading axes."""
        return {EXACT_TEXT: 100 * means[..., 0]}
