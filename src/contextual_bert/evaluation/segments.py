"""The numbers for each value of each feature: whom a model serves badly.

A row belongs to the segment of its label, or to several where the feature has several values. Labels of a few
clusters are one segment together, for a report of a few customers tells about each of them. Intervals are
cluster-robust and closed form, because there may be thousands of segments. This module does not know features or
customers: only labels, one a row.

Paper: not there. PROTOCOL, point 11.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.intervals import Interval, bounded, cluster_intervals
from contextual_bert.evaluation.metrics import Scores, expected_recall

MISSING = "(missing)"
EMPTY = "(empty)"
_SINGLE = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True)
class Segment:
    """One value of one feature; `is_small`: fewer clusters than the minimum, too few to trust its interval."""

    feature: str
    value: str
    num_rows: int
    num_clusters: int
    is_small: bool
    cross_entropy_nats: Interval
    recall_at_1_percent: Interval

    @property
    def name(self) -> str:
        return f"{self.feature} = {self.value}"


def evaluate_segments(
    scores: Scores,
    *,
    clusters: NDArray[np.int64],
    labels: Mapping[str, Sequence[Any] | NDArray[Any]],
    min_clusters: int,
    level: float,
    cells: "CellLimit",
) -> tuple[tuple[Segment, ...], int]:
    """Return one Segment for each value of each feature, and how many values have no segment of their own.

    They are in the order of the features and then of the values; see ``grouped_rows`` for the values of a few clusters.
    """
    num_suppressed = 0
    loss, recall = -scores.log_probability, 100.0 * expected_recall(scores, 1)
    segments: list[Segment] = []
    for feature, column in labels.items():
        if len(column) != len(scores):
            raise ConfigurationError(
                f"segments[{feature!r}] has {len(column)} labels for {len(scores)} rows. Give one a masked position."
            )
        found, num_few = grouped_rows(rows_by_value(column), clusters, cells)
        num_suppressed += num_few
        if not found:
            continue
        names, groups = zip(*found, strict=True)
        losses, recalls = (cluster_intervals(values, clusters, groups, level=level) for values in (loss, recall))
        for value, cross_entropy, hits in zip(names, losses, recalls, strict=True):
            cross_entropy = bounded(cross_entropy, within=(0.0, math.inf), level=level)
            hits = bounded(hits, within=(0.0, 100.0), level=level)
            num_rows, num_clusters = cross_entropy.num_rows, cross_entropy.num_clusters
            is_small = num_clusters < min_clusters
            segments.append(Segment(feature, value, num_rows, num_clusters, is_small, cross_entropy, hits))
    return tuple(segments), num_suppressed


def worst_segment(segments: Sequence[Segment]) -> Segment | None:
    """The highest cross-entropy among the segments that are not small; None if all are."""
    eligible = [segment for segment in segments if not segment.is_small]
    return max(eligible, key=lambda segment: segment.cross_entropy_nats.value, default=None)


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
            f"{num_suppressed:,} value{'s' if num_suppressed != 1 else ''} of fewer than {self.fewest} {self.clusters} "
            f"are shown together, or left out where they have fewer together."
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
