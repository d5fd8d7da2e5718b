r"""Batches with masks: which positions are hidden is a pure function of (seed, epoch, example id).

So the masks of an example are the same for any batch, order, number of workers or processes, and after a resume in the
middle of an epoch; masks drawn from a global generator are not. It knows no model and no vocabulary beyond two ids.
Section 4 of the paper: one item a set is masked.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from contextual_bert.data.dataset import IGNORED_LABEL, SequenceBatch
from contextual_bert.data.hashing import hash_counters
from contextual_bert.errors import ConfigurationError, DataError

__all__ = ["MaskingCollator", "WholeSetCollator"]

_LEARNED = frozenset({"labels", "start_positions"})


class MaskingCollator:
    r"""Hides `masks_per_set` items of each set behind the mask id, and says in `labels` what they were.

    masked(example) = the min(masks_per_set, size) positions p with the smallest hash(seed, epoch, example id, p);
    each position has the same chance. From epoch `one_mask_from_epoch` on, one position.

    Shapes: input_ids, labels, attention_mask and token_type_ids (batch, length); context each (batch, ...).

    Args:
        mask_id: id of the mask.
        pad_id: id of padding.
        masks_per_set: how many items of a set to hide; at least one and at most all.
        one_mask_from_epoch: the first epoch that hides one item of each set; None: none does.
        asks_next: whether that one item is the last of its sequence, which is then what is asked for.
        seed: seed of the hash.

    Relation to its siblings: batches of `EveryPosition` say which position to hide; then nothing is drawn.

    Example:
        >>> collate = MaskingCollator(mask_id=1, pad_id=0)
        >>> batch = collate([{"input_ids": [5, 6, 7], "context": {}, "example_id": 0}])
        >>> int((batch["input_ids"] == 1).sum()), sorted(batch)
        (1, ['input_ids', 'labels'])
    """

    def __init__(
        self,
        *,
        mask_id: int,
        pad_id: int,
        masks_per_set: int = 1,
        one_mask_from_epoch: int | None = None,
        asks_next: bool = False,
        seed: int = 0,
    ) -> None:
        if masks_per_set < 1:
            raise ConfigurationError(
                "is not allowed",
                setting="masks_per_set",
                value=masks_per_set,
                fix="Give at least 1, for without a mask there is nothing to learn.",
            )
        if mask_id == pad_id:
            raise ConfigurationError(f"mask_id and pad_id are both {mask_id}", fix="Give two different ids.")
        self.mask_id, self.pad_id, self.masks_per_set, self.seed = mask_id, pad_id, masks_per_set, seed
        self.one_mask_from_epoch, self.asks_next = one_mask_from_epoch, asks_next
        # Shared memory: workers that were started before an epoch begins still see its number.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    @property
    def epoch(self) -> int:
        """The epoch the masks are drawn for."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Draw other masks; also in workers that run already."""
        self._epoch.fill_(epoch)

    def __call__(self, batch: SequenceBatch | Sequence[SequenceBatch] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate and mask.

        Args:
            batch: a SequenceBatch, or examples {"input_ids": ids, "context": {feature: value}, "example_id": number}.

        Returns:
            input_ids and labels (-100 where nothing is hidden), and what ``beside_items`` gives.
        """
        sets = as_batch(batch, self.pad_id)
        if sets.labels is not None or sets.start_positions is not None:
            raise DataError(
                "the batch has labels, and the masked items would take their place",
                fix="Encode without labels, or collate with dataset.collate_fn.",
            )
        real = sets.is_real
        if sets.masked_position is None:
            masked = self._drawn(sets, real.numpy())
            shown = self._hidden(sets, masked)
        else:
            masked = torch.arange(sets.input_ids.shape[1]) == sets.masked_position[:, None]
            shown = sets.input_ids.masked_fill(masked, self.mask_id)
        output: dict[str, Any] = {
            "input_ids": shown.masked_fill(~real, self.pad_id),
            "labels": torch.where(masked, sets.input_ids, IGNORED_LABEL),
        }
        return {**output, **beside_items(sets)}

    def _hidden(self, sets: SequenceBatch, masked: Tensor) -> Tensor:
        """The items with those under the mask hidden."""
        return sets.input_ids.masked_fill(masked, self.mask_id)

    def _drawn(self, sets: SequenceBatch, real: np.ndarray) -> Tensor:
        positions = np.arange(real.shape[1])
        keys = hash_counters(self.seed, self.epoch, sets.example_ids.numpy()[:, None], positions)
        # Padding sorts behind every real position, for a set of n items is asked for n at most.
        keys = np.where(real, keys >> np.uint64(1), np.uint64(2**64 - 1))
        is_late = self.one_mask_from_epoch is not None and self.epoch >= self.one_mask_from_epoch
        if is_late and self.asks_next:
            return torch.from_numpy(positions == sets.lengths.numpy()[:, None] - 1)
        if self.masks_per_set == 1 or is_late:
            return torch.from_numpy(positions == keys.argmin(axis=1)[:, None])
        ranks = keys.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        return torch.from_numpy((ranks < self.masks_per_set) & real)


class WholeSetCollator:
    """Hides whole sets: what is read is one [MASK], and asked for are all items.

    Shapes: input_ids (batch, 1), labels (batch, length) with -100 behind the end; context each (batch, ...).

    Args:
        mask_id: id of the mask.
        pad_id: id of padding.

    Relation to its siblings: `MaskingCollator` hides some items and shows the others.

    Example:
        >>> batch = WholeSetCollator(mask_id=1, pad_id=0)([{"input_ids": [5, 6], "context": {}, "example_id": 0}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[1]], [[5, 6]])
    """

    def __init__(self, *, mask_id: int, pad_id: int) -> None:
        self.mask_id, self.pad_id = mask_id, pad_id

    def __call__(self, batch: SequenceBatch | Sequence[SequenceBatch] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate sets, given as `MaskingCollator` takes them."""
        sets = as_batch(batch, self.pad_id)
        output: dict[str, Any] = {
            "input_ids": torch.full((len(sets), 1), self.mask_id),
            "labels": sets.input_ids.masked_fill(~sets.is_real, IGNORED_LABEL),
        }
        return {**output, "context": sets.context} if sets.context else output


def beside_items(sets: SequenceBatch) -> dict[str, Any]:
    """Return what a model reads of a batch beside its items: attention_mask where something is padded, gaps of time,
    the label of a pair of sentences, the context, and earlier items, where there are some.

    Example:
        >>> batch = SequenceBatch(
        ...     input_ids=torch.tensor([[5, 0]]), lengths=torch.tensor([1]), example_ids=torch.tensor([0]), context={}
        ... )
        >>> beside_items(batch)
        {'attention_mask': tensor([[1, 0]])}
    """
    found: dict[str, Any] = {} if bool(sets.is_real.all()) else {"attention_mask": sets.is_real.long()}
    for name in ("token_type_ids", "earlier_ids", "next_sentence_label"):
        if (values := getattr(sets, name)) is not None:
            found[name] = values
    return {**found, "context": sets.context} if sets.context else found


def as_batch(
    batch: SequenceBatch | Sequence[SequenceBatch] | Sequence[Mapping[str, Any]], pad_id: int
) -> SequenceBatch:
    """Return one batch of sets that are given as a batch or as rows."""
    if isinstance(batch, SequenceBatch):
        return batch
    if len(batch) == 1 and isinstance(batch[0], SequenceBatch):
        return batch[0]  # as transformers' Trainer hands it on, which looks through it for unused columns
    return _padded(cast("Sequence[Mapping[str, Any]]", batch), pad_id)


def _padded(examples: Sequence[Mapping[str, Any]], pad_id: int) -> SequenceBatch:
    """Put rows together to one batch, of small data and of `datasets.Dataset`; SequenceDataset gives whole batches."""
    for row, example in enumerate(examples):
        for key in ("input_ids", "example_id"):
            if key not in example:
                raise DataError(
                    f"example {row} of the batch has no {key!r}, only {', '.join(sorted(example)) or 'nothing'}",
                    fix='Give {"input_ids": [ids], "context": {feature: value}, "example_id": number}. '
                    "With transformers.Trainer, set remove_unused_columns=False.",
                )
    items = [torch.as_tensor(example["input_ids"], dtype=torch.int64) for example in examples]
    empty = [example["example_id"] for example, ids in zip(examples, items, strict=True) if len(ids) == 0]
    if empty:
        raise DataError(
            f"the set of example {empty[0]} is empty, nothing in it can be masked", fix="Leave empty sets out."
        )
    contexts: list[Mapping[str, Any]] = [example.get("context") or {} for example in examples]
    positions = [example["masked_position"] for example in examples if example.get("masked_position") is not None]
    gaps = [torch.as_tensor(example["token_type_ids"]) for example in examples if "token_type_ids" in example]
    follows = [int(example["next_sentence_label"]) for example in examples if "next_sentence_label" in example]
    phrases = [torch.as_tensor(example["goes_on_phrase"]) for example in examples if "goes_on_phrase" in example]
    return SequenceBatch(
        input_ids=torch.nn.utils.rnn.pad_sequence(items, batch_first=True, padding_value=pad_id),
        lengths=torch.tensor([len(ids) for ids in items]),
        example_ids=torch.tensor([int(example["example_id"]) for example in examples]),
        context={name: torch.stack([torch.as_tensor(context[name]) for context in contexts]) for name in contexts[0]},
        labels=torch.tensor(0) if any(_LEARNED & example.keys() for example in examples) else None,
        token_type_ids=torch.nn.utils.rnn.pad_sequence(gaps, batch_first=True) if gaps else None,
        masked_position=torch.tensor(positions) if positions else None,
        next_sentence_label=torch.tensor(follows) if follows else None,
        goes_on_phrase=torch.nn.utils.rnn.pad_sequence(phrases, batch_first=True) if phrases else None,
    )
