"""A Trainer for sets of items: what it needs beyond transformers' Trainer is attributes and two overrides.

A plain Trainer trains the same models; here the batches have one length, the masks change from epoch to epoch without
depending on workers, resume or world size, and evaluation ranks the whole vocabulary at every position of every set.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    TrainerCallback,
)
from transformers.trainer_utils import IntervalStrategy

from contextual_bert.data import (
    EveryPosition,
    MaskingCollator,
    SequenceDataset,
    TextMaskingCollator,
)
from contextual_bert.errors import ConfigurationError, Message, SettingPlace, UnknownNameError, did_you_mean
from contextual_bert.evaluation import Scores, summarise
from contextual_bert.evaluation.metrics import CROSS_ENTROPY, DEFAULT_KS
from contextual_bert.models import IGNORED_LABEL, RESERVED_ITEMS, ContextualBertForMaskedLM, ContextualBertProcessor
from contextual_bert.training.arguments import ContextualTrainingArguments
from contextual_bert.training.context_dropout import with_context_dropout
from contextual_bert.training.epochs import ChangesByEpoch, MaskEpoch
from contextual_bert.training.param_groups import NewWeightsTrainer, rehearse


class ContextualBertTrainer(NewWeightsTrainer):
    """Trains a masked model on a SequenceDataset.

    Args:
        model: the model, or a baseline with ``score_masked``.
        args: ContextualTrainingArguments.
        train_dataset: sets to learn from, None to evaluate only.
        eval_dataset: sets to choose the best checkpoint by, or several by name; every position is masked once, as in
            any other sets that ``evaluate`` and ``predict`` are given.
        processor: saved with every checkpoint, so that a checkpoint is usable by itself; says which ids are [PAD] and
            [MASK], as the model's config does where there is none.
        patience: stop after so many evaluations without a better value of ``metric_for_best_model``; None never stops
            early.
        collator: of the training batches, for texts; None masks items as ``args`` says.

    Relation to its siblings:
        transformers' Trainer with a MaskingCollator and MaskEpoch trains the same model, with padding and without
        ranking.

    Example:
        >>> ContextualBertTrainer.__mro__[1].__name__
        'NewWeightsTrainer'
    """

    def __init__(
        self,
        model: ContextualBertForMaskedLM | nn.Module,
        args: ContextualTrainingArguments,
        *,
        train_dataset: SequenceDataset | None = None,
        eval_dataset: SequenceDataset | dict[str, SequenceDataset] | None = None,
        processor: ContextualBertProcessor | None = None,
        patience: int | None = None,
        callbacks: list[TrainerCallback] | None = None,
        collator: TextMaskingCollator | None = None,
    ) -> None:
        ids: Any = processor.tokenizer if processor is not None else model.config
        reserved = range(len(RESERVED_ITEMS)) if collator is None else collator.special_ids
        masking = collator or MaskingCollator(
            mask_id=ids.mask_token_id,
            pad_id=ids.pad_token_id,
            masks_per_set=args.masks_per_set,
            one_mask_from_epoch=args.one_mask_from_epoch,
            seed=args.seed,
        )
        check_arguments(args, has_classes=False, patience=patience)
        self.special_ids = collator.special_ids if collator is not None else ()
        training = with_context_dropout(train_dataset, model, args)
        if training is not None:
            rehearse(model, args, training)
        changing = [training] if isinstance(training, ChangesByEpoch) else []
        early = [EarlyStoppingCallback(early_stopping_patience=patience)] if patience is not None else []
        super().__init__(
            model=model,
            args=args,
            data_collator=masking,
            train_dataset=training,
            eval_dataset=self.every_position(eval_dataset),
            processing_class=processor,
            compute_metrics=partial(summarise_prediction, reserved=tuple(reserved)),
            callbacks=[MaskEpoch(masking, *changing), *early, *(callbacks or [])],
        )

    def every_position(self, dataset: Any) -> Any:
        """Sets with each position masked once, of several by name as well; what is no data set of sets as it is."""
        if isinstance(dataset, dict):
            return {name: self.every_position(each) for name, each in dataset.items()}
        return EveryPosition(dataset, leave_out=self.special_ids) if isinstance(dataset, SequenceDataset) else dataset

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        return super().get_eval_dataloader(self.every_position(eval_dataset))

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        return super().get_test_dataloader(self.every_position(test_dataset))

    def _get_eval_sampler(self, eval_dataset: Dataset[Any]) -> Sampler[int] | None:
        if not isinstance(eval_dataset, EveryPosition):
            return super()._get_eval_sampler(eval_dataset)
        return WholeBatchSampler(len(eval_dataset), batch_size=self.args.eval_batch_size)

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Tensor | None, Any, Tensor | None]:
        inputs = self._prepare_inputs(inputs)
        scorer: Any = self.model  # unwrapped: ranks are always computed in float32, without autocast
        scores = scorer.score_masked(**inputs)
        labels = inputs["labels"]
        return None, tuple(scores), labels[labels != IGNORED_LABEL]


def check_arguments(
    args: ContextualTrainingArguments,
    *,
    has_classes: bool,
    patience: int | None,
    ks: Sequence[int] = DEFAULT_KS,
    of_labels: Collection[str] = (),
) -> None:
    """Raise before an epoch is trained in vain.

    Args:
        args: what the trainer was given.
        has_classes: whether the model is one of this package that has a class for each label.
        patience: of the trainer.
        ks: of the recalls that are evaluated.
        of_labels: keys of the metrics that are evaluated beside them.

    Raises:
        ConfigurationError: labels are to be smoothed where transformers cannot; training is to stop early, and nothing
            says when.
        UnknownNameError: the best checkpoint is to be chosen by a number that ``summarise_rows`` does not give.
    """
    if args.label_smoothing_factor and not has_classes:
        raise ConfigurationError(
            "is for models that label texts or words",
            setting="label_smoothing_factor",
            value=args.label_smoothing_factor,
            fix="Masked items and tokens and the baselines have their own loss: leave it out.",
        )
    name = args.metric_for_best_model
    if patience is not None and (name is None or args.eval_strategy == IntervalStrategy.NO):
        strategy = IntervalStrategy(args.eval_strategy).value
        raise ConfigurationError(
            Message(
                "counts evaluations without a better one, and with {eval_strategy} and {metric_for_best_model} "
                "there is none",
                eval_strategy=strategy,
                metric_for_best_model=name,
            ),
            setting="patience",
            value=patience,
            fix="Leave one of them out.",
        )
    if name is None or args.eval_strategy == IntervalStrategy.NO:
        return
    one = np.ones(1)
    known = [*summarise_rows((0 * one, 0 * one, one, one), one > 0, ks=ks), *of_labels]
    if name.removeprefix("eval_") not in known:
        raise UnknownNameError(
            "is unknown", place=SettingPlace("metric_for_best_model"), value=name, allowed=did_you_mean(name, known)
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


def summarise_prediction(prediction: EvalPrediction, *, reserved: Sequence[int]) -> dict[str, float]:
    """Metrics of a full ranking from what ``prediction_step`` gathered.

    Items that the vocabulary does not know have a reserved id and cannot be ranked: they are left out. ``loss`` is the
    cross-entropy, which the loop of transformers would take as the mean of unequal batches.
    """
    return summarise_rows(prediction.predictions, ~np.isin(np.asarray(prediction.label_ids), reserved))


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
