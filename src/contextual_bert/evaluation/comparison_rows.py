"""The rows of a comparison, of masked positions or of labels, and the tables they fill. Nothing is computed here."""

from collections.abc import Sequence
from dataclasses import dataclass

from contextual_bert.evaluation.alignment import Cost, Role, are_of_several_machines
from contextual_bert.evaluation.asked import Asked
from contextual_bert.evaluation.intervals import Difference, Interval, SeedMean
from contextual_bert.evaluation.metrics import metric_of
from contextual_bert.evaluation.tables import Table, difference_cell, seed_cell


@dataclass(frozen=True)
class ComparisonRow:
    """One method: seeds, each metric's mean over them, intervals over customers, differences to the reference, cost."""

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


def methods_table(rows: Sequence[ComparisonRow]) -> Table:
    """Each metric's mean and standard error over seeds."""
    keys = tuple(rows[0].metrics)
    cells = [
        (row.label, str(len(row.seeds)), *(seed_cell(row.metrics[key], metric_of(key)) for key in keys)) for row in rows
    ]
    return Table("Methods", ("method", "seeds", *(metric_of(key).heading for key in keys)), tuple(cells))


def asked_table(rows: Sequence[ComparisonRow], asked: Asked | None) -> Table:
    """Each recall over all items of the part, where what was not scored is a miss; no rows where nothing was missed."""
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


def difference_table(rows: Sequence[ComparisonRow], *, reference: str, num_resamples: int) -> Table:
    """Each metric's difference to the reference; without rows where there is nothing to compare."""
    others = [row for row in rows if row.differences]
    keys = tuple(others[0].differences) if others else ()
    cells = [
        (
            row.label,
            *(difference_cell(row.differences[key], metric_of(key), num_resamples=num_resamples) for key in keys),
        )
        for row in others
    ]
    return Table(f"Difference to {reference}", ("method", *(metric_of(key).heading for key in keys)), tuple(cells))


def cost_table(rows: Sequence[ComparisonRow]) -> Table:
    """What a run of each method cost, and on which machine where there are several; no rows if nothing was measured."""
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
