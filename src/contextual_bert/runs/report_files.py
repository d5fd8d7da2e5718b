"""Reports and importances of features as files: Markdown, JSON and pictures, all of them or none."""

from pathlib import Path

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
    with replacing_directory(directory) as folder:
        (folder / "calibrated.md").write_text(answers.to_markdown(), encoding="utf-8")
        (folder / "calibrated.json").write_text(answers.to_json(), encoding="utf-8")
        plot_set_coverage(answers, folder / "calibrated.png")
        names = sorted(path.name for path in folder.iterdir())
    return [directory / name for name in names]


def write_flips(flips: FieldFlips, directory: Path) -> list[Path]:
    """flips.md, flips.json and flips.png; returns what was written."""
    with replacing_directory(directory) as folder:
        (folder / "flips.md").write_text(flips.to_markdown(), encoding="utf-8")
        (folder / "flips.json").write_text(flips.to_json(), encoding="utf-8")
        plot_flips(flips, folder / "flips.png")
        names = sorted(path.name for path in folder.iterdir())
    return [directory / name for name in names]


def write_importance(importances: FeatureImportances, directory: Path) -> list[Path]:
    """importance.md, importance.json and importance.png; returns what was written."""
    with replacing_directory(directory) as folder:
        (folder / "importance.md").write_text(importances.to_markdown(), encoding="utf-8")
        (folder / "importance.json").write_text(importances.to_json() + "\n", encoding="utf-8")
        plot_importance(importances, folder / "importance.png")
        names = sorted(path.name for path in folder.iterdir())
    return [directory / name for name in names]
