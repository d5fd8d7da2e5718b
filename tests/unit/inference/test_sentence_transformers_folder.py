"""A folder that sentence-transformers loads: the same vectors; transformers alone gives them, too; what has none."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import EmbeddingPipeline, write_sentence_transformers
from contextual_bert.inference.texts import SentenceEncoder
from contextual_bert.models import ContextualBertConfig, ContextualBertForSentenceEmbedding
from contextual_bert.models.checkpoint_files import sentence_pooling_of
from contextual_bert.testing import miniature_text_processor
from contextual_bert.testing.miniature import drawn_anew

SIZES: dict[str, Any] = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
TEXTS = ["word1 word2", "word3", "word1 nothing word5 word6", " ".join(["word2"] * 40)]


def pipeline_of(pooling: str = "mean", **fields: Any) -> EmbeddingPipeline:
    processor = miniature_text_processor()
    processor.tokenizer.model_max_length = 12
    given = {"has_position_embeddings": True, "max_position_embeddings": 12, "classifier_pooling": pooling, **fields}
    config = ContextualBertConfig(vocab_size=23, **SIZES, **given)
    return EmbeddingPipeline(drawn_anew(ContextualBertForSentenceEmbedding(config)), processor)


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("type_vocab_size", [0, 2])
def test_sentence_transformers_gives_the_same_vectors(pooling: str, type_vocab_size: int, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    pipeline = pipeline_of(pooling, type_vocab_size=type_vocab_size)
    assert write_sentence_transformers(pipeline, tmp_path / "vectors") == []
    loaded = library.SentenceTransformer(str(tmp_path / "vectors"), device="cpu")
    found = loaded.encode(TEXTS)
    assert found == pytest.approx(pipeline.encode(TEXTS), abs=1e-5)
    assert loaded.max_seq_length == 12
    pipeline.model.save_pretrained(tmp_path / "run")
    pipeline.processor.save_pretrained(tmp_path / "run")
    write_sentence_transformers(tmp_path / "run", tmp_path / "again")
    again = library.SentenceTransformer(str(tmp_path / "again"), device="cpu").encode(TEXTS)
    assert again == pytest.approx(found, abs=1e-6)
    assert loaded.similarity(found, found).diagonal() == pytest.approx(torch.ones(4), abs=1e-5)


def test_transformers_and_a_mean_give_the_same_vectors(tmp_path: Path) -> None:
    pipeline = pipeline_of()
    write_sentence_transformers(pipeline, tmp_path)
    model, tokenizer = AutoModel.from_pretrained(tmp_path).eval(), AutoTokenizer.from_pretrained(tmp_path)
    for text, vector in zip(TEXTS[:3], pipeline.encode(TEXTS[:3]), strict=True):
        with torch.no_grad():
            mean = model(input_ids=torch.tensor([tokenizer(text)["input_ids"]])).last_hidden_state[0].mean(dim=0)
        assert vector == pytest.approx((mean / mean.norm()).numpy(), abs=1e-5)


def test_the_folder_is_a_checkpoint_of_ours_and_is_replaced(tmp_path: Path) -> None:
    for pooling, own in (("first", "cls"), ("mean", "mean")):
        pipeline = pipeline_of(pooling)
        write_sentence_transformers(pipeline, tmp_path)
        assert sentence_pooling_of(tmp_path) == own
        assert SentenceEncoder(tmp_path).read(TEXTS) == pytest.approx(pipeline.encode(TEXTS), abs=1e-5)


@pytest.mark.parametrize(("said", "own"), [({"pooling_mode": "mean"}, "mean"), ({"pooling_mode": "cls"}, "cls")])
def test_what_newer_versions_write_of_the_pooling_is_read(said: dict[str, str], own: str, tmp_path: Path) -> None:
    """Since version 6 one key names the pooling."""
    write_sentence_transformers(pipeline_of(), tmp_path)
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 8, **said}), "utf-8")
    assert sentence_pooling_of(tmp_path) == own


def test_what_cannot_be_written_is_refused_and_what_differs_is_said(tmp_path: Path) -> None:
    processor = miniature_text_processor()
    fields: dict[str, Any] = {"vocab_size": 23, "has_position_embeddings": True, **SIZES}
    config = ContextualBertConfig.from_schema(processor.schema, conditioning="film", **fields)
    reading = EmbeddingPipeline(ContextualBertForSentenceEmbedding(config), processor)
    with pytest.raises(ConfigurationError, match="reads a context"):
        write_sentence_transformers(reading, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(ConfigurationError, match="holds other files"):
        write_sentence_transformers(pipeline_of(), tmp_path)
    both = pipeline_of()
    both.processor.truncation = "head_tail"
    assert "cut at their ends" in write_sentence_transformers(both, tmp_path / "new")[0]
    assert np.isfinite(SentenceEncoder(tmp_path / "new").read(TEXTS)).all()
