"""Drawn items: which, how often, and that weighted sums over them are on average those over all items."""

import torch

from contextual_bert.models.losses.item_sampler import ItemSampler

COUNTS = torch.tensor([5, 0, 9, 40, 1, 0, 30, 20])
RESERVED = (0, 1)


def test_targets_and_drawn_items_stand_once_and_reserved_ids_are_never_drawn() -> None:
    torch.manual_seed(0)
    sampler = ItemSampler(COUNTS, num_negatives=50, reserved=RESERVED)
    drawn = sampler(torch.tensor([7, 3, 3]))
    assert drawn.ids.tolist() == sorted(set(drawn.ids.tolist()))
    assert {3, 7} <= set(drawn.ids.tolist()) <= {2, 3, 4, 5, 6, 7}
    assert int(drawn.num_drawn.sum()) == 50
    few = ItemSampler(COUNTS, num_negatives=1, reserved=RESERVED)(torch.tensor([7, 3, 3]))
    is_own = torch.isin(few.ids, torch.tensor([3, 7]))
    assert int(few.num_drawn.sum()) == 1 and int(is_own.sum()) == 2


def test_a_weighted_sum_over_drawn_items_is_on_average_that_over_all() -> None:
    torch.manual_seed(0)
    sampler = ItemSampler(COUNTS, num_negatives=6, reserved=RESERVED)
    values = torch.tensor([100.0, 100.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    shares = torch.where(torch.arange(8) < 2, 0, COUNTS).float()
    sums = []
    for _ in range(4_000):
        drawn = sampler(torch.multinomial(shares, 5, replacement=True))
        sums.append(float((drawn.log_weights.exp() * values[drawn.ids]).sum()))
    found = torch.tensor(sums)
    error = found.std() / len(sums) ** 0.5
    assert abs(found.mean() - values[2:].sum()) < 4 * error
    assert error < 1.0


def test_buffers_follow_the_model_and_are_not_saved() -> None:
    sampler = ItemSampler(COUNTS, reserved=RESERVED)
    assert dict(sampler.state_dict()) == {}
    assert sampler.items.tolist() == [2, 3, 4, 5, 6, 7]
    torch.testing.assert_close(sampler.shares.sum(), torch.tensor(1.0))
