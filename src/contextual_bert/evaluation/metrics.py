"""The metrics that reports and comparisons know: key, label, unit, direction, and what a reader must know of each.

Every key ends with its unit: `cross_entropy_nats`, `recall_at_5_percent`. Ranks are computed in `scores`, what
was predicted in `label_predictions` and `answer_predictions`.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, UnknownNameError

DEFAULT_KS = (1, 5, 20, 250)
SET_KS = (10, 20)  # those of the literature on next baskets
CROSS_ENTROPY = "cross_entropy_nats"
NEXT_ITEM = "next item"  # what a row of sequences asks for
RIGHT_DOCUMENT = "right document"  # what a text asks for
RECIPROCAL_RANK = "mean_reciprocal_rank"
CALIBRATION_ERROR = "expected_calibration_error"
ACCURACY = "accuracy_percent"
MICRO_F1 = "micro_f1_percent"
MACRO_F1 = "macro_f1_percent"
EXACT_LABELS = "exact_labels_percent"
LABEL_RANKING = "label_ranking_precision_percent"
MEAN_ABSOLUTE_ERROR = "mean_absolute_error"
ROOT_MEAN_SQUARED_ERROR = "root_mean_squared_error"
INTERVAL_COVERAGE = "interval_coverage_percent"
INTERVAL_WIDTH = "interval_width"
ENTITY_PRECISION = "entity_precision_percent"
ENTITY_RECALL = "entity_recall_percent"
ENTITY_F1 = "entity_f1_percent"
EXACT_MATCH = "exact_match_percent"
EXACT_TEXT = "exact_text_percent"
NEXT_SENTENCE = "next_sentence_accuracy_percent"
ANSWER_F1 = "answer_f1_percent"
# Of sets that were hidden as a whole: which of their true items, and what is measured -> label.
_OF_WHICH = {"set": "", "repeated": " of repeated items", "new": " of new items"}
_OF_SETS = {"recall": "recall", "ndcg": "NDCG", "hit_rate": "PHR", "map": "MAP"}
# The first of these that a task has is what its rows are judged by.
MAIN_METRICS = (ENTITY_F1, ANSWER_F1, MICRO_F1, ACCURACY, ROOT_MEAN_SQUARED_ERROR, CROSS_ENTROPY)


@dataclass(frozen=True)
class Metric:
    """A metric for people: key, label, unit, printed digits and direction.

    Args:
        key: name in files.
        label, unit: name in tables.
        digits: printed behind the point.
        is_higher_better: direction.
        about: sentence below the tables that have the metric; empty where every reader knows it.
        is_detail: it has no column in the tables of segments.
    """

    key: str
    label: str
    unit: str
    digits: int
    is_higher_better: bool
    about: str = ""
    is_detail: bool = False

    @property
    def heading(self) -> str:
        """Label with the unit in brackets."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def gap_unit(self) -> str:
        """Unit of a difference: of two percentages it is in points, for a percent of the smaller one is another number.

        Example:
            >>> metric_of("accuracy_percent").gap_unit, metric_of("cross_entropy_nats").gap_unit
            ('points', 'nats')
        """
        return "points" if self.unit == "%" else self.unit

    @property
    def gap_heading(self) -> str:
        """Label with the unit of a difference in brackets."""
        return replace(self, unit=self.gap_unit).heading

    def range(self, num_items: int | None = None) -> tuple[float, float]:
        """Return the smallest and the largest possible value, where so many items are ranked."""
        if self.key == RECIPROCAL_RANK:
            return (1 / num_items if num_items else 0.0), 1.0
        return 0.0, 100.0 if self.unit == "%" else math.inf


