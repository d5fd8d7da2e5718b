"""The base class of tasks: what a run does with its kind of data. One class a kind, found by ``task_of``."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn
from transformers import Trainer, TrainerCallback

from contextual_bert.baselines.shares import Observations, ShareModel
from contextual_bert.data import SequenceDataset, ShuffledContext
from contextual_bert.inference import ScoredSet, set_index
from contextual_bert.runs.prepared_data import PreparedData
from contextual_bert.runs.reporting import segments_of
from contextual_bert.training import ContextualTrainingArguments
from contextual_bert.training.recipe import Recipe

Progress = Callable[[int, int], None]
Data = TypeVar("Data", bound=PreparedData)


class Task(ABC, Generic[Data]):
    """Build, train, fit and score the models of one kind of task on prepared data.

    Args:
        ready: the data.

    Attributes:
        name_of_shares: counted shares that a run is compared with, if any.
        num_sampled: training rows that are scored for the report on membership.
    """

    name_of_shares: ClassVar[str] = ""
    num_sampled: ClassVar[int] = 1000

    def __init__(self, ready: Data) -> None:
        self.ready = ready

    @abstractmethod
    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the training settings that these data ask for, where the recipe says nothing else."""

    @abstractmethod
    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError where a recipe cannot be had on these data: before a model is built."""

    @abstractmethod
    def build_model(self, recipe: Recipe) -> nn.Module:
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
    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> ScoredSet:
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
        own: SequenceDataset | None = self.ready.datasets.get(part)
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
    ) -> ScoredSet:
        """Score a part as the recipe says."""
        dataset = cast(SequenceDataset, self.dataset(recipe, part))
        return self.score_dataset(model, dataset, part, batch_size=batch_size, is_shared=is_shared, progress=progress)

    def segments(self, part: str, scored: ScoredSet) -> dict[str, Any]:
        """Return feature -> label of each scored row: the context's features, and those of the task."""
        dataset: SequenceDataset = self.ready.datasets[part]
        index = set_index(dataset, scored.scores.example_id)
        return {**segments_of(dataset, self.ready.processor, index), **self.own_segments(part, scored, index)}

    def own_segments(self, part: str, scored: ScoredSet, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return the segments beside those of the context; ``index`` is the sequence of each scored row."""
        return {}

    def share_losses(self, part: str, scored: ScoredSet, *, softmax_over: str) -> NDArray[np.float64] | None:
        """Return the loss of counted shares for each scored row, in nats; None where there are no classes to count.

        Args:
            part: that was scored.
            scored: its scores, whose order the losses have.
            softmax_over: as the run's model has it, see ``candidates``; it holds for sets alone.
        """
        return None


class CountedTask(Task[Data]):
    """A task whose classes can be counted: the baseline ``popularity``, and the shares that a run is compared with.

    Attributes:
        counted: the class of the baseline that is counted.
    """

    counted: ClassVar[type[nn.Module] | None] = None

    @abstractmethod
    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return what is learned from the sequences as classes that were seen with their context."""

    @property
    @abstractmethod
    def num_classes(self) -> tuple[int, int]:
        """Return the number of classes of ``observations``, and the number of reserved ones among the first."""

    @abstractmethod
    def targets(self, part: str, scored: ScoredSet) -> NDArray[np.int64]:
        """Return the true class of each scored row."""

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Count the shares of a baseline; None for a model that is to be trained."""
        if self.counted is None or not isinstance(model, self.counted):
            return super().fit(recipe, model)
        validation = self.dataset(recipe, "validation")
        training = self.observations(cast(SequenceDataset, self.dataset(recipe, "train")))
        counted: Any = model
        return counted.fit(training, self.observations(validation) if validation is not None else None)

    def share_losses(self, part: str, scored: ScoredSet, *, softmax_over: str) -> NDArray[np.float64] | None:
        """Return the loss of counted shares for each scored row, in nats."""
        return -self.log_shares(is_without_visible=False)[self.targets(part, scored)]

    def log_shares(self, *, is_without_visible: bool) -> NDArray[np.float64]:
        """Return the logarithm of the share of each class, counted in training, the prior chosen on validation."""
        num_classes, num_reserved = self.num_classes
        shares = ShareModel(num_classes, layout=(), num_reserved=num_reserved)
        validation = self.ready.datasets.get("validation")
        shares.fit(
            self.observations(self.ready.datasets["train"]),
            self.observations(validation) if validation is not None else None,
            is_without_visible=is_without_visible,
        )
        return shares.log_shares.double().numpy()


def targets_in(dataset: SequenceDataset, scored: ScoredSet) -> NDArray[np.int64]:
    """Return the item, or token, at each scored position of the sequences."""
    index = set_index(dataset, scored.scores.example_id)
    return dataset.input_ids.numpy()[dataset.offsets.numpy()[index] + scored.scores.position]
