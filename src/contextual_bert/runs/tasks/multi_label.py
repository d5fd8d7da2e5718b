"""Several labels at once for each text: each label is decided about, yes or no."""

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contextual_bert.baselines.shares import UNSEEN_LABEL, Observations
from contextual_bert.data import SequenceDataset, TextTable
from contextual_bert.evaluation import EvaluationSettings, MultiLabelPredictions, Scores
from contextual_bert.evaluation.report import OF_DECISIONS
from contextual_bert.inference.texts.label_scoring import score_decisions
from contextual_bert.inference.whole_rows import ChoiceRows
from contextual_bert.runs.label_names import check_whole_texts, several_line
from contextual_bert.runs.tasks.classification import ClassificationTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.objectives import MultiLabelObjective
from contextual_bert.training.recipe import Recipe

_MANY = 3  # labels of a text, from which on texts are one segment


class MultiLabelTask(ClassificationTask):
    """Classification of prepared texts that may have several labels, or none."""

    evaluated_as = EvaluationSettings(**OF_DECISIONS)

    @classmethod
    def check_labels(cls, recipe: Recipe, examples: TextTable) -> None:
        """Raise DataError where the texts are lists of words, whose labels are tags."""
        check_whole_texts(examples.table, recipe, what="several labels", setting="is_multi_label")

    @property
    def has_field_gains(self) -> bool:
        """Return False. The measure of a field's gain is of one label a text."""
        return False

    def choice_rows(self, model: Any, dataset: SequenceDataset) -> ChoiceRows | None:
        """Return None: the labels of a text are no choice between them."""

    @property
    def num_choices(self) -> int:
        """Return 2: a label is one of the text, or none."""
        return 2

    def label_fields(self) -> dict[str, Any]:
        """Return the fields of the config that name the labels, and say that a text may have several."""
        return {**super().label_fields(), "problem_type": "multi_label_classification"}

    def own_lines(self) -> list[str]:
        """Return the sentences on labels, and how many labels the training texts have."""
        return [*super().own_lines(), several_line(self._marks("train").sum(axis=1), what="training text")]

    def counts_in(self, part: str) -> NDArray[np.int64]:
        """Return how many texts of a part have each label, (labels,)."""
        return self._marks(part).sum(axis=0)

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> ContextualBertTrainer:
        """Return a trainer that learns a decision about each label."""
        objective = MultiLabelObjective(model, settings["train_dataset"], self.labels)
        return ContextualBertTrainer(model, arguments, objective=objective, **settings)

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Score the decision about each label of each text."""
        return score_decisions(model, dataset, names=self.labels, **settings)

    def own_segments(self, part: str, scored: Scores, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return how many labels the text has."""
        counts = self._marks(part).sum(axis=1)[index]
        return {"true labels": [f"{_MANY} or more" if each >= _MANY else str(each) for each in counts.tolist()]}

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the decisions as classes: twice the id of a label, and one more where a text has it."""
        labels = cast(Tensor, dataset.labels).long()
        classes = 2 * torch.arange(labels.shape[1]) + labels
        return Observations(
            classes.flatten(), torch.arange(len(labels)).repeat_interleave(labels.shape[1]), dataset.context
        )

    @property
    def num_classes(self) -> tuple[int, int]:
        """Return the number of classes of ``observations``; none is reserved."""
        return 2 * len(self.labels), 0

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the class of the right decision."""
        return 2 * scored.position + self._true(scored)

    def share_losses(self, part: str, scored: Scores, *, softmax_over: str) -> NDArray[np.float64] | None:
        """Return the loss of the counted share of each label, for each decision, in nats."""
        have = self.label_counts.double().numpy() + UNSEEN_LABEL
        lack = len(self.datasets["train"]) + 2 * UNSEEN_LABEL - have
        losses = np.log(have + lack)[:, None] - np.log(np.stack([lack, have], axis=1))
        return losses.ravel()[self.targets(part, scored)]

    def unlearned_rows(self, part: str, scored: Scores) -> NDArray[np.bool_] | None:
        """Return True for each decision about a label that no training text has; None where there is none."""
        is_unlearned = self.label_counts.numpy()[scored.position] == 0
        return is_unlearned if is_unlearned.any() else None

    def _marks(self, part: str) -> NDArray[np.int64]:
        """Return 1 for each label of each text of a part, (texts, labels)."""
        labels: Any = self.texts[part].dataset.labels
        return labels.numpy().astype(np.int64)

    def _true(self, scored: Scores) -> NDArray[np.int64]:
        rows = cast(MultiLabelPredictions, scored.predictions)
        order = rows.order()
        places = order[np.searchsorted(rows.example_id[order], scored.example_id)]
        return rows.true[places, scored.position]