_OF_GRADES = (
    "MAE and RMSE: of the numbers, or of the places of labels in their order where these are words. Over all rows at "
    "once, lower is better."
)
_OF_INTERVALS = (
    "Interval coverage: percent of texts whose number lies between the ends of its interval, which is to be 90. Width: "
    "mean distance of the ends; of two that cover as much the narrower tells more."
)
_OF_ENTITIES = "An entity counts where its type and both ends are right, over all types, read as seqeval does."
_OF_ANSWERS = (
    "Exact match and F1: of the words of an answer, without case, punctuation and articles, as for SQuAD. A text "
    "without an answer is right or wrong."
)
_OF_WHOLE_SETS = (
    "Set metrics: what was hidden, a whole set or the last item of a sequence, is ranked at once; means over sets. "
    "PHR: percent of sets with at least one hit among the first k. NDCG is divided by the ideal of the whole set, MAP "
    "by the smaller of k and its size. An item that the vocabulary does not know is a miss where its set has others."
)
_OF_APART = (
    "Repeated items are those of the customer's history, or of the sequence before, new items all others. Each is "
    "measured over the sets with one."
)
_OF_ROWS = {  # what a row asks for -> a note -> the same in its words
    NEXT_ITEM: {
        _OF_WHOLE_SETS: "The next item is a set of one: so set recall and PHR are the same, and MAP is the reciprocal "
        "rank of a next item among the first k. Means over sequences.",
        _OF_APART: "Repeated items are those of the sequence before, or of the customer's history, new items all "
        "others. Each is measured over the sequences that end with one.",
    },
    RIGHT_DOCUMENT: {
        _OF_WHOLE_SETS: "A text has one right document, which is a set of one: so set recall and PHR are recall, and "
        "MAP is the reciprocal rank of a document among the first k. Means over texts.",
    },
}
_OF_LISTS = (
    "Novelty: mean of -log2 of the share that a proposed item has of the training part. Coverage: percent of all items "
    "that were proposed to anybody."
)
_METRICS = {
    metric.key: metric
    for metric in (
        Metric(CROSS_ENTROPY, "CE", "nats", 4, False),
        Metric(RECIPROCAL_RANK, "MRR", "", 4, True),
        Metric(CALIBRATION_ERROR, "ECE", "", 4, False),
        Metric(ACCURACY, "accuracy", "%", 2, True),
        Metric(
            MACRO_F1,
            "macro F1",
            "%",
            2,
            True,
            "Macro F1: plain mean over the classes that occur in the truth or the prediction.",
        ),
        Metric(
            MICRO_F1,
            "micro F1",
            "%",
            2,
            True,
            "Micro F1: over all texts and labels at once. A label is predicted where its probability is above 1/2.",
        ),
        Metric(
            EXACT_LABELS,
            "exact label match",
            "%",
            2,
            True,
            "Exact label match: percent of texts whose labels are all right, with none too many.",
        ),
        Metric(
            LABEL_RANKING,
            "LRAP",
            "%",
            2,
            True,
            "LRAP: label ranking average precision. For each label of a text, the share of the text's own among all "
            "labels that are as likely; a mean over texts that have one.",
        ),
        Metric(MEAN_ABSOLUTE_ERROR, "MAE", "", 4, False, _OF_GRADES),
        Metric(ROOT_MEAN_SQUARED_ERROR, "RMSE", "", 4, False, _OF_GRADES),
        Metric(INTERVAL_COVERAGE, "interval coverage", "%", 2, True, _OF_INTERVALS),
        Metric(INTERVAL_WIDTH, "interval width", "", 4, False, _OF_INTERVALS),
        Metric(ENTITY_PRECISION, "entity precision", "%", 2, True, _OF_ENTITIES),
        Metric(ENTITY_RECALL, "entity recall", "%", 2, True, _OF_ENTITIES),
        Metric(ENTITY_F1, "entity F1", "%", 2, True, _OF_ENTITIES),
        Metric(EXACT_MATCH, "exact match", "%", 2, True, _OF_ANSWERS),
        Metric(ANSWER_F1, "answer F1", "%", 2, True, _OF_ANSWERS),
        Metric(
            EXACT_TEXT,
            "exact text match",
            "%",
            2,
            True,
            "Exact text match: share of the texts that are written as their targets, token by token, where each time "
            "the likeliest token is taken.",
        ),
        Metric(
            NEXT_SENTENCE,
            "next-sentence accuracy",
            "%",
            2,
            True,
            "Next-sentence accuracy: share of right decisions whether the second sentence of a pair follows the first. "
            "Half of them do, so guessing has 50%. Decided are the pairs of the texts of which a token is scored.",
        ),
    )
}


