"""Sentences of texts: which tokens end one, and the words of each in a row of their own. No model is known here."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from contextual_bert.recurrent_reading import in_front

SENTENCE_ENDS = frozenset(".!?\u2026\u3002\uff01\uff1f")
_CLOSING = "\"')]}\u2019\u201d\u00bb"


class Sentences(NamedTuple):
    """The words of texts by sentence.

    Shapes:
        words (sentences, words); num_words (sentences,); text, place (sentences,): the text of a sentence and its
        number there; num_sentences (batch,).
    """

    words: Tensor
    num_words: Tensor
    text: Tensor
    place: Tensor
    num_sentences: Tensor


def split_sentences(input_ids: Tensor, is_read: Tensor, ends: Tensor) -> Sentences:
    """Cut texts behind each run of tokens that end a sentence.

    Shapes:
        input_ids, is_read (batch, length); ends (n,) ids. A text without words has one sentence of one word, id 0.

    Example:
        >>> ids = torch.tensor([[5, 9, 9, 6, 7], [8, 0, 0, 0, 0]])
        >>> found = split_sentences(ids, ids > 0, torch.tensor([9]))
        >>> found.words.tolist(), found.num_sentences.tolist()
        ([[5, 9, 9], [6, 7, 0], [8, 0, 0]], [2, 1])
    """
    places, lengths = in_front(is_read)
    ids, steps = input_ids.gather(1, places), torch.arange(places.shape[1], device=input_ids.device)
    is_real = (steps < lengths[:, None]) | (steps == 0)
    is_end = torch.isin(ids, ends) & is_real
    is_last = is_end & ~nn.functional.pad(is_end[:, 1:], (0, 1))
    starts = nn.functional.pad(is_last[:, :-1], (1, 0), value=True)
    number = starts.cumsum(dim=1) - 1
    place = steps - torch.where(starts, steps, 0).cummax(dim=1).values
    num_sentences = number.masked_fill(~is_real, -1).amax(dim=1) + 1
    first = num_sentences.cumsum(dim=0) - num_sentences
    rows, columns = (first[:, None] + number)[is_real], place[is_real]
    words = ids.new_zeros(int(num_sentences.sum()), int(columns.max()) + 1)
    words[rows, columns] = ids.masked_fill(steps >= lengths[:, None], 0)[is_real]
    text = torch.repeat_interleave(num_sentences)
    return Sentences(
        words,
        torch.bincount(rows, minlength=len(words)),
        text,
        torch.arange(len(words), device=text.device) - first[text],
        num_sentences,
    )


def sentence_ends(vocabulary: Sequence[str]) -> list[int]:
    """Return the ids of the tokens that end a sentence: marks that do, and closing quotes and brackets behind them.

    A vocabulary of byte pairs has such runs of marks as single tokens.

    Example:
        >>> sentence_ends(["so", ".", "what", "?!", '."'])
        [1, 3, 4]
    """
    marks = ((number, token.rstrip(_CLOSING)) for number, token in enumerate(vocabulary))
    return [number for number, token in marks if token and SENTENCE_ENDS.issuperset(token)]
