"""Settings of DP-SGD: which go together with it, and which are refused because the guarantee would not hold.

Knows no model and no data. The trainer is ``private_trainer``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from contextual_bert.baselines.names import BASELINES
from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.places import SettingPlace

if TYPE_CHECKING:
    from contextual_bert.training.recipe import Recipe

EPSILON, DELTA = "dp_epsilon", "dp_delta"
DEFAULT_DELTA = 1e-5
# Setting of the training -> the value that goes with DP-SGD, and why no other one does.
_NEEDED: Mapping[str, tuple[Any, str]] = {
    "loss": ("cross_entropy", "items that are drawn for a batch would mix its examples"),
    "gradient_accumulation_steps": (1, "each step has noise of its own"),
    "gradient_checkpointing": (False, "gradients of single examples are not computed so"),
    "torch_compile": (False, "gradients of single examples are not compiled"),
    "auto_find_batch_size": (False, "the noise follows from the size of a step"),
    "dataloader_drop_last": (False, "each row is drawn by itself, and a step has no fixed number of rows"),
    "neftune_noise_alpha": (None, "it is another noise, which guarantees nothing"),
    "train_sampling_strategy": ("random", "each row is drawn by itself"),
    "deepspeed": (None, "gradients of single examples are clipped in one process"),
    "fsdp": (None, "gradients of single examples are clipped in one process"),
}


def is_private(settings: Mapping[str, Any]) -> bool:
    """Return whether training settings ask for DP-SGD.

    Example:
        >>> is_private({"dp_epsilon": 8}), is_private({})
        (True, False)
    """
    return settings.get(EPSILON) is not None


def check_private_settings(settings: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for training settings that do not go with DP-SGD.

    Args:
        settings: name -> value, those that were given.

    Example:
        >>> check_private_settings({"dp_epsilon": 8.0, "dp_delta": 1e-6})
    """
    if not is_private(settings):
        if settings.get(DELTA) is not None:
            raise ConfigurationError(
                "is of DP-SGD, which is not asked for",
                setting=DELTA,
                value=settings[DELTA],
                fix=Message("Give {dp_epsilon}, or leave it out.", dp_epsilon=8),
            )
        return
    for name, (needed, why) in _NEEDED.items():
        value = settings.get(name, needed)
        if value != needed and (value or needed):
            raise ConfigurationError(
                Message(f"does not go with {{dp_epsilon}}: {why}", dp_epsilon=settings[EPSILON]),
                setting=name,
                value=value,
                fix="Leave one of them out.",
            )
    if settings.get("max_grad_norm", 1.0) <= 0:
        raise ConfigurationError(
            Message("clips nothing, and {dp_epsilon} needs gradients of bounded length", dp_epsilon=settings[EPSILON]),
            setting="max_grad_norm",
            value=settings["max_grad_norm"],
            fix="Give a number above 0.",
        )


def check_private_recipe(recipe: "Recipe") -> None:
    """Raise ConfigurationError for a recipe that DP-SGD does not train, or of which it would not keep its promise."""
    check_private_settings(recipe.training)
    if not is_private(recipe.training):
        return
    epsilon, task = recipe.training[EPSILON], recipe.task
    reason, fix = "", "Leave it out."
    if not task.has_items:
        reason = f"is for sets of items, and this is for {task.noun}"
    elif recipe.set_task.hide != "items":
        reason, fix = Message("is for items that are masked one by one, not for {hide}", hide=recipe.set_task.hide), fix
    elif recipe.set_task.catalogue is not None:
        reason = "is for items without features: vectors of features would have gradients of all items"
    elif recipe.conditioning in BASELINES:
        reason = Message("is for methods, and {conditioning} is a baseline", conditioning=recipe.conditioning)
    elif recipe.item_vectors == "cooccurrence":
        reason = Message("adds noise, and {item_vectors} reads the rows without any", item_vectors="cooccurrence")
        fix = Message("Leave {item_vectors} out: vectors then start at random.", item_vectors=...)
    elif recipe.dtype != "float32":
        reason = Message("needs {dtype}, in which gradients are clipped exactly", dtype="float32")
        fix = Message("Give {dtype}.", dtype="float32")
    if reason:
        raise ConfigurationError(reason, place=SettingPlace(EPSILON), value=epsilon, fix=fix)