# What is computed from the ranks of true answers, recall aside, from labels, and from all predictions.
RANK_METRICS = (CROSS_ENTROPY, RECIPROCAL_RANK, CALIBRATION_ERROR, "recall_at_1_percent", "recall_at_5_percent")
LABEL_METRICS = (
    ACCURACY,
    MACRO_F1,
    MEAN_ABSOLUTE_ERROR,
    ROOT_MEAN_SQUARED_ERROR,
    ENTITY_PRECISION,
    ENTITY_RECALL,
    ENTITY_F1,
)
NUMBER_METRICS = (MEAN_ABSOLUTE_ERROR, ROOT_MEAN_SQUARED_ERROR, INTERVAL_COVERAGE, INTERVAL_WIDTH)
MULTI_LABEL_METRICS = (MICRO_F1, MACRO_F1, EXACT_LABELS, LABEL_RANKING)
ANSWER_METRICS = (EXACT_MATCH, ANSWER_F1)
TEXT_METRICS = (EXACT_TEXT,)
SET_METRICS = tuple(f"set_{name}_at_{k}_percent" for k in SET_KS for name in _OF_SETS)
PREDICTION_METRICS = (
    *dict.fromkeys((*LABEL_METRICS, *MULTI_LABEL_METRICS, *NUMBER_METRICS)),
    *ANSWER_METRICS,
    *TEXT_METRICS,
)
_SHORT_NAMES = {
    "accuracy": ACCURACY,
    "answer_f1": ANSWER_F1,
    "cross_entropy": CROSS_ENTROPY,
    "entity_f1": ENTITY_F1,
    "entity_precision": ENTITY_PRECISION,
    "entity_recall": ENTITY_RECALL,
    "exact_labels": EXACT_LABELS,
    "exact_match": EXACT_MATCH,
    "exact_text": EXACT_TEXT,
    "lrap": LABEL_RANKING,
    "macro_f1": MACRO_F1,
    "mae": MEAN_ABSOLUTE_ERROR,
    "micro_f1": MICRO_F1,
    "mrr": RECIPROCAL_RANK,
    "next_sentence_accuracy": NEXT_SENTENCE,
    "rmse": ROOT_MEAN_SQUARED_ERROR,
}


def recall_key(k: int) -> str:
    return f"recall_at_{k}_percent"


def set_metric_key(name: str, k: int, *, which: str = "set") -> str:
    """Return the key of a metric of whole sets.

    Args:
        name: "recall", "ndcg", "hit_rate" or "map".
        k: how many items are proposed.
        which: "set" for all true items, or "repeated" or "new".

    Example:
        >>> set_metric_key("ndcg", 10), set_metric_key("recall", 10, which="new")
        ('set_ndcg_at_10_percent', 'new_recall_at_10_percent')
    """
    return f"{which}_{name}_at_{k}_percent"


def novelty_key(k: int) -> str:
    """Return the key of the novelty of the first k proposed items."""
    return f"novelty_at_{k}_bits"


def coverage_key(k: int) -> str:
    """Return the key of the coverage of the first k proposed items."""
    return f"coverage_at_{k}_percent"


def is_of_sets(key: str) -> bool:
    """Return True for a metric of sets that were hidden as a whole.

    Example:
        >>> is_of_sets("set_recall_at_10_percent"), is_of_sets("recall_at_10_percent")
        (True, False)
    """
    return _set_metric(key) is not None


def is_coverage(key: str) -> bool:
    """Return True for a coverage, which is no mean over sets and has no interval."""
    return re.fullmatch(r"coverage_at_[1-9]\d*_percent", key) is not None


