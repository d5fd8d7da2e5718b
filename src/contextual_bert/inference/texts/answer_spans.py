"""From windows to answers: which piece of a text is the likeliest one, and how likely it is that there is none.

It knows what a model says of each token and where the tokens stand in the texts, no query and no metric. It imports no
torch: exports are asked without.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.inference.texts.question_windows import NO_ANSWER

MAX_ANSWER_TOKENS = 30  # as for BERT on SQuAD


class Answers(NamedTuple):
    """The answers to questions, one row a question: ``text[start:end]``, with its probability and that of none."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    no_answer_probabilities: NDArray[np.float64]

    @property
    def is_none(self) -> NDArray[np.bool_]:
        """Return the mask of questions for which no answer is likelier than the best one."""
        return self.no_answer_probabilities > self.probabilities

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """The answers letter by letter."""
        bounds = zip(texts, self.starts.tolist(), self.ends.tolist(), strict=True)
        return [text[start:end] for text, start, end in bounds]


def read_spans(
    shares: NDArray[np.floating[Any]], starts: NDArray[np.int64], characters: NDArray[np.int64], *, max_tokens: int
) -> NDArray[np.float64]:
    """(windows, 4): the probabilities of the best span and of no answer, that span's first and last character.

    Shapes:
        shares (windows, 2, length), the logarithms of the probabilities that the answer begins, or ends, at each place;
        starts (windows,), the first token of each among those of all windows; characters (tokens, 2).
    """
    first, last, best = best_spans(shares[:, 0], shares[:, 1], max_tokens=max_tokens)
    bounds = bounds_of(characters, starts + first, starts + last)
    none = shares[:, :, NO_ANSWER].sum(axis=1, dtype=shares.dtype)
    columns = np.exp(best.astype(np.float64)), np.exp(none.astype(np.float64)), *bounds
    return np.stack(columns, axis=1).astype(np.float64)


def bounds_of(
    characters: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the last character, in its text, of each span of tokens.

    Args:
        characters: (tokens, 2), where each token of a text begins and ends in it.
        first, last: (spans,), the ends of each among the tokens of all windows.
    """
    return characters[first, 0], characters[last, 1]


def best_spans(
    start: NDArray[np.floating[Any]], end: NDArray[np.floating[Any]], *, max_tokens: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.floating[Any]]]:
    """The first and the last token of the likeliest span of each row that does not begin at [CLS], and the logarithm of
    its probability; of those alike the shortest.

    Shapes:
        start, end (batch, length), log-probabilities -> (batch,) each.

    Example:
        >>> share = np.log([[0.5, 0.1, 0.4]])
        >>> [each.tolist()[0] for each in best_spans(share, share[:, ::-1], max_tokens=2)][:2]
        [2, 2]
    """
    first, last = np.zeros((2, len(start)), np.int64)
    best = np.full(len(start), -np.inf, start.dtype)
    for distance in range(min(max_tokens, start.shape[1] - 1)):  # a square of positions would be large for long texts
        joint = start[:, 1 : start.shape[1] - distance] + end[:, 1 + distance :]
        place = joint.argmax(axis=1)
        found = np.take_along_axis(joint, place[:, None], axis=1)[:, 0]
        is_better = found > best
        best = np.where(is_better, found, best)
        first = np.where(is_better, place + 1, first)
        last = np.where(is_better, place + 1 + distance, last)
    return first, last, best


def answers_of(spans: NDArray[np.float64], rows: NDArray[np.int64], texts: Sequence[str]) -> Answers:
    """The answer to each question: the likeliest span of its windows; none is as likely as where it is least so.

    Args:
        spans: (windows, 4), as ``read_spans`` gives them.
        rows: (windows,), the row of the table that each is of; those of one row are together.
        texts: of each question.
    """
    numbers = question_numbers(rows)
    best = np.lexsort((np.arange(len(spans)), -spans[:, 0], numbers))
    best = best[np.unique(numbers, return_index=True)[1]]  # windows of a question are together
    none = np.full(len(best), np.inf)
    np.minimum.at(none, numbers, spans[:, 1])
    starts, ends = np.maximum(spans[best, 2:], 0).astype(np.int64).T  # a text may have no token at all
    for row, text in enumerate(texts):
        end = int(ends[row])
        while starts[row] < end < len(text) and unicodedata.category(text[end]).startswith("M"):
            end += 1  # accents by themselves belong to the letter, and a tokenizer drops them
        ends[row] = end
    return Answers(starts, ends, spans[best, 0], none)


def question_numbers(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each window's question, from 0 on.

    Example:
        >>> question_numbers(np.array([7, 7, 3])).tolist()
        [0, 0, 1]
    """
    return np.concatenate([np.zeros(min(1, len(rows)), dtype=np.int64), np.cumsum(np.diff(rows) != 0)])
