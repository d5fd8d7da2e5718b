"""Causal text: each token of a text is predicted from those before it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import nn

from contextual_bert.baselines.shares import Observations
from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, Split, TextTable
from contextual_bert.data.causal_windows import in_windows
from contextual_bert.evaluation import EvaluationSettings, Scores
from contextual_bert.inference import EncodedTexts, encode_texts, score_tokens
from contextual_bert.inference.inspected_queries import InspectedNext
from contextual_bert.models import (
    ContextualBertForCausalLM,
    ContextualBertProcessor,
)
from contextual_bert.nouns import counted
from contextual_bert.runs.tasks.base import targets_in
from contextual_bert.runs.tasks.token_model import TokenModelTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.objectives import CausalObjective
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import CausalText

# Of a GPT all of whose weights are new: what some million words teach on a processor (docs/decisions/049).
SMALL_GPT: Mapping[str, Any] = {
    "backbone": "gpt2",
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.0,  # with it there is no fused attention on a processor
    "hidden_act": "gelu_pytorch_tanh",  # GPT-2's function, in one pass
}
NEW_TRAINING: Mapping[str, Any] = {
    "learning_rate": 2e-3,
    "lr_scheduler_type": "cosine",
    "per_device_train_batch_size": 16,
}
_UNLIMITED = 10**9


class CausalTextTask(TokenModelTask):
    """Left-to-right language modelling on prepared texts."""

    model_class = ContextualBertForCausalLM
    learned = "none"
    inspected = InspectedNext
    evaluated_as = EvaluationSettings(ks=(1, 5, 20), row_name="token", set_name="text", choice_name="token")
    name_of_shares = "token shares"
    new_fields = SMALL_GPT
    eval_batch_size = 32

    @classmethod
    def first_processor(
        cls, recipe: Recipe, split: Split, texts: TextTable, schema: ContextSchema | None
    ) -> ContextualBertProcessor:
        """Return a processor with the tokenizer of the checkpoint; without one, one that the training texts teach."""
        task = cast(CausalText, recipe.task)
        if task.checkpoint is not None:
            return super().first_processor(recipe, split, texts, schema)
        training = split.select(texts, "train").table
        return cls.taught_processor(recipe, split, training, training.column(task.text), schema)

    def usual_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of texts, or of what starts from nothing."""
        is_new = recipe.task.checkpoint_to_start_from is None
        return {**super().usual_training(recipe), **(NEW_TRAINING if is_new else {})}

    def encode_rows(self, table: pa.Table) -> EncodedTexts:
        """Encode the texts of a table whole: they are read in windows."""
        tokenizer: Any = self.processor.tokenizer
        longest, tokenizer.model_max_length = tokenizer.model_max_length, _UNLIMITED
        try:
            return encode_texts(table, self.processor, text=self.recipe.text_task.text)
        finally:
            tokenizer.model_max_length = longest

    @property
    def length(self) -> int:
        """Return the largest number of tokens of a window."""
        return self._tokenizer.model_max_length

    def encoded(self, part: str) -> SequenceDataset | None:
        """Return the windows of the texts of a part, None where it has none."""
        return in_windows(self._whole(part), length=self.length) if part in self.texts else None

    def encoding_lines(self, part: str) -> list[str]:
        """Return sentences on the windows, and on values that are not known."""
        report = replace(self.texts[part].report, outside={}, max_length=self.length)
        windows = counted(len(self.datasets[part]), "window")
        first, *others = report.lines(has_taught=part == "train")
        return [f"{first.split(',')[0]}, read in {windows} of at most {self.length:,} tokens", *others]

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> ContextualBertTrainer:
        """Return a trainer that predicts each token from those before it."""
        return ContextualBertTrainer(model, arguments, objective=CausalObjective(settings["train_dataset"]), **settings)

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Rank each token among all that could follow those before it."""
        return score_tokens(model, dataset, **settings)

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the tokens that are asked as classes: all of a window but its first."""
        is_asked = torch.ones(len(dataset.input_ids), dtype=torch.bool)
        is_asked[dataset.offsets[:-1]] = False
        rows = torch.repeat_interleave(torch.arange(len(dataset)), dataset.offsets.diff())
        return Observations(dataset.input_ids[is_asked], rows[is_asked], dataset.context)

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the tokens that were asked."""
        return targets_in(self._whole(part), scored)

    def _whole(self, part: str) -> SequenceDataset:
        return self.texts[part].dataset
