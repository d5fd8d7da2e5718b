"""What a run does with its kind of data, sets or texts: builds, trains, scores. The runner does the rest, for both.

One class a kind: ``SetWork`` and ``TextWork``. Paper: section 4.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import nn
from transformers import Trainer, TrainerCallback

from contextual_bert.frames import Frame
from contextual_bert.inference import ScoredSet
from contextual_bert.runs.preparation import Preparation, prepare
from contextual_bert.runs.prepared import Prepared
from contextual_bert.runs.set_work import SetWork
from contextual_bert.runs.text_preparation import TextPreparation, prepare_texts
from contextual_bert.runs.text_work import TextWork
from contextual_bert.training import ContextualTrainingArguments
from contextual_bert.training.recipe import Recipe

Progress = Callable[[int, int], None]


class Work(Protocol):
    """The steps of a run that depend on what its data are."""

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the training settings that these data ask for, where the recipe says nothing else."""
        ...

    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError where a recipe cannot be had on these data: before a model is built."""
        ...

    def build_model(self, recipe: Recipe) -> nn.Module:
        """The model of a recipe, from a seeded start."""
        ...

    def count(self, model: nn.Module) -> int:
        """Its number of parameters, as tables count them."""
        ...

    def make_trainer(
        self,
        recipe: Recipe,
        model: nn.Module,
        arguments: ContextualTrainingArguments,
        *,
        callbacks: Sequence[TrainerCallback],
    ) -> Trainer:
        """A trainer with the data of the recipe."""
        ...

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Fit a model that no step trains and return what was chosen for it; None for a model that is to be trained."""
        ...

    def finished(self, recipe: Recipe, model: nn.Module) -> nn.Module:
        """What is scored and saved of a model that was trained."""
        ...

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
        """The scores of a part."""
        ...

    def segments(self, part: str, scored: ScoredSet) -> dict[str, Any]:
        """Feature -> label of each scored row."""
        ...


def work_of(ready: Prepared) -> Work:
    """The work on these data."""
    if isinstance(ready, TextPreparation):
        return TextWork(ready)
    assert isinstance(ready, Preparation)
    return SetWork(ready)


def prepare_for(recipe: Recipe, *, source: Frame | None = None) -> Prepared:
    """Read the data of a recipe, sets or texts; ``source`` is its table, where that is in memory."""
    return prepare(recipe, source=source) if recipe.texts is None else prepare_texts(recipe, source=source)
