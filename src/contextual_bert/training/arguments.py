"""Training settings: transformers' TrainingArguments with defaults that fit sets of items, and one setting of our own.

Knows no model and no data.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from contextual_bert.errors import ConfigurationError, did_you_mean

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("float32", "bfloat16")


@dataclass
class ContextualTrainingArguments(TrainingArguments):
    """``TrainingArguments`` for masked items: only the defaults differ, and ``masks_per_set`` is new.

    Args:
        masks_per_set: items masked in each set and step; smaller sets are masked whole.

    Raises:
        ConfigurationError: ``masks_per_set`` below one.

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
    greater_is_better: bool | None = False
    logging_steps: float = 50
    remove_unused_columns: bool | None = False  # batches come whole from the data set: there are no columns to remove
    masks_per_set: int = field(default=1, metadata={"help": "Items masked in each set and step."})

    def __post_init__(self) -> None:
        if self.masks_per_set < 1:
            raise ConfigurationError(f"masks_per_set={self.masks_per_set}: nothing would be learned. Give 1 or more.")
        super().__post_init__()


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
    if device not in DEVICES:
        raise ConfigurationError(f"device={device!r}. {did_you_mean(device, DEVICES)}")
    if dtype not in DTYPES:
        raise ConfigurationError(f"dtype={dtype!r}. {did_you_mean(dtype, DTYPES)}")
    if (device == "cuda" and not torch.cuda.is_available()) or (device == "mps" and not torch.backends.mps.is_available()):
        raise ConfigurationError(f"device={device!r}, and PyTorch finds none on this machine. Give 'cpu' or 'auto'.")
    on_cpu = device == "cpu" or (device == "auto" and not torch.accelerator.is_available())
    return ContextualTrainingArguments(
        output_dir=str(output),
        use_cpu=on_cpu,
        dataloader_pin_memory=not on_cpu,
        ddp_backend="gloo" if on_cpu and torch.distributed.is_torchelastic_launched() else None,
        bf16=dtype == "bfloat16",
        seed=seed,
        data_seed=seed,
        **settings,
    )


def check_settings(settings: dict[str, Any]) -> None:
    """Raise ConfigurationError for a name that is no training setting, with the closest one."""
    known = ContextualTrainingArguments.__dataclass_fields__
    for name in settings:
        if name not in known:
            raise ConfigurationError(f"No training setting {name!r}. {did_you_mean(name, known)}")
