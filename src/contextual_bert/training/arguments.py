"""Training settings: transformers' TrainingArguments with defaults that fit sets of items, and settings of our own.

Knows no model and no data.
"""

import atexit
import math
import timeit
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, get_type_hints

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from transformers import TrainingArguments

from contextual_bert.errors import ConfigurationError, ContextualBertError, UnknownNameError, did_you_mean
from contextual_bert.evaluation.metrics import metric_of

SHARES = ("context_dropout", "field_dropout", "label_smoothing_factor")
DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("float32", "bfloat16")
OWN_SETTINGS = {
    "output_dir": "output",
    "seed": "seed",
    "data_seed": "seed",
    "use_cpu": "device",
    "bf16": "dtype",
    "fp16": "dtype",
}
POSITIVE = (
    "context_learning_rate",
    "gradient_accumulation_steps",
    "learning_rate",
    "masks_per_set",
    "new_weights_learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
)
# A value must have its field's type: pydantic turns no text into a number.
_AS_GIVEN = ConfigDict(strict=True, arbitrary_types_allowed=True)


@dataclass
class ContextualTrainingArguments(TrainingArguments):
    """``TrainingArguments`` for masked items: only the defaults differ, and six settings are new.

    Args:
        masks_per_set: items masked in each set and step; smaller sets are masked whole.
        one_mask_epochs: the last so many epochs mask one item a set, as the evaluation does. Several masks are more to
            learn from in a step, but a model that never saw one mask alone is too unsure of it (docs/decisions/009).
        new_weights_learning_rate: peak learning rate of the weights that a BERT checkpoint does not have; None:
            ``learning_rate`` holds for all.
        context_learning_rate: peak learning rate of the weights that read the context, the context encoder's and the
            method's (of ``multi_attribute`` what makes the features' vectors); None: that of the other new weights.
        context_dropout: how often a training example is shown without its context: every field is missing. The model
            learns what to say of somebody of whom nothing is known.
        field_dropout: how often each single field is left out, so that one model is valid for any subset of the fields,
            and for values that training does not have: it is missing, or, every other time, an unknown value.

    Raises:
        ConfigurationError: ``masks_per_set`` below one; ``one_mask_epochs`` that change nothing or cannot be counted; a
            dropout that is no share.

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
    ddp_find_unused_parameters: bool | None = False  # every weight takes part in every step
    restore_callback_states_from_checkpoint: bool = True  # early stopping counts on after a resume
    remove_unused_columns: bool = False  # batches come whole from the data set: there are no columns to remove
    masks_per_set: int = field(default=1, metadata={"help": "Items masked in each set and step."})
    one_mask_epochs: int = field(default=0, metadata={"help": "The last so many epochs mask one item a set."})
    new_weights_learning_rate: float | None = field(
        default=None, metadata={"help": "Peak learning rate of the weights that a BERT checkpoint does not have."}
    )
    context_learning_rate: float | None = field(
        default=None, metadata={"help": "Peak learning rate of the weights that read the context."}
    )
    context_dropout: float = field(
        default=0.0, metadata={"help": "How often a training example is shown without its context."}
    )
    field_dropout: float = field(
        default=0.0,
        metadata={"help": "How often each single field of a training example's context is missing or unknown."},
    )

    def __post_init__(self) -> None:
        for name in SHARES:
            check_share(name, getattr(self, name))
        if self.masks_per_set < 1:
            raise ConfigurationError(f"masks_per_set={self.masks_per_set}: nothing would be learned. Give 1 or more.")
        if self.one_mask_epochs and self.masks_per_set == 1:
            raise ConfigurationError(
                f"one_mask_epochs={self.one_mask_epochs}: with masks_per_set=1 every epoch is one. Leave it out."
            )
        if self.one_mask_epochs and (self.max_steps > 0 or not 0 < self.one_mask_epochs <= self.num_train_epochs):
            raise ConfigurationError(
                f"one_mask_epochs={self.one_mask_epochs}: they are the last of the epochs. Give a number up to "
                f"num_train_epochs={self.num_train_epochs}, and no max_steps."
            )
        if self.greater_is_better is None and self.metric_for_best_model is not None:
            with suppress(UnknownNameError):  # a metric of somebody else's trainer; transformers has a rule for these
                self.greater_is_better = metric_of(self.metric_for_best_model.removeprefix("eval_")).is_higher_better
        super().__post_init__()

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
        ConfigurationError: a device that this machine lacks.
        UnknownNameError: see ``check_settings``.

    Example:
        >>> training_arguments(Path("run"), device="cpu", dtype="bfloat16").bf16
        True
    """
    check_settings(settings)
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
    try:
        return ContextualTrainingArguments(output_dir=str(output), seed=seed, data_seed=seed, **{**chosen, **settings})
    except ContextualBertError:
        raise
    except (ValueError, TypeError, NotImplementedError, ImportError) as error:
        raise ConfigurationError(f"The training settings {settings} do not work: {error}") from error


