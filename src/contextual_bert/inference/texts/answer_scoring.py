"""Scores answers to questions: how each end of an answer is ranked in its window, and how well the answers match.

It knows no column names; the metrics of the answers are those of ``evaluation``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import distributed as dist

from contextual_bert.errors import DataError
from contextual_bert.evaluation import AnswerPredictions, Scores
from contextual_bert.inference.scoring import ScoredSet
from contextual_bert.inference.texts.answer_spans import (
    MAX_ANSWER_TOKENS,
    answers_of,
    question_numbers,
    read_spans,
    span_batches,
)
from contextual_bert.inference.texts.encode_questions import EncodedQuestions
from contextual_bert.models import rank_labels


def score_answers(
    model: Any,
    questions: EncodedQuestions,
    *,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ScoredSet:
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
    dataset, num_processes = questions.dataset, dist.get_world_size() if is_shared else 1
    if len(dataset) == 0 or dataset.spans is None or questions.answers is None:
        raise DataError("there is no question with an answer to score", fix="Give a part with at least one.")
    parts: list[np.ndarray] = []
    for batch in span_batches(
        model,
        dataset,
        batch_size=batch_size,
        dtype=dtype,
        process=dist.get_rank() if is_shared else 0,
        num_processes=num_processes,
        progress=progress,
    ):
        true = torch.stack([batch.inputs["start_positions"], batch.inputs["end_positions"]], dim=1)
        ranks = rank_labels(batch.shares.flatten(0, 1), true.flatten())
        columns = [column.double().view(-1, 2) for column in ranks]
        spans = read_spans(questions, batch, max_tokens=max_answer_tokens)
        parts.append(torch.cat([batch.numbers[:, None].double(), spans, *columns], dim=1).numpy())
    if is_shared:
        gathered: list[Any] = [None] * num_processes
        dist.all_gather_object(gathered, parts)
        parts = [part for parts_of_process in gathered for part in parts_of_process]
    rows = np.concatenate(parts)
    rows = rows[rows[:, 0].argsort()]
    numbers, ids = question_numbers(dataset), dataset.example_ids.numpy()
    firsts = np.unique(numbers, return_index=True)[1]
    windows = np.arange(len(ids)) - firsts[numbers]
    log_probability, num_better, num_tied, confidence = (rows[:, start : start + 2].ravel() for start in (5, 7, 9, 11))
    answers = answers_of(questions, rows[:, 1:5])
    pieces = zip(answers.pieces(questions.texts), answers.is_none.tolist(), strict=True)
    given = ["" if is_none else piece for piece, is_none in pieces]
    scores = Scores(
        example_id=ids.repeat(2),
        position=(2 * windows[:, None] + np.arange(2)).ravel(),
        log_probability=log_probability,
        num_better=num_better.astype(np.int64),
        num_tied=num_tied.astype(np.int64),
        confidence=confidence,
        predictions=AnswerPredictions.of_answers(ids[firsts], given, questions.answers),
    )
    return ScoredSet(scores.sorted())
