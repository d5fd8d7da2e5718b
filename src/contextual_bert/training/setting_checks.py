"""Check names and values of settings of trainings and models without importing torch or transformers.

Settings that have an option of their own are checked here. Others are fields of transformers' TrainingArguments, and
`arguments` checks their names and types. Of a model's config a recipe may set what does not follow from it, its data
or its checkpoint.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from contextual_bert import training
from contextual_bert.conditioning.registry import METHODS
from contextual_bert.errors import ConfigurationError, Message, check_choice, did_you_mean
from contextual_bert.item_loss import ItemLoss
from contextual_bert.options import MAIN, SETS, TRAINING, Option, declared_options
from contextual_bert.places import SettingPlace
from contextual_bert.softmax_over import SoftmaxOver
from contextual_bert.training.task_settings import TaskSettings
from contextual_bert.training.trainer_fields import trainer_fields

SHARES = ("adam_beta1", "adam_beta2", "context_dropout", "field_dropout", "label_smoothing_factor")
OWN_SETTINGS = {
    "output_dir": "output",
    "seed": "seed",
    "data_seed": "seed",
    "use_cpu": "device",
    "bf16": "dtype",
    "fp16": "dtype",
    "resume_from_checkpoint": "resume",
}
# What transformers' examples read and its Trainer does not, and what contradicts whole batches, their exact scores and
# a resume that ends as the run would have.
FIXED = frozenset(
    {
        "batch_eval_metrics",
        "bf16_full_eval",
        "dataloader_persistent_workers",
        "do_eval",
        "do_predict",
        "do_train",
        "eval_do_concat_batches",
        "eval_use_gather_object",
        "fp16_full_eval",
        "ignore_data_skip",
        "include_for_metrics",
        "label_names",
        "length_column_name",
        "liger_kernel_config",
        "local_rank",
        "remove_unused_columns",
        "save_only_model",
        "use_liger_kernel",
    }
)
POSITIVE = (
    "context_learning_rate",
    "dp_delta",
    "dp_epsilon",
    "eval_accumulation_steps",
    "gradient_accumulation_steps",
    "learning_rate",
    "masks_per_set",
    "num_negatives",
    "new_weights_learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
)
NOT_NEGATIVE = (
    "adam_epsilon",
    "dataloader_num_workers",
    "eval_delay",
    "eval_steps",
    "item_weight_decay",
    "logging_steps",
    "max_grad_norm",
    "neftune_noise_alpha",
    "save_steps",
    "warmup_steps",
    "weight_decay",
)
LORA_SETTINGS = ("rank", "alpha", "dropout")

# Of a new model of sets, what differs from the config's own defaults.
DEFAULT_MODEL: Mapping[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "intermediate_size": 256,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True)
class SettingsWithOptions:
    """The training settings that have an option of their own; test_arguments compares their types with the arguments'.

    Example:
        >>> list(declared_options(SettingsWithOptions))[:2]
        ['num_train_epochs', 'per_device_train_batch_size']
    """

    num_train_epochs: Annotated[
        float | None,
        Option("Passes over the training part, above 0 (default by the number of rows).", MAIN, name="epochs"),
    ] = None
    per_device_train_batch_size: Annotated[
        int | None,
        Option(
            "Sets a training step and process (default 64 to 256 by their number, for texts 32).",
            TRAINING,
            name="batch-size",
        ),
    ] = None
    learning_rate: Annotated[
        float | None, Option("Peak learning rate, above 0 (default 0.001, for texts 0.0001).", TRAINING)
    ] = None
    masks_per_set: Annotated[
        int | None, Option("Items masked in each set and step, 1 or more (default 2, then 1).", SETS)
    ] = None
    loss: Annotated[
        ItemLoss | None,
        Option(
            "What masked items are learned by: all items compared exactly, drawn ones corrected for how often they "
            "are drawn, or a ranking of drawn ones (default the first up to 200,000 items, then the second).",
            SETS,
        ),
    ] = None
    num_negatives: Annotated[
        int | None, Option("With a --loss that draws items: how many a step, 1 or more (default 4096).", SETS)
    ] = None
    dp_epsilon: Annotated[
        float | None,
        Option(
            "Train with DP-SGD that spends this epsilon, such as 8, for single rows; needs opacus. The longest "
            "gradient of a row is --set max_grad_norm=1.",
            SETS,
        ),
    ] = None
    dp_delta: Annotated[
        float | None, Option("With --dp-epsilon: the delta at which it holds, below 1 / rows (default 1e-5).", SETS)
    ] = None
    torch_compile: Annotated[
        bool, Option("Use torch.compile: slow to start, then faster.", TRAINING, name="compile")
    ] = False


# Setting with an option of its own -> types of its values.
PLAIN: Mapping[str, tuple[type, ...]] = {
    name: (float, int) if option.kind is float else (option.kind,)
    for name, option in declared_options(SettingsWithOptions).items()
}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a name that is no training setting, or a value that cannot work.

    Example:
        >>> check_settings({"num_train_epochs": 3})
    """
    for name, value in settings.items():
        if name in OWN_SETTINGS:
            own = OWN_SETTINGS[name]
            fix = Message(f"Give {{{own}}} in its place.", **{own: value if own == "seed" else ...})
            raise ConfigurationError("is set elsewhere", place=SettingPlace(name, of="training"), value=value, fix=fix)
        if name in FIXED:
            raise ConfigurationError(
                "changes nothing here, or what must not be changed",
                place=SettingPlace(name, of="training"),
                value=value,
                fix="Leave it out.",
            )
        check_value(name, value)
        if name not in trainer_fields():
            place, known = SettingPlace(name, of="training"), did_you_mean(name, trainer_fields())
            raise ConfigurationError("is no training setting", place=place, value=value, allowed=known)
        if type(value) not in PLAIN.get(name, ()):
            training.check_settings_of_trainer({name: value})


