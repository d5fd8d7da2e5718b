"""Scores of answers to questions about texts: exact match and F1, as SQuAD measures them.

It knows strings alone: no model, no window and no token of a model.

Papers: Rajpurkar et al. (2016), section 6.1, for both metrics; Rajpurkar et al. (2018) for questions without an answer.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contextual_bert.evaluation.example_predictions import ExamplePredictions
from contextual_bert.evaluation.metrics import ANSWER_F1, EXACT_MATCH
from contextual_bert.evaluation.number_columns import reject, set_columns

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True, eq=False)
class AnswerPredictions(ExamplePredictions):
    """Exact match and F1 of each question.

    Formula: exact match = mean of [the answers are equal]; F1 = mean of 2 both / (given + true), of the words of the
    two answers; both without case, punctuation and articles.

    Shapes: every column is (rows,).

    Args:
        example_id: row of the original table, each once.
        exact_match: 0 or 1.
        f1: between 0 and 1.
        true: 1 where the text has an answer, 0 where it has none.

    Raises:
        ConfigurationError: columns of different lengths.
        DataError: a value that cannot be, a question twice.

    Relation to its siblings: ``LabelPredictions`` is for labels and tags; ``of_answers`` makes one from strings.

    Reference: Rajpurkar et al. (2016), section 6.1; (2018), section 5, for questions without an answer.

    Example:
        >>> rows = AnswerPredictions.of_answers([7, 8], ["The soup!", "steak for two"], ["soup", "steak"])
        >>> rows.exact_match.tolist(), rows.f1.tolist()
        ([1.0, 0.0], [1.0, 0.5])
    """

    exact_match: NDArray[np.float64]
    f1: NDArray[np.float64]
    true: NDArray[np.int64]

    def __post_init__(self) -> None:
        set_columns(self, self.as_arrays(), real=("exact_match", "f1"), row="question")
        for name in ("exact_match", "f1", "true"):
            column = getattr(self, name)
            reject(~((column >= 0) & (column <= 1)), column, name, "between 0 and 1", "Give shares, and not percents.")
        self.check_each_once("question", advice="Answer every question once")

    @classmethod
    def of_answers(cls, example_id: ArrayLike, given: Sequence[str], true: Sequence[str]) -> Self:
        """Measure answers.

        Args:
            example_id: row of each question.
            given: what was answered, empty for none.
            true: what is right, empty for none.
        """
        words = [(_words(own), _words(right)) for own, right in zip(given, true, strict=True)]
        return cls(
            np.asarray(example_id),
            np.array([float(own == right) for own, right in words]),
            np.array([_f1(own, right) for own, right in words]),
            np.array([int(bool(each.strip())) for each in true], dtype=np.int64),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of 0 and 1 of ``true``."""
        return ("no answer", "an answer")

    def columns(self) -> NDArray[np.float64]:
        """(rows, 2): exact match and F1."""
        return np.stack([self.exact_match, self.f1], axis=1)

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over rows of `columns`, for each of the leading axes."""
        return {EXACT_MATCH: 100 * means[..., 0], ANSWER_F1: 100 * means[..., 1]}


def _words(answer: str) -> list[str]:
    """Its words without case, punctuation and articles.

    Example:
        >>> _words("The Bar's  soup, a bowl.")
        ['bars', 'soup', 'bowl']
    """
    return _ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def _f1(given: Sequence[str], true: Sequence[str]) -> float:
    if not given or not true:
        return float(given == true)
    return 2 * (Counter(given) & Counter(true)).total() / (len(given) + len(true))
