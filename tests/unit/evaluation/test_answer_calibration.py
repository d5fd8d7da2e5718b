"""Temperatures and floors: chosen where probabilities are known, they are found and give the coverage asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError
from contextual_bert.evaluation.answer_calibration import (
    CALIBRATION_FILE,
    TEMPERATURES,
    AnswerCalibration,
    CalibrationRows,
    CoverageFloor,
    fit_calibration,
)

NUM_CHOICES = 6
Labels = dict[str, NDArray[np.str_]]


def drawn(
    num_rows: int, *, seed: int, too_sure: dict[str, float] | float = 1.0
) -> tuple[CalibrationRows, NDArray[np.float64], NDArray[np.int64], Labels]:
    """Return rows whose true choices are drawn from probabilities, which are then said to be surer than they are."""
    generator = np.random.default_rng(seed)
    labels = {"group": generator.choice(["a", "b"], num_rows), "side": generator.choice(["left", "right"], num_rows)}
    logits = generator.normal(size=(num_rows, NUM_CHOICES)) * np.where(labels["side"] == "left", 0.6, 1.5)[:, None]
    true_shares = softmax(logits)
    true = (true_shares.cumsum(axis=1) > generator.random((num_rows, 1))).argmax(axis=1)
    factors = np.array([too_sure[each] if isinstance(too_sure, dict) else too_sure for each in labels["group"]])
    shares = softmax(logits * factors[:, None])
    logs = np.log(shares)
    sums = np.stack([np.log(np.exp(logs / each).sum(axis=1)) for each in TEMPERATURES], axis=1)
    own = logs[np.arange(num_rows), true]
    rows = CalibrationRows(own, own >= logs.max(axis=1), sums, labels, np.arange(num_rows) // 5)
    return rows, shares, true, labels


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def covered(found: AnswerCalibration, coverage: float, *, seed: int, **how: Any) -> tuple[NDArray[np.bool_], Labels]:
    _, shares, true, labels = drawn(40_000, seed=seed, **how)
    inside = found.is_in_set(found.shares(shares, labels), labels, coverage=coverage)
    return inside[np.arange(len(true)), true], labels


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_temperature_that_was_put_on_is_found(factor: float) -> None:
    rows, shares, _, labels = drawn(20_000, seed=0, too_sure=factor)
    found = fit_calibration(rows, part="validation")
    assert found.temperature == pytest.approx(factor, rel=0.06)
    _, undone, _, _ = drawn(20_000, seed=0)
    assert np.abs(found.shares(shares, labels) - undone).max() < 0.05


def test_each_value_of_a_field_has_its_own_temperature() -> None:
    rows, _, _, _ = drawn(20_000, seed=0, too_sure={"a": 0.5, "b": 2.0})
    found = fit_calibration(rows, part="validation", field="group")
    assert found.temperatures == {"a": pytest.approx(0.5, rel=0.06), "b": pytest.approx(2.0, rel=0.06)}
    several = {"group": [["a", "b"], ["a"], ["new"]]}
    both, one, new = found.temperatures_of(several, 3).tolist()
    assert (both, one, new) == (found.temperature, found.temperatures["a"], found.temperature)


@pytest.mark.parametrize("coverage", [0.6, 0.8, 0.9])
def test_sets_hold_the_true_choice_as_often_as_asked_in_each_segment(coverage: float) -> None:
    how: Any = {"too_sure": {"a": 0.5, "b": 2.0}}
    rows, _, _, _ = drawn(20_000, seed=0, **how)
    found = fit_calibration(rows, part="validation", coverages=(coverage,))
    inside, labels = covered(found, coverage, seed=1, **how)
    for column in labels.values():
        for value in np.unique(column):
            # On both sides a share of 10,000 rows moves by 0.4 points.
            assert inside[column == value].mean() == pytest.approx(coverage, abs=0.015)
    without = fit_calibration(rows, part="validation", coverages=(coverage,), min_rows=10**6)
    assert without.floors[0].shifts == {}
    inside, labels = covered(without, coverage, seed=1, **how)
    assert inside.mean() == pytest.approx(coverage, abs=0.01)
    assert abs(inside[labels["group"] == "a"].mean() - inside[labels["group"] == "b"].mean()) > 0.03


def test_where_the_best_is_right_more_often_than_asked_the_set_is_the_best_alone() -> None:
    rows, shares, _, labels = drawn(5_000, seed=0)
    certain = rows._replace(is_best=np.ones(5_000, np.bool_))
    found = fit_calibration(certain, part="validation", coverages=(0.8,))
    assert found.floors[0].floor == pytest.approx(0, abs=1e-3)
    assert found.is_in_set(found.shares(shares, labels), labels, coverage=0.8).sum(axis=1).tolist() == [1] * 5_000


def test_no_value_of_a_few_rows_or_customers_has_a_shift() -> None:
    rows, _, _, labels = drawn(2_000, seed=0)
    assert fit_calibration(rows, part="validation", min_rows=1_500).floors[0].shifts == {}
    of_few = rows._replace(clusters=np.where(labels["group"] == "a", 0, rows.clusters))
    found = fit_calibration(of_few, part="validation", min_rows=500)
    assert set(found.floors[0].shifts["group"]) == {"b"}


@pytest.mark.parametrize("coverages", [(), (1.0,), (0.0,), (0.9, 0.9)])
def test_a_coverage_that_is_no_share_is_refused(coverages: tuple[float, ...]) -> None:
    rows, _, _, _ = drawn(200, seed=0)
    with pytest.raises(ConfigurationError):
        fit_calibration(rows, part="validation", coverages=coverages)


def test_too_few_rows_and_unknown_fields_are_refused() -> None:
    rows, _, _, _ = drawn(20, seed=0)
    with pytest.raises(DataError, match=r"20 rows, and a coverage of 0\.99 needs 99"):
        fit_calibration(rows, part="validation", coverages=(0.99,))
    with pytest.raises(ConfigurationError, match="group, side"):
        fit_calibration(rows, part="validation", field="age")


def test_a_file_of_other_weights_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    assert AnswerCalibration.from_run(tmp_path, weights="x") is None
    floors = (CoverageFloor(0.9, -2.0, {"age": {"old": 0.5}}),)
    made = AnswerCalibration("validation", 900, 90, 500, "x", 1.5, None, {}, floors)
    (tmp_path / CALIBRATION_FILE).write_text(made.to_json())
    assert AnswerCalibration.from_run(tmp_path, weights="x") == made
    with pytest.raises(RunDirectoryError, match="other weights"):
        AnswerCalibration.from_run(tmp_path, weights="y")
    (tmp_path / CALIBRATION_FILE).write_text("{}")
    with pytest.raises(RunDirectoryError, match="damaged"):
        AnswerCalibration.from_run(tmp_path, weights="x")
    with pytest.raises(ConfigurationError, match=r"0\.9"):
        made.floor(0.8)
