"""Check that a run has learned anything: its validation loss beside counted shares of items, labels or tokens.

The shares are those of the baseline ``popularity``: counted in training, the prior chosen on validation. It trains
nothing. docs/protocol.md, "Equal treatment" and "How baselines are fitted".
"""

from dataclasses import replace
from typing import Any

from torch import nn

from contextual_bert.errors import Message
from contextual_bert.evaluation import Report, Scores
from contextual_bert.evaluation.learned import compare_with_shares
from contextual_bert.inference import set_index
from contextual_bert.runs.registry import FITTED_BASELINES, POPULARITY
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
    if recipe.conditioning in POPULARITY:
        return report
    counted = ready.share_losses(part, scored, softmax_over=_softmax_over(model))
    if counted is None:
        return report
    customers, scores = ready.customers(part), scored
    clusters = customers[set_index(ready.datasets[part], scores.example_id)] if customers is not None else None
    gap = compare_with_shares(
        -scores.log_probability,
        counted,
        clusters if clusters is not None else scores.example_id,
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
