"""Objects that are another in every epoch, and the callback that tells them which it is."""

from typing import Any, Protocol, runtime_checkable

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


@runtime_checkable
class ChangesByEpoch(Protocol):
    """Protocol for objects that must be reseeded at the start of each epoch."""

    def set_epoch(self, epoch: int) -> None: ...


class MaskEpoch(TrainerCallback):
    """Tells the collator which epoch it is, so that every epoch masks other items. For use with a plain Trainer too.

    Args:
        *followers: the collator of the training batches; the training data, where their contexts change as well.
    """

    def __init__(self, *followers: ChangesByEpoch) -> None:
        self.followers = followers

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        for follower in self.followers:
            follower.set_epoch(int(state.epoch or 0))
