"""The part of labelling texts that every backend shares: queries and tables in, labels out, around the logits.

A query is a text, or words that each get a tag, and the context of who wrote or reads it; a table has a query a row. It
imports no torch: ``TextPipeline`` computes logits with torch, ``OnnxTextPipeline`` with onnxruntime.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_list, is_text
from contextual_bert.context import EncodedContext
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.errors import ConfigurationError, DataError, QueryError
from contextual_bert.frames import Frame
from contextual_bert.inference.applied_calibration import OF_GUIDANCE, AppliedCalibration
from contextual_bert.inference.capabilities import guidance_notes
from contextual_bert.inference.context_notes import ContextNotes, about_context
from contextual_bert.inference.queries import (
    UNUSED_CONTEXT,
    check_count,
    encode_contexts,
    in_queries,
)
from contextual_bert.inference.saved_files import PairUse
from contextual_bert.inference.texts.asked_tables import table_to_answer, with_context
from contextual_bert.inference.texts.text_answers import SureTextAnswer, TextAnswer, TextNumber
from contextual_bert.inference.texts.text_labels import (
    HIGH,
    LABEL,
    LOW,
    PREDICTION_SET,
    PROBABILITY,
    LabelColumns,
    softmax,
)
from contextual_bert.inference.texts.text_layout import (
    NO_START,
    Layout,
    lay_out_texts,
    num_readable,
    room_beside,
    token_limit,
)
from contextual_bert.inference.texts.text_queries import (
    TextQuery,
    TextQueryForm,
    TextRequest,
    one_or_many,
    read_text_request,
)
from contextual_bert.inference.texts.text_reports import TextReport, layout_report
from contextual_bert.inference.texts.text_rows import TextBatch, TextRows
from contextual_bert.inference.verdicts import FieldVerdicts
from contextual_bert.models.compatibility import check_processor
from contextual_bert.models.truncation import Truncation, check_truncation

UNKNOWN_TEXT = "The tokenizer knows no word of the text, so the answer says nothing of it."
UNREAD: Mapping[Truncation, str] = {"head": "its end was", "head_tail": "its middle was"}


class ReadTexts(NamedTuple):
    """Texts as a model reads them, the report on them, and which of them are cut.

    ``word_starts``: (tokens,), the word that begins at each token, as ``Layout.word_starts`` gives it; None where texts
    have labels, and not their words.
    """

    rows: TextRows
    report: TextReport
    is_cut: NDArray[np.bool_]
    word_starts: NDArray[np.int64] | None


class LabelledTexts(NamedTuple):
    """A table with the labels of its rows, and what became of the texts."""

    table: pa.Table
    report: TextReport


class BaseTextPipeline(ABC):
    """Base of the pipelines that label texts, or the words of texts. A subclass computes logits.

    Args:
        model: its settings are read, its weights are not.
        processor: of the model.
        has_tags: whether the words of a text get labels.
        truncation: what is kept of a text that is too long; None: as in training, which the processor knows.
        pair: whether queries have a second text.

    Raises:
        ConfigurationError: model and processor do not belong together.
    """

    origin_notes: Sequence[str] = ()  # of an export, on the run that it came from
    no_logits: str | None = None  # why nothing can be explained, of an export
    verdicts: FieldVerdicts | None = None  # what the run's report says of each field; None where it does not
    calibration: AppliedCalibration | None = None  # what answers are calibrated by; None: they are as the model's

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        has_tags: bool,
        truncation: Truncation | None = None,
        pair: PairUse = "optional",
    ) -> None:
        if model.config.reads_context:
            check_processor(model.config, processor)
        kept = processor.truncation if truncation is None else truncation
        check_truncation(kept)
        self.model: Any = model
        self.processor = processor
        self.truncation: Truncation = kept
        self.has_tags = has_tags
        self.max_length = num_readable(model.config, processor.tokenizer)  # of a text, beside no words of a context
        self._labels = LabelColumns(model.config, has_tags=has_tags)
        self.form = TextQueryForm(self._labels.gives, "none" if has_tags else pair)

    @abstractmethod
    def logits(self, batch: TextBatch) -> NDArray[np.float32]:
        """Return the logits of a batch, (batch, labels), or for tags (batch, length, labels).

        Raises:
            NonFiniteError: the model gives no numbers.
        """

    def read_tags(self, logits: NDArray[np.float32], is_start: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the tag of each token and the probability of that tag, (batch, length, 2).

        Shapes:
            logits (batch, length, labels); is_start (batch, length), True where a word begins.
        """
        shares = softmax(logits)
        return np.stack([logits.argmax(axis=-1).astype(np.float32), shares.max(axis=-1)], axis=-1)

    def spelt(self, layout: Layout) -> Any:
        """Return the characters of the words, of a model that reads them; None of all others."""
        return None

    def calibrate_by(self, calibration: AppliedCalibration) -> None:
        """Give tempered probabilities from now on, and a prediction set with each label.

        Raises:
            ConfigurationError: the model gives something else than one label of each text.
        """
        if self._labels.gives != "label":
            raise ConfigurationError(
                f"A prediction set is of one label of a text, and this model gives {self._labels.gives}",
                fix="Ask without a coverage.",
            )
        self.calibration = calibration

    @property
    def columns(self) -> pa.Schema:
        """The columns that ``label_table`` adds."""
        schema = self._labels.schema
        return schema.append(pa.field(PREDICTION_SET, pa.list_(pa.string()))) if self.calibration else schema

    def notes(self) -> list[str]:
        """Return sentences on what was loaded, such as an export whose run is another one now."""
        return [*self.origin_notes]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels, or tags, in the order of their ids; none of a regression."""
        return () if self._labels.has_numbers else tuple(self._labels.names)

    def __call__(
        self, queries: TextQuery | Sequence[TextQuery], *, batch_size: int = 64
    ) -> TextAnswer | list[TextAnswer]:
        """Label one text or many.

        Args:
            queries: {"text": "...", "context": {...}} and for pairs "pair": "..."; for tags the text is a list of
                words, or is split at spaces. A context feature that is not named is missing. "guidance" as for
                ``CompletionPipeline``.
            batch_size: texts a forward pass.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        return one_or_many(queries, self._answers, form=self.form, batch_size=batch_size)

    def label_table(
        self,
        table: Frame,
        *,
        text: str = "text",
        pair: str | None = None,
        batch_size: int = 64,
        progress: Callable[[int, int], None] | None = None,
    ) -> LabelledTexts:
        """Label every row of a table, with the context in the columns that the schema names.

        Args:
            table: the rows: pyarrow, pandas, polars or `datasets`, as ``read_table`` takes them.
            text: name of the column of texts; for tags of lists of words, or of texts that are split at spaces.
            pair: name of a column of second texts.
            batch_size: texts a forward pass.
            progress: called with (texts done, texts in all) after each batch.

        Returns:
            The table with ``columns`` behind its own, its rows in their order, and a report.

        Raises:
            UnknownNameError, SchemaError: the column of texts is absent, or all of the context.
            DataError: a cell that is missing or no text; a column that is called as one of ``columns``.
        """
        check_count("batch_size", batch_size)
        table = table_to_answer(table, self, texts=(text, pair))
        source, context, absent = with_context(self._with_words(table, text), self)
        encoded = self._encoded(source, context, text=text, pair=pair)
        report = replace(encoded.report, remarks=(*absent, *encoded.report.remarks))
        found = self._labelled(encoded, source.column(text), batch_size=batch_size, progress=progress)
        for field in self.columns:
            table = table.append_column(field, found.column(field.name))
        return LabelledTexts(table, report)

    @in_queries()
    def _answers(self, queries: Sequence[TextQuery], *, batch_size: int) -> list[TextAnswer]:
        requests = [read_text_request(query, row=row, form=self.form) for row, query in enumerate(queries)]
        table, pairs = request_table(requests)
        context = encode_contexts(requests, self.processor)
        notes = ContextNotes(context, self.processor.schema, self.model)
        encoded = self._encoded(table, context, text="text", pair=pairs)
        guidance = [request.guidance for request in requests]
        found = self._labelled(encoded, table.column("text"), batch_size=batch_size, guidance=guidance).to_pylist()
        is_known = encoded.rows.has_known_token(self.processor.tokenizer)
        is_known |= encoded.rows.spelt is not None  # of unknown words it reads the characters
        of_texts = [[] if each else [UNKNOWN_TEXT] for each in is_known.tolist()]
        is_cut = encoded.is_cut.tolist()
        return [
            self._answer(request, found[row], is_cut=is_cut[row], own_notes=[*of_texts[row], *notes.of(row)])
            for row, request in enumerate(requests)
        ]

    def laid_out(self, table: pa.Table, context: EncodedContext | None, *, text: str, pair: str | None) -> Layout:
        """Return which tokens of texts are read, and where they stand, beside the words of their contexts.

        Args:
            table: of the texts.
            context: a row each; None of a model that reads none.
            text: name of the column of texts.
            pair: name of the column of second texts; None: there is none.

        Raises:
            ConfigurationError: a model of single texts is given pairs.
            DataError: a text that is none, or for which its context leaves no room.
        """
        if pair is not None and getattr(self.model.config, "type_vocab_size", 2) == 1:
            raise ConfigurationError(
                "This model has one segment (type_vocab_size=1), and a pair of texts two",
                fix="Leave the second text out.",
            )
        is_spelt = self.processor.max_characters is not None
        how: Any = {"limit": self._room(context), "truncation": self.truncation, "is_spelt": is_spelt}
        return lay_out_texts(table, self.processor.tokenizer, text=text, pair=pair, **how)

    def _room(self, context: EncodedContext | None) -> int | NDArray[np.int64]:
        given = context.arrays if context is not None else {}
        return room_beside(given, self.model.config, longest=self.max_length)

    def rows_of(self, layout: Layout, context: EncodedContext | None) -> TextRows:
        """Return texts as the model reads them, each with the context of its row."""
        tokenizer: Any = self.processor.tokenizer
        return TextRows(
            layout.ids(tokenizer),
            layout.offsets,
            pad_id=tokenizer.pad_token_id,
            token_type_ids=layout.token_type_ids,
            context=context.arrays if context is not None else {},
            spelt=self.spelt(layout),
        )

    def guided_logits(self, batch: TextBatch, weights: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """Return the logits of a batch, each text as personal as it asks for, as ``inference.guidance`` says it.

        Args:
            batch: of texts.
            weights: (batch,), how personal each is; None: the model as it is.
        """
        logits = self.logits(batch)
        if weights is None or not batch.context or bool((weights == 1).all()):
            return logits
        asked = np.flatnonzero(weights != 1)
        without = self.logits(batch.without_context(asked))
        weight = weights[asked].reshape(-1, *(1,) * (logits.ndim - 1))
        logits[asked] = without + weight * (logits[asked] - without)
        return logits

    def _with_words(self, table: pa.Table, text: str) -> pa.Table:
        """The table with lists of words as texts where words are labelled."""
        column = checked_column(table, text, complete=True)
        if not self.has_tags and is_list(column.type):
            raise DataError(f"the column is of type {column.type}", column=text, fix="Give a column of text.")
        if not self.has_tags or not is_text(column.type):
            return table
        trimmed = pc.utf8_trim_whitespace(column)
        words = pc.utf8_split_whitespace(trimmed)
        words = pc.if_else(pc.equal(trimmed, ""), pa.scalar([], words.type), words)
        return table.set_column(table.column_names.index(text), text, words)

    def _encoded(self, table: pa.Table, context: EncodedContext | None, *, text: str, pair: str | None) -> ReadTexts:
        layout = self.laid_out(table, context, text=text, pair=pair)
        tokenizer: Any = self.processor.tokenizer
        most = token_limit(tokenizer, int(np.max(self._room(context), initial=1)))
        rows = self.rows_of(layout, context)
        report = layout_report(layout, tokenizer, limit=most, is_pair=pair is not None)
        report = replace(report, **about_context(context, self.model))
        return ReadTexts(rows, report, layout.is_cut, layout.word_starts())

    def _labelled(
        self,
        read: ReadTexts,
        texts: pa.ChunkedArray,
        *,
        batch_size: int,
        guidance: Sequence[float] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> pa.Table:
        """The labels of the texts, in their order; ``guidance``: how personal each is, None: the model as it is."""
        weights = None if guidance is None else np.array(guidance, np.float32)
        count = len(read.rows.ids) if self.has_tags else len(read.rows)
        kept = np.empty((count, self._labels.width), dtype=self._labels.dtype)
        for batch in read.rows.batches(batch_size, progress=progress):
            logits = self.guided_logits(batch, weights[batch.rows] if weights is not None else None)
            if read.word_starts is None:
                kept[batch.rows] = self._labels.read(logits)
            else:
                is_start = batch.is_real & (read.word_starts[batch.places] != NO_START)
                kept[batch.places[batch.is_real]] = self.read_tags(logits, is_start)[batch.is_real]
        if read.word_starts is None and self.calibration is not None:
            found = self.calibration.read(kept, read.rows.context, self.processor.schema)
            return self._labels.of_sure_texts(found.shares.astype(np.float32), found.is_in_set)
        if read.word_starts is None:
            return self._labels.of_texts(kept)
        return self._labels.of_words(kept, read.word_starts, pc.list_value_length(texts).to_numpy())

    def _answer(
        self, request: TextRequest, labels: Mapping[str, Any], *, is_cut: bool, own_notes: Sequence[str]
    ) -> TextAnswer:
        notes: list[str] = []
        if is_cut:
            what = "an end of it or of its pair was" if request.pair is not None else UNREAD[self.truncation]
            notes.append(f"The text is longer than the model reads: {what} not read.")
        if request.context and not self.model.config.reads_context:
            notes.append(UNUSED_CONTEXT)
        notes += [*own_notes, *guidance_notes(self.model, request.guidance)]
        named = f"{PROBABILITY}_"
        shares = {name.removeprefix(named): labels[name] for name in labels if name.startswith(named)}
        answer = TextAnswer(
            label=labels[LABEL],
            probabilities=labels[PROBABILITY] if self.has_tags else shares,
            unknown_context=self.processor.unknown_values(request.context),
            notes=notes,
        )
        if LOW in labels:
            return TextNumber(**answer, interval=[labels[LOW], labels[HIGH]])
        if self.calibration is None:
            return answer
        if request.guidance != 1:
            notes.append(OF_GUIDANCE)
        return SureTextAnswer(**answer, prediction_set=labels[PREDICTION_SET], coverage=self.calibration.coverage)


def request_table(requests: Sequence[TextRequest]) -> tuple[pa.Table, str | None]:
    """Return the texts of requests as a table, and the name of its column of second texts; None where it has none.

    Raises:
        QueryError: some have a second text and others none.

    Example:
        >>> request_table([TextRequest("a quiet room", pair="It was quiet.")])[1]
        'pair'
    """
    table = pa.table({"text": [request.text for request in requests]})
    given = [request.pair for request in requests]
    if all(pair is None for pair in given):
        return table, None
    if None in given:
        raise QueryError("None is no second text", location=(given.index(None), "pair"), fix="All queries or none.")
    return table.append_column("pair", pa.array(given)), "pair"
