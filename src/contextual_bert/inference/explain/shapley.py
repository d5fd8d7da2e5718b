"""Shapley values: what each player of a game contributes, where the worth of every coalition can be asked for.

Exact by all coalitions, or sampled by permutations in antithetic pairs. It knows no model, no field and no item: only a
function from coalitions to numbers. Paper: not there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, ContextualBertError, NonFiniteError

Worth = Callable[[NDArray[np.bool_]], NDArray[np.float64]]
MAX_EXACT_PLAYERS = 20  # a million coalitions
MAX_EXACT_FIELDS = 12  # as many are asked of a model, which takes longer than a sum


@dataclass(frozen=True, eq=False)
class ShapleyValues:
    """Shapley value of each player, with standard errors.

    Args:
        values: (players,); they sum to ``whole - empty``.
        standard_errors: (players,) of the values by the sampling; 0 where all coalitions were asked for.
        empty: the worth of no player.
        whole: the worth of all players.
        num_coalitions: how many different coalitions were asked for.
        is_exact: whether these were all.
    """

    values: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    empty: float
    whole: float
    num_coalitions: int
    is_exact: bool

    def __post_init__(self) -> None:
        scale = max(1.0, abs(self.empty), abs(self.whole), float(np.abs(self.values).sum()))
        if not abs(self.values.sum() - (self.whole - self.empty)) <= 1e-9 * scale:
            raise NonFiniteError(
                f"The contributions sum to {self.values.sum()}, not to {self.whole} - {self.empty}: they "
                "explain nothing",
                fix="Report it, with the model and the question.",
            )


def shapley_values(
    worth: Worth, num_players: int, *, max_exact: int = 12, num_pairs: int = 64, seed: int = 0
) -> ShapleyValues:
    """The Shapley value of each player.

    Formula: phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! (v(S + i) - v(S)), the mean over all orders in
    which the n players may come of what i adds when it comes. Sampled: the mean over some orders and their reverses.

    Args:
        worth: v: (coalitions, players) of bool -> (coalitions,).
        num_players: n.
        max_exact: up to so many players all 2^n coalitions are asked for, in one call.
        num_pairs: beyond, the number of orders that are drawn; each is taken backwards, too, which cancels whatever
            only pairs of players do to each other.
        seed: of the orders.

    Raises:
        ConfigurationError: limits that cannot work.
        NonFiniteError: a worth that is not finite.

    Reference: Shapley (1953), "A value for n-person games"; Mitchell et al. (2022), "Sampling Permutations for Shapley
    Value Estimation", for the pairs.

    Example:
        >>> pairs_of_gloves = lambda present: np.minimum(present[:, 0], present[:, 1:].sum(axis=1)).astype(float)
        >>> shapley_values(pairs_of_gloves, 3).values.round(3).tolist()  # one has a left glove, two a right one
        [0.667, 0.167, 0.167]
    """
    if not 0 <= max_exact <= MAX_EXACT_PLAYERS:
        raise ConfigurationError(
            "is not allowed",
            setting="max_exact",
            value=max_exact,
            fix=f"Give a number up to {MAX_EXACT_PLAYERS}; beyond, sample.",
        )
    if num_players <= max_exact:
        return _exact(lambda coalitions: _finite(worth(coalitions)), num_players)
    if num_pairs < 2:
        raise ConfigurationError(
            "is not allowed", setting="num_pairs", value=num_pairs, fix="Give 2 or more, or there is no standard error."
        )
    return _sampled(lambda coalitions: _finite(worth(coalitions)), num_players, num_pairs=num_pairs, seed=seed)


def _finite(worths: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.isfinite(worths).all():
        raise ContextualBertError(
            f"The worth of a coalition is {worths[~np.isfinite(worths)][0]}, no finite number",
            fix="Look for weights of the model that are none.",
        )
    return worths


def _exact(worth: Worth, num_players: int) -> ShapleyValues:
    coalitions = np.arange(1 << num_players)  # bit i: player i is there
    present = (coalitions[:, None] >> np.arange(num_players) & 1).astype(bool)
    worths, sizes = worth(present), present.sum(axis=1)
    values = np.zeros(num_players)
    for player in range(num_players):
        without = coalitions[~present[:, player]]
        weights = 1 / (num_players * np.array([comb(num_players - 1, size) for size in sizes[without].tolist()]))
        values[player] = weights @ (worths[without | 1 << player] - worths[without])
    return ShapleyValues(
        values, np.zeros(num_players), float(worths[0]), float(worths[-1]), len(coalitions), is_exact=True
    )


def _sampled(worth: Worth, num_players: int, *, num_pairs: int, seed: int) -> ShapleyValues:
    generator = np.random.default_rng(seed)
    forward = generator.permuted(np.tile(np.arange(num_players), (num_pairs, 1)), axis=1)
    orders = np.stack([forward, forward[:, ::-1]])  # (directions, pairs, players): who comes first, second, ...
    places = orders.argsort(axis=-1)
    # (directions, pairs, players + 1, players): who is there after nobody, one, ..., all have come.
    present = places[:, :, None, :] < np.arange(num_players + 1)[:, None]
    coalitions, inverse = np.unique(present.reshape(-1, num_players), axis=0, return_inverse=True)
    found = worth(coalitions)
    worths = found[inverse.reshape(present.shape[:-1])]
    added = np.take_along_axis(np.diff(worths, axis=-1), places, axis=-1)  # in the order of the players
    pairs = added.mean(axis=0)
    return ShapleyValues(
        pairs.mean(axis=0),
        pairs.std(axis=0, ddof=1) / np.sqrt(num_pairs),
        float(found[0]),  # sorted: nobody comes first, all come last
        float(found[-1]),
        len(coalitions),
        is_exact=False,
    )
