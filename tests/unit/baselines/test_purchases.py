"""Histories as sparse matrices, by hand."""

import numpy as np

from contextual_bert.baselines.purchases import Purchases, divided
from tests.unit.baselines.histories import encoded, observed

HISTORIES = [[[3, 4], [3], [3, 5]], None, [], [[2], [4]], [[4], [2]]]


def test_counts_and_baskets_by_hand() -> None:
    found = Purchases.of(encoded(HISTORIES), num_reserved=3)
    assert found.num_baskets.tolist() == [3, 0, 0, 2, 2]
    expected = [[3, 1, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert found.matrix(6).toarray()[:, 3:].tolist() == expected
    assert found.counts(6).tolist() == [0, 0, 0, 3, 3, 1]
    newest = found.matrix(6, lambda each: each.baskets_ago == 0).toarray()
    assert newest[:, 3:].tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_the_sets_are_the_newest_baskets() -> None:
    sets = observed(HISTORIES, [[4, 4, 2], [5], [], [3], []])
    found = Purchases.of(encoded(HISTORIES), num_reserved=3).with_sets(sets, num_reserved=3)
    assert found.num_baskets.tolist() == [4, 1, 0, 3, 2]
    newest = found.matrix(6, lambda each: each.baskets_ago == 0).toarray()[:, 3:]
    assert newest.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]]
    ago = found.matrix(6, lambda each: each.baskets_ago).toarray()
    assert ago[0, 3:].tolist() == [1 + 2 + 3, 3, 1]


def test_rows_are_numbered_anew() -> None:
    found = Purchases.of(encoded(HISTORIES), num_reserved=3).select(np.array([3, 0]))
    assert found.num_baskets.tolist() == [2, 3]
    assert found.matrix(6).toarray()[:, 3:].tolist() == [[0, 1, 0], [3, 1, 1]]


def test_rows_of_nothing_stay_when_divided() -> None:
    counts = Purchases.of(encoded(HISTORIES), num_reserved=3)
    assert divided(counts.matrix(6), counts.num_baskets).toarray()[:2, 3:].tolist() == [[1.0, 1 / 3, 1 / 3], [0, 0, 0]]
