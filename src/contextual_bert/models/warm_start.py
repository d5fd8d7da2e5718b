"""Go on from a model of this package that reads a context: its weights, method and features, under the same head or
another.

``pretrained`` starts from a BERT, which knows no context; here nothing of the method is new.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from contextual_bert.conditioning import get_method
from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.models.checkpoint_files import own_config, weights_read
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig
from contextual_bert.models.pretrained import HEAD_KEY, draw_anew
from contextual_bert.nouns import agreeing, counted
from contextual_bert.places import PathPlace


def context_config(checkpoint: str | Path) -> ContextualBertConfig | None:
    """The config of a model of texts of this package that reads a context, None where there is none, or another.

    Args:
        checkpoint: folder or name on the Hub.
    """
    config = own_config(checkpoint)
    if config is None:
        return None
    return config if config.has_context_as_text or get_method(config.conditioning).has_context else None


def changed_settings(
    config: ContextualBertConfig, model_class: Any, checkpoint: str | Path, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that a model may change when it is gone on from: those of its head.

    Args:
        config: of the model.
        model_class: one of the classes of this package.
        checkpoint: folder or name on the Hub, for messages.
        settings: fields of the config.

    Raises:
        ConfigurationError: another field has another value than in the model.
    """
    may_change = {"id2label", "label2id", "problem_type", "attn_implementation", *model_class.head_fields}
    fixed = [name for name, value in settings.items() if name not in may_change and config.value_of(name) != value]
    if fixed:
        raise ConfigurationError(
            f"cannot change in a model that goes on from {checkpoint}",
            setting=fixed[0],
            value=settings[fixed[0]],
            fix="Leave it out.",
        )
    return {name: value for name, value in settings.items() if name in may_change}


def load_continued(model_class: Any, checkpoint: str | Path, **settings: Any) -> Any:
    """A model of ``model_class`` with all weights of another of this package, in float32; what gives the labels is new
    where they, or what they are of, are others.

    Args:
        model_class: one of the classes of this package.
        checkpoint: folder or name on the Hub.
        **settings: what names the labels, ``attn_implementation``; other fields of the config stay as they are.

    Raises:
        CheckpointError: weights that cannot be read, are missing or of another shape.
        ConfigurationError: a field that cannot change.
    """
    config = ContextualBertConfig.from_pretrained(checkpoint)
    settings = changed_settings(config, model_class, checkpoint, settings)  # the others are the model's own
    with weights_read(checkpoint):
        model, info = model_class.from_pretrained(
            checkpoint, output_loading_info=True, ignore_mismatched_sizes=True, dtype=torch.float32, **settings
        )
    changed = [*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])]
    lost = sorted(key for key in changed if not key.startswith(model_class.head_keys))
    if lost:
        raise CheckpointError(
            f"{counted(len(lost), 'weight')} {agreeing('are', len(lost))} missing or of another shape, {lost[0]!r} is "
            "the first",
            fix="Give the folder of a whole run.",
            place=PathPlace(checkpoint, is_subject=False),
        )
    is_same_head = config.architectures == [model_class.__name__] and config.id2label == model.config.id2label
    model.has_new_head = not is_same_head or any(key.startswith(HEAD_KEY) for key in changed)
    if hasattr(model, "classifier") and not is_same_head:
        draw_anew(model.classifier, model)
    model.name_or_path = model.config.name_or_path = ""
    return model
