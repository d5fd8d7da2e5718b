"""Text to text: a text is read, and another one is written, token by token."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import nn

from contextual_bert.baselines.shares import Observations
from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, Split, TextTable
from contextual_bert.data.checked_columns import text_column
from contextual_bert.data.target_pairs import join_targets
from contextual_bert.errors import DataError
from contextual_bert.evaluation import EvaluationSettings, Scores
from contextual_bert.inference import EncodedTexts, encode_texts
from contextual_bert.inference.inspected_queries import InspectedSource
from contextual_bert.inference.texts.target_scoring import score_targets
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextFeatureExtractor,
    ContextualBertForSeq2SeqLM,
    ContextualBertProcessor,
)
from contextual_bert.nouns import agreeing, counted
from contextual_bert.runs.tasks.base import targets_in
from contextual_bert.runs.tasks.token_model import TokenModelTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.objectives import TargetObjective
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import TextToText

# Of an encoder-decoder all of whose weights are new.
SMALL_ENCODER: Mapping[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.0,
}
NEW_RATE, DECODER_RATE = 2e-3, 1e-3  # of a model that starts from nothing, and of a decoder on a checkpoint
PADDING = "<|padding|>"


class TextToTextTask(TokenModelTask):
    """An encoder-decoder on prepared pairs of texts."""

    model_class = ContextualBertForSeq2SeqLM
    inspected = InspectedSource
    learned = "targets"
    evaluated_as = EvaluationSettings(ks=(1, 5), row_name="token", set_name="text", choice_name="token")
    name_of_shares = "token shares"
    new_fields = SMALL_ENCODER

    @classmethod
    def check_examples(cls, recipe: Recipe, examples: TextTable) -> None:
        """Raise DataError for a column that cannot be read, and for a target with nothing in it."""
        super().check_examples(recipe, examples)
        name = str(recipe.text_task.target)
        column = text_column(examples.table.column(name), name)
        is_empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)
        row = pc.index(is_empty, True).as_py()
        if row >= 0:
            number = pc.sum(is_empty).as_py()
            raise DataError(
                f"the target is empty ({counted(number, 'such row')})",
                file=recipe.data,
                row=row,
                column=name,
                fix="Each text needs one to be written: fill it in, or leave the row out of the table.",
            )

    @classmethod
    def first_processor(
        cls, recipe: Recipe, split: Split, texts: TextTable, schema: ContextSchema | None
    ) -> ContextualBertProcessor:
        """Return a processor with the tokenizer of the checkpoint; without one, one that both training texts teach."""
        task = cast(TextToText, recipe.task)
        if task.checkpoint is not None:
            return super().first_processor(recipe, split, texts, schema)
        training = split.select(texts, "train").table
        sources, targets = (training.column(name).cast(pa.string()).to_pylist() for name in task.text_columns)
        both = pa.chunked_array([[f"{source}\n{target}" for source, target in zip(sources, targets, strict=True)]])
        processor = cls.taught_processor(recipe, split, training, both, schema)
        tokenizer: Any = processor.tokenizer
        tokenizer.add_special_tokens({"pad_token": PADDING})  # an encoder learns the end of a text, and no padding
        tokenizer.padding_side = "right"
        tokenizer.init_kwargs["padding_side"] = "right"
        return processor

    def encode_rows(self, table: pa.Table) -> EncodedTexts:
        """Encode the sources and targets of a table."""
        task = cast(TextToText, self.recipe.task)
        sources = encode_texts(table, self.processor, text=task.text, max_length=task.max_length)
        alone = ContextualBertProcessor(ContextFeatureExtractor(), self._tokenizer)
        targets = encode_texts(table, alone, text=task.target, max_length=task.max_length)
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
            return {**usual, "learning_rate": NEW_RATE}
        is_new = recipe.task.checkpoint_to_start_from is None
        new = {"learning_rate": NEW_RATE, "lr_scheduler_type": "cosine", "per_device_train_batch_size": 64}
        return {**usual, **(new if is_new else {"new_weights_learning_rate": DECODER_RATE})}

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
