"""From the run directories of a study to its report: what was compared, on which data, and what was found.

It trains what is missing; the sentences are those of `findings`, and what the page looks like is `evaluation.study`.
docs/protocol.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError, joined
from contextual_bert.evaluation import Comparison, PairedRuns, Report, Run, Study, comparison_of
from contextual_bert.evaluation.paper import PaperRow
from contextual_bert.inference.tables.ray_cluster import RayCluster
from contextual_bert.json_text import json_text
from contextual_bert.places import PathPlace
from contextual_bert.runs.loss_checks import advice_of
from contextual_bert.runs.model_factory import arguments_of, popularity_lines
from contextual_bert.runs.narrative import (
    about_elmo,
    about_time_gaps,
    about_unfit,
    about_unlearned,
    commonest_targets,
    findings,
)
from contextual_bert.runs.registry import NOTHING_TO_COMPARE, check_study
from contextual_bert.runs.reporting import groups_of, provenance_of_runs
from contextual_bert.runs.run_directory import METRICS_FILE, is_complete, load_history, load_metrics, resolved_in
from contextual_bert.runs.sweep import run_directory, train_missing
from contextual_bert.runs.tasks import Task
from contextual_bert.training import training_arguments
from contextual_bert.training.recipe import Recipe

DEFAULT_REFERENCE = "none"
UNTESTED = (
    "There is no test part: the numbers are of the validation part, which also chose the best epoch of each run, and "
    "are a little too good."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Peers:
    """Comparison settings of a study: reference, oracle, and the paper's figures.

    Args:
        reference: the row that the others are compared with; None: ``none``, or the first row where that is not there.
        extra: rows from elsewhere: the oracle.
        paper: the paper's table, to stand beside ours.
    """

    reference: str | None = None
    extra: Sequence[Run] = ()
    paper: Mapping[str, PaperRow] = field(default_factory=dict[str, PaperRow])


def study(
    title: str,
    recipes: Sequence[Recipe],
    output: Path,
    *,
    prepared: Task,
    peers: Peers | None = None,
    is_report_only: bool = False,
    num_jobs: int | RayCluster = 1,
    say: Callable[[str], None] = print,
) -> Study:
    """Train what is missing, compare all rows on the same masked positions, and say what was found.

    Args:
        title: of the report.
        recipes: one a run, all on the same data.
        output: folder of the runs, ``<output>/<label>/seed-<n>``.
        prepared: the data.
        peers: what they are set against.
        is_report_only: train nothing and compare the runs that are complete; rows may then differ in their seeds.
        num_jobs: how many runs are trained beside each other, or the cluster of Ray that does, see ``train_missing``.
        say: where sentences about the progress go.

    Raises:
        UnknownNameError: the reference is not among the rows.
        ConfigurationError: a run in the folder has other settings; nothing to report on.
    """
    if is_report_only:
        recipes = [recipe for recipe in recipes if is_complete(run_directory(output, recipe))]
        if not recipes:
            raise ConfigurationError(f"No run of these rows in {output} is complete", fix="Train them first.")
    faults = {recipe.label: prepared.unfit(recipe) for recipe in recipes}
    unfit = {name: fault for name, fault in faults.items() if fault is not None}
    if len(unfit) == len(faults):
        raise next(iter(unfit.values()))
    recipes = [recipe for recipe in recipes if recipe.label not in unfit]
    labels = [recipe.label for recipe in recipes]
    peers = peers or Peers()
    asked_for = None if peers.reference in unfit else peers.reference
    reference = asked_for or (DEFAULT_REFERENCE if DEFAULT_REFERENCE in labels else labels[0])
    check_study(recipes, reference=reference, others=[each.name for each in peers.extra])
    if prepared.evaluated_part is None:
        raise ConfigurationError(NOTHING_TO_COMPARE)
    planned = [(recipe, prepared) for recipe in recipes]
    runs = [*train_missing(planned, output, num_jobs=num_jobs, say=say), *peers.extra]
    paired = PairedRuns(runs, num_items=prepared.num_choices, settings=prepared.settings)
    directories = [run_directory(output, recipe) for recipe in recipes]
    origin = provenance_of_runs(prepared, directories, seeds=sorted({recipe.seed for recipe in recipes}))
    oracle = next((each.name for each in peers.extra if each.role == "oracle"), None)

    firsts = {recipe.label: recipe for recipe in reversed(recipes)}
    reports = {name: load_report(run_directory(output, firsts[name])) for name in dict.fromkeys(labels)}
    asked = next(iter(reports.values())).asked  # of the same rows and items in all

    groups = groups_of(prepared.evaluated_part, prepared, runs[0].scores)

    def compared_with(name: str) -> Comparison:
        return comparison_of(
            paired,
            reference=name,
            groups=groups,
            provenance=origin,
            asked=replace(asked, recall={}) if asked is not None else None,
        )

    comparison = compared_with(reference)
    curves = [curve for curve in map(load_history, directories) if curve is not None]
    ordered = runs[0].scores.sorted()
    few = commonest_targets(prepared, prepared.evaluated_part, ordered)
    found = findings(paired, firsts, paper=peers.paper, few=few)
    is_unlearned = prepared.unlearned_rows(prepared.evaluated_part, ordered)
    if is_unlearned is not None:
        found += about_unlearned(is_unlearned, paired, part=prepared.evaluated_part)
    found += about_unfit(unfit)
    found += about_idle(reports, firsts, prepared)
    of_rows = {name: firsts[name] for name in dict.fromkeys(labels)}
    found += [*about_time_gaps(of_rows), *about_elmo(of_rows)]
    found += [joined(f"`{name}`: ", line) for name, recipe in firsts.items() for line in popularity_lines(recipe)]
    if prepared.evaluated_part != "test":
        found.insert(0, UNTESTED)
    changes = {_one_mask_from(recipe, output) for recipe in firsts.values()}
    longest = max((curve.points[-1].epoch for curve in curves), default=0)
    return Study(
        title=title,
        comparison=comparison,
        against_oracle=compared_with(oracle) if oracle is not None else None,
        curves=tuple(curves),
        one_mask_from=tuple(sorted(epoch for epoch in changes if epoch and epoch < longest)),
        reports=reports,
        texts=tuple(found),
        paper=dict(peers.paper),
        data=(
            *prepared.lines(),
            *prepared.customer_lines(),
            *([asked.note()] if asked is not None else _unranked(directories[0], prepared)),
        ),
    )


def about_idle(reports: Mapping[str, Report], recipes: Mapping[str, Recipe], prepared: Task) -> list[str]:
    """Return a sentence on each run that has learned nothing that can be told, and what to try.

    The settings in the report of a run are text. Here they are named again, so that a command can spell them.

    Args:
        reports: of one run of each row, by name.
        recipes: of these runs.
        prepared: the data.
    """
    found: list[str] = []
    for name, report in reports.items():
        gap, recipe = report.learned, recipes[name]
        if gap is None or gap.has_learned:
            continue
        if gap.advice:
            own = prepared.resolve(recipe)
            arguments = arguments_of(
                own,
                Path(),
                has_validation="validation" in prepared.datasets,
                defaults=prepared.default_training(own),
            )
            gap = replace(gap, advice=advice_of(arguments))
        found.append(joined(f"`{name}`, seed {recipe.seed}: ", gap.note()))
    return found


def _one_mask_from(recipe: Recipe, output: Path) -> int | None:
    """The epoch from which a run of this recipe masks one item a set, None where nothing changes."""
    of_masks = ("num_train_epochs", "masks_per_set", "one_mask_epochs")
    settings = {**(resolved_in(run_directory(output, recipe), "training") or {}), **recipe.training}
    return training_arguments(
        output, **{name: settings[name] for name in of_masks if name in settings}
    ).one_mask_from_epoch


def _unranked(directory: Path, ready: Task) -> list[str]:
    """Return sentences on the evaluated items that training lacks, and that no run counts."""
    metrics = load_metrics(directory)
    try:
        count = metrics["unknown_targets"][ready.evaluated_part]
    except (KeyError, TypeError) as error:
        raise _no_metrics(directory, error) from error
    what = f"{count:,} {ready.settings.row_name}s of the {ready.evaluated_part} part"
    return [f"{what} cannot be ranked, for training lacks what is asked for, and are left out"] if count else []


def load_report(directory: Path) -> Report:
    """Return the report on the evaluated part of a complete run."""
    metrics = load_metrics(directory)
    try:
        return Report.from_json(json_text(metrics[metrics["evaluated_part"]]))
    except (KeyError, TypeError, DataError) as error:
        raise _no_metrics(directory, error) from error


def _no_metrics(directory: Path, error: Exception) -> RunDirectoryError:
    return RunDirectoryError(
        f"is not what a run writes: {error!r}. Train the run again with --overwrite.",
        place=PathPlace(directory / METRICS_FILE),
    )
