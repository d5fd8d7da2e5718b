"""Baselines on texts: their models, and the context as words for the one that reads it so.

It trains nothing. How a baseline works is its own file's matter, in ``baselines``.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from torch import Tensor, nn

from contextual_bert.baselines import ConcatText, ConcatWord
from contextual_bert.baselines.text import LabelModel
from contextual_bert.context import FeatureLayout
from contextual_bert.context.absence import rarely_missing
from contextual_bert.errors import NAME, ConfigurationError, Message
from contextual_bert.inference.text_baseline import TextBaselineConfig, give_ordinal_head, label_model
from contextual_bert.models import ContextualBertModel, ContextualBertProcessor
from contextual_bert.models.label_heads import start_at_shares
from contextual_bert.models.pretrained import extra_layers_of
from contextual_bert.models.sequence_classification import vector_of_text
from contextual_bert.runs.logistic_baseline import LogisticBaseline
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.registry import (
    BERTLESS_BASELINES,
    CONTEXT_AS_TEXT,
    FITTED_BASELINES,
    LOGISTIC,
    TAG_BASELINES,
    TEXT_BASELINES,
)
from contextual_bert.runs.text_data import TextData
from contextual_bert.training.recipe import Recipe

EXTRA_LAYERS = 6  # of BERT Concat (word), as in MA-BERT


def baselines_of(head: str) -> list[str]:
    """The baselines that can learn what a head learns.

    Example:
        >>> baselines_of("tagging")
        ['bilstm', 'bilstm_context', 'bilstm_crf', 'bilstm_crf_context', 'bert_context_as_text']
    """
    of_texts = [each for each in TEXT_BASELINES if "_crf" not in each]  # a chain needs words with a label each
    return {"classification": of_texts, "tagging": [*TAG_BASELINES, CONTEXT_AS_TEXT]}.get(head, [CONTEXT_AS_TEXT])


def check_baseline(recipe: Recipe, ready: TextData) -> None:
    """Raise ConfigurationError for a baseline that cannot learn what these texts have."""
    possible = baselines_of(ready.head)
    if recipe.conditioning not in possible:
        learned = {"question_answering": "answers", "masked_text": "hidden words"}.get(ready.head, "these labels")
        allowed = ", ".join(possible)
        raise ConfigurationError(
            f"The baseline {recipe.conditioning!r} cannot learn {learned}", allowed=f"Allowed: {allowed}."
        )


def baseline_on_texts(recipe: Recipe, ready: TextData) -> LabelModel | LogisticBaseline:
    """The model of a baseline that is none of BERT's own heads."""
    if recipe.conditioning in LOGISTIC:
        return LogisticBaseline(ready, recipe.conditioning)
    if recipe.conditioning in BERTLESS_BASELINES:
        model = label_model(config_of(recipe, ready), ready.processor.tokenizer)
    else:
        model = _on_frozen_bert(recipe, ready)
        if ready.recipe.text_task.is_ordinal:
            give_ordinal_head(model)
    if ready.head == "classification" and recipe.conditioning not in FITTED_BASELINES:
        start_at_shares(model.head.output, ready.label_counts)
    return model


def config_of(recipe: Recipe, ready: TextData) -> TextBaselineConfig:
    """Return the configuration of a baseline that can be deployed."""
    context = {name: values.numpy() for name, values in ready.datasets["train"].context.items()}
    return TextBaselineConfig(
        name=recipe.conditioning,
        labels=ready.labels,
        layout=_layout_of(recipe, ready),
        has_tags=ready.head == "tagging",
        is_ordinal=ready.recipe.text_task.is_ordinal,
        rarely_missing=tuple(rarely_missing(context)),
        **{name: recipe.training[name] for name in ("context_dropout", "field_dropout") if name in recipe.training},
    )


def processor_of(recipe: Recipe, processor: ContextualBertProcessor) -> ContextualBertProcessor:
    """The processor that is saved with a run: it gives a context as the run's model reads it."""
    return processor.with_context_as("text") if recipe.conditioning == CONTEXT_AS_TEXT else processor


def words_of(ready: TextData) -> dict[str, dict[str, Tensor]]:
    """Part -> its context in words."""
    processor = ready.processor.with_context_as("text")
    table, datasets = ready.examples.table, ready.datasets
    rows = {part: table.take(pa.array(texts.example_ids.numpy())) for part, texts in datasets.items()}
    encoded = {part: processor.encode_columns(table) for part, table in rows.items()}
    return {part: context.tensors for part, context in encoded.items() if context is not None}


def check_room(words: Mapping[str, Mapping[str, Tensor]], ready: TextData, *, num_positions: int) -> None:
    """Raise ConfigurationError unless a text and its context in words are read whole."""
    for part, columns in words.items():
        num_words = 1 + sum(values.shape[1] for values in columns.values())  # and [SEP]
        length = int(ready.datasets[part].sizes.max())
        if length + num_words > num_positions:
            raise ConfigurationError(
                f"{CONTEXT_AS_TEXT!r}: as text the context of the {part} part has up to {num_words} tokens, "
                f"its texts have up to {length}, and {ready.recipe.text_task.bert} reads {num_positions}",
                fix=Message("Give a smaller {max_length}, or leave a column out with exclude.", max_length=NAME),
            )


def _layout_of(recipe: Recipe, ready: TextData) -> tuple[FeatureLayout, ...]:
    """The features of the context that a baseline reads."""
    schema = ready.processor.schema
    return schema.layout if schema is not None and has_context(recipe) else ()


def _on_frozen_bert(recipe: Recipe, ready: TextData) -> LabelModel:
    """MA-BERT's controls BERT Concat (text) and BERT Concat (word)."""
    bert = ContextualBertModel.from_bert(ready.recipe.text_task.bert, schema=None, conditioning="none")
    parts = LastHidden(bert), partial(vector_of_text, pooling=ready.pooling)
    sizes: dict[str, Any] = {
        "hidden_size": bert.config.hidden_size,
        "num_labels": len(ready.labels),
        "layout": _layout_of(recipe, ready),
    }
    if recipe.conditioning == "bert_concat_text":
        return ConcatText(*parts, **sizes)
    return ConcatWord(
        *parts,
        **sizes,
        num_layers=extra_layers_of(recipe.model, default=EXTRA_LAYERS),
        num_heads=bert.config.num_attention_heads,
        intermediate_size=bert.config.intermediate_size,
    )


class LastHidden(nn.Module):
    """A model's last hidden states, as the baselines on a frozen BERT take them."""

    def __init__(self, model: ContextualBertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask).last_hidden_state
