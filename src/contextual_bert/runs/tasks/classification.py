"""Classification: a label for each text, or a grade of one scale."""

from typing import Any

from contextual_bert.baselines import LabelShares
from contextual_bert.models import ContextualBertForSequenceClassification
from contextual_bert.runs.tasks.text import LabelTask


class ClassificationTask(LabelTask):
    """Classification of prepared texts; ordinal where the labels are grades."""

    model_class = ContextualBertForSequenceClassification
    counted = LabelShares

    def start_head(self, model: Any) -> None:
        """Start a new head at the label shares of the training part."""
        if model.has_new_head:
            model.start_at_shares(self.ready.label_counts)

    def label_fields(self) -> dict[str, Any]:
        """Return the fields of the config that name the labels, and say whether they are grades."""
        is_ordinal = self.ready.task.is_ordinal
        kind = None if is_ordinal else "single_label_classification"
        return {**super().label_fields(), "is_ordinal": is_ordinal, "problem_type": kind}
