"""What every picture is made of: colours, a figure, whiskers, and a PNG file that is whole or not there.

Colours are Okabe and Ito's, which colour-blind readers can tell apart. It uses matplotlib's figures directly, without
pyplot's global state, and does not know what is drawn.

Paper: not there.
"""

import os
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.intervals import Interval

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PALETTE = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", RED, "#000000", "#F0E442")
MARKERS = "osD^vPX*"
GREY = "#888888"
_LONGEST_LABEL = 44


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, laid out without overlaps."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def set_title(figure: Figure, title: str, subtitle: str) -> None:
    """What is shown, and below it what the marks mean."""
    figure.suptitle(f"{title}\n{subtitle}", fontsize=10)


def draw_whisker(panel: Axes, height: float, interval: Interval, *, colour: str) -> None:
    """A value with its interval, lying; an unknown interval has no arms."""
    arms = [[arm(interval, -1)], [arm(interval, 1)]]
    panel.errorbar([interval.value], [height], xerr=arms, fmt="o", color=colour, capsize=3, markersize=5)


def arm(interval: Interval, direction: int) -> float:
    """The length of the arm above (1) or below (-1) the value, 0 where it is unknown."""
    edge = known_or(interval.high, interval.value) if direction > 0 else known_or(interval.low, interval.value)
    return max(0.0, direction * (edge - interval.value))


def known_or(number: float, otherwise: float = 0.0) -> float:
    """The number, or another one where it is NaN."""
    return number if number == number else otherwise


def shorten(name: str) -> str:
    """A label that leaves room for the picture."""
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"


def save_png(figure: Figure, path: str | Path) -> Path:
    """Write the picture: whole, or not at all."""
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise ConfigurationError(f"{target} does not end with .png. Plots are PNG files.")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        figure.savefig(temporary, format="png", dpi=150)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target
