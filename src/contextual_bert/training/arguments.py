"""Training settings: transformers' TrainingArguments with defaults that fit sets of items, and settings of our own.

Knows no model and no data.
"""

import atexit
import math
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from transformers import SchedulerType, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, SaveStrategy
from transformers.training_args import OptimizerNames

from contextual_bert.errors import (
    ConfigurationError,
    ContextualBertError,
    Message,
    UnknownNameError,
    check_choice,
    did_you_mean,
)
from contextual_bert.evaluation.metrics import metric_key, metric_of
from contextual_bert.item_loss import NUM_NEGATIVES, ItemLoss
from contextual_bert.memory import is_out_of_memory
from contextual_bert.pydantic_findings import wanted
from contextual_bert.training.devices import chosen_device, chosen_dtype
from contextual_bert.training.setting_checks import SHARES, check_settings, check_share

_WORDS: Mapping[
    str, Iterable[SchedulerType | IntervalStrategy | OptimizerNames | SaveStrategy]
] = {  # of fields that transformers declares as texts
    "eval_strategy": IntervalStrategy,
    "logging_strategy": IntervalStrategy,
    "lr_scheduler_type": SchedulerType,
    "optim": OptimizerNames,
    "save_strategy": SaveStrategy,
}
# A value must have its field's type: pydantic turns no text into a number.
_AS_GIVEN = ConfigDict(strict=True, arbitrary_types_allowed=True)


