"""Sets that were hidden as a whole: their true items, which of these are repeated, and the lists that were proposed.

It knows numbers of items alone: no model, no vocabulary and no name.

References: Li et al. (2023), "A Next Basket Recommendation Reality Check", for the metrics; Zhou et al. (2010) for
novelty as self-information.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.metrics import novelty_key, set_metric_key
from contextual_bert.evaluation.number_columns import reject, set_columns
from contextual_bert.set_ranks import SetRanks

_COLUMNS = ("example_id", "position", "set_size", "times_before")
UNKNOWN = -1  # of ``times_before``: the row has no known history
NO_ITEM = -1  # of ``lists``: nothing was proposed at this place
_MEASURES: dict[str, Callable[[SetRanks, int], NDArray[np.float64]]] = {
    "recall": SetRanks.recall,
    "ndcg": SetRanks.ndcg,
    "hit_rate": SetRanks.hit_rate,
    "map": SetRanks.average_precision,
}
_MEASURES_APART = ("recall", "ndcg", "hit_rate")  # of repeated and of new items


class SetColumns(NamedTuple):
    """One value a set of each metric, and which sets it is a mean over.

    Shapes: values, is_counted (sets, metrics).
    """

    keys: tuple[str, ...]
    values: NDArray[np.float64]
    is_counted: NDArray[np.bool_]

    @property
    def columns(self) -> NDArray[np.float64]:
        """(sets, 2 metrics): the values of the counted sets, then 1 for each of these."""
        return np.concatenate([self.values * self.is_counted, self.is_counted], axis=1, dtype=np.float64)

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over sets of ``columns``, for each of the leading axes."""
        sums, counts = np.split(means, 2, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):  # of a resample without such a set it is not known
            found = np.round(sums / counts, 10)  # the ratio of two means of thirds may be a hair above 100
        return {key: found[..., number] for number, key in enumerate(self.keys)}


