"""From the run directories of a study to its report: what was compared, and the findings in words.

It trains what is missing and decides which sentences stand first; what the page looks like is `evaluation.study`.
PROTOCOL, points 8 to 14.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contextual_bert.benchmark.building import has_context
from contextual_bert.benchmark.checks import BASELINES, check_study
from contextual_bert.benchmark.prepared import Prepared
from contextual_bert.benchmark.reporting import label_groups, provenance_of_runs
from contextual_bert.benchmark.run_files import METRICS_FILE, is_complete, load_history
from contextual_bert.benchmark.runner import run_directory, train_missing
from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import (
    Comparison,
    Interval,
    LabelComparison,
    LabelRun,
    LabelSettings,
    Provenance,
    Report,
    Run,
    Study,
    compare_labels,
    compare_runs,
    metric_of,
    paired_bootstrap,
)
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, Metric, exact_mean
from contextual_bert.evaluation.runs import align_runs, group_runs, paired_runs
from contextual_bert.evaluation.tables import interval_cell
from contextual_bert.inference import set_index
from contextual_bert.training import training_arguments
from contextual_bert.training.recipe import Recipe

# Two models whose counted parameters differ by no more than this share are of one size. PROTOCOL, point 9.
SAME_SIZE = 0.01
DEFAULT_REFERENCE = "none"
UNTESTED = (
    "There is no test part: the numbers are of the validation part, which also chose the best epoch of each run, and "
    "are a little too good."
)
WIDE_SUFFIX = "_wide"  # of controls that differ in size alone


def study(
    title: str,
    recipes: Sequence[Recipe],
    output: Path,
    *,
    preparation: Prepared,
    reference: str | None = None,
    extra: Sequence[Run] = (),
    is_report_only: bool = False,
    say: Callable[[str], None] = print,
) -> Study:
    """Train what is missing, compare all rows on the same masked positions, and say what was found.

    Args:
        title: of the report.
        recipes: one a run, all on the same data.
        output: folder of the runs, ``<output>/<label>/seed-<n>``.
        preparation: the data.
        reference: the row that the others are compared with; None: ``none``, or the first row where that is not there.
        extra: rows from elsewhere: the oracle.
        is_report_only: train nothing and compare the runs that are complete; rows may then differ in their seeds.
        say: where sentences about the progress go.

    Raises:
        UnknownNameError: the reference is not among the rows.
        ConfigurationError: a run in the folder has other settings; nothing to report on.
    """
    if is_report_only:
        recipes = [recipe for recipe in recipes if is_complete(run_directory(output, recipe))]
        if not recipes:
            raise ConfigurationError(f"No run of these rows in {output} is complete. Train them first.")
    labels = [recipe.label for recipe in recipes]
    reference = reference or (DEFAULT_REFERENCE if DEFAULT_REFERENCE in labels else labels[0])
    check_study(recipes, reference=reference, others=[each.name for each in extra])
    runs = [*train_missing(recipes, output, preparation, say=say), *extra]
    num_items = preparation.num_choices
    directories = [run_directory(output, recipe) for recipe in recipes]
    origin = provenance_of_runs(preparation, directories, seeds=sorted({recipe.seed for recipe in recipes}))
    oracle = next((each.name for each in extra if each.role == "oracle"), None)

    def compared_with(name: str) -> Comparison:
        settings = preparation.settings
        return compare_runs(runs, reference=name, num_items=num_items, settings=settings, provenance=origin)

    comparison = compared_with(reference)
    curves = [curve for curve in map(load_history, directories) if curve is not None]
    firsts = {recipe.label: recipe for recipe in reversed(recipes)}
    labelled = label_comparison(runs, reference, preparation, provenance=origin)
    found = findings(runs, firsts, num_items=num_items)
    if preparation.evaluated_part != "test":
        found.insert(0, UNTESTED)
    changes = {_one_mask_from(recipe, output) for recipe in firsts.values()}
    longest = max((curve.points[-1].epoch for curve in curves), default=0)
    return Study(
        title=title,
        comparison=comparison,
        against_oracle=compared_with(oracle) if oracle is not None else None,
        curves=tuple(curves),
        one_mask_from=tuple(sorted(epoch for epoch in changes if epoch and epoch < longest)),
        reports={name: load_report(run_directory(output, firsts[name])) for name in reversed(firsts)},
        texts=(*(label_findings(labelled) if labelled is not None else ()), *found),
        labels=labelled,
    )


def _one_mask_from(recipe: Recipe, output: Path) -> int | None:
    """The epoch from which a run of this recipe masks one item a set, None where nothing changes."""
    of_masks = ("num_train_epochs", "masks_per_set", "one_mask_epochs")
    given = {name: recipe.training[name] for name in of_masks if name in recipe.training}
    return training_arguments(output, **given).one_mask_from_epoch


def label_comparison(
    runs: Sequence[Run], reference: str, ready: Prepared, *, provenance: Provenance
) -> LabelComparison | None:
    """The runs by what they labelled, None where nothing has a label."""
    labelled = [LabelRun(run.name, run.seed, run.labelled, run.role) for run in runs if run.labelled is not None]
    if not labelled:
        return None
    rows, clusters, part = labelled[0].rows, runs[0].clusters, ready.evaluated_part
    index = set_index(ready.datasets[part], rows.example_id)
    return compare_labels(
        labelled,
        reference=reference,
        clusters=clusters if clusters is not None else rows.example_id,
        groups=label_groups(part, index, ready),
        settings=LabelSettings(cluster_name=ready.settings.cluster_name),
        provenance=provenance,
    )


def load_report(directory: Path) -> Report:
    """The report on the evaluated part of a complete run."""
    metrics = json.loads((directory / METRICS_FILE).read_text(encoding="utf-8"))
    return Report.from_json(json.dumps(metrics[metrics["evaluated_part"]]))


class CrossEntropies:
    """The cross-entropy of each row of a study, and its difference to another row with the interval.

    Args:
        runs: on the same masked positions.
        num_items: how many items were ranked, if known.

    Raises:
        DataError, ConfigurationError: the runs do not fit each other.
    """

    def __init__(self, runs: Sequence[Run], *, num_items: int | None = None) -> None:
        scores, self._clusters = align_runs(runs, num_items=num_items)
        self._runs, self._groups = runs, group_runs(runs)
        self._losses = [-each.log_probability for each in scores]

    def mean(self, name: str) -> float:
        """Over all seeds of the row, in nats."""
        return exact_mean(np.array([exact_mean(self._losses[number]) for number in self._groups[name]]))

    def difference(self, name: str, other: str) -> Interval:
        """The first minus the second in nats, paired, on the seeds that both have."""
        own, others = paired_runs(name, other, self._groups, self._runs)
        return paired_bootstrap(self._loss(own), self._loss(others), self._clusters).interval

    def _loss(self, numbers: Sequence[int]) -> NDArray[np.float64]:
        return np.mean([self._losses[number] for number in numbers], axis=0)


def on_shared_seeds(runs: Sequence[Run]) -> list[Run]:
    """The runs without those of methods whose seed another method lacks; all where no seed is shared by all."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        if run.role == "method":
            seeds.setdefault(run.name, set()).add(run.seed)
    shared = set[int].intersection(*seeds.values()) if seeds else set[int]()
    return [run for run in runs if run.role != "method" or run.seed in shared or not shared]


