"""The trainer: what sets and texts need beyond transformers' Trainer.

A plain Trainer trains the same models; here the batches have one length, the masks change from epoch to epoch without
depending on workers, resume or world size, and evaluation ranks the truth in every row among all that can be asked.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.trainer_utils import IntervalStrategy, PredictionOutput

from contextual_bert.context import ContextEncoder
from contextual_bert.context.encoding import rarely_missing
from contextual_bert.data import DroppedContext, SequenceDataset
from contextual_bert.data.ragged_rows import first_values
from contextual_bert.errors import ConfigurationError, Message, UnknownNameError, did_you_mean
from contextual_bert.models import ContextualBertConfig, ContextualBertProcessor
from contextual_bert.places import SettingPlace
from contextual_bert.training.arguments import ContextualTrainingArguments
from contextual_bert.training.epochs import ChangesByEpoch, MaskEpoch
from contextual_bert.training.objectives import (
    LabelObjective,
    MaskedObjective,
    MultiLabelObjective,
    Objective,
    check_labels,
    objective_of,
    summarise_rows,
)
from contextual_bert.training.param_groups import NewWeightsTrainer, rehearse
from contextual_bert.training.sampled_losses import set_item_loss

TrainingData = SequenceDataset | DroppedContext


def with_context_dropout(
    dataset: SequenceDataset | None, model: nn.Module, args: ContextualTrainingArguments
) -> TrainingData | None:
    """The training data as ``args`` want them; the config of the model remembers how it is trained.

    Args:
        dataset: the training data, None where nothing is trained.
        model: what is trained.
        args: say how often a context, or a field of it, is left out.

    Raises:
        ConfigurationError: something is to be left out of data that have no context.
    """
    if dataset is None:
        return None
    config: object = getattr(model, "config", None)
    if isinstance(config, ContextualBertConfig):
        config.context_dropout, config.field_dropout = float(args.context_dropout), float(args.field_dropout)
        config.rarely_missing = rarely_missing(first_values(dataset.context))
    if not args.context_dropout and not args.field_dropout:
        return dataset
    layouts = [module.layout for module in model.modules() if isinstance(module, ContextEncoder)]
    return DroppedContext(
        dataset,
        context_dropout=args.context_dropout,
        field_dropout=args.field_dropout,
        layout=layouts[0] if layouts else (),
        seed=args.seed,
    )


class ContextualBertTrainer(NewWeightsTrainer):
    """Trains a model on a SequenceDataset: masked items or tokens, labels or answers.

    Args:
        model: the model, or a baseline.
        args: ContextualTrainingArguments.
        train_dataset: sequences to learn from, None to evaluate only.
        eval_dataset: sequences to choose the best checkpoint by, or several by name. Of sets every position is masked
            once, as in any other sets that ``evaluate`` and ``predict`` are given.
        processor: saved with every checkpoint, so that a checkpoint is usable by itself; says which ids are [PAD] and
            [MASK], as the model's config does where there is none.
        patience: stop after so many evaluations without a better value of ``metric_for_best_model``; None never stops
            early.
        callbacks: beside its own.
        objective: what is learned; None: masked items where the model has ``score_masked``, else labels.

    Raises:
        ConfigurationError: settings that cannot work; labels that are numbers, or several a text.

    Relation to its siblings:
        transformers' Trainer with a MaskingCollator and MaskEpoch trains the same model, with padding and without
        ranking. Numbers instead of classes (``num_labels=1``) and several labels at once are trained with it.

    Example:
        >>> ContextualBertTrainer.__mro__[1].__name__
        'NewWeightsTrainer'
    """

    def __init__(
        self,
        model: nn.Module,
        args: ContextualTrainingArguments,
        *,
        train_dataset: SequenceDataset | None = None,
        eval_dataset: Any = None,
        processor: ContextualBertProcessor | None = None,
        patience: int | None = None,
        callbacks: list[TrainerCallback] | None = None,
        objective: Objective | None = None,
    ) -> None:
        given = train_dataset if train_dataset is not None else eval_dataset
        self.objective = objective or objective_of(model, args, given, processor)
        check_arguments(args, model, self.objective, patience=patience)
        if isinstance(self.objective, LabelObjective):
            for dataset in (train_dataset, eval_dataset):
                if isinstance(dataset, SequenceDataset):
                    check_labels(dataset)
        set_item_loss(model, args, train_dataset)
        training = with_context_dropout(train_dataset, model, args)
        if training is not None:
            rehearse(model, args, training)
        changing = [*self.objective.followers, *([training] if isinstance(training, ChangesByEpoch) else [])]
        epochs = [MaskEpoch(*changing)] if changing else []
        early = [EarlyStoppingCallback(early_stopping_patience=patience)] if patience is not None else []
        super().__init__(
            model=model,
            args=args,
            data_collator=self.objective.collate,
            train_dataset=training,
            eval_dataset=self.evaluated(eval_dataset),
            processing_class=processor,
            compute_metrics=self.objective.summarise,
            callbacks=[*epochs, *early, *(callbacks or [])],
        )

    def evaluated(self, dataset: Any) -> Any:
        """Return the rows that are scored, of several data sets by name as well; any other data set as it is."""
        if isinstance(dataset, dict):
            return {name: self.evaluated(each) for name, each in dataset.items()}
        return self.objective.evaluated(dataset) if isinstance(dataset, SequenceDataset) else dataset

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        return super().get_eval_dataloader(self.evaluated(eval_dataset))

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        return super().get_test_dataloader(self.evaluated(test_dataset))

    def _get_eval_sampler(self, eval_dataset: Dataset[Any]) -> Sampler[int] | None:
        found = self.objective.sampler(eval_dataset, batch_size=self.args.eval_batch_size)
        return found if found is not None else super()._get_eval_sampler(eval_dataset)

    def predict(self, test_dataset: Any, *args: Any, **kwargs: Any) -> PredictionOutput:
        """Predict as Trainer does. Of labelled texts, there is a row a text in the order of the data set."""
        found = super().predict(test_dataset, *args, **kwargs)
        if not isinstance(test_dataset, SequenceDataset) or isinstance(self.objective, MaskedObjective):
            return found
        place = test_dataset.by_length().argsort().numpy()  # where the sampler put each text
        columns: Any = found.predictions
        labels: Any = found.label_ids
        return found._replace(predictions=tuple(column[place] for column in columns), label_ids=labels[place])

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Tensor | None, Any, Tensor | None]:
        def forward(**given: Any) -> Any:
            with torch.no_grad(), self.compute_loss_context_manager():
                return model(**given)

        columns, labels = self.objective.rank(self.model, self._prepare_inputs(inputs), forward)
        return None, columns, labels


def check_arguments(
    args: ContextualTrainingArguments, model: nn.Module, objective: Objective, *, patience: int | None
) -> None:
    """Raise before an epoch is trained in vain.

    Args:
        args: what the trainer was given.
        model: of the trainer.
        objective: of the trainer.
        patience: of the trainer.

    Raises:
        ConfigurationError: labels are to be smoothed where transformers cannot; training is to stop early, and nothing
            says when.
        UnknownNameError: the best checkpoint is to be chosen by a number that is not evaluated.
    """
    has_several = isinstance(objective, MultiLabelObjective)
    has_classes = isinstance(objective, LabelObjective) and not has_several and hasattr(model, "config")
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
    known = [*summarise_rows((0 * one, 0 * one, one, one), one > 0, ks=objective.ks), *objective.label_metrics]
    if name.removeprefix("eval_") not in known:
        raise UnknownNameError(
            "is unknown", place=SettingPlace("metric_for_best_model"), value=name, allowed=did_you_mean(name, known)
        )
