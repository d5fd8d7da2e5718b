"""Make the model of a recipe without weights, before a table is read: a wrong field of it costs seconds.

What follows from the table is stood in for: a context of one column, a small vocabulary, two labels. So a field that
does not fit the table is found later still, where the model is built.
"""

from pathlib import Path
from typing import Any

import torch

from contextual_bert.baselines.names import CONTEXT_AS_TEXT, SET_BASELINES, TEXT_BASELINES
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError, Message, did_you_mean
from contextual_bert.inference.saved_files import check_files
from contextual_bert.models import RESERVED_ITEMS, ContextualBertConfig, ContextualBertForMaskedLM
from contextual_bert.models.bidirectional_lm import BidirectionalLM
from contextual_bert.models.configuration_contextual_bert import POOLINGS
from contextual_bert.models.pretrained import checkpoint_config, extra_layers_of, started_config
from contextual_bert.models.warm_start import changed_settings
from contextual_bert.models.word_characters import RESERVED_WORDS
from contextual_bert.places import SettingPlace
from contextual_bert.runs.model_factory import check_same_fields, initial_scale, model_settings_in_words
from contextual_bert.runs.run_directory import is_complete
from contextual_bert.runs.sequences import LONGEST_READ, predicts_next
from contextual_bert.runs.tasks import TASKS
from contextual_bert.runs.tasks.bidirectional_text import BidirectionalTextTask, config_of_words
from contextual_bert.runs.tasks.classification import usual_segment_length
from contextual_bert.runs.tasks.text import TextModelTask
from contextual_bert.runs.tasks.token_model import TokenModelTask
from contextual_bert.runs.text_starts import checkpoint_method
from contextual_bert.runs.trained_tokenizer import DEFAULT_LENGTH
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.setting_checks import DEFAULT_MODEL

_SCHEMA = ContextSchema(features=(Categorical(name="a column", values=("one", "another")),))
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_VOCABULARY = 16


def check_model_fields(recipe: Recipe) -> None:
    """Raise ConfigurationError for a field of a model that cannot have its value, whatever the table holds.

    Example:
        >>> from contextual_bert.training import SetCompletion
        >>> task = SetCompletion(items="items")
        >>> check_model_fields(Recipe(data="days.parquet", task=task, model={"hidden_size": 64}))
    """
    if not recipe.model:
        return
    task = TASKS[recipe.task.kind]
    with model_settings_in_words(recipe), torch.device("meta"):
        if recipe.task.has_items:
            _try_sets(recipe)
        elif issubclass(task, BidirectionalTextTask):
            BidirectionalLM(config_of_words(recipe, [*RESERVED_WORDS, "a"]))
        elif issubclass(task, TextModelTask):
            _try_texts(recipe, task)


def _try_sets(recipe: Recipe) -> None:
    if recipe.conditioning in SET_BASELINES:
        return
    start = recipe.task.run_to_start_from
    if start is not None:
        if not is_complete(Path(start)):
            return  # said where the run is loaded
        check_files(start)
        check_same_fields(recipe, ContextualBertConfig.from_pretrained(start), start=start)
        return
    sizes = {**DEFAULT_MODEL, **recipe.model}
    fields: dict[str, Any] = {"initializer_range": initial_scale(sizes["hidden_size"])}
    if recipe.set_task.order is not None:
        fields |= {"has_position_embeddings": True, "predicts_next": predicts_next(recipe)}
        fields |= {"max_position_embeddings": LONGEST_READ}
    backbone = recipe.model.get("backbone", "bert")
    if recipe.set_task.time_gaps and backbone != "bert":
        raise ConfigurationError(
            Message("reads no time between the items, as {time_gaps} asks", time_gaps=True),
            place=SettingPlace("backbone", of="model"),
            value=backbone,
            fix="Leave one of them out.",
        )
    if recipe.set_task.time_gaps:
        fields |= {"time_gaps": "numbers", "type_vocab_size": 2}
    fields |= {**sizes, "conditioning": recipe.conditioning, "vocab_size": len(RESERVED_ITEMS) + 1}
    ContextualBertForMaskedLM(ContextualBertConfig.from_schema(_SCHEMA, **fields))


def _try_texts(recipe: Recipe, task: type[TextModelTask]) -> None:
    name, settings = recipe.conditioning, recipe.text_task
    if "classifier_pooling" in recipe.model:
        pooling = recipe.model["classifier_pooling"]
        if pooling not in POOLINGS:
            raise ConfigurationError(
                "is unknown", setting="classifier_pooling", value=pooling, allowed=did_you_mean(pooling, POOLINGS)
            )
    if name in TEXT_BASELINES and name != CONTEXT_AS_TEXT:
        extra_layers_of(recipe.model, default=1)
        return
    method = checkpoint_method(settings.checkpoint)
    if method is not None:
        config = ContextualBertConfig.from_pretrained(settings.bert)
        own = changed_settings(config, task.model_class, settings.bert, recipe.model)
        task.model_class(ContextualBertConfig.from_pretrained(settings.bert, **own))
        return
    fields: dict[str, Any] = {
        "conditioning": "none" if name == CONTEXT_AS_TEXT else name,
        "has_context_as_text": name == CONTEXT_AS_TEXT,
        **({"decoder_type": "transformer", "decoder_start_token_id": 1} if settings.target is not None else {}),
        **({"segment_length": usual_segment_length(settings.bert)} if settings.long_documents else {}),
    }
    fields |= recipe.model
    if settings.checkpoint is not None:
        if settings.is_from_scratch:
            config = checkpoint_config(settings.bert, schema=_SCHEMA, **fields)
        else:
            config = started_config(task.model_class, settings.bert, schema=_SCHEMA, **fields)
    elif issubclass(task, TokenModelTask):
        sizes: dict[str, Any] = {**task.new_fields, **_TOKENS, "vocab_size": _VOCABULARY}
        sizes |= {"max_position_embeddings": settings.max_length or DEFAULT_LENGTH, "has_position_embeddings": True}
        config = ContextualBertConfig.from_schema(_SCHEMA, **{**sizes, **fields})
    else:
        return
    task.model_class(config)
