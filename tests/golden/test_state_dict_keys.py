"""The names of the weights, which are a file format.

A saved model is found again by these names: renaming one makes every checkpoint of every user load with fresh random
weights in that place, and transformers only warns. They also are what makes a plain BERT checkpoint loadable (all names
but the new ones are BertForMaskedLM's) and what says, in three words, what is new: `conditioning.` or
`context_encoder.`. Rename one only together with a conversion of old checkpoints.
"""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Vector
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM

SIZES = {
    "vocab_size": 11,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
}
SCHEMA = ContextSchema(
    features=(
        Categorical(name="sex", values=("f", "m")),
        MultiCategorical(name="brands", values=("a",)),
        Vector(name="style", size=2),
    )
)
CONTEXT = (
    "bert.context_encoder.features.brands.weight",
    "bert.context_encoder.features.sex.weight",
    "bert.context_encoder.features.style.missing.weight",
    "bert.context_encoder.features.style.projection.bias",
    "bert.context_encoder.features.style.projection.weight",
)
STATE = tuple(f"bert.encoder.conditioning.context.{layer}.{kind}" for layer in (0, 2) for kind in ("bias", "weight"))
READS = tuple(
    f"bert.encoder.layer.{layer}.conditioning.value.{kind}" for layer in (0, 1) for kind in ("bias", "weight")
)
UPDATE = (
    "bert.encoder.conditioning.update.0.feed_forward.0.bias",
    "bert.encoder.conditioning.update.0.feed_forward.0.weight",
    "bert.encoder.conditioning.update.0.feed_forward.2.bias",
    "bert.encoder.conditioning.update.0.feed_forward.2.weight",
    "bert.encoder.conditioning.update.0.normalisation.bias",
    "bert.encoder.conditioning.update.0.normalisation.weight",
)
READING = tuple(
    f"bert.encoder.conditioning.reading.0.{layer}.{kind}"
    for layer in ("key", "output", "query", "value")
    for kind in ("bias", "weight")
)
MODULATION = tuple(
    f"bert.encoder.layer.{layer}.conditioning.modulation.{sublayer}.{kind}"
    for layer in (0, 1)
    for sublayer in (0, 1)
    for kind in ("bias", "weight")
)
NEW_KEYS = {
    "none": (),
    "concat": (
        *CONTEXT,
        "bert.conditioning.context.bias",
        "bert.conditioning.context.weight",
        "bert.conditioning.items.weight",
        "bert.conditioning.output.bias",
        "bert.conditioning.output.weight",
    ),
    "new_position": (*CONTEXT, "bert.conditioning.context.bias", "bert.conditioning.context.weight"),
    "global_state": (*CONTEXT, *STATE, *READS),
    "global_state_update": (*CONTEXT, *STATE, *READS, *UPDATE),
    "state_flow": (*CONTEXT, *STATE, *READS, *UPDATE, *READING),
    "film": (*CONTEXT, *STATE, *MODULATION),
}
ABSENT_FOR_SETS = {
    "bert.embeddings.position_embeddings.weight",
    "bert.embeddings.token_type_embeddings.weight",
}


def keys(method_name: str, **fields: object) -> set[str]:
    config = ContextualBertConfig.from_schema(SCHEMA, conditioning=method_name, **SIZES, **fields)
    with torch.device("meta"):
        return set(ContextualBertForMaskedLM(config).state_dict())


def bert_keys(**fields: object) -> set[str]:
    with torch.device("meta"):
        return set(BertForMaskedLM(BertConfig(**SIZES, **fields)).state_dict())


@pytest.mark.parametrize("method_name", NEW_KEYS)
def test_new_keys(method_name: str) -> None:
    assert sorted(keys(method_name) - bert_keys()) == sorted(NEW_KEYS[method_name])


@pytest.mark.parametrize("method_name", NEW_KEYS)
def test_new_keys_say_so(method_name: str) -> None:
    new = keys(method_name) - bert_keys()
    assert all("conditioning." in key or "context_encoder." in key for key in new)


@pytest.mark.parametrize("method_name", NEW_KEYS)
def test_all_others_are_berts(method_name: str) -> None:
    text = keys(method_name, has_position_embeddings=True, type_vocab_size=2)
    assert bert_keys() <= text
    assert bert_keys() - keys(method_name) == ABSENT_FOR_SETS


def test_a_feature_whose_name_torch_uses_gets_an_underscore() -> None:
    schema = ContextSchema(features=(Categorical(name="values", values=("f", "m")),))
    config = ContextualBertConfig.from_schema(schema, conditioning="new_position", **SIZES)
    found = [key for key in ContextualBertForMaskedLM(config).state_dict() if "context_encoder." in key]
    assert found == ["bert.context_encoder.features.values_.weight"]


def test_the_papers_head_has_no_layer_norm() -> None:
    gone = keys("none") - keys("none", has_head_layer_norm=False)
    assert gone == {f"cls.predictions.transform.LayerNorm.{kind}" for kind in ("bias", "weight")}


def test_an_untied_head_keeps_one_bias() -> None:
    tied, untied = keys("none"), keys("none", tie_word_embeddings=False)
    assert tied - untied == {"cls.predictions.bias"}
    assert "cls.predictions.decoder.bias" in untied
