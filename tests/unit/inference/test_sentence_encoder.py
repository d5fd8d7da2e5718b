import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from contextual_bert.errors import NonFiniteError
from contextual_bert.inference.text_vectors import encoder_digest
from contextual_bert.inference.texts import SentenceEncoder

TEXTS = ["word1 word2", "word3", "word1 word4 word5 word6", "word3 word3"]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_transformers_whatever_the_batch(checkpoint: Path, pooling: str) -> None:
    found = SentenceEncoder(checkpoint, pooling=pooling).read(TEXTS)
    model, tokenizer = AutoModel.from_pretrained(checkpoint).eval(), AutoTokenizer.from_pretrained(checkpoint)
    for text, vector in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            hidden = model(input_ids=torch.tensor([tokenizer(text)["input_ids"]])).last_hidden_state[0]
        wanted = hidden.mean(dim=0) if pooling == "mean" else hidden[0]
        assert vector == pytest.approx((wanted / wanted.norm()).numpy(), abs=1e-5)


def test_progress_is_told(checkpoint: Path) -> None:
    told: list[tuple[int, int]] = []
    SentenceEncoder(checkpoint, pooling="mean").read(TEXTS * 40, progress=lambda *done: told.append(done))
    assert told == [(64, 160), (128, 160), (160, 160)]


def test_sentences_that_mean_the_same_are_near(minilm: Path) -> None:
    texts = ["A warm winter coat", "A thick jacket for cold days", "Instant noodles with shrimp"]
    vectors = SentenceEncoder(minilm, pooling="mean").read(texts)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > 0.5 > 0.3 > likeness[0, 2]
    assert np.diag(likeness) == pytest.approx(1.0)


def test_the_digest_is_that_of_what_decides_the_vectors(checkpoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(checkpoint, copy)
    (copy / "README.md").write_text("# An encoder\n", encoding="utf-8")
    assert encoder_digest(copy) == encoder_digest(str(checkpoint))
    (copy / "1_Pooling").mkdir()
    (copy / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}), encoding="utf-8")
    pooled = encoder_digest(copy)
    (copy / "model.safetensors").write_bytes(b"other")
    assert len({encoder_digest(checkpoint), pooled, encoder_digest(copy)}) == 3


def test_an_encoder_that_gives_no_numbers_is_told(checkpoint: Path) -> None:
    encoder = SentenceEncoder(checkpoint, pooling="mean")
    with torch.no_grad():
        next(iter(encoder.model.parameters())).fill_(torch.nan)
    with pytest.raises(NonFiniteError, match="weights hold NaN"):
        encoder.read(TEXTS)
