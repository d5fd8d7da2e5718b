"""Which feature of the context earns its place: how much worse the ranking gets when its values are permuted.

A rise pairs the same masked positions with and without the permutation and resamples customers. It says what one model
takes from a feature, not what a model trained without the feature would lose. A feature that is constant where it is
evaluated cannot be judged by a permutation; one may take its value away instead. This module does not know how a
feature is replaced, or what a model is: only the scores before and after.

References: Breiman 2001, section 10 (permutation importance); Holm 1979; docs/protocol.md, "Seeds and intervals".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Group

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.alignment import Run, align_runs
from contextual_bert.evaluation.intervals import ClusterBootstrap, Difference, Interval, cluster_codes, holm
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, exact_mean, metric_of, recall_key
from contextual_bert.evaluation.report import FEW_CLUSTERS, EvaluationSettings, rows_in_words
from contextual_bert.evaluation.scores import Scores, row_values
from contextual_bert.evaluation.serialization import JsonText
from contextual_bert.evaluation.tables import (
    Provenance,
    Table,
    difference_cell,
    interval_cell,
    metric_notes,
    render_markdown,
    render_rich,
)
from contextual_bert.nouns import plural

ALL_FEATURES = "all features"
ORDER_OF_ITEMS = "order of the items"  # of sequences: no feature of the context, and permuted beside them
Replacement = Literal["permute", "missing"]
CANNOT_BE_TOLD = "constant in this part, cannot be told"
_RECALL = recall_key(1)
_KEYS = (CROSS_ENTROPY, _RECALL)


@dataclass(frozen=True)
class FeatureImportance:
    """One feature, or all together: what permuting it among the rows does to cross-entropy and recall.

    Args:
        feature: its name, or ``ALL_FEATURES``.
        rise_nats: of the cross-entropy a masked position, or label; positive where the model needs the feature.
        recall_at_1_change_percent: of recall@1; negative where the model needs the feature.
    """

    feature: str
    rise_nats: Difference
    recall_at_1_change_percent: Difference


@dataclass(frozen=True)
class FeatureImportances(JsonText):
    """Importance of each context feature for a model.

    Formula: rise(f) = mean over rows and permutations of CE(permuted f) - CE, both of the same masked position.

    Symbols: CE = -log Pr(M = w_i | w_-i, c), in nats; f a feature of c.

    Shapes: `rows` all features together, then one a feature, the largest rise first.

    Args:
        num_rows, num_sets, num_clusters, num_items: what was evaluated.
        num_permutations: how often each feature was permuted; a row's change is the mean over them.
        permutation_seed: of the permutations.
        settings: of the bootstrap, and what the rows are called.
        unpermuted: key -> Interval of the metric with the true context.
        rows: see Shapes.
        provenance: data, commit, seeds, hardware, recipe.
        constant: features that a replacement does not change, so that no figure of them can be had.
        replaced_by: "permute", the values of other rows; "missing", the state of a value that is not given.

    Relation to its siblings: `measure_importances` makes it; `Comparison` says what training without a context loses,
    `Report.segments` whom the model serves badly.

    Reference: Breiman, Random Forests, 2001, section 10; docs/protocol.md, "Seeds and intervals".

    Example:
        >>> scores = Scores([0, 1], [0, 0], np.log([0.5, 0.5]), [0, 0], [1, 1], [0.5, 0.5])
        >>> worse = Scores([0, 1], [0, 0], np.log([0.25, 0.25]), [3, 3], [1, 1], [0.5, 0.5])
        >>> found = measure_importances(scores, {"age": [scores], "country": [worse]}, together=[worse])
        >>> [(row.feature, round(row.rise_nats.interval.value, 3)) for row in found.rows]
        [('all features', 0.693), ('country', 0.693), ('age', 0.0)]
    """

    num_rows: int
    num_sets: int
    num_clusters: int
    num_items: int | None
    num_permutations: int
    permutation_seed: int
    settings: EvaluationSettings
    unpermuted: dict[str, Interval]
    rows: tuple[FeatureImportance, ...]
    provenance: Provenance
    constant: tuple[str, ...] = ()
    replaced_by: Replacement = "permute"

    def to_markdown(self) -> str:
        return render_markdown(self._heading(), [self._table()], self.notes())

    def to_rich(self) -> Group:
        return render_rich(self._heading(), [self._table()], self.notes())

    def notes(self) -> list[str]:
        """The footer: what a rise is and is not, what brackets and p are, provenance."""
        settings, name = self.settings, self.settings.cluster_name
        loss, recall = (interval_cell(self.unpermuted[key], metric_of(key)) for key in _KEYS)
        rise = (
            "a rise above 0 is what this model takes from it, one below 0 says that the model does better without. A "
            "model trained without it may lose less: features that say the same can stand in for each other."
        )
        notes = [
            f"With the true context: CE {loss} nats, recall@1 {recall} %.",
            *self._replacement_notes(rise),
            f"Brackets: {100 * settings.level:g}% interval from a paired bootstrap over {self.num_clusters:,} "
            f"{plural(name)} ({settings.num_resamples:,} resamples, seed {settings.seed})"
            f"{', the permutations held fixed' if self.replaced_by == 'permute' else ''}; p corrected by "
            f"Holm over the features of its column, that of {ALL_FEATURES} is a question of its own.",
            *metric_notes(num_items=self.num_items, left_out_ks=(), choice=settings.choice_name, row=settings.row_name),
        ]
        if self.num_clusters < FEW_CLUSTERS:
            notes.append(
                f"Few {plural(name)} ({self.num_clusters}): the intervals are too narrow or unknown, p too small."
            )
        return [*notes, self.provenance.line()]

    def _replacement_notes(self, rise: str) -> list[str]:
        """Return notes on how features are removed, and on features that allow no statement."""
        name = self.settings.set_name
        if self.replaced_by == "missing":
            constant = "missing in every row already, so nothing can be taken away"
            notes = [
                f"A feature is removed by calling it missing in every {name}: {rise} Where training never lacked the "
                "feature, the model has not learned what missing means, and a part of the rise is due to that.",
                f"{ALL_FEATURES}: missing together.",
            ]
        else:
            times = "once" if self.num_permutations == 1 else f"{self.num_permutations} times, the mean is shown"
            constant = (
                "the same in every row, so a permutation changes nothing; --replace missing (in Python "
                "ablate_features) takes the value away"
            )
            others = {row.feature for row in self.rows} - {ALL_FEATURES, ORDER_OF_ITEMS}
            how = (
                f"A feature is removed by permuting its values among the {name}s"
                if others
                else "The order is taken away by permuting"
            )
            notes = [f"{how} ({times}; seed {self.permutation_seed}): {rise}"]
            if others:
                notes.append(
                    f"{ALL_FEATURES}: permuted together, so each {name} gets the whole context of another one."
                )
            if any(row.feature == ORDER_OF_ITEMS for row in self.rows):
                apart = f"; {ALL_FEATURES} leaves them as they are" if others else ""
                notes.append(f"{ORDER_OF_ITEMS}: those before the last are permuted within each sequence{apart}.")
        return [*notes, *([f"{', '.join(self.constant)}: {constant}."] if self.constant else [])]

    def _heading(self) -> str:
        rows = rows_in_words(self.settings, self.num_rows, self.num_sets, self.num_clusters)
        return f"What the model takes from each feature: {rows}"

    def _table(self) -> Table:
        loss, recall, count = metric_of(CROSS_ENTROPY), metric_of(_RECALL), self.settings.num_resamples
        rows = [
            (
                row.feature,
                difference_cell(row.rise_nats, loss, num_resamples=count),
                difference_cell(row.recall_at_1_change_percent, recall, num_resamples=count),
            )
            for row in self.rows
        ]
        rows += [(name, CANNOT_BE_TOLD, "") for name in self.constant]
        replaced = "permuted" if self.replaced_by == "permute" else "missing"
        columns = (replaced, f"rise of {loss.gap_heading}", f"change of {recall.gap_heading}")
        return Table("Without each feature", columns, tuple(rows))


def measure_importances(
    unpermuted: Scores,
    permuted: Mapping[str, Sequence[Scores]],
    *,
    together: Sequence[Scores],
    clusters: ArrayLike | None = None,
    num_items: int | None = None,
    settings: EvaluationSettings | None = None,
    permutation_seed: int = 0,
    provenance: Provenance | None = None,
) -> FeatureImportances:
    """Return the change of the loss by permuting each feature, with intervals over customers and corrected p-values.

    Args:
        unpermuted: scores with the true contexts, one row a masked position, in any order.
        permuted: feature -> scores of the same positions, one a permutation of the feature.
        together: the same with all features permuted together.
        clusters: the customer of each row of ``unpermuted``; left out, each set, or text, is a cluster of its own.
        num_items: how many items, labels or tokens were ranked.
        settings: of the bootstrap, and what the rows are called.
        permutation_seed: for the footer.
        provenance: for the footer.

    Raises:
        ConfigurationError: no feature, or not the same number of permutations of each, or of customers and rows.
        DataError: the scores are not of the same masked positions.
    """
    settings, num_permutations = settings or EvaluationSettings(), len(together)
    _check_permutations(permuted, num_permutations)
    groups = [(ALL_FEATURES, together), *permuted.items()]
    runs = [Run("the true context", 0, unpermuted)]
    runs += [Run(name, number, scores) for name, group in groups for number, scores in enumerate(group)]
    aligned, codes = align_runs(runs, num_items=num_items)
    if clusters is None:
        settings = replace(settings, cluster_name=settings.set_name)
    else:
        codes = _codes_in_order(clusters, unpermuted)
    draws = ClusterBootstrap(codes, num_resamples=settings.num_resamples, seed=settings.seed)
    columns = _mean_values(aligned[:1])
    for place in range(1, len(aligned), num_permutations):
        # Differences are resampled as rows of their own, so that a feature nothing reads changes exactly 0.
        columns += [
            mean - true
            for mean, true in zip(_mean_values(aligned[place : place + num_permutations]), columns[:2], strict=True)
        ]
    replicates = draws.resampled_means(np.stack(columns, axis=1)).T
    true = {
        key: draws.interval(exact_mean(column), replicate, level=settings.level, within=metric_of(key).range(num_items))
        for key, column, replicate in zip(_KEYS, columns[:2], replicates[:2], strict=True)
    }
    differences = [
        draws.difference(exact_mean(column), replicate, level=settings.level)
        for column, replicate in zip(columns[2:], replicates[2:], strict=True)
    ]
    rises, changes = _corrected(differences[::2]), _corrected(differences[1::2])
    names = [name for name, _ in groups]
    first, *others = (FeatureImportance(*each) for each in zip(names, rises, changes, strict=True))
    return FeatureImportances(
        num_rows=len(unpermuted),
        num_sets=len(np.unique(unpermuted.example_id)),
        num_clusters=draws.num_clusters,
        num_items=num_items,
        num_permutations=num_permutations,
        permutation_seed=permutation_seed,
        settings=settings,
        unpermuted=true,
        rows=(first, *sorted(others, key=lambda row: -row.rise_nats.interval.value)),
        provenance=provenance or Provenance(),
    )


def _check_permutations(permuted: Mapping[str, Sequence[Scores]], num_permutations: int) -> None:
    if not permuted:
        raise ConfigurationError("No feature was permuted: there is nothing to measure", fix="Give the scores of one.")
    counts = {ALL_FEATURES: num_permutations, **{name: len(group) for name, group in permuted.items()}}
    if len(set(counts.values())) > 1 or num_permutations == 0:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ConfigurationError(
            f"Permutations scored: {listed}", fix="Give the same number of each, and at least one."
        )


def _codes_in_order(clusters: ArrayLike, scores: Scores) -> NDArray[np.int64]:
    """The cluster numbers of the rows in the canonical order."""
    labels = np.asarray(clusters)
    if len(labels) != len(scores):
        raise ConfigurationError(
            f"clusters has {len(labels)} labels for {len(scores)} rows", fix="Give one a masked position."
        )
    return cluster_codes(labels[scores.order()])


def _mean_values(group: Iterable[Scores]) -> list[NDArray[np.float64]]:
    """Cross-entropy and recall@1 of each row, the mean over the permutations."""
    values = [row_values(scores, (1,)) for scores in group]
    return [np.mean([each[key] for each in values], axis=0) for key in _KEYS]


def _corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Holm over the features; the first row, all of them together, is a family of its own."""
    first, *others = differences
    if first.interval.num_clusters < 2:
        return list(differences)
    adjusted = (first.p_value, *holm([each.p_value for each in others]))
    return [replace(each, adjusted_p_value=p_value) for each, p_value in zip(differences, adjusted, strict=True)]
