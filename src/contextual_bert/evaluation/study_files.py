"""A study as files: one HTML page that needs nothing else, Markdown with its pictures, and all numbers as JSON.

The reports of single runs have a file of their own. They are most of the numbers, and each run has its own as well.

Paper: not there. docs/protocol.md, "Provenance": a table is generated, never typed.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.evaluation.plots import plot_comparison, plot_recall, plot_reliability, plot_segments
from contextual_bert.evaluation.study import Study
from contextual_bert.evaluation.study_plots import (
    plot_cost_against_quality,
    plot_gap_to_oracle,
    plot_learning_curves,
    plot_reliability_by_method,
)
from contextual_bert.json_text import json_text

STUDY_FILE, REPORTS_FILE = "study.json", "reports.json"
_DRAW: Mapping[str, Callable[[Study, Path], Path]] = {
    "comparison.png": lambda study, path: plot_comparison(study.comparison, path),
    "recall.png": lambda study, path: plot_recall(study.comparison, path),
    "gap_to_oracle.png": lambda study, path: plot_gap_to_oracle(study.against_oracle or study.comparison, path),
    "learning_curves.png": lambda study, path: plot_learning_curves(
        study.curves,
        path,
        oracle_nats=study.oracle_nats(),
        one_mask_from=study.one_mask_from,
        baselines=[row.name for row in study.comparison.rows if row.role == "baseline"],
    ),
    "cost_training_seconds.png": lambda study, path: plot_cost_against_quality(study.comparison, path),
    "cost_parameters.png": lambda study, path: plot_cost_against_quality(study.comparison, path, cost="parameters"),
    "reliability_by_method.png": lambda study, path: plot_reliability_by_method(study.reports, path),
    "reliability.png": lambda study, path: plot_reliability(study.reports[study.best_method() or ""], path),
    "segments.png": lambda study, path: plot_segments(study.reports[study.best_method() or ""], path),
}


def write_study(study: Study, directory: str | Path) -> tuple[Path, ...]:
    """Write report.html, report.md with its pictures, study.json and reports.json: all of them, or none if one fails.

    ``study.json`` is the study without the reports of single runs. They are in ``reports.json``, by method.

    Args:
        study: what to write.
        directory: made if it does not exist; files of the same name are replaced, and pictures of an earlier study
            that this one has no numbers for are removed.

    Returns:
        What was written.
    """
    target = Path(directory)
    with replacing_directory(target) as folder:
        images: dict[str, bytes] = {}
        for picture in study.pictures():
            images[picture.file_name] = _DRAW[picture.file_name](study, folder / picture.file_name).read_bytes()
        (folder / "report.html").write_text(study.to_html(images), encoding="utf-8")
        (folder / "report.md").write_text(study.to_markdown(), encoding="utf-8")
        reports = {name: json.loads(report.to_json()) for name, report in study.reports.items()}
        (folder / REPORTS_FILE).write_text(json_text(reports, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / STUDY_FILE).write_text(replace(study, reports={}).to_json(), encoding="utf-8")
        names = sorted(path.name for path in folder.iterdir())
    for name in set(_DRAW) - set(names):
        (target / name).unlink(missing_ok=True)
    return tuple(target / name for name in names)
