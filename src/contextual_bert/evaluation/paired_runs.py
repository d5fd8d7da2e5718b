"""Runs on the same rows: metrics of each, and paired differences between methods with their intervals.

A difference is one of means over the seeds that both methods have, in each resample of the customers too. So its
interval speaks of other customers, and the standard error of other seeds. Everything is computed once, when it is made.

Reference: docs/protocol.md.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation.alignment import Run, align_runs, group_runs
from contextual_bert.evaluation.intervals import ClusterBootstrap, Difference, Interval, SeedMean, seed_mean
from contextual_bert.evaluation.measures import Measures, measures_of, resampled
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, main_metric, metric_of, usable_ks
from contextual_bert.evaluation.report import EvaluationSettings, default_settings


class OverSeeds(NamedTuple):
    """One metric of some runs: mean over seeds, and the same mean in each resample."""

    mean: SeedMean
    replicates: NDArray[np.float64]


class PairedRuns:
    """Metrics of runs on the same rows, and their paired differences.

    Formula: difference = (mean of the metric of a over the seeds that both have) - (the same of b).

    Args:
        runs: on the same rows, in any order of them.
        num_items: how many items, labels or tokens were ranked, if known.
        settings: how to evaluate.

    Raises:
        ConfigurationError, DataError: the runs do not fit each other.

    Relation to its siblings: `compare_runs` makes a table of it; `paired_bootstrap` is one difference of plain numbers.

    Example:
        >>> from contextual_bert.evaluation import Scores
        >>> scores = Scores([0, 1], [0, 0], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> better = Scores([0, 1], [0, 0], np.log([0.5, 0.5]), [0, 3], [1, 1], [0.5, 0.5])
        >>> paired = PairedRuns([Run("none", 0, scores), Run("film", 0, better)])
        >>> round(paired.difference("film", "none").interval.value, 3)
        -0.347
    """

    def __init__(
        self, runs: Sequence[Run], *, num_items: int | None = None, settings: EvaluationSettings | None = None
    ) -> None:
        self.runs, self.groups, self.num_items = tuple(runs), group_runs(runs), num_items
        self.scores, codes = align_runs(runs, num_items=num_items)
        settings = settings or default_settings(self.scores[0])
        if all(run.clusters is None for run in runs):
            settings = replace(settings, cluster_name=settings.set_name)
        self.settings = settings
        self.draws = ClusterBootstrap(codes, num_resamples=settings.num_resamples, seed=settings.seed)
        kept, _ = usable_ks(settings.ks, num_items)
        set_ks, _ = usable_ks(settings.set_ks, num_items)
        self.measures: list[list[Measures]] = [  # a list a run
            measures_of(each, kept, set_ks=set_ks) for each in self.scores
        ]
        self.metrics: list[dict[str, float]] = [
            {key: value for each in own for key, value in each.exact().items()} for own in self.measures
        ]
        self._replicates: list[dict[str, NDArray[np.float64]]] = [{} for _ in self.runs]
        for alike in zip(*self.measures, strict=True):
            for number, found in enumerate(resampled(alike, self.draws)):
                self._replicates[number] |= found

    @property
    def main(self) -> str:
        """Key of the metric that the runs are judged by."""
        return main_metric(self.metrics[0])

    @property
    def main_measures(self) -> list[Measures]:
        """Of each run, the measures that the main metric is one of."""
        key = self.main
        return [next(each for each in own if key in each.metrics(each.columns[0])) for own in self.measures]

    def of_shared_seeds(self) -> Self:
        """Return the runs of the seeds that all methods have, and baselines; all where no seed is shared by all."""
        seeds: dict[str, set[int]] = {}
        for run in self.runs:
            if run.role == "method":
                seeds.setdefault(run.name, set()).add(run.seed)
        shared = set[int].intersection(*seeds.values()) if seeds else set[int]()
        kept = [n for n, run in enumerate(self.runs) if run.role != "method" or run.seed in shared or not shared]
        return self._restricted(kept)

    def mean(self, name: str, key: str = CROSS_ENTROPY) -> float:
        """Return the mean over all seeds of a method."""
        return self.over_seeds(self.groups[name], key).mean.mean

    def over_seeds(self, numbers: Sequence[int], key: str) -> OverSeeds:
        """Return a metric over some of the runs.

        Args:
            numbers: of the runs.
            key: of the metric.
        """
        return OverSeeds(
            seed_mean([self.metrics[number][key] for number in numbers]),
            # Sorted, so that the order of the seeds changes no digit and equal methods differ by exactly 0.
            np.sort([self._replicates[number][key] for number in numbers], axis=0).mean(axis=0),
        )

    def interval(self, name: str, key: str = CROSS_ENTROPY) -> Interval:
        """Return the mean over all seeds of a method with its interval over customers."""
        found = self.over_seeds(self.groups[name], key)
        limits = metric_of(key).range(self.num_items)
        return self.draws.interval(found.mean.mean, found.replicates, level=self.settings.level, within=limits)

    def difference(self, name: str, other: str, key: str = CROSS_ENTROPY) -> Difference:
        """Return the first method minus the second, on the seeds that both have."""
        own, others = (self.over_seeds(numbers, key) for numbers in self.pair(name, other))
        value, replicates = own.mean.mean - others.mean.mean, own.replicates - others.replicates
        return self.draws.difference(value, replicates, level=self.settings.level)

    def pair(self, name: str, other: str) -> tuple[list[int], list[int]]:
        """Return the numbers of the runs of two methods to set against each other: of the seeds that both have.

        A seed makes more of a difference than two methods may, so one row's third is not set against another's first
        two. All runs where one of the two is a baseline or the oracle, whose seed means little, or where no seed is
        shared.
        """
        pair = (self.groups[name], self.groups[other])
        is_trained = all(self.runs[numbers[0]].role in ("method", "control") for numbers in pair)
        first, second = ({self.runs[number].seed for number in numbers} for numbers in pair)
        kept = first & second if is_trained and first & second else first | second
        own, others = ([number for number in numbers if self.runs[number].seed in kept] for numbers in pair)
        return own, others

    def names(self, *roles: str) -> list[str]:
        """Return the methods of these roles, in the order given."""
        return [name for name, numbers in self.groups.items() if self.runs[numbers[0]].role in roles]

    def ranked(self, *roles: str, key: str = CROSS_ENTROPY) -> list[str]:
        """Return the methods of these roles, the best first."""
        sign = -1 if metric_of(key).is_higher_better else 1
        return sorted(self.names(*roles), key=lambda name: sign * self.mean(name, key))

    def on_rows(self, chosen: NDArray[np.bool_], names: Sequence[str]) -> "PairedRuns":
        """Return the runs of some methods on some of the rows.

        Args:
            chosen: a mask, (rows,), in the order of (example_id, position).
            names: of the methods.
        """
        runs = [
            replace(run, scores=scores.select(chosen), clusters=self.draws.codes[chosen])
            for run, scores in zip(self.runs, self.scores, strict=True)
            if run.name in names
        ]
        return PairedRuns(runs, num_items=self.num_items, settings=self.settings)

    def _restricted(self, numbers: Sequence[int]) -> Self:
        own = copy(self)
        own.runs = tuple(self.runs[number] for number in numbers)
        own.groups = group_runs(own.runs)
        own.scores = [self.scores[number] for number in numbers]
        own.measures = [self.measures[number] for number in numbers]
        own.metrics = [self.metrics[number] for number in numbers]
        own._replicates = [self._replicates[number] for number in numbers]
        return own
