"""The next item of sequences: long ones cut to what a model reads, the last position asked, and batches to learn from.

It knows sequences of ids, no vocabulary and no model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data.collators import as_batch, beside_items
from contextual_bert.data.dataset import IGNORED_LABEL, EveryPosition, SequenceBatch, SequenceDataset
from contextual_bert.data.hashing import hash_counters
from contextual_bert.data.ragged import offsets_of, places_of
from contextual_bert.data.ragged_rows import rows_of

__all__ = ["LastPosition", "NextItemCollator", "in_pieces", "newest_items", "with_shuffled_items"]


def newest_items(dataset: SequenceDataset, longest: int) -> SequenceDataset:
    """Return the sequences with the last ``longest`` items of each, with their contexts and example ids.

    Example:
        >>> newest_items(SequenceDataset([5, 6, 7, 8], [0, 3, 4], context={}), 2).input_ids.tolist()
        [6, 7, 8]
    """
    if int(dataset.sizes.max(initial=0)) <= longest:
        return dataset
    lengths = np.minimum(dataset.sizes, longest)
    return _pieces(dataset, np.arange(len(dataset)), dataset.sizes - lengths, lengths)


def in_pieces(dataset: SequenceDataset, longest: int, *, asks_all: bool) -> SequenceDataset:
    """Return all items of all sequences, the long ones in pieces of ``longest`` items counted from their ends.

    Batches of pieces have the items before each, which are no rivals of its items where no sequence repeats one.

    Args:
        dataset: the sequences.
        longest: items of a piece at most.
        asks_all: whether labels are the items themselves, but for the first of a piece that is not the first of its
            sequence: it would be learned as if nothing stood before it. Else there are none.

    Example:
        >>> found = in_pieces(SequenceDataset([5, 6, 7, 8], [0, 3, 4], context={}), 2, asks_all=True)
        >>> found.offsets.tolist(), found.labels.tolist()
        ([0, 1, 3, 4], [5, -100, 7, 8])
    """
    sizes = dataset.sizes
    num_pieces = np.maximum(1, -(-sizes // longest))
    rows = np.repeat(np.arange(len(sizes)), num_pieces)
    behind = (np.repeat(num_pieces, num_pieces) - 1 - places_of(num_pieces)) * longest  # items after the piece
    ends = sizes[rows] - behind
    starts = np.maximum(0, ends - longest)
    found = _pieces(dataset, rows, starts, ends - starts)
    if asks_all:
        labels = found.input_ids.clone()
        labels[found.offsets[:-1][torch.from_numpy(starts > 0)]] = IGNORED_LABEL
        parts = found.parts()
        parts["labels"] = labels
        found = SequenceDataset(**parts)
    if len(found) > len(dataset):  # the pieces of a sequence stand one behind the other, as its items do
        found.earlier_starts = found.offsets[:-1] - torch.from_numpy(starts)
    return found


def _pieces(
    dataset: SequenceDataset, rows: NDArray[np.int64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> SequenceDataset:
    """Return a piece of some sequences: where each begins in its sequence, and how long it is.

    The first item of a later piece keeps the gap of time before it: what stood there is known.
    """
    index = torch.from_numpy(rows)
    places = torch.from_numpy(np.repeat(dataset.offsets.numpy()[rows] + starts, lengths) + places_of(lengths))
    gaps = dataset.token_type_ids
    return SequenceDataset(
        dataset.input_ids[places],
        offsets_of(lengths),
        token_type_ids=gaps[places] if gaps is not None else None,
        context={name: rows_of(values, dataset.context_rows(index)) for name, values in dataset.context.items()},
        example_ids=dataset.example_ids[index],
        pad_id=dataset.pad_id,
    )


def with_shuffled_items(
    dataset: SequenceDataset, *, number: int, seed: int, longest: int | None = None
) -> SequenceDataset:
    """Return the sequences with the items before the last in another order, that of a hash; gaps of time stay.

    Of a long sequence only the order of the items that are read changes: they stay the same items.

    Args:
        dataset: the sequences.
        number: of the order, where several are drawn.
        seed: of the hash.
        longest: items that are read, the last one among them. None: all.

    Example:
        >>> found = with_shuffled_items(SequenceDataset([5, 6, 7, 8], [0, 4], context={}), number=1, seed=0)
        >>> found.input_ids.tolist()
        [6, 7, 5, 8]
    """
    sizes = dataset.sizes
    rows, places = np.repeat(np.arange(len(sizes)), sizes), places_of(sizes)
    keys = hash_counters(seed, number, np.repeat(dataset.example_ids.numpy(), sizes), places) >> np.uint64(1)
    keys[dataset.offsets.numpy()[1:] - 1] = np.uint64(2**64 - 1)
    if longest is not None:
        keys[places < np.repeat(sizes - longest, sizes)] = 0  # equal keys keep their order
    order = np.lexsort((keys, rows))
    parts = dataset.parts()
    parts["input_ids"] = dataset.input_ids[torch.from_numpy(order)]
    return SequenceDataset(**parts)


class LastPosition(EveryPosition):
    """The last position of each sequence of a dataset, from short to long: what an evaluation of next items masks.

    Args:
        dataset: the sequences.
        longest: items that are read, the masked one among them; of longer sequences the newest. None: all.

    Relation to its siblings: `EveryPosition` masks each position once.

    Example:
        >>> last = LastPosition(SequenceDataset([5, 6, 7, 8], [0, 3, 4], context={}), longest=2)
        >>> last.positions.tolist(), last.__getitems__([1]).input_ids.tolist()
        ([0, 2], [[6, 7]])
    """

    def __init__(self, dataset: SequenceDataset, *, longest: int | None = None) -> None:
        # Not super(): it lists every position, of which one a sequence is asked.
        self.dataset = dataset
        self.read = dataset if longest is None else newest_items(dataset, longest)
        self.set_index = dataset.by_length()
        self.positions = dataset.offsets.diff()[self.set_index] - 1
        self.num_possible = len(self.positions)

    def _earlier_ids(self, rows: Tensor) -> Tensor | None:
        """Return the items before those that are read, (batch, n) padded; None where all items of all rows are read."""
        if self.read is self.dataset:
            return None
        starts = self.dataset.offsets[rows]
        num_earlier = self.dataset.offsets.diff()[rows] - self.read.offsets.diff()[rows]
        return self.dataset.ids_between(starts, starts + num_earlier)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items that are read of each row."""
        return self.read.sizes[self.set_index.numpy()]

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = int(self.set_index[index])
        return {**self.read[number], "masked_position": int(self.read.sizes[number]) - 1}

    def __getitems__(self, indices: Sequence[int] | Tensor) -> SequenceBatch:
        rows = self.set_index[torch.as_tensor(indices, dtype=torch.int64)]
        found = self.read.__getitems__(rows)
        return replace(found, masked_position=found.lengths - 1, earlier_ids=self._earlier_ids(rows))


