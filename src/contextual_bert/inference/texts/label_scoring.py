"""Scores of labelled texts or words: log-probability and rank of each true label, and the label that was best.

Anything that gives logits can be scored, a model or a baseline, with labels that are a chain or not.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.data import SequenceDataset
from contextual_bert.data.number_bins import NumberBins
from contextual_bert.errors import DataError
from contextual_bert.evaluation import LabelPredictions, MultiLabelPredictions, NumberPredictions, Scores
from contextual_bert.inference.encode import set_index
from contextual_bert.inference.scoring import check_scores, collect, rank_columns
from contextual_bert.inference.whole_rows import ChoiceRows
from contextual_bert.models import IGNORED_LABEL, best_labels, label_logits, rank_decisions, rank_labels


def score_labels(
    model: Any,
    dataset: SequenceDataset,
    *,
    names: Sequence[str],
    is_ordinal: bool = False,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Rank the true label of each text, or of each word, among all.

    Args:
        model: gives logits; put it in ``eval()`` mode before. Where its labels are a chain, they are ranked by their
            marginal probabilities and chosen together.
        dataset: the texts with their labels.
        names: of the labels, in the order of their ids.
        is_ordinal: the labels are grades of one scale, the lowest first.
        batch_size: texts a forward pass.
        dtype: bfloat16 runs the model under autocast.
        is_shared: all processes of the default process group call this and share the batches; each gets all scores.
        progress: called with (texts done, texts in all) after each batch.

    Returns:
        Scores sorted by (example_id, position); the position of a word is that of its first token.

    Raises:
        DataError: there is no text, or none has a label.
        NonFiniteError: the model gives no numbers.

    Example:
        >>> class Undecided(torch.nn.Module):
        ...     def forward(self, input_ids, **inputs):
        ...         return {"logits": torch.zeros(len(input_ids), 2)}
        >>> texts = SequenceDataset(torch.tensor([2, 3]), torch.tensor([0, 2]), context={}, labels=torch.tensor([1]))
        >>> score_labels(Undecided(), texts, names=("bad", "good")).num_tied.tolist()
        [2]
    """
    if len(dataset) == 0 or dataset.labels is None:
        raise DataError("there is no text with a label to score", fix="Give a part with at least one, and its labels.")
    targets = _Labels(dataset, dataset.labels)
    if targets.num_results == 0:
        raise DataError("no text or word has a label", fix="Give a part with at least one.")
    rows = collect(model, targets, batch_size=batch_size, dtype=dtype, is_shared=is_shared, progress=progress)
    example_id, position, true, predicted = rows[:, :4].T.astype(np.int64)
    check_scores(rows[:, 4], model, example_id)
    places: dict[str, Any] = {"example_id": example_id, "position": position}
    predictions = LabelPredictions(**places, predicted=predicted, true=true, names=tuple(names), is_ordinal=is_ordinal)
    return Scores(**places, **rank_columns(rows[:, 4:]), predictions=predictions).sorted()


