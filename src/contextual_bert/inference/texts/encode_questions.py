"""From a table of questions and texts to windows of token ids, and where the answers stand in them.

A long text is read in windows that overlap, so that nothing is cut; a window without the whole answer has none. It
knows no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from contextual_bert.data import SequenceDataset, read_table
from contextual_bert.data.answers import read_answers, strings_of
from contextual_bert.data.ragged import in_second_half, offsets_of, places_of
from contextual_bert.frames import Frame
from contextual_bert.inference.queries import check_count
from contextual_bert.inference.texts.question_windows import NO_ANSWER, windows_of
from contextual_bert.inference.texts.text_layout import token_limit
from contextual_bert.inference.texts.text_reports import QuestionReport, context_counts
from contextual_bert.models import ContextualBertProcessor


@dataclass(frozen=True, eq=False)
class EncodedQuestions:
    """A data set of windows, whose ``example_ids`` say of which row each is, and where the tokens stand in the texts.

    Args:
        dataset: ids, spans and contexts.
        characters: (tokens, 2), where each token of a text begins and ends in it; -1 for all other tokens.
        report: how many there are.
        texts: of each question.
        answers: the right one of each question, empty where there is none; None: nothing is to be learned.
    """

    dataset: SequenceDataset
    characters: NDArray[np.int64]
    report: QuestionReport
    texts: Sequence[str]
    answers: Sequence[str] | None


def encode_questions(
    table: Frame,
    processor: ContextualBertProcessor,
    *,
    question: str = "question",
    text: str = "text",
    answer: str | None = None,
    answer_start: str | None = None,
    max_length: int | NDArray[np.int64] | None = None,
) -> EncodedQuestions:
    """Encode a table of questions, each with the text that holds its answer.

    Args:
        table: the rows: pyarrow, pandas, polars or `datasets`, as ``read_table`` takes them.
        processor: for text; its schema says which columns are the context.
        question: name of the column of questions.
        text: name of the column of texts.
        answer: name of the column of answers, each a piece of its text; missing or empty where the text has none. None:
            nothing is to be learned.
        answer_start: name of the column of the character at which an answer begins, counted from 0; None: the first
            place where the text has it.
        max_length: tokens of a window, the question, [CLS] and [SEP] included, or for each row how many; None: as many
            as the tokenizer allows.

    Raises:
        UnknownNameError: no such column.
        DataError: a cell that is missing or no text; an answer that is not in its text, or not there; a question that
            leaves no room for its text.
        ConfigurationError: more tokens than the model reads.

    Reference:
        Devlin et al. (2019), section 4.2, and section 4.3 for questions without an answer, which are answered by [CLS].

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> rows = {"question": ["word1"], "text": ["word2 word3 word4"], "answer": ["word3"], "sex": ["f"]}
        >>> dataset = encode_questions(pa.table(rows), miniature_text_processor(), answer="answer").dataset
        >>> dataset[0]["input_ids"].tolist(), dataset[0]["start_positions"].item()
        ([3, 6, 4, 7, 8, 9, 4], 4)
    """
    if not isinstance(table, pa.Table):
        table = read_table(table, text_columns=(question, text), code_columns=processor.code_columns)
    tokenizer: Any = processor.tokenizer
    if max_length is not None and not isinstance(max_length, np.ndarray):
        check_count("max_length", max_length)
    most = token_limit(tokenizer, None if max_length is None else int(np.max(max_length, initial=1)))
    limit = most if max_length is None else max_length
    questions, texts = (strings_of(table, name, complete=True) for name in (question, text))
    windows = windows_of(questions, texts, tokenizer, column=question, limit=limit)
    ids, sizes, rows, characters, second_starts = windows
    offsets, spans, answers, num_unanswered, num_lost = offsets_of(sizes), None, None, 0, 0
    if answer is not None:
        starts, ends = read_answers(table, texts, answer, answer_start)
        answers = [text[start:end] for text, start, end in zip(texts, starts.tolist(), ends.tolist(), strict=True)]
        spans = _spans(characters, sizes, rows, starts[rows], ends[rows])
        found = np.zeros(len(questions), dtype=np.bool_)
        np.logical_or.at(found, rows, spans[:, 0] != NO_ANSWER)
        num_unanswered = int((starts == ends).sum())
        num_lost = len(questions) - num_unanswered - int(found.sum())
    context = processor.encode_columns(table)
    of_rows = torch.from_numpy(rows)
    dataset = SequenceDataset(
        torch.from_numpy(ids),
        torch.from_numpy(offsets),
        context={name: values[of_rows] for name, values in context.tensors.items()} if context is not None else {},
        token_type_ids=torch.from_numpy(in_second_half(second_starts, sizes)),
        spans=torch.from_numpy(spans) if spans is not None else None,
        example_ids=of_rows,
        pad_id=tokenizer.pad_token_id,
    )
    report = QuestionReport(len(questions), len(sizes), num_unanswered, num_lost, **context_counts(context))
    return EncodedQuestions(dataset, characters, report, texts, answers)


def _spans(
    characters: NDArray[np.int64],
    sizes: NDArray[np.int64],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> NDArray[np.int64]:
    """(windows, 2), the first and the last token of the answer in each window that holds it whole, else NO_ANSWER.

    It is whole where no other window of the row has a token of it before or behind: a tokenizer drops some characters,
    such as accents that stand by themselves.
    """
    if not len(sizes):
        return np.zeros((0, 2), dtype=np.int64)
    first, places = offsets_of(sizes)[:-1], places_of(sizes)
    begin, end = characters[:, 0], characters[:, 1]
    overlaps = (begin >= 0) & (begin < np.repeat(ends, sizes)) & (end > np.repeat(starts, sizes))
    far = np.iinfo(np.int64).max
    lowest, highest = (
        each.reduceat(np.where(overlaps, values, none), first)
        for each, values, none in ((np.minimum, begin, far), (np.maximum, end, -1))
    )
    lowest_of_row, highest_of_row = np.full(int(rows.max()) + 1, far), np.full(int(rows.max()) + 1, -1)
    np.minimum.at(lowest_of_row, rows, lowest)
    np.maximum.at(highest_of_row, rows, highest)
    is_whole = (highest >= 0) & (lowest == lowest_of_row[rows]) & (highest == highest_of_row[rows])
    spans = np.stack(
        [
            np.minimum.reduceat(np.where(overlaps, places, far), first),
            np.maximum.reduceat(np.where(overlaps, places, -1), first),
        ],
        axis=1,
    )
    spans[~is_whole] = NO_ANSWER
    return spans
