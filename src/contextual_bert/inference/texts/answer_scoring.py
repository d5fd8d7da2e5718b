"""Scores of answers to questions: rank of each end of an answer in its window, and how well the answers match.

It knows no column names; the metrics of the answers are those of ``evaluation``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.errors import DataError
from contextual_bert.evaluation import AnswerPredictions, Scores
from contextual_bert.inference.scoring import check_finite, collect, rank_columns
from contextual_bert.inference.texts.answer_spans import (
    MAX_ANSWER_TOKENS,
    answers_of,
    question_numbers,
    read_spans,
)
from contextual_bert.inference.texts.encode_questions import EncodedQuestions
from contextual_bert.models import rank_labels, span_logits


def score_answers(
    model: Any,
    questions: EncodedQuestions,
    *,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Rank the first and the last token of each answer among those of its window, and measure the answers given.

    A window without the whole answer is asked for [CLS], as in training. Where no answer is likelier than the best one,
    none is given.

    Args:
        model: answers questions; put it in ``eval()`` mode before.
        questions: encoded, with their answers.
        batch_size: windows a forward pass.
        dtype: bfloat16 runs the model under autocast.
        max_answer_tokens: an answer has so many tokens at most.
        is_shared: all processes of the default process group call this and share the batches; each gets all scores.
        progress: called with (windows done, windows in all) after each batch.

    Returns:
        Scores sorted by (example_id, position), two a window: the position of the first token of its answer is twice
        the window's number, that of the last token one more. ``predictions`` has a row a question.

    Raises:
        DataError: there is no question, or no column of answers was encoded.

    Reference:
        Devlin et al. (2019), sections 4.2 and 4.3.
    """
    dataset = questions.dataset
    if len(dataset) == 0 or dataset.spans is None or questions.answers is None:
        raise DataError("there is no question with an answer to score", fix="Give a part with at least one.")
    targets = _AnswerEnds(questions, max_answer_tokens=max_answer_tokens)
    rows = collect(model, targets, batch_size=batch_size, dtype=dtype, is_shared=is_shared, progress=progress)
    rows = rows[rows[:, 0].argsort()]
    ids = dataset.example_ids.numpy()
    numbers = question_numbers(ids)
    firsts = np.unique(numbers, return_index=True)[1]
    windows = np.arange(len(ids)) - firsts[numbers]
    ranks = rows[:, 5:].reshape(len(ids), 4, 2).swapaxes(1, 2).reshape(-1, 4)
    scores = Scores(
        example_id=ids.repeat(2),
        position=(2 * windows[:, None] + np.arange(2)).ravel(),
        **rank_columns(ranks),
        predictions=measured_answers(questions, rows[:, 1:5]),
    )
    return scores.sorted()


def measured_answers(questions: EncodedQuestions, spans: NDArray[np.float64]) -> AnswerPredictions:
    """Return exact match and F1 of the answers that the spans of all windows give.

    Args:
        questions: whose windows they are, with their answers.
        spans: (windows, 4), as ``read_spans`` gives them.

    Raises:
        DataError: no column of answers was encoded.
    """
    if questions.answers is None:
        raise DataError("there are no answers to measure by", fix="Name the column of answers.")
    ids = questions.dataset.example_ids.numpy()
    answers = answers_of(spans, ids, questions.texts)
    pieces = zip(answers.pieces(questions.texts), answers.is_none.tolist(), strict=True)
    given = ["" if is_none else piece for piece, is_none in pieces]
    firsts = np.unique(question_numbers(ids), return_index=True)[1]
    return AnswerPredictions.of_answers(ids[firsts], given, questions.answers)


def without_answers(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a batch without the true answers, which a model would turn into a loss."""
    return {name: value for name, value in inputs.items() if name not in ("start_positions", "end_positions")}


def log_shares(model: Any, outputs: Mapping[str, Tensor], inputs: dict[str, Any]) -> Tensor:
    """Return the logarithms of the probabilities that an answer begins, or ends, at each place.

    Shapes: -> (windows, 2, length).

    Raises:
        NonFiniteError: the model gives no numbers.
    """
    logits = {name: outputs[name].float().cpu() for name in ("start_logits", "end_logits")}
    for each in logits.values():
        check_finite(each, model)
    return span_logits(logits, inputs).log_softmax(dim=-1)


class _AnswerEnds:
    """The first and the last token of the answer in each window, the longest windows first."""

    def __init__(self, questions: EncodedQuestions, *, max_answer_tokens: int) -> None:
        self._questions, self._max_tokens = questions, max_answer_tokens
        self.order = questions.dataset.by_length(is_descending=True)
        self.num_results = len(questions.dataset)

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return dict(self._questions.dataset.__getitems__(numbers).inputs())

    def forward(self, model: Any, inputs: dict[str, Any]) -> Any:
        return model(**without_answers(inputs))

    def results(self, model: Any, outputs: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return number, best span, and for the first and the last token the four columns of a rank, side by side."""
        shares = log_shares(model, outputs, inputs)
        true = torch.stack([inputs["start_positions"], inputs["end_positions"]], dim=1)
        columns = [column.double().view(-1, 2) for column in rank_labels(shares.flatten(0, 1), true.flatten())]
        starts = self._questions.dataset.offsets[numbers].numpy()
        spans = read_spans(shares.numpy(), starts, self._questions.characters, max_tokens=self._max_tokens)
        return torch.cat([numbers[:, None].double(), torch.from_numpy(spans), *columns], dim=1)
