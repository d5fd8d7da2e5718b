"""Classification: a label for each text, or a grade of one scale."""

from collections.abc import Mapping
from typing import Any

from contextual_bert.baselines import LabelShares
from contextual_bert.baselines.names import WITHOUT_BERT
from contextual_bert.evaluation import EvaluationSettings
from contextual_bert.inference.inspected_queries import InspectedLabel
from contextual_bert.models import ContextualBertForSequenceClassification
from contextual_bert.runs.tasks.text import LabelModelTask


class ClassificationTask(LabelModelTask):
    """Classification of prepared texts; ordinal where the labels are grades."""

    model_class = ContextualBertForSequenceClassification
    counted = (LabelShares,)
    inspected = InspectedLabel
    # Recall@1 alone where few labels are ranked: that is the accuracy, but for ties.
    evaluated_as = EvaluationSettings(ks=(1,), row_name="label", set_name="text", choice_name="label")

    @property
    def model_fields(self) -> Mapping[str, Any]:
        """Return the pooling of a text."""
        return {"classifier_pooling": self.pooling}

    def head_lines(self, *, reads_pooler: bool = False) -> list[str]:
        """Return a sentence on each weight of the head that starts at random, the pooler's too where it is read."""
        return super().head_lines(reads_pooler=self._reads_vector and self.pooling == "cls")

    def pooling_lines(self) -> list[str]:
        """Return a sentence where labels are read from the mean over their texts."""
        if not self._reads_vector or self.pooling != "mean":
            return []
        return ["labels are read from the mean over their texts (classifier_pooling='mean')"]

    @property
    def _reads_vector(self) -> bool:
        return self.recipe.conditioning not in WITHOUT_BERT

    def start_head(self, model: Any) -> None:
        """Start a new head at the label shares of the training part."""
        if model.has_new_head:
            model.start_at_shares(self.label_counts)

    def label_fields(self) -> dict[str, Any]:
        """Return the fields of the config that name the labels, and say whether they are grades."""
        is_ordinal = self.recipe.text_task.is_ordinal
        kind = None if is_ordinal else "single_label_classification"
        return {**super().label_fields(), "is_ordinal": is_ordinal, "problem_type": kind}
