"""Picture of counterfactual changes: how often answers change under each value of a field."""

from dataclasses import replace
from pathlib import Path

from contextual_bert.evaluation.drawing import BLUE, GREY, draw_whisker, new_figure, save_picture, set_title, shorten
from contextual_bert.evaluation.field_flips import FieldFlips
from contextual_bert.evaluation.intervals import Interval
from contextual_bert.nouns import plural


def plot_flips(flips: FieldFlips, path: str | Path, *, num_values: int = 40) -> Path:
    """Draw the share of changed answers and how far probabilities moved, of all rows and under each value.

    Args:
        flips: what is drawn.
        path: of the PNG.
        num_values: drawn at most, those that change most.
    """
    rows = [flips.overall, *sorted(flips.values, key=lambda each: -each.changed.value)[:num_values]]
    figure = new_figure(9.5, 1.9 + 0.3 * len(rows))
    panels = figure.subplots(1, 2, sharey=True)
    labels = ("answers that change (%)", "probability that moves (%)")
    for panel, label, intervals in zip(
        panels, labels, zip(*((each.changed, each.moved) for each in rows), strict=True), strict=True
    ):
        for height, interval in enumerate(intervals):
            draw_whisker(panel, height, _in_percent(interval), colour=BLUE if height else GREY)
        panel.set_xlim(0, None)
        panel.set_xlabel(label)
        panel.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(rows)), [shorten(each.after) for each in rows])
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    settings = flips.settings
    level = f"{100 * settings.level:g}% interval over {flips.num_clusters:,} {plural(settings.cluster_name)}"
    title = f"{flips.field} set to another value, {flips.num_rows:,} {settings.row_name}s"
    set_title(figure, title, f"the rest of the context kept; whiskers: {level}")
    return save_picture(figure, path)


def _in_percent(interval: Interval) -> Interval:
    low, high, error = (100 * each for each in (interval.low, interval.high, interval.standard_error))
    return replace(interval, value=100 * interval.value, low=low, high=high, standard_error=error)
