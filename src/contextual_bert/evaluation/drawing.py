"""Shared parts of all pictures: colours, whiskers, labels with units, and atomic files.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; a marker repeats what a colour says. This module
does not know what is drawn. It uses matplotlib's figures directly, without pyplot's global state.

Paper: not there.
"""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from contextual_bert.atomic_files import replacing_file
from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.intervals import Interval
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, metric_of
from contextual_bert.places import PathPlace
from contextual_bert.printable import printable

BLUE, ORANGE, GREEN, RED, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9"
PALETTE = (BLUE, ORANGE, GREEN, "#CC79A7", SKY, RED, "#000000", "#F0E442")
MARKERS = "osD^vPX*"
GREY = "#888888"
ROLE_COLOURS = {"method": BLUE, "control": GREY, "baseline": ORANGE, "oracle": GREEN}
_LONGEST_LABEL = 44
_PANEL_WIDTH = 29  # letters above a panel of 2.5 inches
_FEWEST_FOR_RANGE = 3


def new_figure(width: float, height: float) -> Figure:
    """A figure of this many inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def set_title(figure: Figure, title: str, subtitle: str) -> None:
    figure.suptitle(escaped(f"{title}\n{subtitle}"), fontsize=10)


def style_of(index: int) -> tuple[str, str, str]:
    """Colour, marker and line of the curve with this number: the second round of colours has other markers.

    Example:
        >>> style_of(0), style_of(8)
        (('#0072B2', 'o', '-'), ('#0072B2', 's', '-.'))
    """
    turn, place = divmod(index, len(PALETTE))
    return PALETTE[place], MARKERS[(place + turn) % len(MARKERS)], "-" if turn == 0 else "-."


def draw_whisker(panel: Axes, height: float, interval: Interval, *, colour: str) -> None:
    """A point and its interval, lying, at this height."""
    arms = [[arm(interval, -1)], [arm(interval, 1)]]
    panel.errorbar([interval.value], [height], xerr=arms, fmt="o", color=colour, capsize=3, markersize=5)


def draw_rows(panel: Axes, rows: Sequence[tuple[Interval, str]], *, limits: tuple[float, float], form: str) -> None:
    """Whiskers, the first on top, in the colours of their roles; what is beyond the limits is a number at the edge."""
    low, high = limits
    for height, (interval, role) in enumerate(rows):
        if low <= interval.value <= high:
            draw_whisker(panel, height, interval, colour=ROLE_COLOURS[role])
            continue
        is_right = interval.value > high
        panel.annotate(
            f"{interval.value:{form}} →" if is_right else f"← {interval.value:{form}}",
            (1 if is_right else 0, height),
            (-4 if is_right else 4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right" if is_right else "left",
            va="center",
            fontsize=8,
            color=ROLE_COLOURS[role],
        )


def ends(interval: Interval) -> tuple[float, float]:
    """Return the ends of an interval's whisker; the value itself if they are unknown."""
    return interval.value - arm(interval, -1), interval.value + arm(interval, 1)


def near_range(rows: Sequence[tuple[float, float, str]]) -> tuple[float, float]:
    """Between which values a picture shows points: with far baselines among them, the others would look like one.

    Args:
        rows: where the whisker of each begins and ends, with its role.

    Returns:
        The range of all that are no baselines and as much again on both sides; without an end where fewer than three
        are none.

    Example:
        >>> near_range([(3.0, 3.5, "method"), (3.2, 3.4, "method"), (2.5, 2.5, "oracle"), (6.6, 6.7, "baseline")])
        (1.5, 4.5)
    """
    others = [row for row in rows if row[2] != "baseline"]
    if len(others) < _FEWEST_FOR_RANGE:
        return -math.inf, math.inf
    low, high = min(row[0] for row in others), max(row[1] for row in others)
    return low - (high - low), high + (high - low)


def label_metric(panel: Axes, key: str) -> None:
    """The metric's name, unit and direction below the panel."""
    metric = metric_of(key)
    name = "cross-entropy (nats)" if key == CROSS_ENTROPY else metric.heading
    panel.set_xlabel(f"{name}, {'higher' if metric.is_higher_better else 'lower'} is better")
    panel.grid(axis="x", alpha=0.3)
    panel.xaxis.set_major_locator(MaxNLocator(6))


def arm(interval: Interval, direction: int) -> float:
    """The length of a whisker to the left (-1) or right (1); 0 where the interval is unknown."""
    edge = known(interval.high, interval.value) if direction > 0 else known(interval.low, interval.value)
    return max(0.0, direction * (edge - interval.value))


def known(number: float, otherwise: float = 0.0) -> float:
    """The number, or another where it is NaN."""
    return number if number == number else otherwise


def shorten(name: str) -> str:
    """A name as a picture shows it: plain, and cut in the middle where it is long.

    Example:
        >>> print(shorten("$5-$10"), shorten("state " + 60 * "." + " end"))
        \\$5-\\$10 state ...............….................. end
    """
    half = _LONGEST_LABEL // 2
    return escaped(name if len(name) <= _LONGEST_LABEL else f"{name[: half - 1]}…{name[-half:]}")


def escaped(text: str) -> str:
    """Text without control characters, in which a dollar is no sign of mathematics to matplotlib."""
    return printable(text).replace("$", r"\$")


def broken(name: str) -> str:
    """The name of a row on lines that fit above a small panel, broken behind underlines.

    Example:
        >>> broken("global_state_update_field_dropout").split("\\n")
        ['global_state_update_field_', 'dropout']
    """
    return textwrap.fill(shorten(name).replace("_", "_ "), _PANEL_WIDTH).replace("_ ", "_")


def save_picture(figure: Figure, path: str | Path) -> Path:
    """Write a PNG file whole, or not at all."""
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise ConfigurationError("does not end with .png", fix="Plots are PNG files.", place=PathPlace(target))
    with replacing_file(target) as partial:
        figure.savefig(partial, format="png", dpi=150)
    return target
