"""Items by what they come with: counted by hand, new items by those with their features."""

import math

import pytest
import torch

from contextual_bert.baselines import ItemKNN
from contextual_bert.baselines.shares import Observations
from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.item_features import ItemLayout, encode_items

COLOUR, SIZE = (FeatureLayout(name, "categorical", 6, 0, 8) for name in ("colour", "size"))
GREEN, BLUE = 2, 3
S, M, L = 2, 3, 4
# Items 3, 4, 5 are in the sets {3, 4} twice and {3, 5} once; 6, 7 and 8 are new.
SETS = ((3, 4), (3, 4), (3, 5))
COLOURS, SIZES = (GREEN, GREEN, BLUE, GREEN, GREEN, 0), (S, L, M, 5, L, 0)
WITH_4, WITH_5 = 2 / math.sqrt(3 * 2), 1 / math.sqrt(3 * 1)  # how often 3 comes with 4, and with 5


def observed(*sets: tuple[int, ...]) -> Observations:
    rows = [row for row, items in enumerate(sets) for _ in items]
    return Observations(torch.tensor([item for items in sets for item in items]), torch.tensor(rows), {})


def counted(*, with_features: bool = False, vocab_size: int = 9) -> ItemKNN:
    layout = ItemLayout((COLOUR, SIZE), num_places=2) if with_features else None
    knn = ItemKNN(vocab_size, item_layout=layout, softmax_over="candidates")
    if knn.attributes is not None:
        items = encode_items((COLOUR, SIZE), {"colour": torch.tensor(COLOURS), "size": torch.tensor(SIZES)})
        knn.attributes.fill(items, is_new=torch.tensor([False] * 3 + [True] * 3))
    return knn


def similarities(knn: ItemKNN, *visible: int) -> torch.Tensor:
    """What all items have in common with one visible item each: (visible, vocabulary)."""
    knn.settings |= {"popularity_weight": 0.0, "score_weight": 1.0}
    logits = knn.logits(torch.tensor(visible)[:, None]) - knn.advantages
    of_nothing = (logits[:, 3:] == knn.log_shares[3:]).all(dim=1, keepdim=True)
    return torch.where(of_nothing, 0.0, logits.expm1() * knn.settings["score_scale"])


def test_scores_are_what_the_visible_items_come_with() -> None:
    knn = counted(vocab_size=6)
    settings = knn.fit(observed(*SETS))
    assert {name: settings[name] for name in ("popularity_weight", "score_weight", "score_scale")} == {
        "popularity_weight": 1.0,
        "score_weight": 1.0,
        "score_scale": 1.0,
    }
    logits, shares = knn.logits(torch.tensor([[3, 1, 0], [4, 1, 0], [5, 4, 1]])), knn.shares.log_shares
    both = (1 + WITH_4) * (1 + WITH_5) - 1
    expected = torch.tensor([[0.0, WITH_4, WITH_5], [WITH_4, 0.0, 0.0], [both, 0.0, 0.0]]).log1p()
    torch.testing.assert_close(logits[:, 3:], shares[3:] + expected)
    assert (logits[:, :3] == -torch.inf).all()


def test_an_item_twice_in_a_set_is_there_once() -> None:
    twice, once = counted(vocab_size=6), counted(vocab_size=6)
    twice.fit(observed((3, 4, 4), (3, 4), (3, 5)))
    once.fit(observed(*SETS))
    torch.testing.assert_close(similarities(twice, 3), similarities(once, 3))


def test_without_visible_items_popularity_alone_counts() -> None:
    knn = counted(vocab_size=6)
    knn.fit(observed(*SETS))
    knn.settings |= {"popularity_weight": 0.3}
    torch.testing.assert_close(knn.logits(torch.tensor([[1, 0]]))[0, 3:], knn.shares.log_shares[3:])


def test_a_new_item_is_ranked_by_what_its_neighbours_come_with() -> None:
    knn = counted(with_features=True)
    knn.fit(observed(*SETS))
    sums, shares = similarities(knn, 3)[0], knn.shares.log_shares.exp()
    # 6 is green as 3 and 4 are; 7 is 4 in all, and green as 3 is; nothing is known of 8.
    near = math.exp(1.0 / 0.1) / (math.exp(1.0 / 0.1) + math.exp(0.5 / 0.1))
    torch.testing.assert_close(sums[6:], torch.tensor([WITH_4 / 2, near * WITH_4, 0.0]))
    popular = torch.stack([(shares[3] + shares[4]) / 2, near * shares[4] + (1 - near) * shares[3], shares[8]])
    torch.testing.assert_close(knn.log_shares[6:].exp(), popular)


