"""A Trainer for labelled texts and questions: batches of one length, an evaluation that is exact over the data set.

A plain Trainer trains the same models; here, as for sets, the order of training is a pure function of the seed and the
best epoch is chosen by the cross-entropy over all labels, unless the arguments name another metric. It knows no method
and no columns.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler
from transformers import EarlyStoppingCallback, EvalPrediction, TrainerCallback
from transformers.trainer_utils import PredictionOutput

from contextual_bert.data import SequenceDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.evaluation.label_predictions import LabelPredictions, can_measure
from contextual_bert.evaluation.measures import label_measures
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextualBertProcessor,
    best_labels,
    label_logits,
    rank_labels,
    span_logits,
)
from contextual_bert.training.arguments import ContextualTrainingArguments
from contextual_bert.training.context_dropout import with_context_dropout
from contextual_bert.training.param_groups import NewWeightsTrainer, rehearse, thresholds_of
from contextual_bert.training.trainer import ChangesByEpoch, MaskEpoch, check_arguments, summarise_rows

SPANS = ("start_positions", "end_positions")
KS = (1,)  # of recall@k: with few labels the first alone means something


class TextTrainer(NewWeightsTrainer):
    """Trains a model that labels texts or words, or answers questions, on a SequenceDataset.

    Args:
        model: one with classes, a baseline for texts too, or one that answers questions.
        args: ContextualTrainingArguments.
        train_dataset: texts to learn from, None to evaluate only.
        eval_dataset: texts to choose the best checkpoint by.
        processor: saved with every checkpoint.
        patience: stop after so many evaluations without a better value of ``metric_for_best_model``; None never stops
            early.
        names: of the labels in the order of their ids: they say which metrics there are beside the ranks, such as
            accuracy, the MAE and RMSE of grades, the F1 of entities. None: those of the model's config.

    Raises:
        ConfigurationError: settings that cannot work; labels that are numbers, or several a text.

    Relation to its siblings:
        ``ContextualBertTrainer`` is for what is masked, in sets and in texts. Numbers instead of classes
        (``num_labels=1``) and several labels at once are trained with transformers' Trainer.

    Example:
        >>> TextTrainer.__mro__[1].__name__
        'NewWeightsTrainer'
    """

    def __init__(
        self,
        model: nn.Module,
        args: ContextualTrainingArguments,
        *,
        train_dataset: SequenceDataset | None = None,
        eval_dataset: SequenceDataset | None = None,
        processor: ContextualBertProcessor | None = None,
        patience: int | None = None,
        callbacks: list[TrainerCallback] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        given = train_dataset if train_dataset is not None else eval_dataset
        names = label_names(model, given) if names is None else tuple(names)
        is_ordinal = bool(thresholds_of(model))
        check_arguments(
            args,
            has_classes=hasattr(model, "config"),
            patience=patience,
            ks=KS,
            of_labels=label_metrics(names, is_ordinal=is_ordinal),
        )
        for dataset in (train_dataset, eval_dataset):
            if dataset is None:
                continue
            if dataset.labels is None and dataset.spans is None:
                raise ConfigurationError(
                    "The texts have no labels, and no answers, which this trainer ranks",
                    fix="Name their column where the texts are encoded.",
                )
            if dataset.labels is not None and dataset.labels.is_floating_point():
                raise ConfigurationError(
                    "The labels are numbers, or several a text, and this trainer ranks one label among all",
                    fix="Take transformers' Trainer, with remove_unused_columns=False and "
                    "data_collator=dataset.collate_fn.",
                )
        training = with_context_dropout(train_dataset, model, args)
        if training is not None:
            rehearse(model, args, training)
        changing = [MaskEpoch(training)] if isinstance(training, ChangesByEpoch) else []
        early = [EarlyStoppingCallback(early_stopping_patience=patience)] if patience is not None else []
        super().__init__(
            model=model,
            args=args,
            data_collator=given.collate_fn if given is not None else None,
            train_dataset=training,
            eval_dataset=eval_dataset,
            processing_class=processor,
            compute_metrics=partial(summarise_labels, names=names if can_measure(names) else (), is_ordinal=is_ordinal),
            callbacks=[*changing, *early, *(callbacks or [])],
        )

    def _get_eval_sampler(self, eval_dataset: Dataset[Any]) -> Sampler[int] | None:
        if not isinstance(eval_dataset, SequenceDataset):
            return super()._get_eval_sampler(eval_dataset)
        by_length: Any = eval_dataset.by_length().tolist()  # so that padding is not paid for
        return by_length

    def predict(self, test_dataset: Any, *args: Any, **kwargs: Any) -> PredictionOutput:
        """Trainer.predict: a row of each array a text, in the order of the data set."""
        found = super().predict(test_dataset, *args, **kwargs)
        if not isinstance(test_dataset, SequenceDataset):
            return found
        place = test_dataset.by_length().argsort().numpy()  # where the sampler put each text
        columns: Any = found.predictions
        labels: Any = found.label_ids
        return found._replace(predictions=tuple(column[place] for column in columns), label_ids=labels[place])

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Tensor | None, Any, Tensor | None]:
        inputs = self._prepare_inputs(inputs)
        has_spans = "start_positions" in inputs
        true = [inputs.pop(name) for name in (SPANS if has_spans else ("labels",))]
        labels = torch.stack(true, dim=1) if has_spans else true[0]
        with torch.no_grad(), self.compute_loss_context_manager():
            outputs: Any = model(**inputs)
        logits = span_logits(outputs, inputs) if has_spans else label_logits(self.model, outputs["logits"], labels)
        columns: list[Tensor] = [*rank_labels(logits.flatten(0, -2), labels.flatten().clamp(min=0))]
        if not has_spans:
            columns.append(best_labels(self.model, outputs["logits"].float(), labels).flatten())
        # As grids, which transformers pads and gathers; what has no label is left out when they are summed up.
        return None, tuple(column.view(labels.shape) for column in columns), labels


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
    found = summarise_rows(columns[:4], is_asked, ks=KS)
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
    return label_measures(rows).exact() if len(rows) else {}


def label_names(model: nn.Module, dataset: SequenceDataset | None) -> tuple[str, ...]:
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
