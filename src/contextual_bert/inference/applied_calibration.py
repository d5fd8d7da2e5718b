"""The calibration of a run as its answers use it: tempered probabilities, and prediction sets with a coverage.

Arrays alone: it imports no torch and knows no query. Paper: not there; docs/decisions/064.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.evaluation.answer_calibration import AnswerCalibration
from contextual_bert.manifest import weights_digest
from contextual_bert.places import PathPlace

OF_ONE_BLANK = "The prediction sets hold the true item as often as asked where one item is missing; here several are."
OF_GUIDANCE = "The prediction sets were calibrated without guidance: how often they hold the true one is not known."


class SureAnswers(NamedTuple):
    """Tempered probabilities, and which choices are in the prediction sets: (rows, choices) each."""

    shares: NDArray[np.float64]
    is_in_set: NDArray[np.bool_]


class AppliedCalibration:
    """The calibration of a run, and the coverage that its answers are asked for.

    Args:
        calibration: of the run.
        coverage: how often prediction sets hold the true choice, 0 to 1; one of those that it has floors for.

    Raises:
        ConfigurationError: no floor was chosen for this coverage.
    """

    def __init__(self, calibration: AnswerCalibration, coverage: float) -> None:
        calibration.floor(coverage)
        self.calibration, self.coverage = calibration, coverage

    @classmethod
    def from_run(cls, directory: str | Path, coverage: float) -> "AppliedCalibration":
        """Return that of the file that ``calibrate`` wrote into a run.

        Raises:
            RunDirectoryError: there is none, or one that is damaged or of other weights.
            ConfigurationError: no floor was chosen for this coverage.
        """
        folder = Path(directory)
        found = AnswerCalibration.from_run(folder, weights=weights_digest(folder))
        if found is None:
            raise RunDirectoryError(
                "was not calibrated: it has no prediction sets",
                fix="Run contextual-bert calibrate with the folder of the run. Exports have none.",
                place=PathPlace(folder),
            )
        return cls(found, coverage)

    def digest(self) -> str:
        """Return a hash of what answers are calibrated by."""
        return hashlib.sha256(f"{self.coverage} {self.calibration.to_json()}".encode()).hexdigest()

    def read(self, shares: NDArray[Any], context: Mapping[str, NDArray[Any]] | None, schema: Any) -> SureAnswers:
        """Return the tempered probabilities and prediction sets of rows.

        Args:
            shares: probabilities, (rows, choices).
            context: encoded, a row each; None where none is read.
            schema: of the context.
        """
        labels = schema.names_of(context or {}) if schema is not None else {}
        tempered = self.calibration.shares(shares, labels)
        return SureAnswers(tempered, self.calibration.is_in_set(tempered, labels, coverage=self.coverage))


def calibrate_by_run(pipeline: Any, directory: str | Path, coverage: float) -> None:
    """Let a pipeline answer by the calibration of its run.

    Args:
        pipeline: of the run.
        directory: of the run.
        coverage: how often prediction sets hold the true choice, 0 to 1.

    Raises:
        RunDirectoryError: a run that was not calibrated, or an export.
        ConfigurationError: a coverage that it was not calibrated for; a model that gives no single label or item.
    """
    if not hasattr(pipeline, "calibrate_by"):
        raise ConfigurationError(
            "is for runs that give a label or an item", setting="coverage", value=coverage, fix="Leave it out."
        )
    pipeline.calibrate_by(AppliedCalibration.from_run(directory, coverage))
