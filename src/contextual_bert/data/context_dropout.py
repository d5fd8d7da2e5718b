"""Contexts with parts left out while training, so that a model learns what to say when it is told less, or nothing.

What is left out is a pure function of (seed, epoch, example id, field), as the masks are. It knows neither models nor
values, only what a missing field looks like. Paper: not there. Reference: Ho and Salimans (2021), "Classifier-free
diffusion guidance", section 3.2, for the whole context.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from contextual_bert.context import missing_like
from contextual_bert.data.dataset import SetBatch, SetDataset
from contextual_bert.data.hashing import hash_counters, hash_strings, unit_interval
from contextual_bert.data.shuffling import ShuffledContext, ShuffledTexts
from contextual_bert.data.texts import TextDataset
from contextual_bert.errors import ConfigurationError

__all__ = ["DroppedContext"]

# Apart from each other, and from what the masks of texts draw.
_WHOLE, _FIELD = 5, 6


class DroppedContext(Dataset[dict[str, Any]]):
    """Sets or texts whose contexts are missing at times, wholly or field by field; for training only.

    Formula: field f of example i is missing where u(i) < p or u(i, f) < q, and what it was where not; u(i) and u(i, f)
        are hashes of (seed, epoch, i) and (seed, epoch, i, f) in [0, 1).

    Symbols: p `context_dropout`, q `field_dropout`.

    Shapes: batches as those of the data set.

    Args:
        dataset: the examples, shuffled contexts too.
        context_dropout: how often nothing is known of a row.
        field_dropout: how often a field is not known, each for itself.
        seed: seed of the hash.

    Raises:
        ConfigurationError: examples without a context.

    Relation to its siblings: both trainers put it around their training data; `MaskEpoch` tells it the epoch, as it
        tells `MaskingCollator`.

    Reference: Ho and Salimans (2021), section 3.2.

    Example:
        >>> own = SetDataset([5, 6, 7], [0, 1, 2, 3], context={"age": torch.tensor([4, 2, 3])}, example_ids=[0, 1, 2])
        >>> DroppedContext(own, context_dropout=0.5).__getitems__([0, 1, 2]).context["age"]
        tensor([0, 0, 3])
    """

    def __init__(
        self,
        dataset: SetDataset | TextDataset,
        *,
        context_dropout: float = 0.0,
        field_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not dataset.context:
            raise ConfigurationError(
                f"context_dropout={context_dropout}, field_dropout={field_dropout}: these data have no context that "
                "could be left out. Leave both at 0."
            )
        self.dataset, self.seed = dataset, seed
        self.context_dropout, self.field_dropout = context_dropout, field_dropout
        # A field by its name: what is dropped of it does not depend on which others there are.
        self._fields = hash_strings(pa.array(list(dataset.context))).view(np.int64)
        # Shared memory: workers that were started before an epoch begins still see its number.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items or tokens of each example: what the sampler needs."""
        return np.asarray(self.dataset.sizes)

    def set_epoch(self, epoch: int) -> None:
        """Leave out others; also in workers that run already."""
        self._epoch.fill_(epoch)
        if isinstance(self.dataset, ShuffledContext | ShuffledTexts):
            self.dataset.set_epoch(epoch)

    def absent(self, example_ids: Tensor) -> Tensor:
        """(examples, fields): what is left out of them in this epoch."""
        counters = (self.seed, int(self._epoch))
        rows = example_ids.numpy()[:, None]
        is_whole = unit_interval(hash_counters(*counters, _WHOLE, rows)) < self.context_dropout
        is_field = unit_interval(hash_counters(*counters, _FIELD, rows, self._fields)) < self.field_dropout
        return torch.from_numpy(is_whole | is_field)

    def __getitem__(self, index: int) -> dict[str, Any]:
        example = self.dataset[index]
        [absent] = self.absent(self.dataset.example_ids[[index]])
        context = {
            name: missing_like(value[None])[0] if is_absent else value
            for (name, value), is_absent in zip(example["context"].items(), absent.tolist(), strict=True)
        }
        return {**example, "context": context}

    def __getitems__(self, indices: Sequence[int] | Tensor) -> SetBatch | dict[str, Any]:
        batch = self.dataset.__getitems__(indices)
        own = batch.context if isinstance(batch, SetBatch) else batch["context"]
        absent = self.absent(self.dataset.example_ids[torch.as_tensor(indices, dtype=torch.int64)])
        context = {
            name: torch.where(column.view(-1, *(1,) * (values.ndim - 1)), missing_like(values), values)
            for (name, values), column in zip(own.items(), absent.T, strict=True)
        }
        return replace(batch, context=context) if isinstance(batch, SetBatch) else {**batch, "context": context}
