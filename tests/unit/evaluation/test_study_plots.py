"""Pictures of a study: what is drawn, where, and that names do not cover each other."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import matplotlib.image
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import (
    Cost,
    plot_cost_against_quality,
    plot_gap_to_oracle,
    plot_learning_curves,
    plot_reliability_by_method,
)

NAMES = ["none", "concat", "new_position", "global_state_update", "<b>odd</b>"]


def draw_all(study, folder: Path) -> list[Path]:
    return [
        plot_learning_curves(study.curves, folder / "curves.png", oracle_nats=1.5),
        plot_gap_to_oracle(study.against_oracle, folder / "gap.png"),
        plot_cost_against_quality(study.comparison, folder / "cost.png"),
        plot_reliability_by_method(study.reports, folder / "reliability.png"),
    ]


@pytest.fixture
def drawn(monkeypatch) -> list[Figure]:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: (figures.append(self), Path(path).write_bytes(b"x")))
    return figures


def test_pngs_with_something_on_them_are_written(study, tmp_path):
    for path in draw_all(study, tmp_path):
        assert path.stat().st_size > 10_000
        pixels = matplotlib.image.imread(path)
        assert min(pixels.shape[:2]) > 300
        assert 0.005 < (pixels[..., :3].min(axis=-1) < 0.9).mean() < 0.6
    assert len(list(tmp_path.iterdir())) == 4


def test_axes_name_their_units(study, drawn, tmp_path):
    draw_all(study, tmp_path)
    curves, gap, cost, reliability = drawn
    assert [axes.get_xlabel() for axes in curves.axes] == ["epoch", "epoch"]
    assert curves.axes[0].get_ylabel() == "validation cross-entropy (nats), lower is better"
    assert gap.axes[0].get_xlabel() == "cross-entropy above the oracle (nats), lower is better"
    assert cost.axes[0].get_xlabel() == "training time (s), lower is better"
    assert cost.axes[0].get_ylabel() == "cross-entropy (nats), lower is better"
    assert reliability.get_supxlabel() == "probability of the best answer (0 to 1)"


def test_a_line_a_seed_and_a_name_a_method(study, drawn, tmp_path):
    plot_learning_curves(study.curves, tmp_path / "a.png", oracle_nats=1.5)
    left = drawn[0].axes[0]
    assert [float(line.get_ydata()[-1]) for line in left.get_lines()] == [
        *(curve.points[-1].validation_cross_entropy_nats for curve in study.curves),
        1.5,
    ]
    (legend,) = drawn[0].legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert sorted(labels) == sorted([*NAMES, "oracle"])
    assert labels[-2:] == ["concat", "oracle"]
    looks = {(line.get_color(), line.get_marker()) for line in left.get_lines()[:-1]}
    assert len(looks) == len(NAMES)


def test_a_dotted_line_where_training_went_to_one_mask(study, drawn, tmp_path):
    plot_learning_curves(study.curves, tmp_path / "a.png", one_mask_from=(2, 4))
    left, right = drawn[0].axes
    dotted = [
        [line.get_xdata()[0] for line in panel.get_lines() if line.get_linestyle() == ":"] for panel in (left, right)
    ]
    assert dotted == [[2, 4], [4]]
    (legend,) = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()].count("one mask from here") == 1


def test_the_second_half_is_that_of_the_methods(study, drawn, tmp_path):
    longer = [replace(point, epoch=3 * point.epoch) for point in study.curves[0].points]
    curves = [replace(study.curves[0], points=tuple(longer)), *study.curves[1:]]
    rest = [curve for curve in curves if curve.name != curves[0].name]
    plot_learning_curves(rest + curves[:1], tmp_path / "a.png", baselines=[curves[0].name])
    plot_learning_curves(rest, tmp_path / "b.png")
    (left, right), (_, alone) = drawn[0].axes, drawn[1].axes
    assert len(left.get_lines()) == len(right.get_lines()) + 1
    assert (right.get_xlim(), right.get_ylim()) == (alone.get_xlim(), alone.get_ylim())


def test_gaps_stand_where_the_numbers_are(study, drawn, tmp_path):
    plot_gap_to_oracle(study.against_oracle, tmp_path / "a.png")
    panel = drawn[0].axes[0]
    points = [float(container.lines[0].get_xdata()[0]) for container in panel.containers]
    rows = [row for row in study.against_oracle.rows if row.name != "oracle"]
    assert [row.role for row in rows].count("baseline") == 1  # too far off for a point
    near = [row for row in rows if row.role != "baseline"]
    assert points == [row.differences["cross_entropy_nats"].interval.value for row in near]
    assert [label.get_text() for label in panel.get_yticklabels()] == [row.label for row in rows]


def test_a_baseline_far_off_is_a_number_at_the_edge(study, drawn, tmp_path):
    rows = study.against_oracle.rows
    gap = rows[1].differences["cross_entropy_nats"]
    far = replace(gap, interval=replace(gap.interval, value=50.0, low=49.0, high=51.0))
    baseline = replace(rows[1], role="baseline", differences={"cross_entropy_nats": far})
    plot_gap_to_oracle(replace(study.against_oracle, rows=(rows[0], baseline, *rows[2:])), tmp_path / "a.png")
    panel = drawn[0].axes[0]
    assert "+50.000 →" in [child.get_text() for child in panel.get_children() if isinstance(child, Annotation)]
    assert panel.get_xlim()[1] < 40


def test_a_baseline_far_off_is_an_arrow_beside_its_cost(study, drawn, tmp_path):
    rows = study.comparison.rows
    mean = rows[1].metrics["cross_entropy_nats"]
    metrics = {**rows[1].metrics, "cross_entropy_nats": replace(mean, mean=50.0)}
    changed = (rows[0], replace(rows[1], role="baseline", metrics=metrics), *rows[2:])
    plot_cost_against_quality(replace(study.comparison, rows=changed), tmp_path / "a.png", cost="parameters")
    panel = drawn[0].axes[0]
    assert f"{changed[1].label}: 50.000" in [
        child.get_text() for child in panel.get_children() if isinstance(child, Annotation)
    ]
    assert panel.get_ylim()[1] < 40


def test_names_cover_no_name_and_no_point(study, drawn, tmp_path):
    # Five methods with nearly one cost, two of them with nearly one cross-entropy.
    plot_cost_against_quality(study.comparison, tmp_path / "a.png", cost="parameters")
    figure, panel = drawn[0], drawn[0].axes[0]
    figure.canvas.draw()
    names = [child for child in panel.get_children() if isinstance(child, Annotation)]
    assert [name.get_text() for name in names] == NAMES
    # The text alone, without the line to its point.
    boxes = [super(Annotation, name).get_window_extent() for name in names]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    points = [panel.transData.transform(name.xy) for name in names]
    assert not any(box.contains(*point) for box in boxes for point in points)
    frame = panel.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_costs_far_apart_get_a_logarithmic_axis(study, drawn, tmp_path):
    far = replace(study.comparison.rows[1], cost=Cost(50_000_000))
    comparison = replace(study.comparison, rows=(study.comparison.rows[0], far))
    plot_cost_against_quality(comparison, tmp_path / "a.png", cost="parameters")
    assert drawn[0].axes[0].get_xlabel() == "parameters (number), logarithmic, lower is better"


@pytest.mark.parametrize("costs", [(10, 29_552_392), (1_000, 100_000_000), (500, 90_000)])
def test_numbers_on_an_axis_cover_no_number(costs, study, drawn, tmp_path):
    rows = [replace(row, cost=Cost(cost)) for row, cost in zip(study.comparison.rows, costs, strict=False)]
    plot_cost_against_quality(replace(study.comparison, rows=tuple(rows)), tmp_path / "a.png", cost="parameters")
    drawn[0].canvas.draw()
    labels = [label for label in drawn[0].axes[0].get_xticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    assert len(boxes) > 1
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_names_without_room_stay_within_the_frame(study, drawn, tmp_path):
    rows = [
        replace(study.comparison.rows[0], name=f"a method with a name {number}", cost=Cost(9)) for number in range(24)
    ]
    plot_cost_against_quality(replace(study.comparison, rows=tuple(rows)), tmp_path / "a.png", cost="parameters")
    drawn[0].canvas.draw()
    panel = drawn[0].axes[0]
    frame = panel.get_window_extent()
    names = [child for child in panel.get_children() if isinstance(child, Annotation)]
    boxes = [super(Annotation, name).get_window_extent() for name in names]
    assert len(boxes) == 24
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_a_panel_a_method_on_the_same_axes(study, drawn, tmp_path):
    plot_reliability_by_method(study.reports, tmp_path / "a.png")
    panels = drawn[0].axes
    assert [panel.get_title().splitlines()[0] for panel in panels] == NAMES
    assert len({panel.get_xlim() + panel.get_ylim() for panel in panels}) == 1
    error = study.reports["none"].metrics["expected_calibration_error"].value
    assert panels[0].get_title().endswith(f"ECE {error:.4f}")


def test_nothing_to_draw_is_said(study, tmp_path):
    with pytest.raises(ConfigurationError, match="No learning curve"):
        plot_learning_curves([], tmp_path / "a.png")
    with pytest.raises(ConfigurationError, match="No report"):
        plot_reliability_by_method({}, tmp_path / "a.png")
    alone = replace(study.against_oracle, rows=study.against_oracle.rows[-1:])
    with pytest.raises(ConfigurationError, match="Nothing is compared with the oracle"):
        plot_gap_to_oracle(alone, tmp_path / "a.png")
    with pytest.raises(ConfigurationError, match="No run has its training_seconds"):
        plot_cost_against_quality(alone, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
