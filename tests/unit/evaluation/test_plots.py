"""Pictures: whole files or none, drawn from what the report says."""

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import (
    EvaluationSettings,
    Run,
    Scores,
    compare_runs,
    evaluate_scores,
    measure_importances,
    plot_comparison,
    plot_importance,
    plot_recall,
    plot_reliability,
    plot_segments,
)

SETTINGS = EvaluationSettings(num_resamples=100, min_cell_clusters=1)
SCORES = Scores(
    np.arange(120), [0] * 120, -np.linspace(0.1, 4, 120), np.arange(120) % 40, [1] * 120, np.linspace(0.01, 1, 120)
)
REPORT = evaluate_scores(SCORES, segments={"age": np.arange(120) % 3}, settings=SETTINGS, num_items=50)
COMPARISON = compare_runs(
    [Run("none", 0, SCORES), Run("oracle", 0, SCORES, role="oracle")], reference="none", settings=SETTINGS
)
WORSE = Scores(**{**SCORES.as_arrays(), "log_probability": 1.1 * SCORES.log_probability})
IMPORTANCES = measure_importances(SCORES, {"idle": [SCORES], "age": [WORSE]}, together=[WORSE], settings=SETTINGS)
PLOTS = [
    (plot_comparison, COMPARISON),
    (plot_recall, COMPARISON),
    (plot_recall, REPORT),
    (plot_reliability, REPORT),
    (plot_segments, REPORT),
    (plot_importance, IMPORTANCES),
]


@pytest.mark.parametrize(("plot", "evaluated"), PLOTS)
def test_a_png_with_something_on_it_is_written_and_nothing_else(plot, evaluated, tmp_path):
    path = plot(evaluated, tmp_path / "plot.png")
    assert [each.name for each in tmp_path.iterdir()] == ["plot.png"]
    pixels = matplotlib.image.imread(path)
    assert min(pixels.shape[:2]) > 300
    assert 0.01 < (pixels[..., :3].min(axis=-1) < 0.9).mean() < 0.6


@pytest.mark.parametrize(("plot", "evaluated"), PLOTS)
def test_a_failing_disk_keeps_the_old_file_and_leaves_no_half(plot, evaluated, tmp_path, monkeypatch):
    def fail(self: Figure, path: Path, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise OSError("disk full")

    (tmp_path / "plot.png").write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plot(evaluated, tmp_path / "plot.png")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("plot.png", b"old")]


@pytest.fixture
def drawn(monkeypatch) -> list[Figure]:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: (figures.append(self), Path(path).write_bytes(b"x")))
    return figures


def test_axes_name_their_units(drawn, tmp_path):
    for plot, evaluated in PLOTS:
        plot(evaluated, tmp_path / "plot.png")
    labels = [axes.get_xlabel() + axes.get_ylabel() for figure in drawn for axes in figure.axes]
    assert labels.count("cross-entropy (nats), lower is better") == 2
    assert labels.count("recall@1 (%), higher is better") == 2
    assert sum("recall@k (%), higher is better" in label for label in labels) == 2
    title = drawn[3].get_suptitle()
    assert f"ECE {REPORT.calibration.error.value:.4f}" in title


def test_rows_are_called_what_they_are(drawn, tmp_path):
    settings = EvaluationSettings(num_resamples=100, row_name="word", set_name="text", choice_name="label")
    comparison = compare_runs([Run("none", 0, SCORES)], reference="none", settings=settings)
    report = evaluate_scores(SCORES, settings=settings, num_items=50)
    for plot, evaluated in ((plot_comparison, comparison), (plot_recall, report), (plot_reliability, report)):
        plot(evaluated, tmp_path / "plot.png")
    written = [axes.get_ylabel() for figure in drawn for axes in figure.axes] + [each.get_suptitle() for each in drawn]
    assert not [text for text in written if "position" in text or "item" in text]
    assert sum("120 words" in text for text in written) == 3


def test_points_stand_where_the_numbers_are(drawn, tmp_path):
    plot_comparison(COMPARISON, tmp_path / "plot.png")
    left = drawn[0].axes[0]
    points = [float(container.lines[0].get_xdata()[0]) for container in left.containers]
    assert points == [row.intervals["cross_entropy_nats"].value for row in COMPARISON.rows]
    assert [label.get_text() for label in left.get_yticklabels()] == ["none", "oracle"]


def test_importances_stand_where_the_numbers_are_beside_a_line_at_zero(drawn, tmp_path):
    plot_importance(IMPORTANCES, tmp_path / "plot.png")
    panel = drawn[0].axes[0]
    points = [float(container.lines[0].get_xdata()[0]) for container in panel.containers]
    assert points == [row.rise_nats.interval.value for row in IMPORTANCES.rows]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["all features", "age", "idle"]
    assert [list(line.get_xdata()) for line in panel.lines if line.get_color() == "#888888"] == [[0, 0]]
    assert "(nats)" in panel.get_xlabel()


def test_only_png_and_only_segments_that_can_be_trusted(tmp_path):
    with pytest.raises(ConfigurationError, match=r"does not end with .png"):
        plot_recall(REPORT, tmp_path / "plot.pdf")
    small = evaluate_scores(SCORES, segments={"id": np.arange(120)}, settings=SETTINGS)
    with pytest.raises(ConfigurationError, match="No segment has 30 sets"):
        plot_segments(small, tmp_path / "plot.png")
    assert list(tmp_path.iterdir()) == []


def test_one_customer_can_be_drawn(tmp_path):
    lonely = evaluate_scores(SCORES, clusters=["ann"] * 120, settings=SETTINGS)
    assert plot_reliability(lonely, tmp_path / "plot.png").stat().st_size > 1000
    alone = measure_importances(SCORES, {"age": [WORSE]}, together=[WORSE], clusters=["ann"] * 120, settings=SETTINGS)
    assert plot_importance(alone, tmp_path / "alone.png").stat().st_size > 1000


def test_a_name_may_hold_what_mathematics_is_written_with(drawn, tmp_path):
    bands = np.array(["$0_$25k", "$25k_$50k", "$50%-$99", "$"])[np.arange(120) % 4]
    report = evaluate_scores(SCORES, segments={"income": bands}, settings=SETTINGS, num_items=50)
    plot_segments(report, tmp_path / "segments.png")
    importances = measure_importances(SCORES, {"$a_$b": [SCORES]}, together=[WORSE], settings=SETTINGS)
    plot_importance(importances, tmp_path / "importances.png")
    texts = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert sum(text.startswith(r"income = \$") for text in texts) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"segments.png", "importances.png"}


def test_a_reference_far_off_is_no_line(drawn, tmp_path):
    far = Scores(**{**SCORES.as_arrays(), "log_probability": 9 * SCORES.log_probability})
    gains = {"none": 1.0, "concat": 0.9, "film": 0.8}
    near = {
        name: {**SCORES.as_arrays(), "log_probability": gain * SCORES.log_probability} for name, gain in gains.items()
    }
    runs = [*(Run(name, 0, Scores(**own)) for name, own in near.items()), Run("popularity", 0, far, role="baseline")]
    compared = compare_runs(runs, reference="popularity", settings=SETTINGS)
    plot_comparison(compared, tmp_path / "comparison.png")
    low, high = drawn[0].axes[0].get_xlim()
    assert high - low < 3
