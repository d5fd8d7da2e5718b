"""Rows whose metrics are functions of the means of a few columns, whatever was predicted: labels, tags or answers.

So a bootstrap resamples the columns once for all metrics, and none is ever averaged over batches. Here is what reports
and comparisons ask of such rows, and what they make of them alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.clusters import cluster_codes
from contextual_bert.evaluation.metrics import exact_mean
from contextual_bert.evaluation.segments import CellLimit, grouped_rows, rows_by_value


class MeasuredRows(Protocol):
    """What was predicted at some places, and what is true there.

    Attributes:
        example_id: row of the original table.
        position: within it.
        true: id of what is true.
        names: of these ids.
        main: key of the metric that decides.
        notes: what a reader must know of the metrics.
    """

    @property
    def example_id(self) -> NDArray[np.int64]: ...

    @property
    def position(self) -> NDArray[np.int64]: ...

    @property
    def true(self) -> NDArray[np.int64]: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def main(self) -> str: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """The rows a boolean mask or an array of row numbers names."""
        ...

    def order(self) -> NDArray[np.int64]:
        """The row numbers that put the rows in the order of (example_id, position)."""
        ...

    def sorted(self) -> Self:
        """The same rows in that order."""
        ...

    def columns(self) -> NDArray[np.float64]:
        """(rows, columns): the columns whose means ``metrics`` takes."""
        ...

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, for each of the leading axes."""
        ...

    def check_whole(self, codes: NDArray[np.int64], *, column: str) -> None:
        """Raise DataError where rows that are counted together have different numbers."""
        ...


def measured_columns(rows: MeasuredRows) -> NDArray[np.float64]:
    """``rows.columns()``; an error where there is no row."""
    if len(rows) == 0:
        raise DataError("there is no labelled row to evaluate", fix="Give a part with at least one label.")
    return rows.columns()


def exact_metrics(rows: MeasuredRows, columns: NDArray[np.float64]) -> dict[str, float]:
    """Key -> metric of some of the rows' columns, from sums that are rounded once: the same digits in any order."""
    means = np.array([exact_mean(column) for column in columns.T])
    return {key: float(value) for key, value in rows.metrics(means).items()}


def row_clusters(rows: MeasuredRows, clusters: ArrayLike) -> NDArray[np.int64]:
    """The cluster number of each row; an error unless there is one a row and, with tags, one a text."""
    codes = cluster_codes(clusters)
    if len(codes) != len(rows):
        raise ConfigurationError(f"clusters has {len(codes)} labels for {len(rows)} rows. Give one a labelled row.")
    rows.check_whole(codes, column="clusters")
    return codes


class Members(NamedTuple):
    """One value of one feature of the groups, and the numbers of its rows."""

    feature: str
    value: str
    rows: NDArray[np.int64]


def row_groups(
    rows: MeasuredRows, groups: Mapping[str, Sequence[Any]], *, clusters: NDArray[np.int64], cells: CellLimit
) -> tuple[list[Members], int]:
    """Each value of each feature, in the order of the features and then of the values; how many have no group.

    A row without a value is in the group of those; a list of values puts a row in each of their groups. Values of a few
    clusters are one group, see ``grouped_rows``.
    """
    found: list[Members] = []
    num_suppressed = 0
    for feature, column in groups.items():
        if len(column) != len(rows):
            raise ConfigurationError(
                f"groups[{feature!r}] has {len(column)} values for {len(rows)} rows. Give one a labelled row."
            )
        every = rows_by_value(column)
        for _, numbers in every:
            is_member = np.zeros(len(rows), dtype=np.int64)
            is_member[numbers] = 1
            rows.check_whole(is_member, column=feature)
        values, num_few = grouped_rows(every, clusters, cells)
        num_suppressed += num_few
        found += [Members(feature, value, numbers) for value, numbers in values]
    return found, num_suppressed
