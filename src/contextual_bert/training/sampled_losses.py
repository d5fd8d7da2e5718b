"""The loss of masked items that a training was asked for, and what cannot be learned by it."""

from typing import Any, cast

import torch
from torch import nn

from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.item_loss import ItemLoss
from contextual_bert.models.losses.item_sampler import ItemSampler
from contextual_bert.models.losses.sampled_loss import SampledLoss
from contextual_bert.training.arguments import ContextualTrainingArguments


def set_item_loss(model: nn.Module, args: ContextualTrainingArguments, dataset: SequenceDataset | None) -> None:
    """Let a model learn masked items by the loss of ``args``; what learns no masked items is left as it is.

    Args:
        model: what is trained.
        args: say which loss, and how many items are drawn.
        dataset: the training data, whose items are counted; None where nothing is trained.

    Raises:
        ConfigurationError: a sampled loss for a model that cannot learn by it.
    """
    learner: Any = model if hasattr(model, "set_sampled_loss") else None
    reason = why_not_sampled(model)
    if args.loss != "cross_entropy" and reason is not None:
        raise ConfigurationError(
            f"compares with drawn items alone, and {reason}",
            setting="loss",
            value=args.loss,
            fix=Message("Give {loss}, or leave it out.", loss="cross_entropy"),
        )
    if learner is None or dataset is None:
        return
    if args.loss == "cross_entropy":
        learner.set_sampled_loss(None)
        return
    counts = torch.bincount(dataset.input_ids, minlength=learner.config.vocab_size)
    sampler = ItemSampler(counts, num_negatives=args.num_drawn, reserved=learner.config.reserved_token_ids)
    # Several processes add up gradients that are dense, and so does what is compiled.
    is_sparse = args.world_size == 1 and args.n_gpu <= 1 and not args.torch_compile
    learner.set_sampled_loss(SampledLoss(cast(ItemLoss, args.loss), sampler), is_sparse=is_sparse)


def why_not_sampled(model: nn.Module) -> str | None:
    """Return why a model cannot learn by a sampled loss; None where it can."""
    learner: Any = model
    if not hasattr(model, "set_sampled_loss"):
        return "this learns no masked items"
    if learner.config.item_features is not None:
        return "vectors of items with features are made for all of them in each step"
    if len(learner.repeats):
        return "a history adds to what its own items score, drawn or not"
    return None
