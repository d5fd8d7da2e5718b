"""The configuration: what it rejects, what the paper's setting is, what survives config.json."""

import json

import pytest

from contextual_bert.conditioning import METHODS
from contextual_bert.context import Categorical, ContextSchema, Numerical
from contextual_bert.errors import ConfigurationError, UnknownNameError
from contextual_bert.models import ContextualBertConfig
from contextual_bert.models.compatibility import check_layout

SCHEMA = ContextSchema(
    features=(Categorical(name="sex", values=("f", "m"), embedding_size=3), Numerical(name="age", edges=(30.0,)))
)


def test_a_misspelt_method_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"conditioning='golbal_state' is unknown\. Did you mean 'global_state'"):
        ContextualBertConfig.from_schema(SCHEMA, conditioning="golbal_state")
    with pytest.raises(UnknownNameError, match="Did you mean 'concat'"):
        ContextualBertConfig(conditioning="conact")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("conditionning", "conditioning"),
        ("has_position_embedding", "has_position_embeddings"),
        ("context_feature", "context_features"),
        ("hidden_sizes", "hidden_size"),
        ("tie_word_embedding", "tie_word_embeddings"),
    ],
)
def test_a_misspelt_key_gets_a_suggestion(key: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"no field '{key}'\. Did you mean '{meant}'"):
        ContextualBertConfig(**{key: 1})


def test_a_key_of_somebody_else_is_kept_as_transformers_does() -> None:
    assert ContextualBertConfig(our_experiment="b").to_dict()["our_experiment"] == "b"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", 0),
        ("num_attention_heads", 0),
        ("num_attention_heads", -2),
        ("num_hidden_layers", 0),
        ("intermediate_size", -4),
        ("max_position_embeddings", 0),
        ("hidden_dropout_prob", 1),
        ("attention_probs_dropout_prob", -0.1),
        ("classifier_dropout", 2.0),
    ],
)
def test_a_number_out_of_its_range(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}={value} is not allowed. Give a (whole|share)"):
        ContextualBertConfig(vocab_size=50, **{name: value})


@pytest.mark.parametrize("flag", ["is_decoder", "add_cross_attention"])
def test_decoder_flags_are_rejected(flag: str) -> None:
    with pytest.raises(ConfigurationError, match="reads in both directions"):
        ContextualBertConfig(**{flag: True})


@pytest.mark.parametrize("method_name", sorted(METHODS.keys() - {"none"}))
def test_a_method_with_context_needs_features(method_name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"conditioning='{method_name}' needs a context.*from_schema"):
        ContextualBertConfig(conditioning=method_name)
    with pytest.raises(ConfigurationError, match="context_features is empty"):
        ContextualBertConfig.from_schema(None, conditioning=method_name)


def test_none_takes_no_features_along() -> None:
    config = ContextualBertConfig.from_schema(SCHEMA, conditioning="none")
    assert (config.layout, config.context_size) == ((), 0)


def test_sizes_say_what_a_method_may_know() -> None:
    config = ContextualBertConfig.from_schema(
        SCHEMA, conditioning="concat", hidden_size=16, num_attention_heads=4, hidden_dropout_prob=0.25
    )
    assert config.sizes.feature_sizes == tuple(feature.embedding_size for feature in SCHEMA.layout)
    assert config.sizes.context_size == sum(config.sizes.feature_sizes) == SCHEMA.context_size
    assert (config.sizes.hidden_size, config.sizes.num_heads, config.sizes.dropout) == (16, 4, 0.25)


def test_the_papers_setting_and_its_overrides() -> None:
    config = ContextualBertConfig.paper("global_state", schema=SCHEMA, vocab_size=30_003)
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (128, 4, 8)
    assert (config.context_size, config.vocab_size, config.has_position_embeddings) == (736, 30_003, False)
    assert not config.has_head_layer_norm
    other = ContextualBertConfig.paper(
        "none", schema=SCHEMA, vocab_size=9, num_hidden_layers=2, has_head_layer_norm=True
    )
    assert (other.num_hidden_layers, other.has_head_layer_norm, other.hidden_size) == (2, True, 128)


def test_everything_survives_json() -> None:
    config = ContextualBertConfig.from_schema(
        SCHEMA,
        conditioning="concat",
        has_position_embeddings=True,
        has_head_layer_norm=False,
        mask_token_id=4,
        reserved_token_ids=[0, 4],
        type_vocab_size=2,
    )
    again = ContextualBertConfig.from_dict(json.loads(config.to_json_string(use_diff=False)))
    assert again.to_dict() == config.to_dict()
    assert again.layout == SCHEMA.layout
    assert (again.mask_token_id, list(again.reserved_token_ids)) == (4, [0, 4])


def test_check_layout_names_what_differs() -> None:
    config = ContextualBertConfig.from_schema(SCHEMA, conditioning="concat")
    check_layout(config, SCHEMA.layout)
    other = ContextSchema(
        features=(SCHEMA.features[0], Numerical(name="age", edges=(30.0, 50.0)), Numerical(name="wage", edges=(1.0,)))
    )
    with pytest.raises(ConfigurationError, match=r"disagree on: age, wage\. Use the schema that the model"):
        check_layout(config, other.layout)


def test_a_model_without_context_fits_any_schema() -> None:
    check_layout(ContextualBertConfig(), SCHEMA.layout)
