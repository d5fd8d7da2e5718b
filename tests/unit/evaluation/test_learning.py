"""Learning curves: slopes by hand, and what a table says of the end of training."""

import pytest

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import (
    Convergence,
    LearningCurve,
    LearningPoint,
    measure_convergence,
    slope_of_last_part,
)


def curve(
    losses: list[float], *, name: str = "none", seed: int = 0, first: float = 1.0, steps: int = 1000
) -> LearningCurve:
    points = [
        LearningPoint(first + index, round(steps * (first + index)), None, loss) for index, loss in enumerate(losses)
    ]
    return LearningCurve(name, seed, tuple(points))


def test_the_slope_of_three_points_by_hand():
    # Epochs 1, 2, 3 and losses 4, 1, 1: (-1 * (4 - 2) + 0 + 1 * (1 - 2)) / 2 = -1.5.
    assert slope_of_last_part(curve([4.0, 1.0, 1.0])) == pytest.approx(-1.5)


def test_epochs_may_be_uneven():
    points = [LearningPoint(epoch, 1, None, 5 - 0.3 * epoch) for epoch in (0.5, 1.7, 4.0, 4.1)]
    assert slope_of_last_part(LearningCurve("none", 0, tuple(points)), share=1) == pytest.approx(-0.3)


def test_only_the_last_part_counts():
    # 20 epochs: a fifth begins at epoch 16; what came before would be steep.
    losses = [100.0 - 5 * epoch for epoch in range(1, 16)] + [3.0, 2.9, 2.8, 2.7, 2.6]
    assert slope_of_last_part(curve(losses)) == pytest.approx(-0.1)
    assert slope_of_last_part(curve(losses), share=1) < -4


def test_at_least_three_points_however_small_the_share():
    losses = [9.0, 9.0, 3.0, 2.0, 1.0]
    assert slope_of_last_part(curve(losses)) == pytest.approx(-1.0)
    assert slope_of_last_part(curve([2.0, 1.0])) is None


def test_a_step_between_two_ways_of_training_is_no_slope():
    step = curve([4.0, 4.0, 4.0, 3.3, 3.3, 3.3])
    assert slope_of_last_part(step, share=1) == pytest.approx(-0.18)
    assert slope_of_last_part(step, share=1, since=3) == pytest.approx(0.0)
    assert slope_of_last_part(step, since=4) is None
    # A baseline that trained for fewer epochs has no such step.
    short = curve([4.0, 3.0, 2.0], name="bag")
    assert [each.slope_nats_per_epoch for each in measure_convergence([step, short], since=3)] == pytest.approx([0, -1])


def test_a_falling_line_is_falling_and_a_plateau_is_flat():
    falling = [curve([5 - 0.01 * epoch for epoch in range(10)], name="film", seed=seed) for seed in range(2)]
    steeper = curve([5 - 0.016 * epoch for epoch in range(10)], name="film", seed=2)
    plateau = curve([4 + 0.5**epoch for epoch in range(30)])
    film, none = measure_convergence([*falling, plateau, steeper])
    assert (film.name, film.num_seeds, film.is_still_falling) == ("film", 3, True)
    assert film.slope_nats_per_epoch == pytest.approx(-0.012)
    assert str(film) == "still falling (-0.0120 nats an epoch of 1,000 steps)"
    assert (none.is_still_falling, none.is_rising) == (False, False)
    assert str(none) == "flat (-0.0000 nats an epoch of 1,000 steps)"


def test_what_rose_in_the_last_step_is_not_still_falling():
    few = [curve([1.10, 1.01, 1.04], seed=0), curve([1.12, 1.00, 1.03], seed=1)]
    (found,) = measure_convergence(few)
    assert found.slope_nats_per_epoch == pytest.approx(-0.0375)
    assert not found.is_still_falling
    assert str(found) == "fallen, and risen in the last step (-0.0375 nats an epoch of 1,000 steps)"
    (falling,) = measure_convergence([curve([1.10, 1.05, 1.04])])
    assert falling.is_still_falling


@pytest.mark.parametrize(("steps", "verdict"), [(48, "still falling"), (1000, "flat")])
def test_a_small_slope_over_few_steps_is_still_falling(steps: int, verdict: str):
    losses = [7.5 - 0.0023 * epoch for epoch in range(10)]
    (found,) = measure_convergence([curve(losses, steps=steps)])
    assert str(found) == f"{verdict} (-0.0023 nats an epoch of {steps:,} steps)"


def test_overfitting_is_not_called_flat():
    assert str(Convergence("none", 0.02, 3)) == "rising (+0.0200 nats an epoch)"


def test_a_short_curve_says_nothing_and_spoils_no_mean():
    short, long = curve([3.0, 1.0]), curve([3.0, 3.0, 3.0], seed=1)
    assert measure_convergence([short, long]) == (Convergence("none", 0.0, 1, steps_per_epoch=1000),)
    (unknown,) = measure_convergence([short])
    assert unknown.slope_nats_per_epoch is None
    assert not unknown.is_still_falling
    assert str(unknown) == "unknown (fewer than 3 evaluations)"


def test_json_keeps_every_digit_and_the_unknown_loss():
    points = (LearningPoint(0.1, 7, None, 1 / 3), LearningPoint(0.2, 14, 2 / 3, 0.1))
    made = LearningCurve("global_state", 3, points)
    assert LearningCurve.from_json(made.to_json()) == made
    older = made.to_json().replace(',\n      "validation_metrics": {}', "")  # a file without further metrics
    assert LearningCurve.from_json(older).points[0].validation_metrics == {}
    with pytest.raises(DataError, match="not the JSON of a LearningCurve"):
        LearningCurve.from_json("{}")


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ((), "has no point"),
        ((LearningPoint(1.0, 1, None, float("nan")),), "Give finite numbers"),
        ((LearningPoint(2.0, 1, None, 1.0), LearningPoint(1.0, 2, None, 1.0)), "in the order of training"),
    ],
)
def test_a_curve_that_cannot_be_is_rejected(points, message):
    with pytest.raises(ConfigurationError, match=message):
        LearningCurve("none", 0, points)


@pytest.mark.parametrize("share", [0, -1, 1.1])
def test_a_share_is_a_share(share):
    with pytest.raises(ConfigurationError, match="share"):
        slope_of_last_part(curve([1.0, 1.0, 1.0]), share=share)
