"""Tagging: a label for each word of a text."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from contextual_bert.evaluation import EvaluationSettings, Scores, Unscored
from contextual_bert.models import ContextualBertForTokenClassification
from contextual_bert.runs.tasks.text import LabelTask
from contextual_bert.runs.unscored import unscored_words
from contextual_bert.training.recipe import Recipe

# The cross-entropy of tags is best long before the entities are found (docs/log.md).
BEST_TAGS: Mapping[str, Any] = {"metric_for_best_model": "recall_at_1_percent"}


class TaggingTask(LabelTask):
    """Tagging of the words of prepared texts."""

    model_class = ContextualBertForTokenClassification
    learned = "a label for each word"
    evaluated_as = EvaluationSettings(ks=(1,), row_name="word", set_name="text", choice_name="label")

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of texts; the best epoch is the one with the most right tags."""
        return {**super().default_training(recipe), **BEST_TAGS}

    def unscored(self, part: str, scores: Scores) -> Unscored | None:
        """The words of a part that stand behind the cut."""
        rows = self.datasets[part].example_ids.numpy()
        words = self.examples.table.column(self.examples.text).take(pa.array(rows))
        return unscored_words(words, rows, scores, part=self.part_name or part, customers=self.customers_of(rows))
