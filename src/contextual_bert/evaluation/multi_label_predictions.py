"""Predictions of texts that may have several labels at once, and their metrics.

It knows numbers and names of labels alone: no model and no text.

Papers: Schapire and Singer (2000), "BoosTexter", section 5, for the label ranking average precision.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation.example_predictions import ExamplePredictions
from contextual_bert.evaluation.label_predictions import percent_of
from contextual_bert.evaluation.metrics import EXACT_LABELS, LABEL_RANKING, MACRO_F1, MICRO_F1
from contextual_bert.evaluation.number_columns import check_label_names

_CELLS = 2**24  # of an array that is held while labels are ranked


@dataclass(frozen=True, eq=False)
class MultiLabelPredictions(ExamplePredictions):
    """The probability of each label of each text, and which labels are true. A label above one half is predicted.

    Formula: micro F1 = 2 sum of [predicted and true] / sum of ([predicted] + [true]), over all texts and labels; macro
    F1 the mean of the F1 of each label; exact match = mean of [the predicted labels are the true ones]; LRAP = mean
    over texts of the mean over true labels of (true labels at least as likely) / (labels at least as likely).

    Symbols: ids of labels, which count from 0 in the order of ``names``.

    Shapes: example_id (rows,); probability and true (rows, labels).

    Args:
        example_id: row of the original table, each once.
        probability: of each label.
        true: 1 where a text has the label, else 0.
        names: of the labels.

    Raises:
        ConfigurationError: shapes that do not go together; no or repeated names.
        DataError: a value that cannot be; a text twice.

    Relation to its siblings: ``LabelPredictions`` is for one label a text.

    Reference: Schapire and Singer (2000), section 5. A text without a label has no LRAP.

    Example:
        >>> rows = MultiLabelPredictions([7, 8], [[0.9, 0.2], [0.4, 0.6]], [[1, 0], [1, 1]], names=("a", "b"))
        >>> {key: round(float(value), 1) for key, value in rows.metrics(rows.columns().mean(axis=0)).items()}
        {'micro_f1_percent': 80.0, 'macro_f1_percent': 83.3, 'exact_labels_percent': 50.0, \
'label_ranking_precision_percent': 100.0}
    """

    probability: NDArray[np.float64]
    true: NDArray[np.int64]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        check_label_names(self.names)
        example_id = np.asarray(self.example_id, dtype=np.int64)
        probability, true = np.asarray(self.probability, np.float64), np.asarray(self.true)
        shape = (len(example_id), len(self.names))
        if example_id.ndim != 1 or probability.shape != shape or true.shape != shape:
            raise ConfigurationError(
                f"probability has shape {probability.shape} and true {true.shape}",
                fix=f"Give both a row a text and a column a label: {shape}.",
            )
        for name, column, is_right in (
            ("probability", probability, (probability >= 0) & (probability <= 1)),
            ("true", true, (true == 0) | (true == 1)),
        ):
            if not is_right.all():
                row, label = (int(each[0]) for each in np.nonzero(~is_right))
                raise DataError(
                    f"{column[row, label]} for the label {self.names[label]!r}",
                    row=row,
                    column=name,
                    fix="Give probabilities between 0 and 1, and 0 or 1 for what is true.",
                )
        for name, column in (("example_id", example_id), ("probability", probability), ("true", true.astype(np.int64))):
            object.__setattr__(self, name, column)
        self.check_each_once("text", advice="Predict every text once")

    @property
    def shared(self) -> dict[str, Any]:
        """Return the names of the labels, which all rows share."""
        return {"names": self.names}

    def as_arrays(self) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
        """Return column name -> array, as safetensors stores them; names stand beside them."""
        return {"example_id": self.example_id, "probability": self.probability, "true": self.true}

    @property
    def predicted(self) -> NDArray[np.bool_]:
        """Return which labels are predicted, (rows, labels)."""
        return self.probability > 0.5

    def columns(self) -> NDArray[np.float64]:
        """(rows, 2 labels + 3): the columns whose means ``metrics`` takes."""
        predicted, true = self.predicted, self.true == 1
        has_label = true.any(axis=1)
        whole = np.stack([(predicted == true).all(axis=1), self._ranking() * has_label, has_label], axis=1)
        return np.concatenate([predicted & true, predicted.astype(np.int64) + true, whole], axis=1, dtype=np.float64)

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over rows of ``columns``, for each of the leading axes.

        Macro F1 is the plain mean over the labels that occur in the truth or the prediction. F1 is 0 where nothing is
        there to divide by, and so is LRAP where no text has a label.
        """
        size = len(self.names)
        both, either, whole = np.split(means, [size, 2 * size], axis=-1)
        num_labels = (either > 0).sum(axis=-1)
        macro = percent_of(2 * both, either).sum(axis=-1) / np.maximum(num_labels, 1)
        return {
            MICRO_F1: percent_of(2 * both.sum(axis=-1), either.sum(axis=-1)),
            MACRO_F1: macro,
            EXACT_LABELS: 100 * whole[..., 0],
            LABEL_RANKING: percent_of(whole[..., 1], whole[..., 2]),
        }

    def average_precision(self) -> NDArray[np.float64]:
        """Return the average precision of each label, in %: (labels,), NaN where no text has it.

        Formula: AP = sum over thresholds of (R_n - R_n-1) P_n, with P_n and R_n of the n likeliest texts, ties at once.

        Example:
            >>> rows = MultiLabelPredictions([0, 1], [[0.9, 0.1], [0.4, 0.1]], [[0, 0], [1, 0]], names=("a", "b"))
            >>> rows.average_precision()
            array([50., nan])
        """
        found = np.full(len(self.names), np.nan)
        for label in np.flatnonzero(self.true.any(axis=0)):
            order = np.argsort(-self.probability[:, label], kind="stable")
            shown = self.probability[order, label]
            is_last = np.append(np.diff(shown) != 0, True)
            right = np.cumsum(self.true[order, label])[is_last]
            num_shown = np.flatnonzero(is_last) + 1
            found[label] = 100 * np.sum(np.diff(right, prepend=0) * right / num_shown) / right[-1]
        return found

    def _ranking(self) -> NDArray[np.float64]:
        """Return for each text the mean over its labels of the share of true ones among those as likely; 0 without."""
        found = np.zeros(len(self))
        step = max(1, _CELLS // len(self.names) ** 2)
        for start in range(0, len(self), step):
            shown, true = self.probability[start : start + step], self.true[start : start + step] == 1
            is_before = shown[:, None, :] >= shown[:, :, None]  # the label of the last axis is as likely
            share = (is_before & true[:, None, :]).sum(axis=2) / is_before.sum(axis=2)
            found[start : start + step] = (share * true).sum(axis=1) / np.maximum(true.sum(axis=1), 1)
        return found
