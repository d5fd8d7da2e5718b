"""One evaluation of labels, tags or answers, for people and for machines: metrics with intervals, and by group.

As `evaluation.report` for masked positions. This module does not know what a model is, nor how a metric is computed.

Papers: MA-BERT (2021), Tables 2 to 4. PROTOCOL, points 5, 10, 11, 13.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Group

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.intervals import ClusterBootstrap, Interval
from contextual_bert.evaluation.labels.classes import ClassScore, classes_of, score_table
from contextual_bert.evaluation.labels.measured import (
    MeasuredRows,
    exact_metrics,
    measured_columns,
    row_clusters,
    row_groups,
)
from contextual_bert.evaluation.metrics import ENTITY_F1, metric_of
from contextual_bert.evaluation.report import FEW_CLUSTERS, check_bootstrap
from contextual_bert.evaluation.segments import CellLimit
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import Provenance, Table, interval_cell, plural, render_markdown, render_rich


@dataclass(frozen=True)
class LabelSettings:
    """How to evaluate labels: the bootstrap, and what a row, the text of some rows and a cluster are called.

    ``min_cell_clusters``: a value of fewer customers has no group of its own, for it would be about single people.
    """

    num_resamples: int = 2000
    seed: int = 0
    level: float = 0.95
    min_cell_clusters: int = 10
    row_name: str = "label"
    set_name: str = "text"
    cluster_name: str = "customer"

    def __post_init__(self) -> None:
        check_bootstrap(num_resamples=self.num_resamples, level=self.level)
        if self.min_cell_clusters < 1:
            raise ConfigurationError(f"min_cell_clusters = {self.min_cell_clusters}. Give 1 or more.")

    @property
    def cells(self) -> CellLimit:
        """What a cell of a report must hold."""
        return CellLimit(self.min_cell_clusters, plural(self.cluster_name))


@dataclass(frozen=True)
class LabelGroup:
    """One value of one feature of the groups, such as a domain: its number of labels and its metrics."""

    feature: str
    value: str
    num_rows: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class LabelReport(JsonText):
    """The numbers of one run on labelled rows: metrics with intervals, by group, with provenance.

    Formula: each metric is a function of the means of `label_columns`; its interval resamples clusters.

    Symbols: keys end with the unit where there is one: `entity_f1_percent`, `root_mean_squared_error`.

    Shapes: `metrics` key -> Interval; `groups` one a value of a feature.

    Args:
        num_rows, num_texts, num_clusters: labels, texts and customers.
        settings: how it was evaluated.
        metrics: key -> Interval.
        groups: in the order of the features.
        classes: the labels, or types of entities, one at a time.
        provenance: data, commit, seeds, hardware, recipe.
        metric_notes: what a reader must know of the metrics.
        num_suppressed: values of too few customers for a group of their own, see ``LabelSettings``.

    Relation to its siblings: `evaluate_labels` makes it; `LabelComparison` puts several runs side by side; `Report` is
    the same of masked positions.

    Reference: PROTOCOL, points 5, 10, 11, 13.

    Example:
        >>> from contextual_bert.evaluation.labels import LabelledRows
        >>> rows = LabelledRows([0, 1, 2, 3], [0] * 4, predicted=[0, 1, 2, 0], true=[0, 1, 0, 0], names=("1", "2", "3"))
        >>> report = evaluate_labels(rows, clusters=["ann", "ann", "bob", "bob"])
        >>> report.metrics["accuracy_percent"].value, report.metrics["root_mean_squared_error"].value
        (75.0, 1.0)
    """

    num_rows: int
    num_texts: int
    num_clusters: int
    settings: LabelSettings
    metrics: dict[str, Interval]
    groups: tuple[LabelGroup, ...]
    classes: tuple[ClassScore, ...]
    provenance: Provenance
    metric_notes: tuple[str, ...] = ()
    num_suppressed: int = 0

    def to_markdown(self) -> str:
        return render_markdown(self.heading(), self.tables(), self.notes())

    def to_rich(self) -> Group:
        return render_rich(self.heading(), self.tables(), self.notes())

    def heading(self) -> str:
        return f"Evaluation: {size_line(self.num_rows, self.num_texts, self.num_clusters, self.settings)}"

    def tables(self) -> list[Table]:
        """The metrics, the classes, and the groups where there are some."""
        rows = [(metric_of(key).heading, interval_cell(value, metric_of(key))) for key, value in self.metrics.items()]
        heading = f"value [{100 * self.settings.level:g}% interval]"
        classes = [score_table(self.classes, are_types=ENTITY_F1 in self.metrics)] if self.classes else []
        groups = [self.group_table()] if self.groups else []
        return [Table("Metrics", ("metric", heading), tuple(rows)), *classes, *groups]

    def group_table(self) -> Table:
        """Each value of each feature with its n and its metrics."""
        metrics = [metric_of(key) for key in self.metrics]
        rows = [
            (
                group.feature,
                group.value,
                f"{group.num_rows:,}",
                *(f"{group.metrics[metric.key]:.{metric.digits}f}" for metric in metrics),
            )
            for group in self.groups
        ]
        columns = ("feature", "value", "n", *(metric.heading for metric in metrics))
        return Table("Groups", columns, tuple(rows), num_label_columns=2)

    def notes(self) -> list[str]:
        """The footer: what the metrics and the intervals are, what to be careful with, provenance."""
        settings, name = self.settings, self.settings.cluster_name
        notes = [*self.metric_notes]
        notes.append(
            f"Brackets: {100 * settings.level:g}% interval from a bootstrap over {self.num_clusters:,} {plural(name)} "
            f"({settings.num_resamples:,} resamples, seed {settings.seed})."
        )
        if self.num_clusters < FEW_CLUSTERS:
            notes.append(f"Few {plural(name)} ({self.num_clusters}): the intervals are too narrow or unknown.")
        if self.num_suppressed:
            notes.append(settings.cells.note(self.num_suppressed))
        return [*notes, self.provenance.line()]


def evaluate_labels(
    rows: MeasuredRows,
    *,
    clusters: ArrayLike | None = None,
    groups: Mapping[str, Sequence[Any]] | None = None,
    settings: LabelSettings | None = None,
    provenance: Provenance | None = None,
) -> LabelReport:
    """Metrics with intervals, and by group.

    Args:
        rows: ``LabelledRows``, one a labelled place, or ``AnsweredRows``, one a question, in any order.
        clusters: each row's customer (or author, or document); left out, each text is a cluster of its own.
        groups: feature -> value of each row, such as the domain of its text; a list of values puts a row in several.
        settings: how to evaluate.
        provenance: for the footer.
    """
    settings = settings or LabelSettings()
    columns = measured_columns(rows)
    if clusters is None:
        clusters, settings = rows.example_id, replace(settings, cluster_name=settings.set_name)
    codes = row_clusters(rows, clusters)
    draws = ClusterBootstrap(codes, num_resamples=settings.num_resamples, seed=settings.seed)
    found, num_suppressed = row_groups(rows, groups or {}, clusters=codes, cells=settings.cells)
    replicates = rows.metrics(draws.resampled_means(columns))
    values = exact_metrics(rows, columns)
    return LabelReport(
        num_rows=len(rows),
        num_texts=len(np.unique(rows.example_id)),
        num_clusters=draws.num_clusters,
        settings=settings,
        metrics={
            key: draws.interval(value, replicates[key], level=settings.level, within=metric_of(key).range())
            for key, value in values.items()
        },
        groups=tuple(
            LabelGroup(feature, value, len(numbers), exact_metrics(rows, columns[numbers]))
            for feature, value, numbers in found
        ),
        classes=classes_of(rows),
        provenance=provenance or Provenance(),
        metric_notes=rows.notes,
        num_suppressed=num_suppressed,
    )


def size_line(num_rows: int, num_texts: int, num_clusters: int, settings: LabelSettings) -> str:
    """How much was evaluated, for headings."""
    named = settings.cluster_name != settings.set_name
    clusters = f", {num_clusters:,} {plural(settings.cluster_name)}" if named else ""
    return f"{num_rows:,} {plural(settings.row_name)} of {num_texts:,} {plural(settings.set_name)}{clusters}"
