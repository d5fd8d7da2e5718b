"""Questions and their texts as windows of tokens: [CLS] question [SEP] a part of the text [SEP], which overlap.

It knows the tokenizer, no answer and no context.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.data.ragged import offsets_of
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message
from contextual_bert.inference.texts.text_layout import num_special
from contextual_bert.models.token_marks import num_separators

OVERLAP = 0.25  # of a window is read again in the next one: 128 of 512 tokens, as for BERT on SQuAD
NO_ANSWER = 0  # the place of [CLS]
SLICE = 2_000  # questions whose windows a tokenizer holds as objects of its own at once


class Windows(NamedTuple):
    """All windows, one after the other.

    ``ids``: of their tokens, flat; ``sizes``: tokens of each; ``rows``: the question that each is of; ``characters``:
    (tokens, 2), where each token of a text begins and ends in it, -1 for all others; ``second_starts``: where the text
    begins in each.
    """

    ids: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]
    characters: NDArray[np.int64]
    second_starts: NDArray[np.int64]


def windows_of(
    questions: Sequence[str], texts: Sequence[str], tokenizer: Any, *, column: str, limit: int | NDArray[np.int64]
) -> Windows:
    """The windows of questions and their texts, as many as it takes to read all of each text.

    Args:
        questions, texts: one text a question.
        tokenizer: of BERT.
        column: name of the questions, for messages.
        limit: tokens of a window, or of those of each question.

    Raises:
        DataError: a question that leaves no room for its text.
        ConfigurationError: a window that leaves none for any.
    """
    limits = np.broadcast_to(np.asarray(limit, dtype=np.int64), len(questions))
    overlaps = _overlaps(questions, tokenizer, column, limits=limits)
    parts = [
        _some_windows(questions[start:end], texts[start:end], tokenizer, first=start, limit=most, overlap=overlap)
        for start, end, most, overlap in _slices(limits, overlaps)
    ]
    return Windows(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _overlaps(questions: Sequence[str], tokenizer: Any, name: str, *, limits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of tokens that windows of a question share. Beside a long question it is half of the room at
    most.
    """
    sizes = np.zeros(len(questions), dtype=np.int64)
    for start in range(0, len(questions), SLICE):
        some = [*questions[start : start + SLICE]]
        sizes[start : start + SLICE] = [
            len(ids) for ids in tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]
        ]
    special = num_special(num_separators(tokenizer))
    room = limits - special - sizes
    least = int(limits.min(initial=SLICE))
    if least <= special + 1:
        raise ConfigurationError(
            "leaves no room for a question and a text", setting="max_length", value=least, fix="Give more."
        )
    if (room < 1).any():
        row = int((room < 1).argmax())
        raise DataError(
            f"the question has {sizes[row]} tokens, and a window of {limits[row]} leaves none for its text",
            row=row,
            column=name,
            fix=Message("Shorten it, or give a larger {max_length}.", max_length=NAME),
        )
    return np.minimum((limits * OVERLAP).astype(np.int64), room // 2)


def _slices(limits: NDArray[np.int64], overlaps: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    """Runs of rows whose windows are alike, how long these are and by how much they overlap; one without rows where
    there are none.
    """
    if not len(overlaps):
        yield 0, 0, 0, 0
    start = 0
    while start < len(overlaps):
        some = slice(start, start + SLICE)
        others = np.flatnonzero((overlaps[some] != overlaps[start]) | (limits[some] != limits[start]))
        end = start + (int(others[0]) if len(others) else len(overlaps[some]))
        yield start, end, int(limits[start]), int(overlaps[start])
        start = end


def _some_windows(
    questions: Sequence[str], texts: Sequence[str], tokenizer: Any, *, first: int, limit: int, overlap: int
) -> Windows:
    """The windows of some rows, the first of which is ``first``."""
    if not questions:
        none = np.zeros(0, dtype=np.int64)
        return Windows(none, none, none, none.reshape(0, 2), none)
    try:
        found = tokenizer(
            [*questions],
            [*texts],
            truncation="only_second",
            max_length=limit,
            stride=overlap,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_token_type_ids=True,
        )
    finally:
        tokenizer.backend_tokenizer.no_truncation()  # which would be saved with it
    flat = {
        name: np.fromiter(chain.from_iterable(found[name]), dtype=np.int64)
        for name in ("input_ids", "token_type_ids", "special_tokens_mask")
    }
    sizes = np.array([len(row) for row in found["input_ids"]], dtype=np.int64)
    pairs = chain.from_iterable(chain.from_iterable(found["offset_mapping"]))
    characters = np.fromiter(pairs, dtype=np.int64).reshape(-1, 2)
    is_text_token = (flat["token_type_ids"] == 1) & (flat["special_tokens_mask"] == 0)
    characters[~is_text_token] = -1
    second_starts = np.add.reduceat(1 - flat["token_type_ids"], offsets_of(sizes)[:-1])
    rows = first + np.array(found["overflow_to_sample_mapping"], dtype=np.int64)
    return Windows(flat["input_ids"], sizes, rows, characters, second_starts)
