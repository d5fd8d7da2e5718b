"""It is trained, how do I ask? Questions, texts and contexts in, the piece of each text that answers out.

A query is a question, the text that holds its answer, and the context of who asks. It knows no training.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict

import pyarrow as pa
import torch

from contextual_bert.arrow_types import checked_text
from contextual_bert.context import EncodedContext
from contextual_bert.data import read_table
from contextual_bert.data.checked_columns import check_free
from contextual_bert.errors import ConfigurationError, QueryError
from contextual_bert.frames import Frame
from contextual_bert.inference.context_notes import ContextNotes, about_context, with_absent_columns
from contextual_bert.inference.queries import (
    UNUSED_CONTEXT,
    check_count,
    check_queries,
    check_query,
    in_queries,
    query_context,
)
from contextual_bert.inference.saved import bare_model, load_text_model
from contextual_bert.inference.texts.answer_spans import (
    MAX_ANSWER_TOKENS,
    Answers,
    answers_of,
    read_spans,
    span_batches,
)
from contextual_bert.inference.texts.encode_questions import EncodedQuestions, QuestionReport, encode_questions
from contextual_bert.inference.texts.text_layout import num_readable, room_beside
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertForQuestionAnswering,
    ContextualBertProcessor,
    check_processor,
)

QUERY = 'Give {"question": "...", "text": "...", "context": {...}}, or a list of such queries.'
KEYS = ("question", "text", "context")
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


class TextSpan(TypedDict):
    """Answer to a question: a piece of the text with its place and probability.

    ``answer``: a piece of the text, which is ``text[start:end]``; ``probability``: that it begins and ends there, in
    the window that holds it; ``no_answer_probability``: that the text has no answer, in the window where that is least
    likely, for models that have learned of such questions; ``unknown_context``: values that the model never saw;
    ``notes``: what the reader should know.
    """

    answer: str
    start: int
    end: int
    probability: float
    no_answer_probability: float
    unknown_context: dict[str, list[str]]
    notes: list[str]


class AnsweredTable(NamedTuple):
    """A table with the answers in columns of their own, and what was read."""

    table: pa.Table
    report: QuestionReport


class QuestionAnsweringPipeline:
    """Finds the answers to questions in texts, for the person who asks.

    Formula:
        Pr(i, j) = softmax(start)_i softmax(end)_j, over the tokens of a window's text and [CLS], which is no answer

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.
        max_answer_tokens: an answer has so many tokens at most.

    Raises:
        ConfigurationError: model and processor do not belong together.

    Relation to its siblings:
        ``TextPipeline`` labels texts. A text that is longer than the model reads is read in windows that overlap, as
        ``encode_questions`` makes them.

    Reference:
        Devlin et al. (2019), section 4.2.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForQuestionAnswering(ContextualBertConfig(vocab_size=23, type_vocab_size=2, **sizes))
        >>> pipeline = QuestionAnsweringPipeline(model, miniature_text_processor(), max_answer_tokens=1)
        >>> pipeline({"question": "word1", "text": "word2 word3"})["answer"] in ("word2", "word3")
        True
    """

    def __init__(
        self,
        model: ContextualBertForQuestionAnswering,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        max_answer_tokens: int = MAX_ANSWER_TOKENS,
    ) -> None:
        bare = bare_model(model)
        if not isinstance(bare, ContextualBertForQuestionAnswering):
            raise ConfigurationError(
                f"{type(bare).__name__} answers no questions",
                fix=f"Give a {ContextualBertForQuestionAnswering.__name__}.",
            )
        if bare.config.type_vocab_size < 2:
            raise ConfigurationError("A question and its text are two segments: the model needs type_vocab_size=2.")
        if not processor.is_for_text:
            raise ConfigurationError("This processor is for sets of items", fix="Give that of the text model.")
        check_count("max_answer_tokens", max_answer_tokens)
        if model.config.reads_context:
            check_processor(model.config, processor)
        place: Any = device if device is not None else model.device
        self.model: Any = model.to(place).eval()
        self.processor = processor
        self.max_answer_tokens = max_answer_tokens
        self.max_length = num_readable(model.config, processor.tokenizer)  # of a text, beside no words of a context
        self._tokens = ContextualBertProcessor(ContextFeatureExtractor(), processor.tokenizer)

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device | None = None) -> Self:
        """The pipeline of a folder that model and processor were saved in.

        Raises:
            RunDirectoryError: no such folder, files missing or damaged, or a model that answers no questions.
        """
        model, processor = load_text_model(directory, ContextualBertForQuestionAnswering)
        return cls(model, processor, device=device)

    def __call__(
        self, queries: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, batch_size: int = 32
    ) -> TextSpan | list[TextSpan]:
        """Answer one question or many.

        Args:
            queries: {"question": "...", "text": "...", "context": {...}}; a context feature that is not named is
                missing.
            batch_size: windows a forward pass.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        check_count("batch_size", batch_size)
        if isinstance(queries, Mapping):
            return self._answers([queries], batch_size=1)[0]
        given = check_queries(queries, fix=QUERY)
        return self._answers(given, batch_size=batch_size) if given else []

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
        if not isinstance(table, pa.Table):
            table = read_table(table, text_columns=(question, text), code_columns=self.processor.code_columns)
        check_free(table, COLUMNS.names)
        source, absent, context = table, list[str](), None
        if self.model.config.reads_context:
            source, absent = with_absent_columns(table, self.processor.schema)
            context = self.processor.encode_columns(source)
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
    def _answers(self, queries: Sequence[Mapping[str, Any]], *, batch_size: int) -> list[TextSpan]:
        for row, query in enumerate(queries):
            _check(query, row)
        columns = {name: [query[name] for query in queries] for name in ("question", "text")}
        records = [query_context(query, row=row) for row, query in enumerate(queries)]
        with in_queries("context"):
            context = self.processor.encode_context(records, num_rows=len(queries))
        encoded = self._encoded(pa.table(columns), context, question="question", text="text")
        answers = self._found(encoded, batch_size=batch_size)
        pieces = answers.pieces(encoded.texts)
        notes = ContextNotes(context, self.processor.schema, self.model)
        return [
            self._answer(query, answers, piece, row, notes.of(row))
            for row, (query, piece) in enumerate(zip(queries, pieces, strict=True))
        ]

    def _encoded(
        self, table: pa.Table, context: EncodedContext | None, *, question: str, text: str
    ) -> EncodedQuestions:
        """The windows of a table, each with the context of its row."""
        tensors = context.tensors if context is not None else {}
        max_length = room_beside(tensors, self.model.config, longest=self.max_length)
        encoded = encode_questions(table, self._tokens, question=question, text=text, max_length=max_length)
        rows = encoded.dataset.example_ids
        encoded.dataset.context |= {name: values[rows] for name, values in tensors.items()}
        return replace(encoded, report=replace(encoded.report, **about_context(context, self.model)))

    def _found(
        self, encoded: EncodedQuestions, *, batch_size: int, progress: Callable[[int, int], None] | None = None
    ) -> Answers:
        spans = torch.zeros(len(encoded.dataset), 4, dtype=torch.float64)
        for batch in span_batches(self.model, encoded.dataset, batch_size=batch_size, progress=progress):
            spans[batch.numbers] = read_spans(encoded, batch, max_tokens=self.max_answer_tokens)
        return answers_of(encoded, spans.numpy())

    def _answer(self, query: Mapping[str, Any], answers: Answers, piece: str, row: int, notes: list[str]) -> TextSpan:
        context, reads_context = query_context(query, row=0), self.model.config.reads_context
        return TextSpan(
            answer=piece,
            start=int(answers.starts[row]),
            end=int(answers.ends[row]),
            probability=float(answers.probabilities[row]),
            no_answer_probability=float(answers.no_answer_probabilities[row]),
            unknown_context=self.processor.unknown_values(context),
            notes=notes if reads_context else [UNUSED_CONTEXT] * bool(context),
        )


def _check(query: Mapping[str, Any], row: int) -> None:
    check_query(query, row=row, known=KEYS, fix=QUERY)
    for name in ("question", "text"):
        value = query.get(name)
        if not isinstance(value, str) or not value.strip():
            raise QueryError(f"{value!r:.80} is no text", location=(row, name), value=value, fix=QUERY)
        checked_text(value, row=row, column=name)