def score_decisions(
    model: Any,
    dataset: SequenceDataset,
    *,
    names: Sequence[str],
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score the decision about each label of texts that may have several.

    Args:
        model: gives logits; put it in ``eval()`` mode before.
        dataset: the texts with a 0 or a 1 for each label.
        names: of the labels, in the order of their ids.
        batch_size, dtype, is_shared, progress: as for ``score_labels``.

    Returns:
        Scores sorted by (example_id, position); the position is the id of the label.

    Raises:
        DataError: there is no text, or it has no labels of this kind.
        NonFiniteError: the model gives no numbers.

    Example:
        >>> class Sure(torch.nn.Module):
        ...     def forward(self, input_ids, **inputs):
        ...         return {"logits": torch.tensor([[3.0, -3.0]])}
        >>> texts = SequenceDataset(
        ...     torch.tensor([2, 3]), torch.tensor([0, 2]), context={}, labels=torch.tensor([[1.0, 1.0]])
        ... )
        >>> score_decisions(Sure(), texts, names=("red", "new")).num_better.tolist()
        [0, 1]
    """
    if len(dataset) == 0 or dataset.labels is None or dataset.labels.ndim != 2:
        raise DataError(
            "there is no text with several labels to score",
            fix="Give a part with at least one, and a 0 or a 1 for each label.",
        )
    targets = _Decisions(dataset, dataset.labels)
    rows = collect(model, targets, batch_size=batch_size, dtype=dtype, is_shared=is_shared, progress=progress)
    check_scores(rows[:, 4], model, rows[:, 0].astype(np.int64))
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    example_id, position = rows[:, :2].T.astype(np.int64)
    shape = (len(dataset), len(names))
    predictions = MultiLabelPredictions(
        example_id.reshape(shape)[:, 0],
        rows[:, 3].reshape(shape),
        rows[:, 2].reshape(shape).astype(np.int64),
        names=tuple(names),
    )
    return Scores(example_id, position, **rank_columns(rows[:, 4:]), predictions=predictions)


def score_numbers(
    model: Any,
    dataset: SequenceDataset,
    *,
    bins: NumberBins,
    numbers: NDArray[np.float64],
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
    is_shared: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Score the number of each text: how likely the bin is that holds it, and what is predicted.

    Args:
        model: gives a logit for each bin; put it in ``eval()`` mode before.
        dataset: the texts with their bins.
        bins: of the training numbers.
        numbers: of each row of the table that ``example_ids`` count.
        batch_size, dtype, is_shared, progress: as for ``score_labels``.

    Returns:
        Scores sorted by example_id; the position is 0.

    Raises:
        DataError: there is no text.
        NonFiniteError: the model gives no numbers.

    Example:
        >>> class Undecided(torch.nn.Module):
        ...     def forward(self, input_ids, **inputs):
        ...         return {"logits": torch.zeros(len(input_ids), 2)}
        >>> texts = SequenceDataset(torch.tensor([2, 3]), torch.tensor([0, 2]), context={}, labels=torch.tensor([1]))
        >>> bins = NumberBins(low=(0.0, 10.0), high=(4.0, 20.0), mean=(2.0, 14.0))
        >>> found = score_numbers(Undecided(), texts, bins=bins, numbers=np.array([12.0])).predictions
        >>> found.predicted.tolist(), found.high.tolist()
        ([8.0], [19.0])
    """
    if len(dataset) == 0 or dataset.labels is None:
        raise DataError("there is no text with a number to score", fix="Give a part with at least one.")
    targets = _Numbers(dataset, dataset.labels, bins)
    rows = collect(model, targets, batch_size=batch_size, dtype=dtype, is_shared=is_shared, progress=progress)
    example_id, position = rows[:, :2].T.astype(np.int64)
    check_scores(rows[:, 5], model, example_id)
    predictions = NumberPredictions(example_id, *rows[:, 2:5].T, true=numbers[example_id])
    return Scores(example_id, position, **rank_columns(rows[:, 5:]), predictions=predictions).sorted()


def label_rows(dataset: SequenceDataset) -> ChoiceRows:
    """Return the rows of texts for each of which one label is chosen."""
    return _Labels(dataset, cast(Tensor, dataset.labels))


class _Labels:
    """The label of each text, or of each word."""

    def __init__(self, dataset: SequenceDataset, labels: Tensor) -> None:
        self._dataset = dataset
        self.order = dataset.by_length()
        self.num_results = int((labels != IGNORED_LABEL).sum())

    def inputs(self, numbers: Tensor) -> dict[str, Any]:
        return dict(self._dataset.__getitems__(numbers).inputs())

    def forward(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        return model(**{name: value for name, value in inputs.items() if name != "labels"})["logits"]

    def choice_logits(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Return the logits of all labels of each text."""
        return self.forward(model, inputs).float()

    def sequences(self, numbers: Tensor) -> Tensor:
        """Return the number of the text of each of these rows: the same."""
        return numbers

    def rows_of(self, scores: Scores) -> NDArray[np.int64]:
        """Return the text of each scored label."""
        return set_index(self._dataset, scores.example_id)

    def results(self, model: Any, outputs: Tensor, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return row of the table, position, true and predicted label, and the four columns of a rank."""
        labels = inputs["labels"]
        logits, own = outputs.float(), labels.to(outputs.device)
        predicted, logits = best_labels(model, logits, own).cpu(), label_logits(model, logits, own).cpu()
        asked = labels != IGNORED_LABEL
        places = asked.view(len(numbers), -1).nonzero()
        true = labels[asked]
        columns = (self._dataset.example_ids[numbers[places[:, 0]]], places[:, 1], true, predicted[asked])
        return torch.stack([column.double() for column in (*columns, *rank_labels(logits[asked], true))], dim=1)


class _Numbers(_Labels):
    """The number of each text."""

    def __init__(self, dataset: SequenceDataset, labels: Tensor, bins: NumberBins) -> None:
        super().__init__(dataset, labels)
        self._bins = bins

    def results(self, model: Any, outputs: Tensor, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return row of the table, position, number, the ends of its interval, and the four columns of a rank."""
        logits = outputs.float().cpu()
        read = torch.from_numpy(self._bins.read(logits.softmax(dim=-1).numpy()))
        rows = self._dataset.example_ids[numbers]
        columns = (rows, torch.zeros_like(rows), *read.unbind(dim=1), *rank_labels(logits, inputs["labels"]))
        return torch.stack([column.double() for column in columns], dim=1)


class _Decisions(_Labels):
    """The decision about each label of each text."""

    def results(self, model: Any, outputs: Tensor, inputs: dict[str, Any], numbers: Tensor) -> Tensor:
        """Return row of the table, id of the label, whether it is true, its probability, and the columns of a rank."""
        labels, logits = inputs["labels"], outputs.float().cpu()
        num_labels = labels.shape[1]
        rows = self._dataset.example_ids[numbers].repeat_interleave(num_labels)
        ids = torch.arange(num_labels).repeat(len(numbers))
        ranks = (each.flatten() for each in rank_decisions(logits, labels))
        columns = (rows, ids, labels.flatten(), logits.double().sigmoid().flatten(), *ranks)
        return torch.stack([column.double() for column in columns], dim=1)
