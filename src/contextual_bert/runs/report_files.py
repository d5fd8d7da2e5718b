"""Reports and importances of features as files: Markdown, JSON and pictures, all of them or none."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import (
    FeatureImportances,
    plot_importance,
    plot_recall,
    plot_reliability,
    plot_segments,
)
from contextual_bert.evaluation.calibrated_answers import CalibratedAnswers
from contextual_bert.evaluation.field_flips import FieldFlips
from contextual_bert.evaluation.flip_plot import plot_flips
from contextual_bert.evaluation.set_coverage_plot import plot_set_coverage
from contextual_bert.runs.evaluator import Evaluation

_Found = TypeVar("_Found", CalibratedAnswers, FieldFlips, FeatureImportances)


def write_report(evaluation: Evaluation, directory: Path, *, num_segments: int | None = None) -> list[Path]:
    """report.md, report.json and reliability.png, recall.png where items are ranked, segments.png where one is large,
    calibrated.json and calibrated.png of a calibrated run.

    Args:
        evaluation: what to write.
        directory: made if it does not exist; files of the same name are replaced.
        num_segments: segments in report.md, the worst first; None writes all.

    Returns:
        What was written.
    """
    report = evaluation.report
    with replacing_directory(directory) as folder:
        (folder / "report.md").write_text(evaluation.to_markdown(num_segments=num_segments), encoding="utf-8")
        (folder / "report.json").write_text(evaluation.to_json(), encoding="utf-8")
        if max(report.settings.ks) > 1:
            plot_recall(report, folder / "recall.png")
        plot_reliability(report, folder / "reliability.png")
        if evaluation.calibrated is not None:
            (folder / "calibrated.json").write_text(evaluation.calibrated.to_json(), encoding="utf-8")
            plot_set_coverage(evaluation.calibrated, folder / "calibrated.png")
        try:
            plot_segments(report, folder / "segments.png")
        except ConfigurationError:
            (directory / "segments.png").unlink(missing_ok=True)  # of an earlier report: no segment is large enough now
        names = sorted(path.name for path in folder.iterdir())
    return [directory / name for name in names]


def write_calibrated(answers: CalibratedAnswers, directory: Path) -> list[Path]:
    """calibrated.md, calibrated.json and calibrated.png; returns what was written."""
    return _write_all(answers, directory, name="calibrated", plot=plot_set_coverage)


def write_flips(flips: FieldFlips, directory: Path) -> list[Path]:
    """flips.md, flips.json and flips.png; returns what was written."""
    return _write_all(flips, directory, name="flips", plot=plot_flips)


def write_importance(importances: FeatureImportances, directory: Path) -> list[Path]:
    """importance.md, importance.json and importance.png; returns what was written."""
    return _write_all(importances, directory, name="importance", plot=plot_importance)


def _write_all(found: _Found, directory: Path, *, name: str, plot: Callable[[_Found, Path], object]) -> list[Path]:
    """Write the tables, the numbers and the picture of what was found."""
    with replacing_directory(directory) as folder:
        (folder / f"{name}.md").write_text(found.to_markdown(), encoding="utf-8")
        (folder / f"{name}.json").write_text(found.to_json() + "\n", encoding="utf-8")
        plot(found, folder / f"{name}.png")
        names = sorted(path.name for path in folder.iterdir())
    return [directory / each for each in names]
