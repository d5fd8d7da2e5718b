"""Vectors of texts by a saved model: lists, queries and tables give the same; documents have no context; bad input."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contextual_bert.errors import (
    ConfigurationError,
    DataError,
    QueryError,
    RunDirectoryError,
    SchemaError,
    UnknownNameError,
)
from contextual_bert.inference import EmbeddingPipeline, TextPipeline
from contextual_bert.models import ContextualBertConfig, ContextualBertForSentenceEmbedding
from contextual_bert.testing import miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew

SIZES: dict[str, Any] = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
TEXTS = ["word1 word2", "word3", "word1 word4 word5 word6"]
SEX = ["f", "m", "m"]


def pipeline_of(method: str = "film", **fields: Any) -> EmbeddingPipeline:
    processor = miniature_text_processor()
    given = {"has_position_embeddings": True, "max_position_embeddings": 12, "classifier_pooling": "mean", **fields}
    processor.tokenizer.model_max_length = 12
    schema = processor.schema if method != "none" else None
    config = ContextualBertConfig.from_schema(schema, conditioning=method, vocab_size=23, **SIZES, **given)
    return EmbeddingPipeline(drawn_anew(ContextualBertForSentenceEmbedding(config)), processor)


def test_lists_queries_and_tables_give_the_same_vectors(tmp_path: Path) -> None:
    pipeline = pipeline_of()
    contexts = [{"sex": each} for each in SEX]
    found = pipeline.encode(TEXTS, contexts, batch_size=2)
    assert found.dtype == np.float32 and np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6)
    answers: Any = pipeline([{"text": text, "context": own} for text, own in zip(TEXTS, contexts, strict=True)])
    assert np.array([each["vector"] for each in answers]) == pytest.approx(found, abs=1e-6)
    written = pipeline.embed_table(pa.table({"query": TEXTS, "sex": SEX}), text="query", batch_size=2)
    column = written.table.column("vector")
    assert column.type == pa.list_(pa.float32(), 8)
    assert np.array(column.to_pylist()) == pytest.approx(found, abs=1e-6)
    pipeline.model.save_pretrained(tmp_path)
    pipeline.processor.save_pretrained(tmp_path)
    loaded = EmbeddingPipeline.from_pretrained(tmp_path)
    assert np.array_equal(loaded.encode(TEXTS, contexts, batch_size=2), found)
    with pytest.raises(RunDirectoryError, match="contextual-bert embed"):
        TextPipeline.from_pretrained(tmp_path)


def test_documents_are_read_without_a_context() -> None:
    pipeline = pipeline_of()
    documents = pipeline.encode(TEXTS)
    assert np.abs(documents - pipeline.encode(TEXTS, [{"sex": "f"}] * 3)).max() > 1e-3
    assert pipeline.encode(TEXTS, [{}] * 3) == pytest.approx(documents, abs=1e-6)
    rows = pa.table({"document": TEXTS, "sex": SEX})
    found = pipeline.embed_table(rows, text="document", is_document=True).table.column("vector")
    assert np.array(found.to_pylist()) == pytest.approx(documents, abs=1e-6)
    answer: Any = pipeline({"text": TEXTS[0]})
    assert answer["vector"] == pytest.approx(documents[0].tolist(), abs=1e-6) and answer["notes"] == []
    assert pipeline.encode([]).shape == (0, 8)


def test_what_is_cut_unknown_or_not_read_is_said() -> None:
    long = " ".join(["word1"] * 30)
    answer: Any = pipeline_of()({"text": long, "context": {"sex": "x"}})
    assert answer["unknown_context"] == {"sex": ["x"]}
    assert any("Cut to 12 tokens" in note for note in answer["notes"])
    plain: Any = pipeline_of("none")({"text": long, "context": {"sex": "f"}})
    assert any("The context was not used" in note for note in plain["notes"])


@pytest.mark.parametrize(
    ("texts", "contexts", "error", "said"),
    [
        (["word1", " "], None, QueryError, "query 2, text"),
        (["word1", 5], None, QueryError, "query 2, text"),
        (["word1", None], None, QueryError, "query 2, text"),
        (["a \ud800"], None, QueryError, "query 1, text"),
        (["word1"], [{"age": 3}], UnknownNameError, "query 1, context.age"),
        (["word1"], [{"sex": "f"}] * 2, ConfigurationError, "2 records for 1 texts"),
        ("word1", None, ConfigurationError, "list of texts"),
    ],
)
def test_faulty_texts_and_contexts_are_named(texts: Any, contexts: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        pipeline_of().encode(texts, contexts)


def test_contexts_of_a_model_that_reads_none_and_a_table_without_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="reads no context"):
        pipeline_of("none").encode(["word1"], [{"sex": "f"}])
    with pytest.raises(SchemaError, match="no column of the context"):
        pipeline_of().embed_table(pa.table({"text": TEXTS}))
    with pytest.raises(DataError, match="vector"):
        pipeline_of().embed_table(pa.table({"text": TEXTS, "sex": SEX, "vector": SEX}))
    with pytest.raises(ConfigurationError, match="batch_size"):
        pipeline_of().encode(TEXTS, batch_size=0)
    with pytest.raises(ConfigurationError, match="makes no vectors of texts"):
        EmbeddingPipeline(pipeline_of().model.bert, miniature_text_processor())


def test_vectors_are_not_served() -> None:
    server = pytest.importorskip("contextual_bert.server")
    with pytest.raises(ConfigurationError, match="Vectors of texts are not served"):
        server.create_app(pipeline_of())
