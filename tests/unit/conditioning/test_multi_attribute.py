"""MA-BERT's attention: by its formulas, and BERT's where there is one attribute of ones."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM
from transformers.models.bert.modeling_bert import BertLayer

from contextual_bert.conditioning import METHODS
from contextual_bert.conditioning.multi_attribute import PAPER_RANGE, MultiAttributeAttention
from contextual_bert.context import Categorical, ContextSchema
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForSequenceClassification,
)
from contextual_bert.models.compatibility import check_layout
from contextual_bert.testing import miniature_batch, miniature_config, miniature_model, miniature_schema
from contextual_bert.testing.heads import miniature_checkpoint
from contextual_bert.testing.miniature import drawn_anew, miniature_plain_config
from contextual_bert.training import freeze_bert

SIZES: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 2}


def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention without a mask, in plain products."""
    weights = (query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2)


def attention_of(**fields: Any) -> MultiAttributeAttention:
    model = miniature_model("multi_attribute", **fields)
    module = model.bert.encoder.layer[0].conditioning
    assert isinstance(module, MultiAttributeAttention)
    return module


@pytest.mark.parametrize("has_attribute_values", [True, False])
def test_it_is_the_papers_formula(has_attribute_values: bool) -> None:
    module = attention_of(has_attribute_values=has_attribute_values)
    generator = torch.Generator().manual_seed(0)
    hidden, state = torch.randn(2, 5, 32, generator=generator), torch.randn(2, 4, 32, generator=generator)
    expected = []
    for attribute in range(4):
        part = slice(32 * attribute, 32 * attribute + 32)
        scale = state[:, attribute, None]
        query, key, value = (hidden @ each.weight[part].T for each in (module.query, module.key, module.value))
        query, key, value = query * scale, key * scale, value * scale if has_attribute_values else value
        for head in range(4):
            of_head = slice(8 * head, 8 * head + 8)
            weights = (query[..., of_head] @ key[..., of_head].transpose(1, 2) / math.sqrt(8)).softmax(dim=-1)
            expected.append(weights @ value[..., of_head])
    torch.testing.assert_close(module(hidden, plain, state), torch.cat(expected, dim=-1))


