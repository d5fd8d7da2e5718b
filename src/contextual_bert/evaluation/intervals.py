"""Uncertainty of numbers: bootstrap over customers, paired differences, seeds, multiple comparisons.

Rows of one customer are not independent, so whole customers (clusters) are resampled, and a mean is a ratio: sum of
the drawn clusters' sums over the sum of their counts. Clusters are aggregated first, so a resample costs one row of a
matrix product, and all metrics share the same resamples. This module does not know what the values mean.

Paper: not there (it gives standard errors over three runs). References: Efron and Tibshirani 1993; Holm 1979.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contextual_bert.errors import ConfigurationError, DataError

Range = tuple[float, float]  # the smallest and the largest value
# Weights of one block of resamples stay near 16 MiB.
_BLOCK_CELLS = 2**21
# Quantiles of fewer are noise.
_FEWEST_RESAMPLES = 100
# A difference of this share of the largest one is none: it is what float64 leaves of equal numbers.
_ROUNDING = 1e-9


def cluster_codes(clusters: ArrayLike) -> NDArray[np.int64]:
    """Number the clusters 0.. in sorted order of their labels.

    Raises:
        ConfigurationError: no row, or no one label a row.
        DataError: a label is missing: None, NaN, NaT, NA.

    Example:
        >>> cluster_codes(["ann", "bob", "ann"]).tolist()
        [0, 1, 0]
    """
    labels = np.asarray(clusters)
    if labels.ndim != 1 or len(labels) == 0:
        raise ConfigurationError(
            f"clusters have shape {labels.shape}", fix="Give one label a row, and at least one row."
        )
    # Of a list with text and a gap numpy makes text, of the gap too.
    given = labels if isinstance(clusters, np.ndarray) else np.asarray(clusters, dtype=object)
    is_missing = [_is_missing(label) for label in given] if given.dtype.kind == "O" else given != given
    if np.any(is_missing):
        raise DataError(
            "no customer",
            row=int(np.argmax(is_missing)),
            column="clusters",
            fix="Give every row a customer; a row of an unknown customer can be a cluster of its own (its example id).",
        )
    names = labels.astype(str) if labels.dtype.kind == "O" else labels
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def finite_numbers(values: ArrayLike, clusters: ArrayLike) -> NDArray[np.float64]:
    """One number a row, for rows that have these clusters.

    Raises:
        ConfigurationError: another number of rows.
        DataError: a number that is not finite.

    Example:
        >>> finite_numbers([1, 2], ["ann", "bob"]).tolist()
        [1.0, 2.0]
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != np.shape(clusters):
        raise ConfigurationError(
            f"values have shape {numbers.shape} and clusters {np.shape(clusters)}: the rows must be the same ones."
        )
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise DataError(f"{numbers[wrong[0]]} has no mean", row=int(wrong[0]), fix="Give finite values.")
    return numbers


