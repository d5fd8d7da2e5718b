"""Objectives of a training: masked items or tokens, and labels or answers. Each collates batches and ranks the truth.

The best epoch is chosen over all rows of the evaluated data: an objective gives a score for each row, and sums them up.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import Sampler
from transformers import EvalPrediction

from contextual_bert.data import (
    EveryPosition,
    LastPosition,
    MaskingCollator,
    NextItemCollator,
    SequenceDataset,
    TextMaskingCollator,
    WholeSetCollator,
)
from contextual_bert.data.number_bins import NumberBins
from contextual_bert.data.target_pairs import split_targets
from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation import Scores, summarise
from contextual_bert.evaluation.label_predictions import LabelPredictions, can_measure
from contextual_bert.evaluation.measures import prediction_measures
from contextual_bert.evaluation.metrics import (
    CROSS_ENTROPY,
    DEFAULT_KS,
    EXACT_TEXT,
    MULTI_LABEL_METRICS,
    NUMBER_METRICS,
    SET_KS,
    SET_METRICS,
    TEXT_METRICS,
    exact_mean,
)
from contextual_bert.evaluation.multi_label_predictions import MultiLabelPredictions
from contextual_bert.evaluation.number_predictions import NumberPredictions
from contextual_bert.evaluation.set_predictions import UNKNOWN, SetPredictions
from contextual_bert.evaluation.text_predictions import TextPredictions
from contextual_bert.models import (
    IGNORED_LABEL,
    RESERVED_ITEMS,
    ContextualBertProcessor,
    best_labels,
    label_logits,
    rank_decisions,
    rank_labels,
    span_logits,
)
from contextual_bert.models.bidirectional_lm import asked_both_ways
from contextual_bert.training.arguments import ContextualTrainingArguments
from contextual_bert.training.epochs import ChangesByEpoch
from contextual_bert.training.param_groups import thresholds_of

SPANS = ("start_positions", "end_positions")


class Objective(ABC):
    """Collate training batches, rank the truth in batches of an evaluation, and sum the ranks up.

    Attributes:
        ks: of the recalls that are evaluated.
        label_metrics: keys of the metrics that are evaluated beside those of ranks.
        followers: what changes from epoch to epoch.
    """

    ks: Sequence[int] = DEFAULT_KS
    label_metrics: Collection[str] = ()
    followers: Sequence[ChangesByEpoch] = ()
    collate: Callable[[Any], dict[str, Any]] | None

    @abstractmethod
    def evaluated(self, dataset: SequenceDataset) -> Any:
        """Return the rows that are scored of a data set."""

    @abstractmethod
    def sampler(self, dataset: Any, *, batch_size: int) -> Any:
        """Return the order in which rows are scored, None for the order of transformers."""

    @abstractmethod
    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the columns of ``MaskedScores`` for the rows of a batch, and what is true.

        Args:
            model: unwrapped.
            inputs: of a batch, with what is true.
            forward: the model, in the precision of the training.
        """

    @abstractmethod
    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the metrics of all rows; ``loss`` is the cross-entropy, not the mean over unequal batches."""


class MaskedObjective(Objective):
    """Predict masked items of sets, or hidden tokens of texts.

    Args:
        args: say how many items of a set are masked.
        ids: has ``mask_token_id`` and ``pad_token_id``: a tokenizer or a config.
        collator: of the training batches, for texts; None masks items as ``args`` says.
        asks_next: whether the last item of each sequence is what is asked for, see ``MaskingCollator``.
    """

    def __init__(
        self,
        args: ContextualTrainingArguments,
        ids: Any,
        collator: TextMaskingCollator | None = None,
        *,
        asks_next: bool = False,
    ) -> None:
        self.special_ids = collator.special_ids if collator is not None else ()
        self.reserved = self.special_ids or tuple(range(len(RESERVED_ITEMS)))
        masking = collator or MaskingCollator(
            mask_id=ids.mask_token_id,
            pad_id=ids.pad_token_id,
            masks_per_set=args.masks_per_set,
            one_mask_from_epoch=args.one_mask_from_epoch,
            asks_next=asks_next,
            seed=args.seed,
        )
        self.collate, self.followers = masking, (masking,)

    def evaluated(self, dataset: SequenceDataset) -> EveryPosition:
        """Mask every position of every sequence once."""
        return EveryPosition(dataset, leave_out=self.special_ids)

    def sampler(self, dataset: Any, *, batch_size: int) -> Sampler[int] | None:
        """Fill the last batch, so that each is the same for any number of processes."""
        return WholeBatchSampler(len(dataset), batch_size=batch_size) if isinstance(dataset, EveryPosition) else None

    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rank the masked items among all: in float32, without autocast."""
        labels = inputs["labels"]
        return tuple(model.score_masked(**inputs)), labels[labels != IGNORED_LABEL]

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Leave out items that the vocabulary does not know: they have a reserved id and cannot be ranked."""
        is_asked = ~np.isin(np.asarray(prediction.label_ids), self.reserved)
        return summarise_rows(prediction.predictions, is_asked)


class NextItemObjective(MaskedObjective):
    """Predict the next item of sequences: each from those before it, or, where a model reads both sides, hidden ones.

    Args:
        args: as for ``MaskedObjective``.
        ids: has ``mask_token_id`` and ``pad_token_id``: a tokenizer or a config.
        reads_before: whether the model reads what stands before a position alone, see ``predicts_next`` of its config.
        longest: items that the model reads; of longer sequences the newest. None: all.
    """

    label_metrics = SET_METRICS

    def __init__(
        self, args: ContextualTrainingArguments, ids: Any, *, reads_before: bool, longest: int | None = None
    ) -> None:
        super().__init__(args, ids, asks_next=True)
        self.longest = longest
        if reads_before:
            self.collate, self.followers = NextItemCollator(pad_id=ids.pad_token_id), ()

    def evaluated(self, dataset: SequenceDataset) -> LastPosition:
        """Mask the last position of every sequence."""
        return LastPosition(dataset, longest=self.longest)

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Add the metrics of sets, for the last item is a set of one."""
        labels = np.asarray(prediction.label_ids)[:, None]
        columns = tuple(np.asarray(each)[:, None] for each in prediction.predictions)
        is_asked = ~np.isin(labels, self.reserved)
        return {**super().summarise(prediction), **summarise_sets(columns, labels, is_asked)}


