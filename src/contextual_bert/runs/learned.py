"""Whether a run has learned anything: its loss on the validation part beside counted shares of items, labels, tokens.

The shares are those of the baseline ``popularity``: counted in training, the prior chosen on validation. It trains
nothing. PROTOCOL, points 8 and 15.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from contextual_bert.baselines.shares import Observations, ShareModel
from contextual_bert.data import SequenceDataset
from contextual_bert.evaluation import Report
from contextual_bert.evaluation.learned import compare_with_shares
from contextual_bert.inference import ScoredSet, set_index
from contextual_bert.models import IGNORED_LABEL, RESERVED_ITEMS
from contextual_bert.runs.prepared import Prepared
from contextual_bert.runs.registry import FITTED_BASELINES, POPULARITY
from contextual_bert.runs.set_work import observations_of
from contextual_bert.training import ContextualTrainingArguments
from contextual_bert.training.recipe import Recipe

MORE_EPOCHS, LARGER_RATE = 4, 3


def with_shares(
    report: Report,
    scored: ScoredSet,
    ready: Prepared,
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
    if recipe.conditioning in POPULARITY or getattr(ready, "head", None) == "answers":
        return report
    counted = share_losses(ready, scored, part, softmax_over=_softmax_over(model))
    customers, scores = ready.customers(part), scored.scores
    clusters = customers[set_index(ready.datasets[part], scores.example_id)] if customers is not None else None
    gap = compare_with_shares(
        -scores.log_probability,
        counted,
        clusters if clusters is not None else scores.example_id,
        shares=_name_of_shares(ready),
        part=part,
        advice=advice_of(arguments) if recipe.conditioning not in FITTED_BASELINES else "",
    )
    return replace(report, learned=gap)


def advice_of(arguments: ContextualTrainingArguments) -> str:
    """Return what to try where a training has taught nothing."""
    rate = f"{LARGER_RATE * arguments.learning_rate:g}"
    longer = f"num_train_epochs={MORE_EPOCHS * arguments.num_train_epochs:g}"
    if arguments.max_steps > 0:
        longer = f"max_steps={MORE_EPOCHS * arguments.max_steps}"
    return (
        f"Train longer, such as {longer}, or at a larger rate, such as learning_rate={rate}. Where neither helps, the "
        "table says nothing of what is asked, or has too few rows."
    )


def share_losses(ready: Prepared, scored: ScoredSet, part: str, *, softmax_over: str) -> NDArray[np.float64]:
    """Return the loss of counted shares for each scored row, in nats, in the order of the scores.

    Args:
        ready: the data; labels, items or tokens.
        scored: of the part.
        part: its name.
        softmax_over: as the run's model has it, see ``candidates``; of labels it means nothing.
    """
    if scored.labelled is not None:
        shares = _counted(ready, num_classes=ready.num_choices, num_reserved=0, is_without_visible=False)
        return -shares[scored.labelled.true]
    dataset: SequenceDataset = ready.datasets[part]
    tokenizer: Any = ready.processor.tokenizer if ready.recipe.texts is not None else None
    is_without_visible = tokenizer is None and softmax_over == "candidates"
    if tokenizer is None:
        num_classes, num_reserved = len(ready.processor.items), len(RESERVED_ITEMS)
    else:
        num_classes, num_reserved = len(tokenizer), 0
    shares = _counted(ready, num_classes=num_classes, num_reserved=num_reserved, is_without_visible=is_without_visible)
    index = set_index(dataset, scored.scores.example_id)
    targets = dataset.input_ids.numpy()[dataset.offsets.numpy()[index] + scored.scores.position]
    own = shares[targets]
    if not is_without_visible:
        return -own
    of_others = _sums_of_sets(dataset, np.exp(shares))[index] - np.exp(own)
    return np.log(np.maximum(1 - of_others, 1e-30)) - own


def _sums_of_sets(dataset: SequenceDataset, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the shares of each set's different items."""
    rows = np.repeat(np.arange(len(dataset)), np.asarray(dataset.sizes))
    pairs = np.unique(np.stack([rows, dataset.input_ids.numpy()]), axis=1)
    return np.bincount(pairs[0], weights=shares[pairs[1]], minlength=len(dataset)).astype(np.float64)


def _counted(ready: Prepared, *, num_classes: int, num_reserved: int, is_without_visible: bool) -> NDArray[np.float64]:
    """Return the logarithm of the share of each class, (classes,): counted in training, the prior from validation."""
    shares = ShareModel(num_classes, layout=(), num_reserved=num_reserved)
    validation = ready.datasets.get("validation")
    shares.fit(
        _observations(ready.datasets["train"], ready),
        _observations(validation, ready) if validation is not None else None,
        is_without_visible=is_without_visible,
    )
    return shares.log_shares.double().numpy()


def _observations(dataset: SequenceDataset, ready: Prepared) -> Observations:
    """Return the items, tokens or labels of a part as classes, with the row of each."""
    classes = dataset.labels
    if classes is None:
        every = observations_of(dataset)
        if ready.recipe.texts is None:
            return every
        classes, rows = every.targets, every.rows
        tokenizer: Any = ready.processor.tokenizer
        is_asked = ~torch.isin(classes, torch.tensor(tokenizer.all_special_ids))
    else:
        lengths = dataset.offsets.diff() if len(classes) != len(dataset) else torch.ones(len(dataset)).long()
        rows = torch.repeat_interleave(torch.arange(len(dataset)), lengths)
        is_asked = classes != IGNORED_LABEL
    return Observations(classes[is_asked], rows[is_asked], {})


def _softmax_over(model: nn.Module) -> str:
    own: Any = model
    return getattr(own, "softmax_over", None) or getattr(getattr(own, "config", None), "softmax_over", "vocabulary")


def _name_of_shares(ready: Prepared) -> str:
    if ready.recipe.texts is None:
        return "counted popularity"
    return "label shares" if ready.recipe.texts.label is not None else "token shares"
