"""Reporting of a run: metrics with intervals and segments, the customer of each row, provenance.

It trains nothing and writes no file. docs/protocol.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation import AnswerPredictions, Provenance, Report, Scores, evaluate_scores
from contextual_bert.inference import segment_labels, set_index
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.provenance import commit, hardware
from contextual_bert.runs.run_directory import load_environment
from contextual_bert.training.recipe import RECIPE_FILE

MAX_GROUPS = 20
TRUE_ANSWER = "true answer"


def report_on(
    part: str,
    scored: Scores,
    ready: PreparedData,
    *,
    segments: Mapping[str, Any],
    seed: int,
    known_customers: NDArray[np.str_] | None,
) -> Report:
    """Return the report on one part.

    Args:
        part: that was scored.
        scored: its scores.
        ready: the data.
        segments: feature -> label of each scored row.
        seed: of the run.
        known_customers: those of the training part, None where it names none or is not there.
    """
    dataset, customers = ready.datasets[part], ready.customers(part)
    index = set_index(dataset, scored.example_id)
    report = evaluate_scores(
        scored,
        clusters=customers[index] if customers is not None else None,
        cold_customers=cold_rows(customers, known_customers, index),
        segments=segments,
        num_items=ready.choices_in(part),
        settings=ready.settings,
        provenance=provenance(ready, seed=seed),
        unscored=ready.unscored(part, scored),
    )
    return replace(report, num_possible_rows=scored.num_possible)


def cold_rows(
    customers: NDArray[np.str_] | None, known: NDArray[np.str_] | None, index: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Return the mask of rows whose customer is new, or None if it tells no rows apart.

    A split by customer makes every customer cold: a segment of all says nothing.
    """
    if customers is None or known is None:
        return None
    is_cold = ~np.isin(customers, known)
    return is_cold[index] if is_cold.any() and not is_cold.all() else None


def groups_of(part: str, ready: PreparedData, scores: Scores) -> dict[str, Any]:
    """Return feature -> label of each scored row, of the features by which predictions are told apart in comparisons.

    These have a handful of values. Nothing where there are no predictions.

    Args:
        part: that was scored.
        ready: the data.
        scores: of the part.
    """
    predictions = scores.predictions
    if predictions is None:
        return {}
    dataset = ready.datasets[part]
    index = set_index(dataset, scores.example_id)
    found = segment_labels(dataset, ready.processor)
    few = {name: labels for name, labels in found.items() if not isinstance(labels, list)}
    groups = {name: labels[index] for name, labels in few.items() if len(np.unique(labels)) <= MAX_GROUPS}
    return groups | true_answers(scores)


def true_answers(scores: Scores) -> dict[str, Any]:
    """Return whether the question of each scored row has an answer; nothing where all have one, or none, or no row is a
    question's.
    """
    predictions = scores.predictions
    if not isinstance(predictions, AnswerPredictions) or len(np.unique(predictions.true)) < 2:
        return {}
    ordered = predictions.sorted()
    names = np.array(ordered.names)[ordered.true]
    return {TRUE_ANSWER: names[np.searchsorted(ordered.example_id, scores.example_id)]}


def segments_of(dataset: Any, processor: ContextualBertProcessor, index: NDArray[np.int64]) -> dict[str, Any]:
    """Feature of the context -> its label for each of these sets or texts, in that order."""
    return {name: take(labels, index) for name, labels in segment_labels(dataset, processor).items()}


def take(labels: NDArray[np.str_] | list[list[str]], index: NDArray[np.int64]) -> NDArray[np.str_] | list[list[str]]:
    """The labels of these sets, in that order."""
    return [labels[place] for place in index.tolist()] if isinstance(labels, list) else labels[index]


def cluster_numbers(ready: PreparedData, part: str, example_ids: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """A number for the customer of each scored row, the same in every run on these data."""
    customers = ready.customers(part)
    if customers is None:
        return None
    numbers = np.unique(customers, return_inverse=True)[1]
    return numbers[set_index(ready.datasets[part], example_ids)].astype(np.int64)


def provenance(ready: PreparedData, *, seed: int) -> Provenance:
    """Return the provenance of the numbers of a run that ends now."""
    return Provenance(
        data_digest=ready.split.data_digest[:16],
        commit=commit(),
        seeds=(seed,),
        hardware=hardware(),
        recipe=RECIPE_FILE,
    )


def provenance_of_runs(ready: PreparedData, directories: Sequence[Path], *, seeds: Sequence[int]) -> Provenance:
    """Return the provenance of a study's numbers from its runs, which may be older than the report."""
    made = [load_environment(directory) for directory in directories]
    commits, machines = (", ".join(dict.fromkeys(each[key] for each in made)) for key in ("commit", "hardware"))
    return Provenance(
        data_digest=ready.split.data_digest[:16],
        commit=commits,
        seeds=tuple(seeds),
        hardware=machines,
        recipe=RECIPE_FILE,
    )
