"""The sampled softmax: by its formula, and that of all items where all are drawn."""

import math

import torch

from contextual_bert.models.losses.item_sampler import DrawnItems
from contextual_bert.models.losses.sampled_softmax import sampled_softmax


def test_it_is_the_formula() -> None:
    logits = torch.tensor([[0.5, -1.0, 2.0, 0.0], [1.0, -math.inf, 0.5, 3.0]])
    own = torch.tensor([[2, 0], [3, 3]])
    weights = torch.tensor([0.5, 2.0, 4.0, 0.25])
    losses = sampled_softmax(logits, own, DrawnItems(torch.arange(4), weights.log(), weights))
    first = math.exp(2.0) + math.exp(0.5) + 2.0 * math.exp(-1.0) + 0.25
    second = math.exp(3.0) + 0.5 * math.e + 4.0 * math.exp(0.5)
    expected = [[math.log(first) - 2.0, math.log(first) - 0.5], [math.log(second) - 3.0] * 2]
    torch.testing.assert_close(losses, torch.tensor(expected))


def test_it_is_exact_where_each_item_is_taken_as_often_as_on_average() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 9)
    own = torch.tensor([[1], [4], [8]])
    losses = sampled_softmax(logits, own, DrawnItems(torch.arange(9), torch.zeros(9), torch.ones(9)))
    torch.testing.assert_close(losses[:, 0], torch.nn.functional.cross_entropy(logits, own[:, 0], reduction="none"))