def test_a_visible_new_item_comes_with_what_its_neighbours_come_with() -> None:
    knn = counted(with_features=True)
    knn.fit(observed(*SETS))
    of_3, of_4, of_6, of_8 = similarities(knn, 3, 4, 6, 8)[:, 3:6]
    torch.testing.assert_close(of_6, (of_3 + of_4) / 2)
    assert not of_8.any()


def test_without_features_a_new_item_has_its_share_alone() -> None:
    knn = counted()
    knn.fit(observed(*SETS))
    assert not similarities(knn, 3)[0, 6:].any()
    torch.testing.assert_close(knn.log_shares[6:], knn.shares.log_shares[6:])


def pairs(number: int, *, seed: int) -> Observations:
    """Sets of an item below 13 and the one that always comes with it, ten ids above."""
    drawn = torch.randint(3, 13, (number,), generator=torch.Generator().manual_seed(seed)).tolist()
    return observed(*((item, item + 10) for item in drawn))


def nats(knn: ItemKNN, asked: Observations) -> float:
    sets = asked.targets.view(-1, 2)
    inputs = torch.stack([sets[:, 0], torch.ones_like(sets[:, 0])], dim=1)
    labels = torch.stack([torch.full_like(sets[:, 1], -100), sets[:, 1]], dim=1)
    return -float(knn.score_masked(inputs, labels=labels).log_probability.mean())


def test_numbers_are_chosen_on_validation() -> None:
    chosen, usual = counted(vocab_size=23), counted(vocab_size=23)
    settings = chosen.fit(pairs(100, seed=0), pairs(50, seed=1))
    usual.fit(observed(*[tuple(each) for each in pairs(100, seed=0).targets.view(-1, 2).tolist()]))
    usual.settings = {"popularity_weight": 1.0, "score_weight": 1.0, "score_scale": 1.0}
    assert nats(chosen, pairs(50, seed=2)) < 0.05 < nats(usual, pairs(50, seed=2))
    assert settings["score_weight"] > 1


def test_without_validation_a_tenth_of_the_sets_chooses_and_all_are_counted() -> None:
    knn = counted(vocab_size=23)
    knn.fit(pairs(100, seed=0))
    assert knn.settings["score_weight"] > 1
    other = counted(vocab_size=23)
    other.fit(pairs(100, seed=0), pairs(50, seed=1))
    torch.testing.assert_close(knn.partners.weights, other.partners.weights)


def test_counts_that_mislead_are_not_believed() -> None:
    knn, asked = counted(vocab_size=23), pairs(60, seed=1).targets.view(-1, 2)
    misled = observed(*((item, 13 + (item - 2) % 10) for item in asked[:, 0].tolist()))
    knn.fit(pairs(100, seed=0), misled)
    loss = nats(knn, misled)
    knn.settings |= {"score_weight": 0.0, "popularity_weight": 1.0}
    assert loss <= nats(knn, misled) + 0.05


def test_the_advantage_of_new_items_is_chosen_by_how_often_they_are_asked_for() -> None:
    found = []
    for times in (1, 4):
        knn = counted(with_features=True)
        asked = observed(*([(3, 4)] * 8), *([(3, 5)] * 4), *([(3, 7)] * times))
        found.append(knn.fit(observed(*SETS), asked)["advantage_of_new"])
    assert found[0] < found[1] - 0.5


def test_known_items_stand_for_new_ones_where_validation_asks_for_none() -> None:
    settings = counted(with_features=True).fit(observed(*SETS), observed((3, 4), (3, 5)))
    assert settings["advantage_of_new"] > 1  # 5 stands for them: it has no neighbours, and is asked for


def test_the_advantage_is_that_of_new_items_alone() -> None:
    knn = counted(with_features=True)
    knn.fit(observed(*SETS))
    before = knn.logits(torch.tensor([[3, 1]]))
    knn._take({"advantage_of_new": 2.0, "popularity_weight": 1.0})
    after = knn.logits(torch.tensor([[3, 1]]))
    torch.testing.assert_close((after - before)[0, 3:], torch.tensor([0.0, 0, 0, 2, 2, 2]))


