"""The rows of a study on texts: methods, MA-BERT's and other controls, baselines, each a recipe.

It knows neither a task nor its size, only what they all compare.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict

from contextual_bert.baselines.names import CONTEXT_AS_TEXT, FITTED_BASELINES, TAG_BASELINES
from contextual_bert.runs.registry import as_row, training_of
from contextual_bert.training.recipe import Recipe

METHODS = (
    "none",
    "concat",
    "new_position",
    "global_state",
    "global_state_update",
    "state_flow",
    "film",
    "multi_attribute",
)
# MA-BERT's controls: BERT Attention (bias), Concat (word), Concat (text), all on a frozen BERT.
ATTENTION_BIAS = "attention_bias"
FIELD_DROPOUT = "global_state_update_field_dropout"
LORA = ("none", "global_state_update")
LORA_RATE = 10  # times that of a checkpoint's own weights
# What of MA-BERT's gain is its new blocks alone, and what is not its context: the same without it, or with others'.
NEW_BLOCKS, SHUFFLED = "none_new_blocks", "multi_attribute_shuffled"
# A text in segments, and a Transformer over their vectors; `small` reads 64 tokens of a text.
SEGMENTED = {"tobert": "none", "tobert_context": "global_state_update"}
SHORT_SEGMENT = 32
NUM_NEW_BLOCKS = 6  # as in MA-BERT, unless a row's settings say otherwise
# Rows with new blocks on top of a checkpoint.
WITH_NEW_BLOCKS = ("multi_attribute", SHUFFLED, NEW_BLOCKS, ATTENTION_BIAS, "bert_concat_word")
# MA-BERT's vectors of the features hardly leave their start at the rates of the rest, see docs/log.md.
ATTRIBUTE_TRAINING = {"context_learning_rate": 0.01}
LABEL_BASELINES = ("ngrams", "ngrams_context", "cnn", "cnn_context", "bilstm", "bilstm_context")
# The rows of MA-BERT's table that read no BERT.
REVIEW_BASELINES = ("nsc", "nsc_la", "nsc_upa", "huapa", "upnn", "upnn_context", "chim_embedding")


class RowSettings(TypedDict, total=False):
    """What a row has of its own: fields of ContextualTrainingArguments and of ContextualBertConfig."""

    training: Mapping[str, Any]
    model: Mapping[str, Any]


def text_rows(base: Recipe, baseline_training: Mapping[str, Any]) -> dict[str, Recipe]:
    """Row -> recipe in the table's order: methods, controls, baselines.

    Args:
        base: data and training of every method.
        baseline_training: fields of ContextualTrainingArguments of what starts from nothing.

    Reference: docs/protocol.md, "Controls"; MA-BERT, section 4.2, for its three controls.
    """
    rate_of_bert = base.training["learning_rate"]
    told_less = {**base.training, "field_dropout": 0.5}
    on_lora = {**base.training, "learning_rate": LORA_RATE * rate_of_bert}
    frozen = {"trained_weights": "new", "is_control": True}
    # All that these two train is new.
    rate = base.training.get("new_weights_learning_rate", rate_of_bert)
    on_frozen = {**training_of("bert_concat_word", base.training), "learning_rate": rate}
    recipes = [
        *(as_row(base, name) for name in METHODS),
        *(as_row(replace(base, name=f"{name}_lora", training=on_lora, trained_weights="lora"), name) for name in LORA),
        replace(base, conditioning="global_state_update", name=FIELD_DROPOUT, training=told_less),
        *(
            replace(base, conditioning=name, is_context_shuffled=True)
            for name in ("global_state_update", "multi_attribute")
        ),
        replace(
            base,
            conditioning="none",
            name=NEW_BLOCKS,
            training=training_of("none", base.training),
            model={**base.model, "num_extra_layers": NUM_NEW_BLOCKS},
            is_control=True,
        ),
        replace(
            base,
            conditioning="multi_attribute",
            name=ATTENTION_BIAS,
            model={**base.model, "has_attribute_values": False},
            **frozen,
        ),
        *(
            replace(base, conditioning=name, training=on_frozen, model={}, is_control=True)
            for name in ("bert_concat_word", "bert_concat_text")
            if name in base.task.baselines
        ),
        *(
            replace(as_row(base, method), name=name, model={**base.model, "segment_length": SHORT_SEGMENT})
            for name, method in SEGMENTED.items()
            if base.task.kind == "classification"
        ),
        as_row(base, CONTEXT_AS_TEXT),
        *(
            as_row(replace(base, training=baseline_training, patience=_patience_of(name)), name)
            for name in dict.fromkeys((*LABEL_BASELINES, *REVIEW_BASELINES, *TAG_BASELINES, *FITTED_BASELINES))
            if name in base.task.baselines
        ),
    ]
    return {recipe.label: recipe for recipe in recipes}


def _patience_of(name: str) -> int | None:
    """After how many epochs without a better one a row stops: what learns its texts by heart within a few epochs has
    the patience of MA-BERT's table.
    """
    return 3 if name in REVIEW_BASELINES else None


def with_one_new_block(settings: Mapping[str, RowSettings]) -> dict[str, RowSettings]:
    """These settings, and one new block in place of six: a third of the time, and no worse, see docs/log.md.

    Example:
        >>> with_one_new_block({})["multi_attribute"]
        {'model': {'num_extra_layers': 1}}
    """
    one: RowSettings = {"model": {"num_extra_layers": 1}}
    return {**settings, **{row: {**settings.get(row, {}), **one} for row in WITH_NEW_BLOCKS}}
