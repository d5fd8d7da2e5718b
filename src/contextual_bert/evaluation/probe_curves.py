"""Accuracy of linear probes by layer, with intervals, as a table and a picture. It knows hits, no model.

Paper: not there. Reference: Tenney et al. (2019); Hewitt and Liang (2019), "Designing and Interpreting Probes with
Control Tasks": an accuracy says something beside a control alone.
"""

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.evaluation.drawing import BLUE, GREY, ORANGE, ends, new_figure, shorten
from contextual_bert.evaluation.intervals import ClusterBootstrap, Interval
from contextual_bert.evaluation.tables import Table

PROBES_FILE = "probes.png"


@dataclass(frozen=True, kw_only=True)
class ProbeCurve:
    """How well one target is read from each layer, in percent of the rows.

    Args:
        target: the label, or a field of the context.
        num_classes: that training has.
        num_train: rows that the probes learned from.
        layers: accuracy of a probe of the input and of each layer.
        mixture: accuracy of a probe of the learned mixture.
        weights: of the input and of each layer in that mixture.
        most_common: accuracy of the most common class of training.
        shuffled: as ``layers``, of a model that was given the contexts of others; None where it reads none.
    """

    target: str
    num_classes: int
    num_train: int
    layers: tuple[Interval, ...]
    mixture: Interval
    weights: tuple[float, ...]
    most_common: Interval
    shuffled: tuple[Interval, ...] | None

    def table(self) -> Table:
        """Return a row a layer."""
        has_control = self.shuffled is not None
        control = [_cell(each) for each in self.shuffled or ()]
        rows = [
            (_name(layer), _cell(accuracy), *([control[layer]] if has_control else []), f"{self.weights[layer]:.2f}")
            for layer, accuracy in enumerate(self.layers)
        ]
        empty = ("-",) if has_control else ()
        rows += [
            ("mixture", _cell(self.mixture), *empty, "1.00"),
            ("most common class", _cell(self.most_common), *empty, "-"),
        ]
        columns = ("layer", "accuracy, %", *(["contexts of others"] if has_control else []), "weight in the mixture")
        known = f"{self.num_classes} classes, {self.num_train:,} training rows, {self.mixture.num_rows:,} scored"
        return Table(f"Probe of {self.target}: {known}", columns, tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return names and numbers for JSON; an unknown end of an interval is null."""
        found: dict[str, Any] = asdict(self)
        for name in ("layers", "shuffled"):
            found[name] = None if found[name] is None else [_known(each) for each in found[name]]
        return found | {name: _known(found[name]) for name in ("mixture", "most_common")}


def measure_probe(
    target: str,
    hits: NDArray[np.bool_],
    *,
    shuffled: NDArray[np.bool_] | None,
    clusters: NDArray[Any],
    weights: Sequence[float],
    num_classes: int,
    num_train: int,
) -> ProbeCurve:
    """Return the accuracies with their intervals, of a bootstrap over clusters.

    Shapes:
        hits (layers + 2, rows): the input and each layer, then the mixture and the most common class; shuffled (layers,
        rows); clusters (rows,).

    Example:
        >>> hits = np.array([[True, False], [True, True], [True, True], [False, True]])
        >>> found = measure_probe(
        ...     "age", hits, shuffled=None, clusters=np.array([0, 1]), weights=(0.1, 0.9), num_classes=2, num_train=9
        ... )
        >>> [each.value for each in found.layers], found.most_common.value
        ([50.0, 100.0], 50.0)
    """
    columns = 100 * np.concatenate([hits, *([shuffled] if shuffled is not None else [])]).T.astype(np.float64)
    draws = ClusterBootstrap(clusters)
    replicates = draws.resampled_means(columns)
    found = [
        draws.interval(float(column.mean()), replicates[:, number], within=(0.0, 100.0))
        for number, column in enumerate(columns.T)
    ]
    count = len(weights)
    return ProbeCurve(
        target=target,
        num_classes=num_classes,
        num_train=num_train,
        layers=tuple(found[:count]),
        mixture=found[count],
        weights=tuple(weights),
        most_common=found[count + 1],
        shuffled=tuple(found[count + 2 :]) if shuffled is not None else None,
    )


def draw_probes(curves: Sequence[ProbeCurve]) -> bytes:
    """Return a PNG: a panel a target, accuracy over layers above and the weights of the mixture below."""
    figure = new_figure(1 + 3.2 * len(curves), 4.4)
    panels = figure.subplots(2, len(curves), squeeze=False, sharex="col", height_ratios=(3, 1))
    for number, curve in enumerate(curves):
        above, below = panels[0][number], panels[1][number]
        layers = np.arange(len(curve.layers))
        lines = [(curve.layers, BLUE, "o-", "own context" if curve.shuffled else "accuracy")]
        lines += [(curve.shuffled, ORANGE, "s--", "contexts of others")] if curve.shuffled else []
        for intervals, colour, style, label in lines:
            above.plot(layers, [each.value for each in intervals], style, color=colour, markersize=4, label=label)
            low, high = zip(*map(ends, intervals), strict=True)
            above.fill_between(layers, low, high, color=colour, alpha=0.15, linewidth=0)
        above.axhline(curve.most_common.value, color=GREY, linestyle=":", linewidth=1.5, label="most common class")
        above.set_title(shorten(curve.target), fontsize=10)
        above.grid(axis="y", alpha=0.3)
        below.bar(layers, curve.weights, color=BLUE)
        below.set_xticks(layers, ["in", *map(str, layers[1:])], fontsize=7 if len(layers) > 9 else 9)
        below.set_xlabel("layer")
    panels[0][0].set_ylabel("accuracy (%), higher is better")
    panels[1][0].set_ylabel("weight")
    panels[0][0].legend(fontsize=7)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=150)
    return written.getvalue()


def _name(layer: int) -> str:
    return str(layer) if layer else "input"


def _cell(interval: Interval) -> str:
    low, high = ends(interval)
    return f"{interval.value:.1f} [{low:.1f}, {high:.1f}]"


def _known(interval: dict[str, Any]) -> dict[str, Any]:
    return {name: value if value == value else None for name, value in interval.items()}
