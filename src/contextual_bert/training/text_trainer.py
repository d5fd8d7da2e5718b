"""A Trainer for labelled texts and questions: batches of one length, an evaluation that is exact over the data set.

A plain Trainer trains the same models; here, as for sets, the order of training is a pure function of the seed and the
best epoch is chosen by the cross-entropy over all labels, unless the arguments name another metric. It knows no method
and no columns.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler
from transformers import EarlyStoppingCallback, EvalPrediction, TrainerCallback
from transformers.trainer_utils import PredictionOutput

from contextual_bert.data import TextDataset
from contextual_bert.errors import ConfigurationError
from contextual_bert.models import IGNORED_LABEL, ContextualBertProcessor, label_logits, rank_labels, span_logits
from contextual_bert.training.arguments import ContextualTrainingArguments
from contextual_bert.training.context_dropout import with_context_dropout
from contextual_bert.training.new_weights import NewWeightsTrainer, rehearse
from contextual_bert.training.trainer import ChangesByEpoch, MaskEpoch, check_arguments, summarise_rows

SPANS = ("start_positions", "end_positions")
KS = (1,)  # of recall@k: with few labels the first alone means something


class TextTrainer(NewWeightsTrainer):
    """Trains a model that labels texts or words, or answers questions, on a TextDataset.

    Args:
        model: one with classes, a baseline for texts too, or one that answers questions.
        args: ContextualTrainingArguments.
        train_dataset: texts to learn from, None to evaluate only.
        eval_dataset: texts to choose the best checkpoint by.
        processor: saved with every checkpoint.
        patience: stop after so many evaluations without a better cross-entropy; None never stops early.

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
        train_dataset: TextDataset | None = None,
        eval_dataset: TextDataset | None = None,
        processor: ContextualBertProcessor | None = None,
        patience: int | None = None,
        callbacks: list[TrainerCallback] | None = None,
    ) -> None:
        check_arguments(args, has_classes=hasattr(model, "config"), patience=patience, ks=KS)
        for dataset in (train_dataset, eval_dataset):
            if dataset is None:
                continue
            if dataset.labels is None and dataset.spans is None:
                raise ConfigurationError(
                    "The texts have no labels, and no answers, which this trainer ranks. Name their column where the "
                    "texts are encoded."
                )
            if dataset.labels is not None and dataset.labels.is_floating_point():
                raise ConfigurationError(
                    "The labels are numbers, or several a text, and this trainer ranks one label among all. Take "
                    "transformers' Trainer, with remove_unused_columns=False and data_collator=dataset.collate_fn."
                )
        training = with_context_dropout(train_dataset, model, args)
        if training is not None:
            rehearse(model, args, training)
        changing = [MaskEpoch(training)] if isinstance(training, ChangesByEpoch) else []
        early = [EarlyStoppingCallback(early_stopping_patience=patience)] if patience is not None else []
        given = train_dataset if train_dataset is not None else eval_dataset
        super().__init__(
            model=model,
            args=args,
            data_collator=given.collate_fn if given is not None else None,
            train_dataset=training,
            eval_dataset=eval_dataset,
            processing_class=processor,
            compute_metrics=summarise_labels,
            callbacks=[*changing, *early, *(callbacks or [])],
        )

    def _get_eval_sampler(self, eval_dataset: Dataset[Any]) -> Sampler[int] | None:
        if not isinstance(eval_dataset, TextDataset):
            return super()._get_eval_sampler(eval_dataset)
        by_length: Any = eval_dataset.sizes.argsort(stable=True).tolist()  # so that padding is not paid for
        return by_length

    def predict(self, test_dataset: Any, *args: Any, **kwargs: Any) -> PredictionOutput:
        """Trainer.predict: a row of each array a text, in the order of the data set."""
        found = super().predict(test_dataset, *args, **kwargs)
        if not isinstance(test_dataset, TextDataset):
            return found
        place = test_dataset.sizes.argsort(stable=True).argsort().numpy()  # where the sampler put each text
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
        scores = rank_labels(logits.flatten(0, -2), labels.flatten().clamp(min=0))
        # As grids, which transformers pads and gathers; what has no label is left out when they are summed up.
        return None, tuple(column.view(labels.shape) for column in scores), labels


def summarise_labels(prediction: EvalPrediction) -> dict[str, float]:
    """Metrics over all labels, or ends of answers, from what ``prediction_step`` gathered."""
    return summarise_rows(prediction.predictions, np.asarray(prediction.label_ids) != IGNORED_LABEL, ks=KS)
