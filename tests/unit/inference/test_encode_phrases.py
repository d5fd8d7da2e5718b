"""Texts with phrases: which tokens are masked together, and what the cut leaves of a phrase."""

import unicodedata
from typing import Any

import pyarrow as pa
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.inference import encode_phrases, encode_texts
from contextual_bert.models import ContextFeatureExtractor, ContextualBertProcessor
from contextual_bert.testing import miniature_text_processor

TEXT = "word1 word2 word3 word4 word5 word6 word7 word8"  # a token each


def encoded(phrases: Any, *, text: str = TEXT, **settings: Any) -> Any:
    table = pa.table({"text": [text], "names": pa.array([phrases]), "sex": ["f"]})
    return encode_phrases(table, miniature_text_processor(), text="text", phrases="names", **settings)


def groups(phrases: Any, **settings: Any) -> list[int]:
    """Return which tokens go on a phrase, [CLS] and [SEP] included."""
    return encoded(phrases, **settings).dataset.goes_on_phrase.long().tolist()


def test_all_else_is_as_without_phrases() -> None:
    table = pa.table({"text": [TEXT, "word3"], "names": [[[0, 11]], None], "sex": ["f", "m"]})
    processor = miniature_text_processor()
    found = encode_phrases(table, processor, text="text", phrases="names")
    plain = encode_texts(table, processor, text="text")
    assert found.dataset.input_ids.tolist() == plain.dataset.input_ids.tolist()
    assert found.dataset.context["sex"].tolist() == plain.dataset.context["sex"].tolist()
    assert found.report.lines() == [plain.report.lines()[0], "1 phrase to mask as a whole"]
    assert encode_phrases(table.to_pandas(), processor, text="text", phrases="names").report == found.report


@pytest.mark.parametrize(
    ("phrases", "wanted"),
    [
        ([[0, 17]], [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]),
        ([[0, 11], [12, 23]], [0, 0, 1, 0, 1, 0, 0, 0, 0, 0]),  # two beside each other stay two
        ([[2, 8]], [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]),  # pieces of tokens
        ([[5, 12]], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),  # with blanks around
        (None, [0] * 10),
    ],
)
def test_tokens_of_a_phrase_go_on_it(phrases: Any, wanted: list[int]) -> None:
    assert groups(phrases) == wanted


def test_the_cut_keeps_the_rest_of_a_phrase() -> None:
    assert groups([[12, 29]], max_length=6) == [0, 0, 0, 0, 1, 0]  # word3 word4 of word3 word4 word5
    behind = encoded([[0, 11], [36, 47]], max_length=6)
    assert behind.report.lines() == [
        "1 text, 1 of them cut to 6 tokens",
        "2 phrases to mask as a whole, 1 of them behind the cut or without a token",
    ]
    # The head is word1, the tail word6 to word8: what stands beside each other is of one phrase only if it was.
    assert groups([[0, 47]], max_length=6, truncation="head_tail") == [0, 0, 1, 1, 1, 0]
    assert groups([[24, 41]], max_length=6, truncation="head_tail") == [0, 0, 0, 1, 0, 0]


def trained(kind: str) -> ContextualBertProcessor:
    """Return a processor whose tokenizer, of one family, was trained on a few words."""
    texts = ["the Ünïon Street 北京市 and a 😀 smile", "union street"] * 20
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "MASK", "UNK", "CLS", "SEP")}
    names = [*special.values()]
    if kind == "pieces":
        backend: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        trainer: Any = trainers.WordPieceTrainer(vocab_size=60, special_tokens=names, show_progress=False)
    elif kind == "bytes":
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=300, special_tokens=names, initial_alphabet=alphabet, show_progress=False
        )
    else:
        backend = Tokenizer(models.Unigram())
        backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=names, unk_token="[UNK]", show_progress=False)
    backend.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    return ContextualBertProcessor(ContextFeatureExtractor(None), tokenizer)


@pytest.mark.parametrize("kind", ["pieces", "bytes", "spaces"])
@pytest.mark.parametrize("phrase", ["Ünïon Street", "北京市", "😀", "Street 北京市 and", " smile"])
def test_the_tokens_of_a_phrase_are_those_of_its_letters(kind: str, phrase: str) -> None:
    """Whatever a tokenizer makes of letters: small ones, accents, bytes, a blank that is counted to the next word."""
    text = "the Ünïon Street 北京市 and a 😀 smile"
    processor, start = trained(kind), text.index(phrase)
    table = pa.table({"text": [text], "names": [[[start, start + len(phrase)]]]})
    found = encode_phrases(table, processor, text="text", phrases="names")
    assert found.report.num_unread_phrases == 0 and found.dataset.goes_on_phrase is not None
    inside = found.dataset.goes_on_phrase.nonzero().flatten().tolist()
    if inside:  # all but the first of its tokens
        assert inside == [*range(inside[0], inside[-1] + 1)]
        ids = found.dataset.input_ids[inside[0] - 1 : inside[-1] + 1]
        assert letters(processor.tokenizer.decode(ids)) == letters(phrase)  # pyright: ignore[reportArgumentType]
    else:
        assert len(phrase.strip()) < 7  # one token


def letters(text: str) -> str:
    """Return a text without blanks, capitals and accents."""
    parts = unicodedata.normalize("NFD", "".join(text.split()).lower())
    return "".join(part for part in parts if not unicodedata.combining(part))


def test_a_tokenizer_without_places_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = miniature_text_processor()
    monkeypatch.setattr(type(processor.tokenizer), "is_fast", False)
    table = pa.table({"text": [TEXT], "names": [[[0, 5]]], "sex": ["f"]})
    with pytest.raises(ConfigurationError, match="phrases='names' needs a tokenizer that says which characters") as got:
        encode_phrases(table, processor, text="text", phrases="names")
    assert got.value.location == ("phrases",) and "leave the phrases out" in got.value.fix


def test_other_faults() -> None:
    with pytest.raises(DataError, match="the cell is missing") as caught:
        encoded([[0, 2]], text=None)  # pyright: ignore[reportArgumentType]
    assert (caught.value.row, caught.value.column) == (0, "text")
    with pytest.raises(ConfigurationError, match="max_length=2 leaves no room for a text"):
        encoded([[0, 2]], max_length=2)
    with pytest.raises(ConfigurationError, match="truncation='tail'"):
        encoded([[0, 2]], truncation="tail")
