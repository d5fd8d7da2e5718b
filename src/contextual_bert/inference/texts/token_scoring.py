"""Scores of the tokens of texts, each given those before it: log-probability and rank of the one that follows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contextual_bert.data import SequenceDataset
from contextual_bert.errors import DataError
from contextual_bert.evaluation import Scores
from contextual_bert.inference.scoring import Targets, check_scores, collect, rank_columns


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


class _NextTokens:
    """Every token of every window but its first."""

    def __init__(self, dataset: SequenceDataset) -> None:
        self._dataset = dataset
        self.order = dataset.by_length()
        self.num_results = int(dataset.sizes.sum()) - len(dataset)
        # Windows of a text follow each other, and share a token: where each begins in its text.
        steps = dataset.offsets.diff() - 1
        before = steps.cumsum(dim=0) - steps
        _, text, counts = dataset.example_ids.unique_consecutive(return_inverse=True, return_counts=True)
        first = counts.cumsum(dim=0) - counts
        self._starts = before - before[first][text]

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return dict(self._dataset.__getitems__(numbers).inputs())

    def forward(self, model: Any, inputs: dict[str, Any]) -> Any:
        return model.score_next(**inputs)

    def results(self, model: Any, outputs: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return row of the table, position, and the four columns of a rank."""
        places = (torch.arange(inputs["labels"].shape[1]) < self._dataset.offsets.diff()[numbers][:, None]).nonzero()
        window, place = places[places[:, 1] > 0].T
        chosen = numbers[window]
        columns = (self._dataset.example_ids[chosen], self._starts[chosen] + place, *outputs)
        return torch.stack([column.cpu().double() for column in columns], dim=1)
