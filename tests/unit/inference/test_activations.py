"""Activations: each architecture gives the weights of its attention, and computes as before afterwards."""

from typing import Any

import pytest
import torch

from contextual_bert.conditioning import METHODS
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.activations import record_activations
from contextual_bert.models import ContextualBertForCausalLM
from contextual_bert.testing import miniature_batch, miniature_config, miniature_model
from contextual_bert.testing.miniature import blocks_of, drawn_anew


def inputs() -> dict[str, Any]:
    batch = miniature_batch()
    del batch["labels"]
    return batch


@pytest.mark.parametrize("model_type", ["bert", "mpnet", "modernbert"])
@pytest.mark.parametrize("method_name", sorted(METHODS))
def test_what_is_recorded_is_what_the_model_computes(method_name: str, model_type: str) -> None:
    with blocks_of(model_type):
        model = miniature_model(method_name)
    with torch.no_grad():
        before = model(**inputs()).logits
    found = record_activations(model, inputs())
    torch.testing.assert_close(found.logits, before, rtol=1e-3, atol=1e-4)
    assert len(found.attentions) == 3 and len(found.hidden_states) == 4
    assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        assert torch.equal(model(**inputs()).logits, before)


@pytest.mark.parametrize("method_name", sorted({*METHODS} - {"state_flow"}))
def test_a_model_that_writes_attends_to_what_came_before(method_name: str) -> None:
    with blocks_of("gpt2"):
        model = drawn_anew(ContextualBertForCausalLM(miniature_config(method_name, eos_token_id=2)))
    batch = inputs()
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    found = record_activations(model, batch)
    for weights in found.attentions:
        torch.testing.assert_close(weights, weights.tril())
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))


def test_the_implementation_comes_back_after_an_error() -> None:
    model = miniature_model("film")
    with pytest.raises(ConfigurationError):
        record_activations(model, {})
    assert model.config._attn_implementation == "sdpa"
