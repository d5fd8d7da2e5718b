"""Layout of point labels in a picture: near their points, on nothing else.

Paper: not there.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from contextual_bert.evaluation.drawing import GREY

_SIZE = 9  # of the letters, in points
_STEPS = 24  # of the line from a name to its point, where it is looked at for what it crosses


class LabelledPoint(NamedTuple):
    """A name, and where its point is; ``error`` is the length of its whisker upwards and downwards."""

    name: str
    across: float
    height: float
    error: float = 0.0


def place_labels(figure: Figure, panel: Axes, points: Sequence[LabelledPoint], *, line: float | None) -> None:
    """Write each name where it covers no point, whisker, other name or line, as near as may be, and join the two by a
    line that crosses no other point.

    Args:
        figure: whole, but for the names.
        panel: of the points.
        points: with their names.
        line: the height of a line from side to side.
    """
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    renderer, frame, pixels = canvas.get_renderer(), panel.get_window_extent(), figure.dpi / 72
    marks = [_mark(panel, point, size=5 * pixels) for point in points]
    taken = list(marks)
    if line is not None:
        _, middle = panel.transData.transform((points[0].across, line))
        taken.append(Bbox.from_extents(frame.x0, middle - pixels, frame.x1, middle + pixels))
    for number, point in enumerate(points):
        measured = panel.text(point.across, point.height, point.name, fontsize=_SIZE)
        size, here = measured.get_window_extent(renderer), panel.transData.transform((point.across, point.height))
        measured.remove()
        boxes = [
            Bbox.from_bounds(here[0] + right - size.width / 2, here[1] + up - size.height / 2, size.width, size.height)
            for right, up in _offsets(size.width, size.height, gap=8 * pixels)
        ]
        others = [*marks[:number], *marks[number + 1 :], *taken[len(marks) :]]
        inside = [box for box in boxes if _is_inside(box, frame)] or boxes[:1]
        costs = [(_covered(box, taken), _num_crossed(box, here, others)) for box in inside]
        chosen = inside[costs.index(min(costs))]
        taken.append(chosen)
        joint: dict[str, Any] = {"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
        joint["relpos"] = tuple((_nearest(chosen, here) - chosen.min) / chosen.size)
        text = panel.annotate(
            point.name,
            (point.across, point.height),
            tuple((np.array([chosen.x0 + chosen.x1, chosen.y0 + chosen.y1]) / 2 - here) / pixels),
            textcoords="offset points",
            fontsize=_SIZE,
            ha="center",
            va="center",
            arrowprops=joint,
        )
        text.set_in_layout(False)  # the axes stay where the labels were measured


def _mark(panel: Axes, point: LabelledPoint, *, size: float) -> Bbox:
    """Return the box that a point and its whisker cover."""
    (x, low), (_, high) = panel.transData.transform(
        [(point.across, point.height - point.error), (point.across, point.height + point.error)]
    )
    return Bbox.from_extents(x - size, low - size, x + size, high + size)


def _offsets(width: float, height: float, *, gap: float) -> list[tuple[float, float]]:
    """Return the offsets at which a label may stand beside, above or below its point, the nearest first."""
    ways = [0.0, *(sign * (gap + (0.5 + 1.2 * ring) * height) for ring in range(6) for sign in (1, -1))]
    beside = [(sign * (width / 2 + gap), up) for up in ways for sign in (1, -1)]
    across = [(shift * width, up) for up in ways[1:] for shift in (0, 0.25, -0.25, 0.5, -0.5)]

    def distance(offset: tuple[float, float]) -> float:
        right, up = (max(0.0, abs(each) - size / 2) for each, size in zip(offset, (width, height), strict=True))
        return float(np.hypot(right, up))

    return sorted((*beside, *across), key=distance)


def _covered(box: Bbox, taken: Sequence[Bbox]) -> float:
    """The area of others that a box covers."""
    shared = (Bbox.intersection(box, other) for other in taken)
    return sum(both.width * both.height for both in shared if both is not None)


def _num_crossed(box: Bbox, here: NDArray[np.float64], others: Sequence[Bbox]) -> int:
    """Return the number of other boxes between a label and its point, without those on the point itself."""
    way = here + np.linspace(0, 1, _STEPS)[:, None] * (_nearest(box, here) - here)
    apart = (other for other in others if not other.contains(*here))
    return sum(any(other.contains(*each) for each in way) for other in apart)


def _nearest(box: Bbox, here: NDArray[np.float64]) -> NDArray[np.float64]:
    """The point of a box that is closest to another point: there the line begins."""
    return np.clip(here, box.min, box.max)


def _is_inside(box: Bbox, frame: Bbox) -> bool:
    margin = 0.3 * box.height
    is_across = box.x0 - margin >= frame.x0 and box.x1 + margin <= frame.x1
    return is_across and box.y0 - margin >= frame.y0 and box.y1 + margin <= frame.y1
