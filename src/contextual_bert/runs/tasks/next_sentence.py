"""Hidden words of pairs of sentences, and whether the second sentence follows the first."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import nn

from contextual_bert.data import EveryPosition, SequenceDataset, TextTable
from contextual_bert.data.neighbour_sentences import neighbours_in
from contextual_bert.data.sentence_pairs import (
    SentencePairs,
    cut_pairs,
    pair_numbers,
    with_pair_numbers,
)
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import Scores
from contextual_bert.inference import EncodedTexts, encode_texts, placed
from contextual_bert.inference.encode import naming
from contextual_bert.inference.texts.sentence_scoring import score_pairs
from contextual_bert.models.checkpoint_files import weight_shapes
from contextual_bert.models.token_marks import num_separators
from contextual_bert.nouns import agreeing, counted
from contextual_bert.runs.sentence_trainer import SentenceObjective, SentenceTrainer
from contextual_bert.runs.tasks.masked_text import MaskedTextTask
from contextual_bert.runs.text_starts import head_lines
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.recipe import Recipe

_UNLIMITED = 10**9
_FIX = "Give texts of several sentences, one a line, or lists of sentences."


class NextSentenceTask(MaskedTextTask):
    """Masked language modelling and next-sentence prediction on pairs of neighbouring sentences."""

    @classmethod
    def check_examples(cls, recipe: Recipe, examples: TextTable) -> None:
        """Raise DataError where a column lacks a cell, or the texts are neither texts nor lists of sentences."""
        super().check_examples(recipe, examples)
        with naming(recipe.data):
            neighbours_in(examples.table.slice(0, 1), text=recipe.text_task.text)

    def encode_rows(self, table: pa.Table) -> EncodedTexts:
        """Encode the pairs of neighbouring sentences of the texts of a table, whole: they are cut when they are put
        together."""
        text = self.recipe.text_task.text
        found = neighbours_in(table, text=text)
        second = f"{text} "
        while second in table.column_names:
            second += " "
        rows = pa.array(found.rows)
        paired = table.drop_columns([text]).take(rows).append_column(text, pa.chunked_array([found.first]))
        paired = paired.append_column(second, pa.chunked_array([found.second]))
        tokenizer: Any = self._tokenizer
        longest, tokenizer.model_max_length = tokenizer.model_max_length, _UNLIMITED
        try:
            encoded = encode_texts(paired, self.processor, text=text, pair=second, truncation="head")
        except DataError as error:
            raise placed(error, found.rows, file=None) from error
        finally:
            tokenizer.model_max_length = longest
        encoded.dataset.example_ids = torch.from_numpy(found.rows)
        return replace(encoded, report=encoded.report.at(found.rows))

    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError also where a pair has no room for a token of each sentence."""
        super().check(recipe)
        fewest = 2 + self._tokenizer.num_special_tokens_to_add(pair=True)
        if self.length < fewest:
            raise ConfigurationError(
                "leaves no room for a token of each sentence of a pair",
                setting="max_length",
                value=self.length,
                fix=f"Give {fewest} or more.",
            )

    @property
    def length(self) -> int:
        """Return the largest number of tokens of a pair."""
        return self._tokenizer.model_max_length

    @cached_property
    def _separators(self) -> int:
        return num_separators(self._tokenizer)

    def encoded(self, part: str) -> SequenceDataset | None:
        """Return the pairs of a part as they follow each other, cut; None where it has no text."""
        if part not in self.texts:
            return None
        self.check_readable(part)
        return cut_pairs(self._whole(part), longest=self.length, separators=self._separators)

    def check_readable(self, part: str) -> None:
        """Raise DataError where a part has no pair of sentences, or those of one text alone, or nothing to read."""
        if part not in self.texts:
            return
        numbers = np.unique(self._whole(part).example_ids.numpy())
        if len(numbers) < 2:
            what = "no text has" if not len(numbers) else "one text alone has"
            more = "" if not len(numbers) else ", and sentences of another are needed beside it"
            raise DataError(
                f"in the {part} part {what} a second sentence{more}",
                file=self.recipe.data,
                column=self.recipe.text_task.text,
                fix=_FIX,
            )
        super().check_readable(part)

    def encoding_lines(self, part: str) -> list[str]:
        """Return sentences on the pairs, on those that were cut, and on texts without a pair."""
        whole = self._whole(part)
        num_cut = int((whole.sizes > self.length).sum())
        report = replace(self.texts[part].report, outside={}, max_length=self.length, num_cut=num_cut)
        first, *others = report.lines(has_taught=part == "train")
        num_texts = len(np.unique(whole.example_ids.numpy()))
        lines = [f"{counted(len(whole), 'pair')} of neighbouring sentences in {counted(num_texts, 'text')}"]
        lines[0] += f",{first.partition(',')[2]}"
        alone = len(self.split.rows(part)) - num_texts
        if alone:
            lines.append(
                f"{counted(alone, 'text')} {agreeing('have', alone)} one sentence or none, and "
                f"{agreeing('are', alone)} left out: a pair needs two"
            )
        return [*lines, *others]

    def head_lines(self, *, reads_pooler: bool = False) -> list[str]:
        """Return sentences on weights of the two heads that start at random."""
        task = self.recipe.text_task
        if task.is_from_scratch or task.checkpoint is None:
            return []
        lines = head_lines(task.checkpoint, head="masked_text", labels=(), reads_pooler=False)
        shapes = weight_shapes(task.checkpoint)
        if shapes is not None and "cls.seq_relationship.weight" not in shapes:
            names = "cls.seq_relationship.*"
            if "bert.pooler.dense.weight" not in shapes:
                names += " and bert.pooler.*"
            lines.append(
                f"warning: {task.checkpoint} has no head for next sentences: the weights {names} start at random."
            )
        return lines

    def label_fields(self) -> dict[str, Any]:
        """Return the field of the config that gives the model its second head."""
        return {"has_next_sentence_head": True}

    def customers(self, part: str) -> NDArray[np.str_] | None:
        """Return the customer of each pair of a part."""
        return self.customers_of(self.datasets[part].example_ids.numpy())

    def pairs_of(self, dataset: SequenceDataset, part: str, *, seed: int) -> SentencePairs:
        """Return pairs of a part, of which half have the second sentence of another text.

        Args:
            dataset: pairs as they follow each other, all of the part or some.
            part: that they are of.
            seed: of what is drawn.
        """
        whole = self._whole(part)
        whole = whole if len(whole) == len(dataset) else dataset
        return SentencePairs(dataset, whole, longest=self.length, separators=self._separators, seed=seed)

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> ContextualBertTrainer:
        """Return a trainer that hides tokens of pairs and draws these anew; both objectives are evaluated."""
        training, validation = settings["train_dataset"], settings["eval_dataset"]
        changed: dict[str, Any] = {"train_dataset": self.pairs_of(training, "train", seed=recipe.seed), "decided": None}
        if validation is not None:
            special_ids, numbered = self._tokenizer.all_special_ids, with_pair_numbers(validation)
            changed["eval_dataset"] = EveryPosition(numbered, leave_out=special_ids, most=self._task.most_scored)
            changed["decided"] = self.pairs_of(validation, "validation", seed=0)
        objective = SentenceObjective(arguments, self._tokenizer, self._collator(recipe))
        return SentenceTrainer(model, arguments, objective=objective, **{**settings, **changed})

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Hide each token once, or a sample of them, and decide which second sentences follow."""
        sampled = {"tokenizer": self._tokenizer, "most": self._task.most_scored}
        return score_pairs(model, dataset, self.pairs_of(dataset, part, seed=0), **sampled, **settings)

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the hidden tokens."""
        dataset = self.datasets[part]
        first = np.unique(pair_numbers(dataset)[1])
        rows = dataset.example_ids.numpy()[first]
        order = np.argsort(rows)
        text = first[order[np.searchsorted(rows, scored.example_id, sorter=order)]]
        return dataset.input_ids.numpy()[dataset.offsets.numpy()[text] + scored.position]

    def _whole(self, part: str) -> SequenceDataset:
        return self.texts[part].dataset
