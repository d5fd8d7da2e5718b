"""It is trained, how do I index? Texts and contexts in, vectors out: the nearer two are, the better they go together.

It knows no training and keeps no index.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context import EncodedContext
from contextual_bert.errors import ConfigurationError
from contextual_bert.frames import Frame
from contextual_bert.inference.queries import check_count, encode_contexts, in_queries
from contextual_bert.inference.texts.asked_tables import table_to_answer, with_context
from contextual_bert.inference.texts.document_scoring import embed_texts
from contextual_bert.inference.texts.encode_texts import EncodedTexts
from contextual_bert.inference.texts.encoded_text_pipeline import EncodedTextPipeline
from contextual_bert.inference.texts.text_answers import TextVector
from contextual_bert.inference.texts.text_queries import (
    TextQuery,
    TextQueryForm,
    TextRequest,
    one_or_many,
    read_text_request,
)
from contextual_bert.inference.texts.text_reports import TextReport
from contextual_bert.models import ContextualBertForSentenceEmbedding

VECTOR = "vector"


class EmbeddedTable(NamedTuple):
    """A table with the vectors of its texts in a column of their own, and what was read."""

    table: pa.Table
    report: TextReport


class EmbeddingPipeline(EncodedTextPipeline):
    """Makes vectors of texts under the contexts of who asks, and of documents, which are for all.

    The product of the vectors of a text and of a document is their cosine.

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.

    Raises:
        ConfigurationError: model and processor do not belong together.

    Relation to its siblings:
        ``SentenceEncoder`` reads texts without a context, by a checkpoint that nothing trained here.

    Reference:
        Reimers and Gurevych (2019), "Sentence-BERT", section 3.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForSentenceEmbedding(ContextualBertConfig(vocab_size=23, **sizes))
        >>> EmbeddingPipeline(model, miniature_text_processor()).encode(["word1 word2", "word3"]).shape
        (2, 8)
    """

    form = TextQueryForm("vector")
    model_class = ContextualBertForSentenceEmbedding
    cannot = "makes no vectors of texts"

    @property
    def size(self) -> int:
        """Numbers of a vector."""
        return int(self.model.config.hidden_size)

    @property
    def columns(self) -> pa.Schema:
        """The columns that ``embed_table`` adds."""
        return pa.schema([(VECTOR, pa.list_(pa.float32(), self.size))])

    def encode(
        self,
        texts: Sequence[str],
        contexts: Sequence[Mapping[str, Any]] | None = None,
        *,
        batch_size: int = 64,
        progress: Callable[[int, int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Return a vector of length 1 of each text, (texts, size).

        Args:
            texts: none of them blank.
            contexts: who asks, a record a text; a feature that is not named is missing. None: the texts are documents,
                or nobody is known.
            batch_size: texts a forward pass.
            progress: called with (texts done, texts in all) after each batch.

        Raises:
            ConfigurationError: another number of contexts than of texts; contexts for a model that reads none.
            QueryError: a faulty text or context, by its row.
            NonFiniteError: the model gives no numbers.
        """
        check_count("batch_size", batch_size)
        if isinstance(texts, str):
            raise ConfigurationError("texts is one text", fix="Give a list of texts.")
        if contexts is not None and len(contexts) != len(texts):
            raise ConfigurationError(
                f"contexts has {len(contexts)} records for {len(texts)} texts", fix="Give one a text, or none at all."
            )
        if contexts is not None and not self.model.config.reads_context and any(contexts):
            raise ConfigurationError(
                "is not allowed: this model reads no context", setting="contexts", fix="Leave it out."
            )
        if not len(texts):
            return np.empty((0, self.size), dtype=np.float32)
        queries = [{"text": text} for text in texts]
        if contexts is not None:
            queries = [{**query, "context": own} for query, own in zip(queries, contexts, strict=True)]
        encoded = self._read(queries, is_known=contexts is not None)[1]
        return embed_texts(self.model, encoded.dataset, batch_size=batch_size, progress=progress)

    def __call__(
        self, queries: TextQuery | Sequence[TextQuery], *, batch_size: int = 64
    ) -> TextVector | list[TextVector]:
        """Return the vector of one query or of many.

        Args:
            queries: {"text": "...", "context": {...}}; a context feature that is not named is missing. Without a
                context the text is read as a document.
            batch_size: texts a forward pass.

        Raises:
            DataError, UnknownNameError: a faulty query, named by its row, before anything is computed.
        """
        return one_or_many(queries, self._answers, form=self.form, batch_size=batch_size)

    def embed_table(
        self,
        table: Frame,
        *,
        text: str = "text",
        is_document: bool = False,
        batch_size: int = 64,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbeddedTable:
        """Add a vector of the text of every row of a table, with the context in the columns that the schema names.

        Args:
            table: the rows: pyarrow, pandas, polars or `datasets`, as ``read_table`` takes them.
            text: name of the column of texts.
            is_document: whether the texts are documents, which are read without a context.
            batch_size: texts a forward pass.
            progress: called with (texts done, texts in all) after each batch.

        Returns:
            The table with ``columns`` behind its own, its rows in their order, and a report.

        Raises:
            UnknownNameError, SchemaError: the column of texts is absent, or all of the context.
            DataError: a cell that is missing or no text; a column that is called as one of ``columns``.
        """
        check_count("batch_size", batch_size)
        table = table_to_answer(table, self, texts=(text,))
        source, context, absent = (table, None, []) if is_document else with_context(table, self)
        encoded = self.encoded(source, context, text=text)
        vectors = embed_texts(self.model, encoded.dataset, batch_size=batch_size, progress=progress)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self.size)
        report = replace(encoded.report, remarks=(*absent, *encoded.report.remarks))
        return EmbeddedTable(table.append_column(self.columns.field(0), column), report)

    def _answers(self, queries: Sequence[TextQuery], *, batch_size: int) -> list[TextVector]:
        requests, encoded, context = self._read(queries)
        vectors = embed_texts(self.model, encoded.dataset, batch_size=batch_size)
        notes = self.query_notes([request.context for request in requests], context, encoded)
        return [
            TextVector(
                vector=vectors[row].tolist(),
                unknown_context=self.processor.unknown_values(request.context),
                notes=notes[row],
            )
            for row, request in enumerate(requests)
        ]

    @in_queries()
    def _read(
        self, queries: Sequence[TextQuery], *, is_known: bool | None = None
    ) -> tuple[list[TextRequest], EncodedTexts, EncodedContext | None]:
        """Return queries as they are read, their texts and their contexts.

        Args:
            queries: of texts.
            is_known: whether the contexts are read; None: where there is one.
        """
        requests = [read_text_request(query, row=row, form=self.form) for row, query in enumerate(queries)]
        is_known = any(request.context for request in requests) if is_known is None else is_known
        context = encode_contexts(requests, self.processor) if is_known else None
        texts = pa.table({"text": pa.array([request.text for request in requests], pa.string())})
        return requests, self.encoded(texts, context, text="text"), context
