"""Text to text: a text is read, and another one is written, token by token."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import nn

from contextual_bert.baselines.shares import Observations
from contextual_bert.data import SequenceDataset, TextTable
from contextual_bert.data.target_pairs import join_targets
from contextual_bert.evaluation import EvaluationSettings, Scores
from contextual_bert.inference import EncodedTexts, encode_texts
from contextual_bert.inference.inspected_queries import InspectedSource
from contextual_bert.inference.texts.target_scoring import score_targets
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextualBertForSeq2SeqLM,
)
from contextual_bert.nouns import agreeing, counted
from contextual_bert.runs.tasks.base import targets_in
from contextual_bert.runs.tasks.paired_text import NEW_ENCODER_TRAINING, PairedTextTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.objectives import TargetObjective
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import TextToText

DECODER_RATE = 1e-3  # of a decoder on a checkpoint


class TextToTextTask(PairedTextTask):
    """An encoder-decoder on prepared pairs of texts."""

    model_class = ContextualBertForSeq2SeqLM
    inspected = InspectedSource
    learned = "targets"
    evaluated_as = EvaluationSettings(ks=(1, 5), row_name="token", set_name="text", choice_name="token")
    name_of_shares = "token shares"

    @classmethod
    def check_examples(cls, recipe: Recipe, examples: TextTable) -> None:
        """Raise DataError for a column that cannot be read, and for a target with nothing in it."""
        super().check_examples(recipe, examples)
        advice = "Each text needs one to be written"
        cls.check_second(recipe, examples, str(recipe.text_task.target), noun="target", advice=advice)

    def encode_rows(self, table: pa.Table) -> EncodedTexts:
        """Encode the sources and targets of a table."""
        task = cast(TextToText, self.recipe.task)
        sources = encode_texts(table, self.processor, text=task.text, max_length=task.max_length)
        targets = self.encode_alone(table, task.target)
        cut, report = targets.report.num_cut, sources.report
        if cut:
            line = f"{counted(cut, 'target')} {agreeing('are', cut)} cut to {targets.report.max_length:,} tokens"
            report = replace(report, remarks=(*report.remarks, line))
        return replace(sources, dataset=join_targets(sources.dataset, targets.dataset), report=report)

    @property
    def longest_text(self) -> int:
        """Return the number of tokens of the longest source or target."""
        return max(_longest(dataset) for dataset in self.datasets.values())

    @property
    def model_fields(self) -> dict[str, Any]:
        """Return the fields of the config: the token before each target, and the decoder unless the recipe names it.
        A run that is gone on from has them.
        """
        if self.goes_on:
            return dict(super().model_fields)
        return {
            **super().model_fields,
            "decoder_type": "transformer",
            "decoder_start_token_id": self._tokenizer.cls_token_id,
        }

    def usual_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of texts, or of what starts from nothing."""
        usual = super().usual_training(recipe)
        if self.goes_on:
            return {**usual, "learning_rate": NEW_ENCODER_TRAINING["learning_rate"]}
        is_new = recipe.task.checkpoint_to_start_from is None
        return {**usual, **(NEW_ENCODER_TRAINING if is_new else {"new_weights_learning_rate": DECODER_RATE})}

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> ContextualBertTrainer:
        """Return a trainer that predicts each token of a target from the source and the tokens before it."""
        return ContextualBertTrainer(model, arguments, objective=TargetObjective(settings["train_dataset"]), **settings)

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Rank each token of the targets, and say which targets are written whole."""
        return score_targets(model, dataset, **settings)

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the tokens of the targets as classes."""
        labels: Any = dataset.labels
        is_asked = labels != IGNORED_LABEL
        rows = torch.repeat_interleave(torch.arange(len(dataset)), dataset.offsets.diff())
        return Observations(labels[is_asked], rows[is_asked], dataset.context)

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the tokens that were asked."""
        return targets_in(self.datasets[part], scored)


def _longest(pairs: SequenceDataset) -> int:
    labels: Any = pairs.labels
    num_target = torch.zeros(len(pairs), dtype=torch.int64).index_add_(
        0,
        torch.repeat_interleave(torch.arange(len(pairs)), pairs.offsets.diff()),
        (labels != IGNORED_LABEL).long(),
    )
    return int(torch.maximum(pairs.offsets.diff() - num_target, num_target).max())
