"""Contexts that are changed while training: with parts left out, or those of other sequences.

With parts left out a model learns to answer under an incomplete context, or none. What is left out is a pure function
of (seed, epoch, example id, field), as the masks are. Paper: not there. Reference: Ho and Salimans (2021),
"Classifier-free diffusion guidance", section 3.2, for the whole context.

With the context of another sequence, each epoch anew, it says nothing. Same model, same number of parameters, same
distribution of contexts: a model that gains from it has found a leak. docs/protocol.md, "Controls".
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from contextual_bert.context import FeatureLayout, missing_like, unknown_like
from contextual_bert.data.dataset import SequenceBatch, SequenceDataset
from contextual_bert.data.drawn_baskets import DrawnBaskets
from contextual_bert.data.hashing import Draw, hash_counters, hash_strings, unit_interval
from contextual_bert.data.sentence_pairs import SentencePairs
from contextual_bert.errors import ConfigurationError, Message

UNKNOWN_SHARE = 0.5


class DroppedContext(Dataset[dict[str, Any]]):
    """Sets or texts whose contexts are left out at times, wholly or field by field; for training only.

    Formula: field f of example i is left out where u(i) < p or u(i, f) < q, and what it was where not; u(i) and u(i, f)
        are hashes of (seed, epoch, i) and (seed, epoch, i, f) in [0, 1). A field that is left out is missing; where
        u(i) >= p, every other time it has an unknown value, if its kind knows such a state.

    Symbols: p `context_dropout`, q `field_dropout`.

    Shapes: batches as those of the data set.

    Args:
        dataset: the examples, shuffled contexts too.
        context_dropout: how often nothing is known of a row.
        field_dropout: how often a field is not known, each for itself.
        layout: what there is to know of the fields, `ContextSchema.layout`; without it all that is left out is missing.
        seed: seed of the hash.

    Raises:
        ConfigurationError: examples without a context.

    Relation to its siblings: both trainers put it around their training data; `MaskEpoch` tells it the epoch, as it
        tells `MaskingCollator`.

    Reference: Ho and Salimans (2021), section 3.2.

    Example:
        >>> own = SequenceDataset([5, 6, 7], [0, 1, 2, 3], context={"age": torch.tensor([4, 2, 3])})
        >>> DroppedContext(own, context_dropout=0.5).__getitems__([0, 1, 2]).context["age"]
        tensor([0, 0, 3])
    """

    def __init__(
        self,
        dataset: SequenceDataset,
        *,
        context_dropout: float = 0.0,
        field_dropout: float = 0.0,
        layout: Sequence[FeatureLayout] = (),
        seed: int = 0,
    ) -> None:
        if not dataset.context:
            raise ConfigurationError(
                Message(
                    "{context_dropout} and {field_dropout} are for data with a context, and these have none",
                    context_dropout=context_dropout,
                    field_dropout=field_dropout,
                ),
                fix="Leave both at 0.",
            )
        self.dataset, self.seed = dataset, seed
        self.context_dropout, self.field_dropout = context_dropout, field_dropout
        self._layouts = {feature.name: feature for feature in layout}
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
        if isinstance(self.dataset, ShuffledContext | DrawnBaskets | SentencePairs):
            self.dataset.set_epoch(epoch)

    def absent(self, example_ids: Tensor) -> Tensor:
        """(examples, fields): what is left out of them in this epoch."""
        rows = example_ids.numpy()[:, None]
        is_field = self._drawn(Draw.CONTEXT_FIELD, rows, self._fields) < self.field_dropout
        return torch.from_numpy(self._is_whole(rows) | is_field)

    def unknown(self, example_ids: Tensor) -> Tensor:
        """(examples, fields): which of what is left out is not missing but unknown, if its kind knows that."""
        rows = example_ids.numpy()[:, None]
        is_unknown = self._drawn(Draw.UNKNOWN_FIELD, rows, self._fields) < UNKNOWN_SHARE
        return self.absent(example_ids) & torch.from_numpy(is_unknown & ~self._is_whole(rows))

    def __getitem__(self, index: int) -> dict[str, Any]:
        example = self.dataset[index]
        context = {name: value[None] for name, value in example["context"].items()}
        told = self._told_less(context, self.dataset.example_ids[[index]])
        return {**example, "context": {name: value[0] for name, value in told.items()}}

    def __getitems__(self, indices: Sequence[int] | Tensor) -> SequenceBatch:
        batch = self.dataset.__getitems__(indices)
        return replace(batch, context=self._told_less(batch.context, batch.example_ids))

    def _told_less(self, context: Mapping[str, Tensor], example_ids: Tensor) -> dict[str, Tensor]:
        left: dict[str, Tensor] = {}
        columns = zip(context.items(), self.absent(example_ids).T, self.unknown(example_ids).T, strict=True)
        for (name, values), is_absent, is_unknown in columns:
            by_row = (-1, *(1,) * (values.ndim - 1))
            left[name] = torch.where(is_absent.view(by_row), missing_like(values), values)
            if name in self._layouts:
                unknown = unknown_like(values, self._layouts[name])
                left[name] = torch.where(is_unknown.view(by_row), unknown, left[name])
        return left

    def _is_whole(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self._drawn(Draw.WHOLE_CONTEXT, rows) < self.context_dropout

    def _drawn(self, draw: Draw, *counters: NDArray[np.int64]) -> NDArray[np.float64]:
        return unit_interval(hash_counters(self.seed, int(self._epoch), draw, *counters))


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
        self.earlier_starts, self.goes_on_phrase = dataset.earlier_starts, dataset.goes_on_phrase
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
