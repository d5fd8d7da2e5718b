"""Go on from a model of this package that reads a context: its weights, method and features, under the same head or
another.

``pretrained`` starts from a BERT, which knows no context; here nothing of the method is new.
"""

from pathlib import Path
from typing import Any

from transformers.utils import logging

from contextual_bert.errors import CheckpointError, ConfigurationError
from contextual_bert.models.checkpoint_files import is_plain_bert, own_config
from contextual_bert.models.configuration_contextual_bert import ContextualBertConfig


def context_config(checkpoint: str | Path) -> ContextualBertConfig | None:
    """The config of a model of texts of this package that is more than a BERT, None where there is none, or another.

    Args:
        checkpoint: folder or name on the Hub.
    """
    config = own_config(checkpoint)
    return config if config is not None and not is_plain_bert(config) else None


def load_continued(model_class: Any, checkpoint: str | Path, **settings: Any) -> Any:
    """A model of ``model_class`` with all weights of another of this package, but for the head where that is another.

    Args:
        model_class: one of the classes of this package.
        checkpoint: folder or name on the Hub.
        **settings: what names the labels, ``attn_implementation``; other fields of the config stay as they are.

    Raises:
        CheckpointError: weights are missing.
        ConfigurationError: a field that cannot change.
    """
    config = ContextualBertConfig.from_pretrained(checkpoint)
    may_change = {"id2label", "label2id", "problem_type", "attn_implementation", *model_class.head_fields}
    fixed = [
        name for name, value in settings.items() if name not in may_change and getattr(config, name, None) != value
    ]
    if fixed:
        raise ConfigurationError(
            f"{', '.join(fixed)} cannot change in a model that goes on from {checkpoint}. Leave it out."
        )
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # a head of other labels is listed; what is amiss is raised below
    try:
        model, info = model_class.from_pretrained(
            checkpoint, output_loading_info=True, ignore_mismatched_sizes=True, **settings
        )
    finally:
        logging.set_verbosity(verbosity)
    changed = [*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])]
    lost = sorted(key for key in changed if not key.startswith(model_class.head_keys))
    if lost:
        raise CheckpointError(
            f"{checkpoint}: {len(lost)} weights are missing or of another shape, {lost[0]!r} is the first."
        )
    model.name_or_path = model.config.name_or_path = ""
    return model
