"""The control with a context that says nothing: each sequence gets the context of another, each epoch anew.

Same model, same number of parameters, same distribution of contexts, no information. A model that gains from it has
found a leak. Neither models nor metrics are known here. docs/protocol.md, "Controls".
"""

import numpy as np
import torch
from torch import Tensor

from contextual_bert.data.dataset import SequenceDataset
from contextual_bert.data.hashing import hash_counters

__all__ = ["ShuffledContext"]


class ShuffledContext(SequenceDataset):
    """A data set whose contexts are dealt out anew, as a pure function of (seed, epoch, place of the example).

    Formula: example i gets the context of example order[i], where order sorts hash(seed, epoch, j) over all j.

    Symbols: j place of an example in the data set; windows of one question are one example.

    Shapes: as SequenceDataset; `context` itself stays the examples' own, so that segments name the true values.

    Args:
        dataset: the sequences with their own contexts.
        seed: seed of the hash.

    Relation to its siblings: `MaskingCollator` takes epochs in the same way; `MaskEpoch` tells both.

    Reference: docs/protocol.md, "Controls".

    Example:
        >>> own = SequenceDataset([5, 6, 7], [0, 1, 2, 3], context={"age": torch.tensor([1, 2, 3])})
        >>> dealt = ShuffledContext(own, seed=0).__getitems__([0, 1, 2]).context["age"]
        >>> sorted(dealt.tolist()), own.context["age"].tolist()
        ([1, 2, 3], [1, 2, 3])
    """

    def __init__(self, dataset: SequenceDataset, *, seed: int) -> None:
        super().__init__(**dataset.parts())
        _, self.example, sizes = self.example_ids.unique_consecutive(return_inverse=True, return_counts=True)
        self.first = sizes.cumsum(dim=0) - sizes
        self.num_examples, self.seed = len(sizes), seed
        # Shared memory: workers that were started before an epoch begins still see its number.
        self.epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._dealt: tuple[int, Tensor] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Reshuffle the contexts for a new epoch. Running data-loader workers see the change."""
        self.epoch.fill_(epoch)

    def context_rows(self, index: Tensor) -> Tensor:
        """Return the rows of ``context`` that these sequences have in this epoch."""
        return self.first[self.order[self.example[index]]]

    @property
    def order(self) -> Tensor:
        """(examples,): example -> the example whose context it has."""
        epoch = int(self.epoch)
        if self._dealt is None or self._dealt[0] != epoch:
            keys = hash_counters(self.seed, epoch, np.arange(self.num_examples))
            self._dealt = epoch, torch.from_numpy(keys.argsort(kind="stable"))
        return self._dealt[1]
