"""gBCE: by its formula, and the plain binary cross-entropy where all items are drawn."""

import math

import torch

from contextual_bert.models.losses.gbce import gbce
from contextual_bert.models.losses.item_sampler import DrawnItems


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


def test_it_is_the_formula() -> None:
    logits = torch.tensor([[0.5, -1.0, 2.0], [1.0, -math.inf, 0.5]])
    drawn = DrawnItems(torch.tensor([4, 6, 9]), torch.zeros(3), torch.tensor([3.0, 1.0, 0.0]))
    losses = gbce(logits, torch.tensor([[2], [0]]), drawn, num_items=101)
    share = 4 / 100
    beta = share * (0.75 * (1 - 1 / share) + 1 / share)
    first = -beta * math.log(sigmoid(2.0)) - 3 * math.log(1 - sigmoid(0.5)) - math.log(1 - sigmoid(-1.0))
    second = -beta * math.log(sigmoid(1.0))
    torch.testing.assert_close(losses, torch.tensor([[first], [second]]))


def test_where_all_are_drawn_it_is_the_binary_cross_entropy() -> None:
    logits = torch.tensor([[0.5, -1.0, 2.0]])
    drawn = DrawnItems(torch.arange(3), torch.zeros(3), torch.tensor([1.0, 1.0, 0.0]))
    found = gbce(logits, torch.tensor([[2]]), drawn, num_items=3)
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(
        logits[0], torch.tensor([0.0, 0.0, 1.0]), reduction="sum"
    )
    torch.testing.assert_close(found[0, 0], wanted)
