"""Classification: a label for each text, or a grade of one scale."""

from collections.abc import Mapping
from typing import Any, cast

from contextual_bert.baselines import LabelShares
from contextual_bert.baselines.names import CONTEXT_AS_TEXT, TEXT_BASELINES, WITHOUT_BERT
from contextual_bert.data import SequenceDataset
from contextual_bert.evaluation import EvaluationSettings
from contextual_bert.inference.inspected_queries import InspectedLabel
from contextual_bert.inference.texts.label_scoring import label_rows
from contextual_bert.inference.whole_rows import ChoiceRows
from contextual_bert.models import ContextualBertConfig, ContextualBertForSequenceClassification
from contextual_bert.models.checkpoint_files import backbone_of, found_config
from contextual_bert.runs.tasks.labelled_text import LabelModelTask
from contextual_bert.runs.tasks.text import OWN_TRAINING
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import Classification

# What the checkpoint lacks learns in a few hundred steps who reads, and the checkpoint is not to learn the texts by
# heart meanwhile (docs/decisions/030).
RATES: Mapping[str, Any] = {"learning_rate": 5e-5, "new_weights_learning_rate": 1e-3}
SEGMENT_LENGTH = 200  # Pappagari et al. (2019), section 3


class ClassificationTask(LabelModelTask):
    """Classification of prepared texts; ordinal where the labels are grades."""

    model_class = ContextualBertForSequenceClassification
    counted = (LabelShares,)
    inspected = InspectedLabel
    # Recall@1 alone where few labels are ranked: that is the accuracy, but for ties.
    evaluated_as = EvaluationSettings(ks=(1,), row_name="label", set_name="text", choice_name="label")

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of texts.

        A method that starts from a BERT and trains all of it has ``RATES``, unless it or the recipe says how fast it
        learns. BERT itself has to learn a context that is words.
        """
        usual = super().default_training(recipe)
        is_whole = recipe.trained_weights == "all" and recipe.conditioning not in (*OWN_TRAINING, CONTEXT_AS_TEXT)
        return {**usual, **RATES} if is_whole and self.learns_as_bert(recipe) else usual

    @property
    def model_fields(self) -> Mapping[str, Any]:
        """Return the pooling of a text."""
        fields: dict[str, Any] = {"classifier_pooling": self.pooling}
        if self.recipe.text_task.long_documents and self.recipe.conditioning not in TEXT_BASELINES:
            fields["segment_length"] = self.segment_length
        return fields

    @property
    def segment_length(self) -> int:
        """The tokens of a segment, of texts that are read so: those of the run that is gone on from, else the usual."""
        checkpoint = self.recipe.text_task.bert
        if self.goes_on:
            own = ContextualBertConfig.from_pretrained(checkpoint)
            return own.segment_length or min(SEGMENT_LENGTH, own.max_position_embeddings)
        return usual_segment_length(checkpoint)

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

    def choice_rows(self, model: Any, dataset: SequenceDataset) -> ChoiceRows | None:
        """Return the texts, for each of which a label is chosen."""
        return label_rows(dataset)

    def name_of_choice(self, number: int) -> str:
        """Return the name of a label."""
        return self.labels[number]

    def start_head(self, model: Any) -> None:
        """Start a new head at the label shares of the training part, unless it is to stay as it was drawn."""
        if model.has_new_head and cast(Classification, self.recipe.task).label_start == "shares":
            model.start_at_shares(self.label_counts, num_texts=self.num_labelled_texts)

    def label_fields(self) -> dict[str, Any]:
        """Return the fields of the config that name the labels, and say whether they are grades."""
        is_ordinal = self.recipe.text_task.is_ordinal
        kind = None if is_ordinal else "single_label_classification"
        return {**super().label_fields(), "is_ordinal": is_ordinal, "problem_type": kind}


def usual_segment_length(checkpoint: str) -> int:
    """Return the tokens of a segment of long texts, where nobody says more: as many as the positions allow, or 200."""
    config = found_config(checkpoint, {})
    return min(SEGMENT_LENGTH, backbone_of(config, checkpoint).config_fields(config)["max_position_embeddings"])
