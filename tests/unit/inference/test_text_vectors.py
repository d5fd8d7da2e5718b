import json
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.inference import text_vectors
from contextual_bert.inference.text_vectors import TextVectors, cache_folder, encoder_digest
from contextual_bert.inference.texts import SentenceEncoder

TEXTS = ["word1 word2", "word3", "word1 word2"]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONTEXTUAL_BERT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that an encoder has read."""
    texts: list[str] = []
    original = SentenceEncoder.read

    def reading(self: SentenceEncoder, chosen: list[str], **settings: object) -> np.ndarray:
        texts.extend(chosen)
        return original(self, chosen, **settings)

    monkeypatch.setattr(SentenceEncoder, "read", reading)
    return texts


def test_each_text_is_read_once_also_by_later_runs(checkpoint: Path, read: list[str], empty_cache: Path) -> None:
    first = TextVectors(checkpoint)
    vectors = first.of(TEXTS)
    assert vectors.shape == (3, 32)
    assert (vectors[0] == vectors[2]).all()
    assert sorted(read) == sorted({*TEXTS})
    assert first.of(["word3"]).tolist() == [vectors[1].tolist()]
    later = TextVectors(checkpoint)
    assert (later.of([*TEXTS, "word4"])[:3] == vectors).all()
    assert len(read) == 3
    assert read[-1] == "word4"
    (file,) = (empty_cache / "text-vectors").iterdir()
    assert file.stem == encoder_digest(checkpoint) == later.digest
    assert b"word3" not in file.read_bytes()


def test_texts_that_were_read_need_no_encoder(checkpoint: Path) -> None:
    vectors, digest = TextVectors(checkpoint).of(TEXTS), encoder_digest(checkpoint)
    shutil.rmtree(checkpoint)
    left = TextVectors(checkpoint, digest=digest)
    assert (left.of(TEXTS) == vectors).all()
    with pytest.raises(ConfigurationError, match="catalogue add") as raised:
        left.of(["word4"])
    assert raised.value.value == str(checkpoint)
    assert "item_text_encoder" in str(raised.value)


def test_another_encoder_is_told_before_it_reads(checkpoint: Path, read: list[str]) -> None:
    digest = encoder_digest(checkpoint)
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    (checkpoint / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"another sentence encoder.*{digest[:12]}"):
        TextVectors(checkpoint, digest=digest).of(TEXTS)
    assert read == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_that_holds_no_encoder_is_told_at_once(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "nothing"
    if is_there:
        folder.mkdir()
    with pytest.raises(
        CheckpointError if is_there else ConfigurationError, match="config" if is_there else "no folder"
    ):
        TextVectors(folder).of(TEXTS)


def test_a_damaged_cache_is_made_anew(checkpoint: Path, empty_cache: Path, read: list[str]) -> None:
    vectors = TextVectors(checkpoint).of(TEXTS)
    (file,) = (empty_cache / "text-vectors").iterdir()
    file.write_bytes(b"no database at all, but a file of some length" * 100)
    again = TextVectors(checkpoint)
    assert (again.of(TEXTS) == vectors).all()
    TextVectors(checkpoint).of(TEXTS)
    assert len(read) == 4  # twice two texts, and then none


def test_a_cache_that_cannot_be_written_is_told(checkpoint: Path, empty_cache: Path) -> None:
    empty_cache.write_text("a file, where a folder is needed", encoding="utf-8")
    texts = TextVectors(checkpoint)
    assert texts.of(TEXTS).shape == (3, 32)
    (line,) = texts.lines()
    assert str(empty_cache) in line
    assert TextVectors(checkpoint).lines() == []


def test_the_cache_is_where_the_guide_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CONTEXTUAL_BERT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "contextual-bert"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "contextual-bert"


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_bar_is_shown_where_it_takes_long(checkpoint: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(text_vectors, "SECONDS_UNTOLD", seconds)
    told: list[tuple[int, int]] = []

    @contextmanager
    def showing() -> Generator[Callable[[int, int], None]]:
        yield lambda done, total: told.append((done, total))

    TextVectors(checkpoint, showing=showing).of(
        [f"word{a} word{b} word{c}" for a in range(5) for b in range(5) for c in range(4)]
    )
    assert told == ([] if seconds else [(64, 100), (100, 100)])
