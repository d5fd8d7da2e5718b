"""It is trained, how do I predict? Texts and contexts in, labels and their probabilities out.

A query is a text, or words that each get a tag, and the context of who wrote or reads it; a table has a query a row.
The folder that a model and its processor were saved in is all that is needed. It knows no training.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict, get_args

import pyarrow as pa
import pyarrow.compute as pc
import torch

from contextual_bert.arrow_types import checked_text, is_list, is_text
from contextual_bert.context import EncodedContext
from contextual_bert.data import read_table
from contextual_bert.data.checked_columns import check_free, checked_column
from contextual_bert.errors import ConfigurationError, DataError, QueryError
from contextual_bert.frames import Frame
from contextual_bert.inference.capabilities import guidance_notes
from contextual_bert.inference.context_notes import ContextNotes, about_context, with_absent_columns
from contextual_bert.inference.queries import (
    UNUSED_CONTEXT,
    check_count,
    check_queries,
    check_query,
    in_queries,
    query_context,
    read_guidance,
)
from contextual_bert.inference.query_schema import GUIDANCE
from contextual_bert.inference.saved import bare_model, load_text_model
from contextual_bert.inference.text_baseline import TextBaseline
from contextual_bert.inference.texts.encode_texts import EncodedTexts, TextReport, encode_texts
from contextual_bert.inference.texts.text_labels import LABEL, PROBABILITY, LabelColumns
from contextual_bert.inference.texts.text_layout import num_readable, room_beside
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
    check_processor,
)
from contextual_bert.models.truncation import Truncation, check_truncation

TextModel = ContextualBertForSequenceClassification | ContextualBertForTokenClassification | TextBaseline
QUERY = 'Give {"text": "...", "context": {...}}, for tags a list of words as text, or a list of such queries.'
KEYS = ("text", "pair", "context", GUIDANCE)
UNKNOWN_TEXT = "The tokenizer knows no word of the text, so the answer says nothing of it."
UNREAD: Mapping[Truncation, str] = {"head": "its end was", "head_tail": "its middle was"}


class TextAnswer(TypedDict):
    """Answer to a text query: label or tags, with probabilities.

    ``label``: the likeliest label, all labels above one half where a text may have several, the number of a regression,
    or for words a tag each (None behind the longest text that the model reads); ``probabilities``: of the labels, for
    words of the tag that each got; ``unknown_context``: values that the model never saw; ``notes``: what the reader
    should know.
    """

    label: str | float | list[str] | list[str | None]
    probabilities: dict[str, float] | list[float | None]
    unknown_context: dict[str, list[str]]
    notes: list[str]


class LabelledTexts(NamedTuple):
    """A table with the labels of its rows, and what became of the texts."""

    table: pa.Table
    report: TextReport


class TextPipeline:
    """Labels texts, or the words of texts.

    Args:
        model: the trained model, or a trained baseline.
        processor: its processor.
        device: where to run; default: where the model is.
        truncation: what is kept of a text that is too long, its "head" or "head_tail"; None: as in training, which the
            processor knows.

    Raises:
        ConfigurationError: model and processor do not belong together.

    Relation to its siblings:
        ``CompletionPipeline`` fills blanks in sets.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> config = ContextualBertConfig(vocab_size=23, id2label={0: "bad", 1: "good"}, **sizes)
        >>> pipeline = TextPipeline(ContextualBertForSequenceClassification(config), miniature_text_processor())
        >>> sorted(pipeline({"text": "word1 word2"})["probabilities"])
        ['bad', 'good']
    """

    def __init__(
        self,
        model: TextModel,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        truncation: Truncation | None = None,
    ) -> None:
        bare = bare_model(model)
        if not isinstance(bare, get_args(TextModel)):
            wanted = ", ".join(each.__name__ for each in get_args(TextModel))
            raise ConfigurationError(f"{type(bare).__name__} gives no labels", fix=f"Give one of {wanted}.")
        if not processor.is_for_text:
            raise ConfigurationError("This processor is for sets of items", fix="Give that of the text model.")
        if model.config.reads_context:
            check_processor(model.config, processor)
        kept = processor.truncation if truncation is None else truncation
        check_truncation(kept)
        place: Any = device if device is not None else model.device
        self.model: Any = model.to(place).eval()
        self.processor = processor
        self.truncation: Truncation = kept
        self.has_tags: bool = (
            bare.config.has_tags
            if isinstance(bare, TextBaseline)
            else isinstance(bare, ContextualBertForTokenClassification)
        )
        self.max_length = num_readable(model.config, processor.tokenizer)  # of a text, beside no words of a context
        self._labels = LabelColumns(model.config, has_tags=self.has_tags)
        self._tokens = ContextualBertProcessor(
            ContextFeatureExtractor(), processor.tokenizer, max_characters=processor.max_characters
        )

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, *, device: str | torch.device | None = None, truncation: Truncation | None = None
    ) -> Self:
        """The pipeline of a folder that model and processor were saved in.

        Raises:
            RunDirectoryError: no such folder, files missing or damaged, or a model that labels nothing.
        """
        model, processor = load_text_model(directory, *get_args(TextModel))
        return cls(model, processor, device=device, truncation=truncation)

    @property
    def columns(self) -> pa.Schema:
        """The columns that ``label_table`` adds."""
        return self._labels.schema

    def __call__(
        self, queries: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, batch_size: int = 64
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
        check_count("batch_size", batch_size)
        if isinstance(queries, Mapping):
            return self._answers([queries], batch_size=1)[0]
        given = check_queries(queries, fix=QUERY)
        return self._answers(given, batch_size=batch_size) if given else []

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
        if not isinstance(table, pa.Table):
            table = read_table(table, text_columns=(text, pair), code_columns=self.processor.code_columns)
        check_free(table, self.columns.names)
        source, absent = self._with_words(table, text), list[str]()
        context = None
        if self.model.config.reads_context:
            source, absent = with_absent_columns(source, self.processor.schema)
            context = self.processor.encode_columns(source)
        encoded = self._encoded(source, context, text=text, pair=pair)
        report = replace(encoded.report, remarks=(*absent, *encoded.report.remarks))
        found = self._labelled(encoded, source.column(text), batch_size=batch_size, progress=progress)
        for field in self.columns:
            table = table.append_column(field, found.column(field.name))
        return LabelledTexts(table, report)

    @in_queries()
    def _answers(self, queries: Sequence[Mapping[str, Any]], *, batch_size: int) -> list[TextAnswer]:
        table, pairs = pa.table({"text": [self._text(query, row) for row, query in enumerate(queries)]}), None
        guidance = [read_guidance(query, row=row) for row, query in enumerate(queries)]
        given = [query.get("pair") for query in queries]
        if any(pair is not None for pair in given):
            row = next((row for row, pair in enumerate(given) if not isinstance(pair, str)), None)
            if row is not None:
                place = (row, "pair")
                raise QueryError(f"{given[row]!r} is no second text", location=place, fix="All queries or none.")
            table, pairs = table.append_column("pair", pa.array(given)), "pair"
        records = [query_context(query, row=row) for row, query in enumerate(queries)]
        with in_queries("context"):
            context = self.processor.encode_context(records, num_rows=len(queries))
        notes = ContextNotes(context, self.processor.schema, self.model)
        encoded = self._encoded(table, context, text="text", pair=pairs)
        column = table.column("text")
        found = self._labelled(encoded, column, batch_size=batch_size, guidance=guidance).to_pylist()
        is_known = encoded.has_known_token(self._tokens.tokenizer)
        is_known |= encoded.dataset.spelt is not None  # of unknown words it reads the characters
        of_texts = [[] if each else [UNKNOWN_TEXT] for each in is_known.tolist()]
        return [
            self._answer(query, labels, is_cut=is_cut, own_notes=[*of_texts[row], *notes.of(row)])
            for row, (query, labels, is_cut) in enumerate(zip(queries, found, encoded.is_cut.tolist(), strict=True))
        ]

    def _text(self, query: Mapping[str, Any], row: int) -> str | list[str]:
        check_query(query, row=row, known=KEYS, fix=QUERY)
        text: Any = query.get("text")
        if self.has_tags and isinstance(text, str):
            text = text.split()
        is_right = all(isinstance(word, str) for word in text) if isinstance(text, list) else isinstance(text, str)
        if not is_right or isinstance(text, list) != self.has_tags or not text:
            raise QueryError(f"{text!r:.80} is no text", location=(row, "text"), value=text, fix=QUERY)
        pair = query.get("pair")
        named = {"text": text if isinstance(text, list) else [text], "pair": [pair] if isinstance(pair, str) else []}
        for column, words in named.items():
            checked_text("".join(words), row=row, column=column)
        return text

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

    def _encoded(self, table: pa.Table, context: EncodedContext | None, *, text: str, pair: str | None) -> EncodedTexts:
        if pair is not None and getattr(self.model.config, "type_vocab_size", 2) == 1:
            raise ConfigurationError(
                "This model has one segment (type_vocab_size=1), and a pair of texts two",
                fix="Leave the second text out.",
            )
        tensors = context.tensors if context is not None else {}
        max_length = room_beside(tensors, self.model.config, longest=self.max_length)
        encoded = encode_texts(
            table, self._tokens, text=text, pair=pair, max_length=max_length, truncation=self.truncation
        )
        encoded.dataset.context |= tensors
        return replace(encoded, report=replace(encoded.report, **about_context(context, self.model)))

    def _labelled(
        self,
        encoded: EncodedTexts,
        texts: pa.ChunkedArray,
        *,
        batch_size: int,
        guidance: Sequence[float] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> pa.Table:
        """The labels of the texts, in their order."""
        kept = self._labels.kept(
            self.model,
            encoded.dataset,
            word_starts=encoded.word_starts,
            batch_size=batch_size,
            guidance=guidance,
            progress=progress,
        )
        if encoded.word_starts is None:
            return self._labels.of_texts(kept)
        return self._labels.of_words(kept, encoded.word_starts, pc.list_value_length(texts).to_numpy())

    def _answer(
        self, query: Mapping[str, Any], labels: Mapping[str, Any], *, is_cut: bool, own_notes: Sequence[str]
    ) -> TextAnswer:
        context = query_context(query, row=0)
        notes: list[str] = []
        if is_cut:
            what = "an end of it or of its pair was" if query.get("pair") is not None else UNREAD[self.truncation]
            notes.append(f"The text is longer than the model reads: {what} not read.")
        if context and not self.model.config.reads_context:
            notes.append(UNUSED_CONTEXT)
        notes += [*own_notes, *guidance_notes(self.model, read_guidance(query, row=0))]
        shares = {name.removeprefix(f"{PROBABILITY}_"): labels[name] for name in self.columns.names[2:]}
        return TextAnswer(
            label=labels[LABEL],
            probabilities=labels[PROBABILITY] if self.has_tags else shares,
            unknown_context=self.processor.unknown_values(context),
            notes=notes,
        )
