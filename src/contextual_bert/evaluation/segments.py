"""The numbers for each value of each feature: whom a model serves badly.

A row belongs to the segment of its label, or to several where the feature has several values. Labels of a few
clusters are one segment together, for a report of a few customers tells about each of them. Intervals are
cluster-robust and closed form, because there may be thousands of segments. This module does not know features or
customers: only labels, one a row.

Paper: not there. docs/protocol.md, "Segments".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation.intervals import Interval, bounded, cluster_intervals
from contextual_bert.evaluation.measures import Measures, check_columns, splits_examples
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, MACRO_F1, metric_of, recall_key
from contextual_bert.evaluation.scores import Scores, expected_recall
from contextual_bert.nouns import agreeing, counted

MISSING = "(missing)"
EMPTY = "(empty)"
_SINGLE = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True)
class Segment:
    """One value of one feature, and the metrics of its rows.

    Args:
        feature, value: of the rows.
        num_rows, num_clusters: scored rows and customers.
        is_small: fewer customers than the minimum, too few to trust an interval.
        metrics: key -> Interval. What was predicted has a value alone: the ends of its interval are NaN.
    """

    feature: str
    value: str
    num_rows: int
    num_clusters: int
    is_small: bool
    metrics: dict[str, Interval]

    @property
    def name(self) -> str:
        """Feature and value, for sentences."""
        return f"{self.feature} = {self.value}"


class Group(NamedTuple):
    """One value of one feature, the numbers of its rows, and whether no example is counted as a whole in it and out."""

    feature: str
    value: str
    rows: NDArray[np.int64]
    is_whole: bool


def group_by_value(
    scores: Scores,
    labels: Mapping[str, Sequence[Any] | NDArray[Any]],
    *,
    clusters: NDArray[np.int64],
    cells: "CellLimit",
    name: str = "segments",
) -> tuple[list[Group], int]:
    """Return each value of each feature, in this order, and how many values have no group of their own.

    A row without a value is in the group of those. A list of values puts a row in each of their groups. Values of a few
    clusters are one group, see ``grouped_rows``.

    Args:
        scores: whose rows these are.
        labels: feature -> label of each row.
        clusters: one a row.
        cells: what a group must hold.
        name: of the argument ``labels``, for messages.
    """
    check_columns(labels, len(scores), name=name)
    found: list[Group] = []
    num_suppressed = 0
    for feature, column in labels.items():
        every = rows_by_value(column)
        is_whole = splits_examples(scores, _signatures([rows for _, rows in every], len(scores))) is None
        values, num_few = grouped_rows(every, clusters, cells)
        num_suppressed += num_few
        found += [Group(feature, value, rows, is_whole) for value, rows in values]
    return found, num_suppressed


def evaluate_segments(
    scores: Scores,
    groups: Sequence[Group],
    *,
    clusters: NDArray[np.int64],
    predicted: Measures | None,
    min_clusters: int,
    level: float,
) -> tuple[Segment, ...]:
    """Return a Segment for each group.

    Args:
        scores: of all rows.
        groups: of ``group_rows``.
        clusters: one a row.
        predicted: measures of the predictions; None: there are none.
        min_clusters: fewer make a segment small.
        level: of the intervals.
    """
    if not groups:
        return ()
    values = {CROSS_ENTROPY: -scores.log_probability, recall_key(1): 100.0 * expected_recall(scores, 1)}
    rows = [group.rows for group in groups]
    ranked = {key: cluster_intervals(column, clusters, rows, level=level) for key, column in values.items()}
    ends = {CROSS_ENTROPY: math.inf, recall_key(1): 100.0}
    places = predicted.places(len(scores)) if predicted is not None else None
    predictions: Any = scores.predictions
    segments: list[Segment] = []
    for number, group in enumerate(groups):
        own = {
            key: bounded(intervals[number], within=(0.0, ends[key]), level=level) for key, intervals in ranked.items()
        }
        num_rows, num_clusters = own[CROSS_ENTROPY].num_rows, own[CROSS_ENTROPY].num_clusters
        chosen: dict[str, Interval] = {}
        if predicted is not None and places is not None and group.is_whole:
            inside = places[group.rows]
            unknown = (math.nan, math.nan, math.nan, num_rows, num_clusters)
            exact = predicted.exact(inside[inside >= 0])
            chosen = {key: Interval(value, *unknown) for key, value in exact.items() if not metric_of(key).is_detail}
            if MACRO_F1 in chosen and len(np.unique(predictions.true[inside])) == 1:
                del chosen[MACRO_F1]  # a mean over classes says nothing of rows of one
        is_small = num_clusters < min_clusters
        segments.append(Segment(group.feature, group.value, num_rows, num_clusters, is_small, {**chosen, **own}))
    return tuple(segments)


def _signatures(groups: Sequence[NDArray[np.int64]], num_rows: int) -> NDArray[np.int64]:
    """Return a number for each row, the same for rows that are in the same groups; others agree by chance in 2^-64."""
    numbers = np.random.default_rng(0).integers(0, 2**64, size=len(groups), dtype=np.uint64)
    signatures = np.zeros(num_rows, dtype=np.uint64)
    for number, rows in zip(numbers, groups, strict=True):
        signatures[rows] += number
    return signatures.view(np.int64)


def worst_segment(segments: Sequence[Segment]) -> Segment | None:
    """Return the segment with the highest cross-entropy among those that are not small; None if all are."""
    eligible = [segment for segment in segments if not segment.is_small]
    return max(eligible, key=lambda segment: segment.metrics[CROSS_ENTROPY].value, default=None)


class CellLimit(NamedTuple):
    """The fewest clusters that a cell of a report may be about, and what these are called."""

    fewest: int
    clusters: str

    @property
    def name(self) -> str:
        """The name of the cell of all values of fewer clusters."""
        return f"(fewer than {self.fewest} {self.clusters})"

    def note(self, num_suppressed: int) -> str:
        """Return the sentence on the values that have no cell of their own."""
        return (
            f"{counted(num_suppressed, 'value')} of fewer than {self.fewest} {self.clusters} "
            f"{agreeing('are', num_suppressed)} shown together, or left out where all of them have fewer together."
        )


def grouped_rows(
    every: list[tuple[str, NDArray[np.int64]]], clusters: NDArray[np.int64], cells: CellLimit
) -> tuple[list[tuple[str, NDArray[np.int64]]], int]:
    """Return what ``rows_by_value`` found with the values of a few clusters in one group, and how many these are.

    Where that group, too, has fewer clusters than a cell needs it is left out.

    Example:
        >>> found = rows_by_value(["a", "a", "b", "c"])
        >>> grouped_rows(found, np.array([0, 1, 0, 1]), CellLimit(2, "customers"))
        ([('a', array([0, 1])), ('(fewer than 2 customers)', array([2, 3]))], 2)
    """
    is_few = [len(np.unique(clusters[rows])) < cells.fewest for _, rows in every]
    kept = [pair for pair, few in zip(every, is_few, strict=True) if not few]
    rest = [rows for (_, rows), few in zip(every, is_few, strict=True) if few]
    together = np.unique(np.concatenate(rest)) if rest else np.zeros(0, np.int64)
    if len(np.unique(clusters[together])) >= max(1, cells.fewest):
        kept.append((cells.name, together))
    return kept, len(rest)


def rows_by_value(column: Sequence[Any] | NDArray[Any]) -> list[tuple[str, NDArray[np.int64]]]:
    """Each value in its natural order, with the numbers of its rows; a list of values puts a row in each."""
    plain = column.tolist() if isinstance(column, np.ndarray) else list(column)
    distinct: dict[Any, int] = {}
    keys = (label if label.__class__ in _SINGLE else _key(label) for label in plain)
    codes = np.fromiter((distinct.setdefault(key, len(distinct)) for key in keys), dtype=np.int64, count=len(plain))
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    rows: dict[str, list[NDArray[np.int64]]] = {}
    for label, group in zip(distinct, groups, strict=True):
        names = ({_name(each) for each in label} or {EMPTY}) if isinstance(label, tuple) else {_name(label)}
        for name in names:
            rows.setdefault(name, []).append(group)
    found = ((name, np.sort(np.concatenate(parts))) for name, parts in rows.items())
    return sorted(found, key=lambda pair: _natural(pair[0]))


def _key(label: Any) -> Any:
    return tuple(label) if isinstance(label, list | tuple | set | frozenset | np.ndarray) else label


def _name(label: Any) -> str:
    if label is None or label != label:
        return MISSING
    return str(label).lower() if isinstance(label, bool) else str(label)


def _natural(value: str) -> tuple[int, float, str]:
    # Numbers and bins ("below 20", "20 to below 30", "30 and above") by size; what is missing comes last.
    if value in (MISSING, EMPTY):
        return 2, 0.0, value
    if value.startswith("below "):
        return 0, -math.inf, value
    try:
        number = float(value.partition(" ")[0])
    except ValueError:
        number = math.nan
    return (1, 0.0, value) if math.isnan(number) else (0, number, value)
