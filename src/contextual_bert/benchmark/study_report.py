"""From the run directories of a study to its report: what was compared, and the findings in words.

It trains what is missing and decides which sentences stand first; what the page looks like is `evaluation.study`.
PROTOCOL, points 8 to 14.
"""

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from contextual_bert.benchmark.checks import check_study
from contextual_bert.benchmark.preparation import Preparation
from contextual_bert.benchmark.reporting import provenance
from contextual_bert.benchmark.run_files import METRICS_FILE, load_history
from contextual_bert.benchmark.runner import run_directory, train_missing
from contextual_bert.evaluation import Comparison, Report, Run, Study, compare_runs
from contextual_bert.evaluation.metrics import CROSS_ENTROPY
from contextual_bert.training import training_arguments
from contextual_bert.training.recipe import Recipe


def study(
    title: str,
    recipes: Sequence[Recipe],
    output: Path,
    *,
    preparation: Preparation,
    reference: str = "none",
    extra: Sequence[Run] = (),
    say: Callable[[str], None] = print,
) -> Study:
    """Train what is missing, compare all rows on the same masked positions, and say what was found.

    Args:
        title: of the report.
        recipes: one a run, all on the same data.
        output: folder of the runs, ``<output>/<label>/seed-<n>``.
        preparation: the data.
        reference: the row that the others are compared with.
        extra: rows from elsewhere: the oracle.
        say: where sentences about the progress go.

    Raises:
        UnknownNameError: the reference is not among the rows.
        ConfigurationError: a run in the folder has other settings.
    """
    check_study(recipes, reference=reference, others=[each.name for each in extra])
    runs = [*train_missing(recipes, output, preparation, say=say), *extra]
    num_items = len(preparation.processor.items.values)
    origin = provenance(preparation, seeds=sorted({recipe.seed for recipe in recipes}))
    oracle = next((each.name for each in extra if each.role == "oracle"), None)

    def compared_with(name: str) -> Comparison:
        return compare_runs(runs, reference=name, num_items=num_items, provenance=origin)

    comparison = compared_with(reference)
    curves = (load_history(run_directory(output, recipe)) for recipe in recipes)
    changes = {training_arguments(output, **recipe.training).one_mask_from_epoch for recipe in recipes}
    firsts = {recipe.label: recipe for recipe in reversed(recipes)}
    return Study(
        title=title,
        comparison=comparison,
        against_oracle=compared_with(oracle) if oracle is not None else None,
        curves=tuple(curve for curve in curves if curve is not None),
        one_mask_from=tuple(sorted(epoch for epoch in changes if epoch is not None)),
        reports={name: load_report(run_directory(output, firsts[name])) for name in reversed(firsts)},
        texts=tuple(findings(comparison, shuffled={each.label for each in recipes if each.is_context_shuffled})),
    )


def load_report(directory: Path) -> Report:
    """The report on the evaluated part of a complete run."""
    metrics = json.loads((directory / METRICS_FILE).read_text(encoding="utf-8"))
    return Report.from_json(json.dumps(metrics[metrics["evaluated_part"]]))


def findings(comparison: Comparison, *, shuffled: Collection[str]) -> list[str]:
    """The sentences that a reader needs first: whether to believe the table, and the order of the methods."""
    rows = {row.name: row for row in comparison.rows}
    means = {name: row.metrics[CROSS_ENTROPY].mean for name, row in rows.items()}
    methods = sorted((name for name, row in rows.items() if row.role == "method"), key=lambda name: means[name])
    found = [f"By cross-entropy: {', '.join(f'`{name}` {means[name]:.3f}' for name in methods)}."]
    for name, row in rows.items():
        difference = row.differences.get(CROSS_ENTROPY)
        if name not in shuffled or difference is None:
            continue
        gap = difference.interval
        verdict = "better: something leaks" if gap.high < 0 else "not better: nothing leaks"
        found.append(
            f"With the contexts of others, `{name}`, the model is {verdict} "
            f"({gap.value:+.4f} nats to `{comparison.reference}`, interval {gap.low:+.4f} to {gap.high:+.4f})."
        )
    oracles = [name for name, row in rows.items() if row.role == "oracle"]
    if oracles and methods:
        gap = means[methods[0]] - means[oracles[0]]
        found.append(f"The best method, `{methods[0]}`, is {gap:.3f} nats above the best possible score.")
    return found
