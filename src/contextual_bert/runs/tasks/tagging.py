"""Tagging: a label for each word of a text."""

from collections.abc import Mapping
from typing import Any

from contextual_bert.models import ContextualBertForTokenClassification
from contextual_bert.runs.tasks.text import LabelTask
from contextual_bert.training.recipe import Recipe

# The cross-entropy of tags is best long before the entities are found (docs/log.md).
BEST_TAGS: Mapping[str, Any] = {"metric_for_best_model": "recall_at_1_percent"}


class TaggingTask(LabelTask):
    """Tagging of the words of prepared texts."""

    model_class = ContextualBertForTokenClassification
    learned = "a label for each word"

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of texts; the best epoch is the one with the most right tags."""
        return {**super().default_training(recipe), **BEST_TAGS}
