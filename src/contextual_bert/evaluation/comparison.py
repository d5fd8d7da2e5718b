"""Several methods beside each other: mean and standard error over seeds, and paired differences to a reference.

Sets, labels, tags, answers and hidden words have one comparison, with the metrics of their task. This module lays out
in rows and tables what `PairedRuns` computes: a run is a name, a seed, its scores and what it cost.

Papers: Contextual BERT, Table 1 (mean and standard error of three runs); MA-BERT, Tables 2 to 4. Rules:
docs/protocol.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group

from contextual_bert.errors import DataError, UnknownNameError, did_you_mean
from contextual_bert.evaluation.alignment import (
    Cost,
    Role,
    Run,
    are_of_several_machines,
    machine_warnings,
    mean_cost,
    seed_warnings,
)
from contextual_bert.evaluation.asked import Asked
from contextual_bert.evaluation.classes import ComparedClass, classes_of, compared_classes, compared_table
from contextual_bert.evaluation.intervals import Difference, Interval, SeedMean, holm, seed_mean
from contextual_bert.evaluation.measures import NEEDS_SEQEVAL, can_measure_predictions
from contextual_bert.evaluation.metrics import (
    ACCURACY,
    CALIBRATION_ERROR,
    CROSS_ENTROPY,
    ENTITY_F1,
    NEXT_ITEM,
    PREDICTION_METRICS,
    is_of_sets,
    main_metric,
    metric_of,
    notes_about,
    recall_key,
    usable_ks,
)
from contextual_bert.evaluation.paired_runs import PairedRuns
from contextual_bert.evaluation.report import FEW_CLUSTERS, EvaluationSettings, coverages, rows_in_words
from contextual_bert.evaluation.scores import expected_calibration_error, recall_curve
from contextual_bert.evaluation.segments import group_by_value
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import (
    Provenance,
    Table,
    difference_cell,
    metric_notes,
    render_markdown,
    render_rich,
    seed_cell,
)
from contextual_bert.nouns import plural

_LISTS, _RANKS = ": proposed lists", ": loss and ranks"  # endings of titles
# A method and one of its metrics.
Cell = tuple[str, str]


@dataclass(frozen=True)
class ComparisonRow:
    """A method: seeds, each metric's mean over them, intervals over customers, differences to the reference, cost."""

    name: str
    role: Role
    seeds: tuple[int, ...]
    metrics: dict[str, SeedMean]
    intervals: dict[str, Interval]
    differences: dict[str, Difference]
    curve: tuple[tuple[int, float], ...]
    cost: Cost

    @property
    def label(self) -> str:
        """The name, with the role where it is no method and the name does not say so."""
        return self.name if self.role == "method" or self.role in self.name else f"{self.name} ({self.role})"


def families(keys: Sequence[str], *, row: str = "") -> list[tuple[str, tuple[str, ...]]]:
    """Return the metrics of one table each: of predictions, of whole sets, of parts of them, of the loss and the ranks.

    Args:
        keys: of the metrics.
        row: what a row asks for, such as a "next item".

    Returns:
        Ending of the title and keys of each table.

    Example:
        >>> families(["cross_entropy_nats", "accuracy_percent"])
        [('', ('accuracy_percent',)), (': loss and ranks', ('cross_entropy_nats',))]
    """
    titles = {"set": ": whole sets", "repeated": ": repeated items", "new": ": new items"}
    titles |= {"set": ": next items"} if row == NEXT_ITEM else {}
    tables: dict[str, list[str]] = {"": [], **{title: [] for title in titles.values()}, _LISTS: [], _RANKS: []}
    for key in keys:
        if key in PREDICTION_METRICS:
            tables[""].append(key)
        elif is_of_sets(key):
            tables[titles.get(key.partition("_")[0], _LISTS)].append(key)
        else:
            tables[_RANKS].append(key)
    has_others = any(chosen for ending, chosen in tables.items() if ending != _RANKS)
    found = [(ending if ending != _RANKS or has_others else "", tuple(chosen)) for ending, chosen in tables.items()]
    return [(ending, chosen) for ending, chosen in found if chosen]


