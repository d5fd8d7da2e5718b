"""The order of training: batches of sets of one length, so that padding is not paid for.

A pure function of (seed, epoch): the same for any number of processes, workers and after a resume. It knows the sizes
of the sets and nothing else of them.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Sampler

from contextual_bert.data.hashing import hash_counters
from contextual_bert.errors import ConfigurationError

__all__ = ["LengthBucketSampler"]


class LengthBucketSampler(Sampler[int]):
    """Every index once, in an order whose consecutive chunks of `batch_size` have one length, but for a few.

    Sets are shuffled within their length and cut into batches from short to long: only where one length ends and the
    next begins is a batch mixed, so there are fewer mixed batches than lengths. Whole batches are then shuffled among
    each other; the one incomplete batch, of the longest sets, comes last.

    Args:
        sizes: number of items of each set.
        batch_size: that of the DataLoader: of one process, where there are several.
        seed: seed of the order.
        drop_last: the DataLoader leaves the incomplete batch out: it is drawn anew from all sets in each epoch, so that
            the longest are not those that nothing is ever learned from.

    Relation to its siblings: `transformers`' group_by_length sorts within windows of a shuffled order, so
    most of its batches are padded.

    Example:
        >>> sampler = LengthBucketSampler([2, 3, 2, 3, 2], batch_size=2)
        >>> sorted(sampler)
        [0, 1, 2, 3, 4]
    """

    def __init__(self, sizes: ArrayLike, *, batch_size: int, seed: int = 0, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise ConfigurationError("is not allowed", setting="batch_size", value=batch_size, fix="Give at least 1.")
        self.sizes = np.asarray(sizes, dtype=np.int64)
        if self.sizes.ndim != 1:
            raise ConfigurationError(f"sizes has the shape {self.sizes.shape}", fix="Give one number a set.")
        self.batch_size, self.seed, self.drop_last, self.epoch = batch_size, seed, drop_last, 0

    def __len__(self) -> int:
        return len(self.sizes)

    def set_epoch(self, epoch: int) -> None:
        """Another order; accelerate and transformers call it."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(self.order().tolist())

    def order(self) -> NDArray[np.int64]:
        """The indices in the order of this epoch."""
        count, batch_size = len(self.sizes), self.batch_size
        keys = hash_counters(self.seed, self.epoch, np.arange(count))
        complete = count // batch_size * batch_size
        by_length = np.lexsort((keys, self.sizes))
        if self.drop_last:
            is_rest = np.zeros(count, dtype=np.bool_)
            is_rest[np.argsort(keys, kind="stable")[complete:]] = True
            by_length = by_length[np.argsort(is_rest[by_length], kind="stable")]
        batches = by_length[:complete].reshape(-1, batch_size)
        # The batch number is the last counter and the epoch is negated, so that these keys are not those of the rows.
        batch_keys = hash_counters(self.seed, -1 - self.epoch, np.arange(len(batches)))
        return np.concatenate([batches[np.argsort(batch_keys, kind="stable")].ravel(), by_length[complete:]])
