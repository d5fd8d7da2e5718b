"""Pairs of neighbouring sentences of documents, and the pairs that a next-sentence decision is learned from.

In these half of the second sentences are of other documents: which, is a pure function of (seed, epoch, example id). It
knows no tokenizer and no model. Devlin et al. (2019), section 3.1, "Next Sentence Prediction".
"""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data.dataset import SequenceBatch, SequenceDataset
from contextual_bert.data.hashing import Draw, hash_counters, unit_interval
from contextual_bert.data.ragged import offsets_of, places_of
from contextual_bert.errors import DataError

__all__ = ["SentencePairs", "cut_pairs", "pair_numbers", "with_pair_numbers"]

FOLLOWS, OTHER = 0, 1  # labels of the decision, as in transformers
OTHER_SHARE = 0.5  # of the pairs
_MOST_PAIRS = 2**24  # of a document


def pair_numbers(dataset: SequenceDataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each pair a number of its own, and the place of its first pair of the same document.

    Args:
        dataset: pairs, those of a document one after the other, with its row as example id.

    Example:
        >>> pairs = SequenceDataset([5, 6, 7], [0, 1, 2, 3], context={}, example_ids=[4, 4, 9])
        >>> (pair_numbers(pairs)[0] - 2**24 * np.array([4, 4, 9])).tolist(), pair_numbers(pairs)[1].tolist()
        ([0, 1, 0], [0, 0, 2])
    """
    _, document, counts = dataset.example_ids.unique_consecutive(return_inverse=True, return_counts=True)
    first = (counts.cumsum(dim=0) - counts)[document].numpy()
    return dataset.example_ids.numpy() * _MOST_PAIRS + np.arange(len(dataset)) - first, first


def cut_pairs(whole: SequenceDataset, *, longest: int, separators: int) -> SequenceDataset:
    """Return pairs of which the longer sentence is cut until both fit, as tokenizers do it.

    Args:
        whole: pairs, with ``token_type_ids`` that are 1 in the second half.
        longest: tokens of a pair, with [CLS] and [SEP].
        separators: how many [SEP] stand between its halves.
    """
    own = torch.arange(len(whole))
    index, sizes, seconds = _Halves(whole, separators).put_together(own.numpy(), own.numpy(), longest=longest)
    parts: dict[str, Any] = whole.parts() | {
        "input_ids": whole.input_ids[torch.from_numpy(index)],
        "offsets": torch.from_numpy(offsets_of(sizes)),
        "token_type_ids": torch.from_numpy(seconds),
    }
    return SequenceDataset(**parts)


class SentencePairs(SequenceDataset):
    """Pairs of neighbouring sentences, of which half have the second sentence of another document, anew each epoch.

    Formula: pair i gets the second half of pair j where u(i) < 1/2, and its own where not. u(i) and j are hashes of
        (seed, epoch, number of the pair); j is uniform over the pairs of other documents. So the first sentence of a
        document is never a second half, whichever the label is.

    Shapes: batches as of SequenceDataset, with next_sentence_label (batch,): 0 where the second half follows, 1 where
        it is of another document. ``example_ids`` are numbers of pairs, from which masks are drawn.

    Args:
        dataset: pairs as they follow each other, cut, see ``cut_pairs``; contexts may be dealt out anew. A pair has the
            context of its first sentence.
        whole: the same pairs before they were cut: a pair is cut when its halves are known.
        longest: tokens of a pair, with [CLS] and [SEP].
        separators: how many [SEP] stand between its halves.
        seed: of the hashes.

    Raises:
        DataError: all pairs are of one document.

    Relation to its siblings: ``ShuffledContext`` changes from epoch to epoch in the same way.

    Reference: Devlin et al. (2019), section 3.1.

    Example:
        >>> ids, halves = [1, 5, 2, 6, 2, 1, 7, 2, 8, 2], [0, 0, 0, 1, 1] * 2
        >>> two = SequenceDataset(ids, [0, 5, 10], context={}, token_type_ids=halves)
        >>> pairs = SentencePairs(two, two, longest=5, separators=1, seed=4)
        >>> batch = pairs.__getitems__([0, 1])
        >>> batch.input_ids[:, 3].tolist(), batch.next_sentence_label.tolist()
        ([6, 6], [0, 1])
    """

    def __init__(
        self, dataset: SequenceDataset, whole: SequenceDataset, *, longest: int, separators: int, seed: int
    ) -> None:
        super().__init__(**dataset.parts())
        self.dataset, self.longest, self.seed = dataset, longest, seed
        self.halves = _Halves(whole, separators)
        numbers, self.first = pair_numbers(dataset)
        self.counts = np.bincount(self.first, minlength=len(dataset))[self.first]
        if len(dataset) and int(self.counts[0]) == len(dataset):
            raise DataError(
                "one text alone has a second sentence, and sentences of another are needed beside it",
                fix="Give more texts of several sentences: one a line, or lists of sentences.",
            )
        self.example_ids = torch.from_numpy(numbers)
        # Shared memory: workers that were started before an epoch begins still see its number.
        self.epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Draw other pairs. Running data-loader workers see the change."""
        self.epoch.fill_(epoch)
        follower: Any = self.dataset
        if hasattr(follower, "set_epoch"):
            follower.set_epoch(epoch)

    def context_rows(self, index: Tensor) -> Tensor:
        """Return the rows of ``context`` that these pairs have in this epoch."""
        return self.dataset.context_rows(index)

    def seconds(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the pair whose second half each of these pairs has in this epoch, and the label of the decision."""
        numbers, epoch = self.example_ids.numpy()[index], int(self.epoch)
        is_other = unit_interval(hash_counters(self.seed, epoch, Draw.IS_NEXT, numbers)) < OTHER_SHARE
        drawn = unit_interval(hash_counters(self.seed, epoch, Draw.OTHER_SENTENCE, numbers))
        other = (drawn * (len(self) - self.counts[index])).astype(np.int64)
        other += np.where(other >= self.first[index], self.counts[index], 0)
        return np.where(is_other, other, index), np.where(is_other, OTHER, FOLLOWS)

    def __getitems__(self, indices: Any) -> SequenceBatch:
        index = torch.as_tensor(indices, dtype=torch.int64)
        second, labels = self.seconds(index.numpy())
        flat, sizes, halves = self.halves.put_together(index.numpy(), second, longest=self.longest)
        lengths = torch.from_numpy(sizes)
        is_real = torch.arange(int(lengths.max())) < lengths[:, None]
        ids = torch.full(is_real.shape, self.pad_id, dtype=torch.int64)
        ids[is_real] = self.halves.dataset.input_ids[torch.from_numpy(flat)]
        segments = torch.zeros(is_real.shape, dtype=torch.int64)
        segments[is_real] = torch.from_numpy(halves).long()
        return replace(
            super().__getitems__(index),
            input_ids=ids,
            lengths=lengths,
            token_type_ids=segments,
            next_sentence_label=torch.from_numpy(labels),
        )


class _Halves:
    """The halves of whole pairs, to be put together anew: [CLS] first [SEP] second [SEP]."""

    def __init__(self, dataset: SequenceDataset, separators: int) -> None:
        self.dataset, self.separators = dataset, separators
        self.starts = dataset.offsets.numpy()[:-1]
        kinds: Any = dataset.token_type_ids
        in_second = np.add.reduceat(kinds.numpy().astype(np.int64), self.starts) if len(dataset) else self.starts
        self.second_starts = self.starts + dataset.sizes - in_second
        self.num_first, self.num_second = dataset.sizes - in_second - 1 - separators, in_second - 1

    def put_together(
        self, first: NDArray[np.int64], second: NDArray[np.int64], *, longest: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
        """Return the places of the tokens, flat, their number in each pair, and 1 where they are of the second half.

        Args:
            first, second: of which pair each half is, (pairs,).
            longest: tokens of a pair, with [CLS] and [SEP].
        """
        room = longest - 2 - self.separators
        sizes, others = self.num_first[first], self.num_second[second]
        # As in ``text_layout``: the longer one is cut until both are of a length, then both.
        shorter = np.minimum(np.minimum(sizes, others), room // 2)
        num_first = np.where(sizes <= others, shorter, np.minimum(sizes, room - shorter))
        num_second = np.where(sizes <= others, np.minimum(others, room - shorter), shorter)
        total = num_first + num_second + 2 + self.separators
        pair, place = np.repeat(np.arange(len(total)), total), places_of(total)
        front = 1 + num_first[pair]  # [CLS] and the first half
        behind = place - front - self.separators
        in_first = self.starts[first][pair] + np.where(place < front, place, place - front + 1 + sizes[pair])
        in_second = self.second_starts[second][pair] + np.where(behind < num_second[pair], behind, others[pair])
        is_second = behind >= 0
        return np.where(is_second, in_second, in_first), total, is_second.astype(np.uint8)


def with_pair_numbers(dataset: SequenceDataset) -> SequenceDataset:
    """Return the same pairs, each with a number of its own as its example id."""
    found = copy(dataset)
    found.example_ids = torch.from_numpy(pair_numbers(dataset)[0])
    return found
