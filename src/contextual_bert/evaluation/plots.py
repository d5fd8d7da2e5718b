"""Pictures of a report, a comparison or the importance of features, as PNG files that are whole or not there.

Every axis names its unit. This module draws what it is given and computes nothing. Colours, labels and files are of
`drawing`, the pictures of a whole study of `study_plots`. Paper: not there.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.comparison import Comparison
from contextual_bert.evaluation.drawing import (
    BLUE,
    GREY,
    SKY,
    arm,
    draw_rows,
    draw_whisker,
    ends,
    known,
    label_metric,
    near_range,
    new_figure,
    save_picture,
    set_title,
    shorten,
    style_of,
)
from contextual_bert.evaluation.importance import FeatureImportances
from contextual_bert.evaluation.metrics import CALIBRATION_ERROR, CROSS_ENTROPY, metric_of, recall_key
from contextual_bert.evaluation.report import Report
from contextual_bert.nouns import plural


def plot_comparison(comparison: Comparison, path: str | Path) -> Path:
    """Draw the main metric, cross-entropy and recall@1 of each method with its interval over customers.

    The reference is a dashed line.
    """
    rows, drawn = comparison.rows, comparison.drawn_metrics()
    figure = new_figure(2.5 + 3.5 * len(drawn), 1.9 + 0.34 * len(rows))
    panels = figure.subplots(1, len(drawn), sharey=True, squeeze=False)[0]
    for panel, key in zip(panels, drawn, strict=True):
        shown = [(row.intervals[key], row.role) for row in rows]
        limits = near_range([(*ends(interval), role) for interval, role in shown])
        draw_rows(panel, shown, limits=limits, form=f".{metric_of(key).digits}f")
        base = next(row for row in rows if row.name == comparison.reference)
        if limits[0] <= base.intervals[key].value <= limits[1]:
            panel.axvline(base.intervals[key].value, color=GREY, linestyle="--", linewidth=1, zorder=0)
        label_metric(panel, key)
    panels[0].set_yticks(range(len(rows)), [shorten(row.label) for row in rows])
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    settings = comparison.settings
    set_title(
        figure,
        f"Methods on {comparison.num_rows:,} {comparison.settings.row_name}s",
        f"whiskers: {100 * settings.level:g}% interval over {comparison.num_clusters:,} "
        f"{plural(settings.cluster_name)}; dashed: {comparison.reference}",
    )
    return save_picture(figure, path)


def plot_recall(evaluated: Comparison | Report, path: str | Path) -> Path:
    """Recall@k over k on a logarithmic axis: one curve a method."""
    if isinstance(evaluated, Comparison):
        curves = [(row.label, row.curve) for row in evaluated.rows]
    else:
        curves = [("this run", evaluated.curve)]
    figure = new_figure(6.6 if len(curves) == 1 else 9.0, 4.6)
    panel = figure.subplots()
    for index, (name, curve) in enumerate(curves):
        ks, percents = zip(*curve, strict=True)
        colour, marker, line = style_of(index)
        marks = max(1, len(ks) // 8)
        panel.plot(ks, percents, line, color=colour, marker=marker, markevery=marks, markersize=5, label=shorten(name))
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_ylim(0, None)
    panel.set_xlabel("k (length of the list, logarithmic)")
    panel.set_ylabel("recall@k (%), higher is better")
    panel.grid(alpha=0.3)
    if len(curves) > 1:
        figure.legend(loc="outside right center", frameon=False, fontsize=9)
    over = (
        f"full ranking of {evaluated.num_items:,} {evaluated.settings.choice_name}s"
        if evaluated.num_items
        else "full ranking"
    )
    set_title(figure, "Recall by length of the list", f"{over}, {evaluated.num_rows:,} {evaluated.settings.row_name}s")
    return save_picture(figure, path)


def plot_reliability(report: Report, path: str | Path) -> Path:
    """Plot the share of right best answers against confidence, with the number of rows."""
    bins, error = report.calibration.bins, report.metrics[CALIBRATION_ERROR]
    figure = new_figure(5.6, 6.0)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    draw_reliability(upper, report)
    upper.set_xlim(0, bins[-1].high)
    upper.set_ylabel(f"share of {report.settings.row_name}s with the\nbest answer right (0 to 1)")
    upper.legend(frameon=False, fontsize=9, loc="upper left")
    widths = [each.high - each.low for each in bins]
    lower.bar(
        [each.low for each in bins],
        [each.num_rows for each in bins],
        widths,
        align="edge",
        color=SKY,
        edgecolor="white",
    )
    lower.set_ylabel(f"{report.settings.row_name}s")
    lower.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    lower.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    lower.set_xlabel("probability of the best answer (0 to 1)")
    chance = f"chance alone: about {report.calibration.chance_error:.4f}"
    limits = f" [{error.low:.4f}, {error.high:.4f}]" if error.low == error.low else ""
    rows = f"{report.num_rows:,} {report.settings.row_name}s"
    set_title(figure, f"Calibration: ECE {error.value:.4f}{limits}", f"{chance}; {rows}")
    return save_picture(figure, path)


def draw_reliability(panel: Axes, report: Report) -> None:
    """The bins of one report: a dot each, with its interval, against the diagonal of perfect calibration."""
    bins = report.calibration.bins
    edge = bins[-1].high
    top = max(edge, *(min(1.0, max(each.accuracy.value, known(each.accuracy.high))) for each in bins))
    panel.axline((0, 0), slope=1, color=GREY, linestyle="--", linewidth=1, label="perfectly calibrated")
    for number, each in enumerate(bins):
        label = "best answer right, with interval" if number == 0 else None
        arms = [[arm(each.accuracy, -1)], [arm(each.accuracy, 1)]]
        panel.errorbar(
            [each.confidence],
            [each.accuracy.value],
            yerr=arms,
            fmt="o",
            color=BLUE,
            capsize=3,
            markersize=5,
            label=label,
            zorder=3,
            clip_on=False,
        )
    panel.set_ylim(0, 1.04 * top)
    panel.grid(alpha=0.3)


def plot_segments(report: Report, path: str | Path, *, num_segments: int = 25) -> Path:
    """Cross-entropy and recall@1 of the worst segments that are not small; the dashed line is everybody."""
    shown = [segment for segment in report.segments if not segment.is_small]
    if not shown:
        raise ConfigurationError(
            f"No segment has {report.settings.min_segment_clusters} {plural(report.settings.cluster_name)}: "
            "nothing to draw",
            fix="Evaluate more rows, or lower min_segment_clusters.",
        )
    total = len(shown)
    shown = sorted(shown, key=lambda segment: -segment.metrics[CROSS_ENTROPY].value)[:num_segments]
    figure = new_figure(10.5, 1.9 + 0.27 * len(shown))
    panels = figure.subplots(1, 2, sharey=True)
    for panel, key in zip(panels, (CROSS_ENTROPY, recall_key(1)), strict=True):
        for height, segment in enumerate(shown):
            draw_whisker(panel, height, segment.metrics[key], colour=BLUE)
        if key in report.metrics:
            panel.axvline(report.metrics[key].value, color=GREY, linestyle="--", linewidth=1, zorder=0)
        label_metric(panel, key)
    names = [f"{shorten(segment.name)}  (n = {segment.num_rows:,})" for segment in shown]
    panels[0].set_yticks(range(len(shown)), names)
    panels[0].set_ylim(len(shown) - 0.5, -0.5)
    count = f"the worst {len(shown)} of {total}" if total > len(shown) else f"all {total}"
    level, name = 100 * report.settings.level, report.settings.cluster_name
    limits = f"with at least {report.settings.min_segment_clusters} {plural(name)}; whiskers: {level:g}% interval"
    set_title(figure, f"Segments by cross-entropy: {count}", f"{limits}; dashed: everybody")
    return save_picture(figure, path)


def plot_importance(importances: FeatureImportances, path: str | Path) -> Path:
    """The rise of the cross-entropy without each feature, with its interval; the line is 0: nothing is lost."""
    rows = importances.rows
    figure = new_figure(7.5, 1.9 + 0.34 * len(rows))
    panel = figure.subplots()
    # All features together may lose so much that the single ones would look like one.
    shown = [(row.rise_nats.interval, "method" if height else "baseline") for height, row in enumerate(rows)]
    limits = near_range([(*ends(interval), role) for interval, role in shown])
    draw_rows(panel, shown, limits=limits, form=".3f")
    panel.axvline(0, color=GREY, linewidth=1, zorder=0)
    panel.set_yticks(range(len(rows)), [shorten(row.feature) for row in rows])
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.set_xlabel("rise of cross-entropy without it (nats), right of 0: the model needs it")
    panel.grid(axis="x", alpha=0.3)
    panel.xaxis.set_major_locator(MaxNLocator(6))
    settings = importances.settings
    is_permuted = importances.replaced_by == "permute"
    replaced = f"permuted among the {settings.set_name}s" if is_permuted else "called missing"
    level, name = 100 * settings.level, settings.cluster_name
    set_title(
        figure,
        f"What the model takes from each feature, on {importances.num_rows:,} {settings.row_name}s",
        f"values {replaced}; whiskers: {level:g}% interval over {importances.num_clusters:,} {plural(name)}",
    )
    return save_picture(figure, path)
