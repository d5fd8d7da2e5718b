"""Services that follow a training, as MLflow and Weights & Biases do, through the callbacks of transformers.

One that does not start is a mistake in the settings; one that fails later is said once, and the training goes on.
"""

import logging
from functools import partial
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from contextual_bert.errors import ConfigurationError

LOGGER = logging.getLogger(__name__)
_EVENTS = tuple(name for name in dir(TrainerCallback) if name.startswith("on_"))
_STARTING = ("on_init_end", "on_train_begin")
_NAMES: dict[type[Any], str] = {callback: name for name, callback in INTEGRATION_TO_CALLBACK.items()}


class GuardedTracker(TrainerCallback):
    """A tracker that ends no training.

    Args:
        tracker: a callback of transformers for a service.

    Raises:
        ConfigurationError: at the first step, where the service cannot be reached, lacks a key or refuses.

    Relation to its siblings:
        ``TensorBoardCallback`` writes a file of the run, and is not guarded.

    Example:
        >>> class Broken(TrainerCallback):
        ...     def on_train_begin(self, args, state, control, **kwargs):
        ...         raise OSError("no route to host")
        >>> arguments = TrainingArguments(report_to=[])
        >>> GuardedTracker(Broken()).on_train_begin(arguments, TrainerState(), TrainerControl())
        Traceback (most recent call last):
        contextual_bert.errors.ConfigurationError: report_to='Broken' does not start: no route to host...
    """

    def __init__(self, tracker: TrainerCallback) -> None:
        self.tracker = tracker
        self.name = _NAMES.get(type(tracker), type(tracker).__name__)
        self.has_failed = False
        for event in _EVENTS:
            setattr(self, event, partial(self._tell, event))

    def _tell(
        self, event: str, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> TrainerControl | None:
        if self.has_failed:
            return None
        try:
            return getattr(self.tracker, event)(args, state, control, **given)
        except Exception as error:
            what = " ".join(str(error).split()) or type(error).__name__
            if event in _STARTING:
                raise ConfigurationError(
                    f"does not start: {what}",
                    setting="report_to",
                    value=self.name,
                    fix="Leave it out to train without.",
                ) from error
            self.has_failed = True
            LOGGER.warning("report_to=%s: %s. The training goes on without.", self.name, what.rstrip("."))
            return None


def guard_trackers(trainer: Trainer) -> None:
    """Guard all services that ``report_to`` names."""
    for tracker in [each for each in trainer.callback_handler.callbacks if type(each) in _NAMES]:
        trainer.remove_callback(tracker)
        trainer.add_callback(GuardedTracker(tracker))
