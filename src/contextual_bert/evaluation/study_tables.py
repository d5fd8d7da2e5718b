"""The tables of a study: beside the paper, gap to the oracle, relative gains. Numbers come from comparisons alone.

This module does not know pictures or pages.

Paper: Table 1 and section 4. docs/protocol.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from contextual_bert.evaluation.comparison import Comparison, ComparisonRow
from contextual_bert.evaluation.learning import Convergence
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, metric_of, recall_key
from contextual_bert.evaluation.paper import PAPER_GAINS, PaperRow, relative_gain_percent
from contextual_bert.evaluation.tables import Table, interval_cell, seed_cell

UNKNOWN = "-"
RECALL = recall_key(1)


def methods_tables(comparison: Comparison, convergences: Sequence[Convergence]) -> list[Table]:
    """Return the comparison's methods; beside the seeds of the table of losses stands how their training ended."""
    *others, table = comparison.methods_tables()
    if not convergences:
        return [*others, table]
    ends = {each.name: str(each) for each in convergences}
    rows = [
        (*cells[:2], ends.get(row.name, UNKNOWN), *cells[2:])
        for cells, row in zip(table.rows, comparison.rows, strict=True)
    ]
    columns = (*table.columns[:2], "end of training", *table.columns[2:])
    return [*others, replace(table, columns=columns, rows=tuple(rows))]


def paper_table(comparison: Comparison, paper: Mapping[str, PaperRow]) -> Table:
    """Ours and the paper's, metric by metric; a method that only one of both has keeps its row."""
    ours = rows_by_name(comparison)
    shown = [row.name for row in comparison.rows if row.name in paper]
    shown += [name for name in paper if name not in ours]
    keys = list(next(iter(paper.values())).metrics)
    columns = [f"{metric_of(key).heading}, {whose}" for key in keys for whose in ("ours", "paper")]
    lines: list[tuple[str, ...]] = []
    for name in shown:
        cells: list[str] = []
        for key in keys:
            found = ours[name].metrics.get(key) if name in ours else None
            cells += [
                seed_cell(found, metric_of(key)) if found else UNKNOWN,
                seed_cell(paper[name].metrics[key], metric_of(key)),
            ]
        parameters = ours[name].cost.parameters if name in ours else None
        cells += [f"{parameters:,}" if parameters is not None else UNKNOWN, f"{paper[name].parameters:,}"]
        lines.append((name, *cells))
    return Table(
        "Ours beside the paper's Table 1", ("method", *columns, "parameters, ours", "parameters, paper"), tuple(lines)
    )


def gains_table(comparison: Comparison, paper: Mapping[str, PaperRow]) -> Table:
    """The relative gains in recall@1 that the paper states, and the same gains of ours; with differences in nats.

    Ours are left out where two methods have other seeds.
    """
    ours = {row.name: {key: value.mean for key, value in row.metrics.items()} for row in comparison.rows}
    seeds = {row.name: row.seeds for row in comparison.rows}
    theirs = {name: {key: value.mean for key, value in row.metrics.items()} for name, row in paper.items()}
    lines: list[tuple[str, ...]] = []
    for gain in PAPER_GAINS:
        # Means over other seeds differ by their seeds, too.
        own = ours if seeds.get(gain.method) == seeds.get(gain.baseline) else {}
        cells = (
            f"{gain.stated_percent:+.0f}",
            _gain_cell(own, gain.method, gain.baseline),
            _nats_cell(theirs, gain.method, gain.baseline),
            _nats_cell(own, gain.method, gain.baseline),
        )
        lines.append((f"{gain.method} over {gain.baseline}", *cells))
    columns = (
        "method",
        "recall@1, relative (%), paper",
        "recall@1, relative (%), ours",
        "CE difference (nats), paper",
        "CE difference (nats), ours",
    )
    return Table("Gains that the paper states, and ours", columns, tuple(lines))


def oracle_table(against_oracle: Comparison, *, reference: str) -> Table:
    """Return a table of distances to the oracle in nats, and of the reference's gap that each method closes."""
    metric, rows = metric_of(CROSS_ENTROPY), rows_by_name(against_oracle)
    gaps = {name: row.differences[CROSS_ENTROPY].interval for name, row in rows.items() if row.differences}
    whole = gaps[reference].value if reference in gaps else 0.0

    def is_comparable(name: str) -> bool:
        is_trained = rows[name].role in ("method", "control")
        return not is_trained or rows[name].seeds == rows[reference].seeds

    lines = [
        (
            rows[name].label,
            interval_cell(gap, metric, is_signed=True),
            f"{100 * (1 - gap.value / whole):.1f}" if whole > 0 and is_comparable(name) else UNKNOWN,
        )
        for name, gap in gaps.items()
    ]
    level = 100 * against_oracle.settings.level
    columns = ("method", f"gap in CE (nats) [{level:g}% interval]", f"share of the gap of {reference} closed (%)")
    return Table(f"Gap to {against_oracle.reference}", columns, tuple(lines))


def rows_by_name(comparison: Comparison) -> dict[str, ComparisonRow]:
    return {row.name: row for row in comparison.rows}


def _gain_cell(means: Mapping[str, Mapping[str, float]], method: str, baseline: str) -> str:
    if method not in means or baseline not in means or RECALL not in means[method]:
        return UNKNOWN
    gain = relative_gain_percent(means[method][RECALL], means[baseline][RECALL])
    return UNKNOWN if gain is None else f"{gain:+.1f}"


def _nats_cell(means: Mapping[str, Mapping[str, float]], method: str, baseline: str) -> str:
    if method not in means or baseline not in means:
        return UNKNOWN
    return f"{means[method][CROSS_ENTROPY] - means[baseline][CROSS_ENTROPY]:+.4f}"