def test_one_attribute_of_ones_is_bert() -> None:
    schema = ContextSchema(features=(Categorical(name="user", values=("a",), embedding_size=32),))
    fields: dict[str, Any] = {**SIZES, "vocab_size": 23, "attribute_start": "released"}
    model = ContextualBertForMaskedLM(
        ContextualBertConfig.from_schema(schema, conditioning="multi_attribute", **fields)
    ).eval()
    layer = model.bert.encoder.layer[1]
    bert = BertLayer(BertConfig(**SIZES, attn_implementation="eager")).eval()
    for name, module in (("query", layer.conditioning.query), ("key", layer.conditioning.key),
                         ("value", layer.conditioning.value)):  # fmt: skip
        target = getattr(bert.attention.self, name)
        target.weight.data.copy_(module.weight)
        target.bias.data.zero_()
    rest = {name: value for name, value in layer.state_dict().items() if "conditioning." not in name}
    missing = bert.load_state_dict(rest, strict=False)
    assert all(".self." in name for name in missing.missing_keys) and not missing.unexpected_keys
    hidden = torch.randn(3, 6, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(layer(hidden, None, torch.ones(3, 1, 32)), bert(hidden), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("start", "center", "spread"), [("ones", 1.0, 0.02), ("released", 0.0, 0.02), ("paper", 0.0, 0.144)]
)
@pytest.mark.parametrize("width", [32, 24])
def test_where_the_attributes_begin(start: str, center: float, spread: float, width: int) -> None:
    """A feature of another width than the model's is mapped, and begins there as well."""
    values = tuple(map(str, range(500)))
    schema = ContextSchema(features=(Categorical(name="user", values=values, embedding_size=width),))
    torch.manual_seed(0)
    config = ContextualBertConfig.from_schema(
        schema, conditioning="multi_attribute", vocab_size=23, attribute_start=start, **SIZES
    )
    model = ContextualBertForMaskedLM(config)
    state = model(torch.tensor([[3, 1]] * 500), context={"user": torch.arange(2, 502)}, logits_at="all").state.detach()
    assert state.shape == (500, 1, 32)
    assert float(state.mean()) == pytest.approx(center, abs=0.005)
    assert float(state.std()) == pytest.approx(spread, rel=0.05 if width == 32 else 0.2)
    assert start != "paper" or width != 32 or float(state.abs().max()) <= PAPER_RANGE


def test_a_feature_of_another_width_is_mapped() -> None:
    attributes = miniature_model("multi_attribute").bert.encoder.conditioning.attributes
    sizes = [feature.embedding_size for feature in miniature_schema().layout]
    assert [tuple(each.weight.shape) for each in attributes] == [(32, size) for size in sizes]


def test_a_feature_has_the_models_width_where_that_is_asked_for(tmp_path: Path) -> None:
    model = miniature_model("multi_attribute", attribute_width="model")
    assert {feature.embedding_size for feature in model.config.layout} == {32}
    assert not [*model.bert.encoder.conditioning.parameters()]  # no map
    batch = miniature_batch()
    assert model(**batch).state.shape[1:] == (4, 32)
    check_layout(model.config, miniature_schema().layout)  # what the schema says of the width is not read
    model.save_pretrained(tmp_path)
    loaded = ContextualBertForMaskedLM.from_pretrained(tmp_path)
    assert loaded.config.conditioning_settings == {"attribute_width": "model"}
    assert torch.equal(loaded.eval()(**batch).logits, model.eval()(**batch).logits)


def test_its_blocks_alone_have_the_activation_that_is_asked_for(tmp_path: Path) -> None:
    miniature_checkpoint(drawn_anew(BertForMaskedLM(miniature_plain_config("bert"))), tmp_path)
    relu, usual = (
        ContextualBertForMaskedLM.from_checkpoint(
            tmp_path, schema=miniature_schema(), conditioning="multi_attribute", num_extra_layers=1, **fields
        ).eval()
        for fields in ({"attribute_act": "relu"}, {})
    )
    kinds = [type(block.intermediate.intermediate_act_fn).__name__ for block in relu.bert.encoder.layer]
    assert kinds == ["GELUActivation"] * 3 + ["ReLU"]
    usual.load_state_dict(relu.state_dict())
    inner = relu.bert.encoder.layer[-1].intermediate
    hidden = torch.randn(2, 5, 32)
    torch.testing.assert_close(inner(hidden), inner.dense(hidden).clamp(min=0))
    batch = miniature_batch()
    assert not torch.allclose(relu(**batch, logits_at="all").logits, usual(**batch, logits_at="all").logits)
    relu.save_pretrained(tmp_path / "saved")
    loaded = ContextualBertForMaskedLM.from_pretrained(tmp_path / "saved").eval()
    assert torch.equal(loaded(**batch, logits_at="all").logits, relu(**batch, logits_at="all").logits)


def test_blocks_with_gates_take_no_other_activation(tmp_path: Path) -> None:
    config = miniature_plain_config("modernbert")
    miniature_checkpoint(drawn_anew(AutoModelForMaskedLM.from_config(config)), tmp_path)
    asked: dict[str, Any] = {"schema": miniature_schema(), "conditioning": "multi_attribute"}
    with pytest.raises(
        ConfigurationError, match="ask for the activation 'relu', and the blocks of 'modernbert' take none"
    ):
        ContextualBertForMaskedLM.from_checkpoint(tmp_path, attribute_act="relu", **asked)


def test_contexts_differ_in_bfloat16_as_they_do_in_float32() -> None:
    """They begin 0.02 apart, beside one, where the steps of bfloat16 are 0.004 and 0.008."""
    model, batch = miniature_model("multi_attribute"), miniature_batch()
    batch = {name: value for name, value in batch.items() if name != "labels"}
    with torch.no_grad():
        expected = model(**batch).state
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = model(**batch).state
    own = [found - 1, expected - 1]
    assert float((own[0] - own[1]).norm() / own[1].norm()) < 0.01


def test_where_tokens_are_alike_the_bias_has_its_gradient_in_bfloat16_too() -> None:
    """It comes through the scores alone, a small difference of large numbers that fused kernels in bfloat16 round."""
    module = attention_of(has_attribute_values=False)
    layer = miniature_model("multi_attribute", attn_implementation="sdpa").bert.encoder.layer[0]
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 1, 32, generator=generator) + 0.03 * torch.randn(2, 160, 32, generator=generator)
    into = torch.randn(2, 160, module.output_size, generator=generator)

    def gradient(dtype: torch.dtype) -> Tensor:
        state = torch.ones(2, 4, 32, requires_grad=True)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            found = module(hidden.to(dtype).float(), partial(layer.attend, mask=None), state)
        (found.float() * into).sum().backward()
        assert state.grad is not None
        return state.grad

    exact = gradient(torch.float32)
    assert float((gradient(torch.bfloat16) - exact).norm() / exact.norm()) < 0.2