def check_value(name: str, value: object) -> None:
    """Raise ConfigurationError for a number out of its range.

    Example:
        >>> check_value("weight_decay", 0.5)
    """
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if name in POSITIVE and value is not None and (number is None or not 0 < number < math.inf):
        raise ConfigurationError("is not allowed", setting=name, value=value, fix="Give a number above 0.")
    if name in NOT_NEGATIVE and number is not None and not 0 <= number < math.inf:
        raise ConfigurationError("is not allowed", setting=name, value=value, fix="Give 0 or more.")
    if name == "max_steps" and number is not None and number < 1 and number != -1:  # -1 is transformers' for none
        raise ConfigurationError("is not allowed", setting=name, value=value, fix="Give 1 or more, or leave it out.")
    if name in SHARES:
        check_share(name, value)


def check_share(name: str, value: object) -> None:
    """Raise ConfigurationError unless the value is a number from 0 to below 1.

    Example:
        >>> check_share("context_dropout", 0.1)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigurationError(
            "is not allowed", setting=name, value=value, fix="Give a share, a number from 0 to below 1."
        )


def check_lora(settings: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a name that is no setting of ``add_lora``, or a value that cannot work.

    Example:
        >>> check_lora({"rank": 4, "alpha": 8})
    """
    for name, value in settings.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if name not in LORA_SETTINGS:
            place = SettingPlace(name, of="lora")
            known = did_you_mean(name, LORA_SETTINGS)
            raise ConfigurationError("is no setting of LoRA", place=place, value=value, allowed=known)
        if name == "rank" and not (is_number and isinstance(value, int) and value >= 1):
            raise ConfigurationError(
                "is not allowed", setting="rank", value=value, fix="Give 1 or more, a whole number."
            )
        if name == "alpha" and not (is_number and 0 < value < math.inf):
            raise ConfigurationError("is not allowed", setting="alpha", value=value, fix="Give a number above 0.")
        if name == "dropout":
            check_share(name, value)


def check_fields(model: Mapping[str, Any], *, task: TaskSettings) -> None:
    """Raise ConfigurationError for a name that is no field of a model's config, or one that nobody sets here.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> check_fields({"hidden_size": 256}, task=SetCompletion(items="items"))
    """
    free = [*task.model_fields, *(setting for method in METHODS for setting in METHODS.settings_of(method))]
    for name, value in model.items():
        place = SettingPlace(name, of="model")
        if name in SHARES:
            fix = Message("Give {training}.", training={name: value})
            raise ConfigurationError("is a setting of the training", place=place, value=value, fix=fix)
        if name not in free:
            raise ConfigurationError(
                f"is no field of a model's config that can be set for {task.noun}",
                place=place,
                value=value,
                allowed=did_you_mean(name, free),
                fix="Leave it out. What else a config has follows from the recipe, its data or its checkpoint.",
            )
    over = model.get("softmax_over", "vocabulary")
    check_choice("softmax_over", over, get_args(SoftmaxOver))
