"""Set completion: items of a set are masked and predicted from the others."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import TrainerCallback

from contextual_bert.baselines import ItemPopularity
from contextual_bert.baselines.shares import Observations
from contextual_bert.context import bin_names
from contextual_bert.data import SequenceDataset
from contextual_bert.inference import ScoredSet, score, set_index
from contextual_bert.models import RESERVED_ITEMS
from contextual_bert.runs.model_factory import build_model, check_possible, count_counted
from contextual_bert.runs.prepared_sets import PreparedSets
from contextual_bert.runs.registry import SET_BASELINES
from contextual_bert.runs.tasks.base import CountedTask, targets_in
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.defaults import BAG_LEARNING_RATE, LEARNING_RATE, set_defaults
from contextual_bert.training.recipe import Recipe

FREQUENCY_FEATURE = "masked item, times in training"
FREQUENCY_EDGES = (10.0, 100.0, 1_000.0)


class SetCompletionTask(CountedTask[PreparedSets]):
    """Set completion on prepared sets."""

    counted = ItemPopularity
    name_of_shares = "counted popularity"

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings by the number of training sets; a bag has a rate of its own."""
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
        """Raise ConfigurationError where a method or baseline cannot be had on these sets."""
        check_possible(recipe, self.ready)

    def build_model(self, recipe: Recipe) -> nn.Module:
        """Build a new model, that of ``init_from``, or a baseline."""
        return build_model(recipe, self.ready)

    def count(self, model: nn.Module) -> int:
        """Return the number of parameters by the paper's rule."""
        return count_counted(model)

    def make_trainer(
        self,
        recipe: Recipe,
        model: nn.Module,
        arguments: ContextualTrainingArguments,
        *,
        callbacks: Sequence[TrainerCallback],
    ) -> ContextualBertTrainer:
        """Return a trainer that masks the sets of the recipe."""
        return ContextualBertTrainer(
            model,
            arguments,
            train_dataset=self.dataset(recipe, "train"),
            eval_dataset=self.dataset(recipe, "validation"),
            processor=self.ready.processor,
            patience=recipe.patience,
            callbacks=[*callbacks],
        )

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> ScoredSet:
        """Mask every position of every set once and rank the true item."""
        return score(cast(Any, model), dataset, **settings)  # each model here has score_masked

    def own_segments(self, part: str, scored: ScoredSet, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return how often the masked item is in training."""
        training, dataset = self.ready.training_ids, self.ready.datasets[part]
        if training is None:
            return {}
        return {FREQUENCY_FEATURE: item_frequencies(training, dataset, index, scored.scores.position)}

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the items of the sets as classes."""
        rows = torch.repeat_interleave(torch.arange(len(dataset)), dataset.offsets.diff())
        return Observations(dataset.input_ids, rows, dataset.context)

    @property
    def num_classes(self) -> tuple[int, int]:
        """Return the number of ids of the vocabulary, and the number of reserved ones."""
        return len(self.ready.processor.items), len(RESERVED_ITEMS)

    def targets(self, part: str, scored: ScoredSet) -> NDArray[np.int64]:
        """Return the masked items."""
        return targets_in(self.ready.datasets[part], scored)

    def share_losses(self, part: str, scored: ScoredSet, *, softmax_over: str) -> NDArray[np.float64] | None:
        """Return the loss of counted shares; over "candidates" the share of the visible items is no alternative."""
        if softmax_over != "candidates":
            return super().share_losses(part, scored, softmax_over=softmax_over)
        shares, dataset = self.log_shares(is_without_visible=True), self.ready.datasets[part]
        own = shares[self.targets(part, scored)]
        of_others = _sums_of_sets(dataset, np.exp(shares))[set_index(dataset, scored.scores.example_id)] - np.exp(own)
        return np.log(np.maximum(1 - of_others, 1e-30)) - own


def _sums_of_sets(dataset: SequenceDataset, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the shares of each set's different items."""
    rows = np.repeat(np.arange(len(dataset)), dataset.sizes)
    pairs = np.unique(np.stack([rows, dataset.input_ids.numpy()]), axis=1)
    return np.bincount(pairs[0], weights=shares[pairs[1]], minlength=len(dataset)).astype(np.float64)


def item_frequencies(
    training: NDArray[np.int64], dataset: SequenceDataset, index: NDArray[np.int64], positions: NDArray[np.int64]
) -> NDArray[np.str_]:
    """Return bins of the training frequency of the item at each place.

    Args:
        training: the ids of all items of the training sets.
        dataset: the sets that are scored.
        index: which of them each row is of.
        positions: where in it.
    """
    targets = dataset.input_ids.numpy()[dataset.offsets.numpy()[index] + positions]
    counts = np.bincount(training, minlength=int(targets.max(initial=0)) + 1)
    return np.array(bin_names(FREQUENCY_EDGES))[np.digitize(counts[targets], FREQUENCY_EDGES)]