def findings(runs: Sequence[Run], recipes: Mapping[str, Recipe], *, num_items: int | None = None) -> list[str]:
    """The sentences that a reader needs first: the order of the methods, and whether to believe it.

    The order is that on the seeds which all methods have: a lucky seed that only one of them has does not count.

    Args:
        runs: of all rows, on the same masked positions.
        recipes: row -> recipe of one of its runs.
        num_items: how many items were ranked, if known.
    """
    firsts = {run.name: run for run in reversed(runs)}
    shared = on_shared_seeds(runs)
    every, even = CrossEntropies(runs, num_items=num_items), CrossEntropies(shared, num_items=num_items)
    means = {name: even.mean(name) for name in firsts}
    methods = sorted((name for name, run in firsts.items() if run.role == "method"), key=lambda name: means[name])
    if not methods:
        return []
    steps = [f"`{methods[0]}` {means[methods[0]]:.3f}"]
    steps += [
        f"`{name}` {means[name]:.3f} ({_interval(even.difference(name, before))})" for before, name in pairwise(methods)
    ]
    kept = ", ".join(map(str, sorted({run.seed for run in shared if run.role == "method"})))
    on_seeds = f" on the seeds that all methods have ({kept})" if len(shared) < len(runs) else ""
    found = [
        f"By cross-entropy{on_seeds}: {', '.join(steps)}. In brackets: nats to the method before it, with the interval."
    ]
    for name, recipe in recipes.items():
        if recipe.is_context_shuffled:
            found.append(_about_leaks(name, recipes, firsts, every.difference))
        elif recipe.is_control:
            others = dict.fromkeys(
                other for other in (recipe.conditioning, methods[0]) if other in firsts and other != name
            )
            gaps = (f"{_interval(every.difference(name, other))} nats to `{other}`" for other in others)
            what = "Size alone" if name.endswith(WIDE_SUFFIX) else "Control"
            found.append(f"{what}: `{name}` {means[name]:.3f}, {', '.join(gaps)}.")
    oracles = [name for name, run in firsts.items() if run.role == "oracle"]
    if oracles:
        gap = means[methods[0]] - means[oracles[0]]
        found.append(f"The best method, `{methods[0]}`, is {gap:.3f} nats above the best possible score.")
    return found


