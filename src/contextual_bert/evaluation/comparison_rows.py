"""Rows of a comparison, and the tables that they fill. Nothing is computed here."""

from collections.abc import Sequence
from dataclasses import dataclass

from contextual_bert.evaluation.alignment import Cost, Role, are_of_several_machines
from contextual_bert.evaluation.asked import Asked
from contextual_bert.evaluation.intervals import Difference, Interval, SeedMean
from contextual_bert.evaluation.metrics import PREDICTION_METRICS, metric_of
from contextual_bert.evaluation.tables import Table, difference_cell, seed_cell


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


def families(keys: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the metrics of one table each: those of predictions, and those of the loss and the ranks.

    Returns:
        Ending of the title and keys of each table.

    Example:
        >>> families(["cross_entropy_nats", "accuracy_percent"])
        [('', ('accuracy_percent',)), (': loss and ranks', ('cross_entropy_nats',))]
    """
    predicted = tuple(key for key in keys if key in PREDICTION_METRICS)
    ranked = tuple(key for key in keys if key not in PREDICTION_METRICS)
    found = (("", predicted), (": loss and ranks" if predicted else "", ranked))
    return [(ending, chosen) for ending, chosen in found if chosen]


def methods_tables(rows: Sequence[ComparisonRow]) -> list[Table]:
    """Return each metric's mean and standard error over seeds."""
    tables: list[Table] = []
    for ending, keys in families(tuple(rows[0].metrics)):
        cells = [
            (row.label, str(len(row.seeds)), *(seed_cell(row.metrics[key], metric_of(key)) for key in keys))
            for row in rows
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


def difference_tables(rows: Sequence[ComparisonRow], *, reference: str, num_resamples: int) -> list[Table]:
    """Return each metric's difference to the reference; no table where there is nothing to compare."""
    others = [row for row in rows if row.differences]
    tables: list[Table] = []
    for ending, keys in families(tuple(others[0].differences)) if others else ():
        cells = [
            (
                row.label,
                *(difference_cell(row.differences[key], metric_of(key), num_resamples=num_resamples) for key in keys),
            )
            for row in others
        ]
        columns = ("method", *(metric_of(key).heading for key in keys))
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
