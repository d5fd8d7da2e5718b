"""Base of the tasks with a label for each text or word: what is scored, and the shares that are counted."""

from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contextual_bert.baselines.names import CONTEXT_AS_TEXT, TEXT_BASELINES, WITHOUT_TOKENS
from contextual_bert.baselines.shares import UNSEEN_LABEL, Observations
from contextual_bert.data import SequenceDataset, TextTable
from contextual_bert.errors import ConfigurationError, joined
from contextual_bert.evaluation import LabelPredictions, Scores
from contextual_bert.inference import score_labels
from contextual_bert.models import IGNORED_LABEL
from contextual_bert.nouns import counted
from contextual_bert.runs.label_names import label_warnings, some_labels
from contextual_bert.runs.shifts import counts_of, drift_line
from contextual_bert.runs.tasks.base import CountedTask
from contextual_bert.runs.tasks.text import TextModelTask
from contextual_bert.training.class_weights import class_weights_of
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import LabelTask

_SHOWN_WEIGHTS = 8  # of the labels, in a line for people


class LabelModelTask(CountedTask, TextModelTask):
    """A task with a label for each text or word: what is scored, and the shares that are counted."""

    name_of_shares = "label shares"
    unseen_prior = UNSEEN_LABEL

    @classmethod
    def known_fields(cls, model: Any, training: TextTable | None) -> dict[str, Any]:
        """Return the labels of the run."""
        names = model.config.id2label
        return {"labels": tuple(names[number] for number in sorted(names))}

    def own_lines(self) -> list[str]:
        """Return sentences on what was cut, on the labels, and on where the weights start."""
        cut = [joined(f"{part}: ", line) for part in self.texts for line in self.encoding_lines(part)]
        words = [] if self.recipe.conditioning in WITHOUT_TOKENS else self.vocabulary_lines()
        return [*cut, *self.label_lines(), *self.pooling_lines(), *self.head_lines(), *words]

    def label_lines(self) -> list[str]:
        """Return a sentence that names the labels, and warnings about them."""
        task = self.recipe.text_task
        what = "grades, the lowest first" if task.is_ordinal else "labels"
        warned = label_warnings(self.examples.table, self.labels, str(task.label), self.split)
        return [f"{len(self.labels)} {what}: {some_labels(self.labels)}", *warned, *self.weight_lines()]

    def weight_lines(self) -> list[str]:
        """Return a sentence on the weights of the labels, where they do not all count alike."""
        if (weights := self.class_weights) is None:
            return []
        shown = [f"{name} {weight:.3g}" for name, weight in zip(self.labels, weights, strict=True)]
        more = f" and {counted(len(shown) - _SHOWN_WEIGHTS, 'other')}" if len(shown) > _SHOWN_WEIGHTS else ""
        return [
            f"weights of the labels in the loss: {', '.join(shown[:_SHOWN_WEIGHTS])}{more}. Probabilities are those of "
            "the weighted labels, not of the labels as they occur"
        ]

    @cached_property
    def class_weights(self) -> list[float] | None:
        """The weight of each label in the loss, (labels,); None where all count alike.

        Raises:
            UnknownNameError: a label that no part has is given one.
        """
        given = cast(LabelTask, self.recipe.task).class_weights
        if not given:
            return None
        return class_weights_of(given, self.labels, self.label_counts.tolist(), num_texts=self.num_labelled_texts)

    def label_fields(self) -> dict[str, Any]:
        """Return the fields of the config that name the labels, and say how much each counts in the loss."""
        return {**super().label_fields(), "class_weights": self.class_weights}

    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError where a baseline is to weigh its labels, and as for other tasks on texts."""
        super().check(recipe)
        weights = cast(LabelTask, recipe.task).class_weights
        if weights and recipe.conditioning in TEXT_BASELINES and recipe.conditioning != CONTEXT_AS_TEXT:
            raise ConfigurationError(
                f"is for BERT and its methods: the baseline {recipe.conditioning!r} learns labels as they occur",
                setting="class_weights",
                value=list(weights),
                fix="Leave it out, or the baseline.",
            )

    def learns_as_bert(self, recipe: Recipe) -> bool:
        """Return whether a run starts from a BERT without labels, and the recipe does not say how fast it learns."""
        is_baseline = recipe.conditioning in TEXT_BASELINES and recipe.conditioning != CONTEXT_AS_TEXT
        is_new = is_baseline or recipe.text_task.is_from_scratch
        return not (is_new or self.goes_on or "learning_rate" in recipe.training)

    def pooling_lines(self) -> list[str]:
        """Return a sentence on what a label is read from; none where each word has one."""
        return []

    def drift_lines(self, part: str) -> list[str]:
        """Return a sentence on the labels whose share differs most between training and a part."""
        counts = (self.counts_in(each) for each in ("train", part))
        return drift_line(self.labels.__getitem__, *counts, part=part, what="labels")

    def counts_in(self, part: str) -> NDArray[np.int64]:
        """Return how often each label occurs in a part, (labels,)."""
        return counts_of(self.texts[part].dataset.labels, len(self.labels))

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Rank the label of each text, or word."""
        learned = {"names": self.labels, "is_ordinal": self.recipe.text_task.is_ordinal}
        return score_labels(model, dataset, **learned, **settings)

    def own_segments(self, part: str, scored: Scores, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return the true label."""
        predictions = cast(LabelPredictions, scored.predictions)
        return {"true label": np.array(predictions.names)[predictions.true].tolist()}

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the labels as classes."""
        labels = cast(Tensor, dataset.labels)
        lengths = dataset.offsets.diff() if dataset.has_label_per_token else torch.ones(len(dataset)).long()
        rows = torch.repeat_interleave(torch.arange(len(dataset)), lengths)
        is_labelled = labels != IGNORED_LABEL
        return Observations(labels[is_labelled], rows[is_labelled], dataset.context)

    @property
    def num_classes(self) -> tuple[int, int]:
        """Return the number of labels; none is reserved."""
        return len(self.labels), 0

    def unlearned_rows(self, part: str, scored: Scores) -> NDArray[np.bool_] | None:
        """Return True for each scored row whose label training lacks; None where there is none."""
        is_unlearned = self.label_counts.numpy()[self.targets(part, scored)] == 0
        return is_unlearned if is_unlearned.any() else None

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the true labels."""
        return cast(LabelPredictions, scored.predictions).true
