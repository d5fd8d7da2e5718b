"""Picture of prediction sets: how often those of each segment held the true choice, beside what was asked."""

from pathlib import Path

from matplotlib.ticker import MaxNLocator

from contextual_bert.evaluation.calibrated_answers import TOLERANCE, CalibratedAnswers, SetCoverage
from contextual_bert.evaluation.drawing import BLUE, GREY, draw_whisker, new_figure, save_picture, set_title, shorten
from contextual_bert.evaluation.intervals import Interval
from contextual_bert.nouns import plural


def plot_set_coverage(answers: CalibratedAnswers, path: str | Path, *, num_segments: int = 30) -> Path:
    """Draw a panel for each coverage: all rows, then the segments that are furthest from it, with intervals.

    Args:
        answers: what is drawn.
        path: of the PNG.
        num_segments: drawn at most.
    """
    settings, segments = answers.settings, list(answers.segments)
    segments.sort(key=lambda each: -max(abs(own.covered.value - own.coverage) for own in each.sets))
    shown = segments[:num_segments]
    names = [f"all (n = {answers.num_rows:,})"]
    names += [shorten(f"{each.feature} = {each.value}") + f"  (n = {each.num_rows:,})" for each in shown]
    rows = [answers.sets, *(each.sets for each in shown)]
    figure = new_figure(4.0 + 3.2 * len(answers.sets), 2.0 + 0.27 * len(rows))
    panels = figure.subplots(1, len(answers.sets), sharey=True, squeeze=False)[0]
    for number, panel in enumerate(panels):
        asked = answers.sets[number].coverage
        panel.axvspan(100 * (asked - TOLERANCE), 100 * (asked + TOLERANCE), color=GREY, alpha=0.2, linewidth=0)
        panel.axvline(100 * asked, color=GREY, linestyle="--", linewidth=1, zorder=0)
        for height, sets in enumerate(rows):
            draw_whisker(panel, height, _in_percent(sets[number]), colour=BLUE)
        panel.set_xlabel(f"sets that hold the true {settings.choice_name} (%),\n{100 * asked:g} asked")
        panel.grid(axis="x", alpha=0.3)
        panel.xaxis.set_major_locator(MaxNLocator(5))
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    level = f"{100 * settings.level:g}% interval over {answers.num_clusters:,} {plural(settings.cluster_name)}"
    count = f"{len(shown)} of {len(segments)} segments of at least {answers.min_rows:,} rows, the furthest off first"
    set_title(figure, f"Prediction sets: {count}", f"whiskers: {level}; grey: within one point")
    return save_picture(figure, path)


def _in_percent(sets: SetCoverage) -> Interval:
    """Return the share and its interval in percent."""
    own = sets.covered
    ends = (100 * own.low, 100 * own.high)
    return Interval(100 * own.value, *ends, 100 * own.standard_error, own.num_rows, own.num_clusters)
