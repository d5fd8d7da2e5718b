"""Trained part of a pretrained BERT: all weights, the new ones alone, or LoRA adapters beside them.

The weights that no BERT has (the method's, the context encoder's, the head's) are always trained. Nothing is trained
here. Paper: MA-BERT's controls freeze BERT; Hu et al. (2021), "LoRA".
"""

from typing import Any

from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertConfig, ContextualBertPreTrainedModel
from contextual_bert.models.pretrained import new_weights
from contextual_bert.training.setting_checks import check_lora


def freeze_bert(model: ContextualBertPreTrainedModel) -> None:
    """Train only what no BERT has: the weights of the method, of the context encoder and of the head.

    Example:
        >>> from contextual_bert.testing import miniature_model
        >>> model = miniature_model("film")
        >>> freeze_bert(model)
        >>> [name for name, weight in model.named_parameters() if weight.requires_grad][-1]
        'cls.predictions.transform.LayerNorm.bias'

    Raises:
        ConfigurationError: no model of this package; what ``add_lora`` gave trains the new weights alone already.
    """
    _check_own(model)
    new = new_weights(model)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name in new)


def unfreeze_bert(model: ContextualBertPreTrainedModel) -> None:
    """Train every weight again; raises as ``freeze_bert`` does."""
    _check_own(model)
    model.requires_grad_(True)


def _check_own(model: Any) -> None:
    if not isinstance(model, ContextualBertPreTrainedModel):
        raise ConfigurationError(
            f"{type(model).__name__} is no model of this package",
            fix="Give one. With add_lora nothing of BERT is trained but the low-rank changes, so there is nothing to "
            "freeze.",
        )


def add_lora(model: ContextualBertPreTrainedModel, *, rank: int = 8, alpha: float = 16, dropout: float = 0.0) -> Any:
    """The model with low-rank changes of BERT's queries and values (of ModernBERT's queries, keys and values, which are
    one product); of BERT nothing else is trained.

    The PeftModel goes into any Trainer; afterwards ``merge_and_unload().save_pretrained(folder)`` gives an ordinary
    model of this package, which ``from_pretrained`` loads.

    Args:
        model: from ``from_checkpoint``.
        rank: of each change.
        alpha: the changes are scaled by ``alpha / rank``.
        dropout: of what the changes read.

    Raises:
        ConfigurationError: peft is not installed; a rank below 1, an alpha that is not above 0, a dropout that is no
            share.

    Reference:
        Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models", section 4.
    """
    check_lora({"rank": rank, "alpha": alpha, "dropout": dropout})
    peft = required_peft()
    settings = peft.LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=r".*\.(attention\.self\.(query|value)|attn\.Wqkv)",
        modules_to_save=_new_modules(model),
    )
    adapted = peft.get_peft_model(model, settings)
    for module in adapted.modules():
        # What peft has copied reads the model's config, not a copy of it: attn_implementation may change.
        if isinstance(vars(module).get("config"), ContextualBertConfig):
            module.config = model.config
    return adapted


def required_peft() -> Any:
    """The package peft.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        import peft  # noqa: PLC0415  (an optional extra)
    except ImportError as error:
        raise ConfigurationError("LoRA needs peft", fix="Install it: pip install 'contextual-bert[text]'.") from error
    return peft


def train_new_weights(model: ContextualBertPreTrainedModel) -> None:
    """Train every weight that no BERT has beside what is trained already: in the model of a PeftModel, too.

    What peft saves are modules, so ``add_lora`` leaves out a new weight that stands beside one of the checkpoint's: the
    output bias of a masked model, whose matrix is that of the words.
    """
    for name, weight in new_weights(model).items():
        if ".original_module." not in name:  # what peft keeps of a module before training
            weight.requires_grad_(True)


def _new_modules(model: ContextualBertPreTrainedModel) -> list[str]:
    """The largest modules of which every weight is new: saved as they are, beside the changes of the others."""
    # A weight that two modules share goes by its first name: an output matrix that is that of the words is not new.
    new = {id(weight) for weight in new_weights(model).values()}
    chosen: list[str] = []
    for name, module in model.named_modules():
        is_inside = any(name.startswith(f"{outer}.") for outer in chosen)
        weights = list(module.parameters())
        if weights and not is_inside and all(id(weight) in new for weight in weights):
            chosen.append(name)
    return chosen
