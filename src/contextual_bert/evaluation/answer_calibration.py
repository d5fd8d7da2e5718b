"""Temperatures and prediction sets of a run: chosen on one part, applied to answers.

A temperature divides the log-probabilities of a run, so that they are as sure as they are right. A prediction set holds
the best choice and each choice that is at least as probable as a floor; the floor is chosen so that the sets of a part
hold the true choice as often as asked. Each value of a field that has enough rows shifts the floor, so that its own
sets do, too. No model is known here. Paper: not there; docs/decisions/064.

References: Guo et al. 2017, section 4.2, for temperatures; Sadinle, Lei and Wasserman 2019 for sets by a floor, the
smallest on average; Vovk, Gammerman and Shafer 2005 for the rank of the floor; Jung et al. 2023 for groups that
overlap.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError
from contextual_bert.evaluation.segments import rows_by_value
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.places import PathPlace

CALIBRATION_FILE = "calibration.json"
# From a quarter to four, each 6% above the one before: the best is missed by at most 3%.
TEMPERATURES = 2.0 ** (np.arange(-24, 25) / 12)
MIN_ROWS = 200  # of a value with a temperature or shift of its own: at 90% its coverage is then known to 2.1 points
DEFAULT_COVERAGES = (0.8, 0.9)
_SETTLED = 1e-4  # nats
_ROUNDING = 1e-4  # nats: what a row of training and its like of a query may differ by, on either side of a floor
_MOST_SWEEPS = 200
Labels = Mapping[str, Sequence[Any] | NDArray[Any]]


@dataclass(frozen=True)
class CoverageFloor:
    """The log-probability from which on a choice is in the prediction set.

    Args:
        coverage: how often the sets are to hold the true choice, 0 to 1.
        floor: in nats, at most 0.
        shifts: field -> value -> what is added to the floor, in nats.
    """

    coverage: float
    floor: float
    shifts: dict[str, dict[str, float]]

    def of(self, labels: Labels, num_rows: int) -> NDArray[np.float64]:
        """Return the floor of each row, (rows,), at most 0; ``labels``: field -> value, or values, of each row."""
        floors = np.full(num_rows, self.floor)
        for field, shifts in self.shifts.items():
            if field in labels:
                for value, rows in rows_by_value(labels[field]):
                    floors[rows] += shifts.get(value, 0.0)
        return np.minimum(floors, 0.0)


@dataclass(frozen=True)
class AnswerCalibration(JsonText):
    """Temperatures and floors of a run's answers, as ``calibration.json`` keeps them beside it.

    Formula: Pr_t(choice) = Pr(choice)^(1 / t) / sum over choices of the same; set = {best} and all with
        log Pr_t >= floor.

    Args:
        part: that they were chosen on.
        num_rows, num_clusters: of it.
        min_rows: fewest rows of a value that has a temperature or a shift of its own.
        weights: SHA-256 of the run's weights; empty where no manifest says it.
        temperature: for all rows.
        field: of the context, whose values have temperatures of their own; None: none.
        temperatures: value of that field -> temperature.
        floors: one for each coverage, the lowest first.

    Relation to its siblings: ``fit_calibration`` makes it; ``CalibratedAnswers`` reports on it.

    Example:
        >>> floors = (CoverageFloor(0.8, -1.0, {"age": {"old": 0.25}}),)
        >>> found = AnswerCalibration("validation", 900, 90, 500, "", 2.0, None, {}, floors)
        >>> found.floor(0.8).of({"age": ["old", "young"]}, 2).tolist(), found.temperatures_of({}, 2).tolist()
        ([-0.75, -1.0], [2.0, 2.0])
    """

    part: str
    num_rows: int
    num_clusters: int
    min_rows: int
    weights: str
    temperature: float
    field: str | None
    temperatures: dict[str, float]
    floors: tuple[CoverageFloor, ...]

    @property
    def coverages(self) -> tuple[float, ...]:
        """The coverages that there are floors for."""
        return tuple(each.coverage for each in self.floors)

    def floor(self, coverage: float) -> CoverageFloor:
        """Return the floor of one coverage.

        Raises:
            ConfigurationError: none was chosen for it.
        """
        for each in self.floors:
            if math.isclose(each.coverage, coverage, abs_tol=1e-9):
                return each
        raise ConfigurationError(
            f"is none of those that the run was calibrated for: {', '.join(f'{each:g}' for each in self.coverages)}",
            setting="coverage",
            value=coverage,
            fix="Ask for one of them, or calibrate the run for this one.",
        )

    def temperatures_of(self, labels: Labels, num_rows: int) -> NDArray[np.float64]:
        """Return the temperature of each row, (rows,); a row with several values has that of all rows."""
        found = np.full(num_rows, self.temperature)
        if self.field is not None and self.field in labels:
            num_values = np.zeros(num_rows, dtype=np.int64)
            for value, rows in rows_by_value(labels[self.field]):
                found[rows], num_values[rows] = self.temperatures.get(value, self.temperature), num_values[rows] + 1
            found[num_values > 1] = self.temperature
        return found

    def shares(self, shares: NDArray[np.floating[Any]], labels: Labels) -> NDArray[np.float64]:
        """Return the tempered probabilities of each row, (rows, choices)."""
        with np.errstate(divide="ignore"):  # of what cannot be chosen
            logs = np.log(shares.astype(np.float64)) / self.temperatures_of(labels, len(shares))[:, None]
        raised = np.exp(logs - logs.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    def is_in_set(self, shares: NDArray[np.float64], labels: Labels, *, coverage: float) -> NDArray[np.bool_]:
        """Return which choices are in the prediction set of each row, (rows, choices).

        Args:
            shares: tempered probabilities.
            labels: field -> value, or values, of each row.
            coverage: one of ``coverages``.
        """
        floors = np.exp(self.floor(coverage).of(labels, len(shares)))
        return shares >= np.minimum(floors, shares.max(axis=1))[:, None]

    @classmethod
    def from_run(cls, directory: Path, *, weights: str) -> "AnswerCalibration | None":
        """Return what stands beside a run; None where it was not calibrated.

        Args:
            directory: of the run.
            weights: SHA-256 of its weights.

        Raises:
            RunDirectoryError: a damaged file, or that of other weights.
        """
        path = directory / CALIBRATION_FILE
        if not path.is_file():
            return None
        try:
            found = cls.from_json(path.read_text(encoding="utf-8"))
        except (DataError, UnicodeDecodeError) as error:
            raise RunDirectoryError("is damaged", fix="Calibrate the run again.", place=PathPlace(path)) from error
        if found.weights != weights:
            raise RunDirectoryError("is of other weights", fix="Calibrate the run again.", place=PathPlace(path))
        return found


class CalibrationRows(NamedTuple):
    """What temperatures and floors are chosen from.

    Shapes: log_probability, is_best, clusters (rows,); sums (rows, temperatures).

    Args:
        log_probability: of the true choice, in nats.
        is_best: whether no choice is more probable.
        sums: log of the sum over choices of exp(log Pr / t), of each of ``TEMPERATURES``.
        labels: field -> value, or values, of each row.
        clusters: number of each row's customer.
    """

    log_probability: NDArray[np.float64]
    is_best: NDArray[np.bool_]
    sums: NDArray[np.float64]
    labels: Labels
    clusters: NDArray[np.int64]


def check_coverages(coverages: Sequence[float]) -> None:
    """Raise ConfigurationError unless each lies between 0 and 1, and none is named twice."""
    for each in coverages:
        if not 0 < each < 1:
            raise ConfigurationError(
                "is no share between 0 and 1", setting="coverage", value=each, fix="Give one such as 0.9."
            )
    if not coverages or len({*coverages}) < len(coverages):
        raise ConfigurationError(
            "names none, or one twice", setting="coverage", value=[*coverages], fix="Name each coverage once."
        )


def fit_calibration(
    rows: CalibrationRows,
    *,
    part: str,
    weights: str = "",
    field: str | None = None,
    coverages: Sequence[float] = DEFAULT_COVERAGES,
    min_rows: int = MIN_ROWS,
    min_clusters: int = 10,
) -> AnswerCalibration:
    """Choose the temperature with the lowest loss, and the floors that give the coverages asked for.

    The floor of all rows, then the shifts of each value in turn, are set to the rank that gives their rows the
    coverage, until none moves any more. Each step lowers the pinball loss, so that this ends.

    Args:
        rows: what they are chosen from.
        part: whose rows these are.
        weights: SHA-256 of the run's weights.
        field: whose values get temperatures of their own; None: none.
        coverages: how often the sets are to hold the true choice.
        min_rows, min_clusters: fewest rows and customers of a value with a temperature or shifts of its own.

    Raises:
        ConfigurationError: a coverage that is no share; a field that the rows have no values of.
        DataError: too few rows for a coverage.

    Example:
        >>> shares = np.linspace(0.01, 0.99, 99)
        >>> sums = np.zeros((99, len(TEMPERATURES)))
        >>> rows = CalibrationRows(np.log(shares), np.zeros(99, bool), sums, {}, np.arange(99))
        >>> found = fit_calibration(rows, part="validation", coverages=(0.9,))
        >>> round(float(np.exp(found.floors[0].floor * found.temperature)), 2)
        0.1
    """
    check_coverages(coverages)
    if field is not None and field not in rows.labels:
        raise ConfigurationError(
            "is no field of the context that the run reads and that is not sensitive",
            setting="by",
            value=field,
            allowed=", ".join(rows.labels),
            fix="Name one, or leave it out.",
        )
    num_rows = len(rows.log_probability)
    needed = max(math.ceil(each / (1 - each) - 1e-9) for each in coverages)
    if num_rows < needed:
        raise DataError(
            f"the {part} part has {num_rows:,} rows, and a coverage of {max(coverages):g} needs {needed:,}",
            fix="Ask for a lower coverage, or hold out more rows.",
        )

    def is_large(chosen: NDArray[np.int64]) -> bool:
        return len(chosen) >= max(min_rows, needed) and len(np.unique(rows.clusters[chosen])) >= min_clusters

    groups = {
        name: [(value, chosen) for value, chosen in rows_by_value(column) if is_large(chosen)]
        for name, column in rows.labels.items()
    }
    losses = rows.sums - rows.log_probability[:, None] / TEMPERATURES
    temperature = float(TEMPERATURES[losses.mean(axis=0).argmin()])
    own = {
        value: float(TEMPERATURES[losses[chosen].mean(axis=0).argmin()])
        for value, chosen in (groups[field] if field is not None else ())
    }
    chosen = AnswerCalibration(part, num_rows, 0, min_rows, weights, temperature, field, own, ())
    place = np.abs(TEMPERATURES - chosen.temperatures_of(rows.labels, num_rows)[:, None]).argmin(axis=1)
    tempered = np.where(rows.is_best, 0.0, -losses[np.arange(num_rows), place])
    return replace(
        chosen,
        num_clusters=len(np.unique(rows.clusters)),
        floors=tuple(_floor(tempered, groups, coverage) for coverage in sorted(coverages)),
    )


def _floor(
    values: NDArray[np.float64], groups: Mapping[str, Sequence[tuple[str, NDArray[np.int64]]]], coverage: float
) -> CoverageFloor:
    """Return the floor and shifts under which each group, and all rows, have the coverage."""
    everything = np.arange(len(values))
    shifts = {name: dict.fromkeys((value for value, _ in found), 0.0) for name, found in groups.items() if found}
    left, floor = values.copy(), 0.0
    steps = [("", "", everything), *((name, *each) for name in shifts for each in groups[name])]
    for _ in range(_MOST_SWEEPS):
        moved = 0.0
        for name, value, chosen in steps:
            step = _ranked(left[chosen], coverage)
            left[chosen] -= step
            moved = max(moved, abs(step))
            if name:
                shifts[name][value] += step
            else:
                floor += step
        if moved < _SETTLED:
            break
    return CoverageFloor(coverage, floor - _ROUNDING, shifts)


def _ranked(values: NDArray[np.float64], coverage: float) -> float:
    """Return the value that so large a share of them, and of one more, is not below."""
    place = len(values) - math.ceil((len(values) + 1) * coverage - 1e-9)
    return float(np.partition(values, place)[place])
