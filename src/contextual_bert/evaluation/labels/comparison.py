"""Several methods on the same labelled rows: mean and standard error over seeds, paired differences, groups.

As `evaluation.comparison` for masked positions, whose rows and tables it fills. This module does not know what was
trained.

Papers: MA-BERT (2021), Tables 2 to 4. PROTOCOL, points 9-11, 13.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Group

from contextual_bert.errors import UnknownNameError, did_you_mean
from contextual_bert.evaluation.alignment import group_runs, mean_cost, paired_runs, seed_warnings
from contextual_bert.evaluation.comparison import adjusted_for_many
from contextual_bert.evaluation.comparison_rows import ComparisonRow, cost_table, difference_table, methods_table
from contextual_bert.evaluation.intervals import ClusterBootstrap, Difference, SeedMean, seed_mean
from contextual_bert.evaluation.labels.alignment import LabelRun, aligned_rows
from contextual_bert.evaluation.labels.classes import (
    ClassScore,
    ComparedClass,
    classes_of,
    compared_classes,
    compared_table,
)
from contextual_bert.evaluation.labels.measured import (
    MeasuredRows,
    Members,
    exact_metrics,
    measured_columns,
    row_clusters,
    row_groups,
)
from contextual_bert.evaluation.labels.report import LabelSettings, size_line
from contextual_bert.evaluation.metrics import ENTITY_F1, metric_of
from contextual_bert.evaluation.report import FEW_CLUSTERS
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import Provenance, Table, plural, render_markdown, render_rich, seed_cell


@dataclass(frozen=True)
class ComparedGroup:
    """One value of one feature of the groups: its number of labels, and each method's main metric there."""

    feature: str
    value: str
    num_rows: int
    methods: dict[str, SeedMean]


@dataclass(frozen=True)
class LabelComparison(JsonText):
    """The table of a study of labels: one row a method, and the main metric by group.

    Formula: difference = (mean of the metric of a over the seeds that both have) - (the same of the reference), in each
    resample too.

    Symbols: as in LabelReport; `metrics` are over seeds, `intervals` and `differences` of a row over customers.

    Shapes: `rows` one a method, in the order the runs were given; their curves are empty, because nothing is ranked.

    Args:
        reference: the method the others are compared with.
        main: key of the metric that is shown by group.
        num_rows, num_texts, num_clusters: what was evaluated.
        settings: how it was evaluated.
        rows: one a method.
        groups: in the order of the features.
        classes: the labels, or types of entities, one at a time.
        warnings: what a reader must know before believing the table.
        provenance: data, commit, seeds, hardware, recipe.
        metric_notes: what a reader must know of the metrics.
        num_suppressed: values of too few customers for a group of their own, see ``LabelSettings``.

    Relation to its siblings: `compare_labels` makes it; `LabelReport` is one run in depth; `Comparison` is the same of
    masked positions.

    Reference: PROTOCOL, points 9-11, 13.

    Example:
        >>> from contextual_bert.evaluation.labels import LabelledRows
        >>> truth = {"example_id": [0, 1], "position": [0, 0], "true": [0, 1], "names": ("bad", "good")}
        >>> runs = [("none", 0, LabelledRows(predicted=[0, 0], **truth))]
        >>> runs += [("film", 0, LabelledRows(predicted=[0, 1], **truth))]
        >>> compare_labels(runs, reference="none").rows[1].differences["accuracy_percent"].interval.value
        50.0
    """

    reference: str
    main: str
    num_rows: int
    num_texts: int
    num_clusters: int
    settings: LabelSettings
    rows: tuple[ComparisonRow, ...]
    groups: tuple[ComparedGroup, ...]
    classes: tuple[ComparedClass, ...]
    warnings: tuple[str, ...]
    provenance: Provenance
    metric_notes: tuple[str, ...] = ()
    num_suppressed: int = 0

    def to_markdown(self) -> str:
        return render_markdown(self.heading(), self.tables(), self.notes())

    def to_rich(self, *, has_groups: bool = True) -> Group:
        """For a terminal; without the tables of groups and classes, which may be long."""
        return render_rich(self.heading(), self.tables(has_groups=has_groups), self.notes())

    def heading(self) -> str:
        return f"Comparison on {size_line(self.num_rows, self.num_texts, self.num_clusters, self.settings)}"

    def tables(self, *, has_groups: bool = True) -> list[Table]:
        """Methods, differences, one table a feature of the groups, classes, cost: where there is something in them."""
        differences = difference_table(self.rows, reference=self.reference, num_resamples=self.settings.num_resamples)
        features = dict.fromkeys(group.feature for group in self.groups if has_groups)
        details = [self.group_table(feature) for feature in features]
        if has_groups:
            headings = {row.name: row.label for row in self.rows}
            details.append(compared_table(self.classes, headings, are_types=self.main == ENTITY_F1))
        tables = (methods_table(self.rows), differences, *details, cost_table(self.rows))
        return [table for table in tables if table.rows]

    def group_table(self, feature: str) -> Table:
        """The main metric of each method at each value of a feature."""
        metric, groups = metric_of(self.main), [group for group in self.groups if group.feature == feature]
        cells = [(row.label, *(seed_cell(group.methods[row.name], metric) for group in groups)) for row in self.rows]
        columns = ("method", *(f"{group.value} (n = {group.num_rows:,})" for group in groups))
        return Table(f"{metric.heading[0].upper()}{metric.heading[1:]} by {feature}", columns, tuple(cells))

    def notes(self) -> list[str]:
        """The footer: what the metrics and brackets are, warnings, provenance."""
        settings = self.settings
        notes = [*self.metric_notes]
        notes.append(
            "Methods, groups and labels: mean over seeds, standard error over seeds in brackets; (-) with one seed."
        )
        notes.append(
            f"Differences to {self.reference}: {100 * settings.level:g}% interval from a paired bootstrap over "
            f"{self.num_clusters:,} {plural(settings.cluster_name)} ({settings.num_resamples:,} resamples, seed "
            f"{settings.seed}), the metric averaged over the seeds in each, between trained methods over those that "
            "both have; p corrected by Holm over the rows of its column."
        )
        if self.num_suppressed:
            notes.append(settings.cells.note(self.num_suppressed))
        return [*notes, *(f"Warning: {warning}" for warning in self.warnings), self.provenance.line()]


