"""Calibrate a finished run: temperatures and prediction sets from its validation part, measured on its test part.

Nothing is trained. Paper: not there; docs/decisions/064.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from contextual_bert.atomic_files import replacing_file
from contextual_bert.data import Split
from contextual_bert.evaluation.answer_calibration import (
    CALIBRATION_FILE,
    DEFAULT_COVERAGES,
    MIN_ROWS,
    TEMPERATURES,
    AnswerCalibration,
    CalibrationRows,
    check_coverages,
    fit_calibration,
)
from contextual_bert.evaluation.calibrated_answers import CalibratedAnswers
from contextual_bert.frames import Frame
from contextual_bert.inference.encode import set_index
from contextual_bert.inference.whole_rows import TemperedRows
from contextual_bert.manifest import weights_digest
from contextual_bert.runs.calibrated_evaluation import Steps, answers_with, choices_of, clusters_of, read_choices
from contextual_bert.runs.evaluation import load_evaluation
from contextual_bert.runs.evaluator import Progress
from contextual_bert.runs.reporting import segments_of
from contextual_bert.runs.run_directory import FinishedRun, finished_run

CHOSEN_ON, MEASURED_ON = "validation", "test"


@dataclass(frozen=True, eq=False)
class RunCalibration:
    """What a run was calibrated with, and what that gives.

    Args:
        calibration: as it stands beside the run.
        answers: the numbers on the test part; None where there is no such part.
        path: of the file.
        lines: what was read, for people.
    """

    calibration: AnswerCalibration
    answers: CalibratedAnswers | None
    path: Path
    lines: tuple[str, ...]


def calibrate_run(
    directory: Path | FinishedRun,
    *,
    field: str | None = None,
    coverages: Sequence[float] = DEFAULT_COVERAGES,
    min_rows: int = MIN_ROWS,
    overrides: Mapping[str, Any] | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> RunCalibration:
    """Choose temperatures and floors on the validation part of a run, keep them beside it, measure them on its test
    part.

    Args:
        directory: the run directory; or what ``finished_run`` gave for it.
        field: of the context, whose values get temperatures of their own where they have enough rows; None: none.
        coverages: how often prediction sets are to hold the true choice, 0 to 1.
        min_rows: fewest rows of a value with a temperature or a floor of its own.
        overrides, source, batch_size: what is read and how, as for ``load_evaluation``.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: a run without choices between labels or items; a coverage that is no share; an unknown
            field; nothing was held out.
        RunDirectoryError: the directory is incomplete, from another version, or without weights.
        DataError, SchemaError, UnknownNameError: the table does not fit the run; too few rows for a coverage.
    """
    check_coverages(coverages)
    run = finished_run(directory)
    how: dict[str, Any] = {"overrides": overrides, "source": source, "batch_size": batch_size}
    chosen = load_evaluation(run, part=CHOSEN_ON, **how)
    split = Split.load((overrides or {}).get("split") or run.directory / "split.json")
    has_test = len(split.rows(MEASURED_ON)) > 0
    steps = Steps(progress, num_passes=4 if has_test else 2)
    scored = chosen.score(chosen.dataset, progress=steps.next())
    targets = choices_of(chosen, scored)
    num_sequences, index = len(chosen.dataset), set_index(chosen.dataset, scored.example_id)
    grid = torch.from_numpy(TEMPERATURES).expand(num_sequences, -1)
    reader = TemperedRows(targets, chosen.num_choices, grid, torch.empty(num_sequences, 0))
    sums = read_choices(chosen, reader, scored, progress=steps.next())
    rows = CalibrationRows(
        scored.log_probability,
        scored.num_better == 0,
        sums,
        segments_of(chosen.dataset, chosen.ready.processor, index),
        clusters_of(chosen, scored),
    )
    calibration = fit_calibration(
        rows,
        part=CHOSEN_ON,
        weights=weights_digest(run.directory),
        field=field,
        coverages=coverages,
        min_rows=min_rows,
        min_clusters=chosen.settings.min_cell_clusters,
    )
    answers, lines = None, chosen.lines(num_unknown=scored.num_unknown_targets)
    if has_test:
        asked = load_evaluation(run, part=MEASURED_ON, **how)
        found = asked.score(asked.dataset, progress=steps.next())
        answers = answers_with(asked, found, calibration, progress=steps.next())
        lines = asked.lines(num_unknown=found.num_unknown_targets)
    path = run.directory / CALIBRATION_FILE
    with replacing_file(path) as partial:
        partial.write_text(calibration.to_json(), encoding="utf-8")
    return RunCalibration(calibration, answers, path, lines)
