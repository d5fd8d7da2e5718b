"""The words of texts as their tokenizer separates them, where they stand, and which tokens of a model are theirs.

It knows no model. Not in the paper.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.inference.texts.text_layout import Layout

NO_WORD = -1


class TextWord(NamedTuple):
    """A word of a text: ``text[start:end]`` of the text that the query has under ``key``."""

    key: str
    start: int
    end: int


class PlacedWords(NamedTuple):
    """The words of the texts of one query, and which of them each token is of.

    ``words``: those that are read, in their order; ``word_at``: (tokens,), the number of the word of each token of the
    model's input, -1 of none.
    """

    words: tuple[TextWord, ...]
    word_at: NDArray[np.int64]


def read_words(texts: Mapping[str, str], layout: Layout, tokenizer: Any) -> PlacedWords:
    """Return the words of the texts of one query that its layout keeps.

    Args:
        texts: key of the query -> its text, in the order in which they are read.
        layout: of these texts alone.
        tokenizer: that made the tokens of the layout.

    Example:
        >>> import pyarrow as pa
        >>> from contextual_bert.inference.texts.text_layout import lay_out_texts
        >>> from contextual_bert.testing import miniature_text_processor
        >>> tokenizer, table = miniature_text_processor().tokenizer, pa.table({"text": ["word1 word2 word3"]})
        >>> layout = lay_out_texts(table, tokenizer, text="text", pair=None, limit=4, truncation="head")
        >>> found = read_words({"text": "word1 word2 word3"}, layout, tokenizer)
        >>> found.words[1], found.word_at.tolist()
        (TextWord(key='text', start=6, end=11), [-1, 0, 1, -1])
    """
    words, numbers = list[TextWord](), list[NDArray[np.int64]]()
    for key, text in texts.items():
        found = tokenizer(
            text,
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=True,
            verbose=False,
        )
        own = _numbered(found.word_ids(0))
        spans = np.array(found["offset_mapping"], np.int64).reshape(-1, 2)
        count = int(own.max(initial=NO_WORD)) + 1
        starts, ends = np.full(count, len(text)), np.zeros(count, np.int64)
        np.minimum.at(starts, own, spans[:, 0])
        np.maximum.at(ends, own, spans[:, 1])
        numbers.append(own + len(words))
        words += [_trimmed(key, text, start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    word_at = layout.spread(numbers[0], around=NO_WORD, second=numbers[1] if len(numbers) > 1 else None)
    kept, placed = np.unique(word_at[word_at != NO_WORD], return_inverse=True)
    word_at[word_at != NO_WORD] = placed  # those behind the cut have no number
    return PlacedWords(tuple(words[number] for number in kept.tolist()), word_at)


def _numbered(word_ids: list[int | None]) -> NDArray[np.int64]:
    """Return the number of each token's word, from 0 without gaps; a token of no word is one of its own."""
    pairs = pairwise([None, *word_ids])
    changes = [word is None or word != before for before, word in pairs]
    return np.cumsum(np.array(changes, np.int64)) - 1


def _trimmed(key: str, text: str, start: int, end: int) -> TextWord:
    """Return a word without the space that some tokenizers keep before it."""
    said = text[start:end]
    return TextWord(key, start + len(said) - len(said.lstrip()), end - (len(said) - len(said.rstrip())))
