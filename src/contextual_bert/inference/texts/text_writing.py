"""It is trained, how do I ask? A text and a context in, the text that an encoder-decoder writes out.

It knows no training.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from contextual_bert.data import SequenceDataset
from contextual_bert.frames import Frame
from contextual_bert.inference.queries import (
    check_count,
    encode_contexts,
    in_queries,
)
from contextual_bert.inference.scoring import to_device
from contextual_bert.inference.texts.asked_tables import table_to_answer, with_context
from contextual_bert.inference.texts.encoded_text_pipeline import EncodedTextPipeline
from contextual_bert.inference.texts.text_answers import TextWritten
from contextual_bert.inference.texts.text_queries import (
    TextQuery,
    TextQueryForm,
    one_or_many,
    read_text_request,
)
from contextual_bert.inference.texts.text_reports import TextReport
from contextual_bert.inference.texts.text_rows import rows_of_like_length
from contextual_bert.models import (
    ContextualBertForSeq2SeqLM,
    ContextualBertProcessor,
)

# What write_table adds.
COLUMNS = pa.schema([("predicted_text", pa.string())])


class WrittenTable(NamedTuple):
    """A table with the texts that were written in a column of their own, and what was read."""

    table: pa.Table
    report: TextReport


class TextToTextPipeline(EncodedTextPipeline):
    """Writes a text for each text, for the person who asks.

    Args:
        model: the trained encoder-decoder.
        processor: its processor.
        device: where to run; default: where the model is.
        num_beams: 1 takes the likeliest token each time; more keeps so many beginnings, for likelier texts.
        max_new_tokens: tokens written at most; None: as many as the model has positions.

    Raises:
        ConfigurationError: model and processor do not belong together; a number that cannot work.

    Relation to its siblings:
        ``generate_texts`` writes on from a prompt, with a model that reads nothing else.

    Reference:
        Sutskever et al. (2014), section 3.2, for the beams.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> fields = {"decoder_type": "gru", "decoder_start_token_id": 3, "eos_token_id": 4}
        >>> model = ContextualBertForSeq2SeqLM(ContextualBertConfig(vocab_size=23, **fields, **sizes))
        >>> pipeline = TextToTextPipeline(model, miniature_text_processor(), max_new_tokens=3)
        >>> sorted(pipeline({"text": "word1 word2"}))
        ['is_whole', 'notes', 'unknown_context', 'written']
    """

    form = TextQueryForm("text")
    model_class = ContextualBertForSeq2SeqLM
    cannot = "writes no text from another"

    def __init__(
        self,
        model: ContextualBertForSeq2SeqLM,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        num_beams: int = 1,
        max_new_tokens: int | None = None,
    ) -> None:
        super().__init__(model, processor, device=device)
        check_count("num_beams", num_beams)
        if max_new_tokens is not None:
            check_count("max_new_tokens", max_new_tokens)
        self.num_beams = num_beams
        positions = int(model.config.max_position_embeddings)
        self.max_new_tokens = positions if max_new_tokens is None else min(max_new_tokens, positions)

    def __call__(
        self,
        queries: TextQuery | Sequence[TextQuery],
        *,
        batch_size: int = 32,
    ) -> TextWritten | list[TextWritten]:
        """Write the text of one query or of many.

        Args:
            queries: {"text": "...", "context": {...}}; a context feature that is not named is missing.
            batch_size: texts a forward pass.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        return one_or_many(queries, self._answers, form=self.form, batch_size=batch_size)

    @property
    def columns(self) -> pa.Schema:
        """The columns that ``write_table`` adds."""
        return COLUMNS

    def write_table(
        self,
        table: Frame,
        *,
        text: str = "text",
        batch_size: int = 32,
        progress: Callable[[int, int], None] | None = None,
    ) -> WrittenTable:
        """Write the text of every row of a table, with the context in the columns that the schema names.

        Args:
            table: the rows: pyarrow, pandas, polars or `datasets`, as ``read_table`` takes them.
            text: name of the column of texts.
            batch_size: texts a forward pass.
            progress: called with (texts done, texts in all) after each batch.

        Returns:
            The table with ``COLUMNS`` behind its own, its rows in their order, and a report.

        Raises:
            UnknownNameError, SchemaError: the column of texts is absent, or all of the context.
            DataError: a cell that is missing or no text; a column that is called as one of ``COLUMNS``.
        """
        check_count("batch_size", batch_size)
        table = table_to_answer(table, self, texts=(text,))
        source, context, absent = with_context(table, self)
        encoded = self.encoded(source, context, text=text)
        texts, _ = self._written(encoded.dataset, batch_size=batch_size, progress=progress)
        table = table.append_column(COLUMNS.field(0), pa.array(texts, pa.string()))
        return WrittenTable(table, replace(encoded.report, remarks=(*absent, *encoded.report.remarks)))

    @in_queries()
    def _answers(self, queries: Sequence[TextQuery], *, batch_size: int) -> list[TextWritten]:
        requests = [read_text_request(query, row=row, form=self.form) for row, query in enumerate(queries)]
        context = encode_contexts(requests, self.processor)
        encoded = self.encoded(pa.table({"text": [request.text for request in requests]}), context, text="text")
        texts, is_whole = self._written(encoded.dataset, batch_size=batch_size)
        notes = self.query_notes([request.context for request in requests], context, encoded)
        return [
            TextWritten(
                written=texts[row],
                is_whole=is_whole[row],
                unknown_context=self.processor.unknown_values(request.context),
                notes=notes[row],
            )
            for row, request in enumerate(requests)
        ]

    @torch.no_grad()
    def _written(
        self, dataset: SequenceDataset, *, batch_size: int, progress: Callable[[int, int], None] | None = None
    ) -> tuple[list[str], list[bool]]:
        tokenizer: Any = self.processor.tokenizer
        end, num_done = tokenizer.sep_token_id, 0
        texts, is_whole = [""] * len(dataset), [False] * len(dataset)
        for rows in rows_of_like_length(np.diff(dataset.offsets.numpy()), batch_size):
            numbers = torch.from_numpy(rows)
            given = to_device(dataset.__getitems__(numbers).inputs(), self.model.device)
            given.pop("token_type_ids", None)
            limits = {"max_new_tokens": self.max_new_tokens, "num_beams": self.num_beams}
            found = written_ids(self.model, tokenizer, given, **limits)
            written = tokenizer.batch_decode(found, skip_special_tokens=True)
            ended = np.asarray((found == end).any(dim=1).cpu()).tolist()
            for number, one, whole in zip(numbers.tolist(), written, ended, strict=True):
                texts[number], is_whole[number] = one, whole
            num_done += len(numbers)
            if progress is not None:
                progress(num_done, len(dataset))
        return texts, is_whole


def written_ids(model: Any, tokenizer: Any, inputs: Mapping[str, Any], **limits: Any) -> torch.Tensor:
    """Return the tokens (batch, written) that a model writes for some sources, its end and padding among them.

    Args:
        model: an encoder-decoder.
        tokenizer: its own; a checkpoint may have more rows than it has tokens, which are never written.
        inputs: input_ids, attention_mask, and a context where there is one, on the model's device.
        **limits: of transformers' ``generate``.
    """
    beyond = [*range(len(tokenizer), model.config.vocab_size)]
    ends = {"eos_token_id": tokenizer.sep_token_id, "pad_token_id": tokenizer.pad_token_id}
    return model.generate(**inputs, **ends, **limits, suppress_tokens=beyond or None)[:, 1:]
