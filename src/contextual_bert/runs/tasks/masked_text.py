"""Masked text: hidden tokens of a text are predicted from the others."""

from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import nn

from contextual_bert.baselines.shares import Observations
from contextual_bert.data import EveryPosition, SequenceDataset, TextMaskingCollator
from contextual_bert.errors import ConfigurationError, Message
from contextual_bert.evaluation import EvaluationSettings, Scores
from contextual_bert.inference import EncodedQuestions, EncodedTexts, encode_phrases, score
from contextual_bert.inference.inspected_queries import InspectedBlanks
from contextual_bert.models import ContextualBertForMaskedLM
from contextual_bert.models.tokenization import WORD_PIECE, word_pieces
from contextual_bert.runs.tasks.base import CountedTask, targets_in
from contextual_bert.runs.tasks.text import TextModelTask
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.objectives import MaskedObjective
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import MaskedText


class MaskedTextTask(CountedTask, TextModelTask):
    """Masked language modelling on prepared texts."""

    model_class = ContextualBertForMaskedLM
    learned = "none"
    inspected = InspectedBlanks
    evaluated_as = EvaluationSettings(ks=(1, 5, 20), row_name="hidden token", set_name="text", choice_name="token")
    name_of_shares = "token shares"
    num_sampled = 100  # texts, of which each token is hidden once

    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError also for a tokenizer that cannot hide a token."""
        super().check(recipe)
        if self._tokenizer.mask_token_id is None:
            raise ConfigurationError(
                "brings a tokenizer without a [MASK], and hidden words are shown as one",
                setting="checkpoint",
                value=self._task.checkpoint,
                fix=Message(
                    "Give a checkpoint that learned hidden words, or {objective}.",
                    objective="causal",
                ),
            )

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> ContextualBertTrainer:
        """Return a trainer that hides tokens; the epoch is chosen by the tokens that are scored."""
        validation = settings["eval_dataset"]
        if validation is not None:
            special_ids = self._tokenizer.all_special_ids
            most = self._task.most_scored
            settings = {**settings, "eval_dataset": EveryPosition(validation, leave_out=special_ids, most=most)}
        objective = MaskedObjective(arguments, self._tokenizer, self._collator(recipe))
        return ContextualBertTrainer(model, arguments, objective=objective, **settings)

    def encode_rows(self, table: pa.Table) -> EncodedTexts | EncodedQuestions:
        """Encode the texts of a table, with their phrases where there are some."""
        task = self._task
        if task.phrase_column is None:
            return super().encode_rows(table)
        how: dict[str, Any] = {"max_length": task.kept_length, "truncation": task.truncation}
        return encode_phrases(table, self.processor, text=task.text, phrases=task.phrase_column, **how)

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Hide each token once, or a sample of them, and rank the true one."""
        sampled = {"tokenizer": self._tokenizer, "most": self._task.most_scored}
        return score(cast(Any, model), dataset, **sampled, **settings)

    @property
    def num_choices(self) -> int:
        """Return the number of ranked tokens."""
        return len(self._tokenizer) - len(self._tokenizer.all_special_ids)

    def own_lines(self) -> list[str]:
        """Return sentences on what was cut, on where the weights start, and on samples that are scored."""
        return [*super().own_lines(), *self.scored_lines("validation"), *self.scored_lines("test")]

    def unranked_lines(self, part: str, num_unknown: int) -> list[str]:
        """Return a sentence on a sample of hidden tokens, and one on what cannot be ranked."""
        return [*self.scored_lines(part), *super().unranked_lines(part, num_unknown)]

    def num_scored(self, part: str) -> tuple[int, int]:
        """Return how many hidden tokens of a part are scored, and how many there are."""
        special_ids, most = torch.tensor(self._tokenizer.all_special_ids), self._task.most_scored
        num_tokens = int((~torch.isin(self.datasets[part].input_ids, special_ids)).sum())
        return (num_tokens if most is None else min(most, num_tokens)), num_tokens

    def scored_lines(self, part: str) -> list[str]:
        """Return a sentence where a sample of the hidden tokens of a part is scored, and nothing where all are."""
        if part not in self.texts:
            return []
        scored, num_tokens = self.num_scored(part)
        if scored == num_tokens:
            return []
        return [
            Message(
                f"{part}: scores {scored:,} of {num_tokens:,} tokens, each hidden once: a sample, the same for every "
                "run on these texts. To score all, give {scored_tokens}.",
                scored_tokens="all",
            )
        ]

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the tokens that are not special as classes."""
        rows = torch.repeat_interleave(torch.arange(len(dataset)), dataset.offsets.diff())
        is_asked = ~torch.isin(dataset.input_ids, torch.tensor(self._tokenizer.all_special_ids))
        return Observations(dataset.input_ids[is_asked], rows[is_asked], dataset.context)

    @property
    def num_classes(self) -> tuple[int, int]:
        """Return the number of tokens; none is reserved."""
        return len(self._tokenizer), 0

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the hidden tokens."""
        return targets_in(self.datasets[part], scored)

    @property
    def _tokenizer(self) -> Any:
        return self.processor.tokenizer

    @property
    def _task(self) -> MaskedText:
        return cast(MaskedText, self.recipe.task)

    def _collator(self, recipe: Recipe) -> TextMaskingCollator:
        tokenizer, task = self._tokenizer, self._task
        return TextMaskingCollator(
            mask_id=tokenizer.mask_token_id,
            pad_id=tokenizer.pad_token_id,
            special_ids=tokenizer.all_special_ids,
            is_word_start=torch.tensor([not piece.startswith(WORD_PIECE) for piece in word_pieces(tokenizer)]),
            unit=cast(Any, task.masking),
            rate=task.mask_rate,
            max_rate=task.max_mask_rate,
            seed=recipe.seed,
        )
