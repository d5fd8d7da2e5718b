"""It is trained on hidden words, how do I ask? A text with [MASK] and a context in, the words for each out.

Each [MASK] is filled by itself, given all that is written and who asks. It knows no training.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from contextual_bert.context import EncodedContext
from contextual_bert.data import SequenceDataset
from contextual_bert.data.answers import strings_of
from contextual_bert.errors import ConfigurationError, DataError, QueryError
from contextual_bert.frames import Frame
from contextual_bert.inference.capabilities import guidance_notes
from contextual_bert.inference.context_notes import ContextNotes, about_context
from contextual_bert.inference.guidance import guided_logits
from contextual_bert.inference.queries import MASK, UNUSED_CONTEXT, check_count, encode_contexts, in_queries
from contextual_bert.inference.saved import bare_model, load_text_model
from contextual_bert.inference.texts.asked_tables import table_to_answer, with_context
from contextual_bert.inference.texts.encode_texts import EncodedTexts, encode_texts
from contextual_bert.inference.texts.text_answers import TextBlank, TextFilled, WordCandidate
from contextual_bert.inference.texts.text_layout import num_readable, room_beside
from contextual_bert.inference.texts.text_queries import (
    TextQuery,
    TextQueryForm,
    TextRequest,
    one_or_many,
    read_text_request,
)
from contextual_bert.inference.texts.text_reports import TextReport
from contextual_bert.inference.texts.text_rows import rows_of_like_length
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertForMaskedLM,
    ContextualBertProcessor,
    check_processor,
)
from contextual_bert.models.token_marks import space_mark

CONTINUED = "##"  # before a piece that goes on the word before it
UNUSED = re.compile(r"\[unused\d+\]")  # places in BERT's vocabulary that stand for no piece of text
# What fill_table adds.
COLUMNS = pa.schema(
    [
        ("predicted_text", pa.string()),
        ("candidates", pa.list_(pa.list_(pa.string()))),
        ("probabilities", pa.list_(pa.list_(pa.float64()))),
    ]
)


class FilledTable(NamedTuple):
    """A table with the words for each [MASK] of its texts, and what was read."""

    table: pa.Table
    report: TextReport


class FillMaskPipeline:
    """Fills each [MASK] of a text with words, for the person who asks.

    Args:
        model: the trained model of hidden words.
        processor: its processor, for text.
        device: where to run; default: where the model is.
        top_k: candidates of each [MASK].

    Raises:
        ConfigurationError: model and processor do not belong together; a number that cannot work.

    Relation to its siblings:
        ``CompletionPipeline`` fills blanks in sets. ``sample_texts`` draws whole texts, all blanks together.

    Reference:
        Devlin et al. (2019), section 3.1, for the task.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> text = {"has_position_embeddings": True, "reserved_token_ids": [0, 1, 2, 3, 4], "vocab_size": 23}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(**text, **sizes))
        >>> found = FillMaskPipeline(model, miniature_text_processor(), top_k=2)({"text": "word1 [MASK] word3"})
        >>> found["slots"][0]["start"], len(found["slots"][0]["candidates"])
        (6, 2)
    """

    form = TextQueryForm("words")
    labels: tuple[str, ...] = ()

    def __init__(
        self,
        model: ContextualBertForMaskedLM,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        top_k: int = 5,
    ) -> None:
        bare = bare_model(model)
        if not isinstance(bare, ContextualBertForMaskedLM):
            raise ConfigurationError(
                f"{type(bare).__name__} fills no hidden words", fix=f"Give a {ContextualBertForMaskedLM.__name__}."
            )
        if not processor.is_for_text:
            raise ConfigurationError(
                "This processor is for sets of items", fix="Give that of the text model, or use CompletionPipeline."
            )
        check_count("top_k", top_k)
        if model.config.reads_context:
            check_processor(model.config, processor)
        place: Any = device if device is not None else model.device
        self.model: Any = model.to(place).eval()
        self.processor, self.top_k = processor, top_k
        self._tokens = ContextualBertProcessor(ContextFeatureExtractor(), processor.tokenizer)
        never = torch.as_tensor(tokens_never_written(model, processor.tokenizer), device=self.model.device)
        self._never = never.long()
        tokenizer: Any = processor.tokenizer
        mask = re.escape(tokenizer.mask_token)
        self._mask = re.compile(f"{mask}|{re.escape(MASK)}")

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, *, device: str | torch.device | None = None, top_k: int = 5
    ) -> Self:
        """The pipeline of a folder that model and processor were saved in.

        Raises:
            RunDirectoryError: no such folder, files missing or damaged, or a model that learned no hidden words.
        """
        model, processor = load_text_model(directory, ContextualBertForMaskedLM)
        return cls(model, processor, device=device, top_k=top_k)

    def __call__(
        self, queries: TextQuery | Sequence[TextQuery], *, batch_size: int = 64
    ) -> TextFilled | list[TextFilled]:
        """Fill the [MASK] of one text or of many.

        Args:
            queries: {"text": "The room was [MASK].", "context": {...}}; a context feature that is not named is missing.
                "guidance" as for ``CompletionPipeline``. The tokenizer's own mask, such as <mask>, is read as well.
            batch_size: texts a forward pass.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        return one_or_many(queries, self._answers, form=self.form, batch_size=batch_size)

    def notes(self) -> list[str]:
        """Return sentences on what was loaded: of a run there are none."""
        return []

    @property
    def max_length(self) -> int:
        """Tokens of a text that are read."""
        return num_readable(self.model.config, self.processor.tokenizer)

    @property
    def columns(self) -> pa.Schema:
        """The columns that ``fill_table`` adds."""
        return COLUMNS

    def fill_table(
        self,
        table: Frame,
        *,
        text: str = "text",
        batch_size: int = 64,
        progress: Callable[[int, int], None] | None = None,
    ) -> FilledTable:
        """Fill each [MASK] of every row of a table, with the context in the columns that the schema names.

        Args:
            table: the rows: pyarrow, pandas, polars or `datasets`, as ``read_table`` takes them.
            text: name of the column of texts.
            batch_size: texts a forward pass.
            progress: called with (texts done, texts in all) after each batch.

        Returns:
            The table with ``COLUMNS`` behind its own, its rows in their order, and a report. ``predicted_text`` has the
            likeliest words; ``candidates`` and ``probabilities`` have a list for each [MASK] that was read.

        Raises:
            UnknownNameError, SchemaError: the column of texts is absent, or all of the context.
            DataError: a cell that is missing, no text or without a [MASK]; a column that is called as one of
                ``COLUMNS``.
        """
        check_count("batch_size", batch_size)
        table = table_to_answer(table, self, texts=(text,))
        source, context, absent = with_context(table, self)
        texts = strings_of(source, text, complete=True)
        for row, each in enumerate(texts):
            if not self._mask.search(each):
                raise DataError(f"there is no {MASK} in the text", row=row, column=text, fix=self._advice)
        encoded = self._encoded(source, texts, context, text=text)
        found = [*self._filled(encoded, texts, [1.0] * len(texts), batch_size=batch_size, progress=progress)]
        slots = [[slot["candidates"] for slot in each] for each in found]
        columns = (
            [self._whole(each, blanks) for each, blanks in zip(texts, found, strict=True)],
            [[[word["word"] for word in words] for words in each] for each in slots],
            [[[word["probability"] for word in words] for words in each] for each in slots],
        )
        for field, values in zip(COLUMNS, columns, strict=True):
            table = table.append_column(field, pa.array(values, field.type))
        return FilledTable(table, replace(encoded.report, remarks=(*absent, *encoded.report.remarks)))

    @property
    def _advice(self) -> str:
        return f"Write {MASK} where a word is wanted."

    @in_queries()
    def _answers(self, queries: Sequence[TextQuery], *, batch_size: int) -> list[TextFilled]:
        requests = [read_text_request(query, row=row, form=self.form) for row, query in enumerate(queries)]
        texts = [cast(str, request.text) for request in requests]
        for row, text in enumerate(texts):
            if not self._mask.search(text):
                raise QueryError(f"there is no {MASK} in the text", location=(row, "text"), fix=self._advice)
        context = encode_contexts(requests, self.processor)
        encoded = self._encoded(pa.table({"text": texts}), texts, context, text="text")
        guidance = [request.guidance for request in requests]
        notes = ContextNotes(context, self.processor.schema, self.model)
        found = self._filled(encoded, texts, guidance, batch_size=batch_size)
        return [
            self._answer(request, slots, is_cut=bool(encoded.is_cut[row]), context_notes=notes.of(row))
            for row, (request, slots) in enumerate(zip(requests, found, strict=True))
        ]

    def _answer(
        self, request: TextRequest, slots: list[TextBlank], *, is_cut: bool, context_notes: Sequence[str]
    ) -> TextFilled:
        text = cast(str, request.text)
        num_unread = len(self._mask.findall(text)) - len(slots)
        own = (
            [f"The text is longer than the model reads: its end was not, nor was the {MASK} in it."]
            if num_unread
            else []
        )
        if is_cut and not num_unread:
            own = ["The text is longer than the model reads: its end was not read."]
        if len(slots) > 1:
            own.append(f"Each {MASK} is filled by itself: the words need not go together.")
        unread = [UNUSED_CONTEXT] * bool(request.context) if not self.model.config.reads_context else []
        return TextFilled(
            filled=self._whole(text, slots),
            slots=slots,
            unknown_context=self.processor.unknown_values(request.context),
            notes=[*own, *unread, *context_notes, *guidance_notes(self.model, request.guidance)],
        )

    def _encoded(
        self, table: pa.Table, texts: Sequence[str], context: EncodedContext | None, *, text: str
    ) -> EncodedTexts:
        """The texts of a table with the tokenizer's mask, each with the context of its row."""
        tokenizer: Any = self.processor.tokenizer
        mask: str = tokenizer.mask_token
        spelt = [self._mask.sub(lambda _: mask, each) for each in texts]
        table = table.set_column(table.column_names.index(text), text, pa.array(spelt, pa.large_string()))
        given = context.arrays if context is not None and self.model.config.reads_context else {}
        limit = room_beside(given, self.model.config, longest=self.max_length)
        encoded = encode_texts(table, self._tokens, text=text, max_length=limit)
        tensors = context.tensors if context is not None and self.model.config.reads_context else {}
        report = replace(encoded.report, **about_context(context, self.model))
        return replace(encoded, dataset=encoded.dataset.with_context(tensors), report=report)

    def _filled(
        self,
        encoded: EncodedTexts,
        texts: Sequence[str],
        guidance: Sequence[float],
        *,
        batch_size: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[list[TextBlank]]:
        """Yield the blanks of each text that were read, in the order of the texts."""
        dataset: SequenceDataset = encoded.dataset
        found: list[list[TextBlank]] = [[] for _ in texts]
        tokenizer: Any = self.processor.tokenizer
        num_done = 0
        for rows in rows_of_like_length(np.diff(dataset.offsets.numpy()), batch_size):
            numbers = torch.from_numpy(rows)
            inputs: dict[str, Any] = dataset.__getitems__(numbers).inputs()
            asked: Tensor = inputs["input_ids"] == tokenizer.mask_token_id
            own_rows = asked.nonzero()[:, 0]
            if len(own_rows):
                weights = [guidance[row] for row in rows.tolist()]
                logits = guided_logits(self.model, {**inputs, "logits_at": asked}, weights, rows=own_rows)
                self._read(logits, numbers[own_rows].tolist(), texts, found)
            num_done += len(rows)
            if progress is not None:
                progress(num_done, len(texts))
        yield from found

    def _read(self, logits: Tensor, rows: Sequence[int], texts: Sequence[str], found: list[list[TextBlank]]) -> None:
        """Add what logits, (blanks, vocabulary), say of the next blank of each of these texts."""
        shares = logits.index_fill(1, self._never, -torch.inf).softmax(dim=-1)
        best = shares.topk(min(self.top_k, shares.shape[1] - len(self._never)), dim=-1)
        for row, ids, values in zip(rows, best.indices.tolist(), best.values.tolist(), strict=True):
            places = [*self._mask.finditer(texts[row])]
            words = [WordCandidate(word=self._word(i), probability=p) for i, p in zip(ids, values, strict=True)]
            found[row].append(TextBlank(start=places[len(found[row])].start(), candidates=words))

    def _word(self, token_id: int) -> str:
        """A token as a word, or with ``CONTINUED`` before it as a piece that goes on the word before."""
        tokenizer: Any = self.processor.tokenizer
        token: str = tokenizer.convert_ids_to_tokens(token_id)
        if (mark := space_mark(tokenizer)) is None:
            return token
        word: str = tokenizer.decode([token_id]).strip()
        return word if token.startswith(mark) else f"{CONTINUED}{word}"

    def _whole(self, text: str, slots: Sequence[TextBlank]) -> str:
        """The text with the likeliest word for each [MASK] that was read."""
        parts: list[str] = []
        end = 0
        for place, slot in zip(self._mask.finditer(text), slots, strict=False):
            before, word = text[end : place.start()], slot["candidates"][0]["word"]
            is_piece = word.startswith(CONTINUED) and len(word) > len(CONTINUED)
            parts += [before.rstrip() if is_piece else before, word.removeprefix(CONTINUED) if is_piece else word]
            end = place.end()
        return "".join([*parts, text[end:]])


def tokens_never_written(model: ContextualBertForMaskedLM, tokenizer: Any) -> list[int]:
    """Return the ids that stand for no piece of text: reserved and unused ones, and those that only the model has.

    Args:
        model: of hidden words.
        tokenizer: its own.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> text = {"has_position_embeddings": True, "reserved_token_ids": [0, 1, 2, 3, 4], "vocab_size": 24}
        >>> model = ContextualBertForMaskedLM(ContextualBertConfig(**text, **sizes))
        >>> tokens_never_written(model, miniature_text_processor().tokenizer)
        [0, 1, 2, 3, 4, 23]
    """
    unused = (i for name, i in tokenizer.get_vocab().items() if UNUSED.match(name))
    return [*model.config.reserved_token_ids, *unused, *range(len(tokenizer), model.config.vocab_size)]
