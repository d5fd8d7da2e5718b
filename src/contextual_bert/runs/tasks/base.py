"""Base of the tasks: prepared data of one kind, and what a run does with them. ``prepare`` makes them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn
from transformers import Trainer, TrainerCallback

from contextual_bert.baselines.shares import PRIORS, Observations, ShareModel
from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, ShuffledContext, Split
from contextual_bert.errors import DataError
from contextual_bert.evaluation import Scores
from contextual_bert.inference import set_index
from contextual_bert.inference.inspected_queries import InspectedQuery
from contextual_bert.inference.whole_rows import ChoiceRows
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.reporting import segments_of
from contextual_bert.training import ContextualTrainingArguments
from contextual_bert.training.recipe import Recipe

Progress = Callable[[int, int], None]


class Task(PreparedData, ABC):
    """Prepare the data of one kind of task, and build, train, fit and score its models.

    Attributes:
        name_of_shares: counted shares that a run is compared with, if any.
        num_sampled: training rows that are scored for the report on membership.
        eval_batch_size: rows a forward pass of an evaluation, where nothing else is asked for.
        inspected: how ``inspect_model`` reads a query for its models; None: it cannot.
    """

    name_of_shares: ClassVar[str] = ""
    num_sampled: ClassVar[int] = 1000
    eval_batch_size: ClassVar[int] = ContextualTrainingArguments.per_device_eval_batch_size
    inspected: ClassVar[type[InspectedQuery] | None] = None

    @classmethod
    @abstractmethod
    def start_of(cls, recipe: Recipe) -> str | None:
        """Return the run or checkpoint that the weights come from, if any."""

    @classmethod
    @abstractmethod
    def known_processor(cls, recipe: Recipe) -> ContextualBertProcessor | None:
        """Return the processor of the model with a context that is gone on from; None where there is none.

        Raises:
            ConfigurationError, CheckpointError, RunDirectoryError: a run that the recipe cannot go on from.
        """

    @classmethod
    def check_examples(cls, recipe: Recipe, examples: Any) -> None:
        """Raise DataError where the sets or texts cannot be learned from."""

    @classmethod
    @abstractmethod
    def learned_from(
        cls,
        recipe: Recipe,
        known: ContextualBertProcessor | None,
        schema: ContextSchema | None,
        *,
        examples: Any,
        split: Split,
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the fields that this kind of data has beside the common ones, the processor too; and remarks on them.

        Args:
            recipe: says what is learned.
            known: the processor of ``known_processor``.
            schema: of the context.
            examples: all sets or texts.
            split: of the table.
        """

    @classmethod
    @abstractmethod
    def load_model(cls, directory: Path, recipe: Recipe) -> tuple[ContextualBertProcessor, Any]:
        """Return the processor and the model of a finished run, on the recipe's device.

        Raises:
            RunDirectoryError: the directory is incomplete or from another version.
        """

    @classmethod
    @abstractmethod
    def known_fields(cls, model: Any, training: Any) -> dict[str, Any]:
        """Return the fields that this kind of data has beside the common ones, of a finished run that is evaluated.

        Args:
            model: of the run.
            training: the sets or texts that it learned from, None where they are not in the table.
        """

    def check_model(self, model: Any, directory: Path) -> None:
        """Raise an error where the model of a finished run cannot be evaluated on these data."""

    def encoding_lines(self, part: str) -> list[str]:
        """Return sentences on what encoding cut or left out of a part."""
        return []

    @abstractmethod
    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the training settings that these data ask for, where the recipe says nothing else."""

    @abstractmethod
    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError where a recipe cannot be had on these data: before a model is built."""

    def unfit(self, recipe: Recipe) -> DataError | None:
        """Return why a baseline cannot be fitted to the training part; None where it can."""
        return None

    @abstractmethod
    def build_model(self, recipe: Recipe, *, is_quiet: bool = False) -> nn.Module:
        """Build the model of a recipe, from a seeded start.

        Raises:
            UnknownNameError: neither a method nor a baseline has that name.
            ConfigurationError: settings that cannot work on these data.
        """

    @abstractmethod
    def make_trainer(
        self,
        recipe: Recipe,
        model: nn.Module,
        arguments: ContextualTrainingArguments,
        *,
        callbacks: Sequence[TrainerCallback],
    ) -> Trainer:
        """Return a trainer with the data of the recipe."""

    @abstractmethod
    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Score the sequences of a part, as they are or with other contexts.

        Args:
            model: in ``eval()`` mode.
            dataset: the sequences.
            part: that they are of.
            **settings: ``batch_size``, ``dtype``, ``is_shared`` and ``progress``, as for ``score``.
        """

    def count(self, model: nn.Module) -> int:
        """Return the number of parameters, frozen ones and what was counted too."""
        return sum(weight.numel() for weight in (*model.parameters(), *model.buffers()))

    def dataset(self, recipe: Recipe, part: str) -> SequenceDataset | None:
        """Return the sequences of a part, with the contexts of others where the recipe says so; None without any."""
        own: SequenceDataset | None = self.datasets.get(part)
        return ShuffledContext(own, seed=recipe.seed) if recipe.is_context_shuffled and own is not None else own

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Fit a model that no step trains and return what was chosen for it; None for a model that is to be trained."""
        return None

    def finished(self, recipe: Recipe, model: nn.Module) -> nn.Module:
        """Return the model that is scored and saved after the training."""
        return model

    def score(
        self,
        recipe: Recipe,
        model: nn.Module,
        part: str,
        *,
        batch_size: int,
        is_shared: bool,
        progress: Progress | None,
    ) -> Scores:
        """Score a part as the recipe says."""
        dataset = cast(SequenceDataset, self.dataset(recipe, part))
        return self.score_dataset(model, dataset, part, batch_size=batch_size, is_shared=is_shared, progress=progress)

    def segments(self, part: str, scored: Scores) -> dict[str, Any]:
        """Return feature -> label of each scored row: the context's features, and those of the task."""
        dataset: SequenceDataset = self.datasets[part]
        index = set_index(dataset, scored.example_id)
        return {**segments_of(dataset, self.processor, index), **self.own_segments(part, scored, index)}

    def own_segments(self, part: str, scored: Scores, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return the segments beside those of the context; ``index`` is the sequence of each scored row."""
        return {}

    def new_item_shares(
        self, model: nn.Module, dataset: SequenceDataset, scored: Scores, **settings: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
        """Return the probability of all items that training never saw, and whether the true one is among them.

        Args:
            model: as it was scored.
            dataset: that was scored.
            scored: its scores.
            **settings: of the scoring.

        Returns:
            (rows,) each; None where there are no such items.
        """
        return None

    def choice_rows(self, model: Any, dataset: SequenceDataset) -> ChoiceRows | None:
        """Return the rows of which the probabilities of all choices can be read; None for a task without such.

        Args:
            model: as it was scored.
            dataset: that was scored.
        """
        return None

    def name_of_choice(self, number: int) -> str:
        """Return the name of a choice of ``choice_rows``."""
        raise NotImplementedError

    def unlearned_rows(self, part: str, scored: Scores) -> NDArray[np.bool_] | None:
        """Return True for each scored row whose label training lacks; None where all that is scored is in training."""
        return None

    def share_losses(self, part: str, scored: Scores, *, softmax_over: str) -> NDArray[np.float64] | None:
        """Return the loss of counted shares for each scored row, in nats; None where there are no classes to count.

        Args:
            part: that was scored.
            scored: its scores, whose order the losses have.
            softmax_over: as the run's model has it, see ``candidates``; it holds for sets alone.
        """
        return None


class CountedTask(Task):
    """A task whose classes can be counted: the baseline ``popularity``, and the shares that a run is compared with.

    Attributes:
        counted: the classes of the baselines that are counted.
        unseen_prior: as ``ShareModel`` has it.
    """

    counted: ClassVar[tuple[type[nn.Module], ...]] = ()
    unseen_prior: ClassVar[float] = PRIORS[0]

    @abstractmethod
    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return what is learned from the sequences as classes that were seen with their context."""

    @property
    @abstractmethod
    def num_classes(self) -> tuple[int, int]:
        """Return the number of classes of ``observations``, and the number of reserved ones among the first."""

    @abstractmethod
    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the true class of each scored row."""

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Count what a baseline counts; None for a model that is to be trained."""
        if not isinstance(model, self.counted):
            return super().fit(recipe, model)
        validation = self.dataset(recipe, "validation")
        training = self.observations(cast(SequenceDataset, self.dataset(recipe, "train")))
        counted: Any = model
        return counted.fit(training, self.observations(validation) if validation is not None else None)

    def share_losses(self, part: str, scored: Scores, *, softmax_over: str) -> NDArray[np.float64] | None:
        """Return the loss of counted shares for each scored row, in nats."""
        return -self.log_shares(is_without_visible=False)[self.targets(part, scored)]

    def log_shares(self, *, is_without_visible: bool) -> NDArray[np.float64]:
        """Return the logarithm of the share of each class, counted in training, the prior chosen on validation."""
        num_classes, num_reserved = self.num_classes
        shares = ShareModel(num_classes, layout=(), num_reserved=num_reserved, unseen_prior=self.unseen_prior)
        validation = self.datasets.get("validation")
        shares.fit(
            self.observations(self.datasets["train"]),
            self.observations(validation) if validation is not None else None,
            is_without_visible=is_without_visible,
        )
        return shares.log_shares.double().numpy()


def targets_in(dataset: SequenceDataset, scored: Scores) -> NDArray[np.int64]:
    """Return the item, or token, at each scored position of the sequences."""
    index = set_index(dataset, scored.example_id)
    return dataset.input_ids.numpy()[dataset.offsets.numpy()[index] + scored.position]
