"""Pictures of a study: how the methods learned, how far the oracle is, what quality cost, how well each is calibrated.

This module draws what it is given; the pictures of one report or one comparison are `plots`.

Paper: not there. docs/protocol.md.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.comparison import Comparison
from contextual_bert.evaluation.drawing import (
    GREEN,
    GREY,
    ROLE_COLOURS,
    broken,
    draw_rows,
    ends,
    known,
    near_range,
    new_figure,
    save_picture,
    set_title,
    shorten,
    style_of,
)
from contextual_bert.evaluation.label_layout import LabelledPoint, place_labels
from contextual_bert.evaluation.learning import LearningCurve
from contextual_bert.evaluation.metrics import CALIBRATION_ERROR, CROSS_ENTROPY
from contextual_bert.evaluation.plots import draw_reliability
from contextual_bert.evaluation.report import Report
from contextual_bert.nouns import plural

CostName = Literal["training_seconds", "parameters"]
_COST_LABELS = {"training_seconds": "training time (s)", "parameters": "parameters (number)"}
# Costs further apart than this share no linear axis.
_WIDE_RATIO = 8.0
# Beyond this ratio only powers of ten have room on an axis.
_VERY_WIDE_RATIO = 300.0
_PANELS_A_ROW = 4


def plot_learning_curves(
    curves: Sequence[LearningCurve],
    path: str | Path,
    *,
    oracle_nats: float | None = None,
    one_mask_from: Sequence[int] = (),
    baselines: Collection[str] = (),
) -> Path:
    """Validation cross-entropy by epoch: all of training and its second half; a thin line a seed, the oracle dashed.

    A dotted line stands where training went from several masks a set to one. The second half is shown without the
    baselines, which have a budget of their own.
    """
    if not curves:
        raise ConfigurationError("No learning curve to draw", fix="Give the curve of at least one run.")
    names = list(dict.fromkeys(curve.name for curve in curves))
    baselines = () if all(name in baselines for name in names) else baselines
    figure = new_figure(10.5, 4.8)
    whole, end = figure.subplots(1, 2)
    for index, name in enumerate(names):
        colour, marker, line = style_of(index)
        for number, curve in enumerate(each for each in curves if each.name == name):
            epochs = [point.epoch for point in curve.points]
            losses = [point.validation_cross_entropy_nats for point in curve.points]
            marks = max(1, len(epochs) // 6)
            for panel in (whole,) if name in baselines else (whole, end):
                panel.plot(
                    epochs,
                    losses,
                    line,
                    color=colour,
                    marker=marker,
                    markevery=marks,
                    markersize=4.5,
                    markeredgecolor="black",
                    markeredgewidth=0.4,
                    linewidth=0.9,
                    label=shorten(name) if panel is whole and number == 0 else None,
                )
    _enlarge(end, [curve for curve in curves if curve.name not in baselines] or curves, oracle_nats=oracle_nats)
    for panel in (whole, end):
        if oracle_nats is not None:
            label = "oracle" if panel is whole else None
            panel.axhline(oracle_nats, color=GREEN, linestyle="--", linewidth=2, zorder=0, label=label)
        first, _ = panel.get_xlim()
        for epoch in (each for each in one_mask_from if each >= first):
            label = "one mask from here" if panel is whole and epoch == one_mask_from[0] else None
            panel.axvline(epoch, color=GREY, linestyle=":", linewidth=1.5, zorder=0, label=label)
        panel.set_xlabel("epoch")
        panel.grid(alpha=0.3)
        panel.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    whole.set_ylabel("validation cross-entropy (nats), lower is better")
    # In the order in which the lines end, so that a name is found where its line is.
    lines = sorted(whole.get_lines(), key=lambda line: -float(np.asarray(line.get_ydata())[-1]))
    named = [line for line in lines if not str(line.get_label()).startswith("_")]
    figure.legend(handles=named, loc="outside right center", frameon=False, fontsize=9)
    without = ", without the baselines" if baselines else ""
    subtitle = f"left: all of training; right: its second half enlarged{without}; a line a seed"
    set_title(figure, "Learning curves", subtitle if oracle_nats is None else f"{subtitle}; thick dashes: the oracle")
    return save_picture(figure, path)


def plot_gap_to_oracle(against_oracle: Comparison, path: str | Path) -> Path:
    """Plot each method's distance to the oracle in nats, with its paired interval; the dashed line is the oracle."""
    rows = [row for row in against_oracle.rows if row.differences]
    if not rows:
        raise ConfigurationError(
            "Nothing is compared with the oracle", fix="Give a comparison whose reference is the oracle."
        )
    figure = new_figure(8.0, 1.7 + 0.34 * len(rows))
    panel = figure.subplots()
    gaps = [row.differences[CROSS_ENTROPY].interval for row in rows]
    shown = [(gap, row.role) for gap, row in zip(gaps, rows, strict=True)]
    low, high = near_range([(0.0, 0.0, "oracle"), *((*ends(gap), role) for gap, role in shown)])
    draw_rows(panel, shown, limits=(low, high), form="+.3f")
    for height, gap in enumerate(gaps):
        if low <= gap.value <= high:
            panel.annotate(
                f"{gap.value:+.3f}", (gap.value, height), (0, 5), textcoords="offset points", ha="center", fontsize=8
            )
    panel.axvline(0, color=GREEN, linestyle="--", linewidth=1.5, zorder=0)
    panel.set_yticks(range(len(rows)), [shorten(row.label) for row in rows])
    panel.set_ylim(len(rows) - 0.5, -0.8)
    panel.set_xlim(min(0.0, panel.get_xlim()[0]), None)
    panel.set_xlabel("cross-entropy above the oracle (nats), lower is better")
    panel.grid(axis="x", alpha=0.3)
    settings = against_oracle.settings
    whiskers = f"whiskers: {100 * settings.level:g}% interval of the paired difference over "
    set_title(
        figure,
        f"Gap to {against_oracle.reference}",
        f"{whiskers}{against_oracle.num_clusters:,} {plural(settings.cluster_name)}; "
        f"dashed: {against_oracle.reference}",
    )
    return save_picture(figure, path)


