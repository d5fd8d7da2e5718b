"""Tokenizers of other families: halves, separators and words, as WordPiece has them."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from contextual_bert.models.token_marks import num_separators, with_space
from contextual_bert.models.tokenization import tell_halves, word_pieces
from contextual_bert.testing import miniature_text_processor

TEXTS = ["the red coat is fine. don't buy the blue one", "a fine word, a", "the coat"]
SPECIAL = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
FIRST = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def byte_pairs(*, template: bool = False) -> PreTrainedTokenizerFast:
    """As RoBERTa's: a token that begins a word begins with the space before it."""
    backend: Any = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        TEXTS * 3, trainers.BpeTrainer(vocab_size=310, special_tokens=FIRST, initial_alphabet=letters)
    )
    named = [("<s>", 0), ("</s>", 2)]
    parts = [
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=named),
    ]
    backend.post_processor = (
        processors.Sequence(parts) if template else processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    )
    return wrapped(backend)


def sentence_pieces() -> PreTrainedTokenizerFast:
    """As XLM-RoBERTa's: a mark stands for the space, before the first word too."""
    backend: Any = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(
        TEXTS * 3, trainers.UnigramTrainer(vocab_size=80, special_tokens=FIRST, unk_token="<unk>")
    )
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return wrapped(backend)


def wrapped(backend: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, **{f"{name}_token": token for name, token in SPECIAL.items()}
    )


@pytest.mark.parametrize("make", [byte_pairs, lambda: byte_pairs(template=True), sentence_pieces])
def test_a_second_text_is_of_segment_1_and_nothing_else_changes(make: Any, tmp_path: Any) -> None:
    tokenizer = make()
    wanted: dict[str, bool] = {"return_token_type_ids": True, "return_offsets_mapping": True}
    before = tokenizer("the  red coat", "fine one", **wanted)
    alone = tokenizer("the  red coat", **wanted)
    assert 1 not in before["token_type_ids"]
    tell_halves(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        after = each("the  red coat", "fine one", **wanted)
        assert after["input_ids"] == before["input_ids"]
        assert after["offset_mapping"] == before["offset_mapping"]
        halves = before.sequence_ids(0)
        first_of_second = halves.index(1)
        assert after["token_type_ids"] == [int(place >= first_of_second) for place in range(len(halves))]
        assert each("the  red coat", **wanted) == alone
        assert set(each("the", "red")) == {"input_ids", "token_type_ids", "attention_mask"}


def test_a_tokenizer_that_tells_halves_keeps_its_template() -> None:
    tokenizer: Any = miniature_text_processor().tokenizer
    before = tokenizer.backend_tokenizer.to_str()
    tell_halves(tokenizer)
    assert tokenizer.backend_tokenizer.to_str() == before


def test_the_separators_between_two_texts_are_counted() -> None:
    assert num_separators(byte_pairs()) == num_separators(sentence_pieces()) == 2
    assert num_separators(miniature_text_processor().tokenizer) == 1


@pytest.mark.parametrize("make", [byte_pairs, sentence_pieces])
def test_what_goes_on_a_word_is_marked_as_in_wordpiece(make: Any) -> None:
    tokenizer = make()
    pieces = word_pieces(tokenizer)
    text = "the redder coats, fine."
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    said = [pieces[number] for number in ids]
    # The first word of a text has no space before it: whoever masks takes the first token as a beginning anyway.
    starts = [place for place, piece in enumerate(said) if not piece.startswith("##") or place == 0]
    words = ["".join(piece.removeprefix("##") for piece in said[a:b]) for a, b in pairwise([*starts, None])]
    assert [word for word in words if word] == ["the", "redder", "coats", ",", "fine", "."]
    assert [pieces[number] for number in tokenizer.all_special_ids] == tokenizer.all_special_tokens


def test_a_word_alone_is_read_as_inside_a_text() -> None:
    tokenizer = byte_pairs()
    words = with_space(pa.array(["the", "coat", None]), tokenizer).to_pylist()
    assert words == [" the", " coat", None]
    whole = tokenizer(" the coat", add_special_tokens=False)["input_ids"]
    assert [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in words[:2]] == whole
    for other in (sentence_pieces(), miniature_text_processor().tokenizer):
        assert with_space(pa.array(["the", None]), other).to_pylist() == ["the", None]
