"""Baskets of a history as further sets to learn from: in each epoch one of each history, predicted from the others.

Who has bought ten times has ten sets to learn from, though her row asks for the last alone. Which basket it is is a
pure function of (seed, epoch, example id). Not in the papers.
"""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.context.interactions import (
    BASKETS_AGO,
    DAYS_AGO,
    ITEM,
    MISSING_ITEM,
    NO_ITEM,
    UNKNOWN_DAYS,
    UNKNOWN_ITEM,
    Interactions,
    arranged,
    interactions_of,
)
from contextual_bert.data.dataset import SequenceDataset, take_context
from contextual_bert.data.hashing import Draw, hash_counters, unit_interval
from contextual_bert.data.ragged import offsets_of
from contextual_bert.data.ragged_rows import RaggedRows, rows_of, without_padding


class DrawnBaskets(SequenceDataset):
    """The sets of a data set, and behind them one basket of each history that has two or more, drawn anew each epoch.

    Shapes: as SequenceDataset, with as many rows more as histories have two baskets or more.

    Args:
        dataset: the sets, each with a history.
        history: name of the feature.
        order: "past": a drawn basket is predicted from the older ones; "any": from all others, for baskets that have no
            order.
        seed: of the draw.

    Relation to its siblings: `ShuffledContext` changes from epoch to epoch in the same way.

    Example:
        >>> from contextual_bert.context.interactions import arranged
        >>> found = Interactions(*(np.array(each) for each in ([0, 0], [7, 5], [1, 0], [-1, -1])))
        >>> sets = SequenceDataset([5], [0, 1], context={"before": torch.from_numpy(arranged(found, num_rows=1))})
        >>> drawn = DrawnBaskets(sets, history="before", order="past", seed=0)
        >>> len(drawn), drawn.__getitems__([1]).input_ids.tolist(), drawn.__getitems__([1]).context["before"].tolist()
        (2, [[5]], [[[7, 0, 1, -1]]])
    """

    def __init__(self, dataset: SequenceDataset, *, history: str, order: Literal["past", "any"], seed: int) -> None:
        super().__init__(**dataset.parts())
        self.dataset, self.history, self.order, self.seed = dataset, history, order, seed
        self.found = _interactions(dataset.context[history])
        num_baskets = np.zeros(len(dataset.example_ids), np.int64)
        np.maximum.at(num_baskets, self.found.rows, self.found.baskets_ago + 1)
        # A basket of nothing but unknown items asks for nothing.
        self.asked = np.unique(
            np.stack([self.found.rows, self.found.baskets_ago], axis=1)[self.found.items > UNKNOWN_ITEM], axis=0
        )
        if order == "past":  # the oldest has nothing before it
            self.asked = self.asked[self.asked[:, 1] < num_baskets[self.asked[:, 0]] - 1]
        self.asked = self.asked[num_baskets[self.asked[:, 0]] > 1]
        self.owners, self.first, self.counts = np.unique(self.asked[:, 0], return_index=True, return_counts=True)
        # Shared memory: workers that were started before an epoch begins still see its number.
        self.epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._drawn: tuple[int, SequenceDataset] | None = None

    def __len__(self) -> int:
        return len(self.dataset) + len(self.owners)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of interactions that each row is predicted from, by which batches are put together."""
        return np.concatenate([_num_interactions(each.context[self.history]) for each in (self.dataset, self.drawn)])

    def set_epoch(self, epoch: int) -> None:
        """Draw other baskets. Running data-loader workers see the change."""
        self.epoch.fill_(epoch)

    @property
    def drawn(self) -> SequenceDataset:
        """The drawn baskets of this epoch as sets."""
        epoch = int(self.epoch)
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = epoch, self._draw(epoch)
        return self._drawn[1]

    def __getitems__(self, indices: Any) -> Any:
        index = torch.as_tensor(indices, dtype=torch.int64)
        is_own = index < len(self.dataset)
        if bool(is_own.all()):
            return self.dataset.__getitems__(index)
        return _joined(
            self.dataset.subset(index[is_own]), self.drawn.subset(index[~is_own] - len(self.dataset))
        ).__getitems__(torch.argsort(torch.argsort((~is_own).int(), stable=True), stable=True))

    def _draw(self, epoch: int) -> SequenceDataset:
        owners, found = self.owners, self.found
        example_ids = self.dataset.example_ids.numpy()[owners]
        numbers = unit_interval(hash_counters(self.seed, epoch, Draw.HISTORY_BASKET, example_ids))
        drawn = np.full(len(self.dataset), -1)
        drawn[owners] = self.asked[self.first + (numbers * self.counts).astype(np.int64), 1]
        place = np.full(len(self.dataset), -1)
        place[owners] = np.arange(len(owners))
        target = drawn[found.rows]
        is_target = (target == found.baskets_ago) & (found.items > UNKNOWN_ITEM)
        order = np.lexsort((found.items[is_target], found.rows[is_target]))
        items = found.items[is_target][order]
        sizes = np.bincount(place[found.rows[is_target]], minlength=len(owners))
        is_kept = (target >= 0) & (found.baskets_ago > target if self.order == "past" else found.baskets_ago != target)
        rows, ago, days = found.rows[is_kept], found.baskets_ago[is_kept], found.days_ago[is_kept]
        newest = target[is_kept]
        then = np.full(len(self.dataset), UNKNOWN_DAYS)
        then[found.rows[target == found.baskets_ago]] = found.days_ago[target == found.baskets_ago]
        has_days = (days != UNKNOWN_DAYS) & (then[rows] != UNKNOWN_DAYS)
        left = Interactions(
            place[rows],
            found.items[is_kept],
            ago - (newest + 1 if self.order == "past" else (ago > newest)),
            np.where(has_days, np.abs(days - then[rows]), UNKNOWN_DAYS),
        )
        context = {name: rows_of(values, torch.from_numpy(owners)) for name, values in self.dataset.context.items()}
        drawn = {self.history: torch.from_numpy(arranged(left, num_rows=len(owners)))}
        is_ragged = isinstance(self.dataset.context[self.history], RaggedRows)
        context |= without_padding(drawn) if is_ragged else drawn
        return SequenceDataset(
            items,
            offsets_of(sizes),
            context=context,
            example_ids=torch.from_numpy(example_ids),
            pad_id=self.dataset.pad_id,
        )


def _interactions(values: Tensor) -> Interactions:
    """Return the interactions of encoded histories."""
    if not isinstance(values, RaggedRows):
        return interactions_of(values.numpy())
    every, rows = values.interactions.numpy(), np.repeat(np.arange(len(values)), values.row_sizes.numpy())
    is_item = every[:, ITEM] > MISSING_ITEM
    return Interactions(rows[is_item], *(every[is_item, place] for place in (ITEM, BASKETS_AGO, DAYS_AGO)))


def _num_interactions(values: Tensor) -> NDArray[np.int64]:
    """Return the length of each history."""
    if isinstance(values, RaggedRows):
        return values.row_sizes.numpy()
    return (values[..., ITEM] != NO_ITEM).sum(dim=1).numpy()


def _joined(first: SequenceDataset, second: SequenceDataset) -> SequenceDataset:
    """Return the sets of two data sets, one behind the other; lists are padded to the wider."""
    context: dict[str, Tensor] = {}
    for name, values in first.context.items():
        others = second.context[name]
        if isinstance(values, RaggedRows) or isinstance(others, RaggedRows):  # of a batch: few rows
            values, others = values[:], others[:]
        if values.dim() > 1 and values.shape[1] != others.shape[1]:
            width = max(values.shape[1], others.shape[1])
            values, others = (
                torch.nn.functional.pad(each, (*(0, 0) * (each.dim() - 2), 0, width - each.shape[1]))
                for each in (values, others)
            )
        context[name] = torch.cat([values, others])
    return SequenceDataset(
        torch.cat([first.input_ids, second.input_ids]),
        torch.cat([first.offsets, second.offsets[1:] + first.offsets[-1]]),
        context=take_context(context, torch.arange(len(first) + len(second))),
        example_ids=torch.cat([first.example_ids, second.example_ids]),
        pad_id=first.pad_id,
    )