def plot_cost_against_quality(comparison: Comparison, path: str | Path, *, cost: CostName = "training_seconds") -> Path:
    """Cross-entropy over what a run cost: a labelled point a method, whiskers over seeds, the oracle dashed."""
    shown = [(row, float(value)) for row in comparison.rows if (value := getattr(row.cost, cost)) is not None]
    if not shown:
        raise ConfigurationError(f"No run has its {cost}: nothing to draw", fix="Give each Run its Cost.")
    figure = new_figure(8.0, 5.4)
    panel = figure.subplots()
    means = [(row.metrics[CROSS_ENTROPY].mean, row.role) for row in comparison.rows]
    errors = [known(row.metrics[CROSS_ENTROPY].standard_error) for row in comparison.rows]
    _, highest = near_range([(mean - by, mean + by, role) for (mean, role), by in zip(means, errors, strict=True)])
    points: list[LabelledPoint] = []
    for row, value in shown:
        mean = row.metrics[CROSS_ENTROPY]
        error, is_near = known(mean.standard_error), mean.mean <= highest
        label = shorten(row.label)
        name, height = (label, mean.mean) if is_near else (f"{label}: {mean.mean:.3f}", highest)
        style, colour = "o" if is_near else "^", ROLE_COLOURS[row.role]
        panel.errorbar([value], [height], yerr=[[error], [error]], fmt=style, color=colour, capsize=3, markersize=6)
        points.append(LabelledPoint(name, value, height, error))
    oracle = next((row.metrics[CROSS_ENTROPY].mean for row in comparison.rows if row.role == "oracle"), None)
    if oracle is not None:
        panel.axhline(oracle, color=GREEN, linestyle="--", linewidth=1.5, zorder=0)
    costs = [value for _, value in shown]
    if min(costs) > 0 and max(costs) > _WIDE_RATIO * min(costs):
        panel.set_xscale("log")
        is_very_wide = max(costs) > _VERY_WIDE_RATIO * min(costs)
        panel.xaxis.set_major_locator(LogLocator(subs=(1.0,) if is_very_wide else (1.0, 2.0, 5.0)))
        panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    panel.margins(0.12)
    panel.set_xlabel(f"{_COST_LABELS[cost]}{', logarithmic' if panel.get_xscale() == 'log' else ''}, lower is better")
    panel.set_ylabel("cross-entropy (nats), lower is better")
    panel.grid(alpha=0.3)
    dashed = "" if oracle is None else "; dashed: the oracle"
    set_title(
        figure,
        f"Quality against {_COST_LABELS[cost].split(' (')[0]}",
        "mean over seeds, whiskers: standard error over seeds\n"
        f"blue: methods, grey: controls, orange: baselines, an arrow where one is higher than drawn{dashed}",
    )
    place_labels(figure, panel, points, line=oracle)
    return save_picture(figure, path)


def plot_reliability_by_method(reports: Mapping[str, Report], path: str | Path) -> Path:
    """Reliability of several methods side by side, on the same axes."""
    if not reports:
        raise ConfigurationError("No report to draw", fix="Give the report of at least one method.")
    num_columns = min(_PANELS_A_ROW, len(reports))
    num_rows = -(-len(reports) // num_columns)
    figure = new_figure(0.8 + 2.5 * num_columns, 1.2 + 2.5 * num_rows)
    panels = figure.subplots(num_rows, num_columns, sharex=True, sharey=True, squeeze=False)
    tops: list[float] = []
    for panel, (name, report) in zip(panels.flat, reports.items(), strict=False):
        draw_reliability(panel, report)
        tops.append(panel.get_ylim()[1])
        panel.set_title(f"{broken(name)}\nECE {report.metrics[CALIBRATION_ERROR].value:.4f}", fontsize=9)
    panels.flat[0].set_ylim(0, max(tops))
    panels.flat[0].set_xlim(0, max(report.calibration.bins[-1].high for report in reports.values()))
    for number, panel in enumerate(panels.flat):
        if number >= len(reports):
            panel.remove()
        elif number >= len(reports) - num_columns:
            panel.tick_params(labelbottom=True)
    figure.supxlabel("probability of the best answer (0 to 1)", fontsize=10)
    figure.supylabel("share with the best answer right (0 to 1)", fontsize=10)
    set_title(figure, "Calibration, first seeds", "dashed: perfectly calibrated; above it: more often right than said")
    return save_picture(figure, path)


def _enlarge(panel: Axes, curves: Sequence[LearningCurve], *, oracle_nats: float | None) -> None:
    longest = max(curve.points[-1].epoch for curve in curves)
    seen = [
        point.validation_cross_entropy_nats for curve in curves for point in curve.points if point.epoch >= longest / 2
    ]
    if oracle_nats is not None:
        seen.append(oracle_nats)
    space = 0.06 * (max(seen) - min(seen)) or 0.05
    panel.set_ylim(min(seen) - space, max(seen) + space)
    panel.set_xlim(longest / 2 - 0.02 * longest, 1.02 * longest)


def _short(value: float) -> str:
    """A number for an axis: 1,500, but 2.5M.

    Example:
        >>> _short(1_500), _short(2_500_000)
        ('1,500', '2.5M')
    """
    return f"{value / 1e6:,.10g}M" if value >= 1e6 else f"{value:,.10g}"
