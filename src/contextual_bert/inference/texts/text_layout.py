"""The tokens of whole columns of text, and where those that are kept stand between [CLS] and [SEP] in one flat array.

It knows the tokenizer, of the model how much it reads, no label and no context. It imports no torch: exports of texts
are asked without.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_list, is_text
from contextual_bert.data.checked_columns import checked_column, text_column
from contextual_bert.data.ragged import in_second_half, offsets_of, places_of
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.models.context_words import FIRST_WORD
from contextual_bert.models.token_marks import num_separators, with_space
from contextual_bert.models.truncation import Truncation

HEAD_SHARE = 0.25  # of the kept tokens, with head_tail: 128 of 510 in MA-BERT's code
NO_START = -1
_SLICE = 10_000  # texts whose tokens a tokenizer holds as objects of its own at once


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token ids of all texts, flat; for words also which word each token is of, counted over all texts, for texts with
    phrases which phrase, -1 of none, and for texts that are spelt the spelling of each token's word."""

    values: NDArray[np.int64]
    offsets: NDArray[np.int64]
    word_of: NDArray[np.int64] | None = None
    phrase_of: NDArray[np.int64] | None = None
    spelt: "Spellings | None" = None

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of tokens of each text."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class Spellings:
    """The words of texts as they are written, and which of them each token is of.

    Args:
        numbers: (tokens,), 1 for the first of ``words``; 0 where a token goes on the word of the one before it.
        words: each once.
    """

    numbers: NDArray[np.int64]
    words: tuple[str, ...]


class TextConfig(Protocol):
    """Protocol of what a model's config says of the texts that it reads; that of a baseline or an export meets it."""

    @property
    def has_position_embeddings(self) -> bool: ...

    @property
    def max_position_embeddings(self) -> int: ...

    @property
    def segment_length(self) -> int | None: ...

    @property
    def has_context_as_text(self) -> bool: ...

    @property
    def num_separators(self) -> int: ...


