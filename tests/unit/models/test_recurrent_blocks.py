"""Recurrent blocks: what they compute, padding on both sides, what is held of a text, and what is refused.

The contracts over methods and heads are in tests/contracts/test_blocks.py.
"""

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from contextual_bert import ContextualBertConfig, ContextualBertForCausalLM, ContextualBertForMaskedLM
from contextual_bert.errors import ConfigurationError
from contextual_bert.models.backbones.recurrent_blocks import Recurrence
from contextual_bert.testing import miniature_model
from contextual_bert.testing.miniature import blocks_of

SIZES: dict[str, Any] = {
    "vocab_size": 12,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 16,
    "has_position_embeddings": True,
    "hidden_dropout_prob": 0.0,
}
BLOCKS = ("bilstm", "bigru", "lstm", "gru")


def config_of(backbone: str, **fields: Any) -> ContextualBertConfig:
    return ContextualBertConfig(backbone=backbone, **{**SIZES, **fields})


def recurrence(backbone: str) -> Recurrence:
    torch.manual_seed(0)
    return Recurrence(config_of(backbone), 0).eval()


def test_an_lstm_computes_its_formula() -> None:
    layer, words = recurrence("lstm"), torch.randn(1, 3, 8)
    weights: dict[str, Any] = dict(layer.rnn.named_parameters())
    hidden, cell = torch.zeros(8), torch.zeros(8)
    found = list[torch.Tensor]()
    for word in words[0]:
        gates = weights["weight_ih_l0"] @ word + weights["weight_hh_l0"] @ hidden
        add, forget, change, out = (gates + weights["bias_ih_l0"] + weights["bias_hh_l0"]).chunk(4)
        cell = forget.sigmoid() * cell + add.sigmoid() * change.tanh()
        hidden = out.sigmoid() * cell.tanh()
        found.append(hidden)
    assert torch.allclose(layer(words)[0][0], torch.stack(found), atol=1e-6)


@pytest.mark.parametrize("backbone", BLOCKS)
@pytest.mark.parametrize("front", [0, 1, 3])
def test_padding_is_passed_over_wherever_it_stands(front: int, backbone: str) -> None:
    layer, words = recurrence(backbone), torch.randn(2, 4, 8)
    padded = torch.full((2, 7, 8), 9.0)
    padded[:, front : front + 4] = words
    mask = torch.zeros(2, 7, dtype=torch.int64)
    mask[:, front : front + 4] = 1
    found, _ = layer(padded, attention_mask=mask)
    assert torch.allclose(found[:, front : front + 4], layer(words)[0], atol=1e-6)
    assert not found[mask == 0].any()


def test_a_row_without_a_position_is_read_as_nothing() -> None:
    found, _ = recurrence("bigru")(torch.randn(2, 3, 8), attention_mask=torch.tensor([[0, 0, 0], [1, 1, 0]]))
    assert found.isfinite().all() and not found[0].any()


@pytest.mark.parametrize("backbone", ["lstm", "gru"])
def test_a_text_is_read_on_from_what_is_held(backbone: str) -> None:
    layer, words, cache = recurrence(backbone), torch.randn(2, 6, 8), DynamicCache()
    whole, _ = layer(words)
    parts = [layer(words[:, first:last], past_key_values=cache)[0] for first, last in ((0, 3), (3, 4), (4, 6))]
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-6)
    assert cache.get_seq_length() == 6


@pytest.mark.parametrize("backbone", ["lstm", "gru"])
def test_the_next_item_is_read_from_those_before_it(backbone: str) -> None:
    torch.manual_seed(0)
    model = ContextualBertForMaskedLM(config_of(backbone, predicts_next=True)).eval()
    items = torch.tensor([[3, 4, 5, 6]])
    other = torch.tensor([[3, 4, 9, 6]])
    before, after = (model(each, logits_at="all").logits for each in (items, other))
    assert torch.equal(before[:, :3], after[:, :3]) and not torch.equal(before[:, 3], after[:, 3])


def test_the_feed_forward_network_has_the_activation_of_the_config() -> None:
    for name, is_below in {"relu": False, "gelu": True}.items():
        model: Any = ContextualBertForMaskedLM(config_of("bigru", hidden_act=name))
        activation = model.bert.encoder.layer[0].mlp[1]
        assert (float(activation(torch.tensor(-1.0))) < 0) is is_below


def test_what_recurrent_blocks_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="hidden_size=9 is odd"):
        ContextualBertForMaskedLM(config_of("bilstm", hidden_size=9, num_attention_heads=3))
    with pytest.raises(ConfigurationError, match="reads in order, and a set has no order"):
        config_of("bigru", has_position_embeddings=False)
    with pytest.raises(
        ConfigurationError, match="backbone='bigru' cannot hide what follows, as predicts_next=True asks"
    ):
        config_of("bigru", predicts_next=True)
    with blocks_of("bilstm"), pytest.raises(ConfigurationError, match="the blocks of backbone='bilstm' have none"):
        miniature_model("multi_attribute")
    with pytest.raises(ConfigurationError, match="reads in both directions"):
        ContextualBertForCausalLM(config_of("bigru"))
    with pytest.raises(ConfigurationError, match="reads from left to right"):
        ContextualBertForMaskedLM(config_of("gru"))
    model = ContextualBertForMaskedLM(config_of("bigru"))
    with pytest.raises(ConfigurationError, match="has the shape"):
        model(torch.tensor([[3, 4]]), torch.ones(1, 1, 2, 2))
