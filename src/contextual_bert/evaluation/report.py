"""One evaluation, for people and for machines: metrics with intervals, segments, classes, calibration, provenance.

Sets, labels, tags, answers and hidden words have one report, with the metrics of their task. Several runs beside each
other are `comparison`, pictures are `plots`. This module does not know what a model is.

Papers: Contextual BERT, columns of Table 1; MA-BERT, Tables 2 to 4. Rules: docs/protocol.md.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Group

from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.asked import Asked, Unscored, asked_of
from contextual_bert.evaluation.calibration import Calibration, calibrate
from contextual_bert.evaluation.classes import ClassScore, classes_of, score_table
from contextual_bert.evaluation.intervals import ClusterBootstrap, Interval, cluster_codes
from contextual_bert.evaluation.label_predictions import LabelPredictions
from contextual_bert.evaluation.loss_gaps import MembershipGap, ShareGap
from contextual_bert.evaluation.measures import (
    NEEDS_SEQEVAL,
    can_measure_predictions,
    check_clusters,
    measures_of,
    resampled,
)
from contextual_bert.evaluation.metrics import (
    ACCURACY,
    CALIBRATION_ERROR,
    CROSS_ENTROPY,
    DEFAULT_KS,
    ENTITY_F1,
    SET_KS,
    coverage_key,
    is_coverage,
    main_metric,
    metric_of,
    notes_about,
    recall_key,
    usable_ks,
)
from contextual_bert.evaluation.multi_label_predictions import MultiLabelPredictions
from contextual_bert.evaluation.new_items import NewItemCalibration
from contextual_bert.evaluation.number_predictions import NumberPredictions
from contextual_bert.evaluation.privacy_spent import PrivacySpent
from contextual_bert.evaluation.scores import Scores, recall_curve
from contextual_bert.evaluation.segments import CellLimit, Segment, evaluate_segments, group_by_value, worst_segment
from contextual_bert.evaluation.sentence_predictions import SentencePredictions
from contextual_bert.evaluation.serialization import CAN_LACK, JsonText
from contextual_bert.evaluation.set_predictions import SetPredictions
from contextual_bert.evaluation.tables import (
    Provenance,
    Table,
    interval_cell,
    metric_notes,
    number_cell,
    render_markdown,
    render_rich,
)
from contextual_bert.nouns import plural

COLD_FEATURE = "customer in training"
# Below this many clusters every cluster interval is known to be too narrow (Cameron and Miller 2015).
FEW_CLUSTERS = 30
MANY_VALUES = 50  # of a feature, as ids have them
# Of several labels at once each is decided about, so a row is a label of a text, and its answers are yes and no.
OF_DECISIONS: Mapping[str, Any] = {
    "ks": (1,),
    "row_name": "label decision",
    "set_name": "text",
    "choice_name": "decision",
}
# Of numbers the bin is ranked that holds the true one.
OF_NUMBERS: Mapping[str, Any] = {"ks": (1,), "row_name": "number", "set_name": "text", "choice_name": "bin"}


@dataclass(frozen=True)
class EvaluationSettings:
    """Settings for evaluating ranks: ks of recall, bootstrap, calibration bins, small segments, names of rows and
    clusters.

    ``set_ks``: of the metrics of sets that were hidden as a whole.
    ``min_cell_clusters``: a value of fewer customers has no segment of its own, for it would be about single people.
    """

    ks: tuple[int, ...] = DEFAULT_KS
    num_resamples: int = 2000
    seed: int = 0
    level: float = 0.95
    num_bins: int = 15
    min_segment_clusters: int = 30
    min_cell_clusters: int = 10
    cluster_name: str = "customer"
    row_name: str = "masked position"
    set_name: str = "set"
    choice_name: str = "item"
    set_ks: tuple[int, ...] = SET_KS

    def __post_init__(self) -> None:
        for name in ("ks", "set_ks"):
            object.__setattr__(self, name, usable_ks(getattr(self, name), None)[0])
        check_bootstrap(num_resamples=self.num_resamples, level=self.level)
        for name in ("num_bins", "min_segment_clusters", "min_cell_clusters"):
            if (value := getattr(self, name)) < 1:
                raise ConfigurationError("is not allowed", setting=name, value=value, fix="Give 1 or more.")

    @property
    def cells(self) -> CellLimit:
        """Return the limit that a cell of a report must hold."""
        return CellLimit(self.min_cell_clusters, plural(self.cluster_name))


def check_bootstrap(*, num_resamples: int, level: float) -> None:
    """Raise unless there are enough resamples and the level lies between 0 and 1."""
    if not 0 < level < 1:
        raise ConfigurationError(
            "is not allowed", setting="level", value=level, fix="Give a number between 0 and 1, such as 0.95."
        )
    if num_resamples < 100:
        raise ConfigurationError(
            "is not allowed", setting="num_resamples", value=num_resamples, fix="Give at least 100, better 2000."
        )


@dataclass(frozen=True)
class Report(JsonText):
    """The numbers of one run: metrics with intervals, by segment and class, with calibration and provenance.

    Formula: each metric is a function of means over rows; its interval resamples clusters.

    Symbols: keys end with the unit where there is one: `cross_entropy_nats`, `entity_f1_percent`.

    Shapes: `metrics` key -> Interval; `segments` one a value of a feature; `curve` pairs (k, recall@k in percent).

    Args:
        num_rows, num_sets, num_clusters: scored rows (such as masked positions or labels), sets or texts, customers.
        num_items: how many items were ranked, if known.
        num_possible_rows: masked positions from which the scored ones were drawn; None where all were scored.
        settings: how it was evaluated.
        metrics: key -> Interval: what was predicted, the ranks, the calibration error.
        segments: in the order of the features.
        worst: the segment with the highest cross-entropy among those that are not small.
        calibration: bins and the error that chance alone would show.
        curve: recall over k.
        provenance: data, commit, seeds, hardware, recipe.
        num_suppressed: values of too few customers for a segment of their own, see ``EvaluationSettings``.
        membership: the loss on a sample of the training part beside this one, where a run has measured it.
        asked: how much of the part was scored, and the recall over all of it; None: not known.
        learned: the loss beside that of counted shares, where a run has measured it.
        classes: the labels, or types of entities, one at a time; empty for what is no label.
        left_out: sentences on what was not measured.
        new_items: how often items that training never saw are expected and asked for; None where there is none.
        privacy: what DP-SGD guarantees of the weights; None where they were trained without.

    Relation to its siblings: `evaluate_scores` makes it; `Comparison` puts several runs side by side.

    Reference: docs/protocol.md.

    Example:
        >>> scores = Scores([0, 1], [0, 0], np.log([0.5, 0.25]), [0, 3], [1, 1], [0.5, 0.4])
        >>> report = evaluate_scores(scores, clusters=["ann", "bob"], settings=EvaluationSettings(ks=(1, 5)))
        >>> report.metrics["recall_at_5_percent"].value
        100.0
    """

    num_rows: int
    num_sets: int
    num_clusters: int
    num_items: int | None
    settings: EvaluationSettings
    metrics: dict[str, Interval]
    segments: tuple[Segment, ...]
    worst: Segment | None
    calibration: Calibration
    curve: tuple[tuple[int, float], ...]
    provenance: Provenance
    num_possible_rows: int | None = None
    num_suppressed: int = 0
    membership: MembershipGap | None = None
    asked: Asked | None = None
    learned: ShareGap | None = None
    classes: tuple[ClassScore, ...] = ()
    left_out: tuple[str, ...] = ()
    new_items: NewItemCalibration | None = None
    privacy: PrivacySpent | None = field(default=None, metadata={CAN_LACK: True})

    @property
    def main(self) -> str:
        """Key of the metric that the run is judged by."""
        return main_metric(self.metrics)

    def to_markdown(self, *, num_segments: int | None = None) -> str:
        """Return tables and footer; at most `num_segments` segments, the worst first, or all in order."""
        return render_markdown(self._heading(), self.tables(num_segments), self.notes())

    def to_rich(self, *, num_segments: int | None = 10) -> Group:
        """Return the same for a terminal, with the worst ten segments unless told otherwise."""
        return render_rich(self._heading(), self.tables(num_segments), self.notes())

    def notes(self) -> list[str]:
        """Return the footer: units, what the intervals are, what to be careful with, provenance."""
        settings, name = self.settings, self.settings.cluster_name
        left_out = usable_ks(settings.ks, self.num_items)[1]
        notes = notes_about(self.metrics, row=settings.row_name)
        notes += metric_notes(
            num_items=self.num_items,
            left_out_ks=left_out,
            choice=settings.choice_name,
            row=settings.row_name,
            cross_entropies={"": self.metrics[CROSS_ENTROPY].value},
        )
        notes.append(
            f"Brackets: {100 * settings.level:g}% interval from a bootstrap over {self.num_clusters:,} {plural(name)} "
            f"({settings.num_resamples:,} resamples, seed {settings.seed}). Segments have its closed form."
        )
        notes.append(
            f"ECE: expected calibration error of the best answer over {settings.num_bins} equal bins, 0 to 1. By "
            f"chance alone, perfectly calibrated probabilities would show about {self.calibration.chance_error:.4f}."
        )
        notes += self.left_out
        if self.new_items is not None:
            notes.append(self.new_items.note(settings.row_name))
        if self.asked is not None:
            notes.append(self.asked.note())
        if self.num_possible_rows is not None:
            notes.append(
                f"Scored {self.num_rows:,} of {self.num_possible_rows:,} {settings.row_name}s: a sample by a hash of "
                "row and position, the same for every run. The intervals include the error of the sample."
            )
        if self.num_clusters < FEW_CLUSTERS:
            notes.append(f"Few {plural(name)} ({self.num_clusters}): the intervals are too narrow or unknown.")
        if self.segments:
            notes.append(self.segment_note())
        if self.num_suppressed:
            notes.append(settings.cells.note(self.num_suppressed))
        if self.learned is not None:
            notes.append(self.learned.note())
        if self.membership is not None:
            notes.append(self.membership.note())
        if self.privacy is not None:
            notes.append(self.privacy.note())
        return [*notes, self.provenance.line()]

    def segment_note(self) -> str:
        """Return how many segments are small, and which of the others is the worst."""
        small = sum(segment.is_small for segment in self.segments)
        limit = f"{self.settings.min_segment_clusters} {plural(self.settings.cluster_name)}"
        share = f"{small} of {len(self.segments)}"
        text = f"Segments marked * have fewer than {limit} ({share}) and are never called the worst."
        num_hidden = len(self.segments) - len(self._legible_segments())
        if num_hidden:
            text += f" The full table leaves out {num_hidden:,} of them, of features with over {MANY_VALUES} values."
        if self.worst is None:
            return text
        metric, worst = metric_of(CROSS_ENTROPY), self.worst
        return (
            f"{text} Worst segment: {worst.name}, CE {interval_cell(worst.metrics[CROSS_ENTROPY], metric)} nats, "
            f"n = {worst.num_rows:,}. The worst of many looks worse than it is."
        )

    def _heading(self) -> str:
        return f"Evaluation: {rows_in_words(self.settings, self.num_rows, self.num_sets, self.num_clusters)}"

    def tables(self, num_segments: int | None = None) -> list[Table]:
        """Return the metrics, the classes, the recall over all items and the segments, where there are some."""
        rows = [(metric_of(key).heading, _value_cell(key, value)) for key, value in self.metrics.items()]
        heading = f"value [{100 * self.settings.level:g}% interval]"
        tables = [Table("Metrics", ("metric", heading), tuple(rows))]
        if self.classes:
            tables.append(score_table(self.classes, are_types=ENTITY_F1 in self.metrics))
        if self.asked is not None and self.asked.reasons:
            of_all = [
                (metric_of(key).heading, interval_cell(value, metric_of(key)))
                for key, value in self.asked.recall.items()
            ]
            tables.append(Table(f"Recall over {self.asked.all_items}", ("metric", heading), tuple(of_all)))
        if self.segments and num_segments != 0:
            tables.append(self.segment_table(num_segments))
        return tables

    def segment_table(self, limit: int | None = None) -> Table:
        """Return each value of each feature with its n; at most `limit`, the worst first, or all in order, without the
        small segments of a feature that has very many.
        """
        shown, title = self._legible_segments() if limit is None else list(self.segments), "Segments"
        if limit is not None and len(shown) > limit:
            shown.sort(key=lambda segment: (segment.is_small, -segment.metrics[CROSS_ENTROPY].value))
            what = f"the worst {limit}" if self.worst is not None else f"the {limit} with the highest cross-entropy"
            shown, title = shown[:limit], f"Segments: {what} of {len(self.segments)}"
        keys = [key for key in self.metrics if any(key in segment.metrics for segment in shown)]
        if ACCURACY in keys:
            keys.remove(recall_key(1))  # the same but for ties and chains
        columns = (
            "feature",
            "value",
            "n",
            plural(self.settings.cluster_name),
            *(metric_of(key).heading for key in keys),
        )
        rows = [
            (
                segment.feature,
                f"{segment.value}{' *' if segment.is_small else ''}",
                f"{segment.num_rows:,}",
                f"{segment.num_clusters:,}",
                *(segment_cell(segment, key) for key in keys),
            )
            for segment in shown
        ]
        return Table(title, columns, tuple(rows), num_label_columns=2)

    def _legible_segments(self) -> list[Segment]:
        num_values = Counter(segment.feature for segment in self.segments)
        return [each for each in self.segments if not each.is_small or num_values[each.feature] <= MANY_VALUES]


def _value_cell(key: str, value: Interval) -> str:
    metric = metric_of(key)
    return number_cell(value.value, f".{metric.digits}f") if is_coverage(key) else interval_cell(value, metric)


def segment_cell(segment: Segment, key: str) -> str:
    """Return a metric of a segment for people: with its interval where one is known, a dash where it has none."""
    interval = segment.metrics.get(key)
    if interval is None:
        return "-"
    metric = metric_of(key)
    has_interval = key in (CROSS_ENTROPY, recall_key(1))
    return interval_cell(interval, metric) if has_interval else number_cell(interval.value, f".{metric.digits}f")


def default_settings(scores: Scores) -> EvaluationSettings:
    """Return settings that call the rows of scores what they are; of predictions recall@1 alone is reported.

    Example:
        >>> default_settings(Scores([0], [0], [-1.0], [0], [1], [0.4])).row_name
        'masked position'
    """
    predictions = scores.predictions
    if predictions is None:
        return EvaluationSettings()
    if isinstance(predictions, SetPredictions):
        return EvaluationSettings(row_name="hidden item")
    if isinstance(predictions, SentencePredictions):
        return EvaluationSettings(row_name="hidden token", set_name="text", choice_name="token")
    if isinstance(predictions, LabelPredictions):
        return EvaluationSettings(ks=(1,), row_name="label", set_name="text", choice_name="label")
    if isinstance(predictions, MultiLabelPredictions):
        return EvaluationSettings(**OF_DECISIONS)
    if isinstance(predictions, NumberPredictions):
        return EvaluationSettings(**OF_NUMBERS)
    return EvaluationSettings(ks=(1,), row_name="answer end", set_name="question", choice_name="place")


def evaluate_scores(
    scores: Scores,
    *,
    clusters: ArrayLike | None = None,
    segments: Mapping[str, Sequence[Any] | NDArray[Any]] | None = None,
    cold_customers: ArrayLike | None = None,
    num_items: int | None = None,
    settings: EvaluationSettings | None = None,
    provenance: Provenance | None = None,
    unscored: Unscored | None = None,
) -> Report:
    """Report on scores: metrics with intervals, by segment and class, with calibration.

    Args:
        scores: one row a masked position, label or end of an answer, each once, in any order.
        clusters: each row's customer (or author, or document); left out, each set, or text, is a cluster of its own.
        segments: feature -> label of each row; a list of labels puts a row in several segments.
        cold_customers: whether each row's customer was unseen in training; adds a segment.
        num_items: how many items, labels or tokens were ranked; recall@k is left out from there on.
        settings: how to evaluate; None: ``default_settings``.
        provenance: for the footer.
        unscored: what of the part could not be scored; None: not known.

    Raises:
        ConfigurationError: other numbers of rows.
        DataError: no row, or one twice; rows of a text that is counted as a whole in several clusters.
    """
    settings, labels = settings or default_settings(scores), dict(segments or {})
    scores.check(num_items=num_items)
    if clusters is None:
        clusters, settings = scores.example_id, replace(settings, cluster_name=settings.set_name)
    codes = cluster_codes(clusters)
    check_clusters(scores, codes)
    if cold_customers is not None:
        labels[COLD_FEATURE] = _cold_labels(cold_customers, labels, len(scores))
    draws = ClusterBootstrap(codes, num_resamples=settings.num_resamples, seed=settings.seed)
    kept, _ = usable_ks(settings.ks, num_items)
    set_ks, _ = usable_ks(settings.set_ks, num_items)
    measures = measures_of(scores, kept, set_ks=set_ks)
    metrics: dict[str, Interval] = {}
    for each in measures:
        [replicates] = resampled([each], draws)
        metrics |= {
            key: draws.interval(value, replicates[key], level=settings.level, within=metric_of(key).range(num_items))
            for key, value in each.exact().items()
        }
    metrics |= {key: _without_interval(value, draws) for key, value in coverages(scores, set_ks).items()}
    calibration = calibrate(scores, clusters=codes, draws=draws, num_bins=settings.num_bins, level=settings.level)
    groups, num_suppressed = group_by_value(scores, labels, clusters=codes, cells=settings.cells)
    found = evaluate_segments(
        scores,
        groups,
        clusters=codes,
        predicted=measures[0] if len(measures) > 1 else None,
        min_clusters=settings.min_segment_clusters,
        level=settings.level,
    )
    return Report(
        num_rows=len(scores),
        num_sets=len(np.unique(scores.example_id)),
        num_clusters=draws.num_clusters,
        num_items=num_items,
        settings=settings,
        metrics=metrics | {CALIBRATION_ERROR: calibration.error},
        segments=found,
        worst=worst_segment(found),
        calibration=calibration,
        curve=recall_curve(scores, largest_k=max(kept, default=1)),
        provenance=provenance or Provenance(),
        num_suppressed=num_suppressed,
        asked=_asked(scores, np.asarray(clusters), unscored, kept, settings) if unscored is not None else None,
        classes=classes_of(scores),
        left_out=() if can_measure_predictions(scores) else (NEEDS_SEQEVAL,),
    )


def coverages(scores: Scores, set_ks: Sequence[int]) -> dict[str, float]:
    """Return the coverage of the lists that were proposed, at each k; nothing where none were kept."""
    if not isinstance(scores.predictions, SetPredictions):
        return {}
    found = {coverage_key(k): scores.predictions.coverage(k) for k in set_ks}
    return {key: value for key, value in found.items() if value is not None}


def _without_interval(value: float, draws: ClusterBootstrap) -> Interval:
    """A number of all clusters together, such as a coverage, which grows with their number."""
    return Interval(value, np.nan, np.nan, np.nan, draws.num_rows, draws.num_clusters)


def _asked(
    scores: Scores, clusters: NDArray[Any], unscored: Unscored, ks: Sequence[int], settings: EvaluationSettings
) -> Asked:
    return asked_of(
        scores,
        clusters,
        unscored,
        ks=ks,
        num_resamples=settings.num_resamples,
        seed=settings.seed,
        level=settings.level,
    )


def rows_in_words(settings: EvaluationSettings, num_rows: int, num_sets: int, num_clusters: int) -> str:
    """Return what was evaluated, for headings."""
    rows = f"{num_rows:,} {settings.row_name}s of {num_sets:,} {settings.set_name}s"
    of = "" if settings.cluster_name == settings.set_name else f", {num_clusters:,} {plural(settings.cluster_name)}"
    return rows + of


def _cold_labels(cold_customers: ArrayLike, labels: Mapping[str, Any], num_rows: int) -> list[str]:
    is_cold = np.asarray(cold_customers)
    if is_cold.dtype != np.bool_ or is_cold.shape != (num_rows,) or COLD_FEATURE in labels:
        raise ConfigurationError(
            f"cold_customers holds {is_cold.dtype} of shape {is_cold.shape}",
            fix=f"Give True or False for each of the {num_rows} rows, and call no segment {COLD_FEATURE!r}.",
        )
    return ["no (cold)" if cold else "yes" for cold in is_cold.tolist()]
