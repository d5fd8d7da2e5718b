"""A sampled loss in the model: the exact one where all items are drawn, what is left out, and which rows change."""

from typing import Any

import pytest
import torch
from torch import Tensor

from contextual_bert.errors import ConfigurationError
from contextual_bert.models import IGNORED_LABEL, ContextualBertForMaskedLM
from contextual_bert.models.losses.item_sampler import DrawnItems, ItemSampler
from contextual_bert.models.losses.sampled_loss import SampledLoss
from contextual_bert.testing.miniature import miniature_batch, miniature_config

VOCABULARY = 23
RESERVED = (0, 1, 2)


class AllItems(ItemSampler):
    """Takes each item as often as it is taken on average."""

    def forward(self, targets: Tensor) -> DrawnItems:
        return DrawnItems(self.items, torch.zeros(len(self.items)), torch.ones(len(self.items)))


def model_with(sampler: ItemSampler | None, **fields: Any) -> ContextualBertForMaskedLM:
    torch.manual_seed(0)
    settings: dict[str, Any] = {"softmax_over": "candidates", "reserved_token_ids": list(RESERVED), **fields}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = ContextualBertForMaskedLM(miniature_config("global_state_update", **dropout, **settings)).train()
    if sampler is not None:
        model.set_sampled_loss(SampledLoss("sampled_softmax", sampler))
    return model


def batch() -> dict[str, Any]:
    found = miniature_batch()
    labels = torch.full_like(found["input_ids"], IGNORED_LABEL)
    labels[:, 1] = torch.tensor([5, 6, 7, 8])
    input_ids = found["input_ids"].clone()
    input_ids[:, 1] = 1
    return {**found, "input_ids": input_ids, "labels": labels}


@pytest.mark.parametrize("over", ["items", "candidates"])
@pytest.mark.parametrize("is_tied", [True, False])
def test_over_all_items_it_is_the_exact_loss_with_its_gradients(over: str, is_tied: bool) -> None:
    counts = torch.arange(VOCABULARY)
    sampler = AllItems(counts, num_negatives=1, reserved=RESERVED)
    exact, sampled = (model_with(each, softmax_over=over, tie_word_embeddings=is_tied) for each in (None, sampler))
    losses = [model(**batch()).loss for model in (exact, sampled)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    assert sampled.get_output_embeddings().weight.grad.is_sparse
    for (name, own), other in zip(exact.named_parameters(), sampled.parameters(), strict=True):
        gradient = other.grad.to_dense() if other.grad.is_sparse else other.grad
        torch.testing.assert_close(own.grad, gradient, msg=lambda text, name=name: f"{name}: {text}")


def test_whole_sets_have_the_mean_of_their_items() -> None:
    sampler = AllItems(torch.arange(VOCABULARY), num_negatives=1, reserved=RESERVED)
    given = batch()
    whole = {
        "context": given["context"],
        "input_ids": torch.ones(4, 1, dtype=torch.long),
        "attention_mask": torch.ones(4, 1, dtype=torch.long),
        "labels": torch.tensor([[5, 6, -100], [7, -100, -100], [8, 9, 10], [11, 12, -100]]),
    }
    for counted in (None, torch.tensor(8)):
        found = [model_with(each)(**whole, num_items_in_batch=counted).loss for each in (None, sampler)]
        torch.testing.assert_close(*found)


def test_what_is_evaluated_is_over_all_items_and_nothing_is_saved() -> None:
    sampler = ItemSampler(torch.arange(VOCABULARY), num_negatives=2, reserved=RESERVED)
    plain, model = model_with(None).eval(), model_with(sampler).eval()
    torch.testing.assert_close(plain(**batch()).loss, model(**batch()).loss)
    assert plain.state_dict().keys() == model.state_dict().keys()
    assert (plain.config.item_loss, model.config.item_loss) == ("cross_entropy", "sampled_softmax")
    model.set_sampled_loss(None)
    model.train()(**batch()).loss.backward()
    weight: Any = model.get_output_embeddings().weight
    assert not weight.grad.is_sparse


def test_rows_that_were_not_drawn_have_no_gradient() -> None:
    sampler = ItemSampler(torch.arange(VOCABULARY), num_negatives=2, reserved=RESERVED)
    model = model_with(sampler, tie_word_embeddings=False)
    model(**batch()).loss.backward()
    gradient: Any = model.get_output_embeddings().weight.grad
    assert len(gradient.coalesce().indices()[0]) <= 4 + 2


def test_a_loss_that_is_none_is_refused_by_the_config() -> None:
    with pytest.raises(ConfigurationError, match="item_loss='sampled' is unknown"):
        miniature_config("none", item_loss="sampled")
