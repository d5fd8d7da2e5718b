"""Shapley values against their definition, and the properties that define them: efficiency, symmetry, dummy, sums."""

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, ContextualBertError
from contextual_bert.inference.explain.shapley import shapley_values

Game = Callable[[NDArray[np.bool_]], NDArray[np.float64]]


def random_game(num_players: int, *, seed: int) -> Game:
    """A number for every coalition, drawn at random."""
    worths = np.random.default_rng(seed).normal(size=1 << num_players)
    return lambda present: worths[present @ (1 << np.arange(num_players))]


def by_definition(game: Game, num_players: int) -> NDArray[np.float64]:
    """The mean over all orders of what each player adds when it comes."""
    values = np.zeros(num_players)
    orders = list(permutations(range(num_players)))
    for order in orders:
        present = np.zeros((1, num_players), dtype=bool)
        before = game(present)[0]
        for player in order:
            present[0, player] = True
            after = game(present)[0]
            values[player] += (after - before) / len(orders)
            before = after
    return values


@pytest.mark.parametrize("num_players", [0, 1, 2, 5, 6])
def test_all_coalitions_give_the_definition(num_players: int) -> None:
    game = random_game(num_players, seed=num_players)
    found = shapley_values(game, num_players)
    np.testing.assert_allclose(found.values, by_definition(game, num_players), atol=1e-12)
    assert found.is_exact and found.num_coalitions == 2**num_players
    assert not found.standard_errors.any()
    ends = game(np.array([[False] * num_players, [True] * num_players], dtype=bool))
    assert (found.empty, found.whole) == tuple(ends)


@pytest.mark.parametrize("max_exact", [7, 0])
def test_the_values_sum_to_what_all_players_gain(max_exact: int) -> None:
    found = shapley_values(random_game(7, seed=1), 7, max_exact=max_exact, num_pairs=5)
    assert found.is_exact is (max_exact == 7)
    assert found.values.sum() == pytest.approx(found.whole - found.empty, abs=1e-12)


@pytest.mark.parametrize("max_exact", [6, 0])
def test_players_that_are_alike_get_the_same_and_one_that_does_nothing_gets_nothing(max_exact: int) -> None:
    def game(present: NDArray[np.bool_]) -> NDArray[np.float64]:
        both, others = present[:, 1] & present[:, 4], present[:, [0, 2, 5]].sum(axis=1)
        return np.where(both, 3.0, 0.0) * (1 + others) + present[:, 1] + present[:, 4] - 2.0 * present[:, 0]

    found = shapley_values(game, 6, max_exact=max_exact, num_pairs=400)
    tolerance = 4 * float(found.standard_errors.max()) + 1e-12
    assert found.values[1] == pytest.approx(found.values[4], abs=tolerance)
    assert found.values[3] == pytest.approx(0, abs=1e-12)
    assert found.values[1] != pytest.approx(found.values[2], abs=0.1)


def test_the_value_of_a_sum_of_games_is_the_sum_of_the_values() -> None:
    first, second = random_game(5, seed=2), random_game(5, seed=3)
    both = shapley_values(lambda present: first(present) - 2 * second(present), 5).values
    np.testing.assert_allclose(both, shapley_values(first, 5).values - 2 * shapley_values(second, 5).values, atol=1e-12)


def test_sampling_is_right_within_its_standard_errors() -> None:
    game = random_game(6, seed=4)
    expected = by_definition(game, 6)
    errors: list[NDArray[np.float64]] = []
    for seed in range(60):
        found = shapley_values(game, 6, max_exact=0, num_pairs=30, seed=seed)
        assert found.num_coalitions <= 64
        errors.append((found.values - expected) / found.standard_errors)
    deviations = np.concatenate(errors)
    assert abs(deviations.mean()) < 0.25
    assert 0.8 < deviations.std() < 1.3


def test_pairs_cancel_what_only_two_players_do_to_each_other() -> None:
    generator = np.random.default_rng(5)
    alone, together = generator.normal(size=9), generator.normal(size=(9, 9))

    def game(present: NDArray[np.bool_]) -> NDArray[np.float64]:
        there = present.astype(float)
        return there @ alone + np.einsum("ri,ij,rj->r", there, np.triu(together, 1), there)

    found = shapley_values(game, 9, max_exact=8, num_pairs=2)
    whole = np.triu(together, 1)
    np.testing.assert_allclose(found.values, alone + (whole.sum(axis=0) + whole.sum(axis=1)) / 2, atol=1e-12)
    assert found.standard_errors.max() < 1e-12
    assert not found.is_exact


def test_the_seed_decides_and_every_coalition_is_asked_for_once() -> None:
    asked: list[NDArray[np.bool_]] = []
    game = random_game(14, seed=6)

    def recorded(present: NDArray[np.bool_]) -> NDArray[np.float64]:
        asked.append(present.copy())
        return game(present)

    first, again, other = (shapley_values(recorded, 14, num_pairs=4, seed=seed).values for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert len(asked) == 3
    assert len(np.unique(asked[0], axis=0)) == len(asked[0]) <= 2 * 4 * 13 + 2


@pytest.mark.parametrize("max_exact", [3, 0])
def test_a_worth_that_is_no_number_is_an_error(max_exact: int) -> None:
    with pytest.raises(ContextualBertError, match="no finite number"):
        shapley_values(lambda present: np.where(present.all(axis=1), np.nan, 1.0), 3, max_exact=max_exact)
    with pytest.raises(ContextualBertError, match="no finite number"):
        shapley_values(lambda present: np.where(present.all(axis=1), np.inf, 1.0), 3, max_exact=max_exact)


def test_limits_that_cannot_work() -> None:
    with pytest.raises(ConfigurationError, match=r"max_exact=30 is not allowed. Give a number up to 20"):
        shapley_values(random_game(2, seed=0), 2, max_exact=30)
    with pytest.raises(ConfigurationError, match=r"num_pairs=1 is not allowed. Give 2 or more"):
        shapley_values(random_game(2, seed=0), 2, max_exact=1, num_pairs=1)