@dataclass
class ContextualTrainingArguments(TrainingArguments):
    """``TrainingArguments`` for masked items: only the defaults differ, and eleven settings are new.

    Args:
        masks_per_set: items masked in each set and step; smaller sets are masked whole.
        one_mask_epochs: the last so many epochs mask one item a set, as the evaluation does. Several masks are more to
            learn from in a step, but a model that never saw one mask alone is too unsure of it (docs/decisions/009).
        loss: of masked items: "cross_entropy", exact; "sampled_softmax", over the items of a batch and some that are
            drawn, corrected for how often; or "gbce", which ranks items and gives no probabilities.
        num_negatives: items that a sampled loss draws a batch; None: 4,096.
        new_weights_learning_rate: peak learning rate of the weights that a BERT checkpoint does not have; None:
            ``learning_rate`` holds for all.
        context_learning_rate: peak learning rate of the weights that read the context, the context encoder's and the
            method's (of ``multi_attribute`` what makes the features' vectors); None: that of the other new weights.
        item_weight_decay: weight decay of the own vectors of items that have features. The larger it is, the more of an
            item its features must say: new items gain, known ones soon lose. None: ``weight_decay`` holds for all.
        context_dropout: how often a training example is shown without its context: every field is missing. The model
            learns what to say of somebody of whom nothing is known.
        field_dropout: how often each single field is left out, so that one model is valid for any subset of the fields,
            and for values that training does not have: it is missing, or, every other time, an unknown value.
        dp_epsilon: trains with DP-SGD, whose steps spend this epsilon, see ``private_trainer``; None: without.
        dp_delta: at which epsilon holds; None: 1e-5.

    Raises:
        ConfigurationError: ``masks_per_set`` below one; ``one_mask_epochs`` that change nothing or cannot be counted; a
            dropout that is no share; a loss that is unknown, or that draws nothing and is told how much.

    Example:
        >>> ContextualTrainingArguments(output_dir="run", use_cpu=True).learning_rate
        0.001
    """

    learning_rate: float = 1e-3
    per_device_train_batch_size: int = 256
    per_device_eval_batch_size: int = 1024
    num_train_epochs: float = 10
    weight_decay: float = 0.01
    lr_scheduler_type: str = "cosine"
    warmup_steps: float = 0.05  # a fraction of all steps
    eval_strategy: str = "epoch"
    save_strategy: str = "epoch"
    save_total_limit: int | None = 2
    load_best_model_at_end: bool = True
    metric_for_best_model: str | None = "cross_entropy_nats"
    greater_is_better: bool | None = None  # follows from the metric
    logging_steps: float = 50
    logging_nan_inf_filter: bool = False  # a loss that is no number ends the training, see NewWeightsTrainer.log
    ddp_find_unused_parameters: bool | None = False  # every weight takes part in every step
    restore_callback_states_from_checkpoint: bool = True  # early stopping counts on after a resume
    remove_unused_columns: bool = False  # batches come whole from the data set: there are no columns to remove
    masks_per_set: int = field(default=1, metadata={"help": "Items masked in each set and step."})
    one_mask_epochs: int = field(default=0, metadata={"help": "The last so many epochs mask one item a set."})
    loss: str = field(default="cross_entropy", metadata={"help": "Of masked items: exact, or over drawn ones."})
    num_negatives: int | None = field(default=None, metadata={"help": "Items that a sampled loss draws a batch."})
    new_weights_learning_rate: float | None = field(
        default=None, metadata={"help": "Peak learning rate of the weights that a BERT checkpoint does not have."}
    )
    context_learning_rate: float | None = field(
        default=None, metadata={"help": "Peak learning rate of the weights that read the context."}
    )
    item_weight_decay: float | None = field(
        default=None, metadata={"help": "Weight decay of the own vectors of items that have features."}
    )
    context_dropout: float = field(
        default=0.0, metadata={"help": "How often a training example is shown without its context."}
    )
    field_dropout: float = field(
        default=0.0,
        metadata={"help": "How often each single field of a training example's context is missing or unknown."},
    )
    dp_epsilon: float | None = field(default=None, metadata={"help": "Train with DP-SGD that spends this epsilon."})
    dp_delta: float | None = field(default=None, metadata={"help": "At which the epsilon of DP-SGD holds."})

    def __post_init__(self) -> None:
        for name in SHARES:
            check_share(name, getattr(self, name))
        check_choice("loss", self.loss, get_args(ItemLoss))
        if self.num_negatives is not None and self.num_negatives < 1:
            raise ConfigurationError(
                "is not allowed", setting="num_negatives", value=self.num_negatives, fix="Give 1 or more."
            )
        if self.num_negatives is not None and self.loss == "cross_entropy":
            raise ConfigurationError(
                Message("is for losses that draw items, and {loss} reads them all", loss=self.loss),
                setting="num_negatives",
                value=self.num_negatives,
                fix=Message("Leave it out, or give {loss}.", loss="sampled_softmax"),
            )
        if self.masks_per_set < 1:
            raise ConfigurationError(
                "is not allowed: nothing would be learned",
                setting="masks_per_set",
                value=self.masks_per_set,
                fix="Give 1 or more.",
            )
        if self.one_mask_epochs and self.masks_per_set == 1:
            raise ConfigurationError(
                Message("is not allowed: with {masks_per_set} every epoch is one", masks_per_set=1),
                setting="one_mask_epochs",
                value=self.one_mask_epochs,
                fix="Leave it out.",
            )
        if self.one_mask_epochs and (self.max_steps > 0 or not 0 < self.one_mask_epochs <= self.num_train_epochs):
            raise ConfigurationError(
                "is not allowed: they are the last of the epochs",
                setting="one_mask_epochs",
                value=self.one_mask_epochs,
                fix=Message(
                    "Give a number up to {num_train_epochs}, and no max_steps.", num_train_epochs=self.num_train_epochs
                ),
            )
        if self.metric_for_best_model is not None:
            self.metric_for_best_model = metric_key(self.metric_for_best_model)
        if self.greater_is_better is None and self.metric_for_best_model is not None:
            with suppress(UnknownNameError):  # a metric of somebody else's trainer; transformers has a rule for these
                self.greater_is_better = metric_of(self.metric_for_best_model.removeprefix("eval_")).is_higher_better
        if self.dataloader_num_workers == 0 and (
            self.dataloader_persistent_workers or self.dataloader_multiprocessing_context is not None
        ):
            raise ConfigurationError(
                "dataloader_persistent_workers and dataloader_multiprocessing_context are for workers, and there "
                "are none",
                fix="Give dataloader_num_workers, or leave them out.",
            )
        self.adam_beta1, self.adam_beta2 = float(self.adam_beta1), float(self.adam_beta2)  # torch takes no integer 0
        super().__post_init__()

    @property
    def num_drawn(self) -> int:
        """The items that a sampled loss draws a batch."""
        return self.num_negatives or NUM_NEGATIVES

    @property
    def one_mask_from_epoch(self) -> int | None:
        """The first epoch, counted from 0, that masks one item a set; None where there is no such change."""
        return math.ceil(self.num_train_epochs) - self.one_mask_epochs if self.one_mask_epochs else None


