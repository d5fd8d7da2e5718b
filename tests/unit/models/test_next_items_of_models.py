"""Models that tell which item comes next: no position sees what it is asked for, and all paths give one answer."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from contextual_bert.conditioning import METHODS, get_method
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextualBertConfig,
    ContextualBertForCausalLM,
    ContextualBertForMaskedLM,
    ContextualBertForSequenceClassification,
)
from contextual_bert.testing import miniature_batch, miniature_config, miniature_model

NEXT: dict[str, Any] = {
    "has_position_embeddings": True,
    "predicts_next": True,
    "max_position_embeddings": 12,
    "num_hidden_layers": 2,
    "softmax_over": "candidates",
}
MASK, PAD = 1, 0
READS_ALL = [name for name in METHODS if name == "state_flow"]
OTHERS = sorted({*METHODS} - {*READS_ALL})


def batch_of() -> dict[str, Any]:
    ids = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, PAD, PAD, PAD]])
    context = {name: values[:2] for name, values in miniature_batch()["context"].items()}
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "context": context}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("method_name", OTHERS)
def test_no_position_sees_itself_or_what_follows(method_name: str, attention: str) -> None:
    model = miniature_model(method_name, attn_implementation=attention, **NEXT).eval()
    batch = batch_of()
    if not get_method(method_name).has_context:
        del batch["context"]
    before = model(**batch, logits_at="all").logits
    for place in range(6):
        changed = batch["input_ids"].clone()
        changed[0, place:] = torch.tensor([15, 14, 13, 12, 11, 16])[place:]
        after = model(**{**batch, "input_ids": changed}, logits_at="all").logits
        torch.testing.assert_close(after[0, : place + 1], before[0, : place + 1], rtol=0, atol=0)
        if place < 5:
            assert not torch.allclose(after[0, place + 1], before[0, place + 1])
        # The other row is as it was, and so is a row without its padding.
        torch.testing.assert_close(after[1], before[1], rtol=0, atol=0)
    alone = {name: values[1:] for name, values in batch.get("context", {}).items()}
    short = model(batch["input_ids"][1:, :3], context=alone or None, logits_at="all").logits
    torch.testing.assert_close(short[0], before[1, :3], rtol=0, atol=1e-5)


@pytest.mark.parametrize("method_name", ["none", "global_state_update", "new_position"])
def test_loss_scores_and_answers_are_one_distribution(method_name: str) -> None:
    model = miniature_model(method_name, **NEXT).eval()
    batch = batch_of()
    if method_name == "none":
        del batch["context"]
    labels = batch["input_ids"].masked_fill(batch["input_ids"] == PAD, IGNORED_LABEL)
    scores = model.score_masked(**batch, labels=labels)
    logits = model(**batch, logits_at="all").logits
    wanted: list[float] = []
    for row, length in enumerate((6, 3)):
        for place in range(length):
            own = logits[row, place].clone()
            own[:3] = -torch.inf
            own[batch["input_ids"][row, :place]] = -torch.inf  # what stands before cannot come again here
            wanted.append(float(own.log_softmax(dim=0)[batch["input_ids"][row, place]]))
    torch.testing.assert_close(scores.log_probability, torch.tensor(wanted), rtol=0, atol=1e-5)
    loss = model(**batch, labels=labels).loss
    torch.testing.assert_close(loss, -scores.log_probability.mean(), rtol=0, atol=1e-5)
    model.train()
    with torch.no_grad():  # without dropout the fused loss of a training is the same
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    torch.testing.assert_close(model(**batch, labels=labels).loss, loss, rtol=0, atol=1e-5)
    # A [MASK] behind the last item is answered from all of them.
    model.eval()
    asked = torch.cat([batch["input_ids"][:1], torch.tensor([[MASK]])], dim=1)
    context = {name: values[:1] for name, values in batch.get("context", {}).items()}
    found = model(asked, context=context or None).logits
    longer = model(torch.cat([asked[:, :-1], torch.tensor([[17]])], dim=1), context=context or None, logits_at="all")
    torch.testing.assert_close(found[0], longer.logits[0, -1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("over", ["candidates", "items"])
def test_items_of_earlier_pieces_are_no_rivals_in_the_loss(over: str) -> None:
    model = miniature_model("none", **{**NEXT, "softmax_over": over}).eval()
    batch = batch_of()
    del batch["context"]
    labels = batch["input_ids"].masked_fill(batch["input_ids"] == PAD, IGNORED_LABEL)
    labels[1, 0] = IGNORED_LABEL
    earlier = torch.tensor([[PAD, PAD], [15, 16]])
    wanted = -model.score_masked(**batch, labels=labels, earlier_ids=earlier).log_probability.mean()
    plain = model(**batch, labels=labels).loss
    assert bool(torch.isclose(wanted, plain)) == (over == "items")
    gradients: list[torch.Tensor] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for is_fused in (False, True):  # on an accelerator, and in training on a CPU
        model.train(is_fused)
        model.zero_grad()
        loss = model(**batch, labels=labels, earlier_ids=earlier).loss
        torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-5)
        loss.backward()
        gradients.append(model.get_output_embeddings().weight.grad.clone())
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_a_saved_model_still_tells_what_comes_next(tmp_path: Path) -> None:
    model = miniature_model("global_state_update", **NEXT).eval()
    model.save_pretrained(tmp_path)
    again = ContextualBertForMaskedLM.from_pretrained(tmp_path)
    assert again.config.predicts_next
    batch = batch_of()
    torch.testing.assert_close(
        again(**batch, logits_at="all").logits, model(**batch, logits_at="all").logits, rtol=0, atol=0
    )


@pytest.mark.parametrize("method_name", READS_ALL)
def test_a_state_that_reads_the_sequence_is_refused(method_name: str) -> None:
    with pytest.raises(ConfigurationError, match="with predicts_next=True a position would see"):
        ContextualBertForMaskedLM(miniature_config(method_name, **NEXT))


def test_what_cannot_tell_the_next_item_is_refused() -> None:
    sizes = {"vocab_size": 23, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    with pytest.raises(ConfigurationError, match="has_position_embeddings=True"):
        ContextualBertConfig(predicts_next=True, **sizes)
    with pytest.raises(ConfigurationError, match="Known: bert, gru, lstm, mpnet"):
        ContextualBertConfig(predicts_next=True, has_position_embeddings=True, backbone="gpt2", eos_token_id=2, **sizes)
    config = ContextualBertConfig(predicts_next=True, has_position_embeddings=True, **sizes)
    for head in (ContextualBertForSequenceClassification, ContextualBertForCausalLM):
        with pytest.raises(ConfigurationError, match="is for masked items"):
            head(config)


GAPS: dict[str, Any] = {"time_gaps": "seconds", "type_vocab_size": 9}


def test_a_position_reads_the_gap_before_what_is_asked_and_none_that_follows() -> None:
    model = miniature_model("none", **NEXT, **GAPS).eval()
    batch = {"input_ids": batch_of()["input_ids"][:1]}
    gaps = torch.tensor([[0, 3, 4, 5, 6, 7]])
    before = model(**batch, token_type_ids=gaps, logits_at="all").logits[0]
    for place in range(6):
        changed = gaps.clone()
        changed[0, place] = 8
        after = model(**batch, token_type_ids=changed, logits_at="all").logits[0]
        torch.testing.assert_close(after[:place], before[:place], rtol=0, atol=0)
        # Items are moved one place back and gaps are not: the item at this place is asked for with the gap before it.
        assert not torch.allclose(after[place], before[place])
    unknown = model(**batch, logits_at="all").logits
    torch.testing.assert_close(unknown, model(**batch, token_type_ids=gaps * 0, logits_at="all").logits)


def test_some_gaps_are_unknown_while_training() -> None:
    torch.manual_seed(0)
    model = miniature_model("none", **NEXT, **GAPS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ids, gaps = torch.arange(5, 11).repeat(400, 1), torch.full((400, 6), 4)
    known = model.eval()(ids, token_type_ids=gaps, logits_at="all").logits[0]
    with torch.no_grad():
        trained = model.train()(ids, token_type_ids=gaps, logits_at="all").logits
        is_whole = (trained - model(ids[:1], token_type_ids=gaps[:1] * 0, logits_at="all").logits).abs().amax(
            (1, 2)
        ) < 1e-5
    is_known = (trained - known).abs().amax((1, 2)) < 1e-5
    assert 0.05 < is_whole.float().mean() < 0.16
    assert is_known.float().mean() == pytest.approx(0.9**7, abs=0.08)


def test_settings_of_gaps_that_cannot_be_are_refused() -> None:
    for fields, told in (
        ({**NEXT, **GAPS, "time_gaps": "days"}, "time_gaps='days' is unknown"),
        ({**NEXT, "time_gaps": "seconds"}, "type_vocab_size"),
        ({**GAPS}, "has_position_embeddings"),
        ({**GAPS, "backbone": "mpnet", "has_position_embeddings": True}, "backbone"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            miniature_config("none", **fields)
    with pytest.raises(ConfigurationError, match="token_type_ids was given, and this model has no embeddings"):
        miniature_model("none", **NEXT)(torch.tensor([[5, 6]]), token_type_ids=torch.tensor([[0, 3]]))


def test_a_config_without_the_field_reads_no_gaps(tmp_path: Path) -> None:
    model = miniature_model("none", **NEXT)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["time_gaps"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ContextualBertForMaskedLM.from_pretrained(tmp_path).config.time_gaps is None