class WholeSetObjective(Objective):
    """Predict all items of a set from its context alone, such as the next basket from what was bought before.

    Args:
        ids: has ``mask_token_id`` and ``pad_token_id``: a tokenizer or a config.
    """

    reserved = tuple(range(len(RESERVED_ITEMS)))
    label_metrics = SET_METRICS

    def __init__(self, ids: Any) -> None:
        self.collate = WholeSetCollator(mask_id=ids.mask_token_id, pad_id=ids.pad_token_id)

    def evaluated(self, dataset: SequenceDataset) -> SequenceDataset:
        """Ask for every set once."""
        return dataset

    def sampler(self, dataset: Any, *, batch_size: int) -> Sampler[int]:
        """Fill the last batch, so that each is the same for any number of processes."""
        return WholeBatchSampler(len(dataset), batch_size=batch_size)

    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rank each item of each set among all: in float32, without autocast; a grid a column."""
        labels = inputs["labels"]
        is_asked = labels != IGNORED_LABEL
        columns = (each.double() for each in model.score_masked(**inputs))
        grids = (torch.zeros(labels.shape, dtype=torch.float64, device=labels.device) for _ in range(4))
        filled = tuple(grid.masked_scatter(is_asked, column) for grid, column in zip(grids, columns, strict=True))
        return filled, labels

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Leave out items that the vocabulary does not know: they have a reserved id and cannot be ranked."""
        labels = np.asarray(prediction.label_ids)
        is_asked = (labels != IGNORED_LABEL) & ~np.isin(labels, self.reserved)
        log_probability, num_better, num_tied, confidence = (np.asarray(each) for each in prediction.predictions)
        columns = (log_probability, num_better.astype(np.int64), num_tied.astype(np.int64), confidence)
        return {**summarise_rows(columns, is_asked), **summarise_sets(columns, labels, is_asked)}


