"""From logits to the columns that say the labels of texts: whole columns at once.

It knows no words and no query, and imports no torch: exports of texts are asked without.
"""

from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.data.number_bins import NumberBins
from contextual_bert.data.ragged import offsets_of
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.texts.text_layout import NO_START
from contextual_bert.inference.texts.text_queries import TextGives

LABEL, PROBABILITY = "predicted_label", "probability"  # a table to be labelled often has a column "label"
LOW, HIGH = "predicted_low", "predicted_high"
PREDICTION_SET = "prediction_set"


class LabelColumns:
    """The columns ``predicted_label``, ``probability`` and, of each label, ``probability_<label>``.

    A text that may have several labels has a list of those above one half, and of their probabilities. Words have a
    list of tags and of their probabilities, null behind the longest text that the model reads. A number is
    ``predicted_label``, with ``predicted_low`` and ``predicted_high``, the ends of its interval, where bins of numbers
    were learned.

    Args:
        config: of the model, of a baseline or of an export.
        has_tags: whether the model labels words.
    """

    def __init__(self, config: Any, *, has_tags: bool) -> None:
        given = cast(dict[int, Any], config.id2label)
        self.names: list[str] = [str(name) for _, name in sorted(given.items())]
        if sorted(given) != [*range(len(given))] or len({*self.names}) != len(given):
            raise ConfigurationError(
                "in the config of the model",
                setting="id2label",
                value=given,
                fix="Give each id from 0 on a name of its own.",
            )
        self.has_tags = has_tags
        self.bins = None if has_tags else NumberBins.of_config(config)
        is_regression = len(self.names) == 1 or config.problem_type == "regression"
        self.has_numbers = self.bins is not None or (not has_tags and is_regression)
        self.may_have_several = config.problem_type == "multi_label_classification"

    @property
    def gives(self) -> TextGives:
        """Return what a query is answered with."""
        if self.has_tags:
            return "tags"
        return "number" if self.has_numbers else "labels" if self.may_have_several else "label"

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        number = pa.float32()
        if self.bins is not None:
            return pa.schema([(name, pa.float64()) for name in (LABEL, LOW, HIGH)])
        if self.has_numbers:
            return pa.schema([(LABEL, number if len(self.names) == 1 else pa.list_(number))])
        if self.has_tags:
            return pa.schema([(LABEL, pa.list_(pa.string())), (PROBABILITY, pa.list_(number))])
        single = [(LABEL, pa.string()), (PROBABILITY, number)]
        first = [(name, pa.list_(kind)) for name, kind in single] if self.may_have_several else single
        return pa.schema([*first, *((f"{PROBABILITY}_{name}", number) for name in self.names)])

    def read(self, logits: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers or probabilities that are kept of logits (..., labels)."""
        shares = self.shares(logits)
        return shares if self.bins is None else self.bins.read(shares)

    def shares(self, logits: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities of the labels, or of bins of numbers, (..., labels); of other numbers these."""
        if self.has_numbers and self.bins is None:
            return logits
        return sigmoid(logits) if self.may_have_several else softmax(logits)

    @property
    def width(self) -> int:
        """Return how many numbers are kept of a text, or of a token: of tags the best one and its probability."""
        return 2 if self.has_tags else 3 if self.bins is not None else len(self.names)

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Return the type of what is kept: numbers to learn may have more digits than probabilities."""
        return np.float64 if self.bins is not None else np.float32

    def of_texts(self, kept: NDArray[Any]) -> pa.Table:
        """The columns of texts, from what was kept of each: (texts, labels)."""
        if self.bins is not None:
            return self._table([pa.array(column) for column in kept.T])
        names, width = pa.array(self.names, pa.string()), kept.shape[1]
        if self.has_numbers:
            numbers = pa.array(kept.ravel())
            return self._table([numbers if width == 1 else _lists(numbers, np.full(len(kept), width))])
        if self.may_have_several:
            is_given = kept > 0.5
            found = names.take(pa.array(is_given.nonzero()[1])), pa.array(kept[is_given])
            first = [_lists(values, is_given.sum(axis=1)) for values in found]
        else:
            best = kept.argmax(axis=1)
            first = [names.take(pa.array(best)), pa.array(kept[np.arange(len(kept)), best])]
        return self._table([*first, *(pa.array(kept[:, label]) for label in range(width))])

    def of_sure_texts(self, shares: NDArray[np.float32], is_in_set: NDArray[np.bool_]) -> pa.Table:
        """The columns of texts and their prediction sets, the likeliest label first: (texts, labels) each."""
        order = np.argsort(-shares, axis=1, kind="stable")
        rows, places = np.take_along_axis(is_in_set, order, axis=1).nonzero()
        names = pa.array(self.names, pa.string()).take(pa.array(order[rows, places]))
        return self.of_texts(shares).append_column(PREDICTION_SET, _lists(names, is_in_set.sum(axis=1)))

    def of_words(
        self, kept: NDArray[np.float32], word_starts: NDArray[np.int64], num_words: NDArray[np.int64]
    ) -> pa.Table:
        """The columns of words, from what was kept of each token, (tokens, 2); ``num_words`` of each text."""
        is_start = word_starts != NO_START
        words = word_starts[is_start]
        is_unread = np.ones(int(num_words.sum()), dtype=np.bool_)
        tags, shares = np.zeros(len(is_unread), dtype=np.int64), np.zeros(len(is_unread), dtype=np.float32)
        is_unread[words], tags[words], shares[words] = False, kept[is_start, 0], kept[is_start, 1]
        named = pa.array(self.names, pa.string()).take(pa.array(tags, mask=is_unread))
        return self._table([_lists(values, num_words) for values in (named, pa.array(shares, mask=is_unread))])

    def _table(self, columns: list[pa.Array]) -> pa.Table:
        return pa.Table.from_arrays(columns, schema=self.schema)


def softmax(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the probabilities of choices, (..., choices).

    Example:
        >>> softmax(np.array([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def sigmoid(logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the probabilities of decisions, each for itself.

    Example:
        >>> sigmoid(np.array([0.0, -1000.0])).tolist()
        [0.5, 0.0]
    """
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)


def _lists(values: pa.Array, sizes: NDArray[np.int64]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets_of(sizes), pa.int32()), values)
