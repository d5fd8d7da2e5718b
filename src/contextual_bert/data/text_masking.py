"""Masks for text: a share of the tokens, of whole words or of whole spans, as BERT hides them, and whole phrases.

As for sets, what is hidden is a pure function of (seed, epoch, example id). It knows no tokenizer beyond which ids are
special and which begin a word. Devlin et al. (2019), section 3.1; Joshi et al. (2020), "SpanBERT", section 3.1; of
phrases Sun et al. (2019), "ERNIE", section 3.2.
"""

from collections.abc import Sequence
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data.collators import MaskingCollator
from contextual_bert.data.dataset import SequenceBatch
from contextual_bert.data.hashing import Draw, hash_counters, unit_interval
from contextual_bert.data.mask_rates import Unit, check_rates
from contextual_bert.errors import ConfigurationError

__all__ = ["TextMaskingCollator"]

REPLACED, KEPT = 0.1, 0.1  # of the hidden tokens: another token at random, or as it was; the rest is [MASK]
SPAN_END = 1 / 3.8  # a span ends behind a word with this chance: 3.8 words on average


class TextMaskingCollator(MaskingCollator):
    """Hides a share of the tokens of each text, unit by unit in random order until the share is full.

    Formula:
        budget(n) = max(1, round(r n)) of the n tokens that are not special, r = rate, or drawn for each text and epoch
        from [rate, max_rate]. Units are drawn until it is full: the first word is hidden always, other words where they
        fit into what is left of it, of a span that does not fit its first or its last ones. Of the hidden tokens 80%
        become [MASK], 10% another token, 10% stay.

    A phrase of the data set (``SequenceDataset.with_phrases``) is one word, whatever the unit: it is hidden as a whole.

    Shapes: input_ids, labels and attention_mask (batch, length); context each (batch, ...).

    Args:
        mask_id: id of [MASK].
        pad_id: id of padding.
        special_ids: ids that are never hidden nor put in another's place.
        is_word_start: (vocabulary,) bool: whether a token begins a word; it says how large the vocabulary is, too.
        unit: "token", "word" (whole words), "span" (runs of whole words).
        rate: share of the tokens to hide.
        max_rate: the largest share, where each text has a share of its own: a model that draws texts from nothing
            needs to have seen few words (Ghazvininejad et al. 2019, "Mask-Predict", section 3.2).
        seed: seed of the hash.

    Raises:
        ConfigurationError: a rate that is no share, a largest one below it, another unit.

    Relation to its siblings: ``MaskingCollator`` hides a number of items of a set, all behind the mask.

    Example:
        >>> starts = torch.tensor([True] * 9)
        >>> collate = TextMaskingCollator(mask_id=1, pad_id=0, special_ids=(0, 1, 2, 3), is_word_start=starts)
        >>> batch = collate([{"input_ids": [2, 5, 6, 7, 3], "context": {}, "example_id": 0}])
        >>> int((batch["labels"] >= 0).sum())
        1
    """

    def __init__(
        self,
        *,
        mask_id: int,
        pad_id: int,
        special_ids: Sequence[int],
        is_word_start: Tensor,
        unit: Unit = "token",
        rate: float = 0.15,
        max_rate: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(mask_id=mask_id, pad_id=pad_id, seed=seed)
        check_rates(rate, max_rate)
        if unit not in get_args(Unit):
            raise ConfigurationError(
                "is not allowed", setting="unit", value=unit, fix="Give 'token', 'word' or 'span'."
            )
        self.unit, self.rate, self.max_rate = unit, rate, rate if max_rate is None else max_rate
        self.is_word_start = is_word_start.numpy()
        is_special = np.zeros(len(self.is_word_start), dtype=bool)
        self.special_ids = tuple(special_ids)
        is_special[list(special_ids)] = True
        self.is_special = is_special
        self.ordinary_ids = np.flatnonzero(~is_special)

    def _drawn(self, sets: SequenceBatch, real: NDArray[np.bool_]) -> Tensor:
        ids, examples = sets.input_ids.numpy(), sets.example_ids.numpy()[:, None]
        may_hide = real & ~self.is_special[ids]
        words = self._words(ids, may_hide, sets.goes_on_phrase)
        sizes = np.zeros((len(ids), max(1, int(words.max(initial=-1)) + 1)), dtype=np.int64)  # one where all are blank
        rows = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)
        np.add.at(sizes, (rows[may_hide], words[may_hide]), 1)
        units = self._units(sizes.shape[1], examples)
        # Units in random order, the words of each from its first or from its last; words that a text does not have come
        # last and are empty.
        keys = hash_counters(self.seed, self.epoch, Draw.MASKED_UNIT, examples, np.arange(sizes.shape[1]))
        keys = np.take_along_axis(keys, units, axis=1)
        places = np.arange(sizes.shape[1])
        places = np.where(keys & np.uint64(1), -places, places)
        order = np.lexsort((places, np.where(sizes > 0, keys >> np.uint64(1), np.uint64(2**64 - 1))), axis=1)
        drawn = unit_interval(hash_counters(self.seed, self.epoch, Draw.MASK_RATE, examples))
        rates = self.rate + (self.max_rate - self.rate) * drawn
        budget = np.maximum(1, np.rint(rates * may_hide.sum(axis=1, keepdims=True)))
        is_taken = _fitting(np.take_along_axis(sizes, order, axis=1), np.take_along_axis(units, order, axis=1), budget)
        is_hidden = np.zeros_like(is_taken)
        np.put_along_axis(is_hidden, order, is_taken, axis=1)
        return torch.from_numpy(may_hide & np.take_along_axis(is_hidden, np.maximum(words, 0), axis=1))

    def _words(
        self, ids: NDArray[np.int64], may_hide: NDArray[np.bool_], goes_on_phrase: Tensor | None
    ) -> NDArray[np.int64]:
        """(batch, length): the number of each token's word within its text, from 0, of tokens alone where they are the
        units; a phrase is one. What may not be hidden has none."""
        starts = may_hide
        if self.unit != "token":
            # A special token ends a word, and a text may begin in the middle of one.
            follows_special = np.roll(~may_hide, 1, axis=1)
            follows_special[:, 0] = True
            starts = may_hide & (self.is_word_start[ids] | follows_special)
        if goes_on_phrase is not None:
            starts = starts & ~_is_joined(may_hide, goes_on_phrase.numpy())
        return starts.cumsum(axis=1) - 1

    def _units(self, num_words: int, examples: NDArray[np.int64]) -> NDArray[np.int64]:
        """(batch, words): the number of each word's unit within its text, from 0."""
        numbers = np.broadcast_to(np.arange(num_words), (len(examples), num_words))
        if self.unit != "span":
            return numbers
        ends = unit_interval(hash_counters(self.seed, self.epoch, Draw.SPAN_END, examples, numbers[0])) < SPAN_END
        return np.concatenate([np.zeros((len(ends), 1), dtype=np.int64), ends.cumsum(axis=1)[:, :-1]], axis=1)

    def _hidden(self, sets: SequenceBatch, masked: Tensor) -> Tensor:
        examples, places = sets.example_ids.numpy()[:, None], np.arange(sets.input_ids.shape[1])
        kind = torch.from_numpy(unit_interval(hash_counters(self.seed, self.epoch, Draw.MASK_KIND, examples, places)))
        drawn = hash_counters(self.seed, self.epoch, Draw.MASK_TOKEN, examples, places) % np.uint64(
            len(self.ordinary_ids)
        )
        others = torch.from_numpy(self.ordinary_ids[drawn.astype(np.int64)])
        shown = torch.where(kind < REPLACED, others, sets.input_ids)
        return torch.where(masked, torch.where(kind < REPLACED + KEPT, shown, self.mask_id), sets.input_ids)


def _is_joined(may_hide: NDArray[np.bool_], goes_on_phrase: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(batch, length): whether a token goes on a phrase of which another may be hidden before it. A special token in a
    phrase, [UNK], is never hidden and parts it not."""
    seen = may_hide.cumsum(axis=1) - may_hide
    before_phrase = np.maximum.accumulate(np.where(goes_on_phrase, 0, seen), axis=1)
    return goes_on_phrase & (seen > before_phrase)


def _fitting(sizes: NDArray[np.int64], units: NDArray[np.int64], budget: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(batch, words): whether a word is taken, one after another: the first always, another if its tokens are left of
    the budget (batch, 1), and no word of its unit, before it, was left out."""
    is_taken = np.zeros(sizes.shape, dtype=bool)
    left, cut = budget[:, 0].copy(), np.full(len(sizes), -1)
    for place in range(sizes.shape[1]):
        fits = (sizes[:, place] <= left) & (units[:, place] != cut) if place else np.ones(len(sizes), dtype=bool)
        is_taken[:, place] = fits
        left -= np.where(fits, sizes[:, place], 0)
        cut = np.where(fits, cut, units[:, place])
        if (left <= 0).all():
            break
    return is_taken