def seeds_tables(rows: Sequence[ComparisonRow], *, row: str = "") -> list[Table]:
    """Return each metric's mean and standard error over seeds; ``row`` as for ``families``."""
    tables: list[Table] = []
    for ending, keys in families(tuple(rows[0].metrics), row=row):
        cells = [
            (each.label, str(len(each.seeds)), *(seed_cell(each.metrics[key], metric_of(key)) for key in keys))
            for each in rows
        ]
        columns = ("method", "seeds", *(metric_of(key).heading for key in keys))
        tables.append(Table(f"Methods{ending}", columns, tuple(cells)))
    return tables


def asked_table(rows: Sequence[ComparisonRow], asked: Asked | None) -> Table:
    """Return each recall over all items of the part; no rows where all were scored. What was not scored is a miss."""
    keys = tuple(key for key in rows[0].metrics if key.startswith("recall_at_"))
    if asked is None or not asked.reasons or not keys:
        return Table("Recall over all items", ("method",), ())
    cells = [
        (row.label, *(seed_cell(_scaled(row.metrics[key], asked.share), metric_of(key)) for key in keys))
        for row in rows
        if row.role != "oracle"  # it was not asked for what no vocabulary has
    ]
    headings = ("method", *(metric_of(key).heading for key in keys))
    return Table(f"Recall over {asked.all_items}", headings, tuple(cells))


def _scaled(value: SeedMean, factor: float) -> SeedMean:
    return SeedMean(factor * value.mean, factor * value.standard_error, value.num_seeds)


def difference_tables(
    rows: Sequence[ComparisonRow], *, reference: str, num_resamples: int, row: str = ""
) -> list[Table]:
    """Return each metric's difference to the reference; no table where there is nothing to compare.

    ``row`` as for ``families``.
    """
    others = [each for each in rows if each.differences]
    tables: list[Table] = []
    for ending, keys in families(tuple(others[0].differences), row=row) if others else ():
        cells = [
            (
                each.label,
                *(difference_cell(each.differences[key], metric_of(key), num_resamples=num_resamples) for key in keys),
            )
            for each in others
        ]
        columns = ("method", *(metric_of(key).gap_heading for key in keys))
        tables.append(Table(f"Difference to {reference}{ending}", columns, tuple(cells)))
    return tables


def cost_table(rows: Sequence[ComparisonRow]) -> Table:
    """Return the cost of a run of each method, with its machine where there are several; no rows if unmeasured."""
    measured = [row for row in rows if row.cost != Cost()]
    columns = ("method", "parameters", "training (s)", "peak memory (MiB)")
    cells = [(row.label, *_cost_cells(row.cost)) for row in measured]
    if are_of_several_machines(row.cost for row in measured):
        columns = (*columns, "machine")
        cells = [(*line, row.cost.hardware or "-") for line, row in zip(cells, measured, strict=True)]
    return Table("Cost of one run", columns, tuple(cells))


def _cost_cells(cost: Cost) -> tuple[str, str, str]:
    parameters = "-" if cost.parameters is None else f"{cost.parameters:,}"
    time = cost.training_seconds
    seconds = "-" if time is None else f"{time:,.0f}" if time >= 10 else f"{time:.2g}"
    memory = "-" if cost.peak_memory_bytes is None else f"{cost.peak_memory_bytes / 2**20:,.0f}"
    return parameters, seconds, memory


@dataclass(frozen=True)
class ComparedGroup:
    """One value of one feature: its number of rows, and each method's main metric there."""

    feature: str
    value: str
    num_rows: int
    methods: dict[str, SeedMean]