def training_arguments(
    output: Path, *, device: str = "auto", dtype: str = "float32", seed: int = 0, **settings: Any
) -> ContextualTrainingArguments:
    """Training arguments from the words that the command line uses.

    Args:
        output: folder for checkpoints and logs.
        device: "auto" takes an accelerator if there is one.
        dtype: "bfloat16" trains under autocast; weights and the loss stay in float32.
        seed: of initialisation, dropout and order.
        **settings: any field of ContextualTrainingArguments.

    Raises:
        ConfigurationError: a device that this machine lacks; a setting that cannot work, see ``check_settings``.

    Example:
        >>> training_arguments(Path("run"), device="cpu", dtype="bfloat16").bf16
        True
    """
    check_settings(settings)
    return checked_arguments(output, settings, device=device, dtype=dtype, seed=seed)


def checked_arguments(
    output: Path, settings: Mapping[str, Any], *, device: str, dtype: str, seed: int
) -> ContextualTrainingArguments:
    """Return the training arguments of settings that were checked, as those of a recipe are.

    Args:
        output, settings, device, dtype, seed: as for ``training_arguments``.

    Raises:
        ConfigurationError: a device that this machine lacks; settings that do not work together.
    """
    on_cpu = chosen_device(device).type == "cpu"
    is_distributed = torch.distributed.is_torchelastic_launched()
    if is_distributed:
        atexit.register(_leave_process_group)  # once or several times: only the first finds a group
    chosen: dict[str, Any] = {
        "use_cpu": on_cpu,
        "dataloader_pin_memory": not on_cpu,
        "ddp_backend": "gloo" if on_cpu and is_distributed else None,
        "bf16": chosen_dtype(dtype) == torch.bfloat16,
    }
    with refusals_in_words(settings):
        return ContextualTrainingArguments(output_dir=str(output), seed=seed, data_seed=seed, **{**chosen, **settings})


def _leave_process_group() -> None:
    """At exit, while the interpreter is whole: a process that ends with gloo's threads is aborted now and then."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@contextmanager
def refusals_in_words(settings: Mapping[str, Any]) -> Generator[None]:
    """Turns what transformers or torch raise at these settings into a sentence; without any it was not the settings.

    Raises:
        ConfigurationError: in place of theirs.

    Example:
        >>> with suppress(ConfigurationError), refusals_in_words({"optim": "lomo"}):
        ...     raise ImportError("install lomo-optim")
    """
    try:
        yield
    except (ContextualBertError, torch.OutOfMemoryError):
        raise
    except (ValueError, TypeError, KeyError, RuntimeError, ImportError) as error:
        if not settings or is_out_of_memory(error):
            raise
        raise ConfigurationError(
            f"does not work: {' '.join(str(error).split())}", setting="training", value=dict(settings)
        ) from error


def check_settings_of_trainer(settings: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a value of another type.

    ``training.setting_checks.check_settings`` calls it for settings that it does not know itself.

    Example:
        >>> check_settings_of_trainer({"num_train_epochs": 3})
    """
    known = get_type_hints(ContextualTrainingArguments)
    choices = {
        each.name: [*(each.metadata.get("choices") or (word.value for word in _WORDS.get(each.name, ())))]
        for each in fields(ContextualTrainingArguments)
    }
    for name, value in settings.items():
        try:
            TypeAdapter(known[name], config=_AS_GIVEN).validate_python(value)
        except ValidationError as error:
            raise ConfigurationError("is not allowed", setting=name, value=value, fix=wanted(error.errors())) from error
        if choices[name] and value is not None and value not in choices[name]:
            raise ConfigurationError(
                "is unknown", setting=name, value=value, allowed=did_you_mean(value, choices[name])
            )
