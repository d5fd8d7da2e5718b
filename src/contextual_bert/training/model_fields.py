"""Which fields of a model's config a recipe may set: the others follow from it, its data or its checkpoint."""

from collections.abc import Mapping
from typing import Any, get_args

from contextual_bert import conditioning, models
from contextual_bert.errors import ConfigurationError, did_you_mean
from contextual_bert.softmax_over import SoftmaxOver
from contextual_bert.training.settings import SHARES
from contextual_bert.training.task_settings import TaskSettings

# Of a new model of sets, what differs from the config's own defaults.
DEFAULT_MODEL: Mapping[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "intermediate_size": 256,
    "tie_word_embeddings": False,
}


def check_fields(model: Mapping[str, Any], *, task: TaskSettings) -> None:
    """Raise ConfigurationError for a name that is no field of a model's config, or one that nobody sets here.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> check_fields({"hidden_size": 256}, task=SetCompletion(items="items"))
    """
    free = [*task.model_fields]
    for name in model:
        if name in SHARES:
            raise ConfigurationError(f"{name!r} is a setting of the training", fix="Give it there, not to the model.")
        # The methods and the config need torch, so they are asked for other names alone.
        if name in free or conditioning.methods_of_setting(name):
            continue
        if name in models.ContextualBertConfig.__dataclass_fields__:
            raise ConfigurationError(
                f"{name!r} follows from the recipe, its data or its checkpoint",
                fix=f"Leave it out of the model's fields. Those that can be set: {', '.join(sorted(free))}.",
            )
        free += [setting for method in conditioning.METHODS.values() for setting in method.setting_names()]
        raise ConfigurationError(f"No field {name!r} in a model's config", allowed=did_you_mean(name, free))
    over = model.get("softmax_over", "vocabulary")
    if over not in get_args(SoftmaxOver):
        raise ConfigurationError(
            "is unknown", setting="softmax_over", value=over, allowed=did_you_mean(str(over), get_args(SoftmaxOver))
        )
