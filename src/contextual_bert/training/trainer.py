"""A Trainer for sets of items: what it needs beyond transformers' Trainer is attributes and two overrides.

A plain Trainer trains the same models; here the batches have one length, the masks change from epoch to epoch without depending on workers,
resume or world size, and evaluation ranks the whole vocabulary at every position of every set.
"""

from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from contextual_bert.data import EveryPosition, LengthBucketSampler, MaskingCollator, SetDataset
from contextual_bert.evaluation import Scores, summarise
from contextual_bert.models import IGNORED_LABEL, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.training.arguments import ContextualTrainingArguments


class MaskEpoch(TrainerCallback):
    """Tells the collator which epoch it is, so that every epoch masks other items. For use with a plain Trainer too.

    Args:
        collator: the collator of the training batches.
    """

    def __init__(self, collator: MaskingCollator) -> None:
        self.collator = collator

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.collator.set_epoch(int(state.epoch or 0))


class ContextualBertTrainer(Trainer):
    """Trains a masked model on a SetDataset.

    Args:
        model: the model, or a baseline with ``score_masked``.
        args: ContextualTrainingArguments.
        train_dataset: sets to learn from, None to evaluate only.
        eval_dataset: sets to choose the best checkpoint by; every position is masked once.
        processor: saved with every checkpoint, so that a checkpoint is usable by itself; says which ids are [PAD] and [MASK], as the
            model's config does where there is none.
        patience: stop after so many evaluations without a better cross-entropy; None never stops early.

    Relation to its siblings:
        transformers' Trainer with a MaskingCollator and MaskEpoch trains the same model, with padding and without ranking.

    Example:
        >>> ContextualBertTrainer.__mro__[1].__name__
        'Trainer'
    """

    def __init__(
        self,
        model: ContextualBertForMaskedLM | nn.Module,
        args: ContextualTrainingArguments,
        *,
        train_dataset: SetDataset | None = None,
        eval_dataset: SetDataset | None = None,
        processor: ContextualBertProcessor | None = None,
        patience: int | None = None,
        callbacks: list[TrainerCallback] | None = None,
    ) -> None:
        ids = processor.tokenizer if processor is not None else model.config
        collator = MaskingCollator(
            mask_id=ids.mask_token_id, pad_id=ids.pad_token_id, masks_per_set=args.masks_per_set, seed=args.seed
        )
        early = [EarlyStoppingCallback(early_stopping_patience=patience)] if patience is not None else []
        super().__init__(
            model=model,
            args=args,
            data_collator=collator,
            train_dataset=train_dataset,
            eval_dataset=EveryPosition(eval_dataset) if eval_dataset is not None else None,
            processing_class=processor,
            compute_metrics=summarise_prediction,
            callbacks=[MaskEpoch(collator), *early, *(callbacks or [])],
        )

    def _get_train_sampler(self, train_dataset: Dataset[Any] | None = None) -> Sampler[int] | None:
        dataset = train_dataset if train_dataset is not None else self.train_dataset
        if not isinstance(dataset, SetDataset):
            return super()._get_train_sampler(train_dataset)
        return LengthBucketSampler(
            dataset.sizes, batch_size=self.args.train_batch_size, seed=self.args.data_seed or self.args.seed
        )

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Tensor | None, Any, Tensor | None]:
        inputs = self._prepare_inputs(inputs)
        labels = inputs["labels"]
        with self.compute_loss_context_manager():
            scores = self.model.score_masked(**inputs)
        log_probability, *_ = scores
        loss = -log_probability.mean()
        return (loss, None, None) if prediction_loss_only else (loss, tuple(scores), labels[labels != IGNORED_LABEL])


def summarise_prediction(prediction: EvalPrediction) -> dict[str, float]:
    """Metrics of a full ranking from what ``prediction_step`` gathered; sums over examples, whatever the order or the world size."""
    log_probability, num_better, num_tied, confidence = prediction.predictions
    num_rows = len(log_probability)
    scores = Scores(
        example_id=np.arange(num_rows),
        position=np.zeros(num_rows, dtype=np.int64),
        log_probability=log_probability.astype(np.float64),
        num_better=num_better,
        num_tied=num_tied,
        confidence=confidence.astype(np.float64),
    )
    return summarise(scores)
