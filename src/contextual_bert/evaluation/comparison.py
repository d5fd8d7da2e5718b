"""Several methods beside each other: mean and standard error over seeds, and paired differences to a reference.

A difference pairs the same masked positions, averages each first over the seeds that both methods have, and resamples
customers, so its interval speaks of other customers and the standard error of other seeds. This module does not know
what was trained: a run is a name, a seed, its scores and what it cost.

Paper: Table 1 (mean and standard error of three runs). PROTOCOL, points 9-13.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.console import Group

from contextual_bert.errors import UnknownNameError, did_you_mean
from contextual_bert.evaluation.alignment import (
    Run,
    align_runs,
    group_runs,
    machine_warnings,
    mean_cost,
    paired_runs,
    seed_warnings,
)
from contextual_bert.evaluation.asked import Asked
from contextual_bert.evaluation.comparison_rows import (
    ComparisonRow,
    asked_table,
    cost_table,
    difference_table,
    methods_table,
)
from contextual_bert.evaluation.intervals import ClusterBootstrap, Difference, Interval, holm, seed_mean
from contextual_bert.evaluation.metrics import (
    CROSS_ENTROPY,
    exact_mean,
    metric_of,
    recall_curve,
    row_values,
    summarise,
    usable_ks,
)
from contextual_bert.evaluation.report import FEW_CLUSTERS, EvaluationSettings, rows_in_words
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import (
    Provenance,
    Table,
    metric_notes,
    plural,
    render_markdown,
    render_rich,
)

# A method and one of its metrics.
Cell = tuple[str, str]


@dataclass(frozen=True)
class Comparison(JsonText):
    """The table of a study: one row a method.

    Formula: difference = mean over rows of (mean of a over the seeds that both have) - (the same of the reference).

    Symbols: as in Report; `metrics` are over seeds, `intervals` and `differences` over customers.

    Shapes: `rows` one a method, in the order the runs were given.

    Args:
        reference: the method the others are compared with.
        num_rows, num_sets, num_clusters, num_items: what was evaluated.
        settings: how it was evaluated.
        rows: one a method.
        warnings: what a reader must know before believing the table.
        provenance: data, commit, seeds, hardware, recipe.
        asked: how much of the part was scored, the same for all rows; None: not known.

    Relation to its siblings: `compare_runs` makes it; `Report` is one run in depth.

    Reference: Contextual BERT, Table 1; PROTOCOL, points 9-13.

    Example:
        >>> from contextual_bert.evaluation.metrics import Scores
        >>> scores = Scores([0, 1], [0, 0], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> runs = [Run("none", 0, scores, ["ann", "bob"]), Run("global_state", 0, scores, ["ann", "bob"])]
        >>> compare_runs(runs, reference="none").rows[1].differences["cross_entropy_nats"].interval.value
        0.0
    """

    reference: str
    num_rows: int
    num_sets: int
    num_clusters: int
    num_items: int | None
    settings: EvaluationSettings
    rows: tuple[ComparisonRow, ...]
    warnings: tuple[str, ...]
    provenance: Provenance
    asked: Asked | None = None

    def to_markdown(self) -> str:
        return render_markdown(self.heading(), self.tables(), self.notes())

    def to_rich(self) -> Group:
        return render_rich(self.heading(), self.tables(), self.notes())

    def notes(self) -> list[str]:
        """The footer: units, what brackets mean, warnings, provenance."""
        settings = self.settings
        left_out = usable_ks(settings.ks, self.num_items)[1]
        notes = metric_notes(
            num_items=self.num_items,
            left_out_ks=left_out,
            choice=settings.choice_name,
            cross_entropies={row.name: row.metrics[CROSS_ENTROPY].mean for row in self.rows},
        )
        notes.append(
            "First table: mean over seeds, standard error over seeds in brackets; (-) where there is one seed."
        )
        notes.append(
            f"Differences to {self.reference}: {100 * settings.level:g}% interval from a paired bootstrap over "
            f"{self.num_clusters:,} {plural(settings.cluster_name)} ({settings.num_resamples:,} resamples, seed "
            f"{settings.seed}), each position averaged over the seeds first, between trained "
            "methods over those that both have; p corrected by Holm over the rows of its column."
        )
        if settings.choice_name == "item" and any(row.cost.parameters is not None for row in self.rows):
            notes.append(
                "Parameters are counted as in the paper's Table 1: without the vectors of the items, the encoder of "
                "the context and the output."
            )
        if self.asked is not None:
            notes.append(self.asked.note())
        return [*notes, *(f"Warning: {warning}" for warning in self.warnings), self.provenance.line()]

    def heading(self) -> str:
        return f"Comparison on {rows_in_words(self.settings, self.num_rows, self.num_sets, self.num_clusters)}"

    def tables(self) -> list[Table]:
        """The four below, where there is something in them."""
        tables = (self.methods_table(), self.asked_table(), self.difference_table(), self.cost_table())
        return [table for table in tables if table.rows]

    def methods_table(self) -> Table:
        return methods_table(self.rows)

    def asked_table(self) -> Table:
        """The recall over all items of the part; without rows where all were scored, or that is not known."""
        return asked_table(self.rows, self.asked)

    def difference_table(self) -> Table:
        return difference_table(self.rows, reference=self.reference, num_resamples=self.settings.num_resamples)

    def cost_table(self) -> Table:
        return cost_table(self.rows)


def compare_runs(
    runs: Sequence[Run],
    *,
    reference: str,
    num_items: int | None = None,
    settings: EvaluationSettings | None = None,
    provenance: Provenance | None = None,
    asked: Asked | None = None,
) -> Comparison:
    """One row a method from runs on the same masked positions; where no run names customers, each set is a cluster."""
    settings, groups = settings or EvaluationSettings(), group_runs(runs)
    if reference not in groups:
        raise UnknownNameError(f"The reference {reference!r} is not among the runs. {did_you_mean(reference, groups)}")
    scores, codes = align_runs(runs, num_items=num_items)
    if all(run.clusters is None for run in runs):
        settings = replace(settings, cluster_name=settings.set_name)
    kept, _ = usable_ks(settings.ks, num_items)
    numbers = [summarise(each, ks=kept, num_items=num_items, num_bins=settings.num_bins) for each in scores]
    curves = [recall_curve(each, largest_k=max(kept, default=1)) for each in scores]
    values = [row_values(each, kept) for each in scores]

    def mean(members: Sequence[int], key: str) -> NDArray[np.float64]:
        return np.mean([values[run][key] for run in members], axis=0)

    means = {(name, key): mean(members, key) for name, members in groups.items() for key in values[0]}
    pairs = {name: paired_runs(name, reference, groups, runs) for name in groups if name != reference}
    # Differences are resampled as rows of their own, so that equal methods differ by exactly 0.
    gaps = {
        (name, key): mean(own, key) - mean(others, key) for name, (own, others) in pairs.items() for key in values[0]
    }
    draws = ClusterBootstrap(codes, num_resamples=settings.num_resamples, seed=settings.seed)
    intervals, differences = _intervals(means, gaps, draws=draws, level=settings.level, num_items=num_items)
    rows: list[ComparisonRow] = []
    for name, members in groups.items():
        row = ComparisonRow(
            name=name,
            role=runs[members[0]].role,
            seeds=tuple(runs[run].seed for run in members),
            metrics={key: seed_mean([numbers[run][key] for run in members]) for key in numbers[0]},
            intervals={key: interval for (method, key), interval in intervals.items() if method == name},
            differences={key: difference for (method, key), difference in differences.items() if method == name},
            curve=_mean_curve([curves[run] for run in members]),
            cost=mean_cost([runs[run].cost for run in members]),
        )
        rows.append(row)
    few = (
        f"few {plural(settings.cluster_name)} ({draws.num_clusters}): the intervals are too narrow or unknown, p too "
        "small."
    )
    return Comparison(
        reference=reference,
        num_rows=len(scores[0]),
        num_sets=len(np.unique(scores[0].example_id)),
        num_clusters=draws.num_clusters,
        num_items=num_items,
        settings=settings,
        rows=tuple(rows),
        warnings=(
            *seed_warnings(groups, runs),
            *machine_warnings({row.name: row.cost for row in rows}),
            *_beaten_oracles(rows, means, draws=draws, level=settings.level),
            *([few] if draws.num_clusters < FEW_CLUSTERS else []),
        ),
        provenance=provenance or Provenance(),
        asked=asked,
    )


def _intervals(
    means: Mapping[Cell, NDArray[np.float64]],
    gaps: Mapping[Cell, NDArray[np.float64]],
    *,
    draws: ClusterBootstrap,
    level: float,
    num_items: int | None,
) -> tuple[dict[Cell, Interval], dict[Cell, Difference]]:
    """Of every (method, metric): its interval, and its corrected difference to the reference."""
    replicates = draws.resampled_means(np.stack([*means.values(), *gaps.values()], axis=1)).T
    intervals = {
        cell: draws.interval(exact_mean(column), replicate, level=level, within=metric_of(cell[1]).range(num_items))
        for (cell, column), replicate in zip(means.items(), replicates[: len(means)], strict=True)
    }
    differences = {
        cell: draws.difference(exact_mean(column), replicate, level=level)
        for (cell, column), replicate in zip(gaps.items(), replicates[len(means) :], strict=True)
    }
    return intervals, adjusted_for_many(differences)


def adjusted_for_many(differences: Mapping[Cell, Difference]) -> dict[Cell, Difference]:
    """The differences with p-values corrected by Holm over the methods of a metric; one cluster has no p-value."""
    adjusted = dict(differences)
    for metric in {key for _, key in differences}:
        family = [cell for cell in differences if cell[1] == metric]
        p_values = [differences[cell].p_value for cell in family]
        if not any(math.isnan(p_value) for p_value in p_values):
            for cell, p_value in zip(family, holm(p_values), strict=True):
                adjusted[cell] = replace(differences[cell], adjusted_p_value=p_value)
    return adjusted


def _beaten_oracles(
    rows: Sequence[ComparisonRow], means: Mapping[Cell, NDArray[np.float64]], *, draws: ClusterBootstrap, level: float
) -> list[str]:
    warnings: list[str] = []
    for oracle in (row.name for row in rows if row.role == "oracle"):
        others = [row.name for row in rows if row.role != "oracle"]
        gaps = [means[name, CROSS_ENTROPY] - means[oracle, CROSS_ENTROPY] for name in others]
        replicates = draws.resampled_means(np.stack(gaps, axis=1)).T if gaps else []
        for name, gap, replicate in zip(others, gaps, replicates, strict=True):
            if draws.interval(exact_mean(gap), replicate, level=level).high < 0:
                warnings.append(
                    f"{name} beats {oracle} in CE beyond the interval: there is a leak, or it is no oracle."
                )
    return warnings


def _mean_curve(curves: Sequence[tuple[tuple[int, float], ...]]) -> tuple[tuple[int, float], ...]:
    ks = [k for k, _ in curves[0]]
    return tuple((k, seed_mean([curve[index][1] for curve in curves]).mean) for index, k in enumerate(ks))