class NextItemCollator:
    """Asks for each item of each sequence, for models whose positions read what stands before them alone; of batches
    of `LastPosition` for the last.

    Shapes: input_ids, labels, attention_mask and token_type_ids (batch, length); context each (batch, ...).

    Args:
        pad_id: id of padding.

    Relation to its siblings: `MaskingCollator` hides what it asks for; here the model does, see
    ``ContextualBertConfig.predicts_next``.

    Example:
        >>> batch = NextItemCollator(pad_id=0)([{"input_ids": [5, 6], "context": {}, "example_id": 0}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[5, 6]], [[5, 6]])
    """

    def __init__(self, *, pad_id: int) -> None:
        self.pad_id = pad_id

    def __call__(self, batch: SequenceBatch | Sequence[SequenceBatch] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate sequences, given as `MaskingCollator` takes them; labels say which items are asked for."""
        sets = as_batch(batch, self.pad_id)
        asked, is_asked = sets.input_ids, sets.is_real
        if sets.labels is not None:
            asked = sets.labels.view_as(asked)
        if sets.masked_position is not None:
            is_asked = torch.arange(asked.shape[1]) == sets.masked_position[:, None]
        output: dict[str, Any] = {
            "input_ids": sets.input_ids,
            "labels": asked.masked_fill(~is_asked, IGNORED_LABEL),
        }
        return {**output, **beside_items(sets)}