def compare_labels(
    runs: Sequence[LabelRun | tuple[str, int, MeasuredRows]],
    *,
    reference: str,
    clusters: ArrayLike | None = None,
    groups: Mapping[str, Sequence[Any]] | None = None,
    settings: LabelSettings | None = None,
    provenance: Provenance | None = None,
) -> LabelComparison:
    """One row a method from runs on the same labelled rows.

    Args:
        runs: (name of the method, seed, rows), in any order of the rows.
        reference: the method the others are compared with.
        clusters: the customer (or author, or document) of each row of the first run; left out, each text is a cluster.
        groups: feature -> value of each row of the first run, such as the domain of its text.
        settings: how to evaluate.
        provenance: for the footer.
    """
    settings = settings or LabelSettings()
    made = [run if isinstance(run, LabelRun) else LabelRun(*run) for run in runs]
    members = group_runs(made)
    if reference not in members:
        raise UnknownNameError(f"The reference {reference!r} is not among the runs. {did_you_mean(reference, members)}")
    rows = aligned_rows(made)
    if clusters is None:
        clusters, settings = rows[0].example_id, replace(settings, cluster_name=settings.set_name)
    codes = row_clusters(rows[0], clusters)
    draws = ClusterBootstrap(codes, num_resamples=settings.num_resamples, seed=settings.seed)
    parts, num_suppressed = row_groups(rows[0], groups or {}, clusters=codes, cells=settings.cells)
    measured = [_measure(each, draws, parts) for each in rows]
    found = {name: _over_seeds([measured[run] for run in numbers]) for name, numbers in members.items()}
    differences: dict[tuple[str, str], Difference] = {}
    for name in (each for each in members if each != reference):
        pair = paired_runs(name, reference, members, made)
        own, other = (_over_seeds([measured[run] for run in numbers]) for numbers in pair)
        for key, value in own.metrics.items():
            differences[name, key] = draws.difference(
                value.mean - other.metrics[key].mean, own.replicates[key] - other.replicates[key], level=settings.level
            )
    adjusted = adjusted_for_many(differences)
    compared = [
        ComparisonRow(
            name=name,
            role=made[members[name][0]].role,
            seeds=tuple(made[run].seed for run in members[name]),
            metrics=each.metrics,
            intervals={
                key: draws.interval(
                    value.mean, each.replicates[key], level=settings.level, within=metric_of(key).range()
                )
                for key, value in each.metrics.items()
            },
            differences={key: difference for (method, key), difference in adjusted.items() if method == name},
            curve=(),
            cost=mean_cost([made[run].cost for run in members[name]]),
        )
        for name, each in found.items()
    ]
    few = (
        f"few {plural(settings.cluster_name)} ({draws.num_clusters}): the intervals are too narrow or unknown, p too "
        "small."
    )
    return LabelComparison(
        reference=reference,
        main=rows[0].main,
        num_rows=len(rows[0]),
        num_texts=len(np.unique(rows[0].example_id)),
        num_clusters=draws.num_clusters,
        settings=settings,
        rows=tuple(compared),
        groups=tuple(
            ComparedGroup(
                part.feature,
                part.value,
                len(part.rows),
                {name: seed_mean([measured[run].groups[i] for run in numbers]) for name, numbers in members.items()},
            )
            for i, part in enumerate(parts)
        ),
        classes=compared_classes(
            {name: [measured[run].classes for run in numbers] for name, numbers in members.items()}
        ),
        warnings=(*seed_warnings(members, made), *([few] if draws.num_clusters < FEW_CLUSTERS else [])),
        provenance=provenance or Provenance(),
        metric_notes=rows[0].notes,
        num_suppressed=num_suppressed,
    )


class _Measured(NamedTuple):
    """A run's metrics, the same in each resample, its main metric in each group, and its classes."""

    metrics: dict[str, float]
    replicates: dict[str, NDArray[np.float64]]
    groups: list[float]
    classes: tuple[ClassScore, ...]


class _OverSeeds(NamedTuple):
    """A method's metrics over seeds, and their means over seeds in each resample."""

    metrics: dict[str, SeedMean]
    replicates: dict[str, NDArray[np.float64]]


def _measure(rows: MeasuredRows, draws: ClusterBootstrap, groups: Sequence[Members]) -> _Measured:
    columns = measured_columns(rows)
    return _Measured(
        metrics=exact_metrics(rows, columns),
        replicates=rows.metrics(draws.resampled_means(columns)),
        groups=[exact_metrics(rows, columns[group.rows])[rows.main] for group in groups],
        classes=classes_of(rows),
    )


def _over_seeds(runs: Sequence[_Measured]) -> _OverSeeds:
    keys = runs[0].metrics
    return _OverSeeds(
        metrics={key: seed_mean([each.metrics[key] for each in runs]) for key in keys},
        # Sorted, so that the order of the seeds changes no digit and equal methods differ by exactly 0.
        replicates={key: np.sort([each.replicates[key] for each in runs], axis=0).mean(axis=0) for key in keys},
    )