class LabelObjective(Objective):
    """Predict the label of each text or word, or where the answer to a question begins and ends.

    Args:
        model: one with classes, a baseline for texts too, or one that answers questions.
        dataset: whose labels are learned; None: nothing is trained.
        names: of the labels in the order of their ids: they say which metrics there are beside the ranks, such as
            accuracy, the MAE and RMSE of grades, the F1 of entities. None: those of the model's config.
    """

    ks = (1,)  # with few labels the first alone means something

    def __init__(self, model: nn.Module, dataset: SequenceDataset | None, names: Sequence[str] | None = None) -> None:
        self.names = config_label_names(model, dataset) if names is None else tuple(names)
        self.is_ordinal = bool(thresholds_of(model))
        self.label_metrics = label_metrics(self.names, is_ordinal=self.is_ordinal)
        self.collate = dataset.collate_fn if dataset is not None else None

    def evaluated(self, dataset: SequenceDataset) -> SequenceDataset:
        """Return the texts as they are."""
        return dataset

    def sampler(self, dataset: Any, *, batch_size: int) -> Any:
        """Score texts of one length together: padding is not paid for."""
        return dataset.by_length().tolist() if isinstance(dataset, SequenceDataset) else None

    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rank the labels as grids, which transformers pads and gathers."""
        has_spans = "start_positions" in inputs
        true = [inputs.pop(name) for name in (SPANS if has_spans else ("labels",))]
        labels = torch.stack(true, dim=1) if has_spans else true[0]
        outputs = forward(**inputs)
        logits = span_logits(outputs, inputs) if has_spans else label_logits(model, outputs["logits"], labels)
        columns: list[Tensor] = [*rank_labels(logits.flatten(0, -2), labels.flatten().clamp(min=0))]
        if not has_spans:
            columns.append(best_labels(model, outputs["logits"].float(), labels).flatten())
        return tuple(column.view(labels.shape) for column in columns), labels

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Leave out what has no label; add the metrics of labels where they can be computed."""
        names = self.names if can_measure(self.names) else ()
        return summarise_labels(prediction, names=names, is_ordinal=self.is_ordinal)


class MultiLabelObjective(LabelObjective):
    """Decide about each label of texts that may have several.

    Args:
        model: one with a logit for each label, a baseline for texts too.
        dataset: whose labels are learned, a 0 or a 1 for each; None: nothing is trained.
        names: of the labels in the order of their ids. None: those of the model's config.
    """

    def __init__(self, model: nn.Module, dataset: SequenceDataset | None, names: Sequence[str] | None = None) -> None:
        super().__init__(model, dataset, names)
        self.label_metrics = MULTI_LABEL_METRICS

    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rank yes and no of each label as grids, and say how likely yes is."""
        labels = inputs.pop("labels")
        logits = forward(**inputs)["logits"].float()
        return (*rank_decisions(logits, labels), logits.double().sigmoid()), labels

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the metrics over all decisions, and those of labels."""
        columns: Any = prediction.predictions
        true = np.asarray(prediction.label_ids)
        rows = MultiLabelPredictions(np.arange(len(true)), columns[4], true, names=self.names)
        ranks = summarise_rows(columns[:4], np.ones_like(true, dtype=np.bool_), ks=(1,))
        return {**ranks, **prediction_measures(rows).exact()}


