"""Base of text tasks: a model from a checkpoint, training settings, baselines, contexts in words."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback

from contextual_bert.baselines.shares import Observations
from contextual_bert.baselines.text import LabelModel
from contextual_bert.data import (
    SequenceDataset,
    ShuffledContext,
)
from contextual_bert.errors import NAME, ConfigurationError, Message
from contextual_bert.evaluation import LabelPredictions
from contextual_bert.inference import ScoredSet, score_labels
from contextual_bert.inference.text_baseline import TextBaseline
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextualBertPreTrainedModel,
)
from contextual_bert.models.pretrained import bert_config
from contextual_bert.models.warm_start import load_continued
from contextual_bert.runs.logistic_baseline import LogisticBaseline
from contextual_bert.runs.model_factory import attention_for, check_context, model_settings_in_words
from contextual_bert.runs.prepared_texts import PreparedTexts
from contextual_bert.runs.registry import (
    BERTLESS_BASELINES,
    CONTEXT_AS_TEXT,
    TEXT_BASELINES,
    WITHOUT_BERT,
    check_kind,
    keeps_weights,
)
from contextual_bert.runs.tasks.base import CountedTask, Progress, Task
from contextual_bert.runs.text_baselines import (
    baseline_on_texts,
    check_baseline,
    check_room,
    config_of,
    processor_of,
    words_of,
)
from contextual_bert.training import (
    ContextualBertTrainer,
    ContextualTrainingArguments,
    add_lora,
    freeze_bert,
)
from contextual_bert.training.adaptation import train_new_weights
from contextual_bert.training.defaults import text_epochs
from contextual_bert.training.objectives import LabelObjective
from contextual_bert.training.recipe import Recipe

# What stands in fine-tuning scripts fits a pretrained BERT; a context that starts at nothing learns too slowly at 2e-5.
TRAINING: Mapping[str, Any] = {
    "learning_rate": 1e-4,
    "num_train_epochs": 4,
    "per_device_train_batch_size": 32,
    "per_device_eval_batch_size": 128,
    "lr_scheduler_type": "linear",
    "warmup_steps": 0.1,
}
# Of what starts from nothing.
NEW_TRAINING: Mapping[str, Any] = {"learning_rate": 1e-3, "num_train_epochs": 20, "lr_scheduler_type": "cosine"}
# Method or baseline -> in what it differs. MA-BERT's vectors of features move little at BERT's rate (docs/log.md).
OWN_TRAINING: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(BERTLESS_BASELINES, NEW_TRAINING),
    "multi_attribute": {"context_learning_rate": 0.01},
    "bert_concat_text": {"learning_rate": 3e-3},
}


class TextModelTask(Task[PreparedTexts]):
    """A task on prepared texts, for which a model is made from a BERT checkpoint.

    Attributes:
        model_class: the model with the head of the task.
        learned: what the texts have, where ``classifier_pooling`` means nothing.
    """

    model_class: ClassVar[type[ContextualBertPreTrainedModel]]
    learned: ClassVar[str | None] = None

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings that fit a pretrained BERT, or what starts from nothing."""
        usual = {**TRAINING, **OWN_TRAINING.get(recipe.conditioning, {})}
        epochs = text_epochs(len(self.ready.datasets["train"]), usual=usual, given=recipe.training)
        return {**usual, **epochs}

    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError where a method or baseline cannot be had on these texts."""
        check_kind(recipe)
        check_context(recipe, self.ready.processor.schema)
        method = self.ready.method
        if method is not None and recipe.conditioning not in (method, *WITHOUT_BERT):
            raise ConfigurationError(
                Message(
                    f"{self.ready.task.bert} was trained with {{conditioning}}, and this asks for "
                    f"{recipe.conditioning!r}",
                    conditioning=method,
                ),
                fix="Give the same, or start from a BERT.",
            )
        if recipe.conditioning in TEXT_BASELINES:
            check_baseline(recipe, self.ready)
        if recipe.conditioning == CONTEXT_AS_TEXT:
            self._words  # noqa: B018  (a feature that cannot be said in words is found)

    def build_model(self, recipe: Recipe) -> nn.Module:
        """Build the model of a recipe, from its checkpoint, or a baseline.

        Raises:
            UnknownNameError: neither a method nor a baseline has that name.
            ConfigurationError: a baseline that cannot do this; a method that needs a context where there is none; a
                model's settings that cannot work.
        """
        self.check(recipe)
        task, schema = self.ready.task, self.ready.processor.schema
        reads_words = recipe.conditioning == CONTEXT_AS_TEXT
        if recipe.conditioning in TEXT_BASELINES and not reads_words:
            return baseline_on_texts(recipe, self.ready)
        if self.learned is not None and "classifier_pooling" in recipe.model:
            raise ConfigurationError(
                "classifier_pooling says what one label for a whole text is read from, and these texts have "
                f"{self.learned}",
                fix="Leave it out.",
            )
        fields = {**self.label_fields(), **self.ready.model_fields, **recipe.model}
        arguments: dict[str, Any] = {
            "conditioning": "none" if reads_words else recipe.conditioning,
            "has_context_as_text": reads_words,
            "attn_implementation": attention_for(recipe, self.ready),
            **fields,
        }
        with model_settings_in_words(recipe):
            if self.ready.method is not None:
                model: Any = load_continued(self.model_class, task.bert, **arguments)
            elif task.is_from_scratch:
                model = self.model_class(bert_config(task.bert, schema=schema, **arguments))
            else:
                # A head that the checkpoint has is for its own labels.
                model = self.model_class.from_bert(
                    task.bert, schema=schema, ignore_mismatched_sizes=bool(self.ready.labels), **arguments
                )
        if task.second is not None and model.config.type_vocab_size < 2:
            raise ConfigurationError(
                f"{task.bert} tells a text and its second part, or its question, not apart: it has "
                f"type_vocab_size={model.config.type_vocab_size}",
                fix="Name a checkpoint with two segments.",
            )
        num_positions = model.config.max_position_embeddings
        if (task.max_length or 0) > num_positions:
            raise ConfigurationError(
                "is not allowed",
                setting="max_length",
                value=task.max_length,
                fix=f"{task.bert} reads at most {num_positions} tokens of a text. Give no more than that; "
                "longer texts are cut and counted.",
            )
        longest = max(int(dataset.sizes.max()) for dataset in self.ready.datasets.values())
        if longest > num_positions:
            raise ConfigurationError(
                f"is too few: a text has {longest} tokens",
                setting="max_position_embeddings",
                value=num_positions,
                fix=Message(
                    "Give {max_length}, by which longer texts are cut and counted, or more positions.", max_length=NAME
                ),
            )
        if reads_words:
            self.check_words(num_positions=num_positions)
        self.start_head(model)
        if recipe.trained_weights == "new":
            freeze_bert(model)
        if recipe.trained_weights == "lora":
            model = add_lora(model, **recipe.lora)
            train_new_weights(model.get_base_model())
        return model

    def check_words(self, *, num_positions: int) -> None:
        """Raise ConfigurationError unless each text and its context in words are read whole."""
        check_room(self._words, self.ready, num_positions=num_positions)

    def start_head(self, model: Any) -> None:
        """Give a new head the start that the training labels ask for; nothing where there are no classes of texts."""

    def count(self, model: nn.Module) -> int:
        """Return the number of parameters, frozen ones and what was counted or solved too."""
        return model.num_weights if isinstance(model, LogisticBaseline) else super().count(model)

    def dataset(self, recipe: Recipe, part: str) -> SequenceDataset | None:
        """Return the texts of a part, in words or with the contexts of others where the recipe says so."""
        own: SequenceDataset | None = self.ready.datasets.get(part)
        if own is not None and recipe.conditioning == CONTEXT_AS_TEXT:
            own = own.with_context(self._words[part])
        return ShuffledContext(own, seed=recipe.seed) if recipe.is_context_shuffled and own is not None else own

    def make_trainer(
        self,
        recipe: Recipe,
        model: nn.Module,
        arguments: ContextualTrainingArguments,
        *,
        callbacks: Sequence[TrainerCallback],
    ) -> Trainer:
        """Return the trainer of a recipe. With LoRA it trains the model inside, whose checkpoints are whole."""
        if recipe.trained_weights == "lora":
            model = cast(Any, model).get_base_model()
        settings: dict[str, Any] = {
            "train_dataset": self.dataset(recipe, "train"),
            "eval_dataset": self.dataset(recipe, "validation"),
            "processor": processor_of(recipe, self.ready.processor),
            "patience": recipe.patience,
            "callbacks": [*callbacks],
        }
        return self.trainer_of(recipe, model, arguments, settings)

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> Trainer:
        """Return the trainer for what is learned; ``settings`` are data, processor, patience and callbacks."""
        objective = LabelObjective(model, settings["train_dataset"], self.ready.labels)
        return ContextualBertTrainer(model, arguments, objective=objective, **settings)

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Solve a logistic regression, count shares; None for a model that is to be trained."""
        return model.fit(self.ready) if isinstance(model, LogisticBaseline) else super().fit(recipe, model)

    def finished(self, recipe: Recipe, model: nn.Module) -> nn.Module:
        """Merge LoRA adapters into the base weights and return the model; a baseline as it is deployed."""
        if isinstance(model, LabelModel) and keeps_weights(recipe):
            return TextBaseline(config_of(recipe, self.ready), model)
        return cast(Any, model).merge_and_unload() if recipe.trained_weights == "lora" else model

    def score(
        self,
        recipe: Recipe,
        model: nn.Module,
        part: str,
        *,
        batch_size: int,
        is_shared: bool,
        progress: Progress | None,
    ) -> ScoredSet:
        """Score a part as the recipe says."""
        if isinstance(model, LogisticBaseline):
            return model.score(self.ready, part)
        return super().score(recipe, model, part, batch_size=batch_size, is_shared=is_shared, progress=progress)

    @cached_property
    def _words(self) -> dict[str, dict[str, Tensor]]:
        return words_of(self.ready)

    def label_fields(self) -> dict[str, Any]:
        """Return the fields of the config that name the labels; none without labels."""
        names = dict(enumerate(self.ready.labels))
        return {"id2label": names, "label2id": {name: number for number, name in names.items()}} if names else {}


class LabelTask(CountedTask[PreparedTexts], TextModelTask):
    """A task with a label for each text or word: what is scored, and the shares that are counted."""

    name_of_shares = "label shares"

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> ScoredSet:
        """Rank the label of each text, or word."""
        learned = {"names": self.ready.labels, "is_ordinal": self.ready.task.is_ordinal}
        return score_labels(model, dataset, **learned, **settings)

    def own_segments(self, part: str, scored: ScoredSet, index: NDArray[np.int64]) -> dict[str, Any]:
        """Return the true label."""
        predictions = cast(LabelPredictions, scored.scores.predictions)
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
        return len(self.ready.labels), 0

    def targets(self, part: str, scored: ScoredSet) -> NDArray[np.int64]:
        """Return the true labels."""
        return cast(LabelPredictions, scored.scores.predictions).true