def label_findings(labels: LabelComparison) -> list[str]:
    """The same by what labels are judged by: accuracy, or of names in a text how many are found; the best row first.

    Args:
        labels: of all rows.
    """
    rows, metric = {row.name: row for row in labels.rows}, metric_of(labels.main)
    if labels.reference not in rows or len(rows) == 1:
        return []
    own = rows.pop(labels.reference).metrics[metric.key].mean
    gaps = {name: row.differences[metric.key].interval for name, row in rows.items()}
    best = sorted(gaps, key=lambda name: gaps[name].value, reverse=metric.is_higher_better)
    steps = (f"`{name}` {_signed(gaps[name], metric)}" for name in best)
    return [f"By {metric.heading}: `{labels.reference}` {own:.{metric.digits}f}; against it {', '.join(steps)}."]


def _about_leaks(
    name: str,
    recipes: Mapping[str, Recipe],
    firsts: Mapping[str, Run],
    difference: Callable[[str, str], Interval],
) -> str:
    """A model with the contexts of others beside the row without a context that is closest to it in size."""
    size = {each: run.cost.parameters or 0 for each, run in firsts.items()}
    models = ((each, recipe) for each, recipe in recipes.items() if recipe.conditioning not in BASELINES)
    without = [each for each, recipe in models if not has_context(recipe)]
    if not without:
        return f"Whether something leaks is unknown: `{name}` has no row without a context beside it."
    other = min(without, key=lambda each: abs(size[each] - size[name]))
    gap = difference(name, other)
    if math.isnan(gap.high):
        return f"Whether something leaks is unknown: one customer tells nothing of `{name}` beside `{other}`."
    is_of_one_size = abs(size[other] - size[name]) <= SAME_SIZE * size[name]
    verdict = "not better: no leak is seen"
    if gap.high < 0:
        verdict = "better: something leaks" if is_of_one_size else "better, by its size or by a leak"
    return f"With the contexts of others, `{name}` is {verdict} ({_interval(gap)} nats to `{other}`)."


def _interval(gap: Interval) -> str:
    return _signed(gap, metric_of(CROSS_ENTROPY))


def _signed(gap: Interval, metric: Metric) -> str:
    return interval_cell(gap, metric, is_signed=True)
