"""Tagging: a label for each word of a text."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import torch
from torch import nn

from contextual_bert.baselines import HiddenMarkovTagger
from contextual_bert.baselines.hidden_markov import TaggedWords
from contextual_bert.data import SequenceDataset
from contextual_bert.evaluation import EvaluationSettings, Scores, Unscored
from contextual_bert.inference.inspected_queries import InspectedTags
from contextual_bert.models import IGNORED_LABEL, ContextualBertForTokenClassification
from contextual_bert.runs.tasks.labelled_text import LabelModelTask
from contextual_bert.runs.unscored import unscored_words
from contextual_bert.training.recipe import Recipe

# The cross-entropy of tags is best long before the entities are found (docs/log.md).
BEST_TAGS: Mapping[str, Any] = {"metric_for_best_model": "recall_at_1_percent"}
# The dozens of tags of a table start from nothing: at the rate of a text's label, 1e-4, a small table hardly teaches
# them (docs/decisions/030).
RATES: Mapping[str, Any] = {"learning_rate": 3e-4, "new_weights_learning_rate": 1e-3}


class TaggingTask(LabelModelTask):
    """Tagging of the words of prepared texts."""

    model_class = ContextualBertForTokenClassification
    learned = "a label for each word"
    inspected = InspectedTags
    evaluated_as = EvaluationSettings(ks=(1,), row_name="word", set_name="text", choice_name="label")

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of texts; the best epoch is the one with the most right tags.

        A model that starts from a BERT has ``RATES``, unless the recipe says how fast it learns.
        """
        return {**super().default_training(recipe), **BEST_TAGS, **(RATES if self.learns_as_bert(recipe) else {})}

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Count what a chain of labels counts; the rest as other tasks on texts."""
        if not isinstance(model, HiddenMarkovTagger):
            return super().fit(recipe, model)
        validation: SequenceDataset | None = self.datasets.get("validation")
        return model.fit(_tagged(self.datasets["train"]), _tagged(validation) if validation is not None else None)

    def unscored(self, part: str, scores: Scores) -> Unscored | None:
        """The words of a part that stand behind the cut."""
        rows = self.datasets[part].example_ids.numpy()
        words = self.examples.table.column(self.examples.text).take(pa.array(rows))
        return unscored_words(words, rows, scores, part=self.part_name or part, customers=self.customers_of(rows))


def _tagged(dataset: SequenceDataset) -> TaggedWords:
    """Return the words of a part that have a label."""
    labels = dataset.labels
    assert labels is not None
    is_asked = labels != IGNORED_LABEL
    texts = torch.repeat_interleave(torch.from_numpy(dataset.sizes))
    return TaggedWords(dataset.input_ids[is_asked], labels[is_asked], texts[is_asked])
