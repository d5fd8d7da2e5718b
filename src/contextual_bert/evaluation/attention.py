"""Maps of attention with a context and without it: tables of what moved, and a figure of each layer and head.

The figure is HTML that runs no script: radio buttons choose the layer and the head. This module knows names and
numbers, no model. Paper: not there. Reference: Jain and Wallace (2019), "Attention is not Explanation": a map says
where a layer looked, not why an answer came out.
"""

import base64
import io
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from contextual_bert.evaluation.drawing import BLUE, RED, escaped, new_figure
from contextual_bert.evaluation.pages import render_template
from contextual_bert.evaluation.tables import Table

Maps = NDArray[np.float32]  # (heads, rows, positions), from each row to each position
MEAN = "mean of heads"
_LEVELS = 63  # of colour, besides none
_LEAST_CHANGE = 0.0005
_WHITE = "#ffffff"


class AttentionChange(NamedTuple):
    """The share of its attention that a head gives from one position to another, with the context and without it."""

    layer: int
    head: str
    source: str
    target: str
    share: float
    compared: float


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionMaps:
    """Attention of each layer under a context, and what it is compared with.

    Args:
        tokens: name of each position.
        layers: the maps of each layer.
        heads: names of the heads of each layer.
        compared: the maps of each layer without the context, between the positions of ``shared``; None: there are none.
        shared: the positions that both have. The words of a context are in one alone.
        rows: names of what looks, where it is not the positions themselves: the tokens that a decoder writes.

    Example:
        >>> maps = np.eye(2, dtype=np.float32)[None]
        >>> AttentionMaps(tokens=("a", "b"), layers=(maps,), heads=(("1",),), compared=(maps[:, ::-1],)).moved(0)
        array([1.])
    """

    tokens: tuple[str, ...]
    layers: tuple[Maps, ...]
    heads: tuple[tuple[str, ...], ...]
    compared: tuple[Maps, ...] | None = None
    shared: tuple[int, ...] | None = None
    rows: tuple[str, ...] | None = None

    @property
    def shared_tokens(self) -> tuple[str, ...]:
        """Names of the positions that both have."""
        return self.tokens if self.shared is None else tuple(self.tokens[place] for place in self.shared)

    def pair(self, layer: int) -> tuple[Maps, Maps]:
        """Return the maps of a layer between the positions that both have: with the context and without it."""
        assert self.compared is not None
        own = self.layers[layer]
        if self.shared is not None:
            own = (own if self.rows is not None else own[:, self.shared])[:, :, self.shared]
        return own, self.compared[layer]

    def moved(self, layer: int) -> NDArray[np.float64]:
        """Return the share of its attention that each head gives elsewhere without the context, (heads,).

        Formula: mean over rows i of 1/2 sum over j of |a_ij - b_ij|, the total variation distance
        """
        with_context, without = (each.astype(np.float64) for each in self.pair(layer))
        return 0.5 * np.abs(with_context - without).sum(axis=2).mean(axis=1)

    def changes(self, most: int = 15) -> list[AttentionChange]:
        """Return the largest differences of all heads, the largest first; none that three digits do not show."""
        found: list[AttentionChange] = []
        names = self.shared_tokens
        rows = self.rows or names
        for layer in range(len(self.layers)):
            own, other = self.pair(layer)
            difference = np.abs(own - other).ravel()
            for index in np.argsort(-difference, kind="stable")[:most].tolist():
                head, source, target = (int(each) for each in np.unravel_index(index, own.shape))
                change = AttentionChange(
                    layer=layer + 1,
                    head=self.heads[layer][head],
                    source=f"{rows[source]} ({source + 1})",
                    target=f"{names[target]} ({target + 1})",
                    share=float(own[head, source, target]),
                    compared=float(other[head, source, target]),
                )
                found.append(change)
        shown = [each for each in found if abs(each.share - each.compared) >= _LEAST_CHANGE]
        return sorted(shown, key=lambda each: -abs(each.share - each.compared))[:most]

    def tables(self, *, compared: str, noun: str = "attention") -> list[Table]:
        """Return a table of the attention that moved in each layer, and one of the largest changes.

        Args:
            compared: what the context is compared with, for the headings.
            noun: what the maps are of, for the titles.
        """
        if not self.compared:
            return []
        layers = []
        for layer, heads in enumerate(self.heads):
            moved = self.moved(layer)
            layers.append((str(layer + 1), heads[int(moved.argmax())], f"{moved.mean():.1%}", f"{moved.max():.1%}"))
        rows = [
            (*map(str, each[:4]), *(f"{share:.3f}" for share in each[4:]), f"{each.share - each.compared:+.3f}")
            for each in self.changes()
        ]
        columns = ("layer", "head", "from", "to", "with", compared, "difference")
        moved = Table(
            f"{noun.capitalize()} that the context moves, by layer",
            ("layer", "head that moves most", MEAN, "that head"),
            tuple(layers),
            num_label_columns=2,
        )
        return [
            moved,
            *([Table(f"The largest changes of {noun}", columns, tuple(rows), num_label_columns=4)] if rows else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return names and numbers, the mean over heads of each layer, for JSON."""
        found: dict[str, Any] = {"tokens": [*self.tokens], "layers": []}
        if self.rows is not None:
            found["rows"] = [*self.rows]
        if self.compared is not None:
            found["shared_tokens"] = [*self.shared_tokens]
            found["changes"] = [each._asdict() for each in self.changes()]
        for layer, maps in enumerate(self.layers):
            entry: dict[str, Any] = {"layer": layer + 1, "attention": _rounded(maps.mean(axis=0))}
            if self.compared is not None:
                entry["compared"] = _rounded(self.compared[layer].mean(axis=0))
                entry["moved"] = dict(zip(self.heads[layer], _rounded(self.moved(layer)), strict=True))
            found["layers"].append(entry)
        return found

    def to_png(self, *, layer: int = -1) -> bytes:
        """Return a picture of one layer, the mean of its heads, with the names of rows and positions.

        Args:
            layer: from 0; -1 is the last.
        """
        rows = self.rows or self.tokens
        figure = new_figure(1.5 + 0.3 * len(self.tokens), 1.2 + 0.25 * len(rows))
        panel = figure.subplots()
        image = panel.imshow(self.layers[layer].mean(axis=0), cmap="Blues", vmin=0, aspect="auto")
        panel.set_xticks(range(len(self.tokens)), list(map(escaped, self.tokens)), rotation=90)
        panel.set_yticks(range(len(rows)), list(map(escaped, rows)))
        panel.xaxis.tick_top()
        figure.colorbar(image, label="share of the row's attention")
        written = io.BytesIO()
        figure.savefig(written, format="png", dpi=110)
        return written.getvalue()

    def to_html(self, *, compared: str, figure_id: str = "attention") -> Markup:
        """Return the figure: the maps of the chosen layer and head beside each other.

        Args:
            compared: what the context is compared with, for the headings.
            figure_id: of the figure, which no other on the page has.
        """
        title = "with the context" if self.compared is not None else "attention"
        panels = [_Panel(title, self.rows or self.tokens, self.tokens, [])]
        if self.compared is not None:
            rows = self.rows or self.shared_tokens
            panels += [_Panel(title, rows, self.shared_tokens, []) for title in (compared, "difference")]
        for layer, maps in enumerate(self.layers):
            own = [maps.mean(axis=0, keepdims=True), maps]
            other = None
            if self.compared is not None:
                left, right = self.pair(layer)
                other = [np.concatenate([each.mean(axis=0, keepdims=True), each]) for each in (left, right)]
            for head, map_of_head in enumerate(np.concatenate(own)):
                highest = float(map_of_head.max())
                if other is not None:
                    highest = max(highest, float(other[1][head].max()))
                    difference = other[0][head] - other[1][head]
                    largest = float(np.abs(difference).max())
                    scaled = 0.5 + difference / (2 * largest or 1)
                    panels[1].add(layer, head, other[1][head] / highest, f"darkest: {highest:.2g}", _SHARES)
                    panels[2].add(layer, head, scaled, f"darkest: {largest:.2g}; blue is more with it", _DIFFERENCES)
                panels[0].add(layer, head, map_of_head / highest, f"darkest: {highest:.2g}", _SHARES)
        most = max(self.heads, key=len)
        return render_template(
            "attention.html", figure_id=figure_id, panels=panels, layers=self.heads, heads=(MEAN, *most)
        )


class _Image(NamedTuple):
    """A map as a picture: its place among the choices, the PNG, and what its colours mean."""

    layer: int
    head: int
    data: str
    scale: str


class _Panel(NamedTuple):
    """The pictures of all layers and heads that share their names of positions."""

    title: str
    rows: Sequence[str]
    tokens: Sequence[str]
    images: list[_Image]

    def add(self, layer: int, head: int, levels: NDArray[Any], scale: str, palette: bytes) -> None:
        png = base64.b64encode(heat_png(levels, palette)).decode("ascii")
        self.images.append(_Image(layer, head, png, scale))


def heat_png(levels: NDArray[Any], palette: bytes) -> bytes:
    """Return a PNG with a pixel a cell.

    Args:
        levels: (rows, columns), from 0 to 1.
        palette: of the colours from 0 to 1, as ``colours_between`` gives it.

    Example:
        >>> heat_png(np.zeros((2, 3)), colours_between("#ffffff", "#0072B2"))[16:24]  # width and height
        b'\\x00\\x00\\x00\\x03\\x00\\x00\\x00\\x02'
    """
    cells = np.rint(np.clip(levels, 0, 1) * _LEVELS).astype(np.uint8)
    rows = np.pad(cells, ((0, 0), (1, 0)))  # each begins with the number of its filter: none
    header = struct.pack(">IIBBBBB", cells.shape[1], cells.shape[0], 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def colours_between(*colours: str) -> bytes:
    """Return the palette of a PNG that goes from the first colour to the last."""
    stops = np.array([[int(each[start : start + 2], 16) for start in (1, 3, 5)] for each in colours], dtype=float)
    places = np.linspace(0, len(colours) - 1, _LEVELS + 1)
    channels = [np.interp(places, np.arange(len(colours)), stops[:, channel]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=1)).astype(np.uint8).tobytes()


def _rounded(values: NDArray[Any]) -> Any:
    return np.round(values.astype(np.float64), 4).tolist()


_SHARES, _DIFFERENCES = colours_between(_WHITE, BLUE), colours_between(RED, _WHITE, BLUE)
