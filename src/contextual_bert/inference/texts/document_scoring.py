"""Scores of documents for texts: the rank of each text's own among all documents of a part, by their vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data import SequenceDataset
from contextual_bert.errors import DataError
from contextual_bert.evaluation import Scores, SetPredictions
from contextual_bert.evaluation.set_predictions import UNKNOWN
from contextual_bert.inference.scoring import check_finite, check_scores, collect, rank_columns
from contextual_bert.models import rank_labels

_READ = ("input_ids", "attention_mask", "context")
_BLOCK_ELEMENTS = 2**24  # logits that are held at once


def score_documents(
    model: Any,
    dataset: SequenceDataset,
    documents: SequenceDataset,
    *,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Rank the document of each text among all different documents of these texts.

    Args:
        model: a ``ContextualBertForSentenceEmbedding``; put it in ``eval()`` mode before.
        dataset: the texts, whose ``labels`` are the numbers of their documents.
        documents: document i is the sequence i; those of other texts are not ranked.
        batch_size: texts, or documents, a forward pass.
        dtype: bfloat16 runs the model under autocast.
        is_shared: all processes of the default process group call this and share the batches; each gets all scores.
        progress: called with (texts done, texts in all) after each batch.

    Returns:
        Scores sorted by example_id; the position is 0. A text has one right document, which is a set of one.

    Raises:
        DataError: there is no text.
        NonFiniteError: the model gives no numbers.
    """
    numbers = ranked_documents(dataset)
    how: dict[str, Any] = {"batch_size": batch_size, "dtype": dtype, "is_shared": is_shared}
    vectors = document_vectors(model, documents.subset(numbers), **how)

    def read(inputs: dict[str, Any]) -> Tensor:
        return model.embed(**{name: inputs[name] for name in _READ if name in inputs})

    def compare(found: Tensor) -> Tensor:
        return model.compare(found.float(), vectors.to(found.device))

    return score_among(model, dataset, numbers, read, compare=compare, progress=progress, **how)


def score_among(
    model: Any,
    dataset: SequenceDataset,
    numbers: Tensor,
    read: Callable[[dict[str, Any]], Tensor],
    *,
    compare: Callable[[Tensor], Tensor],
    **how: Any,
) -> Scores:
    """Rank the document of each text among some documents.

    Args:
        model: says on which device it computes; its weights are looked at where it gives no numbers.
        dataset: the texts, whose ``labels`` are among ``numbers``.
        numbers: of the documents that are ranked, ascending.
        read: inputs of a batch of texts, with their numbers as ``rows`` -> what ``compare`` takes, (batch, ...).
        compare: some rows of that -> the logits of the documents, (rows, documents).
        **how: as for ``collect``.

    Returns:
        Scores, as ``score_documents`` gives them.
    """
    rows = collect(model, _Texts(dataset, numbers, read, compare), **how)
    example_id = rows[:, 0].astype(np.int64)
    check_scores(rows[:, 1], model, example_id)
    none = np.zeros_like(example_id)
    single = SetPredictions(example_id, none, set_size=none + 1, times_before=none + UNKNOWN)
    return Scores(example_id, none, **rank_columns(rows[:, 1:]), predictions=single).sorted()


def ranked_documents(dataset: SequenceDataset) -> Tensor:
    """Return the numbers of the different documents of some texts, ascending.

    Raises:
        DataError: there is no text.
    """
    if len(dataset) == 0 or dataset.labels is None:
        raise DataError(
            "there is no text with a document to score", fix="Give a part with at least one, and its documents."
        )
    return dataset.labels.unique()


def document_vectors(model: Any, documents: SequenceDataset, **how: Any) -> Tensor:
    """Return the vector of each document, without a context: (documents, hidden) float32.

    Args:
        model: as for ``score_documents``.
        documents: all of which are read.
        **how: ``batch_size``, ``dtype`` and ``is_shared``, as for ``collect``.
    """
    return torch.from_numpy(embed_texts(model, documents.with_context({}), **how))


def embed_texts(
    model: Any,
    dataset: SequenceDataset,
    *,
    batch_size: int,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Return the vector of each text under its context, (texts, hidden), in the order of the data set.

    Args:
        model: as for ``score_documents``.
        dataset: the texts; without a context nothing is known of anybody.
        batch_size, dtype, is_shared, progress: as for ``score_documents``.

    Raises:
        NonFiniteError: the model gives no numbers.
    """
    found = collect(
        model, _Vectors(dataset), batch_size=batch_size, dtype=dtype, is_shared=is_shared, progress=progress
    )
    vectors = np.empty((len(found), found.shape[1] - 1), dtype=np.float32)
    vectors[found[:, 0].astype(np.int64)] = found[:, 1:]
    return vectors


class _Vectors:
    """The vector of each text."""

    def __init__(self, dataset: SequenceDataset) -> None:
        self._dataset = dataset
        self.order = dataset.by_length()  # texts of one length beside each other, so that none is padded much
        self.num_results = len(dataset)

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        inputs = self._dataset.__getitems__(numbers).inputs()
        return {name: inputs[name] for name in _READ if name in inputs}

    def forward(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        return model.embed(**inputs)

    def results(self, model: Any, outputs: Tensor, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return the number of the text, and its vector."""
        check_finite(outputs, model)
        return torch.cat([numbers[:, None].double(), outputs.cpu().double()], dim=1)


class _Texts:
    """The rank of the document of each text."""

    def __init__(
        self,
        dataset: SequenceDataset,
        numbers: Tensor,
        read: Callable[[dict[str, Any]], Tensor],
        compare: Callable[[Tensor], Tensor],
    ) -> None:
        self._dataset, self._numbers, self._read, self._compare = dataset, numbers, read, compare
        self.order = dataset.by_length()
        self.num_results = len(dataset)

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return {**self._dataset.__getitems__(numbers).inputs(), "rows": numbers}

    def forward(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        return self._read(inputs)

    def results(self, model: Any, outputs: Tensor, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return the row of the table, and the four columns of a rank."""
        own = torch.searchsorted(self._numbers, inputs["labels"])
        size = max(1, _BLOCK_ELEMENTS // len(self._numbers))
        parts = [
            rank_labels(self._compare(some).float().cpu(), of_some)
            for some, of_some in zip(outputs.split(size), own.split(size), strict=True)
        ]
        columns = [torch.cat(column).double() for column in zip(*parts, strict=True)]
        return torch.stack([self._dataset.example_ids[numbers].double(), *columns], dim=1)
