"""The loss of a run on a sample of its training part: what says whether its rows can be told from others.

Sets, labels, tags, answers and hidden tokens are scored as the other parts are. It trains nothing.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import nn

from contextual_bert.data.hashing import hash_counters
from contextual_bert.evaluation import Report, Scores
from contextual_bert.evaluation.membership import compare_losses
from contextual_bert.inference import set_index
from contextual_bert.runs.tasks import Task
from contextual_bert.training.recipe import Recipe


def with_membership(
    report: Report,
    scored: Scores,
    ready: Task,
    recipe: Recipe,
    model: nn.Module,
    *,
    batch_size: int,
    is_shared: bool,
    progress: Callable[[int, int], None] | None,
) -> Report:
    """Return the report on the evaluated part with the loss on a sample of the training part beside its own.

    Args:
        report: on the evaluated part.
        scored: its scores.
        ready: the data of the run.
        recipe: of the run.
        model: as it was scored.
        batch_size, is_shared, progress: as for ``Task.score``.
    """
    part, sample = str(ready.evaluated_part), training_sample(ready)  # there is one: the report is on it
    training = sample.score(recipe, model, "train", batch_size=batch_size, is_shared=is_shared, progress=progress)
    own, others = sample.customers("train"), ready.customers(part)
    clusters = None
    if own is not None and others is not None:
        clusters = (
            own[set_index(sample.datasets["train"], training.example_id)],
            others[set_index(ready.datasets[part], scored.example_id)],
        )
    settings = report.settings
    gap = compare_losses(
        training,
        scored,
        part=part,
        clusters=clusters,
        num_resamples=settings.num_resamples,
        seed=settings.seed,
        level=settings.level,
    )
    return replace(report, membership=gap)


def training_sample(ready: Task) -> Task:
    """Return the data of a few rows of the training part, the same in every run, and of no other part."""
    rows = np.unique(ready.datasets["train"].example_ids.numpy())
    limit = min(ready.num_sampled, len(np.unique(ready.datasets[str(ready.evaluated_part)].example_ids.numpy())))
    chosen = rows[np.argsort(hash_counters(0, rows), kind="stable")[:limit]]
    keep = np.zeros(len(ready.split.assignment), dtype=np.bool_)
    keep[chosen] = True
    return replace(ready, split=ready.split.restricted(keep))
