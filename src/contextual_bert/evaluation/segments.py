"""The numbers for each value of each feature: whom a model serves badly.

A row belongs to the segment of its label, or to several where the feature has several values. Intervals are
cluster-robust and closed form, because there may be thousands of segments. This module does not know features or
customers: only labels, one a row.

Paper: not there. PROTOCOL, point 11.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
) -> tuple[Segment, ...]:
    """One Segment for each value of each feature, in the order of the features and then of the values."""
    loss, recall = -scores.log_probability, 100.0 * expected_recall(scores, 1)
    segments: list[Segment] = []
    for feature, column in labels.items():
        if len(column) != len(scores):
            raise ConfigurationError(
                f"segments[{feature!r}] has {len(column)} labels for {len(scores)} rows. Give one a masked position."
            )
        names, groups = zip(*rows_by_value(column), strict=True)
        losses, recalls = (cluster_intervals(values, clusters, groups, level=level) for values in (loss, recall))
        for value, cross_entropy, hits in zip(names, losses, recalls, strict=True):
            cross_entropy = bounded(cross_entropy, within=(0.0, math.inf), level=level)
            hits = bounded(hits, within=(0.0, 100.0), level=level)
            num_rows, num_clusters = cross_entropy.num_rows, cross_entropy.num_clusters
            is_small = num_clusters < min_clusters
            segments.append(Segment(feature, value, num_rows, num_clusters, is_small, cross_entropy, hits))
    return tuple(segments)


def worst_segment(segments: Sequence[Segment]) -> Segment | None:
    """The highest cross-entropy among the segments that are not small; None if all are."""
    eligible = [segment for segment in segments if not segment.is_small]
    return max(eligible, key=lambda segment: segment.cross_entropy_nats.value, default=None)


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
