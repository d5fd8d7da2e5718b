"""Scores of texts that a model writes from others: which are written whole.

It knows numbers alone: no model and no token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation.metrics import EXACT_TEXT
from contextual_bert.evaluation.number_columns import reject, set_columns


@dataclass(frozen=True, eq=False)
class TextPredictions:
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

    example_id: NDArray[np.int64]
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

    def __len__(self) -> int:
        return len(self.example_id)

    @property
    def counts_whole_examples(self) -> bool:
        """True: the tokens of a text are one text."""
        return True

    def is_of(self, example_id: NDArray[np.int64], position: NDArray[np.int64]) -> bool:
        """Return whether these rows are the tokens of the texts."""
        return np.array_equal(np.unique(self.example_id), np.unique(example_id))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return all texts of the parts, in the order given."""
        names = parts[0].as_arrays()
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(**columns)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """Return the rows that a boolean mask or an array of row numbers names."""
        columns: dict[str, Any] = {name: column[rows] for name, column in self.as_arrays().items()}
        return type(self)(**columns)

    def order(self) -> NDArray[np.int64]:
        """Return the row numbers that put the rows in the order of example_id."""
        return np.argsort(self.example_id, kind="stable")

    def sorted(self) -> Self:
        """Return the same rows by example_id: the canonical order."""
        return self.select(self.order())

    def as_arrays(self) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
        """Column name -> array, as safetensors stores them; ``TextPredictions(**arrays)`` is the way back."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def columns(self) -> NDArray[np.float64]:
        """(rows, 1): exact match."""
        return self.exact_text[:, None]

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over rows of ``columns``, for each of the leading axes."""
        return {EXACT_TEXT: 100 * means[..., 0]}
