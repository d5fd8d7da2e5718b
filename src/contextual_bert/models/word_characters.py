"""Words as the bytes of their characters, and as the numbers of a vocabulary, for a language model over words.

It knows no tokenizer and no model: a text is a list of words. Bytes of UTF-8 spell every word, so none is unknown to
what reads characters; what a model predicts is chosen from a vocabulary, where a rare word is unknown.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from contextual_bert.errors import ConfigurationError

PADDING = 0  # a byte b has the number b + 1
TEXT_START, TEXT_END, WORD_START, WORD_END = 257, 258, 259, 260
NUM_CHARACTERS = 261
RESERVED_WORDS = ("<unk>", "<s>", "</s>")


def most_frequent_words(texts: Iterable[Sequence[str]], *, vocab_size: int, min_count: int = 1) -> tuple[str, ...]:
    """Return a vocabulary: the reserved words, then the most frequent ones, the most frequent first.

    Args:
        texts: lists of words.
        vocab_size: words at most, reserved ones included.
        min_count: the fewest occurrences of a word.

    Example:
        >>> most_frequent_words([["a", "red", "hat"], ["a", "hat"]], vocab_size=5)
        ('<unk>', '<s>', '</s>', 'a', 'hat')
    """
    if vocab_size <= len(RESERVED_WORDS):
        raise ConfigurationError(
            "is not allowed", setting="vocab_size", value=vocab_size, fix=f"Give {len(RESERVED_WORDS) + 1} or more."
        )
    counts = Counter(word for words in texts for word in words)
    known = sorted(
        (word for word, count in counts.items() if count >= min_count), key=lambda word: (-counts[word], word)
    )
    words = [word for word in known if word not in RESERVED_WORDS]
    return (*RESERVED_WORDS, *words[: vocab_size - len(RESERVED_WORDS)])


def encode_words(
    texts: Sequence[Sequence[str]], *, vocabulary: Sequence[str], max_characters: int = 50
) -> dict[str, Tensor]:
    """Encode texts for ``BidirectionalLM``, padded on the right, with a start and an end around each.

    Args:
        texts: lists of words.
        vocabulary: of ``most_frequent_words``.
        max_characters: bytes of a word that are read, its two marks included; the rest of a longer word is cut.

    Returns:
        characters (batch, length + 2, max_characters), attention_mask and labels (batch, length + 2); labels are -100
        where a text has no word.

    Raises:
        ConfigurationError: no texts; a text that is a string; a word that is not one; no room for characters.

    Example:
        >>> found = encode_words([["a", "hat"]], vocabulary=("<unk>", "<s>", "</s>", "a"), max_characters=5)
        >>> found["labels"].tolist(), found["characters"][0, 1].tolist()
        ([[1, 3, 0, 2]], [259, 98, 260, 0, 0])
    """
    _check_texts(texts)
    longest = 2 + max(len(words) for words in texts)
    marks = spelt_marks(max_characters)
    characters = torch.full((len(texts), longest, max_characters), PADDING)
    attention_mask = torch.zeros(len(texts), longest, dtype=torch.int64)
    labels = torch.full((len(texts), longest), -100)
    numbers = numbers_of_words(vocabulary)
    for row, words in enumerate(texts):
        size = len(words) + 2
        characters[row, :size] = torch.cat([marks[:1], spelt_words(words, max_characters=max_characters), marks[1:]])
        attention_mask[row, :size] = 1
        labels[row, :size] = torch.tensor([1, *(numbers.get(word, 0) for word in words), 2])
    return {"characters": characters, "attention_mask": attention_mask, "labels": labels}


def numbers_of_words(vocabulary: Sequence[str]) -> dict[str, int]:
    """Return word -> its number in a vocabulary; a text that has a reserved word does not mean that.

    Example:
        >>> numbers_of_words(("<unk>", "<s>", "</s>", "hat"))
        {'hat': 3}
    """
    return {word: number for number, word in enumerate(vocabulary) if number >= len(RESERVED_WORDS)}


def spelt_words(words: Sequence[str], *, max_characters: int) -> Tensor:
    """Return the numbers of the characters of words, (words, max_characters): the bytes between two marks, padded.

    Args:
        words: any.
        max_characters: bytes of a word that are read, its two marks included; the rest of a longer word is cut.

    Raises:
        ConfigurationError: no room for characters.

    Example:
        >>> spelt_words(["a", "hat"], max_characters=4).tolist()
        [[259, 98, 260, 0], [259, 105, 98, 260]]
    """
    return _marked(
        [[byte + 1 for byte in word.encode()[: max(0, max_characters - 2)]] for word in words], max_characters
    )


def spelt_marks(max_characters: int) -> Tensor:
    """Return the characters of the start and of the end of a text, (2, max_characters).

    Args:
        max_characters: as for ``spelt_words``.

    Example:
        >>> spelt_marks(4).tolist()
        [[259, 257, 260, 0], [259, 258, 260, 0]]
    """
    return _marked([[TEXT_START], [TEXT_END]], max_characters)


def _marked(spellings: Sequence[Sequence[int]], max_characters: int) -> Tensor:
    if max_characters < 3:
        raise ConfigurationError(
            "is not allowed", setting="max_characters", value=max_characters, fix="Give 3 or more."
        )
    found = torch.full((len(spellings), max_characters), PADDING)
    for row, codes in enumerate(spellings):
        marked = [WORD_START, *codes, WORD_END]
        found[row, : len(marked)] = torch.tensor(marked)
    return found


def _check_texts(texts: Sequence[Any]) -> None:
    if not len(texts):
        raise ConfigurationError("holds no text", setting="texts", fix="Give one or more lists of words.")
    for number, words in enumerate(texts):
        if isinstance(words, str):
            raise ConfigurationError(
                f"has a string as text {number}", setting="texts", value=words, fix="Give each text as a list of words."
            )
        for word in words:
            if not isinstance(word, str) or not word:
                raise ConfigurationError(
                    f"has no word at a place of text {number}",
                    setting="texts",
                    value=word,
                    fix="Give words as strings of one character or more.",
                )