def test_neighbours_are_chosen_that_rank_known_items_best_as_if_they_were_new() -> None:
    colours = [4, 5, *([GREEN] * 5), *([BLUE] * 5), GREEN]
    sizes = [0, 0, *([S] * 11)]
    layout = ItemLayout((COLOUR, SIZE), num_places=2)
    knn = ItemKNN(16, item_layout=layout, softmax_over="candidates")
    assert knn.attributes is not None
    items = encode_items((COLOUR, SIZE), {"colour": torch.tensor(colours), "size": torch.tensor(sizes)})
    knn.attributes.fill(items, is_new=torch.arange(13) == 12)
    sets = [(3 if item < 10 else 4, item) for item in range(5, 15)] * 3
    settings = knn.fit(observed(*sets), observed(*sets))
    # Green ones come with 3, blue ones with 4. Each has four of its own colour, then those of the other.
    assert (settings["num_neighbours"], settings["temperature"]) not in {(16, 0.3), (64, 0.3)}
    sums = similarities(knn, 3, 4)[:, 15]
    assert float(sums[0]) > 5 * float(sums[1])


def test_there_must_be_something_to_count_and_to_ask() -> None:
    empty = Observations(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), {})
    with pytest.raises(DataError, match="nothing to count"):
        counted().fit(empty)
    knn = counted()
    knn.fit(observed(*SETS))
    with pytest.raises(ConfigurationError, match="Scoring needs labels"):
        knn.score_masked(torch.tensor([[3, 1]]))


GROUPS, SIZE_OF_GROUP = 8, 6


def shop_of_groups(seed: int) -> tuple[ItemKNN, Observations, Observations, Observations]:
    """Sets of two items of one group; a feature says the group, another one nothing. The last item of each is new."""
    generator = torch.Generator().manual_seed(seed)
    group, other = (FeatureLayout(name, "categorical", 2 + GROUPS, 0, 8) for name in ("group", "other"))
    num_items = GROUPS * SIZE_OF_GROUP
    groups, others = torch.arange(num_items) % GROUPS, torch.randint(0, GROUPS, (num_items,), generator=generator)
    is_new = torch.arange(num_items) >= num_items - GROUPS
    knn = ItemKNN(3 + num_items, item_layout=ItemLayout((group, other), num_places=2), softmax_over="candidates")
    assert knn.attributes is not None
    knn.attributes.fill(encode_items((group, other), {"group": 2 + groups, "other": 2 + others}), is_new=is_new)

    def drawn(number: int, places: int) -> Observations:
        sets = [3 + torch.randperm(places, generator=generator)[:2] * GROUPS + row % GROUPS for row in range(number)]
        return observed(*(tuple(each.tolist()) for each in sets))

    return knn, drawn(160, SIZE_OF_GROUP - 1), drawn(160, SIZE_OF_GROUP), drawn(400, SIZE_OF_GROUP)


def test_known_items_are_smoothed_so_that_new_ones_are_ranked_as_they_deserve() -> None:
    knn, training, validation, asked = shop_of_groups(seed=0)
    settings = knn.fit(training, validation)
    assert settings["weight_of_group"] > 0.9
    assert settings["num_doubted_sets"] > 0
    pairs_of_new = asked.targets.view(-1, 2)[asked.targets[1::2] >= 3 + GROUPS * (SIZE_OF_GROUP - 1)]
    asked_for_new = observed(*(tuple(each) for each in pairs_of_new.tolist()))
    best = math.log(SIZE_OF_GROUP - 1)  # one group, and nothing else to tell
    assert nats(knn, asked) < best + 0.05
    assert nats(knn, asked_for_new) < best + 0.1
    knn._take({**settings, "num_doubted_sets": 0.0})
    assert nats(knn, asked) > best + 1.0


def test_an_item_of_many_sets_goes_by_its_own_counts() -> None:
    knn = counted(with_features=True)
    knn.fit(observed(*SETS))
    own = similarities(knn, 3)[0]
    knn._take({"num_doubted_sets": 2.0})
    mixed = similarities(knn, 3)[0]
    assert own[5] > mixed[5] > 0  # 5 is blue as nothing else is, and has no neighbours: its share of doubt is nothing
    torch.testing.assert_close(mixed[5] / own[5], torch.tensor(1 / 3) * torch.tensor(1.0), rtol=0.9, atol=0.0)
