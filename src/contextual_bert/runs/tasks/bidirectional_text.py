"""Bidirectional text: each word of a text is predicted from those before it, and from those behind it, as in ELMo."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contextual_bert.arrow_types import is_list
from contextual_bert.baselines.shares import Observations
from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, Split, TextTable
from contextual_bert.data.marked_windows import in_marked_windows
from contextual_bert.data.ragged import offsets_of
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message
from contextual_bert.evaluation import EvaluationSettings, Scores
from contextual_bert.inference import EncodedTexts
from contextual_bert.inference.texts.encode_texts import encoded_layout
from contextual_bert.inference.texts.text_layout import (
    Layout,
    Tokens,
    listed_words,
    spelt_lists,
)
from contextual_bert.inference.texts.token_scoring import score_words
from contextual_bert.models import IGNORED_LABEL, ContextFeatureExtractor, ContextualBertProcessor
from contextual_bert.models.bidirectional_lm import BidirectionalLM, BidirectionalLMConfig
from contextual_bert.models.word_characters import RESERVED_WORDS, most_frequent_words, numbers_of_words
from contextual_bert.nouns import counted
from contextual_bert.places import SettingPlace
from contextual_bert.runs.model_factory import model_settings_in_words
from contextual_bert.runs.run_schema import customers_in
from contextual_bert.runs.tasks.causal_text import CausalTextTask
from contextual_bert.runs.text_starts import customers_of_texts, customers_of_words, split_words, word_tokenizer
from contextual_bert.runs.trained_tokenizer import DEFAULT_VOCAB_SIZE
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.objectives import BothWaysObjective
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import BidirectionalText

LONGEST_WINDOW = 128  # words, as long as no sentence is
_UNKNOWN, _START, _END = RESERVED_WORDS
_ROLES = {"unk": _UNKNOWN, "cls": _START, "sep": _END, "pad": _END}
_TRAINING: Mapping[str, Any] = {"learning_rate": 3e-3, "per_device_train_batch_size": 64}
_UNLIMITED = 10**9
DIRECTIONS = ("given the words before it", "given the words behind it")


class BidirectionalTextTask(CausalTextTask):
    """Forward and backward language modelling on prepared texts, word by word."""

    model_class = cast(Any, BidirectionalLM)
    inspected = None
    evaluated_as = EvaluationSettings(ks=(1, 5, 20), row_name="prediction", set_name="text", choice_name="word")
    name_of_shares = "word shares"

    @classmethod
    def first_processor(
        cls, recipe: Recipe, split: Split, texts: TextTable, schema: ContextSchema | None
    ) -> ContextualBertProcessor:
        """Return a processor that knows the frequent words of the training texts.

        Raises:
            DataError: there are none that enough customers wrote.
        """
        task = cast(BidirectionalText, recipe.task)
        training = split.select(texts, "train").table
        rows = _words_of(training.column(task.text), task.text)
        fewest, customers = recipe.min_customers, customers_of_texts(recipe, training, split)
        several = customers_of_words([{*words} for words in rows], customers)
        taught = [[word for word in words if word and several[word] >= fewest] for words in rows]
        vocabulary = most_frequent_words(taught, vocab_size=task.vocab_size or DEFAULT_VOCAB_SIZE)
        words = vocabulary[len(RESERVED_WORDS) :]
        if not words:
            owners = counted(fewest, "text" if customers is None else "customer")
            raise DataError(
                f"no word of the training part is of at least {owners}, and none is left to predict",
                file=recipe.data,
                column=task.text,
                fix=Message("Give a smaller {min_customers}, or more texts.", min_customers=NAME),
            )
        extractor = ContextFeatureExtractor(schema.to_dict() if schema is not None else None)
        return ContextualBertProcessor(
            extractor,
            word_tokenizer(words, max_length=task.max_length or LONGEST_WINDOW, roles=_ROLES, is_cased=True),
            max_characters=config_of_words(recipe, vocabulary).max_characters,
        )

    @cached_property
    def vocabulary(self) -> list[str]:
        """The words that are predicted, the most frequent first behind the reserved ones."""
        return self._tokenizer.convert_ids_to_tokens([*range(len(self._tokenizer))])

    def usual_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of what starts from nothing, for steps of short texts."""
        return {**super().usual_training(recipe), **_TRAINING}

    def encode_rows(self, table: pa.Table) -> EncodedTexts:
        """Encode the words of the texts of a table whole: they are read in windows."""
        text = self.recipe.text_task.text
        rows = _words_of(table.column(text), text)
        words = pa.chunked_array([[word for row in rows for word in row]], pa.string())
        numbers = numbers_of_words(self.vocabulary)
        tokens = Tokens(
            np.array([numbers.get(word, 0) for word in words.to_pylist()], dtype=np.int64),
            offsets_of(np.array([len(row) for row in rows], dtype=np.int64)),
            spelt=spelt_lists(words, np.ones(len(words), dtype=np.int64)),
        )
        layout = Layout(tokens, None, room=_UNLIMITED, separators=1, truncation="head")
        return encoded_layout(table, self.processor, layout, limit=_UNLIMITED)

    def encoded(self, part: str) -> SequenceDataset | None:
        """Return the windows of the texts of a part, None where it has none."""
        return in_marked_windows(self._whole(part), length=self.length) if part in self.texts else None

    def vocabulary_lines(self) -> list[str]:
        """Return sentences on the words that are predicted."""
        has_customers = customers_in(self.recipe, self.examples.table, self.split) is not None
        owners = counted(self.recipe.min_customers, "customer" if has_customers else "training text")
        known = counted(len(self.vocabulary) - len(RESERVED_WORDS), "word")
        lines = [f"no checkpoint: all weights are new; {known} of at least {owners} can be predicted"]
        for part, texts in self.texts.items():
            ids = texts.dataset.input_ids
            num_words = int((ids != 1).sum() - (ids == 2).sum())
            share = int((ids == 0).sum()) / max(1, num_words)
            lines.append(
                f"{part}: {share:.1%} of the words are others: read by their characters, predicted as {_UNKNOWN}"
            )
        return lines

    def check_model(self, model: Any, directory: Any) -> None:
        """Pass: whatever words a table has, a finished run reads them."""

    def build_model(self, recipe: Recipe, *, is_quiet: bool = False) -> nn.Module:
        """Build the language models, all of whose weights are new."""
        self.check(recipe)
        with model_settings_in_words(recipe):
            return BidirectionalLM(config_of_words(recipe, self.vocabulary))

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> ContextualBertTrainer:
        """Return a trainer that predicts each word from both sides."""
        return ContextualBertTrainer(
            model, arguments, objective=BothWaysObjective(settings["train_dataset"]), **settings
        )

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Rank each word among all, given those before it and given those behind it."""
        return score_words(model, dataset, **settings)

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the words that are asked as classes: each from both sides, a start or an end from one alone."""
        labels: Tensor = cast(Any, dataset.labels)
        times = (labels != IGNORED_LABEL).long() + (labels == 0) + (labels >= len(RESERVED_WORDS))
        rows = torch.repeat_interleave(torch.arange(len(dataset)), dataset.offsets.diff())
        return Observations(labels.repeat_interleave(times), rows.repeat_interleave(times), dataset.context)

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the words that were asked."""
        return super().targets(part, replace(scored, position=scored.position // 2))

    def own_segments(self, part: str, scored: Scores, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return the direction in which each word was asked."""
        return {"direction": np.array(DIRECTIONS)[scored.position % 2]}


def config_of_words(recipe: Recipe, vocabulary: Sequence[str]) -> BidirectionalLMConfig:
    """Return the config of a language model that predicts these words.

    Raises:
        ConfigurationError: a size that cannot be.
    """
    try:
        with model_settings_in_words(recipe):
            return BidirectionalLMConfig(vocabulary, pad_token_id=RESERVED_WORDS.index(_END), **recipe.model)
    except ConfigurationError as error:
        own = [name for name in recipe.model if error.place == SettingPlace(name)]  # "dropout" is one of LoRA, too
        raise error.at(SettingPlace(own[0], of="model")) if own else error from error.__cause__


def _words_of(column: pa.ChunkedArray, name: str) -> list[list[str]]:
    """Return the words of each text; those of a list as they are."""
    if not is_list(column.type):
        return [split_words(text, is_cased=True) for text in column.to_pylist()]
    words, sizes = listed_words(column, name)
    flat = pc.utf8_normalize(words.cast(pa.string()), form="NFC").to_pylist()
    ends = sizes.cumsum()
    return [flat[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
