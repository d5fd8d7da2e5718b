"""The tokenizer of an export gives the tokens that transformers' gives, of the same files."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from tokenizers.processors import RobertaProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from contextual_bert.errors import RunDirectoryError
from contextual_bert.inference.exported.exported_tokenizer import ExportedTokenizer
from contextual_bert.inference.texts.question_windows import windows_of
from contextual_bert.models.token_marks import num_separators, space_mark
from contextual_bert.testing.miniature import miniature_tokenizer

TEXTS = ["The café was open.", "", "naïve  co\u0301te — 東京 [SEP] x", "a" * 300, "one two three " * 40]


def byte_level() -> Any:
    backend: Any = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    )
    backend.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = {"bos": 0, "cls": 0, "sep": 2, "eos": 2, "pad": 1, "unk": 3, "mask": 4}
    tokens = {f"{name}_token": special[index] for name, index in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **tokens)


def padded() -> Any:
    """One whose file asks for truncation and padding, as that of MiniLM does."""
    tokenizer = miniature_tokenizer()
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=8)
    return tokenizer


@pytest.mark.parametrize("make", [miniature_tokenizer, padded, byte_level])
def test_tokens_are_those_of_transformers(make: Any, tmp_path: Path) -> None:
    make().save_pretrained(tmp_path)
    theirs: Any = AutoTokenizer.from_pretrained(tmp_path)
    mine = ExportedTokenizer.from_pretrained(tmp_path)
    for name in ("cls_token_id", "sep_token_id", "pad_token_id", "unk_token_id", "model_max_length"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert {*mine.all_special_ids} == {*theirs.all_special_ids}
    assert num_separators(mine) == num_separators(theirs)
    assert space_mark(mine) == space_mark(theirs)
    for has_special in (True, False):
        found = mine(TEXTS, add_special_tokens=has_special)["input_ids"]
        assert found == theirs(TEXTS, add_special_tokens=has_special)["input_ids"]
    texts = [text for text in TEXTS if text]
    both = [windows_of(["one?"] * len(texts), texts, each, column="question", limit=30) for each in (mine, theirs)]
    for found, wanted in zip(*both, strict=True):
        assert found.tolist() == wanted.tolist()


def test_damaged_files_are_named(tmp_path: Path) -> None:
    miniature_tokenizer().save_pretrained(tmp_path)
    settings = tmp_path / "tokenizer_config.json"
    kept = settings.read_text("utf-8")
    settings.write_text("{}", encoding="utf-8")
    with pytest.raises(RunDirectoryError, match="has no cls_token and no sep_token and no pad_token"):
        ExportedTokenizer.from_pretrained(tmp_path)
    settings.write_text(kept, encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=r"tokenizer.json cannot be read"):
        ExportedTokenizer.from_pretrained(tmp_path)