def _is_missing(label: Any) -> bool:
    """None, what is not itself, and the NA of pandas, which does not say."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


@dataclass(frozen=True)
class Interval:
    """A number with its interval; `low`, `high` and `standard_error` are NaN where one cluster leaves them unknown."""

    value: float
    low: float
    high: float
    standard_error: float
    num_rows: int
    num_clusters: int

    def excludes(self, number: float) -> bool:
        """Return True if the number lies outside the interval. It is never outside an unknown one."""
        return number < self.low or number > self.high


@dataclass(frozen=True)
class Difference:
    """A paired difference a - b, its two-sided p-value, and that p-value corrected for the other comparisons."""

    interval: Interval
    p_value: float
    adjusted_p_value: float | None = None


@dataclass(frozen=True)
class SeedMean:
    """Mean over training seeds and its standard error (NaN with one seed)."""

    mean: float
    standard_error: float
    num_seeds: int


class ClusterBootstrap:
    """Resample whole clusters with replacement: the same draws for every column it is asked about.

    Formula: mean*(r) = (sum over clusters of n_rc s_c) / (sum over clusters of n_rc m_c), n_r multinomial.

    Symbols: s_c sum of a cluster's values, m_c its number of rows, n_rc how often resample r drew it.

    Shapes: clusters (rows,); columns (rows, columns); answers (num_resamples, columns).

    Args:
        clusters: the label of each row's cluster (customer): whole numbers or strings, none missing.
        num_resamples: how many resamples; quantiles of fewer than 100 are noise.
        seed: of the draws.

    Relation to its siblings: `bootstrap` and `paired_bootstrap` are this for one column; `cluster_interval` is the
    closed form for the many small segments of a report.

    Reference: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 8 and 13.

    Example:
        >>> draws = ClusterBootstrap(["ann", "ann", "bob"], num_resamples=100, seed=0)
        >>> draws.num_clusters, draws.resampled_means(np.ones((3, 2))).shape
        (2, (100, 2))
    """

    def __init__(self, clusters: ArrayLike, *, num_resamples: int = 2000, seed: int = 0) -> None:
        if num_resamples < _FEWEST_RESAMPLES:
            raise ConfigurationError(
                "is not allowed", setting="num_resamples", value=num_resamples, fix="Give at least 100, better 2000."
            )
        self.codes = cluster_codes(clusters)
        self.num_rows, self.num_clusters = len(self.codes), int(self.codes.max()) + 1
        self.num_resamples, self.seed = num_resamples, seed

    def resampled_means(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean over rows of each column in each resample: (num_resamples, columns)."""
        return self.means_of(self.sums(columns))

    def sums(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over the rows of each cluster: (clusters, columns)."""
        if columns.ndim != 2 or len(columns) != self.num_rows:
            raise ConfigurationError(
                f"columns have shape {columns.shape}", fix=f"Give ({self.num_rows}, number of columns)."
            )
        each = [_on_grid(_cluster_sums(column, self.codes, self.num_clusters)) for column in columns.T]
        return np.stack(each, axis=1)

    def means_of(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean over rows in each resample, of columns of which the sum in each cluster is known.

        Args:
            sums: (clusters, columns); those of several calls of ``sums`` may stand beside each other.
        """
        counts = np.bincount(self.codes, minlength=self.num_clusters).astype(np.float64)
        table = np.concatenate([counts[:, None], sums], axis=1)
        generator = np.random.default_rng(self.seed)
        block = max(1, _BLOCK_CELLS // self.num_clusters)
        totals: list[NDArray[np.float64]] = []
        for start in range(0, self.num_resamples, block):
            rows = min(block, self.num_resamples - start)
            drawn = generator.integers(0, self.num_clusters, size=(rows, self.num_clusters))
            drawn += self.num_clusters * np.arange(rows)[:, None]
            weights = np.bincount(drawn.ravel(), minlength=rows * self.num_clusters).reshape(rows, -1)
            totals.append(weights.astype(np.float64) @ table)
        total = np.concatenate(totals)
        return total[:, 1:] / total[:, :1]

    def interval(
        self, value: float, replicates: NDArray[np.float64], *, level: float = 0.95, within: Range = (0.0, math.inf)
    ) -> Interval:
        """The percentile interval of a statistic whose value in each resample is given.

        A share that is none or all (the ends of `within`) in every resample is not certain: see `bounded`. A resample
        without any row that the statistic is about has NaN and is left out; the rest must be 100.
        """
        tail, replicates = _tail(level), replicates[~np.isnan(replicates)]
        if self.num_clusters < 2 or len(replicates) < _FEWEST_RESAMPLES:
            return Interval(value, math.nan, math.nan, math.nan, self.num_rows, self.num_clusters)
        low, high = np.quantile(replicates, [tail, 1 - tail]).tolist()
        found = Interval(value, low, high, float(replicates.std(ddof=1)), self.num_rows, self.num_clusters)
        return bounded(found, within=within, level=level) if math.isfinite(within[1]) else found

    def difference(self, value: float, replicates: NDArray[np.float64], *, level: float = 0.95) -> Difference:
        """The percentile interval of a difference, with the p-value of "no difference" that inverts it.

        No p-value is below 2^(1 - clusters): an exact test, which turns the signs of the clusters, gives no less.
        """
        replicates = replicates[~np.isnan(replicates)]
        if len(replicates) < _FEWEST_RESAMPLES:
            return Difference(self.interval(value, replicates, level=level), math.nan)
        # A mean over three seeds leaves 1e-14 where there is no difference: it must not count for one side.
        replicates = np.where(np.abs(replicates) <= _ROUNDING * np.abs(replicates).max(), 0.0, replicates)
        below, above = int((replicates <= 0).sum()), int((replicates >= 0).sum())
        p_value = 2 * (1 + min(below, above)) / (1 + len(replicates))
        p_value = min(1.0, max(p_value, 2.0 ** (1 - self.num_clusters)))
        return Difference(self.interval(value, replicates, level=level), p_value if self.num_clusters > 1 else math.nan)


def bootstrap(
    values: ArrayLike, clusters: ArrayLike, *, num_resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> Interval:
    """The mean of the values over rows, with the percentile interval of a bootstrap over clusters.

    Example:
        >>> bootstrap([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "c"]).value
        2.5
    """
    numbers = finite_numbers(values, clusters)
    draws = ClusterBootstrap(clusters, num_resamples=num_resamples, seed=seed)
    replicates = draws.resampled_means(numbers[:, None])[:, 0]
    return draws.interval(math.fsum(numbers.tolist()) / len(numbers), replicates, level=level)


def paired_bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    clusters: ArrayLike,
    *,
    num_resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Difference:
    """The mean of a - b over the same rows, with its interval and p-value: far sharper than two separate intervals.

    Example:
        >>> paired_bootstrap([3.0, 5.0, 4.0], [2.0, 3.0, 1.0], ["x", "y", "z"]).interval.value
        2.0
    """
    first, second = finite_numbers(a, clusters), finite_numbers(b, clusters)
    difference = first - second
    draws = ClusterBootstrap(clusters, num_resamples=num_resamples, seed=seed)
    replicates = draws.resampled_means(difference[:, None])[:, 0]
    return draws.difference(math.fsum(difference.tolist()) / len(difference), replicates, level=level)


def cluster_interval(values: ArrayLike, clusters: ArrayLike, *, level: float = 0.95) -> Interval:
    """The mean over rows with its cluster-robust standard error and a Student interval: the bootstrap's closed form.

    Formula: variance = C / (C - 1) * sum over clusters of (s_c - mean m_c)^2 / rows^2, C - 1 degrees of freedom.
    """
    numbers, codes = finite_numbers(values, clusters), cluster_codes(clusters)
    return cluster_intervals(numbers, codes, [np.arange(len(numbers))], level=level)[0]


def cluster_intervals(
    values: NDArray[np.float64], clusters: NDArray[np.int64], groups: Sequence[NDArray[np.int64]], *, level: float
) -> list[Interval]:
    """``cluster_interval`` of each group of rows, all at once: there may be thousands of groups.

    Args:
        values: one a row.
        clusters: one a row, numbered from 0.
        groups: the numbers of the rows of each, one or more; a row may be in several.
        level: of the intervals.

    Example:
        >>> values, clusters = np.array([1.0, 3.0, 5.0]), np.array([0, 1, 1])
        >>> [each.value for each in cluster_intervals(values, clusters, [np.array([0, 1]), np.array([2])], level=0.95)]
        [2.0, 5.0]
    """

    from scipy.special import stdtrit  # noqa: PLC0415 - an export is served without scipy

    sizes = np.array([len(rows) for rows in groups])
    rows, group = np.concatenate(groups), np.repeat(np.arange(len(groups)), sizes)
    order = np.argsort(values[rows], kind="stable")  # the digits do not depend on the order of the rows
    rows, group = rows[order], group[order]
    means = np.array([math.fsum(values[own].tolist()) / len(own) for own in groups])
    width = int(clusters.max()) + 1
    pairs, places = np.unique(group * width + clusters[rows], return_inverse=True)
    residuals = np.bincount(places, weights=values[rows] - means[group])
    num_clusters = np.bincount(pairs // width)
    with np.errstate(divide="ignore", invalid="ignore"):  # of one cluster the error is unknown
        variances = num_clusters / (num_clusters - 1) * np.bincount(pairs // width, weights=residuals**2) / sizes**2
        errors = np.where(num_clusters > 1, np.sqrt(variances), np.nan)
    halves = stdtrit(np.maximum(num_clusters - 1, 1), 1 - _tail(level)) * errors
    # One NaN for all: by it equal reports are equal.
    numbers = (
        [number if number == number else math.nan for number in column.tolist()]
        for column in (means, means - halves, means + halves, errors)
    )
    return [Interval(*each) for each in zip(*numbers, sizes.tolist(), num_clusters.tolist(), strict=True)]


def bounded(interval: Interval, *, within: Range, level: float = 0.95) -> Interval:
    """The interval within two limits; where no cluster differs from one of them, the exact binomial limit.

    With the upper one infinite only what lies below the other is cut.

    Example:
        >>> bounded(Interval(0.0, 0.0, 0.0, 0.0, 90, 30), within=(0.0, 100.0)).high > 10
        True
    """
    if math.isnan(interval.low):
        return interval
    lowest, highest = within
    low, high = max(lowest, interval.low), min(highest, interval.high)
    # Clopper and Pearson 1934 for none (or all) of n clusters: a standard error of 0 is no certainty.
    is_share = interval.standard_error == 0 and math.isfinite(highest)
    width = (highest - lowest) * (1 - _tail(level) ** (1 / interval.num_clusters)) if is_share else 0.0
    if math.isclose(interval.value, lowest, abs_tol=1e-12):
        high = max(high, lowest + width)
    if interval.value == highest:
        low = min(low, highest - width)
    return replace(interval, low=low, high=high)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down correction: p-values that keep the family-wise error rate, in the order given.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        (0.03, 0.06, 0.06)
    """
    wrong = [p for p in p_values if not 0 <= p <= 1]
    if wrong:
        raise ConfigurationError(f"p-value {wrong[0]} is not between 0 and 1. Leave comparisons without one out.")
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def seed_mean(values: Sequence[float]) -> SeedMean:
    """Mean and standard error over seeds.

    Example:
        >>> seed_mean([1.0, 2.0, 3.0]).mean
        2.0
    """
    if not values:
        raise ConfigurationError("No seeds to average over", fix="Give the value of at least one run.")
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    n = len(values)
    return SeedMean(mean, math.sqrt(squares / (n - 1) / n) if n > 1 else math.nan, n)


def _cluster_sums(column: NDArray[np.float64], codes: NDArray[np.int64], num_clusters: int) -> NDArray[np.float64]:
    # Adding in the order of the values makes the digits independent of the order of the rows.
    order = np.argsort(column, kind="stable")
    return np.bincount(codes[order], weights=column[order], minlength=num_clusters).astype(np.float64)


def _on_grid(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to a grid so fine that it does not matter and so coarse that every sum of as many draws is exact.

    Then a matrix product has the same digits in any order: any number of threads, of columns, any processor.
    """
    largest = len(sums) * float(np.abs(sums).max())
    if largest == 0:
        return sums
    grid = 2.0 ** (math.ceil(math.log2(largest)) - 52)
    return np.round(sums / grid) * grid


def _tail(level: float) -> float:
    if not 0 < level < 1:
        raise ConfigurationError(
            "is not allowed", setting="level", value=level, fix="Give a number between 0 and 1, such as 0.95."
        )
    return (1 - level) / 2