class NumberObjective(LabelObjective):
    """Predict the bin of the number of each text, and from the shares of the bins the number.

    Args:
        model: one with a logit for each bin, a baseline too.
        dataset: whose bins are learned; None: nothing is trained.
        bins: of the training numbers; their names are the labels.
        numbers: of each row of the table that ``example_ids`` count.
    """

    def __init__(
        self, model: nn.Module, dataset: SequenceDataset | None, bins: NumberBins, numbers: NDArray[np.float64]
    ) -> None:
        super().__init__(model, dataset, bins.names)
        self.bins, self.numbers, self.label_metrics = bins, torch.tensor(numbers), NUMBER_METRICS

    def evaluated(self, dataset: SequenceDataset) -> SequenceDataset:
        """Return the texts with their numbers beside the bins."""
        labels = cast(Tensor, dataset.labels)
        if labels.ndim == 2:  # as they were returned before
            return dataset
        return dataset.with_labels(torch.stack([labels.double(), self.numbers[dataset.example_ids]], dim=1))

    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rank the bins, and read the number and its interval."""
        labels = inputs.pop("labels")
        logits = forward(**inputs)["logits"].float()
        read = torch.from_numpy(self.bins.read(logits.softmax(dim=-1).cpu().numpy())).to(labels.device)
        return (*rank_labels(logits, labels[:, 0].long()), *read.unbind(dim=1)), labels[:, 1]

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the metrics of the ranks of the bins, and those of the numbers."""
        columns: Any = prediction.predictions
        true = np.asarray(prediction.label_ids)
        rows = NumberPredictions(np.arange(len(true)), *columns[4:], true=true)
        ranks = summarise_rows(columns[:4], np.ones_like(true, dtype=np.bool_), ks=(1,))
        return {**ranks, **prediction_measures(rows).exact()}