@dataclass(frozen=True, eq=False)
class SetPredictions:
    """The true items of sets that were hidden as a whole, and what was proposed for these sets.

    Formula: set metrics are means over sets of ``SetRanks``; of repeated items over the sets with one, and likewise of
    new ones; novelty@k = mean over the first k of -log2 (n_i + 1) / (N + V); coverage@k = share of all V items that
    stand among the first k of any list.

    Symbols: n_i how often item i is in the training part, N all of these counts.

    Shapes: the first four columns are (rows,), of the rows of ``Scores``; list_id (sets,), lists (sets, longest),
    item_counts (items,).

    Args:
        example_id: row of the original table; all true items of a set share it.
        position: of the true item in its set.
        set_size: true items of its set, those without a rank too.
        times_before: how many baskets of its customer's history hold the item; -1 where no history is known.
        list_id: row of the original table of each proposed list; empty where lists were not kept.
        lists: numbers of items, which count from 0, the best first; -1 behind the last.
        item_counts: how often each item is in the training part.

    Raises:
        ConfigurationError: columns of different lengths.
        DataError: a value that cannot be.

    Relation to its siblings: ``Scores.predictions`` holds it; without it scores are of items that were hidden one at a
    time.

    Reference: docs/protocol.md.

    Example:
        >>> rows = SetPredictions([7, 7], [0, 1], set_size=[2, 2], times_before=[3, 0])
        >>> found = rows.measure(np.array([0, 4]), np.array([1, 1]), ks=(2,))
        >>> dict(zip(found.keys, found.values[0].tolist()))["set_recall_at_2_percent"]
        50.0
    """

    example_id: NDArray[np.int64]
    position: NDArray[np.int64]
    set_size: NDArray[np.int64]
    times_before: NDArray[np.int64]
    list_id: NDArray[np.int64] = ()  # type: ignore[assignment]
    lists: NDArray[np.int64] = ()  # type: ignore[assignment]
    item_counts: NDArray[np.int64] = ()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        set_columns(self, _COLUMNS, row="true item")
        for name in ("list_id", "lists", "item_counts"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.int64))
        if self.lists.ndim < 2:
            object.__setattr__(self, "lists", self.lists.reshape(len(self.list_id), -1 if len(self.list_id) else 0))
        fix = "Count the baskets with the item; give -1 where no history is known."
        reject(self.times_before < UNKNOWN, self.times_before, "times_before", "at least -1", fix)
        if len(self.lists) != len(self.list_id) or len(np.unique(self.list_id)) != len(self.list_id):
            raise ConfigurationError(
                f"{len(self.list_id)} ids of sets, {len(self.lists)} lists", fix="Give one list a set, each set once."
            )
        if self.lists.size and not NO_ITEM <= self.lists.min() <= self.lists.max() < len(self.item_counts):
            raise DataError(
                f"lists hold {self.lists.min()} to {self.lists.max()}, and there are {len(self.item_counts)} items",
                fix="Number the items from 0, without reserved ids; give -1 behind the last.",
            )

    def __len__(self) -> int:
        return len(self.example_id)

    @property
    def counts_whole_examples(self) -> bool:
        """True: the items of a set are counted together."""
        return True

    def is_of(self, example_id: NDArray[np.int64], position: NDArray[np.int64]) -> bool:
        """Return whether these are the rows, in this order."""
        return np.array_equal(self.example_id, example_id) and np.array_equal(self.position, position)

    def has_truth_of(self, other: Self) -> NDArray[np.bool_]:
        """Return for each row whether another run has the same size of its set and the same count before."""
        return (self.set_size == other.set_size) & (self.times_before == other.times_before)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return all rows and lists of the parts (of several batches or processes), in the order given."""
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in (*_COLUMNS, "list_id", "lists")
        }
        # A sampler repeats sets to fill its last batch.
        ids, firsts = np.unique(columns["list_id"], return_index=True)
        return cls(**{**columns, "list_id": ids, "lists": columns["lists"][firsts]}, item_counts=parts[0].item_counts)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """Return the rows that a boolean mask or an array of row numbers names, with the lists of their sets."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        kept = np.isin(self.list_id, columns["example_id"])
        return replace(self, **columns, list_id=self.list_id[kept], lists=self.lists[kept])

    def sorted(self) -> Self:
        """Return the same rows by (example_id, position): the canonical order."""
        return self.select(np.lexsort((self.position, self.example_id)))

    def as_arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return name -> array, as safetensors stores them; ``SetPredictions(**arrays)`` is the way back."""
        return {name: getattr(self, name) for name in (*_COLUMNS, "list_id", "lists", "item_counts")}

    def firsts(self) -> NDArray[np.int64]:
        """Return the number of the first row of each set, by example_id: (sets,)."""
        return np.unique(self.example_id, return_index=True)[1]

    def measure(self, num_better: NDArray[np.int64], num_tied: NDArray[np.int64], ks: Sequence[int]) -> SetColumns:
        """Return the metrics of each set, in the order of ``firsts``.

        Args:
            num_better, num_tied: the ranks of the rows, see ``Scores``.
            ks: of all metrics.

        Raises:
            DataError: an item twice in a set, more rows than items.
        """
        ids, firsts, set_of = np.unique(self.example_id, return_index=True, return_inverse=True)
        sizes = self.set_size[firsts]
        fix = "Count the true items of the whole set, those that the vocabulary does not know too."
        is_less = sizes < np.bincount(set_of)
        reject(is_less, sizes, "set_size", "at least the number of its rows", fix)
        ranks = SetRanks.of(set_of.astype(np.int64), num_better, num_tied, sizes)
        found = {
            set_metric_key(name, k): (100.0 * measure(ranks, k), sizes > 0)
            for k in ks
            for name, measure in _MEASURES.items()
        }
        found |= self._columns_apart(ranks, ks)
        found |= self._novelty(ids, ks)
        values, is_counted = (np.stack(column, axis=1) for column in zip(*found.values(), strict=True))
        return SetColumns(tuple(found), values, is_counted)

    def coverage(self, k: int) -> float | None:
        """Return the percentage of all items among the first k of any list; None where no list was kept."""
        if not self.lists.size:
            return None
        return 100.0 * float((np.unique(self.lists[:, :k]) != NO_ITEM).sum()) / len(self.item_counts)

    def _columns_apart(
        self, ranks: SetRanks, ks: Sequence[int]
    ) -> dict[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Return the metrics of repeated items and of new ones, unknown ones among these; of sets with a history."""
        found: dict[str, tuple[NDArray[np.float64], NDArray[np.bool_]]] = {}
        num_sets = len(ranks.sizes)
        has_history = np.ones(num_sets, dtype=np.bool_)
        has_history[ranks.set_of[self.times_before == UNKNOWN]] = False
        num_repeated = np.bincount(ranks.set_of[self.times_before > 0], minlength=num_sets)
        for which, is_chosen, sizes in (
            ("repeated", self.times_before > 0, num_repeated),
            ("new", self.times_before == 0, ranks.sizes - num_repeated),
        ):
            is_counted = has_history & (sizes > 0)
            if is_counted.any():
                own = ranks.among(is_chosen, sizes)
                found |= {
                    set_metric_key(name, k, which=which): (100.0 * _MEASURES[name](own, k), is_counted)
                    for k in ks
                    for name in _MEASURES_APART
                }
        return found

    def _novelty(
        self, ids: NDArray[np.int64], ks: Sequence[int]
    ) -> dict[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Return the mean self-information of what was proposed to each set; nothing where no list was kept."""
        if not self.lists.size:
            return {}
        order = np.argsort(self.list_id)
        places = np.minimum(np.searchsorted(self.list_id, ids, sorter=order), len(order) - 1)
        rows = order[places]
        lists, has_list = self.lists[rows], self.list_id[rows] == ids
        is_item = lists != NO_ITEM
        bits = -np.log2((self.item_counts + 1.0) / (self.item_counts.sum() + len(self.item_counts)))
        own = np.where(is_item, bits[lists], 0.0)
        counts = {k: is_item[:, :k].sum(axis=1) for k in ks}
        return {
            novelty_key(k): (own[:, :k].sum(axis=1) / np.maximum(count, 1), has_list & (count > 0))
            for k, count in counts.items()
        }
