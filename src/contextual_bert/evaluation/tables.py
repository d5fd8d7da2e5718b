"""Tables of numbers, rendered for a terminal and as Markdown, with their provenance.

This module does not know what is in a table; `report` and `comparison` fill it.

Paper: the layout of Table 1. Provenance: docs/protocol.md, "Provenance".
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.box import HORIZONTALS
from rich.console import Console, ConsoleOptions, Group
from rich.table import Table as RichTable
from rich.text import Text

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.intervals import Difference, Interval, SeedMean
from contextual_bert.evaluation.metrics import NEXT_ITEM, Metric
from contextual_bert.printable import printable

# A terminal may break longer names, but no shorter ones.
_LABEL_WIDTH = 24
# Blanks and rules around a cell.
_PADDING = 3
# Below it three digits would say that there is no chance at all.
_LEAST_P = 0.0005
_LARGEST_EXPONENT = 700


@dataclass(frozen=True)
class Provenance:
    """Provenance of a number. What was not recorded is printed as such."""

    data_digest: str | None = None
    commit: str | None = None
    seeds: tuple[int, ...] = ()
    hardware: str | None = None
    recipe: str | None = None

    def line(self) -> str:
        """The footer of a table.

        Example:
            >>> Provenance(data_digest="1f3a", seeds=(0, 1)).line()
            'Data 1f3a; commit not recorded; seeds 0, 1; hardware not recorded; recipe not recorded.'
        """
        seeds = ", ".join(str(seed) for seed in self.seeds)
        parts = {
            "data": self.data_digest,
            "commit": self.commit,
            "seeds": seeds,
            "hardware": self.hardware,
            "recipe": self.recipe,
        }
        text = "; ".join(f"{name} {value or 'not recorded'}" for name, value in parts.items())
        return f"{text[0].upper()}{text[1:]}."


@dataclass(frozen=True)
class Table:
    """A title, headings and rows of text; the first `num_label_columns` are names, the rest numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    num_label_columns: int = 1

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ConfigurationError(
                f"The row {wrong[0]} does not have the {len(self.columns)} cells of {self.columns}"
            )

    def to_markdown(self) -> str:
        marks = [":--" if index < self.num_label_columns else "--:" for index in range(len(self.columns))]
        lines = [self.columns, marks, *self.rows]
        body = "\n".join(f"| {' | '.join(_escape(cell) for cell in line)} |" for line in lines)
        return f"**{_escape(self.title)}**\n\n{body}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RichTable]:
        # A terminal cuts off what is too wide: go on in a second table that repeats the names.
        widths = [
            _PADDING + max(len(line) for cell in cells for line in cell.split("\n"))
            for cells in zip(self.columns, *self.rows, strict=True)
        ]
        labels = list(range(self.num_label_columns))
        taken = sum(min(widths[index], _LABEL_WIDTH + _PADDING) for index in labels)
        groups: list[list[int]] = []
        used = options.max_width
        for index in range(self.num_label_columns, len(self.columns)):
            if not groups or used + widths[index] > options.max_width - 1:
                groups.append([])
                used = taken
            groups[-1].append(index)
            used += widths[index]
        for number, group in enumerate(groups or [[]]):
            yield self._part([*labels, *group], self.title if number == 0 else f"{self.title} (continued)")

    def _part(self, chosen: Sequence[int], title: str) -> RichTable:
        has_lines = any("\n" in cell for row in self.rows for cell in row)
        table = RichTable(title=Text(title), title_justify="left", box=HORIZONTALS, show_lines=has_lines)
        for index in chosen:
            widest = max((len(row[index]) for row in self.rows), default=0)
            if index < self.num_label_columns:
                table.add_column(Text(self.columns[index]), overflow="fold", min_width=min(widest, _LABEL_WIDTH))
            else:
                table.add_column(Text(self.columns[index]), justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(row[index]) for index in chosen))
        return table


def render_markdown(heading: str, tables: Sequence[Table], notes: Sequence[str]) -> str:
    """A heading, the tables, and the notes as a list."""
    listed = "\n".join(f"- {markdown_text(note)}" for note in notes)
    parts = [f"## {markdown_text(heading)}", *(table.to_markdown() for table in tables), listed]
    return "\n\n".join(parts) + "\n"


def markdown_text(text: str) -> str:
    """Words for Markdown, in which a value such as <unk> would be taken for HTML; what is code stays as it is.

    What would steer a terminal is spelt out: people print such files.

    Example:
        >>> print(markdown_text("Worst segment of `<none>`: brand = <b>"))
        Worst segment of `<none>`: brand = \\<b>
    """
    return re.sub(r"`[^`\n]+`|<", lambda found: "\\<" if found[0] == "<" else found[0], printable(text))


def render_rich(heading: str, tables: Sequence[Table], notes: Sequence[str]) -> Group:
    """The same for a terminal: `rich.print` it."""
    return Group(
        Text(heading, style="bold"),
        *tables,
        *(Text(note, style="dim") for note in notes),
    )


