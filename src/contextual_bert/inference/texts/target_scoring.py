"""Scores of the texts that an encoder-decoder is to write: each token given the source and the tokens before it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from contextual_bert.data import SequenceDataset
from contextual_bert.data.target_pairs import split_targets
from contextual_bert.evaluation import Scores, TextPredictions
from contextual_bert.inference.texts.token_scoring import ranked_tokens
from contextual_bert.models import IGNORED_LABEL


def score_targets(
    model: Any,
    dataset: SequenceDataset,
    *,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Rank each token of each target among all that could follow those before it.

    Args:
        model: has ``score_targets``; put it in ``eval()`` mode before.
        dataset: pairs, see ``join_targets``.
        batch_size: pairs a forward pass.
        dtype: bfloat16 runs the model under autocast.
        is_shared: all processes of the default process group call this and share the batches; each gets all scores.
        progress: called with (pairs done, pairs in all) after each batch.

    Returns:
        Scores sorted by (example_id, position), the place of the token in its pair, with which texts are written whole.

    Raises:
        DataError: there is no text.
        NonFiniteError: the model gives no numbers.
    """
    how: dict[str, Any] = {"batch_size": batch_size, "dtype": dtype, "is_shared": is_shared, "progress": progress}
    scores = ranked_tokens(model, dataset, _TargetTokens, **how)
    whole = TextPredictions.of_ranks(scores.example_id, scores.num_better, scores.num_tied)
    return replace(scores, predictions=whole)


class _TargetTokens:
    """Every token of every target."""

    def __init__(self, dataset: SequenceDataset) -> None:
        self._dataset = dataset
        self.order = dataset.by_length()
        labels: Any = dataset.labels
        self.num_results = int((labels != IGNORED_LABEL).sum())

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return split_targets(self._dataset.__getitems__(numbers).inputs(), pad_id=self._dataset.pad_id)

    def forward(self, model: Any, inputs: dict[str, Any]) -> Any:
        return model.score_targets(**inputs)

    def results(self, model: Any, outputs: Any, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return row of the table, position, and the four columns of a rank."""
        pair, place = (inputs["labels"] != IGNORED_LABEL).nonzero(as_tuple=True)
        before = inputs["attention_mask"].sum(dim=1)[pair]
        columns = (self._dataset.example_ids[numbers[pair]], before + place, *outputs)
        return torch.stack([column.cpu().double() for column in columns], dim=1)
