"""The context that is added at the output: 0 at first, the same however it is asked, learned from, saved."""

from pathlib import Path
from typing import Any

import pytest
import torch

from contextual_bert.conditioning import METHODS, get_method
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertForMaskedLM,
    ContextualBertForSequenceClassification,
)
from contextual_bert.testing import miniature_batch, miniature_config, miniature_model

WITH_CONTEXT = sorted(name for name in METHODS if get_method(name).has_context)
MASK = 1


def model_of(method_name: str, *, is_learned: bool = True, **fields: Any) -> Any:
    made = miniature_model(method_name, has_context_at_output=True, **fields).eval()
    with torch.no_grad():
        made.output_context.weight.normal_(std=0.5 if is_learned else 0.0)
    return made


def batch_of() -> dict[str, Any]:
    batch = miniature_batch()
    ids = batch["input_ids"].masked_fill(batch["input_ids"] == MASK, 5)
    ids[:, 1] = MASK
    return {"input_ids": ids, "attention_mask": batch["attention_mask"], "context": batch["context"]}


@pytest.mark.parametrize("method_name", WITH_CONTEXT)
def test_at_first_it_adds_nothing_and_then_what_the_context_says(method_name: str) -> None:
    batch = batch_of()
    config = miniature_config(method_name, has_context_at_output=True)
    assert not ContextualBertForMaskedLM(config).output_context.weight.any()
    made = model_of(method_name, is_learned=False)
    plain = miniature_model(method_name).eval()
    plain.load_state_dict(made.state_dict(), strict=False)
    torch.testing.assert_close(made(**batch).logits, plain(**batch).logits)
    with torch.no_grad():
        made.output_context.weight.normal_(std=0.5)
    vector = made.bert.embed_context(batch["context"], batch_size=len(batch["input_ids"])).vector
    added = (made.output_context(vector) @ made.get_output_embeddings().weight.T).detach()
    torch.testing.assert_close(made(**batch).logits, plain(**batch).logits + added, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method_name", WITH_CONTEXT)
def test_all_ways_to_ask_give_one_answer(method_name: str) -> None:
    made, batch = model_of(method_name), batch_of()
    logits = made(**batch).logits
    everywhere = made(**batch, logits_at="all").logits
    torch.testing.assert_close(everywhere[:, 1], logits)
    state = made.encode_context(batch["context"])
    torch.testing.assert_close(made(**{**batch, "context": state}).logits, logits)
    one = state.rows(torch.tensor([1]))
    torch.testing.assert_close(made(**{**batch, "context": one}).logits[1], logits[1])
    labels = torch.full_like(batch["input_ids"], -100)
    labels[:, 1] = 7
    scores = made.score_masked(**batch, labels=labels)
    expected = logits.log_softmax(dim=-1)[:, 7]
    torch.testing.assert_close(scores.log_probability.float(), expected.detach(), rtol=1e-4, atol=1e-5)


def test_it_is_learned_with_and_without_a_table_of_logits() -> None:
    made, batch = model_of("global_state_update", is_learned=False, hidden_dropout_prob=0.0), batch_of()
    labels = torch.full_like(batch["input_ids"], -100)
    labels[:, 1] = 7
    found: list[torch.Tensor] = []
    for is_fused in (True, False):
        made.train().zero_grad()
        more = {} if is_fused else {"logits_at": "masked"}
        made(**batch, labels=labels, **more).loss.backward()
        found.append(made.output_context.weight.grad.clone())
    assert found[0].abs().sum() > 0
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


def test_it_is_saved_and_goes_to_another_embedding_size(tmp_path: Path) -> None:
    made, batch = model_of("global_state_update", embedding_size=12), batch_of()
    made.save_pretrained(tmp_path)
    again = ContextualBertForMaskedLM.from_pretrained(tmp_path).eval()
    assert again.output_context.weight.shape[0] == 12
    torch.testing.assert_close(again(**batch).logits, made(**batch).logits)


def test_what_cannot_read_it_says_so() -> None:
    with pytest.raises(ConfigurationError, match="adds the context to the output"):
        ContextualBertConfig(vocab_size=9, has_context_at_output=True)
    config = miniature_config("global_state_update", has_context_at_output=True, num_labels=2)
    with pytest.raises(ConfigurationError, match="has_context_at_output"):
        ContextualBertForSequenceClassification(config)
