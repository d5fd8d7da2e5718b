"""Precision, recall and F1 of each label, or of each type of entities.

A mean over all hides that one type is found better and another is lost. This module does not know models or texts.

Reference: the report of one class at a time of scikit-learn and of seqeval.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contextual_bert.evaluation.intervals import SeedMean, seed_mean
from contextual_bert.evaluation.label_predictions import LabelPredictions, has_tags, text_entities
from contextual_bert.evaluation.measures import can_measure_predictions
from contextual_bert.evaluation.metrics import MACRO_F1, metric_of
from contextual_bert.evaluation.multi_label_predictions import MultiLabelPredictions
from contextual_bert.evaluation.scores import Scores
from contextual_bert.evaluation.tables import Table, seed_cell


@dataclass(frozen=True)
class ClassScore:
    """One label, or one type of entities: how often it is true, and how well it is found.

    Formula: precision = right / found, recall = right / true, F1 = 2 right / (found + true), in %; 0 where nothing is
    there to divide by.

    Args:
        name: of the label or type.
        num_true: true labels or entities.
        precision_percent, recall_percent, f1_percent: of them.
        average_precision_percent: of the ranking of the texts by the label's probability; None where a text has one
            label, or where no text has this one.
    """

    name: str
    num_true: int
    precision_percent: float
    recall_percent: float
    f1_percent: float
    average_precision_percent: float | None = None


@dataclass(frozen=True)
class ComparedClass:
    """One label, or one type of entities: how often it is true, and each method's F1 in %."""

    name: str
    num_true: int
    methods: dict[str, SeedMean]


def class_scores(rows: LabelPredictions | MultiLabelPredictions) -> tuple[ClassScore, ...]:
    """Return the labels that occur in the truth or the prediction, in the order of their ids, or the types of entities,
    the most frequent first.

    Raises:
        ConfigurationError: tags, and seqeval is not installed.

    Example:
        >>> names = ("bad", "good", "new")
        >>> rows = LabelPredictions([0, 1, 2], [0, 0, 0], predicted=[0, 1, 1], true=[0, 1, 0], names=names)
        >>> [(each.name, each.num_true, round(each.f1_percent, 1)) for each in class_scores(rows)]
        [('bad', 2, 66.7), ('good', 1, 66.7)]
    """
    average = dict[str, float]()
    if isinstance(rows, MultiLabelPredictions):
        right, found, true = (
            Counter(dict(zip(rows.names, each.sum(axis=0).tolist(), strict=True)))
            for each in (rows.predicted & (rows.true == 1), rows.predicted, rows.true)
        )
        names = [name for name in rows.names if found[name] + true[name]]
        average = dict(zip(rows.names, rows.average_precision().tolist(), strict=True))
    elif has_tags(rows.names):
        right, found, true = _entities_by_type(rows)
        names = sorted(found | true, key=lambda name: (-true[name], name))
    else:
        ids = (rows.true[rows.true == rows.predicted], rows.predicted, rows.true)
        right, found, true = (
            Counter(dict(zip(rows.names, np.bincount(each, minlength=len(rows.names)).tolist(), strict=True)))
            for each in ids
        )
        names = [name for name in rows.names if found[name] + true[name]]
    return tuple(
        ClassScore(
            name,
            true[name],
            100 * right[name] / max(1, found[name]),
            100 * right[name] / max(1, true[name]),
            200 * right[name] / (found[name] + true[name]),
            average[name] if name in average and true[name] else None,
        )
        for name in names
    )


def classes_of(scores: Scores) -> tuple[ClassScore, ...]:
    """Return ``class_scores`` of the predictions; nothing of what has no labels, or of tags without seqeval."""
    predictions = scores.predictions
    if not isinstance(predictions, LabelPredictions | MultiLabelPredictions) or not can_measure_predictions(scores):
        return ()
    return class_scores(predictions)


def compared_classes(methods: Mapping[str, Sequence[Sequence[ClassScore]]]) -> tuple[ComparedClass, ...]:
    """Return the classes that are true of some row, in the order of the first run.

    Args:
        methods: name of a method -> the scores of each of its seeds, all on the same rows.
    """
    f1 = {
        method: [{each.name: each.f1_percent for each in scores} for scores in runs] for method, runs in methods.items()
    }
    first = next(iter(methods.values()))[0]
    return tuple(
        ComparedClass(
            each.name,
            each.num_true,
            {method: seed_mean([run[each.name] for run in runs]) for method, runs in f1.items()},
        )
        for each in first
        if each.num_true
    )


def score_table(classes: Sequence[ClassScore], *, are_types: bool) -> Table:
    """Return a table with a row a class."""
    headings = ["precision (%)", "recall (%)", "F1 (%)"]
    columns = [(each.precision_percent, each.recall_percent, each.f1_percent) for each in classes]
    if any(each.average_precision_percent is not None for each in classes):
        headings.append("average precision (%)")
        columns = [(*own, each.average_precision_percent) for own, each in zip(columns, classes, strict=True)]
    rows = [
        (each.name, f"{each.num_true:,}", *("-" if value is None else f"{value:.2f}" for value in own))
        for each, own in zip(classes, columns, strict=True)
    ]
    name = _name(are_types=are_types)
    return Table(f"By {name}", (name, "n", *headings), tuple(rows))


def compared_table(classes: Sequence[ComparedClass], methods: Mapping[str, str], *, are_types: bool) -> Table:
    """Return a table with a row a class and a column a method.

    Args:
        classes: of ``compared_classes``.
        methods: name of a method -> its heading.
    """
    rows = [
        (each.name, f"{each.num_true:,}", *(seed_cell(each.methods[method], metric_of(MACRO_F1)) for method in methods))
        for each in classes
    ]
    name = _name(are_types=are_types)
    return Table(f"F1 (%) by {name}", (name, "n", *methods.values()), tuple(rows))


def _name(*, are_types: bool) -> str:
    return "type of entities" if are_types else "label"


def _entities_by_type(rows: LabelPredictions) -> tuple[Counter[str], Counter[str], Counter[str]]:
    right, found, true = Counter[str](), Counter[str](), Counter[str]()
    for _, predicted, there in text_entities(rows):
        for counter, entities in ((right, predicted & there), (found, predicted), (true, there)):
            counter.update(kind for kind, _, _ in entities)
    return right, found, true
