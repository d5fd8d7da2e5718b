"""Importance of each context field on the validation part, kept with the run for ``explain``.

``importance`` measures the same at length, on any part. Here a sample is scored, so that it costs little beside the
training: at most a twentieth of its forward passes, or ``FEWEST_POSITIONS`` masked positions a field where these are
more. It trains nothing. Paper: not there. docs/protocol.md, "Controls" and "Seeds and intervals"; docs/decisions/027.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from torch import nn

from contextual_bert.data import SequenceDataset
from contextual_bert.data.hashing import Draw, hash_counters
from contextual_bert.evaluation import FeatureImportances, Scores, measure_importances
from contextual_bert.evaluation.importance import ALL_FEATURES
from contextual_bert.inference import score, set_index
from contextual_bert.inference.verdicts import IMPORTANCES, PART, FieldVerdicts
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.permutation_importance import donor_of, with_permuted
from contextual_bert.runs.registry import keeps_weights
from contextual_bert.runs.reporting import provenance
from contextual_bert.runs.tasks.base import Task
from contextual_bert.training.recipe import Recipe

MOST_POSITIONS, FEWEST_POSITIONS = 2000, 300  # masked, of each field
SHARE_OF_TRAINING = 0.05  # of its forward passes, of which a step with gradients counts as three
_COST_OF_A_STEP = 3
_RESAMPLES_A_FIELD = 80  # the least p-value is 2 in so many, times the fields: below 0.05 from 40 on


def field_importances(
    recipe: Recipe,
    model: nn.Module,
    ready: Task,
    *,
    num_epochs: float,
    batch_size: int,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[str, FeatureImportances] | None:
    """Measure what permuting each field of the context does to the run's cross-entropy.

    Args:
        recipe: of the run.
        model: as it was scored.
        ready: the data of the run.
        num_epochs: of the training, for the budget.
        batch_size, is_shared, progress: as for ``Task.score``.

    Returns:
        The part that it was measured on and the importances. None for texts and for baselines without a model, which
        ``explain`` does not take; where no context is read; where nothing is held out, or one set alone.
    """
    part = "validation" if "validation" in ready.datasets else ready.evaluated_part
    is_asked = recipe.task.has_items and has_context(recipe) and keeps_weights(recipe)
    if not is_asked or recipe.is_context_shuffled or part is None:
        return None
    dataset = cast(SequenceDataset, ready.datasets[part])
    schema = ready.processor.schema
    silenced = schema.silenced_names if schema is not None else ()  # missing in every row: nothing to permute
    fields = [name for name in dataset.context if name not in silenced]
    if len(dataset) < 2 or not fields:
        return None
    groups = [(ALL_FEATURES, fields), *((name, [name]) for name in fields)]
    most = num_positions(len(ready.datasets["train"]) * num_epochs, num_passes=len(groups) + 1)
    # Of sets that are hidden whole, and of sequences, a sample of rows is scored.
    chosen = np.sort(np.argsort(hash_counters(0, 0, Draw.SCORED_POSITION, dataset.example_ids.numpy()))[:most])
    num_done = 0

    def shown(done: int, total: int) -> None:
        if progress is not None:
            progress(num_done * total + done, (len(groups) + 1) * total)

    def scores_of(data: SequenceDataset) -> Scores:
        settings: dict[str, Any] = {"batch_size": batch_size, "is_shared": is_shared, "progress": shown}
        if recipe.set_task.hide == "items":
            return score(cast(Any, model), data, most=most, **settings)
        return ready.score_dataset(model, data.subset(chosen), part, **settings)

    true = scores_of(dataset)
    if not len(true):
        return None
    permuted: dict[str, list[Scores]] = {}
    for name, members in groups:
        num_done += 1
        donors = donor_of(dataset.example_ids.numpy(), feature=name, number=0, seed=0)
        permuted[name] = [scores_of(with_permuted(dataset, members, donors))]
    customers, settings = ready.customers(part), ready.settings
    return part, measure_importances(
        true,
        {name: permuted[name] for name in fields},
        together=permuted[ALL_FEATURES],
        clusters=customers[set_index(dataset, true.example_id)] if customers is not None else None,
        num_items=ready.num_choices,
        settings=replace(settings, num_resamples=max(settings.num_resamples, _RESAMPLES_A_FIELD * len(fields))),
        provenance=provenance(ready, seed=recipe.seed),
    )


def num_positions(num_steps: float, *, num_passes: int) -> int:
    """Return how many masked positions are scored in each of so many passes over a sample.

    Args:
        num_steps: training examples times epochs.
        num_passes: over the sample.

    Example:
        >>> num_positions(120_000, num_passes=12), num_positions(400, num_passes=12), num_positions(1e9, num_passes=12)
        (1500, 300, 2000)
    """
    affordable = int(SHARE_OF_TRAINING * _COST_OF_A_STEP * num_steps / num_passes)
    return min(MOST_POSITIONS, max(FEWEST_POSITIONS, affordable))


def kept_importances(found: tuple[str, FeatureImportances]) -> dict[str, Any]:
    """Return what ``metrics.json`` keeps of the importances of a run."""
    part, importances = found
    return {IMPORTANCES: {PART: part, **json.loads(importances.to_json())}}


def importance_lines(metrics: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the fields that a run could not tell from nothing, for the person who trained it.

    Args:
        metrics: content of ``metrics.json``.
    """
    verdicts = FieldVerdicts.from_metrics(metrics)
    return verdicts.lines() if verdicts is not None else []