def _set_metric(key: str) -> Metric | None:
    """Return the description of a metric of whole sets, None for another key."""
    found = re.fullmatch(r"([a-z]+)_(recall|ndcg|hit_rate|map)_at_([1-9]\d*)_percent", key)
    if found is not None and found[1] in _OF_WHICH:
        which, name, k = found.groups()
        about, is_apart = (_OF_WHOLE_SETS, False) if which == "set" else (_OF_APART, True)
        label = f"{'set ' if name == 'recall' and not is_apart else ''}{_OF_SETS[name]}@{k}{_OF_WHICH[which]}"
        return Metric(key, label, "%", 2, True, about, is_detail=is_apart or name == "map")
    if re.fullmatch(r"novelty_at_[1-9]\d*_bits", key):
        return Metric(key, f"novelty@{key.split('_')[2]}", "bits", 2, True, _OF_LISTS, is_detail=True)
    if is_coverage(key):
        return Metric(key, f"coverage@{key.split('_')[2]}", "%", 2, True, _OF_LISTS, is_detail=True)
    return None


def metric_of(key: str) -> Metric:
    """The description of a metric key.

    Example:
        >>> metric_of("recall_at_5_percent").heading
        'recall@5 (%)'
    """
    if key in _METRICS:
        return _METRICS[key]
    if (of_sets := _set_metric(key)) is not None:
        return of_sets
    k = key.removeprefix("recall_at_").removesuffix("_percent")
    if not k.isdigit() or key != recall_key(int(k)):
        raise UnknownNameError(
            f"Unknown metric {key!r}",
            allowed=f"Known: recall_at_<k>_percent, set_recall_at_<k>_percent, {', '.join(_METRICS)}.",
        )
    return Metric(key, f"recall@{k}", "%", 2, True)


def is_metric(key: str) -> bool:
    """Return True for the key of a metric.

    Example:
        >>> is_metric("accuracy_percent"), is_metric("runtime")
        (True, False)
    """
    try:
        metric_of(key)
    except UnknownNameError:
        return False
    return True


def metric_key(name: str) -> str:
    """Return the key of a metric by its short name, such as "accuracy", "mrr" or "recall@5"; other names as they are.

    "ndcg@10", "phr@10", "map@10" and "set_recall@10" are of whole sets.

    Example:
        >>> metric_key("accuracy"), metric_key("eval_recall@5"), metric_key("loss"), metric_key("ndcg@10")
        ('accuracy_percent', 'recall_at_5_percent', 'loss', 'set_ndcg_at_10_percent')
    """
    short = name.removeprefix("eval_")
    if short in _SHORT_NAMES:
        return _SHORT_NAMES[short]
    found = re.fullmatch(r"(set_)?(recall|ndcg|phr|map)(?:@|_at_)(\d+)", short)
    if found is None:
        return name
    own, k = {"phr": "hit_rate"}.get(found[2], found[2]), int(found[3])
    return recall_key(k) if own == "recall" and not found[1] else set_metric_key(own, k)


def main_metric(keys: Collection[str]) -> str:
    """Return the key of the metric that rows with these metrics are judged by; of whole sets the first NDCG.

    Example:
        >>> main_metric(["cross_entropy_nats", "accuracy_percent"])
        'accuracy_percent'
    """
    of_sets = [key for key in keys if key.startswith("set_ndcg_at_")]
    if of_sets:
        return of_sets[0]
    return next(key for key in MAIN_METRICS if key in keys)


def notes_about(keys: Collection[str], *, row: str = "") -> list[str]:
    """Return what a reader must know of these metrics, each sentence once.

    Args:
        keys: of the metrics.
        row: what a row asks for, such as a "next item".
    """
    notes = list(dict.fromkeys(metric_of(key).about for key in keys if metric_of(key).about))
    return [_OF_ROWS.get(row, {}).get(note, note) for note in notes]


def usable_ks(ks: Sequence[int], num_items: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ks to report and those left out because k >= num_items, where recall is 100% whatever the scorer does."""
    if any(isinstance(k, bool) or int(k) != k or k < 1 for k in ks) or len(set(ks)) != len(ks):
        raise ConfigurationError(
            "is not allowed: each k of recall@k must be a whole number >= 1, named once", setting="ks", value=tuple(ks)
        )
    kept = tuple(int(k) for k in sorted(ks) if num_items is None or k < num_items)
    return kept, tuple(int(k) for k in sorted(ks) if k not in kept)


def exact_mean(values: NDArray[np.float64]) -> float:
    """The mean from a sum that is rounded once: the same digits in any order of the rows."""
    return math.fsum(values.tolist()) / len(values)
