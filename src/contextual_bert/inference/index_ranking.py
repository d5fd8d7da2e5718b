"""The best permitted items of a masked position by an index, and their probabilities from an estimated sum.

What the index finds is scored exactly. The softmax' denominator is the exact sum over these items, and an estimate from
a sample of all others, with its standard error. Few permitted items are all scored, and their sum is exact. It knows
arrays, no model. Not in the papers. Reference: docs/decisions/062.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.inference.item_index import SHORTLIST, ItemIndex
from contextual_bert.inference.output_rows import Floats, Ids, OutputRows

FEW = 12_000  # permitted items that are all scored
NUM_SAMPLED = 4_096  # of the items that were not found


class _Sum(NamedTuple):
    """A sum of exp(logit - m), and the standard error of its estimate."""

    value: float
    error: float


class IndexedBlank(NamedTuple):
    """The best ids of one [MASK], best first, their probabilities, what is not permitted, and the error of both.

    ``error``: the standard error of the denominator, as a share of it; 0 where it is exact.
    """

    ids: Ids
    probabilities: NDArray[np.float64]
    excluded: float
    error: float


@dataclass(frozen=True, eq=False)
class AddedScores:
    """What is added to the logits of some ids, each of them once and in order: items (n,), scores (n,)."""

    items: Ids
    scores: Floats

    @classmethod
    def summed(cls, items: Ids, scores: Floats) -> "AddedScores":
        """Those of ids that may come more than once."""
        unique, places = np.unique(items, return_inverse=True)
        return cls(unique, np.bincount(places, scores, len(unique)).astype(np.float32))

    def of(self, ids: Ids) -> Floats:
        """Return what is added to each of these ids."""
        if not len(self.items):
            return np.zeros(len(ids), np.float32)
        places = np.searchsorted(self.items, ids).clip(max=len(self.items) - 1)
        return np.where(self.items[places] == ids, self.scores[places], np.float32(0))


NOTHING_ADDED = AddedScores(np.empty(0, np.int64), np.empty(0, np.float32))


class _Scored(NamedTuple):
    """What the sums of one masked position share: its state, and the logits of the sample."""

    state: Floats
    added: AddedScores
    sampled: Floats
    largest: float

    def shares(self, logits: Floats) -> NDArray[np.float64]:
        return np.exp(logits.astype(np.float64) - self.largest)


@dataclass(frozen=True, eq=False)
class IndexRanker:
    """Ranks the items of one masked position after the other.

    Args:
        index: of the rows; items behind the last one that it holds are scored each time.
        rows: of all ids.

    Example:
        >>> rows = OutputRows(np.eye(300, 8, dtype=np.float32), np.zeros(300, np.float32))
        >>> index = ItemIndex.build(rows, first_id=2, states=np.eye(4, 8, dtype=np.float32), files={})
        >>> permitted = np.arange(300) >= 2
        >>> found = IndexRanker(index, rows).rank(np.eye(1, 8, 5, dtype=np.float32)[0], permitted, top_k=2)
        >>> int(found.ids[0]), found.error
        (5, 0.0)
    """

    index: ItemIndex
    rows: OutputRows

    @cached_property
    def _first(self) -> int:
        return self.index.record.first_id

    @cached_property
    def _sample(self) -> Ids:
        """Every n-th item."""
        return _every_nth(np.arange(self._first, len(self.rows.bias)))

    @cached_property
    def _sampled_rows(self) -> OutputRows:
        return self.rows.some(self._sample)

    def rank(
        self,
        state: Floats,
        permitted: NDArray[np.bool_],
        *,
        top_k: int,
        left_out: Ids | None = None,
        added: AddedScores = NOTHING_ADDED,
    ) -> IndexedBlank:
        """Return the best permitted items.

        Shapes:
            state (size,); permitted (vocabulary,).

        Args:
            state: what the output matrix reads.
            permitted: no reserved id is.
            top_k: items.
            left_out: ids that no probability is known of: what the set shows, of a model that learned so.
            added: to the logits.
        """
        wanted = max(SHORTLIST, 4 * top_k)
        left = np.unique(left_out[left_out >= self._first]) if left_out is not None else np.empty(0, np.int64)
        outside = ~permitted
        outside[: self._first] = False
        outside[left] = False
        num_permitted, num_outside = int(np.count_nonzero(permitted)), int(np.count_nonzero(outside))
        not_indexed = np.arange(self._first + self.index.record.num_items, len(permitted))
        found = np.concatenate([self.index.search(state, num=wanted), added.items, not_indexed])
        known = np.unique(found[permitted[found] | outside[found]])
        own, others = known[permitted[known]], known[outside[known]]
        if num_permitted <= FEW:
            own = np.flatnonzero(permitted)
        elif num_outside > wanted // 2:  # of which the search may have found too many
            own = np.union1d(own, self.index.search(state, permitted, num=wanted))
        if not len(own):
            return IndexedBlank(own, np.empty(0), 1.0, 0.0)
        logits = self._logits(own, state, added)
        largest = float(logits.max())
        best = np.argsort(-logits, kind="stable")[:top_k]
        sampled = self._sampled_rows.scores(state) + added.of(self._sample)
        scored = _Scored(state, added, sampled, largest)
        inside = self._sum(permitted, num_permitted, own, logits, scored)
        outer = self._sum(outside, num_outside, others, self._logits(others, state, added), scored)
        probabilities = np.exp(logits[best].astype(np.float64) - largest) / inside.value
        excluded = outer.value / (inside.value + outer.value)
        return IndexedBlank(own[best], probabilities, excluded, inside.error / inside.value)

    def _logits(self, ids: Ids, state: Floats, added: AddedScores) -> Floats:
        return self.rows.scores(state, ids) + added.of(ids)

    def _sum(self, mask: NDArray[np.bool_], num: int, known: Ids, logits: Floats, scored: "_Scored") -> _Sum:
        """Return the sum of exp(logit - largest) over the ``num`` ids of a mask; the logits of ``known`` are there."""
        exact = float(scored.shares(logits).sum())
        num_rest = num - len(known)
        if not num_rest:
            return _Sum(exact, 0.0)
        is_counted = mask[self._sample] & ~_is_in(self._sample, known)
        if np.count_nonzero(is_counted) >= min(num_rest, NUM_SAMPLED // 2):
            values = scored.shares(scored.sampled[is_counted])
        else:
            rest = np.setdiff1d(np.flatnonzero(mask), known, assume_unique=True)
            values = scored.shares(self._logits(_every_nth(rest), scored.state, scored.added))
        spread = float(values.std(ddof=1)) if len(values) > 1 else float(values.sum())
        # Of a sample that is all there is, nothing is uncertain.
        error = num_rest * spread * (max(0.0, 1 - len(values) / num_rest) / len(values)) ** 0.5
        return _Sum(exact + num_rest * float(values.mean()), error)


def _every_nth(ids: Ids) -> Ids:
    """Return about ``NUM_SAMPLED`` of the ids, at equal distances: whatever order they are in is spread evenly."""
    return ids[:: max(1, len(ids) // NUM_SAMPLED)]


def _is_in(ids: Ids, ordered: Ids) -> NDArray[np.bool_]:
    """Return which ids are among others, which are in order."""
    if not len(ordered):
        return np.zeros(len(ids), np.bool_)
    return ordered[np.searchsorted(ordered, ids).clip(max=len(ordered) - 1)] == ids
