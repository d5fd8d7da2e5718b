"""Scores of pairs of sentences: each token hidden once, and whether the second sentence follows the first."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data import SequenceDataset
from contextual_bert.data.sentence_pairs import SentencePairs, pair_numbers, with_pair_numbers
from contextual_bert.evaluation import Scores
from contextual_bert.evaluation.sentence_predictions import SentencePredictions
from contextual_bert.inference.scoring import check_finite, collect, score


def score_pairs(
    model: Any, dataset: SequenceDataset, pairs: SentencePairs, *, tokenizer: Any, most: int | None, **settings: Any
) -> Scores:
    """Hide each token of each pair once, or a sample of them, and decide about the pairs of these texts.

    Args:
        model: has ``score_masked`` and ``score_next_sentence``; put it in ``eval()`` mode before.
        dataset: pairs as they follow each other, those of a text one after the other.
        pairs: the same, of which half have another second sentence.
        tokenizer: its special tokens are not hidden.
        most: tokens that are hidden at most; None hides all.
        **settings: ``batch_size``, ``dtype``, ``is_shared`` and ``progress``, as for ``score``.

    Returns:
        Scores sorted by (example_id, position), the place of the token in all pairs of its text, with
        ``SentencePredictions``.

    Raises:
        DataError: there is no pair.
        NonFiniteError: the model gives no numbers.
    """
    found = score(model, with_pair_numbers(dataset), tokenizer=tokenizer, most=most, **settings)
    numbers, first = pair_numbers(dataset)
    order = np.argsort(numbers)
    pair = order[np.searchsorted(numbers, found.example_id, sorter=order)]
    rows, offsets = dataset.example_ids.numpy(), dataset.offsets.numpy()
    position = found.position + offsets[pair] - offsets[first[pair]]
    how: dict[str, Any] = {**settings, "progress": None}
    predictions = decide_pairs(model, pairs, np.flatnonzero(np.isin(rows, rows[pair])), rows=rows, **how)
    return replace(found, example_id=rows[pair], position=position, predictions=predictions).sorted()


def decide_pairs(
    model: Any, pairs: SentencePairs, chosen: NDArray[np.int64], *, rows: NDArray[np.int64], **settings: Any
) -> SentencePredictions:
    """Decide about pairs of sentences, and count the right decisions of each text.

    Args:
        model: has ``score_next_sentence``; put it in ``eval()`` mode before.
        pairs: of which half have another second sentence.
        chosen: numbers of the pairs that are decided.
        rows: of the text of each pair, (pairs,).
        **settings: ``batch_size``, ``dtype``, ``is_shared`` and ``progress``, as for ``score``.

    Raises:
        NonFiniteError: the model gives no numbers.
    """
    how: dict[str, Any] = {"batch_size": 1024, "dtype": torch.float32, "is_shared": False, "progress": None, **settings}
    results = collect(model, _Decisions(pairs, torch.from_numpy(chosen)), **how)
    results = results[results[:, 0].argsort(kind="stable")]
    results = results[np.unique(results[:, 0], return_index=True)[1]]
    return SentencePredictions.of_pairs(rows[results[:, 0].astype(np.int64)], results[:, 1] == results[:, 2])


class _Decisions:
    """The decision about each of some pairs."""

    def __init__(self, pairs: SentencePairs, chosen: Tensor) -> None:
        self._pairs = pairs
        self.order = chosen[torch.from_numpy(pairs.sizes)[chosen].argsort(stable=True)]
        self.num_results = len(chosen)

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return dict(self._pairs.__getitems__(numbers).inputs())

    def forward(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        return model.score_next_sentence(**{n: value for n, value in inputs.items() if n != "next_sentence_label"})

    def results(self, model: Any, outputs: Tensor, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return number of the pair, the truth, and the decision."""
        logits = outputs.float().cpu()
        check_finite(logits, model)
        return torch.stack([numbers, inputs["next_sentence_label"], logits.argmax(dim=1)], dim=1).double()
