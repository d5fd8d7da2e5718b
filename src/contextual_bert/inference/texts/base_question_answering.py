"""The part of answering questions that every backend shares: queries and tables in, pieces of texts out.

A query is a question, the text that holds its answer, and the context of who asks. It imports no torch:
``QuestionAnsweringPipeline`` computes with torch, ``OnnxQuestionAnsweringPipeline`` with onnxruntime.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context import EncodedContext
from contextual_bert.data.answers import strings_of
from contextual_bert.data.ragged import in_second_half, offsets_of
from contextual_bert.frames import Frame
from contextual_bert.inference.context_notes import ContextNotes, about_context
from contextual_bert.inference.queries import (
    UNUSED_CONTEXT,
    check_count,
    encode_contexts,
    in_queries,
)
from contextual_bert.inference.texts.answer_spans import MAX_ANSWER_TOKENS, Answers, answers_of, read_spans
from contextual_bert.inference.texts.asked_tables import table_to_answer, with_context
from contextual_bert.inference.texts.question_windows import windows_of
from contextual_bert.inference.texts.text_answers import TextSpan
from contextual_bert.inference.texts.text_layout import num_readable, room_beside, token_limit
from contextual_bert.inference.texts.text_queries import (
    TextQuery,
    TextQueryForm,
    TextRequest,
    one_or_many,
    read_text_request,
)
from contextual_bert.inference.texts.text_reports import QuestionReport
from contextual_bert.inference.texts.text_rows import TextBatch, TextRows
from contextual_bert.models.compatibility import check_processor

# What answer_table adds; a table of questions often has columns "answer" and "answer_start".
COLUMNS = pa.schema(
    [
        ("predicted_answer", pa.string()),
        ("predicted_start", pa.int64()),
        ("predicted_end", pa.int64()),
        ("probability", pa.float32()),
        ("no_answer_probability", pa.float32()),
    ]
)


class ReadQuestions(NamedTuple):
    """Questions and their texts as windows, and where the tokens of these stand in the texts.

    ``of_question``: (windows,), the question that each is of; ``characters``: as ``Windows`` has them.
    """

    rows: TextRows
    of_question: NDArray[np.int64]
    characters: NDArray[np.int64]
    texts: Sequence[str]
    report: QuestionReport


class AnsweredTable(NamedTuple):
    """A table with the answers in columns of their own, and what was read."""

    table: pa.Table
    report: QuestionReport


class BaseQuestionAnsweringPipeline(ABC):
    """Base of the pipelines that answer questions about texts. A subclass computes the probabilities of places.

    Args:
        model: its settings are read, its weights are not.
        processor: of the model.
        max_answer_tokens: an answer has so many tokens at most.

    Raises:
        ConfigurationError: model and processor do not belong together.
    """

    form = TextQueryForm("answer")
    labels: tuple[str, ...] = ()
    origin_notes: Sequence[str] = ()  # of an export, on the run that it came from

    def __init__(self, model: Any, processor: Any, *, max_answer_tokens: int = MAX_ANSWER_TOKENS) -> None:
        check_count("max_answer_tokens", max_answer_tokens)
        if model.config.reads_context:
            check_processor(model.config, processor)
        self.model: Any = model
        self.processor = processor
        self.max_answer_tokens = max_answer_tokens
        self.max_length = num_readable(model.config, processor.tokenizer)  # of a text, beside no words of a context

    @abstractmethod
    def log_shares(self, batch: TextBatch) -> NDArray[np.float32]:
        """Return the logarithms of the probabilities that the answer begins, or ends, at each place of some windows.

        Shapes: -> (windows, 2, length), -inf where it may not stand.

        Raises:
            NonFiniteError: the model gives no numbers.
        """

    def __call__(self, queries: TextQuery | Sequence[TextQuery], *, batch_size: int = 32) -> TextSpan | list[TextSpan]:
        """Answer one question or many.

        Args:
            queries: {"question": "...", "text": "...", "context": {...}}; a context feature that is not named is
                missing.
            batch_size: windows a forward pass.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        return one_or_many(queries, self._answers, form=self.form, batch_size=batch_size)

    def notes(self) -> list[str]:
        """Return sentences on what was loaded, such as an export whose run is another one now."""
        return [*self.origin_notes]

    @property
    def columns(self) -> pa.Schema:
        """The columns that ``answer_table`` adds."""
        return COLUMNS

    def answer_table(
        self,
        table: Frame,
        *,
        question: str = "question",
        text: str = "text",
        batch_size: int = 32,
        progress: Callable[[int, int], None] | None = None,
    ) -> AnsweredTable:
        """Answer the question of every row of a table, with the context in the columns that the schema names.

        Args:
            table: the rows: pyarrow, pandas, polars or `datasets`, as ``read_table`` takes them.
            question: name of the column of questions.
            text: name of the column of texts.
            batch_size: windows a forward pass.
            progress: called with (windows done, windows in all) after each batch.

        Returns:
            The table with ``COLUMNS`` behind its own, its rows in their order, and a report. Where
            ``no_answer_probability`` is the larger one, the text is best said to have no answer.

        Raises:
            UnknownNameError, SchemaError: the column of texts is absent, or all of the context.
            DataError: a cell that is missing or no text; a column that is called as one of ``COLUMNS``.
        """
        check_count("batch_size", batch_size)
        table = table_to_answer(table, self, texts=(question, text))
        source, context, absent = with_context(table, self)
        encoded = self._encoded(source, context, question=question, text=text)
        report = replace(encoded.report, remarks=(*absent, *encoded.report.remarks))
        answers = self._found(encoded, batch_size=batch_size, progress=progress)
        shares = (answers.probabilities, answers.no_answer_probabilities)
        for field, values in zip(
            COLUMNS, (answers.pieces(encoded.texts), answers.starts, answers.ends, *shares), strict=True
        ):
            table = table.append_column(field, pa.array(values, field.type))
        return AnsweredTable(table, report)

    @in_queries()
    def _answers(self, queries: Sequence[TextQuery], *, batch_size: int) -> list[TextSpan]:
        requests = [read_text_request(query, row=row, form=self.form) for row, query in enumerate(queries)]
        columns = {name: [getattr(request, name) for request in requests] for name in ("question", "text")}
        context = encode_contexts(requests, self.processor)
        encoded = self._encoded(pa.table(columns), context, question="question", text="text")
        answers = self._found(encoded, batch_size=batch_size)
        pieces = answers.pieces(encoded.texts)
        notes = ContextNotes(context, self.processor.schema, self.model)
        return [
            self._answer(request, answers, piece, row, notes.of(row))
            for row, (request, piece) in enumerate(zip(requests, pieces, strict=True))
        ]

    def _encoded(self, table: pa.Table, context: EncodedContext | None, *, question: str, text: str) -> ReadQuestions:
        """The windows of a table, each with the context of its row."""
        given = context.arrays if context is not None else {}
        tokenizer: Any = self.processor.tokenizer
        limit = room_beside(given, self.model.config, longest=self.max_length)
        token_limit(tokenizer, int(np.max(limit, initial=1)))
        questions, texts = (strings_of(table, name, complete=True) for name in (question, text))
        windows = windows_of(questions, texts, tokenizer, column=question, limit=limit)
        rows = TextRows(
            windows.ids,
            offsets_of(windows.sizes),
            pad_id=tokenizer.pad_token_id,
            token_type_ids=in_second_half(windows.second_starts, windows.sizes),
            context=given,
            context_rows=windows.rows,
        )
        counts = about_context(context, self.model)
        report = QuestionReport(len(questions), len(rows), num_unanswered=0, num_lost=0, **counts)
        return ReadQuestions(rows, windows.rows, windows.characters, texts, report)

    def _found(
        self, read: ReadQuestions, *, batch_size: int, progress: Callable[[int, int], None] | None = None
    ) -> Answers:
        spans = np.zeros((len(read.rows), 4))
        for batch in read.rows.batches(batch_size, progress=progress):
            shares, starts = self.log_shares(batch), read.rows.offsets[batch.rows]
            spans[batch.rows] = read_spans(shares, starts, read.characters, max_tokens=self.max_answer_tokens)
        return answers_of(spans, read.of_question, read.texts)

    def _answer(self, request: TextRequest, answers: Answers, piece: str, row: int, notes: list[str]) -> TextSpan:
        return TextSpan(
            answer=piece,
            start=int(answers.starts[row]),
            end=int(answers.ends[row]),
            probability=float(answers.probabilities[row]),
            no_answer_probability=float(answers.no_answer_probabilities[row]),
            unknown_context=self.processor.unknown_values(request.context),
            notes=notes if self.model.config.reads_context else [UNUSED_CONTEXT] * bool(request.context),
        )
