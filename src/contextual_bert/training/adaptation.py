"""What of a pretrained BERT is trained: all of it, only what is new, or low-rank changes of its weights beside that.

The weights that no BERT has (the method's, the context encoder's, the head's) are always trained. Nothing is trained
here. Paper: MA-BERT's controls freeze BERT; Hu et al. (2021), "LoRA".
"""

from typing import Any

from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertPreTrainedModel
from contextual_bert.models.pretrained import is_new


def freeze_bert(model: ContextualBertPreTrainedModel) -> None:
    """Train only what no BERT has: the weights of the method, of the context encoder and of the head.

    Example:
        >>> from contextual_bert.testing import miniature_model
        >>> model = miniature_model("film")
        >>> freeze_bert(model)
        >>> [name for name, weight in model.named_parameters() if weight.requires_grad][-1]
        'cls.predictions.transform.LayerNorm.bias'
    """
    for name, weight in model.named_parameters():
        weight.requires_grad_(is_new(name, model))


def unfreeze_bert(model: ContextualBertPreTrainedModel) -> None:
    """Train every weight again."""
    model.requires_grad_(True)


def add_lora(model: ContextualBertPreTrainedModel, *, rank: int = 8, alpha: int = 16, dropout: float = 0.0) -> Any:
    """The model with low-rank changes of BERT's queries and values; of BERT nothing else is trained.

    The PeftModel goes into any Trainer; afterwards ``merge_and_unload().save_pretrained(folder)`` gives an ordinary
    model of this package, which ``from_pretrained`` loads.

    Args:
        model: from ``from_bert``.
        rank: of each change.
        alpha: the changes are scaled by ``alpha / rank``.
        dropout: of what the changes read.

    Raises:
        ConfigurationError: peft is not installed; a rank below 1.

    Reference:
        Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models", section 4.
    """
    try:
        from peft import LoraConfig, get_peft_model  # noqa: PLC0415  (an optional extra)
    except ImportError as error:
        raise ConfigurationError("LoRA needs peft. Install it: pip install 'contextual-bert[text]'.") from error
    if rank < 1:
        raise ConfigurationError(f"rank={rank}: give 1 or more.")
    settings = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=r".*\.attention\.self\.(query|value)",
        modules_to_save=_new_modules(model),
    )
    return get_peft_model(model, settings)


def _new_modules(model: ContextualBertPreTrainedModel) -> list[str]:
    """The largest modules of which every weight is new: saved as they are, beside the changes of the others."""
    # A weight that two modules share goes by its first name: an output matrix that is that of the words is not new.
    new = {id(weight): is_new(name, model) for name, weight in model.named_parameters()}
    chosen: list[str] = []
    for name, module in model.named_modules():
        is_inside = any(name.startswith(f"{outer}.") for outer in chosen)
        weights = list(module.parameters())
        if weights and not is_inside and all(new[id(weight)] for weight in weights):
            chosen.append(name)
    return chosen