def number_cell(value: float, pattern: str) -> str:
    """A number for people; a dash where there is none, as of one seed or one customer.

    Example:
        >>> number_cell(0.5, ".2f"), number_cell(math.nan, "+.2f")
        ('0.50', '-')
    """
    return f"{value:{pattern}}" if math.isfinite(value) else "-"


def interval_cell(interval: Interval, metric: Metric, *, is_signed: bool = False) -> str:
    """Value and interval with the metric's digits.

    Example:
        >>> from contextual_bert.evaluation.metrics import metric_of
        >>> interval_cell(Interval(3.262, 3.241, 3.283, 0.01, 90, 30), metric_of("cross_entropy_nats"))
        '3.2620 [3.2410, 3.2830]'
    """
    pattern = f"{'+' if is_signed else ''}.{metric.digits}f"
    value = number_cell(interval.value, pattern)
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return f"{value} [unknown]"
    return f"{value} [{interval.low:{pattern}}, {interval.high:{pattern}}]"


def difference_cell(difference: Difference, metric: Metric, *, num_resamples: int) -> str:
    """Signed value, interval and corrected p-value of a difference, a line each.

    Example:
        >>> from contextual_bert.evaluation.metrics import metric_of
        >>> gain = Difference(Interval(-0.25, -0.5, 0.0, 0.1, 90, 30), p_value=0.05, adjusted_p_value=0.1)
        >>> difference_cell(gain, metric_of("cross_entropy_nats"), num_resamples=2000).split("\\n")
        ['-0.2500', '[-0.5000, +0.0000]', 'p = 0.100']
    """
    value, interval = interval_cell(difference.interval, metric, is_signed=True).split(" ", maxsplit=1)
    p_value = difference.adjusted_p_value
    if p_value is None or not math.isfinite(p_value):
        return f"{value}\n{interval}"
    # No resample was on the other side: more resamples could only make p smaller.
    is_limit = difference.p_value * (num_resamples + 1) <= 2
    number = f"{p_value:.3f}" if p_value >= _LEAST_P else f"{p_value:.1g}"
    return f"{value}\n{interval}\np {'≤' if is_limit else '='} {number}"


def seed_cell(value: SeedMean, metric: Metric) -> str:
    """Mean and, in brackets, standard error over seeds; (-) where there is one seed.

    Example:
        >>> from contextual_bert.evaluation.metrics import metric_of
        >>> seed_cell(SeedMean(8.53, 0.06, 3), metric_of("recall_at_1_percent"))
        '8.53 (0.06)'
    """
    pattern = f".{metric.digits}f"
    return f"{number_cell(value.mean, pattern)} ({number_cell(value.standard_error, pattern)})"


def metric_notes(
    *,
    num_items: int | None,
    left_out_ks: Sequence[int],
    choice: str = "item",
    row: str = "",
    cross_entropies: Mapping[str, float] | None = None,
) -> list[str]:
    """Return notes on the metrics, printed once under every table.

    Args:
        num_items: how many are ranked, if known.
        left_out_ks: ks of recall that say nothing.
        choice: what is ranked: an item, a label, a token, a word that is predicted from both sides.
        row: what a row asks for: a "hidden token", or a "token" that follows others.
        cross_entropies: name -> nats, of which the perplexity of tokens is told.
    """
    every = f"all {num_items:,} {choice}s" if num_items else f"all {choice}s"
    is_hidden = choice == "token" and row != "token"
    token = "masked token" if is_hidden else "token, given those before it,"
    item = row if row == NEXT_ITEM else "masked item"
    word = "word, given those before it and given those behind it,"
    what = {"item": item, "token": token, "word": word}.get(choice, f"true {choice}")
    notes = [
        f"CE: cross-entropy of the {what} in nats, lower is better. Recall@k (hit rate): percent of rows whose true "
        f"{choice} is among the first k of {every}, higher is better. Ties get their expected rank.",
    ]
    if choice in ("token", "word") and cross_entropies:
        told = ", ".join(f"{name} {_exponential(nats)}".strip() for name, nats in cross_entropies.items())
        name = "Pseudo-perplexity, e to the CE of each token hidden once (Salazar et al. 2020)"
        notes.append(f"{name if is_hidden else 'Perplexity, e to the CE'}, lower is better: {told}.")
    if left_out_ks:
        names = ", ".join(f"recall@{k}" for k in left_out_ks)
        notes.append(f"Left out: {names}. With {num_items} {choice}s it is 100% for every model.")
    return notes


def _exponential(nats: float) -> str:
    """E to these nats, which beyond 700 no number holds."""
    return f"{math.exp(nats):.2f}" if nats < _LARGEST_EXPONENT else f"e^{nats:.0f}"


def _escape(cell: str) -> str:
    return markdown_text(cell).replace("|", "\\|").replace("\n", " ")
