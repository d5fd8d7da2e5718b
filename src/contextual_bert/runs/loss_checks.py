"""Checks of a trained run: has it learned anything, and can its training rows be told from others?

Its validation loss stands beside counted shares of items, labels or tokens: those of the baseline ``popularity``,
counted in training, the prior chosen on validation. Its loss on a sample of its training part stands beside those of
the other parts. Nothing is trained here. docs/protocol.md, "Equal treatment" and "How baselines are fitted".
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from contextual_bert.baselines.names import FITTED_BASELINES, POPULARITY
from contextual_bert.data import SequenceDataset
from contextual_bert.data.hashing import hash_counters
from contextual_bert.errors import Message
from contextual_bert.evaluation import Report, Scores
from contextual_bert.evaluation.loss_gaps import compare_losses, compare_with_shares
from contextual_bert.evaluation.new_items import calibrate_new_items
from contextual_bert.inference import set_index
from contextual_bert.runs.tasks import Task
from contextual_bert.training import ContextualTrainingArguments
from contextual_bert.training.recipe import Recipe

MORE_EPOCHS, LARGER_RATE = 4, 3


def with_shares(
    report: Report,
    scored: Scores,
    ready: Task,
    recipe: Recipe,
    model: nn.Module,
    *,
    part: str,
    arguments: ContextualTrainingArguments,
) -> Report:
    """Return the report with the run's loss beside that of counted shares; as it is where there are none to count.

    Args:
        report: on the evaluated part.
        scored: the scores of the part that is looked at.
        ready: the data of the run.
        recipe: of the run.
        model: as it was scored.
        part: that is looked at: validation where there is one.
        arguments: of the training.
    """
    if recipe.conditioning in POPULARITY or arguments.loss == "gbce":  # whose softmax is no probability
        return report
    counted = ready.share_losses(part, scored, softmax_over=_softmax_over(model))
    if counted is None:
        return report
    gap = compare_with_shares(
        -scored.log_probability,
        counted,
        _clusters(ready, ready.datasets[part], scored, part=part),
        shares=ready.name_of_shares,
        part=part,
        advice=advice_of(arguments) if recipe.conditioning not in FITTED_BASELINES else "",
    )
    return replace(report, learned=gap)


def advice_of(arguments: ContextualTrainingArguments) -> str:
    """Return what to try where a training has taught nothing."""
    name = "max_steps" if arguments.max_steps > 0 else "num_train_epochs"
    more = float(MORE_EPOCHS * getattr(arguments, name))
    longer: dict[str, object] = {name: int(more) if more.is_integer() else more}
    return Message(
        f"Train longer, such as {{{name}}}, or at a larger rate, such as {{learning_rate}}. Where neither helps, the "
        "table says nothing of what is asked, or has too few rows.",
        learning_rate=float(f"{LARGER_RATE * arguments.learning_rate:g}"),
        **longer,
    )


def _softmax_over(model: nn.Module) -> str:
    own: Any = model
    return getattr(own, "softmax_over", None) or getattr(getattr(own, "config", None), "softmax_over", "vocabulary")


def with_new_item_calibration(
    report: Report,
    scored: Scores,
    ready: Task,
    model: nn.Module,
    dataset: SequenceDataset,
    *,
    part: str,
    **settings: Any,
) -> Report:
    """Return the report with how often new items are expected and asked for; as it is where the model knows none.

    Args:
        report: on the part.
        scored: its scores.
        ready: the data of the run.
        model: as it was scored.
        dataset: that was scored.
        part: that was scored.
        **settings: of the scoring.
    """
    found = ready.new_item_shares(model, dataset, scored, **settings)
    if found is None:
        return report
    own = report.settings
    measured = calibrate_new_items(
        scored,
        *found,
        clusters=_clusters(ready, dataset, scored, part=part),
        num_bins=own.num_bins,
        num_resamples=own.num_resamples,
        seed=own.seed,
        level=own.level,
    )
    return replace(report, new_items=measured)


def _clusters(ready: Task, dataset: SequenceDataset, scored: Scores, *, part: str) -> NDArray[Any]:
    """Return the customer of each scored row, or its set or text where no column names customers."""
    customers = ready.customers(part)
    return customers[set_index(dataset, scored.example_id)] if customers is not None else scored.example_id


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
