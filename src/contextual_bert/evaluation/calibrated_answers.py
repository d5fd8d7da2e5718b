"""Report on the temperatures and prediction sets of a run: losses before and after, coverage and size by segment.

What is reported was chosen on another part. No model is known here. Paper: not there; docs/decisions/064.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.console import Group

from contextual_bert.evaluation.answer_calibration import AnswerCalibration, Labels
from contextual_bert.evaluation.calibration import calibrate
from contextual_bert.evaluation.intervals import ClusterBootstrap, Difference, Interval, bounded, cluster_intervals
from contextual_bert.evaluation.metrics import CALIBRATION_ERROR, CROSS_ENTROPY, exact_mean, metric_of
from contextual_bert.evaluation.report import EvaluationSettings, rows_in_words
from contextual_bert.evaluation.scores import Scores
from contextual_bert.evaluation.segments import group_by_value
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import (
    Provenance,
    Table,
    difference_cell,
    interval_cell,
    number_cell,
    render_markdown,
    render_rich,
)
from contextual_bert.nouns import plural

TOLERANCE = 0.01  # of a coverage, either way
AS_IT_IS, ONE_TEMPERATURE = "as the run says them", "one temperature"


@dataclass(frozen=True)
class TemperedLoss:
    """Loss and calibration error of probabilities under some temperatures.

    Args:
        name: what was done to the probabilities.
        cross_entropy: in nats.
        change_nats: of the cross-entropy by the temperatures, paired; of the run's own it is 0.
        error: expected calibration error, 0 to 1.
        chance_error: the error that perfectly calibrated probabilities would show by chance.
    """

    name: str
    cross_entropy: Interval
    change_nats: Difference
    error: Interval
    chance_error: float


@dataclass(frozen=True)
class SetCoverage:
    """How often prediction sets held the true choice, and how large they were.

    Args:
        coverage: that was asked for, 0 to 1.
        covered: share of rows whose set held the true choice, 0 to 1.
        size: mean number of choices in a set.
        share_of_one: share of rows whose set is one choice.
    """

    coverage: float
    covered: Interval
    size: float
    share_of_one: float

    @property
    def is_reached(self) -> bool:
        """Return True if the share lies within one point of what was asked for."""
        return abs(self.covered.value - self.coverage) <= TOLERANCE

    @property
    def is_missed(self) -> bool:
        """Return True if the whole interval lies more than one point off."""
        return self.covered.low > self.coverage + TOLERANCE or self.covered.high < self.coverage - TOLERANCE

    def cell(self) -> str:
        """Return the share and its interval in percent, marked where it is missed."""
        low, high = (number_cell(100 * each, ".1f") for each in (self.covered.low, self.covered.high))
        return f"{100 * self.covered.value:.1f} [{low}, {high}]{' !' if self.is_missed else ''}"


@dataclass(frozen=True)
class SegmentCoverage:
    """The prediction sets of one value of one field: one ``SetCoverage`` for each coverage."""

    feature: str
    value: str
    num_rows: int
    num_clusters: int
    sets: tuple[SetCoverage, ...]


@dataclass(frozen=True)
class CalibratedAnswers(JsonText):
    """The numbers of calibrated answers on one part.

    Args:
        calibration: what was applied.
        num_rows, num_sets, num_clusters, num_choices: what was evaluated.
        min_rows: fewest rows of a segment that is shown.
        settings: of the bootstrap, and what the rows are called.
        losses: of the probabilities as they are, and under temperatures.
        sets: of all rows.
        segments: in the order of the fields.
        provenance: data, commit, seeds, hardware, recipe.

    Relation to its siblings: ``measure_calibration`` makes it. ``Report.calibration`` is about the probabilities as
    they are.
    """

    calibration: AnswerCalibration
    num_rows: int
    num_sets: int
    num_clusters: int
    num_choices: int
    min_rows: int
    settings: EvaluationSettings
    losses: tuple[TemperedLoss, ...]
    sets: tuple[SetCoverage, ...]
    segments: tuple[SegmentCoverage, ...]
    provenance: Provenance

    def to_markdown(self) -> str:
        """Return tables and footer."""
        return render_markdown(self._heading(), self.tables(), self.notes())

    def to_rich(self) -> Group:
        """Return the same for a terminal."""
        return render_rich(self._heading(), self.tables(), self.notes())

    def tables(self) -> list[Table]:
        """Return the temperatures, the sets, and the sets of each segment."""
        loss, error = metric_of(CROSS_ENTROPY), metric_of(CALIBRATION_ERROR)
        tempered = [
            (
                each.name,
                interval_cell(each.cross_entropy, loss),
                difference_cell(each.change_nats, loss, num_resamples=self.settings.num_resamples) if number else "-",
                interval_cell(each.error, error),
                f"{each.chance_error:.4f}",
            )
            for number, each in enumerate(self.losses)
        ]
        headings = ("probabilities", loss.heading, f"change of {loss.gap_heading}", error.heading, "by chance")
        sets = [
            (f"{100 * each.coverage:g}", each.cell(), f"{each.size:.2f}", f"{100 * each.share_of_one:.1f}")
            for each in self.sets
        ]
        choice = self.settings.choice_name
        columns = ("asked (%)", "held the true one (%)", f"{choice}s a set", f"sets of one {choice} (%)")
        tables = [
            Table("Temperatures", headings, tuple(tempered)),
            Table(f"Prediction sets, of {self.num_choices:,} {choice}s", columns, tuple(sets)),
        ]
        if self.segments:
            tables.append(self._segment_table())
        return tables

    def notes(self) -> list[str]:
        """Return the footer: what was chosen where, what the intervals are, which segments miss their coverage."""
        made, settings, name = self.calibration, self.settings, plural(self.settings.cluster_name)
        row, choice = settings.row_name, settings.choice_name
        chosen = (
            f"Temperatures and floors were chosen on {made.num_rows:,} {row}s of {made.num_clusters:,} {name}, the "
            f"{made.part} part. A temperature above 1 makes probabilities less sure."
        )
        sets = (
            f"A prediction set is the best {choice} and each one that is at least as probable as a floor. Where the "
            f"best {choice} is right more often than asked, the sets hold the true one more often, too."
        )
        level = f"{100 * settings.level:g}%"
        brackets = (
            f"Brackets: {level} interval over {self.num_clusters:,} {name}, that of the sets in closed form. "
            f"Sets of {name} who are unlike those of the {made.part} part may miss their coverage."
        )
        return [chosen, sets, brackets, *self._segment_notes(), self.provenance.line()]

    def _segment_notes(self) -> list[str]:
        if not self.segments:
            return [f"No value of a field has {self.min_rows:,} {self.settings.row_name}s: there is no segment."]
        cells = [each for segment in self.segments for each in segment.sets]
        num_reached, num_missed = sum(each.is_reached for each in cells), sum(each.is_missed for each in cells)
        text = (
            f"Segments of at least {self.min_rows:,} {self.settings.row_name}s: {num_reached} of {len(cells)} shares "
            f"lie within one point of what was asked; of {num_missed}, marked !, the whole interval lies further off."
        )
        asked = self.sets[-1].coverage
        chance = 100 * math.sqrt(asked * (1 - asked) / self.min_rows)
        return [
            f"{text} By chance alone a share of {self.min_rows:,} independent rows moves by {chance:.1f} points where "
            f"{100 * asked:g}% is asked, and by more where rows of one {self.settings.cluster_name} are alike."
        ]

    def _segment_table(self) -> Table:
        columns = [
            cell for each in self.sets for cell in (f"{100 * each.coverage:g}% asked", f"{self.settings.choice_name}s")
        ]
        rows = [
            (
                segment.feature,
                segment.value,
                f"{segment.num_rows:,}",
                f"{segment.num_clusters:,}",
                *(cell for each in segment.sets for cell in (each.cell(), f"{each.size:.2f}")),
            )
            for segment in self.segments
        ]
        least = f"{self.min_rows:,} {self.settings.row_name}s"
        title = f"Segments of at least {least}: sets that held the true one (%), and their mean size"
        first = ("feature", "value", "n", plural(self.settings.cluster_name))
        return Table(title, (*first, *columns), tuple(rows), num_label_columns=2)

    def _heading(self) -> str:
        rows = rows_in_words(self.settings, self.num_rows, self.num_sets, self.num_clusters)
        return f"Calibrated answers: {rows}"


def measure_calibration(
    calibration: AnswerCalibration,
    scores: Scores,
    columns: NDArray[np.float64],
    *,
    labels: Labels,
    clusters: NDArray[np.int64],
    num_choices: int,
    settings: EvaluationSettings,
    provenance: Provenance | None = None,
) -> CalibratedAnswers:
    """Measure temperatures and prediction sets on scored rows that they were not chosen on.

    Shapes: columns (rows, 2 + coverages); clusters (rows,).

    Args:
        calibration: what is applied.
        scores: of the run, without temperatures.
        columns: of each row the sum (see ``CalibrationRows``) under its own temperature, that under the one of all
            rows, and the size of its set of each coverage.
        labels: field -> value, or values, of each row.
        clusters: number of each row's customer.
        num_choices: how many choices there are.
        settings: of the bootstrap, and what the rows are called.
        provenance: for the footer.

    Example:
        >>> from contextual_bert.evaluation.answer_calibration import CoverageFloor
        >>> scores = Scores([0, 1], [0, 0], np.log([0.6, 0.3]), [0, 1], [1, 1], [0.6, 0.7])
        >>> made = AnswerCalibration("validation", 9, 9, 500, "", 1.0, None, {}, (CoverageFloor(0.5, -1.0, {}),))
        >>> how = {"labels": {}, "clusters": np.arange(2), "num_choices": 2, "settings": EvaluationSettings(ks=(1,))}
        >>> found = measure_calibration(made, scores, np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), **how)
        >>> found.sets[0].covered.value, found.sets[0].size
        (0.5, 1.0)
    """
    num_rows, draws = len(scores), ClusterBootstrap(clusters, num_resamples=settings.num_resamples, seed=settings.seed)
    temperatures = {AS_IT_IS: (np.ones(num_rows), np.zeros(num_rows))}
    temperatures[f"{ONE_TEMPERATURE}, {calibration.temperature:.2f}"] = (
        np.full(num_rows, calibration.temperature),
        columns[:, 1],
    )
    own = calibration.temperatures_of(labels, num_rows)
    if calibration.field is not None:
        temperatures[f"one for each {calibration.field}"] = (own, columns[:, 0])
    losses: list[TemperedLoss] = []
    base = -scores.log_probability
    for name, (divisor, sums) in temperatures.items():
        tempered = _tempered(scores, divisor, sums)
        loss = -tempered.log_probability
        replicates = draws.resampled_means(np.stack([loss, loss - base], axis=1)).T
        calibrated = calibrate(
            tempered, clusters=clusters, draws=draws, num_bins=settings.num_bins, level=settings.level
        )
        losses.append(
            TemperedLoss(
                name,
                draws.interval(exact_mean(loss), replicates[0], level=settings.level),
                draws.difference(exact_mean(loss - base), replicates[1], level=settings.level),
                calibrated.error,
                calibrated.chance_error,
            )
        )
    tempered = _tempered(scores, own, columns[:, 0])
    covered = np.stack(
        [
            (scores.num_better == 0) | (tempered.log_probability >= each.of(labels, num_rows))
            for each in calibration.floors
        ],
        axis=1,
    ).astype(np.float64)
    groups, _ = group_by_value(scores, labels, clusters=clusters, cells=settings.cells)
    large = [group for group in groups if len(group.rows) >= calibration.min_rows]
    rows = [np.arange(num_rows), *(group.rows for group in large)]
    found = _coverages(calibration, covered, columns[:, 2:], rows, clusters=clusters, level=settings.level)
    return CalibratedAnswers(
        calibration=calibration,
        num_rows=num_rows,
        num_sets=len(np.unique(scores.example_id)),
        num_clusters=draws.num_clusters,
        num_choices=num_choices,
        min_rows=calibration.min_rows,
        settings=settings,
        losses=tuple(losses),
        sets=found[0],
        segments=tuple(
            SegmentCoverage(group.feature, group.value, len(group.rows), len(np.unique(clusters[group.rows])), sets)
            for group, sets in zip(large, found[1:], strict=True)
        ),
        provenance=provenance or Provenance(),
    )


def _tempered(scores: Scores, temperatures: NDArray[np.float64], sums: NDArray[np.float64]) -> Scores:
    """Return scores under temperatures, which change no rank."""
    with np.errstate(divide="ignore"):
        confidence = np.exp(np.log(scores.confidence) / temperatures - sums)
    logs = np.minimum(scores.log_probability / temperatures - sums, 0.0)  # a hair above is rounding
    return replace(scores, log_probability=logs, confidence=np.minimum(confidence, 1.0))


def _coverages(
    calibration: AnswerCalibration,
    covered: NDArray[np.float64],
    sizes: NDArray[np.float64],
    rows: Sequence[NDArray[np.int64]],
    *,
    clusters: NDArray[np.int64],
    level: float,
) -> list[tuple[SetCoverage, ...]]:
    """Return the sets of each group of rows: one for each coverage."""
    found: list[list[SetCoverage]] = [[] for _ in rows]
    for number, floor in enumerate(calibration.floors):
        intervals = cluster_intervals(covered[:, number], clusters, rows, level=level)
        for place, (interval, own) in enumerate(zip(intervals, rows, strict=True)):
            inside = bounded(interval, within=(0.0, 1.0), level=level)
            size = sizes[own, number]
            found[place].append(SetCoverage(floor.coverage, inside, float(size.mean()), float((size == 1).mean())))
    return [tuple(each) for each in found]
