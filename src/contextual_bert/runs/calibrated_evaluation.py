"""Calibrated answers of a finished run, measured on the rows that an evaluator holds. docs/decisions/064."""

import numpy as np
import torch
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import LabelPredictions, Scores, SetPredictions
from contextual_bert.evaluation.answer_calibration import AnswerCalibration
from contextual_bert.evaluation.calibrated_answers import CalibratedAnswers, measure_calibration
from contextual_bert.evaluation.intervals import cluster_codes
from contextual_bert.inference.encode import set_index
from contextual_bert.inference.scoring import RowReader, read_rows
from contextual_bert.inference.whole_rows import ChoiceRows, TemperedRows
from contextual_bert.places import PathPlace
from contextual_bert.runs.evaluator import Evaluator, Progress
from contextual_bert.runs.reporting import segments_of


def answers_with(
    data: Evaluator, scored: Scores, calibration: AnswerCalibration, *, progress: Progress | None = None
) -> CalibratedAnswers:
    """Return the numbers of calibrated answers on what an evaluator holds.

    Args:
        data: the rows and the model.
        scored: its scores.
        calibration: what is applied.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: a run without choices between labels or items.
    """
    dataset, targets = data.dataset, choices_of(data, scored)
    num_sequences, index = len(dataset), set_index(dataset, scored.example_id)
    labels = segments_of(dataset, data.ready.processor, np.arange(num_sequences))
    own = calibration.temperatures_of(labels, num_sequences)
    temperatures = np.stack([own, np.full(num_sequences, calibration.temperature)], axis=1)
    floors = np.stack([each.of(labels, num_sequences) for each in calibration.floors], axis=1)
    reader = TemperedRows(targets, data.num_choices, torch.from_numpy(temperatures), torch.from_numpy(floors))
    return measure_calibration(
        calibration,
        scored,
        read_choices(data, reader, scored, progress=progress),
        labels=segments_of(dataset, data.ready.processor, index),
        clusters=clusters_of(data, scored),
        num_choices=data.num_choices,
        settings=data.settings,
        provenance=data.provenance(),
    )


def choices_of(data: Evaluator, scored: Scores) -> ChoiceRows:
    """Return the rows of which all choices can be read.

    Raises:
        ConfigurationError: the run gives tags, several labels, numbers, answers or words, which are no such choice.
    """
    rows = data.ready.choice_rows(data.model, data.dataset)
    is_choice = scored.predictions is None or isinstance(scored.predictions, LabelPredictions | SetPredictions)
    if rows is None or not is_choice:
        raise ConfigurationError(
            f"learned {data.recipe.task.kind}, and this is for runs that choose one label of a text, or items of sets",
            fix="Name such a run. Tags of one text, several labels and tokens are no rows that can be exchanged.",
            place=PathPlace(data.directory),
        )
    return rows


def read_choices(
    data: Evaluator, reader: RowReader, scored: Scores, *, progress: Progress | None
) -> NDArray[np.float64]:
    """Return what is read from all choices of each scored row, (rows, n)."""
    return read_rows(data.model, reader, scored, batch_size=data.batch_size, dtype=data.dtype, progress=progress)


def clusters_of(data: Evaluator, scored: Scores) -> NDArray[np.int64]:
    """Return the number of the customer of each scored row, or of its set or text."""
    customers = data.customers(scored)
    return cluster_codes(customers if customers is not None else scored.example_id)


class Steps:
    """The progress of several passes as one."""

    def __init__(self, progress: Progress | None, *, num_passes: int) -> None:
        self.progress, self.num_passes, self.number = progress, num_passes, -1

    def next(self) -> Progress | None:
        """Return the progress of the next pass."""
        self.number += 1
        number, progress = self.number, self.progress
        if progress is None:
            return None
        return lambda done, total: progress(number * total + done, self.num_passes * total)