def test_six_blocks_on_top_of_a_checkpoint(checkpoint: Path) -> None:
    model = ContextualBertForSequenceClassification.from_checkpoint(
        checkpoint, schema=miniature_schema(), conditioning="multi_attribute", num_labels=4
    )
    kinds = [layer.conditioning is not None for layer in model.bert.encoder.layer]
    assert kinds == [False] * 3 + [True] * 6
    assert model.bert.encoder.layer[3].attention.output.dense.weight.shape == (32, 4 * 32)
    freeze_bert(model)
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert not any(f"layer.{index}." in name for name in trained for index in range(3))
    assert "bert.encoder.layer.8.output.dense.weight" in trained
    other = ContextualBertForSequenceClassification.from_checkpoint(
        checkpoint, schema=miniature_schema(), conditioning="multi_attribute", num_extra_layers=2, num_labels=4
    )
    assert len(other.bert.encoder.layer) == 5


@pytest.mark.parametrize("method_name", sorted(METHODS))
def test_any_method_may_have_extra_blocks(method_name: str, checkpoint: Path) -> None:
    schema = miniature_schema() if METHODS[method_name].has_context else None
    model = ContextualBertForMaskedLM.from_checkpoint(
        checkpoint, schema=schema, conditioning=method_name, num_extra_layers=1
    )
    assert len(model.bert.encoder.layer) == 4
    model(miniature_batch()["input_ids"], logits_at="all")


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_dropout_of_attention_is_the_configs(attention: str) -> None:
    fields = {"attention_probs_dropout_prob": 0.5, "hidden_dropout_prob": 0.0, "attn_implementation": attention}
    layer = miniature_model("multi_attribute", **fields).bert.encoder.layer[0].train()
    hidden, state = torch.randn(2, 5, 32), torch.ones(2, 4, 32)
    assert not torch.equal(layer(hidden, None, state), layer(hidden, None, state))
    assert torch.equal(layer.eval()(hidden, None, state), layer(hidden, None, state))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"attribute_start": "one"}, r"attribute_start='one' is unknown. Did you mean 'ones'"),
        ({"attribute_width": "feat"}, r"attribute_width='feat' is unknown. Did you mean 'feature'"),
        ({"attribute_act": "gelu"}, r"attribute_act='gelu' is unknown"),
        ({"num_extra_layers": 4}, "num_extra_layers=4 of num_hidden_layers=3: they are the last of these"),
    ],
)
def test_settings_that_cannot_work(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        miniature_config("multi_attribute", **fields)


def test_scores_do_not_see_the_sign_without_values() -> None:
    module = attention_of(has_attribute_values=False)
    hidden, state = torch.randn(2, 5, 32), torch.randn(2, 4, 32)
    torch.testing.assert_close(module(hidden, plain, state), module(hidden, plain, -state))
    scaled = attention_of()
    torch.testing.assert_close(scaled(hidden, plain, -state), -scaled(hidden, plain, state))
