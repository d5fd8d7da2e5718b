"""Runs to compare, and the check that all of them were scored on the same rows.

This module groups runs by method and puts their rows in one order, or names the run that does not fit.

Reference: docs/protocol.md; the paper has three runs a method.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.intervals import cluster_codes
from contextual_bert.evaluation.label_predictions import LabelPredictions
from contextual_bert.evaluation.measures import check_clusters
from contextual_bert.evaluation.metrics import exact_mean
from contextual_bert.evaluation.multi_label_predictions import MultiLabelPredictions
from contextual_bert.evaluation.number_predictions import NumberPredictions
from contextual_bert.evaluation.scores import Predictions, Scores
from contextual_bert.evaluation.sentence_predictions import SentencePredictions
from contextual_bert.evaluation.set_predictions import SetPredictions
from contextual_bert.evaluation.text_predictions import TextPredictions

Role = Literal["method", "control", "baseline", "oracle"]


@dataclass(frozen=True)
class Cost:
    """Cost of a run, and its machine; None where it is not known or means nothing (an oracle has no size)."""

    parameters: int | None = None
    training_seconds: float | None = None
    peak_memory_bytes: int | None = None
    hardware: str | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """One trained model on the evaluation rows; a baseline or an oracle is a run with one seed.

    Args:
        name: of the method; runs of one name differ by seed.
        seed: of the training.
        scores: one row a masked position, label or end of an answer, each once, in any order.
        clusters: the customer of each row of `scores`; left out in all runs, each set is a cluster of its own.
        cost: parameters, training time, peak memory.
        role: a trained method, a control of one, a baseline, or the oracle, which nothing may beat.
        validation_nats: cross-entropy on the validation part, where another part was scored; None: not known.
    """

    name: str
    seed: int
    scores: Scores
    clusters: ArrayLike | None = None
    cost: Cost = field(default_factory=Cost)
    role: Role = "method"
    validation_nats: float | None = None


def group_runs(runs: Sequence[Run]) -> dict[str, list[int]]:
    """Return method -> the numbers of its runs, in the order given."""
    if not runs:
        raise ConfigurationError("No runs to compare", fix="Give at least one.")
    groups: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(run.name, []).append(number)
    for name, numbers in groups.items():
        seeds = [runs[number].seed for number in numbers]
        if len(set(seeds)) < len(seeds):
            raise ConfigurationError(f"{name!r} has seeds {seeds}: one run a seed", fix="Drop the repeated run.")
        if len({runs[number].role for number in numbers}) > 1:
            raise ConfigurationError(
                f"The runs of {name!r} have different roles", fix="Give all seeds of a method one role."
            )
    return groups


def align_runs(runs: Sequence[Run], *, num_items: int | None) -> tuple[list[Scores], NDArray[np.int64]]:
    """Return each run's scores in the canonical order, and the cluster numbers that they share.

    Raises:
        ConfigurationError: other numbers of clusters than rows.
        DataError: rows, clusters or true labels are not the same in all runs.
    """
    aligned: list[Scores] = []
    labels: list[NDArray[np.generic]] = []
    for run in runs:
        run.scores.check(num_items=num_items)
        clusters = run.scores.example_id if run.clusters is None else np.asarray(run.clusters)
        if len(clusters) != len(run.scores):
            raise ConfigurationError(
                f"{place(run)} has {len(run.scores)} rows and {len(clusters)} clusters", fix="Give one a row."
            )
        aligned.append(run.scores.sorted())
        labels.append(clusters[run.scores.order()])
    first, its_scores = runs[0], aligned[0]
    for run, scores, clusters in zip(runs[1:], aligned[1:], labels[1:], strict=True):
        if len(scores) != len(its_scores):
            raise DataError(
                f"{place(run)} has {len(scores)} scored rows, {place(first)} {len(its_scores)}", fix=_SAME_ROWS
            )
        differs = (scores.example_id != its_scores.example_id) | (scores.position != its_scores.position)
        if differs.any():
            row = int(differs.argmax())
            raise DataError(
                f"{place(run)} scored example {scores.example_id[row]}, position {scores.position[row]}, which "
                f"{place(first)} did not",
                fix=_SAME_ROWS,
            )
        if not np.array_equal(clusters, labels[0]):
            raise DataError(f"{place(run)} and {place(first)} give the same rows different customers", fix=_SAME_ROWS)
        _check_predictions(run, scores.predictions, first, its_scores.predictions)
    codes = cluster_codes(labels[0])
    check_clusters(its_scores, codes)
    return aligned, codes


def _check_predictions(run: Run, own: Predictions | None, first: Run, others: Predictions | None) -> None:
    """Raise DataError unless the predictions of two runs, in the canonical order, have the same truth."""
    if own is None or others is None or type(own) is not type(others):
        if own is not None or others is not None:
            raise DataError(
                f"{place(run)} and {place(first)} do not have predictions of one kind",
                fix="Compare runs on labels with each other, and runs on answers with each other.",
            )
        return
    if isinstance(own, SetPredictions) or isinstance(others, SetPredictions):
        _check_sets(run, own, first, others)
        return
    if isinstance(own, TextPredictions) or isinstance(others, TextPredictions):
        return  # both have the same texts, each of as many tokens: the scored rows are the same
    if isinstance(own, SentencePredictions) or isinstance(others, SentencePredictions):
        _check_pairs(run, own, first, others)
        return
    if isinstance(own, NumberPredictions) or isinstance(others, NumberPredictions):
        _check_numbers(run, own, first, others)
        return
    if own.names != others.names:
        raise DataError(f"{place(run)} has the labels {own.names}, {place(first)} {others.names}", fix=_SAME_ROWS)
    if _are_grades(own) != _are_grades(others):
        raise DataError(
            f"{place(run)} and {place(first)} have the same labels, and they are grades for one of the two alone",
            fix="Train both with the same order (--order).",
        )
    differs = own.true != others.true
    if isinstance(own, MultiLabelPredictions):
        if differs.any():
            text = own.example_id[int(differs.any(axis=1).argmax())]
            raise DataError(f"{place(run)} and {place(first)} have other true labels for text {text}", fix=_SAME_ROWS)
        return
    if differs.any():
        row = int(differs.argmax())
        here, there = (each.names[each.true[row]] for each in (own, others))
        where = f"example {own.example_id[row]}"
        where += f", position {own.position[row]}" if isinstance(own, LabelPredictions) else ""
        raise DataError(f"in {place(run)} {here!r} is true for {where}, in {place(first)} {there!r}", fix=_SAME_ROWS)


def _check_numbers(run: Run, own: Predictions, first: Run, others: Predictions) -> None:
    """Raise DataError unless the true numbers of two runs are the same."""
    if not isinstance(own, NumberPredictions) or not isinstance(others, NumberPredictions):
        return
    is_same = own.true == others.true
    if not is_same.all():
        row = int(is_same.argmin())
        raise DataError(
            f"in {place(run)} the number {own.true[row]} is true for example {own.example_id[row]}, in {place(first)} "
            f"{others.true[row]}",
            fix=_SAME_ROWS,
        )


def _check_pairs(run: Run, own: Predictions, first: Run, others: Predictions) -> None:
    """Raise DataError unless two runs decided about the same pairs of sentences."""
    if not isinstance(own, SentencePredictions) or not isinstance(others, SentencePredictions):
        return
    is_same = own.num_pairs == others.num_pairs
    if not is_same.all():
        row = int(is_same.argmin())
        raise DataError(
            f"example {own.example_id[row]} has {own.num_pairs[row]} pairs of sentences in {place(run)}, and "
            f"{others.num_pairs[row]} in {place(first)}",
            fix=_SAME_ROWS,
        )


def _check_sets(run: Run, own: Predictions, first: Run, others: Predictions) -> None:
    """Raise DataError unless two runs have sets of the same sizes, and the same histories behind them."""
    if not isinstance(own, SetPredictions) or not isinstance(others, SetPredictions):
        return
    is_same = own.has_truth_of(others)
    if not is_same.all():
        row = int(is_same.argmin())
        raise DataError(
            f"{place(run)} and {place(first)} do not have the same set or history for example {own.example_id[row]}",
            fix=_SAME_ROWS,
        )


def _are_grades(predictions: Predictions) -> bool:
    return isinstance(predictions, LabelPredictions) and predictions.grades is not None


def mean_cost(costs: Sequence[Cost]) -> Cost:
    """Return the cost over seeds: mean time, largest memory, every machine, parameters, which must be the same."""
    parameters = {cost.parameters for cost in costs}
    if len(parameters) > 1:
        raise ConfigurationError(
            f"One method with different parameter counts {sorted(map(str, parameters))}", fix="Name them apart."
        )
    seconds = [cost.training_seconds for cost in costs if cost.training_seconds is not None]
    memory = [cost.peak_memory_bytes for cost in costs if cost.peak_memory_bytes is not None]
    mean_seconds = exact_mean(np.array(seconds)) if seconds else None
    machines = sorted({cost.hardware for cost in costs if cost.hardware is not None})
    return Cost(parameters.pop(), mean_seconds, max(memory, default=None), " and ".join(machines) or None)


def total_cost(costs: Sequence[Cost]) -> Cost:
    """Return the cost of models of one size that make one row: all parameters and time, the largest memory."""
    mean, count = mean_cost(costs), len(costs)
    return replace(
        mean,
        parameters=None if mean.parameters is None else count * mean.parameters,
        training_seconds=None if mean.training_seconds is None else count * mean.training_seconds,
    )


def seed_warnings(groups: Mapping[str, Sequence[int]], runs: Sequence[Run]) -> list[str]:
    """Return warnings on methods with one seed, with fewer seeds than the others, or with others."""
    seeds = {
        name: sorted(runs[number].seed for number in numbers)
        for name, numbers in groups.items()
        if runs[numbers[0]].role == "method"
    }
    warnings: list[str] = []
    single = [name for name, own in seeds.items() if len(own) == 1]
    if single:
        warnings.append(f"one seed for {', '.join(single)}: how much another seed would change is unknown.")
    if len({len(own) for own in seeds.values()}) > 1:
        listed = ", ".join(f"{name} {len(own)}" for name, own in seeds.items())
        warnings.append(
            f"methods have different numbers of seeds ({listed}): a lucky seed weighs more where there are fewer."
        )
    elif len({*map(tuple, seeds.values())}) > 1:
        listed = "; ".join(f"{name} {', '.join(map(str, own))}" for name, own in seeds.items())
        warnings.append(f"methods have different seeds ({listed}): part of a difference may be theirs.")
    return warnings


def machine_warnings(costs: Mapping[str, Cost]) -> list[str]:
    """Return a warning where training times were not taken on one machine."""
    if not are_of_several_machines(costs.values()):
        return []
    timed = {name: cost.hardware for name, cost in costs.items() if cost.training_seconds is not None}
    made: dict[str, list[str]] = {}
    for name, machine in timed.items():
        made.setdefault(machine or "an unknown machine", []).append(name)
    listed = "; ".join(f"{machine}: {', '.join(names)}" for machine, names in made.items())
    return [f"training times of different machines, which compare nothing ({listed})."]


def are_of_several_machines(costs: Iterable[Cost]) -> bool:
    """Return whether the training times among these were not all taken on one machine."""
    machines = {cost.hardware for cost in costs if cost.training_seconds is not None}
    return len(machines) > 1


_SAME_ROWS = "Score every run on the same part of the same split, each position once."


def place(run: Run) -> str:
    """Return the run as messages name it."""
    return f"run {run.name!r} (seed {run.seed})"
