"""Checks before a run starts: the method exists, and this machine can train it.

A mistake must cost seconds and not the reading of a large table. Trains nothing, and knows no directory.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from contextual_bert import conditioning as methods
from contextual_bert import training
from contextual_bert.baselines.names import (
    BASELINES,
    BERTLESS_BASELINES,
    CONTEXT_AS_TEXT,
    FITTED_BASELINES,
    PLAIN_BERT,
    READS_ELMO,
    SET_BASELINES,
    TEXT_BASELINES,
    WITHOUT_BERT,
    baselines_of,
)
from contextual_bert.data import Split
from contextual_bert.errors import ConfigurationError, Message, UnknownNameError, did_you_mean
from contextual_bert.inference.saved_files import check_holds_elmo
from contextual_bert.places import SettingPlace, SettingsPlace
from contextual_bert.training.defaults import NUM_MASKS
from contextual_bert.training.presets import get_preset
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.setting_checks import DEFAULT_MODEL
from contextual_bert.training.task_settings import TaskSettings

NOTHING_TO_COMPARE = Message(
    "{validation} and {test} hold nothing out, and there is nothing to compare runs on. Give one of them a share above "
    "0. Then train the one that was chosen on all rows.",
    validation=0,
    test=0,
)
# Training settings that hold where nothing is trained, too.
_OF_SCORING = frozenset({"disable_tqdm", "per_device_eval_batch_size"})
# Baseline -> the fields of a model's config that it reads, where it reads any.
_OF_BASELINES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(SET_BASELINES, frozenset({"softmax_over"})),
    "bert_concat_text": frozenset({"classifier_pooling"}),
    "bert_concat_word": frozenset({"classifier_pooling", "num_extra_layers"}),
}
# Training settings for what a baseline, or a model without a context, lacks.
_OF_CONTEXT = frozenset({"context_learning_rate"})
_OF_TRANSFORMERS = _OF_CONTEXT | {
    "gradient_checkpointing",
    "gradient_checkpointing_kwargs",
    "loss",
    "neftune_noise_alpha",
    "new_weights_learning_rate",
    "num_negatives",
}


def keeps_weights(recipe: Recipe) -> bool:
    """Return True if the run keeps its model: that of a method, or of a baseline that is deployed.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> keeps_weights(Recipe(data="days.parquet", task=SetCompletion(items="items"), conditioning="bag"))
        False
    """
    kept = (*(BERTLESS_BASELINES if recipe.task.deploys_baselines else ()), CONTEXT_AS_TEXT)
    is_deployed = not recipe.task.has_items and recipe.conditioning in kept
    return is_deployed or recipe.conditioning not in BASELINES


def check_kind(recipe: Recipe) -> None:
    """Raise ConfigurationError where a baseline is asked for what it cannot do.

    No baseline has a BERT of which a part is trained; nor does a rate hold for weights that are not there, or a field
    of a model's config for what reads none. Only baselines without a BERT go without a checkpoint.
    """
    if recipe.conditioning in BASELINES and recipe.trained_weights != "all":
        raise ConfigurationError(
            f"says what of a BERT is trained, and {recipe.conditioning!r} is a baseline, which trains all "
            "that is its own",
            setting="trained_weights",
            value=recipe.trained_weights,
            fix="Leave it out.",
        )
    for name in recipe.training.keys() - training_of(recipe.conditioning, recipe.training).keys():
        raise ConfigurationError(
            f"is for what {recipe.conditioning!r} does not have",
            setting=name,
            value=recipe.training[name],
            fix="Leave it out.",
        )
    for name in recipe.model.keys() - model_of(recipe.conditioning, recipe.model).keys():
        raise ConfigurationError(
            "is not allowed",
            setting=name,
            value=recipe.model[name],
            fix=f"{recipe.conditioning!r} does not read this field of a model's config. Leave it out.",
        )
    if reads_time_gaps(recipe) and recipe.conditioning in SET_BASELINES:
        raise ConfigurationError(
            f"is for models that read items in their order, and {recipe.conditioning!r} is a baseline, which does not",
            setting="time_gaps",
            value=True,
            fix="Leave it out: the figures of a baseline are the same without.",
        )
    if _elmo_of(recipe) is not None and not reads_elmo(recipe):
        raise ConfigurationError(
            f"is read by recurrent networks over words, and {recipe.conditioning!r} is none",
            setting="elmo",
            value=_elmo_of(recipe),
            allowed=f"Allowed with it: {', '.join(name for name in READS_ELMO if name in recipe.task.baselines)}.",
            fix="Leave it out, or take one of these.",
        )
    if recipe.conditioning in FITTED_BASELINES and (recipe.is_context_shuffled or recipe.patience is not None):
        name = "is_context_shuffled" if recipe.is_context_shuffled else "patience"
        raise ConfigurationError(
            f"is for what is trained, and {recipe.conditioning!r} is not", setting=name, fix="Leave it out."
        )
    if recipe.conditioning == "chim_classifier" and getattr(recipe.task, "is_ordinal", False):
        raise ConfigurationError(
            Message(
                "weighs a row of weights for each label, and grades of {is_ordinal} share one row", is_ordinal=True
            ),
            setting="conditioning",
            value=recipe.conditioning,
            fix="Take chim_embedding, or leave the grades out.",
        )
    may_be_tags = recipe.task.tag_columns is not None  # which the table says
    if not recipe.task.has_items and recipe.conditioning in TEXT_BASELINES and not may_be_tags:
        check_learns(recipe.conditioning, recipe.task.kind)
    lacks_checkpoint = recipe.task.needs_checkpoint and recipe.task.checkpoint_to_read is None
    if lacks_checkpoint and recipe.conditioning not in WITHOUT_BERT:
        raise ConfigurationError(
            f"is missing, and {recipe.conditioning!r} needs a BERT",
            setting="checkpoint",
            allowed=f"Allowed without one: {', '.join(WITHOUT_BERT)}.",
            fix="Give its folder, its name on the Hub, or a run on texts to go on from.",
        )


def check_learns(name: str, kind: str) -> None:
    """Raise ConfigurationError where a baseline on texts cannot learn what a kind of task learns."""
    possible = baselines_of(kind)
    if name not in possible:
        words = dict.fromkeys(("masked_text", "next_sentence"), "hidden words")
        others = {"question_answering": "answers", "contrastive_text": "which documents belong to texts"}
        learned = {**others, **words}.get(kind, "these labels")
        raise ConfigurationError(
            f"The baseline {name!r} cannot learn {learned}", allowed=f"Allowed: {', '.join(possible)}."
        )


def check_machine(recipe: Recipe) -> None:
    """Raise ConfigurationError where this machine lacks what a recipe asks for, or its method does not take a setting.

    What needs torch is checked here, after ``check_kind``.
    """
    if recipe.conditioning in methods.METHODS:
        methods.get_method(
            recipe.conditioning,
            {name: recipe.model[name] for name in recipe.model if methods.methods_of_setting(name)},
        )
    if reads_elmo(recipe):
        check_holds_elmo(str(_elmo_of(recipe)))
    training.chosen_device(recipe.device)
    training.chosen_dtype(recipe.dtype)
    if recipe.trained_weights == "lora":
        training.required_peft()


def check_read(base: Recipe, rows: Sequence[Recipe]) -> None:
    """Raise ConfigurationError for a setting of a whole comparison that no row of it reads.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> base = Recipe(data="days.parquet", task=SetCompletion(items="items"))
        >>> check_read(base, [base])
    """
    for field in ("model", "training"):
        for name, value in getattr(base, field).items():
            if not any(name in getattr(row, field) for row in rows):
                raise ConfigurationError(
                    "is not allowed: no row of this comparison reads it", setting=name, value=value, fix="Leave it out."
                )
    if reads_time_gaps(base) and not any(map(reads_time_gaps, rows)):
        raise ConfigurationError(
            "is not allowed: no row of this comparison reads it", setting="time_gaps", value=True, fix="Leave it out."
        )
    if _elmo_of(base) is not None and not any(map(reads_elmo, rows)):
        raise ConfigurationError(
            "is not allowed: no row of this comparison reads it",
            setting="elmo",
            value=_elmo_of(base),
            fix=f"Add one of {', '.join(name for name in READS_ELMO if name in base.task.baselines)}, or leave it out.",
        )


def reads_elmo(recipe: Recipe) -> bool:
    """Return True if a recipe names a language model in both directions, and its baseline reads the vectors.

    Example:
        >>> from contextual_bert.training import Tagging
        >>> task = Tagging(text="words", label="tags", elmo="runs/elmo")
        >>> reads_elmo(Recipe(data="tagged.parquet", task=task, conditioning="bilstm_crf"))
        True
    """
    return _elmo_of(recipe) is not None and recipe.conditioning in READS_ELMO


def reads_characters(recipe: Recipe) -> bool:
    """Return True if the model of a recipe reads the characters of words.

    Example:
        >>> from contextual_bert.training import BidirectionalText
        >>> reads_characters(Recipe(data="texts.parquet", task=BidirectionalText(), conditioning="none"))
        True
    """
    return recipe.task.reads_characters or reads_elmo(recipe)


def _elmo_of(recipe: Recipe) -> str | None:
    return getattr(recipe.task, "elmo", None)


def reads_time_gaps(recipe: Recipe) -> bool:
    """Return True if the recipe says that the gaps of time between items are read.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> reads_time_gaps(Recipe(data="days.parquet", task=SetCompletion(items="items")))
        False
    """
    return recipe.task.has_items and recipe.set_task.time_gaps


def task_of_row(base: Recipe, conditioning: str) -> TaskSettings:
    """Return the task of a whole comparison as this row of it reads it: a baseline of sets reads no gaps of time, and
    few baselines the vectors of a language model.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> base = Recipe(data="days.parquet", task=SetCompletion(items="items", order="at", time_gaps=True))
        >>> task_of_row(base, "bag").time_gaps, task_of_row(base, "none").time_gaps
        (False, True)
    """
    if _elmo_of(base) is not None and conditioning not in READS_ELMO:
        return replace(cast(Any, base.task), elmo=None)
    is_without = conditioning in SET_BASELINES and reads_time_gaps(base)
    return replace(base.set_task, time_gaps=False) if is_without else base.task


def training_of(conditioning: str, training: Mapping[str, Any]) -> dict[str, Any]:
    """Of the settings of a whole comparison those that hold for this row of it: no rate for weights that it lacks.

    ``none`` has no weights that read a context, nor has a plain BERT that reads it as text; the other baselines have
    neither new ones beside others nor a transformer's, and what is counted is not trained at all.

    Example:
        >>> training_of("none", {"learning_rate": 3e-4, "context_learning_rate": 1e-4})
        {'learning_rate': 0.0003}
    """
    if conditioning in FITTED_BASELINES:
        return {name: value for name, value in training.items() if name in _OF_SCORING}
    of_baselines = _OF_TRANSFORMERS if conditioning in BASELINES else frozenset[str]()
    absent = _OF_CONTEXT if conditioning in PLAIN_BERT else of_baselines
    return {name: value for name, value in training.items() if name not in absent}


def model_of(conditioning: str, model: Mapping[str, Any]) -> dict[str, Any]:
    """Of the model's fields of a whole comparison those that this row of it reads: a baseline hardly any, and a
    method no setting of another one.

    Example:
        >>> model_of("bag", {"hidden_size": 256}), model_of("none", {"hidden_size": 256})
        ({}, {'hidden_size': 256})
    """
    if conditioning in BASELINES and conditioning not in PLAIN_BERT:
        read = _OF_BASELINES.get(conditioning, frozenset())
    else:
        own = methods.METHODS.settings_of(conditioning) if conditioning in methods.METHODS else ()
        read = {name for name in model if name in own or not methods.methods_of_setting(name)}
    return {name: value for name, value in model.items() if name in read}


def as_row(base: Recipe, conditioning: str) -> Recipe:
    """The recipe of a method or a baseline beside others that ``base`` stands for, without the settings that it lacks.

    A row of another method than the preset's has what the preset gave, as far as it reads it, and is not called so.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> base = Recipe(data="days.parquet", task=SetCompletion(items="items"), model={"hidden_size": 256})
        >>> as_row(base, "concat").model, as_row(base, "bag").model
        ({'hidden_size': 256}, {})
    """
    is_baseline = conditioning in BASELINES
    is_preset = base.preset is not None and conditioning == get_preset(base.preset).conditioning
    return replace(
        base,
        preset=base.preset if is_preset else None,
        preset_settings=base.preset_settings if is_preset else None,
        conditioning=conditioning,
        task=task_of_row(base, conditioning),
        model=model_of(conditioning, base.model),
        training=training_of(conditioning, base.training),
        trained_weights="all" if is_baseline else base.trained_weights,
        patience=None if conditioning in FITTED_BASELINES else base.patience,
        lora={} if is_baseline else base.lora,
    )


def checked_epochs(epochs: int) -> int:
    """The epochs of a study; raises ConfigurationError for less than one.

    Example:
        >>> checked_epochs(3)
        3
    """
    if epochs < 1:
        raise ConfigurationError("is not allowed", setting="epochs", value=epochs, fix="Give 1 or more.")
    return epochs


def check_jobs(num_jobs: int) -> None:
    """Raise unless so many runs can be trained beside each other.

    Example:
        >>> check_jobs(2)
    """
    if num_jobs < 1:
        raise ConfigurationError("is not allowed", setting="num_jobs", value=num_jobs, fix="Give 1 or more.")
    if num_jobs > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigurationError(
            f"torchrun trains each run in several processes, so {num_jobs} runs beside each other are too many",
            fix="Leave out one of the two.",
        )


def check_recipe(recipe: Recipe) -> None:
    """Raise where a recipe cannot be trained whatever its table holds: before a large one is read.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> check_recipe(Recipe(data="days.parquet", task=SetCompletion(items="items")))
    """
    check_kind(recipe)
    if recipe.split is not None:
        Split.load(recipe.split)
    sizes = {**DEFAULT_MODEL, **recipe.model}
    size, heads = sizes["hidden_size"], sizes["num_attention_heads"]
    are_numbers = type(size) is int and type(heads) is int and heads > 0
    if recipe.task.has_items and recipe.conditioning not in BASELINES and are_numbers and size % heads:
        raise ConfigurationError(
            Message("is no multiple of {num_attention_heads}", num_attention_heads=heads),
            setting="hidden_size",
            value=size,
            fix="Each head takes an equal share.",
        )
    check_machine(recipe)
    settings: dict[str, Any] = {"disable_tqdm": True, **recipe.training}
    if "one_mask_epochs" in settings and recipe.task.has_items:  # the defaults fit it: set_defaults
        settings = {"masks_per_set": NUM_MASKS, "num_train_epochs": settings["one_mask_epochs"], **settings}
    if not recipe.has_validation:
        settings |= {"eval_strategy": "no", "load_best_model_at_end": False}
    training.checked_arguments(Path(), settings, device=recipe.device, dtype=recipe.dtype, seed=recipe.seed)


def check_study(recipes: Sequence[Recipe], *, reference: str, others: Sequence[str] = ()) -> None:
    """Raise unless every method of a comparison is known and the reference is one of them."""
    for recipe in recipes:
        check_kind(recipe)
        if not recipe.is_held_out:
            raise ConfigurationError(NOTHING_TO_COMPARE, place=SettingsPlace(("validation", "test")))
    names = [*dict.fromkeys(recipe.label for recipe in recipes), *others]
    if reference not in names:
        raise UnknownNameError(
            "is not among what is compared",
            place=SettingPlace("reference"),
            value=reference,
            allowed=did_you_mean(reference, names),
        )
    for recipe in recipes:
        check_machine(recipe)