@dataclass(frozen=True)
class Comparison(JsonText):
    """The table of a study: one row a method.

    Formula: difference = (mean of the metric of a over the seeds that both have) - (the same of the reference).

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
        groups: the main metric for each value of some features, in their order.
        classes: the labels, or types of entities, one at a time; empty for what is no label.
        num_suppressed: values of too few customers for a group of their own, see ``EvaluationSettings``.

    Relation to its siblings: `compare_runs` makes it; `Report` is one run in depth.

    Reference: Contextual BERT, Table 1; docs/protocol.md.

    Example:
        >>> from contextual_bert.evaluation.scores import Scores
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
    groups: tuple[ComparedGroup, ...] = ()
    classes: tuple[ComparedClass, ...] = ()
    num_suppressed: int = 0

    @property
    def main(self) -> str:
        """Key of the metric that the methods are judged by."""
        return main_metric(self.rows[0].metrics)

    def drawn_metrics(self) -> tuple[str, ...]:
        """Return the metrics that a picture shows: accuracy would be recall@1 again."""
        main = () if self.main == ACCURACY else (self.main,)
        keys = dict.fromkeys((*main, CROSS_ENTROPY, recall_key(1)))
        return tuple(key for key in keys if key in self.rows[0].intervals)

    def to_markdown(self) -> str:
        """Return heading, tables and notes."""
        return render_markdown(self.heading(), self.tables(), self.notes())

    def to_rich(self, *, has_groups: bool = True) -> Group:
        """Return the same for a terminal; without the tables of groups and classes, which may be long."""
        return render_rich(self.heading(), self.tables(has_groups=has_groups), self.notes())

    def notes(self) -> list[str]:
        """Return the footer: units, what brackets mean, warnings, provenance."""
        settings = self.settings
        left_out = usable_ks(settings.ks, self.num_items)[1]
        notes = notes_about(self.rows[0].metrics, row=settings.row_name)
        notes += metric_notes(
            num_items=self.num_items,
            left_out_ks=left_out,
            choice=settings.choice_name,
            row=settings.row_name,
            cross_entropies={row.name: row.metrics[CROSS_ENTROPY].mean for row in self.rows},
        )
        shown = "Methods, groups and labels" if self.groups or self.classes else "Methods"
        notes.append(f"{shown}: mean over seeds, with its standard error in brackets. (-): one seed.")
        notes.append(
            f"Differences to {self.reference}: {100 * settings.level:g}% interval from a paired bootstrap over "
            f"{self.num_clusters:,} {plural(settings.cluster_name)} ({settings.num_resamples:,} resamples, seed "
            f"{settings.seed}). Metrics are averaged over seeds first, for two trained methods over the seeds that "
            "both have. p is corrected by Holm over the rows of a column."
        )
        if settings.choice_name == "item" and any(row.cost.parameters is not None for row in self.rows):
            notes.append(
                "Parameters are counted as in the paper's Table 1: without the vectors of the items, the encoder of "
                "the context and the output."
            )
        if self.asked is not None:
            notes.append(self.asked.note())
        if self.num_suppressed:
            notes.append(settings.cells.note(self.num_suppressed))
        return [*notes, *(f"Warning: {warning}" for warning in self.warnings), self.provenance.line()]

    def heading(self) -> str:
        """Return how much was compared."""
        return f"Comparison on {rows_in_words(self.settings, self.num_rows, self.num_sets, self.num_clusters)}"

    def tables(self, *, has_groups: bool = True) -> list[Table]:
        """Return methods, recall over all items, differences, groups, classes and cost, where there are some."""
        tables = (
            *self.methods_tables(),
            self.asked_table(),
            *self.difference_tables(),
            *(self.detail_tables() if has_groups else ()),
            self.cost_table(),
        )
        return [table for table in tables if table.rows]

    def methods_tables(self) -> list[Table]:
        """Return each metric over seeds: what was predicted, and then the loss and the ranks."""
        return seeds_tables(self.rows, row=self.settings.row_name)

    def asked_table(self) -> Table:
        """Return the recall over all items of the part; without rows where all were scored, or that is not known."""
        return asked_table(self.rows, self.asked)

    def difference_tables(self) -> list[Table]:
        """Return the differences to the reference, as ``methods_tables``."""
        settings = self.settings
        return difference_tables(
            self.rows, reference=self.reference, num_resamples=settings.num_resamples, row=settings.row_name
        )

    def detail_tables(self) -> list[Table]:
        """Return the main metric by each feature of the groups, and the classes one at a time."""
        features = dict.fromkeys(group.feature for group in self.groups)
        tables = [self._group_table(feature) for feature in features]
        headings = {row.name: row.label for row in self.rows}
        tables.append(compared_table(self.classes, headings, are_types=self.main == ENTITY_F1))
        return [table for table in tables if table.rows]

    def cost_table(self) -> Table:
        """Return the cost of a run of each method; without rows if nothing was measured."""
        return cost_table(self.rows)

    def _group_table(self, feature: str) -> Table:
        metric, groups = metric_of(self.main), [group for group in self.groups if group.feature == feature]
        cells = [(row.label, *(seed_cell(group.methods[row.name], metric) for group in groups)) for row in self.rows]
        columns = ("method", *(f"{group.value} (n = {group.num_rows:,})" for group in groups))
        return Table(f"{metric.heading[0].upper()}{metric.heading[1:]} by {feature}", columns, tuple(cells))


def compare_runs(
    runs: Sequence[Run],
    *,
    reference: str,
    num_items: int | None = None,
    groups: Mapping[str, Sequence[Any] | NDArray[Any]] | None = None,
    settings: EvaluationSettings | None = None,
    provenance: Provenance | None = None,
    asked: Asked | None = None,
) -> Comparison:
    """Compare runs on the same rows: one row a method.

    Args:
        runs: one a method and seed; where none names customers, each set, or text, is a cluster.
        reference: the method the others are compared with.
        num_items: how many items, labels or tokens were ranked, if known.
        groups: feature -> value of each row of the first run, such as the domain of its text.
        settings: how to evaluate.
        provenance: for the footer.
        asked: how much of the part was scored.

    Raises:
        ConfigurationError: runs that do not fit each other.
        DataError: runs on other rows.
        UnknownNameError: the reference is not among the runs.
    """
    names = dict.fromkeys(run.name for run in runs)
    if runs and reference not in names:
        raise UnknownNameError(
            f"The reference {reference!r} is not among the runs", allowed=did_you_mean(reference, names)
        )
    paired = PairedRuns(runs, num_items=num_items, settings=settings)
    return comparison_of(paired, reference=reference, groups=groups, provenance=provenance, asked=asked)


def comparison_of(
    paired: PairedRuns,
    *,
    reference: str,
    groups: Mapping[str, Sequence[Any] | NDArray[Any]] | None = None,
    provenance: Provenance | None = None,
    asked: Asked | None = None,
) -> Comparison:
    """Return the table of runs that are paired already, see ``compare_runs``."""
    if reference not in paired.groups:
        raise UnknownNameError(
            f"The reference {reference!r} is not among the runs", allowed=did_you_mean(reference, paired.groups)
        )
    runs, settings, scores = paired.runs, paired.settings, paired.scores
    kept, _ = usable_ks(settings.ks, paired.num_items)
    keys = tuple(paired.metrics[0])
    errors = [expected_calibration_error(each, num_bins=settings.num_bins) for each in scores]
    set_ks, _ = usable_ks(settings.set_ks, paired.num_items)
    covered = [coverages(each, set_ks) for each in scores]
    curves = [recall_curve(each, largest_k=max(kept, default=1)) for each in scores]
    differences = adjusted_for_many(
        {
            (name, key): paired.difference(name, reference, key)
            for name in paired.groups
            if name != reference
            for key in keys
        }
    )
    rows = [
        ComparisonRow(
            name=name,
            role=runs[members[0]].role,
            seeds=tuple(runs[run].seed for run in members),
            metrics={
                **{key: paired.over_seeds(members, key).mean for key in keys},
                **{key: seed_mean([covered[run][key] for run in members]) for key in covered[members[0]]},
                CALIBRATION_ERROR: seed_mean([errors[run] for run in members]),
            },
            intervals={key: paired.interval(name, key) for key in keys},
            differences={key: difference for (method, key), difference in differences.items() if method == name},
            curve=_mean_curve([curves[run] for run in members]),
            cost=mean_cost([runs[run].cost for run in members]),
        )
        for name, members in paired.groups.items()
    ]
    compared, num_suppressed = _compared_groups(paired, groups or {})
    classes = [classes_of(each) for each in scores]
    few = (
        f"few {plural(settings.cluster_name)} ({paired.draws.num_clusters}): the intervals are too narrow or unknown, "
        "p too small."
    )
    return Comparison(
        reference=reference,
        num_rows=len(scores[0]),
        num_sets=len(np.unique(scores[0].example_id)),
        num_clusters=paired.draws.num_clusters,
        num_items=paired.num_items,
        settings=settings,
        rows=tuple(rows),
        warnings=(
            *seed_warnings(paired.groups, runs),
            *machine_warnings({row.name: row.cost for row in rows}),
            *_beaten_oracles(paired),
            *([few] if paired.draws.num_clusters < FEW_CLUSTERS else []),
            *(() if can_measure_predictions(scores[0]) else (NEEDS_SEQEVAL,)),
        ),
        provenance=provenance or Provenance(),
        asked=asked,
        groups=compared,
        classes=compared_classes({name: [classes[run] for run in members] for name, members in paired.groups.items()}),
        num_suppressed=num_suppressed,
    )


def adjusted_for_many(differences: Mapping[Cell, Difference]) -> dict[Cell, Difference]:
    """Return the differences with p-values corrected by Holm over the methods of a metric; one cluster has none."""
    adjusted = dict(differences)
    for metric in {key for _, key in differences}:
        family = [cell for cell in differences if cell[1] == metric]
        p_values = [differences[cell].p_value for cell in family]
        if not any(math.isnan(p_value) for p_value in p_values):
            for cell, p_value in zip(family, holm(p_values), strict=True):
                adjusted[cell] = replace(differences[cell], adjusted_p_value=p_value)
    return adjusted


def _compared_groups(
    paired: PairedRuns, groups: Mapping[str, Sequence[Any] | NDArray[Any]]
) -> tuple[tuple[ComparedGroup, ...], int]:
    """Return the main metric of each method at each value of each feature, and how many values have no group."""
    first, order = paired.scores[0], paired.runs[0].scores.order()
    ordered = {
        feature: [values[row] for row in order.tolist()] if len(values) == len(order) else values
        for feature, values in groups.items()
    }
    found, num_suppressed = group_by_value(
        first, ordered, clusters=paired.draws.codes, cells=paired.settings.cells, name="groups"
    )
    compared: list[ComparedGroup] = []
    for group in found:
        if not group.is_whole:
            raise DataError(
                "the rows of a text do not have the same value",
                column=group.feature,
                fix="Give all rows of a text the same: they are counted together.",
            )
        main = paired.main_measures
        inside = main[0].places(len(first))[group.rows]
        numbers = [each.exact(inside[inside >= 0])[paired.main] for each in main]
        methods = {name: seed_mean([numbers[run] for run in members]) for name, members in paired.groups.items()}
        compared.append(ComparedGroup(group.feature, group.value, int((inside >= 0).sum()), methods))
    return tuple(compared), num_suppressed


def _beaten_oracles(paired: PairedRuns) -> list[str]:
    warnings: list[str] = []
    every = {name: paired.over_seeds(members, CROSS_ENTROPY) for name, members in paired.groups.items()}
    for oracle in paired.names("oracle"):
        for name in (each for each in paired.groups if each not in paired.names("oracle")):
            gap = every[name].mean.mean - every[oracle].mean.mean
            replicates = every[name].replicates - every[oracle].replicates
            if paired.draws.interval(gap, replicates, level=paired.settings.level).high < 0:
                warnings.append(
                    f"{name} beats {oracle} in CE beyond the interval: there is a leak, or it is no oracle."
                )
    return warnings


def _mean_curve(curves: Sequence[tuple[tuple[int, float], ...]]) -> tuple[tuple[int, float], ...]:
    ks = [k for k, _ in curves[0]]
    return tuple((k, seed_mean([curve[index][1] for curve in curves]).mean) for index, k in enumerate(ks))