class CausalObjective(Objective):
    """Predict each token of a text from those before it.

    Args:
        dataset: windows of texts, see ``in_windows``; None: nothing is trained.
    """

    def __init__(self, dataset: SequenceDataset | None) -> None:
        self.collate = dataset.collate_fn if dataset is not None else None

    def evaluated(self, dataset: SequenceDataset) -> SequenceDataset:
        """Return the windows as they are."""
        return dataset

    def sampler(self, dataset: Any, *, batch_size: int) -> Any:
        """Score windows of one length together: padding is not paid for."""
        return dataset.by_length().tolist() if isinstance(dataset, SequenceDataset) else None

    def rank(
        self, model: Any, inputs: dict[str, Any], forward: Callable[..., Any]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Rank the tokens among all, as grids, which transformers pads and gathers; in float32, without autocast."""
        found_of_tokens, labels = self.scored(model, inputs)
        is_asked = labels != IGNORED_LABEL
        columns: list[Tensor] = []
        for found in found_of_tokens:
            grid = found.new_zeros(labels.shape)
            grid[is_asked] = found
            columns.append(grid)
        return tuple(columns), labels

    def scored(self, model: Any, inputs: dict[str, Any]) -> tuple[Iterable[Tensor], Tensor]:
        """Return the columns of the ranks of all asked tokens, and which these are, (batch, length)."""
        labels = inputs["labels"].clone()
        labels[:, 0] = IGNORED_LABEL
        return model.score_next(**inputs), labels

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Leave out the first token of each window, which follows none, and what is padded."""
        return summarise_rows(prediction.predictions, np.asarray(prediction.label_ids) != IGNORED_LABEL)


class BothWaysObjective(CausalObjective):
    """Predict each word of a text from those before it, and from those behind it.

    Args:
        dataset: windows of texts, see ``in_marked_windows``; None: nothing is trained.
    """

    def scored(self, model: Any, inputs: dict[str, Any]) -> tuple[Iterable[Tensor], Tensor]:
        """Return the columns of the ranks of all words, in each direction, and which these are."""
        return model.score_words(**inputs), asked_both_ways(inputs["labels"], inputs["attention_mask"])


class TargetObjective(CausalObjective):
    """Predict each token of a target from its source and the tokens before it.

    Args:
        dataset: pairs, see ``join_targets``; None: nothing is trained.
    """

    label_metrics = TEXT_METRICS

    def __init__(self, dataset: SequenceDataset | None) -> None:
        self.collate = None
        if dataset is not None:
            self.collate = lambda batch: split_targets(dataset.collate_fn(batch), pad_id=dataset.pad_id)

    def scored(self, model: Any, inputs: dict[str, Any]) -> tuple[Iterable[Tensor], Tensor]:
        """Return the columns of the ranks of all tokens of the targets, and which these are."""
        return model.score_targets(**inputs), inputs["labels"]

    def summarise(self, prediction: EvalPrediction) -> dict[str, float]:
        """Add the share of the targets that are written whole."""
        text, place = (np.asarray(prediction.label_ids) != IGNORED_LABEL).nonzero()
        columns: Any = prediction.predictions
        better, tied = (np.asarray(each)[text, place] for each in columns[1:3])
        whole = TextPredictions.of_ranks(text, better, tied)
        return {**super().summarise(prediction), EXACT_TEXT: 100 * exact_mean(whole.exact_text)}


def objective_of(
    model: Any,
    args: ContextualTrainingArguments,
    dataset: SequenceDataset | None,
    processor: ContextualBertProcessor | None,
) -> Objective:
    """Return the objective of a model: masked items where it has ``score_masked``, the next token where it has
    ``score_next``, targets where it has ``score_targets``, labels where none."""
    if hasattr(model, "score_targets"):
        return TargetObjective(dataset)
    if hasattr(model, "score_next"):
        return CausalObjective(dataset)
    if hasattr(model, "score_masked"):
        return MaskedObjective(args, processor.tokenizer if processor is not None else model.config)
    if dataset is not None and has_several_labels(dataset):
        return MultiLabelObjective(model, dataset)
    return LabelObjective(model, dataset)


def has_several_labels(dataset: SequenceDataset) -> bool:
    """Return whether each text has a 0 or a 1 for each of several labels."""
    labels = dataset.labels
    return labels is not None and labels.is_floating_point() and labels.ndim > 1


def check_labels(dataset: SequenceDataset) -> None:
    """Raise ConfigurationError unless the texts have answers, labels, or one label for each word."""
    if dataset.labels is None and dataset.spans is None:
        raise ConfigurationError(
            "The texts have no labels, and no answers, which this trainer ranks",
            fix="Name their column where the texts are encoded.",
        )
    if dataset.labels is not None and dataset.labels.is_floating_point() and not has_several_labels(dataset):
        raise ConfigurationError(
            "The labels are numbers, and this trainer ranks labels",
            fix="Take transformers' Trainer, with data_collator=dataset.collate_fn.",
        )


class WholeBatchSampler(Sampler[int]):
    """Every row once, and the last row again until the last batch is full.

    So each batch is the same for any number of processes, and with it every digit of every row: two processes would
    fill a short batch with rows of other lengths. Accelerate drops what was filled up.

    Args:
        num_rows: rows of the data set.
        batch_size: rows of a batch.

    Example:
        >>> list(WholeBatchSampler(4, batch_size=3))
        [0, 1, 2, 3, 3, 3]
    """

    def __init__(self, num_rows: int, *, batch_size: int) -> None:
        self.num_rows = num_rows
        self.num_filled = num_rows + -num_rows % batch_size

    def __len__(self) -> int:
        return self.num_filled

    def __iter__(self) -> Iterator[int]:
        return (min(row, self.num_rows - 1) for row in range(self.num_filled))


def summarise_rows(columns: Any, is_asked: NDArray[np.bool_], *, ks: Sequence[int] = DEFAULT_KS) -> dict[str, float]:
    """Metrics of the rows that are asked for, of arrays that are the columns of MaskedScores."""
    log_probability, num_better, num_tied, confidence = (column[is_asked] for column in columns)
    num_rows = len(log_probability)
    scores = Scores(
        example_id=np.arange(num_rows),
        position=np.zeros(num_rows, dtype=np.int64),
        log_probability=log_probability.astype(np.float64),
        num_better=num_better,
        num_tied=num_tied,
        confidence=confidence.astype(np.float64),
    )
    numbers = summarise(scores, ks=ks)
    return {"loss": numbers[CROSS_ENTROPY], **numbers}


def summarise_sets(
    columns: Any, labels: NDArray[np.int64], is_asked: NDArray[np.bool_], *, ks: Sequence[int] = SET_KS
) -> dict[str, float]:
    """Return the metrics of whole sets.

    Args:
        columns: of MaskedScores, a grid each: (sets, n).
        labels: the items of the sets, padded with -100.
        is_asked: of those that have a rank.
        ks: of the metrics.
    """
    rows, places = np.nonzero(is_asked)
    # An item that a set holds twice counts once, as in reports; unknown items may be others.
    _, firsts = np.unique(np.stack([rows, labels[rows, places]]), axis=1, return_index=True)
    rows, places = rows[firsts], places[firsts]
    sizes = np.bincount(rows, minlength=len(labels)) + ((labels != IGNORED_LABEL) & ~is_asked).sum(axis=1)
    sets = SetPredictions(rows, places, set_size=sizes[rows], times_before=np.full(len(rows), UNKNOWN))
    if not len(rows):
        return {}
    found = sets.measure(columns[1][rows, places], columns[2][rows, places], ks)
    means = np.array([exact_mean(column) for column in found.columns.T])
    return {key: float(value) for key, value in found.metrics(means).items()}


def summarise_labels(
    prediction: EvalPrediction, *, names: Sequence[str] = (), is_ordinal: bool = False
) -> dict[str, float]:
    """Return the metrics over all labels, or ends of answers, from what ``prediction_step`` gathered.

    Args:
        prediction: a grid a column; the fifth, of labels, has which one was chosen.
        names: of the labels in the order of their ids; without any there are the metrics of ranks alone.
        is_ordinal: the labels are grades of one scale, the lowest first.
    """
    columns: Any = prediction.predictions
    labels = np.asarray(prediction.label_ids)
    is_asked = labels != IGNORED_LABEL
    found = summarise_rows(columns[:4], is_asked, ks=(1,))
    if not names or len(columns) < 5:
        return found
    grid = labels.reshape(len(labels), -1)
    places = (grid != IGNORED_LABEL).nonzero()
    rows = LabelPredictions(
        example_id=places[0],
        position=places[1],
        predicted=np.asarray(columns[4]).reshape(grid.shape)[places].astype(np.int64),
        true=grid[places].astype(np.int64),
        names=tuple(names),
        is_ordinal=is_ordinal,
    )
    return {**found, **metrics_of(rows)}


def metrics_of(rows: LabelPredictions) -> dict[str, float]:
    """Return the plain numbers of predicted labels; none where there is no row."""
    return prediction_measures(rows).exact() if len(rows) else {}


def config_label_names(model: nn.Module, dataset: SequenceDataset | None) -> tuple[str, ...]:
    """Return the names of the labels in a model's config, and none where it has none or answers questions."""
    names: Any = getattr(getattr(model, "config", None), "id2label", None)
    if not names or dataset is None or dataset.spans is not None:
        return ()
    return tuple(names[number] for number in sorted(names))


def label_metrics(names: Sequence[str], *, is_ordinal: bool = False) -> tuple[str, ...]:
    """Return the keys of the metrics of such labels that can be computed here: entity F1 needs seqeval.

    Args:
        names: of the labels in the order of their ids.
        is_ordinal: the labels are grades of one scale, the lowest first.

    Example:
        >>> label_metrics(["1", "2"])
        ('accuracy_percent', 'macro_f1_percent', 'mean_absolute_error', 'root_mean_squared_error')
    """
    if not names or not can_measure(names):
        return ()
    none = np.zeros(1, dtype=np.int64)
    one = LabelPredictions(none, none, predicted=none, true=none, names=tuple(names), is_ordinal=is_ordinal)
    return tuple(metrics_of(one))
