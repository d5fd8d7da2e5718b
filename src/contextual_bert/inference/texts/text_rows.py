"""Encoded texts and windows as flat arrays, and batches of them, the longest first.

It knows ids, no word, no label and no model, and imports no torch: exports of texts are asked without.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.context.encoding import missing_like
from contextual_bert.context.kinds import MULTI_PADDING

_SHORT = 32  # tokens: padding to fewer costs less than a forward pass of its own


class TextBatch(NamedTuple):
    """Some texts or windows, padded to the longest.

    ``rows``: their numbers; ``places``: of each token among those of all texts; ``is_real``: False for padding;
    ``spelt``: of models that read the characters of words, see ``SpeltTokens``.

    Shapes: rows (batch,); places, is_real, input_ids, token_type_ids (batch, length); context each (batch, ...).
    """

    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    is_real: NDArray[np.bool_]
    input_ids: NDArray[np.int64]
    token_type_ids: NDArray[np.int64] | None
    context: Mapping[str, NDArray[Any]]
    spelt: Any = None

    @property
    def attention_mask(self) -> NDArray[np.int64]:
        """1 for each token, 0 for padding."""
        return self.is_real.astype(np.int64)

    def without_context(self, index: NDArray[np.int64]) -> Self:
        """Return the chosen texts as those of people of whom nothing is known."""
        halves = self.token_type_ids[index] if self.token_type_ids is not None else None
        return self._replace(
            rows=self.rows[index],
            places=self.places[index],
            is_real=self.is_real[index],
            input_ids=self.input_ids[index],
            token_type_ids=halves,
            context={name: missing_like(values[index]) for name, values in self.context.items()},
        )


@dataclass(frozen=True, eq=False)
class TextRows:
    """Texts, or windows of them, as one flat array of ids and offsets, with a row of context for each.

    Shapes: ids and token_type_ids (tokens,), offsets (rows + 1,), context_rows (rows,), context each (people, ...).

    Args:
        ids: ids of all tokens, [CLS] and [SEP] included.
        offsets: text i is ``ids[offsets[i] : offsets[i + 1]]``.
        pad_id: id behind the end of a text.
        token_type_ids: 1 in the second half of a pair; None: there are no pairs.
        context: an array a feature; empty where no context is read.
        context_rows: which row of the context each text has; None: its own.
        spelt: of models that read the characters of words.

    Relation to its siblings:
        ``SequenceDataset`` holds the same as tensors, with what is learned, for training and scoring.

    Example:
        >>> rows = TextRows(np.array([5, 6, 7]), np.array([0, 1, 3]), pad_id=0, context={"sex": np.array([1, 2])})
        >>> batch = next(rows.batches(2))
        >>> batch.input_ids.tolist(), batch.context["sex"].tolist()
        ([[6, 7], [5, 0]], [2, 1])
    """

    ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    pad_id: int
    token_type_ids: NDArray[Any] | None = None
    context: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    context_rows: NDArray[np.int64] | None = None
    spelt: Any = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def for_context(self, context: Mapping[str, NDArray[Any]]) -> Self:
        """Return the same texts for other people."""
        return replace(self, context=context)

    def has_known_token(self, tokenizer: Any) -> NDArray[np.bool_]:
        """Return for each text whether the tokenizer knows a token of it; shape (texts,)."""
        is_known = ~np.isin(self.ids, tokenizer.all_special_ids)
        return np.add.reduceat(is_known, self.offsets[:-1]) > 0

    def batches(self, batch_size: int, *, progress: Callable[[int, int], None] | None = None) -> Iterator[TextBatch]:
        """Yield all texts, those of like length together.

        Args:
            batch_size: texts a batch.
            progress: called with (texts done, texts in all) after each batch.
        """
        num_done = 0
        for rows in rows_of_like_length(np.diff(self.offsets), batch_size):
            yield self.batch(rows)
            num_done += len(rows)
            if progress is not None:
                progress(num_done, len(self))

    def batch(self, rows: NDArray[np.int64]) -> TextBatch:
        """Return the texts of these numbers, in that order."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        columns = np.arange(int(lengths.max(initial=0)))
        is_real = columns < lengths[:, None]
        places = np.minimum(starts[:, None] + columns, len(self.ids) - 1)
        halves = None
        if self.token_type_ids is not None:
            halves = np.where(is_real, self.token_type_ids[places], 0).astype(np.int64)
        own = rows if self.context_rows is None else self.context_rows[rows]
        context = {name: trimmed(values[own]) for name, values in self.context.items()}
        ids = np.where(is_real, self.ids[places], self.pad_id)
        return TextBatch(rows, places, is_real, ids, halves, context, self.spelt)


def rows_of_like_length(lengths: NDArray[np.int64], batch_size: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of the rows of batches of like length, which need little padding.

    The longest come first: what does not fit into memory fails at once. No row of a batch is shorter than half of its
    longest one, unless that is short: then a batch of its own costs more than the padding.

    Args:
        lengths: (rows,).
        batch_size: rows a batch at most.

    Example:
        >>> [rows.tolist() for rows in rows_of_like_length(np.array([1, 50, 29]), 64)]
        [[1, 2], [0]]
    """
    order = np.argsort(-lengths, kind="stable")
    falling = lengths[order]
    start = 0
    while start < len(order):
        shortest = falling[start] / 2 if falling[start] > _SHORT else 0
        end = min(start + batch_size, int(np.searchsorted(-falling, -shortest, side="right")))
        yield order[start:end]
        start = end


def trimmed(values: NDArray[Any]) -> NDArray[Any]:
    """Return lists of values as wide as the longest of these rows; other features as they are.

    Relation to its siblings:
        ``take_context`` does the same with tensors, of histories too.

    Example:
        >>> trimmed(np.array([[4, 0, 0], [5, 6, 0]])).tolist()
        [[4, 0], [5, 6]]
    """
    if values.ndim != 2 or values.dtype.kind == "f":
        return values
    filled = np.flatnonzero((values != MULTI_PADDING).any(axis=0))
    return values[:, : int(filled[-1]) + 1 if len(filled) else 1]