class Layout:
    """Which tokens are kept, and where they stand: [CLS] first [SEP] or [CLS] first [SEP] second [SEP].

    Args:
        first: the texts.
        second: second texts, of which only ends are cut.
        room: tokens kept of a text, or of both; or one number a text.
        separators: how many [SEP] stand between two texts.
        truncation: what is kept of a first text that is too long.
    """

    def __init__(
        self,
        first: Tokens,
        second: Tokens | None,
        *,
        room: int | NDArray[np.int64],
        separators: int,
        truncation: Truncation,
    ) -> None:
        self.first, self.second, self.separators = first, second, separators
        sizes = first.sizes
        others = second.sizes if second is not None else np.zeros_like(sizes)
        # As the tokenizers do it: the longer text is cut until both are of a length, then both.
        shorter = np.minimum(np.minimum(sizes, others), room // 2)
        self.num_first = np.where(sizes <= others, shorter, np.minimum(sizes, room - shorter))
        self.num_second = np.where(sizes <= others, np.minimum(others, room - shorter), shorter)
        self.is_cut: NDArray[np.bool_] = (self.num_first < sizes) | (self.num_second < others)
        self.offsets = offsets_of(
            self.num_first + self.num_second + num_special(separators if second is not None else 0)
        )
        has_tail = truncation == "head_tail"
        head = np.ceil(self.num_first * HEAD_SHARE).astype(np.int64) if has_tail else self.num_first
        self._source = _chosen(first.offsets, self.num_first, head)

    @property
    def token_type_ids(self) -> NDArray[np.uint8] | None:
        """1 for each token of the second half of a text, 0 before it; None where texts are no pairs."""
        if self.second is None:
            return None
        return in_second_half(self.num_first + 1 + self.separators, np.diff(self.offsets))

    def ids(self, tokenizer: Any) -> NDArray[np.int64]:
        """The ids of all texts, [CLS] and [SEP] included."""
        second = self.second.values if self.second is not None else None
        ids = self.spread(self.first.values, around=tokenizer.sep_token_id, second=second)
        ids[self.offsets[:-1]] = tokenizer.cls_token_id
        return ids

    def spread(
        self, values: NDArray[np.int64], *, around: int, second: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """A value for each token of the texts, where the kept ones stand; ``around`` everywhere else.

        Args:
            values: of the tokens of the first texts.
            around: elsewhere.
            second: of the tokens of the second texts; None: ``around`` there, too.
        """
        spread = np.full(int(self.offsets[-1]), around, dtype=np.int64)
        places = np.repeat(self.offsets[:-1] + 1, self.num_first) + places_of(self.num_first)
        spread[places] = values[self._source]
        if self.second is not None and second is not None:
            starts = self.offsets[:-1] + self.num_first + 1 + self.separators
            kept = _chosen(self.second.offsets, self.num_second, self.num_second)
            spread[np.repeat(starts, self.num_second) + places_of(self.num_second)] = second[kept]
        return spread

    def word_starts(self) -> NDArray[np.int64] | None:
        """The word that begins at each token, counted over all texts, NO_START elsewhere; None for whole texts."""
        words = self.first.word_of
        if words is None:
            return None
        return self.spread(np.where(np.diff(words, prepend=-1) > 0, words, NO_START), around=NO_START)

    @property
    def num_words(self) -> int:
        """Return the number of words of all texts, those behind the cut too; 0 of whole texts."""
        words = self.first.word_of
        return int(words[-1]) + 1 if words is not None and len(words) else 0

    def phrases(self) -> NDArray[np.int64] | None:
        """The phrase of each token, counted over all texts, -1 of none; None where texts have no phrases."""
        return None if self.first.phrase_of is None else self.spread(self.first.phrase_of, around=-1)


def num_special(separators: int = 0) -> int:
    """Return the number of [CLS] and [SEP] around a text, or a pair with so many [SEP] between the two."""
    return 2 + separators


def num_readable(config: TextConfig, tokenizer: Any) -> int:
    """Return the largest number of tokens that the model reads, with [CLS] and [SEP]."""
    is_whole = config.has_position_embeddings and config.segment_length is None
    num_positions = config.max_position_embeddings if is_whole else 10**9
    return int(min(tokenizer.model_max_length, num_positions))


def room_beside(context: Mapping[str, Any], config: TextConfig, *, longest: int) -> int | NDArray[np.int64]:
    """``longest``, and where the context is read as words one a row: what these leave of the model's positions.

    Args:
        context: encoded, one row a text; tensors or arrays.
        config: the model's.
        longest: what ``num_readable`` says.

    Raises:
        DataError: the words of a row leave no room for a text.
    """
    if not config.has_context_as_text or not context:
        return longest
    num_words = np.sum([(np.asarray(words) >= FIRST_WORD).sum(axis=1) for words in context.values()], axis=0)
    rooms = np.minimum(longest, config.max_position_embeddings - config.num_separators - num_words)
    if len(rooms) and rooms.min() <= num_special(config.num_separators):
        row, most = int(rooms.argmin()), config.max_position_embeddings
        what = f"in words the context has {num_words[row]:,} tokens, and the model reads {most:,} with the text"
        raise DataError(what, row=row, column="context", fix="Give shorter values.")
    return rooms


def token_limit(tokenizer: Any, max_length: int | None) -> int:
    """Return the largest number of tokens of a text. ``max_length=None`` means the tokenizer's limit.

    Raises:
        ConfigurationError: more than it allows.
    """
    if max_length is not None and max_length > tokenizer.model_max_length:
        raise ConfigurationError(
            f"is not allowed: this tokenizer allows {tokenizer.model_max_length} tokens, as many as the "
            "model has positions",
            setting="max_length",
            value=max_length,
            fix="Give less, or leave it out.",
        )
    return int(min(tokenizer.model_max_length, 10**9)) if max_length is None else max_length


def tokenized_texts(column: pa.ChunkedArray, tokenizer: Any, name: str, *, is_spelt: bool = False) -> Tokens:
    """The tokens of a column of text.

    Args:
        column: the texts.
        tokenizer: of any family.
        name: of the column.
        is_spelt: say the spelling of each token's word.

    Raises:
        DataError: it is of another type.
    """
    column = text_column(column, name)
    wanted = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    wanted["return_offsets_mapping"] = is_spelt
    values, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    known, numbers = dict[str, int](), list[int]()
    for start in range(0, len(column), _SLICE):
        texts = column.slice(start, _SLICE).to_pylist()
        found = tokenizer(texts, verbose=False, **wanted)  # a long text is cut later
        rows: list[list[int]] = found["input_ids"]
        sizes.append(np.array([len(row) for row in rows], dtype=np.int64))
        values.append(np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(sizes[-1].sum())))
        for row, text in enumerate(texts if is_spelt else ()):
            numbers += _numbers_of_words(text, found.word_ids(row), found["offset_mapping"][row], known)
    spelt = Spellings(np.array(numbers, dtype=np.int64), tuple(known)) if is_spelt else None
    return Tokens(np.concatenate(values), offsets_of(np.concatenate(sizes)), spelt=spelt)


def _numbers_of_words(
    text: str, words: Sequence[int | None], places: Sequence[tuple[int, int]], known: dict[str, int]
) -> list[int]:
    """Return the spelling of each token's word, 0 for the further tokens of a word; ``known`` gets what it lacks."""
    ends = dict(zip(words, (end for _, end in places), strict=True))  # the last token's
    numbers: list[int] = []
    for place, (word, (start, end)) in enumerate(zip(words, places, strict=True)):
        if place and word is not None and word == words[place - 1]:
            numbers.append(0)
            continue
        written = text[start : ends[word] if word is not None else end].strip()
        numbers.append(known.setdefault(normalize("NFC", written), len(known) + 1))
    return numbers


def lay_out_texts(
    table: pa.Table,
    tokenizer: Any,
    *,
    text: str,
    pair: str | None,
    limit: int | NDArray[np.int64],
    truncation: Truncation,
    is_spelt: bool = False,
) -> Layout:
    """Return which tokens of the texts of a table, or of their pairs, are kept.

    Args:
        table: the rows.
        tokenizer: of any family.
        text: name of the column of texts, or of lists of words.
        pair: name of the column of second texts.
        limit: tokens kept of a text, [CLS] and [SEP] included, or of each text in an array.
        truncation: what is kept of a longer text.
        is_spelt: say the spelling of each token's word.

    Raises:
        UnknownNameError: no such column.
        DataError: a cell that is missing or no text.
        ConfigurationError: settings that do not go together, or a limit that leaves no room for a text.
    """
    separators = num_separators(tokenizer)
    room, least = limit - num_special(separators if pair is not None else 0), 1 if pair is None else 2
    if np.min(room, initial=least) < least:
        what = "a text" if pair is None else "two texts"
        raise ConfigurationError(
            f"leaves no room for {what} beside [CLS] and [SEP]", setting="max_length", value=limit, fix="Give more."
        )
    column = checked_column(table, text, complete=True)
    has_words = is_list(column.type)
    if pair is not None and (has_words or truncation == "head_tail"):
        raise ConfigurationError(
            "Pairs are two columns of text, cut at their ends", fix="Give no words and no 'head_tail'."
        )
    first = (tokenized_words if has_words else tokenized_texts)(column, tokenizer, text, is_spelt=is_spelt)
    second = tokenized_texts(checked_column(table, pair, complete=True), tokenizer, pair) if pair is not None else None
    return Layout(first, second, room=room, separators=separators, truncation=truncation)


def check_whole(values: pa.ChunkedArray, sizes: NDArray[np.int64], *, what: str, column: str) -> None:
    """Raise DataError where a word, or its tag, is missing.

    Args:
        values: of all rows, one after the other.
        sizes: how many of them each row has.
        what: they are.
        column: where they stand.
    """
    lost = pc.index(pc.is_null(values), True).as_py()
    if lost >= 0:
        row = int(np.searchsorted(sizes.cumsum(), lost, side="right"))
        place = lost - int(sizes[:row].sum())
        raise DataError(
            f"{what} {place} of {sizes[row]} is missing, counted from 0",
            row=row,
            column=column,
            fix="Fill it in, or leave the word and its tag out.",
        )


def tokenized_words(column: pa.ChunkedArray, tokenizer: Any, name: str, *, is_spelt: bool = False) -> Tokens:
    """The tokens of a column of lists of words.

    Args:
        column: the lists.
        tokenizer: of any family.
        name: of the column.
        is_spelt: say the spelling of each token's word.

    Raises:
        DataError: a word is missing or no text.
    """
    words, num_words = listed_words(column, name)
    pieces = tokenized_texts(with_space(words, tokenizer), tokenizer, name)
    is_lost = pieces.sizes == 0  # a word of which the tokenizer leaves nothing keeps its place
    values = np.insert(pieces.values, pieces.offsets[:-1][is_lost], tokenizer.unk_token_id)
    sizes = np.where(is_lost, 1, pieces.sizes)
    word_of = np.repeat(np.arange(len(sizes)), sizes)
    spelt = spelt_lists(words, sizes) if is_spelt else None
    return Tokens(values, offsets_of(sizes)[offsets_of(num_words)], word_of, spelt=spelt)


def listed_words(column: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, NDArray[np.int64]]:
    """Return the words of a column of lists, one after the other, and how many each list has.

    Args:
        column: the lists.
        name: of the column.

    Raises:
        DataError: a word is missing or no text.
    """
    words, sizes = pc.list_flatten(column), pc.list_value_length(column).to_numpy().astype(np.int64)
    if not is_text(words.type):
        raise DataError(f"the column is of type {column.type}", column=name, fix="Give a column of lists of words.")
    check_whole(words, sizes, what="word", column=name)
    return words, sizes


def spelt_lists(words: pa.ChunkedArray, sizes: NDArray[np.int64]) -> Spellings:
    """Return the spellings of words that are given one by one.

    Args:
        words: of all texts, one after the other.
        sizes: the number of tokens of each.

    Example:
        >>> spelt_lists(pa.chunked_array([["U.S.", "is"]]), np.array([4, 1])).numbers
        array([1, 0, 0, 0, 2])
    """
    written = pc.utf8_normalize(words.cast(pa.string()), form="NFC")  # as tokenizers and language models know it
    coded = written.combine_chunks().dictionary_encode()
    numbers = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return Spellings(np.repeat(numbers, sizes) * (places_of(sizes) == 0), tuple(coded.dictionary.to_pylist()))


def _chosen(offsets: NDArray[np.int64], kept: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the kept tokens: the first ``head`` of each text and the rest from its end."""
    places = places_of(kept)
    skipped = np.repeat(np.diff(offsets) - kept, kept) * (places >= np.repeat(head, kept))
    return np.repeat(offsets[:-1], kept) + places + skipped
