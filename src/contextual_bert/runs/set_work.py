"""What a run on sets of items does: the masked model, its trainer, its scores and their segments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import TrainerCallback

from contextual_bert.baselines import ItemPopularity
from contextual_bert.baselines.shares import Observations
from contextual_bert.context import bin_names
from contextual_bert.data import SequenceDataset, ShuffledContext
from contextual_bert.inference import ScoredSet, score, set_index
from contextual_bert.runs.model_factory import build_model, check_possible, count_counted
from contextual_bert.runs.preparation import Preparation
from contextual_bert.runs.registry import SET_BASELINES
from contextual_bert.runs.reporting import segments_of
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.defaults import BAG_LEARNING_RATE, LEARNING_RATE, set_defaults
from contextual_bert.training.recipe import Recipe

FREQUENCY_FEATURE = "masked item, times in training"
FREQUENCY_EDGES = (10.0, 100.0, 1_000.0)


class SetWork:
    """The work on these sets.

    Args:
        ready: the data.
    """

    def __init__(self, ready: Preparation) -> None:
        self.ready = ready

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """See ``Work``: by the number of training sets; a bag has a rate of its own."""
        training = self.ready.datasets["train"]
        sizes, num_items = training.sizes, len(training.input_ids.unique())
        default_rate = BAG_LEARNING_RATE if recipe.conditioning in SET_BASELINES else LEARNING_RATE
        return set_defaults(
            len(sizes),
            median_size=float(np.median(sizes)),
            sightings=float(sizes.sum()) / num_items,
            given=recipe.training,
            default_rate=default_rate,
        )

    def check(self, recipe: Recipe) -> None:
        """See ``Work``."""
        check_possible(recipe, self.ready)

    def build_model(self, recipe: Recipe) -> nn.Module:
        """See ``Work``."""
        return build_model(recipe, self.ready)

    def count(self, model: nn.Module) -> int:
        """By the paper's rule."""
        return count_counted(model)

    def dataset(self, recipe: Recipe, part: str) -> SequenceDataset | None:
        """The sets of a part, with the contexts of others where the recipe says so."""
        own = self.ready.datasets.get(part)
        return ShuffledContext(own, seed=recipe.seed) if recipe.is_context_shuffled and own is not None else own

    def make_trainer(
        self,
        recipe: Recipe,
        model: nn.Module,
        arguments: ContextualTrainingArguments,
        *,
        callbacks: Sequence[TrainerCallback],
    ) -> ContextualBertTrainer:
        """See ``Work``."""
        return ContextualBertTrainer(
            model,
            arguments,
            train_dataset=self.dataset(recipe, "train"),
            eval_dataset=self.dataset(recipe, "validation"),
            processor=self.ready.processor,
            patience=recipe.patience,
            callbacks=[*callbacks],
        )

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """See ``Work``: popularity is counted."""
        if not isinstance(model, ItemPopularity):
            return None
        validation = self.dataset(recipe, "validation")
        training = observations_of(cast(SequenceDataset, self.dataset(recipe, "train")))
        return model.fit(training, observations_of(validation) if validation is not None else None)

    def finished(self, recipe: Recipe, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model

    def score(
        self,
        recipe: Recipe,
        model: nn.Module,
        part: str,
        *,
        batch_size: int,
        is_shared: bool,
        progress: Callable[[int, int], None] | None,
    ) -> ScoredSet:
        """See ``Work``."""
        return score(
            cast(Any, model),  # each model here has score_masked
            cast(SequenceDataset, self.dataset(recipe, part)),
            batch_size=batch_size,
            is_shared=is_shared,
            progress=progress,
        )

    def segments(self, part: str, scored: ScoredSet) -> dict[str, Any]:
        """The context's features, and how often the masked item is in training."""
        dataset = self.ready.datasets[part]
        index = set_index(dataset, scored.scores.example_id)
        return {
            **segments_of(dataset, self.ready.processor, index),
            FREQUENCY_FEATURE: item_frequencies(
                self.ready.datasets["train"].input_ids.numpy(), dataset, index, scored.scores.position
            ),
        }


def observations_of(dataset: SequenceDataset) -> Observations:
    """Return the items of sets as the classes that were seen with their context."""
    rows = torch.repeat_interleave(torch.arange(len(dataset)), dataset.offsets.diff())
    return Observations(dataset.input_ids, rows, dataset.context)


def item_frequencies(
    training: NDArray[np.int64], dataset: SequenceDataset, index: NDArray[np.int64], positions: NDArray[np.int64]
) -> NDArray[np.str_]:
    """How often the item at each of these places is in training, as bins: are rare items predicted at all.

    Args:
        training: the ids of all items of the training sets.
        dataset: the sets that are scored.
        index: which of them each row is of.
        positions: where in it.
    """
    targets = dataset.input_ids.numpy()[dataset.offsets.numpy()[index] + positions]
    counts = np.bincount(training, minlength=int(targets.max(initial=0)) + 1)
    return np.array(bin_names(FREQUENCY_EDGES))[np.digitize(counts[targets], FREQUENCY_EDGES)]
