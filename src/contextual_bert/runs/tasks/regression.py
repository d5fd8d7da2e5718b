"""Numbers of texts: a distribution over bins of the training numbers, so that it is learned as classes are."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from contextual_bert.data import SequenceDataset, Split, TextTable
from contextual_bert.data.number_bins import NumberBins, numbers_to_learn, spelt_number, usual_bins
from contextual_bert.errors import DataError
from contextual_bert.evaluation import EvaluationSettings, NumberPredictions, Scores
from contextual_bert.evaluation.report import OF_NUMBERS
from contextual_bert.inference import placed
from contextual_bert.inference.texts.label_scoring import score_numbers
from contextual_bert.models.warm_start import context_config
from contextual_bert.nouns import counted
from contextual_bert.runs.label_names import check_whole_texts
from contextual_bert.runs.tasks.classification import ClassificationTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.objectives import NumberObjective
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import Classification

_NUM_SEGMENTS = 4  # ranges of true numbers, with as many training texts each


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressionTask(ClassificationTask):
    """Numbers of prepared texts. The labels are bins of the training numbers, and ``bins`` is there."""

    evaluated_as = EvaluationSettings(**OF_NUMBERS)

    @classmethod
    def check_labels(cls, recipe: Recipe, examples: TextTable) -> None:
        """Raise DataError where a label is no number, or the texts are lists of words."""
        check_whole_texts(examples.table, recipe, what="numbers", setting="is_regression")
        try:
            numbers_to_learn(examples.table, str(recipe.text_task.label))
        except DataError as error:
            raise placed(error, examples.rows, file=recipe.data) from error

    @classmethod
    def named_labels(cls, recipe: Recipe, examples: TextTable, split: Split) -> dict[str, Any]:
        """Return the bins of the training numbers, or of the run that is gone on from, and their names.

        Raises:
            DataError: all training numbers are the same.
        """
        task, label = recipe.text_task, str(recipe.text_task.label)
        theirs = context_config(task.checkpoint) if task.checkpoint is not None else None
        bins = NumberBins.of_config(theirs) if theirs is not None else None
        if bins is None:
            numbers = numbers_to_learn(split.select(examples, "train").table, label)
            bins = NumberBins.of(numbers, most=cast(Classification, task).number_bins or usual_bins(len(numbers)))
        if len(bins) < 2:  # of which there is nothing to learn
            raise DataError(
                f"all numbers of the training part are {spelt_number(bins.mean[0])}",
                file=recipe.data,
                column=label,
                fix="Name another column, or split the table in another way.",
            )
        return {"labels": bins.names, "bins": bins}

    @classmethod
    def known_fields(cls, model: Any, training: TextTable | None) -> dict[str, Any]:
        """Return the bins of the run, and their names."""
        return {**super().known_fields(model, training), "bins": NumberBins.of_config(model.config)}

    @property
    def own_bins(self) -> NumberBins:
        """Return the bins, which each such task has."""
        return cast(NumberBins, self.bins)

    def numbers_of(self, part: str) -> NDArray[np.float64]:
        """Return the numbers of a part, in the order of its texts."""
        return self.numbers[self.texts[part].dataset.example_ids.numpy()]

    def label_fields(self) -> dict[str, Any]:
        """Return the fields of the config that name the bins, and say which numbers each has."""
        return {**super().label_fields(), "number_bins": self.own_bins.as_lists()}

    def label_lines(self) -> list[str]:
        """Return a sentence on the training numbers and their bins, and one on numbers beyond them."""
        own, bins = self.numbers_of("train"), self.own_bins
        least, middle, most = (spelt_number(float(each)) for each in np.quantile(own, [0.0, 0.5, 1.0]))
        lines = [f"numbers of {least} to {most}, half of them up to {middle}, in {counted(len(bins), 'bin')}"]
        for part in self.texts:
            numbers = self.numbers_of(part)
            num_beyond = int(((numbers < bins.low[0]) | (numbers > bins.high[-1])).sum())
            if num_beyond:
                lines.append(
                    f"{part}: {counted(num_beyond, 'number')} of {len(numbers):,} beyond those of the training texts, "
                    "which no answer reaches"
                )
        return lines

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> ContextualBertTrainer:
        """Return a trainer that learns the bins, and chooses the best epoch by the numbers where it is asked to."""
        objective = NumberObjective(model, settings["train_dataset"], self.own_bins, self.numbers)
        return ContextualBertTrainer(model, arguments, objective=objective, **settings)

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Score the number of each text, and the bin that holds it."""
        return score_numbers(model, dataset, bins=self.own_bins, numbers=self.numbers, **settings)

    def own_segments(self, part: str, scored: Scores, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return the range of the true number."""
        true = cast(NumberPredictions, scored.predictions).true
        inner = np.unique(np.quantile(self.own_bins.mean, np.arange(1, _NUM_SEGMENTS) / _NUM_SEGMENTS))
        ends = [spelt_number(float(f"{each:.4g}")) for each in inner]
        names = [f"up to {ends[0]}", *(f"{low} to {high}" for low, high in pairwise(ends))]
        return {"true number": np.array([*names, f"above {ends[-1]}"])[np.searchsorted(inner, true)].tolist()}

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the bins of the true numbers."""
        return self.own_bins.place(cast(NumberPredictions, scored.predictions).true)
