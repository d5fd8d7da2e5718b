"""Runs to compare: what one is, and the proof that all of them were scored on the same rows.

This module does not compare: it groups runs by method and puts their rows in one order, or says which run does not fit.

Paper: three runs a method. PROTOCOL, points 5 and 10.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.clusters import cluster_codes
from contextual_bert.evaluation.labels.measured import MeasuredRows
from contextual_bert.evaluation.metrics import Scores, exact_mean

Role = Literal["method", "control", "baseline", "oracle"]


class NamedRun(Protocol):
    """What runs of any kind have: they are grouped by name and told apart by seed."""

    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def role(self) -> Role: ...


@dataclass(frozen=True)
class Cost:
    """What a run cost, and on which machine; None where it is not known or means nothing (an oracle has no size)."""

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
        scores: one row a masked position, each once, in any order.
        clusters: the customer of each row of `scores`; left out in all runs, each set is a cluster of its own.
        cost: parameters, training time, peak memory.
        role: a trained method, a control of one, a baseline, or the oracle, which nothing may beat.
        labelled: what was predicted for the same texts, words or questions, where they are such.
        validation_nats: cross-entropy on the validation part, where another part was scored; None: not known.
    """

    name: str
    seed: int
    scores: Scores
    clusters: ArrayLike | None = None
    cost: Cost = field(default_factory=Cost)
    role: Role = "method"
    labelled: MeasuredRows | None = None
    validation_nats: float | None = None


def group_runs(runs: Sequence[NamedRun]) -> dict[str, list[int]]:
    """Method -> the numbers of its runs, in the order given."""
    if not runs:
        raise ConfigurationError("No runs to compare. Give at least one.")
    groups: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(run.name, []).append(number)
    for name, numbers in groups.items():
        seeds = [runs[number].seed for number in numbers]
        if len(set(seeds)) < len(seeds):
            raise ConfigurationError(f"{name!r} has seeds {seeds}: one run a seed. Drop the repeated run.")
        if len({runs[number].role for number in numbers}) > 1:
            raise ConfigurationError(f"The runs of {name!r} have different roles. Give all seeds of a method one role.")
    return groups


def paired_runs(
    name: str, other: str, groups: Mapping[str, Sequence[int]], runs: Sequence[NamedRun]
) -> tuple[list[int], list[int]]:
    """The numbers of the runs of two methods to set against each other: of the seeds that both have.

    A seed makes more of a difference than two methods may, so one row's third is not set against another's first two.
    All runs where one of the two is a baseline or the oracle, whose seed means little, or where no seed is shared.
    """
    pair = (groups[name], groups[other])
    is_trained = all(runs[numbers[0]].role in ("method", "control") for numbers in pair)
    first, second = ({runs[number].seed for number in numbers} for numbers in pair)
    kept = first & second if is_trained and first & second else first | second
    own, others = ([number for number in numbers if runs[number].seed in kept] for numbers in pair)
    return own, others


def align_runs(runs: Sequence[Run], *, num_items: int | None) -> tuple[list[Scores], NDArray[np.int64]]:
    """Each run's scores in the canonical order, and the cluster numbers they share; an error if they do not."""
    aligned: list[Scores] = []
    labels: list[NDArray[np.generic]] = []
    for run in runs:
        run.scores.check(num_items=num_items)
        clusters = run.scores.example_id if run.clusters is None else np.asarray(run.clusters)
        if len(clusters) != len(run.scores):
            raise ConfigurationError(
                f"{place(run)} has {len(run.scores)} rows and {len(clusters)} clusters: give one a row."
            )
        order = run.scores.order()
        aligned.append(run.scores.select(order))
        labels.append(clusters[order])
    first = aligned[0]
    for run, scores, clusters in zip(runs[1:], aligned[1:], labels[1:], strict=True):
        if len(scores) != len(first):
            raise DataError(
                f"{place(run)} scored {len(scores)} masked positions, {place(runs[0])} {len(first)}", fix=_SAME_ROWS
            )
        differs = np.flatnonzero((scores.example_id != first.example_id) | (scores.position != first.position))
        if len(differs):
            example, position = scores.example_id[differs[0]], scores.position[differs[0]]
            raise DataError(
                f"{place(run)} scored example {example}, position {position}, which {place(runs[0])} did not",
                fix=_SAME_ROWS,
            )
        if not np.array_equal(clusters, labels[0]):
            raise DataError(
                f"{place(run)} and {place(runs[0])} give different customers to the same rows", fix=_SAME_ROWS
            )
    return aligned, cluster_codes(labels[0])


def mean_cost(costs: Sequence[Cost]) -> Cost:
    """Over seeds: mean time, largest memory, every machine, and the parameters, which must be the same."""
    parameters = {cost.parameters for cost in costs}
    if len(parameters) > 1:
        raise ConfigurationError(
            f"One method with different parameter counts {sorted(map(str, parameters))}: name them apart."
        )
    seconds = [cost.training_seconds for cost in costs if cost.training_seconds is not None]
    memory = [cost.peak_memory_bytes for cost in costs if cost.peak_memory_bytes is not None]
    mean_seconds = exact_mean(np.array(seconds)) if seconds else None
    machines = sorted({cost.hardware for cost in costs if cost.hardware is not None})
    return Cost(parameters.pop(), mean_seconds, max(memory, default=None), " and ".join(machines) or None)


def total_cost(costs: Sequence[Cost]) -> Cost:
    """Of models of one size that make one row together: all their parameters and time, the largest memory."""
    mean, count = mean_cost(costs), len(costs)
    return replace(
        mean,
        parameters=None if mean.parameters is None else count * mean.parameters,
        training_seconds=None if mean.training_seconds is None else count * mean.training_seconds,
    )


def seed_warnings(groups: Mapping[str, Sequence[int]], runs: Sequence[NamedRun]) -> list[str]:
    """Methods with one seed, with fewer seeds than the others, or with others."""
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
    """Training times that were not taken on one machine, by method."""
    if not are_of_several_machines(costs.values()):
        return []
    timed = {name: cost.hardware for name, cost in costs.items() if cost.training_seconds is not None}
    made: dict[str, list[str]] = {}
    for name, machine in timed.items():
        made.setdefault(machine or "an unknown machine", []).append(name)
    listed = "; ".join(f"{machine}: {', '.join(names)}" for machine, names in made.items())
    return [f"training times of different machines, which compare nothing ({listed})."]


def are_of_several_machines(costs: Iterable[Cost]) -> bool:
    """Whether the training times among these were not all taken on one machine."""
    machines = {cost.hardware for cost in costs if cost.training_seconds is not None}
    return len(machines) > 1


_SAME_ROWS = "Score every run on the same part of the same split, each position masked once."


def place(run: NamedRun) -> str:
    """The run as messages name it."""
    return f"run {run.name!r} (seed {run.seed})"
