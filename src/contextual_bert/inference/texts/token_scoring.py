"""Scores of the tokens of texts: log-probability and rank of each, given those before it, or those behind it, too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contextual_bert.data import SequenceDataset
from contextual_bert.data.dataset import IGNORED_LABEL
from contextual_bert.errors import DataError
from contextual_bert.evaluation import Scores
from contextual_bert.inference.scoring import Targets, check_scores, collect, rank_columns
from contextual_bert.models.bidirectional_lm import asked_both_ways


def score_tokens(
    model: Any,
    dataset: SequenceDataset,
    *,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Rank each token of each text among all that could follow those before it.

    Args:
        model: has ``score_next``; put it in ``eval()`` mode before.
        dataset: windows of texts, see ``in_windows``.
        batch_size: windows a forward pass.
        dtype: bfloat16 runs the model under autocast.
        is_shared: all processes of the default process group call this and share the batches; each gets all scores.
        progress: called with (windows done, windows in all) after each batch.

    Returns:
        Scores sorted by (example_id, position), the place of the token in its text.

    Raises:
        DataError: there is no text.
        NonFiniteError: the model gives no numbers.
    """
    how: dict[str, Any] = {"batch_size": batch_size, "dtype": dtype, "is_shared": is_shared, "progress": progress}
    return ranked_tokens(model, dataset, _NextTokens, **how)


def score_words(
    model: Any,
    dataset: SequenceDataset,
    *,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Rank each word of each text among all, once given those before it and once given those behind it.

    Args:
        model: has ``score_words``; put it in ``eval()`` mode before.
        dataset: windows of texts, see ``in_marked_windows``.
        batch_size, dtype, is_shared, progress: as for ``score_tokens``.

    Returns:
        Scores sorted by (example_id, position). Of the word at place k, 2 k is the position given the words before it
        and 2 k + 1 given those behind it.

    Raises:
        DataError, NonFiniteError: as ``score_tokens``.
    """
    how: dict[str, Any] = {"batch_size": batch_size, "dtype": dtype, "is_shared": is_shared, "progress": progress}
    return ranked_tokens(model, dataset, _BothWays, **how)


def ranked_tokens(
    model: Any, dataset: SequenceDataset, targets: Callable[[SequenceDataset], Targets], **how: Any
) -> Scores:
    """Return the scores of what is asked of a data set, sorted by (example_id, position).

    Args:
        model: in ``eval()`` mode.
        dataset: of texts.
        targets: what is asked of it, whose results are row of the table, position, and the four columns of a rank.
        **how: as for ``collect``.

    Raises:
        DataError: there is no text.
        NonFiniteError: the model gives no numbers.
    """
    if len(dataset) == 0:
        raise DataError("there is no text to score", fix="Give a part with at least one.")
    rows = collect(model, targets(dataset), **how)
    example_id, position = rows[:, :2].T.astype(np.int64)
    check_scores(rows[:, 2], model, example_id)
    places: dict[str, Any] = {"example_id": example_id, "position": position}
    return Scores(**places, **rank_columns(rows[:, 2:])).sorted()


class _Windows:
    """Windows of texts, which follow each other, and where each begins in its text.

    Args:
        dataset: the windows.
        num_shared: tokens of each that the next one has, too, or that are none of the text.
    """

    def __init__(self, dataset: SequenceDataset, *, num_shared: int) -> None:
        self._dataset = dataset
        self.order = dataset.by_length()
        steps = dataset.offsets.diff() - num_shared
        before = steps.cumsum(dim=0) - steps
        _, text, counts = dataset.example_ids.unique_consecutive(return_inverse=True, return_counts=True)
        first = counts.cumsum(dim=0) - counts
        self._starts = before - before[first][text]

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return dict(self._dataset.__getitems__(numbers).inputs())


class _NextTokens(_Windows):
    """Every token of every window but its first."""

    def __init__(self, dataset: SequenceDataset) -> None:
        super().__init__(dataset, num_shared=1)
        self.num_results = int(dataset.sizes.sum()) - len(dataset)

    def forward(self, model: Any, inputs: dict[str, Any]) -> Any:
        return model.score_next(**inputs)

    def results(self, model: Any, outputs: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return row of the table, position, and the four columns of a rank."""
        places = (torch.arange(inputs["labels"].shape[1]) < self._dataset.offsets.diff()[numbers][:, None]).nonzero()
        window, place = places[places[:, 1] > 0].T
        chosen = numbers[window]
        columns = (self._dataset.example_ids[chosen], self._starts[chosen] + place, *outputs)
        return torch.stack([column.cpu().double() for column in columns], dim=1)


class _BothWays(_Windows):
    """Every word of every window, from both sides, where it is asked."""

    def __init__(self, dataset: SequenceDataset) -> None:
        super().__init__(dataset, num_shared=2)
        self.num_results = 2 * int((dataset.labels != IGNORED_LABEL).sum()) - self._num_ends(dataset)

    def _num_ends(self, dataset: SequenceDataset) -> int:
        """Return how many starts and ends are asked: each from one side alone."""
        labels: Any = dataset.labels
        ends = torch.cat([dataset.offsets[:-1], dataset.offsets[1:] - 1])
        return int((labels[ends] != IGNORED_LABEL).sum())

    def forward(self, model: Any, inputs: dict[str, Any]) -> Any:
        return model.score_words(**inputs)

    def results(self, model: Any, outputs: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return row of the table, position, and the four columns of a rank."""
        labels = inputs["labels"]
        asked = asked_both_ways(labels, inputs["attention_mask"])
        window, column = (asked != IGNORED_LABEL).nonzero().T
        direction, place = column // labels.shape[1], column % labels.shape[1]
        chosen = numbers[window]
        position = 2 * (self._starts[chosen] + place) + direction
        columns = (self._dataset.example_ids[chosen], position, *outputs)
        return torch.stack([column.cpu().double() for column in columns], dim=1)
