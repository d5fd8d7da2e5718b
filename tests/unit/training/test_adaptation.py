"""What is trained of a pretrained BERT: all, only what is new, or low-rank changes."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from contextual_bert.conditioning import METHODS
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import ContextualBertForMaskedLM, ContextualBertForSequenceClassification
from contextual_bert.models.pretrained import context_weights, new_weights
from contextual_bert.testing import miniature_batch, miniature_config, miniature_schema
from contextual_bert.testing.miniature import drawn_anew
from contextual_bert.training import add_lora, freeze_bert, unfreeze_bert
from contextual_bert.training.adaptation import train_new_weights
from contextual_bert.training.setting_checks import check_lora

LABELS = torch.tensor([0, 2, 1, 1])
ALL_METHODS = pytest.mark.parametrize("method_name", sorted(METHODS))


@pytest.fixture
def batch() -> dict[str, Any]:
    return {**miniature_batch(), "labels": LABELS}


def model_of(method_name: str) -> ContextualBertForSequenceClassification:
    layout: dict[str, Any] = {"has_position_embeddings": True, "has_pretrained_start": True, "num_extra_layers": 1}
    config = miniature_config(method_name, num_labels=3, **layout)
    return drawn_anew(ContextualBertForSequenceClassification(config))


def step(model: Any, batch: dict[str, Any]) -> None:
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    model(**batch).loss.backward()
    optimizer.step()


@ALL_METHODS
def test_a_frozen_bert_stays_as_it_is(method_name: str, batch: dict[str, Any]) -> None:
    model = model_of(method_name)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    freeze_bert(model)
    step(model, batch)
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    new = ("conditioning.", "context_encoder.", "classifier.", "pooler.", "layer.2.")
    extra = "bert.encoder.layer.2.output.dense.weight"
    assert {"classifier.weight", "bert.pooler.dense.weight", extra} <= changed
    assert all(any(part in name for part in new) for name in changed)
    assert method_name == "none" or any("conditioning." in name for name in changed)
    # The LayerNorms that a method has taken over are the checkpoint's; those of a new block are new.
    moved = [name for name in before if "conditioning.normalisation" in name and "layer.2." not in name]
    assert bool(moved) == (method_name in ("global_state", "global_state_update", "state_flow"))
    assert not changed & {*moved}
    of_context = {id(weight) for weight in context_weights(model)}
    assert not [name for name, weight in model.named_parameters() if name in moved and id(weight) in of_context]
    unfreeze_bert(model)
    assert all(weight.requires_grad for weight in model.parameters())


def test_words_stay_frozen_where_the_head_shares_them() -> None:
    model = ContextualBertForMaskedLM(miniature_config("film"))
    freeze_bert(model)
    assert not model.get_output_embeddings().weight.requires_grad
    assert model.cls.predictions.bias.requires_grad


@ALL_METHODS
def test_lora_starts_where_the_model_is_and_merges(method_name: str, batch: dict[str, Any], tmp_path: Any) -> None:
    pytest.importorskip("peft")
    model = model_of(method_name)
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    with torch.no_grad():
        before = model(**inputs).logits
    adapted = add_lora(model, rank=2)
    assert torch.equal(adapted(**inputs).logits, before)
    step(adapted, batch)
    step(adapted, batch)
    frozen = {name for name, weight in adapted.named_parameters() if not weight.requires_grad}
    assert any(name.endswith("attention.output.dense.weight") for name in frozen)
    silent = [
        name for name, weight in adapted.named_parameters()
        if weight.requires_grad and (weight.grad is None or not bool(weight.grad.any()))
    ]  # fmt: skip
    assert not silent
    with torch.no_grad():
        after = adapted.eval()(**inputs).logits
    assert not torch.equal(after, before)
    merged: Any = adapted.merge_and_unload()
    merged.save_pretrained(tmp_path)
    again = ContextualBertForSequenceClassification.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs).logits, after, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 0}, "rank=0 is not allowed. Give 1 or more"),
        ({"rank": 1.5}, "rank=1.5 is not allowed. Give 1 or more"),
        ({"rank": True}, "rank=True"),
        ({"alpha": 0}, "alpha=0 is not allowed. Give a number above 0"),
        ({"alpha": "8"}, "alpha='8'"),
        ({"dropout": 1}, "dropout=1 is not allowed. Give a share"),
        ({"rnk": 4}, "rnk.* is no setting of LoRA. Did you mean 'rank'"),
    ],
)
def test_settings_that_no_lora_has(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_lora(settings)
    if "rnk" not in settings:
        with pytest.raises(ConfigurationError, match=words):
            add_lora(model_of("none"), **settings)


@pytest.mark.parametrize("change", [freeze_bert, unfreeze_bert])
def test_what_has_low_rank_changes_is_not_frozen_or_thawed(change: Any) -> None:
    with pytest.raises(ConfigurationError, match="PeftModel is no model of this package"):
        change(add_lora(model_of("film")))


def test_lora_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'contextual-bert\[text\]'"):
        add_lora(model_of("none"))


@ALL_METHODS
def test_beside_the_changes_every_new_weight_is_trained(method_name: str) -> None:
    pytest.importorskip("peft")
    layout: dict[str, Any] = {"has_position_embeddings": True, "has_pretrained_start": True, "num_extra_layers": 1}
    model = drawn_anew(ContextualBertForMaskedLM(miniature_config(method_name, **layout)))
    new = {*new_weights(model)}
    inner = add_lora(model, rank=2).get_base_model()
    assert not inner.cls.predictions.bias.requires_grad
    train_new_weights(inner)
    trained = {name for name, weight in inner.named_parameters() if weight.requires_grad}
    low_rank = {name for name in trained if "lora_" in name}
    assert len(low_rank) == 2 * 2 * (inner.config.num_hidden_layers - 1)
    assert {name.replace(".modules_to_save.default", "") for name in trained - low_rank} == new


def test_what_peft_copies_follows_the_models_attention() -> None:
    """The blocks of multi_attribute are copied whole: a change of attn_implementation reaches them as well."""
    pytest.importorskip("peft")
    model = model_of("multi_attribute")
    merged: Any = add_lora(model, rank=2).merge_and_unload()
    assert all(each.config is merged.config for each in merged.modules() if hasattr(each, "config"))


def test_low_rank_changes_are_saved_and_loaded_by_themselves(
    checkpoint: Path, batch: dict[str, Any], tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft")
    inputs = {name: value for name, value in batch.items() if name in ("input_ids", "attention_mask")}

    def started() -> Any:
        torch.manual_seed(0)
        return ContextualBertForSequenceClassification.from_checkpoint(checkpoint, schema=miniature_schema()).eval()

    adapted = add_lora(started(), rank=2)
    step(adapted, {**inputs, "labels": LABELS})
    step(adapted, {**inputs, "labels": LABELS})
    adapted.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(started(), tmp_path).eval()
    with torch.no_grad():
        assert not torch.equal(again(**inputs).logits, started()(**inputs).logits)
        torch.testing.assert_close(again(**inputs).logits, adapted.eval()(**inputs).logits)
