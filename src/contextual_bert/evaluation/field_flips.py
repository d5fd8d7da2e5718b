"""Counterfactual changes: how often the answer is another one when one field of the context says something else.

No model is known here: only what was the best choice before and after, and how far the probabilities moved. Reference:
Kusner et al. 2017 for counterfactual fairness; here nothing else of the context moves with the field.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Group

from contextual_bert.evaluation.intervals import Interval, bounded, cluster_intervals
from contextual_bert.evaluation.report import EvaluationSettings, rows_in_words
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import Provenance, Table, number_cell, render_markdown, render_rich
from contextual_bert.nouns import plural

ANY_OTHER = "any other value"
_Floats = NDArray[np.float64]
_Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Flip:
    """What changes where a field is set to one value, or to any other.

    Args:
        before: the value of the rows; empty where they have any.
        after: the value that they are given.
        num_rows, num_clusters: rows that said something else before, and their customers.
        changed: share of rows whose best choice is another one, 0 to 1.
        moved: mean total variation distance of the probabilities, 0 to 1.
        commonest: the best choice before and after that changes most often; empty where none does.
        share_of_commonest: its share of the rows, 0 to 1.
    """

    before: str
    after: str
    num_rows: int
    num_clusters: int
    changed: Interval
    moved: Interval
    commonest: tuple[str, ...]
    share_of_commonest: float


@dataclass(frozen=True)
class FieldFlips(JsonText):
    """How often answers change when one field says something else, all others kept.

    Formula: changed(v) = share of rows whose own value is not v with another best choice under v; moved(v) = mean over
        them of 1/2 * sum over choices of |Pr(choice | v) - Pr(choice | own value)|.

    Args:
        field: of the context.
        num_rows, num_sets, num_clusters: what was evaluated.
        settings: of the intervals, and what the rows are called.
        overall: over all rows and their other values: the mean over the values of each row, then over rows.
        values: one for each value that is given, in their order; none of a sensitive field.
        pairs: one for each value before and after, of enough customers; none of a sensitive field.
        num_suppressed: pairs of too few customers.
        provenance: data, commit, seeds, hardware, recipe.

    Relation to its siblings: `measure_flips` makes it. `FeatureImportances` says what the loss is without the field.
    """

    field: str
    num_rows: int
    num_sets: int
    num_clusters: int
    settings: EvaluationSettings
    overall: Flip
    values: tuple[Flip, ...]
    pairs: tuple[Flip, ...]
    num_suppressed: int
    provenance: Provenance

    def to_markdown(self) -> str:
        """Return tables and footer."""
        return render_markdown(self._heading(), self._tables(), self.notes())

    def to_rich(self) -> Group:
        """Return the same for a terminal."""
        return render_rich(self._heading(), self._tables(), self.notes())

    def notes(self) -> list[str]:
        """Return the footer: what a change is and is not, what the brackets are."""
        settings, name = self.settings, plural(self.settings.cluster_name)
        notes = [
            f"Each {settings.set_name} is given each other value of {self.field}; the rest of its context stays. "
            f"Changed: the best {settings.choice_name} is another one. Moved: total variation distance of the "
            "probabilities, 0 to 100.",
            "A change is what this model makes of the field. Whether it is unfair depends on what the field says: a "
            f"field that should decide changes answers, too. Other fields that go with {self.field} stay as they are.",
            f"Brackets: {100 * settings.level:g}% interval over {self.num_clusters:,} {name}.",
        ]
        if self.num_suppressed:
            notes.append(f"Left out: {self.num_suppressed:,} pairs of fewer than {settings.min_cell_clusters} {name}.")
        return [*notes, self.provenance.line()]

    def _heading(self) -> str:
        rows = rows_in_words(self.settings, self.num_rows, self.num_sets, self.num_clusters)
        return f"What changes when {self.field} says something else: {rows}"

    def _tables(self) -> list[Table]:
        columns = ("set to", "n", "changed (%)", "moved (%)", "commonest change")
        rows = tuple((each.after, *_cells(each)) for each in (self.overall, *self.values))
        tables = [Table(f"{self.field} of all rows", columns, rows)]
        if self.pairs:
            pairs = tuple((each.before, each.after, *_cells(each)) for each in self.pairs)
            tables.append(Table(f"From one {self.field} to another", ("from", "to", *columns[1:]), pairs, 2))
        return tables


def _cells(flip: Flip) -> tuple[str, ...]:
    share = f" ({100 * flip.share_of_commonest:.1f}%)" if flip.commonest else ""
    changed, moved = (
        f"{100 * each.value:.1f} [{number_cell(100 * each.low, '.1f')}, {number_cell(100 * each.high, '.1f')}]"
        for each in (flip.changed, flip.moved)
    )
    return f"{flip.num_rows:,}", changed, moved, " to ".join(flip.commonest) + share


class FlippedChoices(NamedTuple):
    """What a model chooses under each value of a field.

    Shapes: own, sets, clusters (rows,); best (rows, 1 + values), moved (rows, values).

    Args:
        own: number of each row's own value among the names.
        best: best choice of each row: its own, then that under each value.
        moved: total variation distance under each value.
        sets: number of each row's set or text.
        clusters: number of each row's customer.
    """

    own: _Ids
    best: _Ids
    moved: _Floats
    sets: _Ids
    clusters: _Ids


def measure_flips(
    field: str,
    names: Sequence[str],
    found: FlippedChoices,
    *,
    name_of: Callable[[int], str],
    settings: EvaluationSettings,
    is_sensitive: bool = False,
    provenance: Provenance | None = None,
) -> FieldFlips:
    """Measure what changes when a field is set to each of its values.

    Args:
        field: of the context.
        names: of the values that were given, then of those that rows have besides, such as "(missing)".
        found: what is chosen under each value.
        name_of: number of a choice -> its name.
        settings: of the intervals, and what the rows are called.
        is_sensitive: whether the values are to stand in no report.
        provenance: for the footer.

    Example:
        >>> settings, both = EvaluationSettings(ks=(1,), min_cell_clusters=1), np.arange(2)
        >>> best, moved = np.array([[7, 7, 8], [7, 7, 7]]), np.array([[0.0, 0.5], [0.25, 0.0]])
        >>> choices = FlippedChoices(both, best, moved, both, both)
        >>> found = measure_flips("sex", ["f", "m"], choices, name_of=str, settings=settings)
        >>> found.overall.changed.value, found.overall.moved.value, [each.commonest for each in found.values]
        (0.5, 0.375, [(), ('7', '8')])
    """
    own, best, moved, sets, clusters = found
    num_values = moved.shape[1]
    is_other = own[:, None] != np.arange(num_values)
    has_other = is_other.any(axis=1)
    is_changed = (best[:, 1:] != best[:, :1]).astype(np.float64)

    def flip(chosen: _Ids, columns: _Ids, *, before: str, after: str) -> Flip:
        asked = is_other[np.ix_(chosen, columns)]
        counts = asked.sum(axis=1)
        means = [
            np.where(asked, values[np.ix_(chosen, columns)], 0.0).sum(axis=1) / counts for values in (is_changed, moved)
        ]
        changed, distance = (
            bounded(_interval(each, clusters[chosen], settings.level), within=(0.0, 1.0), level=settings.level)
            for each in means
        )
        rows, places = (asked & (is_changed[np.ix_(chosen, columns)] > 0)).nonzero()
        commonest, share = (), 0.0
        if len(rows):
            changes = np.stack([best[chosen[rows], 0], best[chosen[rows], 1 + columns[places]]], axis=1)
            kinds, times = np.unique(changes, axis=0, return_counts=True)
            first = int(times.argmax())
            commonest, share = tuple(name_of(int(each)) for each in kinds[first]), float(times[first] / asked.sum())
        num_clusters = len(np.unique(clusters[chosen]))
        return Flip(before, after, len(chosen), num_clusters, changed, distance, commonest, share)

    overall = flip(np.flatnonzero(has_other), np.arange(num_values), before="", after=ANY_OTHER)
    values: list[Flip] = []
    pairs: list[Flip] = []
    num_suppressed = 0
    for number in [] if is_sensitive else range(num_values):
        others = np.flatnonzero(is_other[:, number])
        if len(others):
            values.append(flip(others, np.array([number]), before="", after=names[number]))
        for before in map(int, np.unique(own)):
            chosen = np.flatnonzero((own == before) & is_other[:, number])
            if len(np.unique(clusters[chosen])) >= max(1, settings.min_cell_clusters):
                pairs.append(flip(chosen, np.array([number]), before=names[before], after=names[number]))
            else:
                num_suppressed += before != number
    return FieldFlips(
        field=field,
        num_rows=len(own),
        num_sets=len(np.unique(sets)),
        num_clusters=len(np.unique(clusters)),
        settings=settings,
        overall=overall,
        values=tuple(values),
        pairs=tuple(pairs),
        num_suppressed=int(num_suppressed),
        provenance=provenance or Provenance(),
    )


def _interval(values: _Floats, clusters: _Ids, level: float) -> Interval:
    codes = np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    return cluster_intervals(values, codes, [np.arange(len(values))], level=level)[0]
