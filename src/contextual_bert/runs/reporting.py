"""What a run is reported with: metrics with intervals and segments, the customer of each row, where numbers come from.

It trains nothing and writes no file. PROTOCOL, points 10, 11 and 13.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation import (
    AnsweredRows,
    LabelReport,
    LabelSettings,
    Provenance,
    Report,
    evaluate_labels,
    evaluate_scores,
)
from contextual_bert.evaluation.labels.measured import MeasuredRows
from contextual_bert.inference import ScoredSet, segment_labels, set_index
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.runs.environment import commit, hardware
from contextual_bert.runs.prepared import Prepared
from contextual_bert.runs.run_files import load_environment
from contextual_bert.training.recipe import RECIPE_FILE

MAX_GROUPS = 20
TRUE_ANSWER = "true answer"


def report_on(
    part: str,
    scored: ScoredSet,
    ready: Prepared,
    *,
    segments: Mapping[str, Any],
    seed: int,
    known_customers: NDArray[np.str_] | None,
) -> Report:
    """Metrics with intervals and segments of one part; a label of each scored row for each feature.

    ``known_customers`` are those of the training part, None where it names none or is not there.
    """
    dataset, customers = ready.datasets[part], ready.customers(part)
    index = set_index(dataset, scored.scores.example_id)
    report = evaluate_scores(
        scored.scores,
        clusters=customers[index] if customers is not None else None,
        cold_customers=cold_rows(customers, known_customers, index),
        segments=segments,
        num_items=ready.num_choices,
        settings=ready.settings,
        provenance=provenance(ready, seed=seed),
        unscored=ready.unscored(part, scored.scores),
    )
    return replace(report, num_possible_rows=scored.num_possible)


def cold_rows(
    customers: NDArray[np.str_] | None, known: NDArray[np.str_] | None, index: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Whether the customer of each row of the index is new, None where that tells no rows apart.

    A split by customer makes every customer cold: a segment of all says nothing.
    """
    if customers is None or known is None:
        return None
    is_cold = ~np.isin(customers, known)
    return is_cold[index] if is_cold.any() and not is_cold.all() else None


def label_report_on(part: str, scored: ScoredSet, ready: Prepared) -> LabelReport | None:
    """Accuracy, errors of grades, names found, for each value of each feature too; None where nothing has a label."""
    if scored.labelled is None:
        return None
    index = set_index(ready.datasets[part], scored.labelled.example_id)
    customers = ready.customers(part)
    return evaluate_labels(
        scored.labelled,
        clusters=customers[index] if customers is not None else None,
        groups=label_groups(part, index, ready, scored.labelled),
        settings=label_settings(ready),
    )


def label_settings(ready: Prepared) -> LabelSettings:
    """How what was predicted for texts, words or questions is evaluated."""
    settings = ready.settings
    row = "answer" if settings.set_name == "question" else "label"
    return LabelSettings(row_name=row, set_name=settings.set_name, cluster_name=settings.cluster_name)


def label_groups(part: str, index: NDArray[np.int64], ready: Prepared, rows: MeasuredRows) -> dict[str, Any]:
    """The features with a handful of values, for each row of the index, and whether questions have an answer where some
    have none: metrics are told apart by them.
    """
    found = segment_labels(ready.datasets[part], ready.processor)
    few = {name: labels for name, labels in found.items() if not isinstance(labels, list)}
    groups = {name: labels[index] for name, labels in few.items() if len(np.unique(labels)) <= MAX_GROUPS}
    if isinstance(rows, AnsweredRows) and len(np.unique(rows.true)) > 1:
        groups[TRUE_ANSWER] = np.array(rows.names)[rows.true]
    return groups


def segments_of(dataset: Any, processor: ContextualBertProcessor, index: NDArray[np.int64]) -> dict[str, Any]:
    """Feature of the context -> its label for each of these sets or texts, in that order."""
    return {name: take(labels, index) for name, labels in segment_labels(dataset, processor).items()}


def take(labels: NDArray[np.str_] | list[list[str]], index: NDArray[np.int64]) -> NDArray[np.str_] | list[list[str]]:
    """The labels of these sets, in that order."""
    return [labels[place] for place in index.tolist()] if isinstance(labels, list) else labels[index]


def cluster_numbers(ready: Prepared, part: str, example_ids: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """A number for the customer of each scored row, the same in every run on these data."""
    customers = ready.customers(part)
    if customers is None:
        return None
    numbers = np.unique(customers, return_inverse=True)[1]
    return numbers[set_index(ready.datasets[part], example_ids)].astype(np.int64)


def provenance(ready: Prepared, *, seed: int) -> Provenance:
    """Where the numbers of a run that ends now come from."""
    return Provenance(
        data_digest=ready.split.data_digest[:16],
        commit=commit(),
        seeds=(seed,),
        hardware=hardware(),
        recipe=RECIPE_FILE,
    )


def provenance_of_runs(ready: Prepared, directories: Sequence[Path], *, seeds: Sequence[int]) -> Provenance:
    """Where the numbers of a study come from: what its runs were made with, which may be older than the report."""
    made = [load_environment(directory) for directory in directories]
    commits, machines = (", ".join(dict.fromkeys(each[key] for each in made)) for key in ("commit", "hardware"))
    return Provenance(
        data_digest=ready.split.data_digest[:16],
        commit=commits,
        seeds=tuple(seeds),
        hardware=machines,
        recipe=RECIPE_FILE,
    )