def _leave_process_group() -> None:
    """At exit, while the interpreter is whole: a process that ends with gloo's threads is aborted now and then."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def chosen_device(name: str) -> torch.device:
    """The device of that name; "auto" takes an accelerator if there is one.

    Raises:
        ConfigurationError: no such device, or this machine lacks it.

    Example:
        >>> chosen_device("cpu").type
        'cpu'
    """
    if name not in DEVICES:
        raise ConfigurationError(f"device={name!r}. {did_you_mean(name, DEVICES)}")
    if (name == "cuda" and not torch.cuda.is_available()) or (name == "mps" and not torch.backends.mps.is_available()):
        raise ConfigurationError(f"device={name!r}, and PyTorch finds none on this machine. Give 'cpu' or 'auto'.")
    if name != "auto":
        return torch.device(name)
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator if accelerator is not None else torch.device("cpu")


def chosen_dtype(name: str) -> torch.dtype:
    """float32 or bfloat16, by name.

    Raises:
        ConfigurationError: another name.

    Example:
        >>> chosen_dtype("bfloat16")
        torch.bfloat16
    """
    if name not in DTYPES:
        raise ConfigurationError(f"dtype={name!r}. {did_you_mean(name, DTYPES)}")
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def fast_dtype(device: str = "auto") -> str:
    """The faster of the two dtypes to train in.

    A processor without bfloat16 instructions emulates them, at half the speed of float32; and one that has them may
    still multiply float32 faster (docs/guides/compare-methods.md), so there both are timed.

    Raises:
        ConfigurationError: see ``chosen_device``.

    Example:
        >>> fast_dtype() in ("float32", "bfloat16")
        True
    """
    if chosen_device(device).type != "cpu":
        return "bfloat16"
    can = torch.cpu.get_capabilities()
    has_instructions = any(can.get(name) for name in ("amx_bf16", "avx512_bf16", "bf16"))
    return "bfloat16" if has_instructions and bfloat16_speed() > 1 else "float32"


@cache
def bfloat16_speed() -> float:
    """How many times as fast as in float32 this processor multiplies matrices in bfloat16.

    The best of many short trials, in turns, because others may use the processor too.

    Example:
        >>> bfloat16_speed() > 0
        True
    """
    products = [
        partial(torch.mm, torch.ones(256, 384, dtype=dtype), torch.ones(384, 384, dtype=dtype))
        for dtype in (torch.float32, torch.bfloat16)
    ]
    seconds = [[timeit.timeit(product, number=1) for product in products] for _ in range(25)]
    in_float32, in_bfloat16 = map(min, zip(*seconds, strict=True))
    return in_float32 / in_bfloat16


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a name that is no training setting, or a value that cannot work.

    Example:
        >>> check_settings({"num_train_epochs": 3})
    """
    known = get_type_hints(ContextualTrainingArguments)
    for name, value in settings.items():
        if name in OWN_SETTINGS:
            raise ConfigurationError(f"{name!r} is not a setting of its own here: give {OWN_SETTINGS[name]} instead.")
        if name not in known:
            raise ConfigurationError(f"No training setting {name!r}. {did_you_mean(name, known)}")
        if name in POSITIVE and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf
        ):
            raise ConfigurationError(f"{name}={value!r}: give a number above 0.")
        if name in SHARES:
            check_share(name, value)
        try:
            TypeAdapter(known[name], config=_AS_GIVEN).validate_python(value)
        except ValidationError as error:
            reasons = dict.fromkeys(reason["msg"].removeprefix("Input should be ") for reason in error.errors())
            raise ConfigurationError(f"{name}={value!r}: give {' or '.join(reasons)}.") from error


def check_share(name: str, value: object) -> None:
    """Raise ConfigurationError unless the value is a number from 0 to below 1.

    Example:
        >>> check_share("context_dropout", 0.1)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigurationError(f"{name}={value!r}: give a share, a number from 0 to below 1.")
