"""Metrics of whole sets from ranks: counted by hand, and against every order of the tied items."""

import itertools
import math

import numpy as np
import pytest

from contextual_bert.errors import DataError
from contextual_bert.set_ranks import SetRanks


def ranks_of(logits: np.ndarray, true: list[list[int]]) -> SetRanks:
    """Rank the true items of each set among all items."""
    rows = [(number, logits[number], item) for number, items in enumerate(true) for item in items]
    return SetRanks.of(
        np.array([number for number, _, _ in rows]),
        np.array([(scores > scores[item]).sum() for _, scores, item in rows]),
        np.array([(scores == scores[item]).sum() for _, scores, item in rows]),
        np.array([len(items) for items in true]),
    )


def plain(ranking: tuple[int, ...], true: list[int], k: int) -> tuple[float, float, float, float]:
    """The four metrics of one ranking, as the literature writes them."""
    hits = [item in true for item in ranking[:k]]
    gain = sum(hit / math.log2(place + 2) for place, hit in enumerate(hits))
    ideal = sum(1 / math.log2(place + 2) for place in range(len(true)))
    precisions = [sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits) if hit]
    return sum(hits) / len(true), gain / ideal, float(any(hits)), sum(precisions) / min(k, len(true))


def measured(ranks: SetRanks, k: int) -> np.ndarray:
    return np.stack([each(k) for each in (ranks.recall, ranks.ndcg, ranks.hit_rate, ranks.average_precision)], axis=1)


def test_by_hand() -> None:
    # Seven items, the best first; the set holds the first, the fourth and the last of them.
    found = measured(ranks_of(-np.arange(7.0)[None], [[0, 3, 6]]), 5)
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    np.testing.assert_allclose(found, [[2 / 3, (1 + 1 / math.log2(5)) / ideal, 1.0, (1 + 2 / 4) / 3]])


def test_a_set_of_more_than_k_items_is_divided_by_all_of_them() -> None:
    found = measured(ranks_of(-np.arange(7.0)[None], [[0, 1, 2]]), 1)
    np.testing.assert_allclose(found, [[1 / 3, 1 / (1 + 1 / math.log2(3) + 1 / 2), 1.0, 1.0]])


def test_ties_get_the_mean_over_all_orders() -> None:
    generator = np.random.default_rng(0)
    logits = generator.integers(0, 3, size=(12, 6)).astype(float)
    true = [generator.choice(6, size=size, replace=False).tolist() for size in generator.integers(1, 5, size=12)]
    ranks = ranks_of(logits, true)
    for k in (1, 2, 3, 5):
        expected = []
        for scores, items in zip(logits, true, strict=True):
            orders = [
                order
                for order in itertools.permutations(range(6))
                if all(scores[first] >= scores[second] for first, second in itertools.pairwise(order))
            ]
            expected.append(np.mean([plain(order, items, k) for order in orders], axis=0))
        np.testing.assert_allclose(measured(ranks, k), expected, atol=1e-12)


def test_some_items_of_a_set_keep_their_ranks_among_all() -> None:
    ranks = ranks_of(-np.arange(7.0)[None], [[0, 3, 6]])
    own = ranks.among(np.array([False, True, True]), np.array([2]))
    ideal = 1 + 1 / math.log2(3)
    np.testing.assert_allclose(measured(own, 5), [[1 / 2, 1 / math.log2(5) / ideal, 1.0, 1 / 4 / 2]])


def test_items_without_a_rank_are_misses_and_an_empty_set_has_none() -> None:
    ranks = SetRanks.of(np.array([0]), np.array([0]), np.array([1]), np.array([4, 0]))
    np.testing.assert_allclose(ranks.recall(10), [0.25, 0.0])
    np.testing.assert_allclose(ranks.hit_rate(10), [1.0, 0.0])
    np.testing.assert_allclose(ranks.average_precision(10), [0.25, 0.0])
    assert ranks.ndcg(10)[1] == 0.0


def test_an_item_twice_in_a_set_is_refused() -> None:
    with pytest.raises(DataError, match="2 true items of one set share a rank that 1 items have"):
        SetRanks.of(np.array([0, 0]), np.array([3, 3]), np.array([1, 1]), np.array([2]))
