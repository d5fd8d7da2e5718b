"""Predicted labels of texts and words, and their metrics, most of which are no means over rows.

Each metric is a function of the means of a few columns (RMSE of the mean squared error, F1 of mean counts). So a
bootstrap resamples the columns once for all of them, and no metric is ever averaged over batches. This module does not
know models, texts or words: only ids of labels and their names.

Papers: MA-BERT (2021), section 3, for the RMSE of grades; Ramshaw and Marcus (1995) for the tags of entities.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.metrics import (
    ACCURACY,
    ENTITY_F1,
    ENTITY_PRECISION,
    ENTITY_RECALL,
    MACRO_F1,
    MEAN_ABSOLUTE_ERROR,
    ROOT_MEAN_SQUARED_ERROR,
)
from contextual_bert.evaluation.number_columns import check_label_names, reject, set_columns


@dataclass(frozen=True, eq=False)
class LabelPredictions:
    """The label that was predicted for each labelled text or word, and the true one.

    Formula: accuracy = mean of [predicted = true]; the others are those of `metrics`.

    Symbols: ids of labels, which count from 0 in the order of `names`.

    Shapes: the four columns are (rows,).

    Args:
        example_id: row of the original table; all words of a text share it.
        position: of the word within its text; 0 where the text has one label.
        predicted: the id that was predicted.
        true: the id that is right.
        names: of the labels. Where all are numbers they are grades; see `has_tags` for tags.
        is_ordinal: the names are in the order of one scale, the lowest first. Words are grades then; see `grades`.

    Raises:
        ConfigurationError: columns of different lengths, no or repeated names.
        DataError: an id without a name, a place that occurs twice.

    Relation to its siblings: `Scores.predictions` holds it; `AnswerPredictions` is for answers to questions.

    Reference: docs/protocol.md.

    Example:
        >>> rows = LabelPredictions([7, 7], [0, 1], predicted=[1, 0], true=[1, 1], names=("O", "B-PER"))
        >>> {key: float(value) for key, value in rows.metrics(rows.columns().mean(axis=0)).items()}
        {'accuracy_percent': 50.0, 'macro_f1_percent': 33.3..., 'entity_precision_percent': 100.0, \
'entity_recall_percent': 50.0, 'entity_f1_percent': 66.6...}
    """

    example_id: NDArray[np.int64]
    position: NDArray[np.int64]
    predicted: NDArray[np.int64]
    true: NDArray[np.int64]
    names: tuple[str, ...]
    is_ordinal: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        set_columns(self, self.as_arrays(), row="labelled row")
        check_label_names(self.names)
        for name in ("predicted", "true"):
            ids = getattr(self, name)
            fix = "Give ids that count the names from 0, and leave out rows without a label (-100)."
            reject((ids < 0) | (ids >= len(self.names)), ids, name, f"between 0 and {len(self.names) - 1}", fix)
        order = self.order()
        is_repeated = (np.diff(self.example_id[order]) == 0) & (np.diff(self.position[order]) == 0)
        if is_repeated.any():
            row = int(order[1:][is_repeated.argmax()])
            raise DataError(
                f"example {self.example_id[row]}, position {self.position[row]} occurs more than once",
                row=row,
                fix="Predict every labelled place once; drop what a sampler repeated to fill its last batch.",
            )

    def __len__(self) -> int:
        return len(self.example_id)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """All rows of the parts (of several batches or processes), which share the names, in the order given."""
        if len({(part.names, part.is_ordinal) for part in parts}) != 1:
            raise ConfigurationError(
                f"{len(parts)} parts of predictions", fix="Give one or more, all with the same names."
            )
        columns = {name: np.concatenate([part.as_arrays()[name] for part in parts]) for name in parts[0].as_arrays()}
        return cls(**columns, names=parts[0].names, is_ordinal=parts[0].is_ordinal)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """The rows a boolean mask or an array of row numbers names."""
        columns = {name: column[rows] for name, column in self.as_arrays().items()}
        return type(self)(**columns, names=self.names, is_ordinal=self.is_ordinal)

    def order(self) -> NDArray[np.int64]:
        """The row numbers that put the rows in the order of (example_id, position)."""
        return np.lexsort((self.position, self.example_id))

    def sorted(self) -> Self:
        """The same rows by (example_id, position): the canonical order."""
        return self.select(self.order())

    def as_arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return column name -> array, as safetensors stores them; names and order stand beside them."""
        return {name: getattr(self, name) for name in ("example_id", "position", "predicted", "true")}

    @property
    def grades(self) -> NDArray[np.float64] | None:
        """Return the number of each label, None where labels are classes without an order.

        Labels that are numbers have these, unless two are one number, as the codes 01 and 1 are. Words in an order have
        their places in it, the lowest 1.
        """
        if has_grades(self.names):
            numbers = np.array([float(name) for name in self.names])
            if np.isfinite(numbers).all() and len(np.unique(numbers)) == len(numbers):
                return numbers
        return np.arange(1.0, len(self.names) + 1) if self.is_ordinal else None

    @property
    def counts_whole_examples(self) -> bool:
        """Return True if all rows of a text are counted together, as its entities are."""
        return has_tags(self.names)

    def is_of(self, example_id: NDArray[np.int64], position: NDArray[np.int64]) -> bool:
        """Return whether these are the rows, in this order."""
        return np.array_equal(self.example_id, example_id) and np.array_equal(self.position, position)

    def columns(self) -> NDArray[np.float64]:
        """(rows, columns): the columns whose means `metrics` takes, in the order of the rows."""
        each = np.eye(len(self.names))
        predicted, true = each[self.predicted], each[self.true]
        parts = [self.predicted[:, None] == self.true[:, None], predicted * true, predicted + true]
        if (grades := self.grades) is not None:
            distances = np.abs(grades[self.predicted] - grades[self.true])[:, None]
            parts += [distances, distances**2]
        if has_tags(self.names):
            parts.append(_entity_counts(self))
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over rows of `columns`, for each of the leading axes.

        Macro F1 is the plain mean over the classes that occur in the truth or the prediction. Entity precision, recall
        and F1 count entities over all types; they are 0 where there is no entity to divide by.
        """
        sizes = [1, len(self.names), len(self.names)]
        right, both, either, rest = np.split(means, np.cumsum(sizes), axis=-1)
        class_f1 = percent_of(2 * both, either)
        metrics = {ACCURACY: 100 * right[..., 0], MACRO_F1: class_f1.sum(axis=-1) / (either > 0).sum(axis=-1)}
        if self.grades is not None:
            metrics[MEAN_ABSOLUTE_ERROR] = rest[..., 0]
            metrics[ROOT_MEAN_SQUARED_ERROR] = np.sqrt(rest[..., 1])
        if has_tags(self.names):
            correct, found, there = np.moveaxis(rest, -1, 0)
            metrics |= {ENTITY_PRECISION: percent_of(correct, found), ENTITY_RECALL: percent_of(correct, there)}
            metrics[ENTITY_F1] = percent_of(2 * correct, found + there)
        return metrics


def has_grades(names: Sequence[str]) -> bool:
    """Return True if every label is a number, such as stars.

    Example:
        >>> has_grades(["1", "2.5", "-3"]), has_grades(["1", "good"])
        (True, False)
    """
    return all(re.fullmatch(r"[+-]?\d+(\.\d+)?", name) for name in names)


def has_tags(names: Sequence[str]) -> bool:
    """Return True if the labels mark entities: O, and B, I, E, S with or without a type behind a hyphen.

    Example:
        >>> has_tags(["O", "B-PER", "I-PER"]), has_tags(["B-PER"]), has_tags(["O", "A", "B"])
        (True, True, False)
    """
    is_tag = all(re.fullmatch(r"O|[BIES](-.*)?", name) for name in names)
    return is_tag and ("O" in names or all("-" in name for name in names))


def can_measure(names: Sequence[str]) -> bool:
    """Return False where the labels are tags, whose entities seqeval counts, and seqeval is not installed.

    Example:
        >>> can_measure(["bad", "good"])
        True
    """
    return not has_tags(names) or find_spec("seqeval") is not None


Entities = set[tuple[str, int, int]]


def text_entities(rows: LabelPredictions) -> Iterator[tuple[int, Entities, Entities]]:
    """For each text the row of its first word, the entities found and those that are true: (type, first, last word).

    Raises:
        ConfigurationError: seqeval is not installed.
    """
    try:
        from seqeval.metrics.sequence_labeling import get_entities  # noqa: PLC0415  (an optional extra)
    except ImportError as error:
        raise ConfigurationError(
            "Entity F1 needs seqeval", fix="Install it: pip install 'contextual-bert[text]'."
        ) from error
    order, names = rows.order(), np.array(rows.names, dtype=object)
    for words in np.split(order, np.flatnonzero(np.diff(rows.example_id[order])) + 1):
        found, there = (set(get_entities(names[column[words]].tolist())) for column in (rows.predicted, rows.true))
        yield int(words[0]), found, there


def _entity_counts(rows: LabelPredictions) -> NDArray[np.float64]:
    """(rows, 3): entities that are right, found and true; a text's counts stand in the row of its first word."""
    counts = np.zeros((len(rows), 3))
    for first, found, there in text_entities(rows):
        counts[first] = len(found & there), len(found), len(there)
    return counts


def percent_of(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a share in %, 0 where there is nothing to divide by.

    Example:
        >>> percent_of(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
        array([25.,  0.])
    """
    return 100 * np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
