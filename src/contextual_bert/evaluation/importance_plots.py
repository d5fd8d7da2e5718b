"""A picture of what a model takes from each feature; `plots` draws reports and comparisons.

Every axis names its unit. This module draws what it is given and computes nothing.

Paper: not there.
"""

from pathlib import Path

from matplotlib.ticker import MaxNLocator

from contextual_bert.evaluation.drawing import (
    GREY,
    draw_rows,
    ends,
    near_range,
    new_figure,
    save_picture,
    set_title,
    shorten,
)
from contextual_bert.evaluation.importance import FeatureImportances
from contextual_bert.nouns import plural


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
