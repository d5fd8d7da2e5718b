"""What a run on texts does: the model for its head, from a checkpoint, its trainer, its scores and their segments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback

from contextual_bert.baselines import LabelShares
from contextual_bert.baselines.shares import Observations
from contextual_bert.baselines.text import LabelModel
from contextual_bert.data import (
    EveryPosition,
    SequenceDataset,
    ShuffledContext,
    TextMaskingCollator,
)
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference import EncodedQuestions, ScoredSet, score, score_answers, score_labels, set_index
from contextual_bert.inference.text_baseline import TextBaseline
from contextual_bert.models import (
    IGNORED_LABEL,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertPreTrainedModel,
)
from contextual_bert.models.pretrained import bert_config
from contextual_bert.models.warm_start import load_continued
from contextual_bert.runs.logistic_baseline import LogisticBaseline
from contextual_bert.runs.model_factory import attention_for, check_context, model_settings_in_words
from contextual_bert.runs.registry import (
    BERTLESS_BASELINES,
    CONTEXT_AS_TEXT,
    TEXT_BASELINES,
    WITHOUT_BERT,
    check_kind,
    keeps_weights,
)
from contextual_bert.runs.reporting import TRUE_ANSWER, segments_of
from contextual_bert.runs.text_baselines import (
    baseline_on_texts,
    check_baseline,
    check_room,
    config_of,
    processor_of,
    words_of,
)
from contextual_bert.runs.text_preparation import TextPreparation
from contextual_bert.training import (
    ContextualBertTrainer,
    ContextualTrainingArguments,
    TextTrainer,
    add_lora,
    freeze_bert,
)
from contextual_bert.training.adaptation import train_new_weights
from contextual_bert.training.defaults import text_epochs
from contextual_bert.training.recipe import Recipe

MODELS: Mapping[str, type[ContextualBertPreTrainedModel]] = {
    "classification": ContextualBertForSequenceClassification,
    "tags": ContextualBertForTokenClassification,
    "answers": ContextualBertForQuestionAnswering,
    "masked_lm": ContextualBertForMaskedLM,
}
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
# Of tags: their cross-entropy is best long before the entities are found (docs/log.md).
BEST_TAGS: Mapping[str, Any] = {"metric_for_best_model": "recall_at_1_percent"}


class TextWork:
    """The work on these texts.

    Args:
        ready: the data.
    """

    def __init__(self, ready: TextPreparation) -> None:
        self.ready = ready

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """See ``Work``: what fits a pretrained BERT, or what starts from nothing."""
        usual = {**TRAINING, **OWN_TRAINING.get(recipe.conditioning, {})}
        epochs = text_epochs(len(self.ready.datasets["train"]), usual=usual, given=recipe.training)
        return {**usual, **epochs, **(BEST_TAGS if self.ready.head == "tags" else {})}

    def check(self, recipe: Recipe) -> None:
        """See ``Work``."""
        check_kind(recipe)
        check_context(recipe, self.ready.processor.schema)
        method = self.ready.method
        if method is not None and recipe.conditioning not in (method, *WITHOUT_BERT):
            raise ConfigurationError(
                f"{self.ready.task.checkpoint} was trained with conditioning={method!r}, and this asks for "
                f"{recipe.conditioning!r}. Give the same, or start from a BERT."
            )
        if recipe.conditioning in TEXT_BASELINES:
            check_baseline(recipe, self.ready)
        if recipe.conditioning == CONTEXT_AS_TEXT:
            self._words  # noqa: B018  (a feature that cannot be said in words is found)

    def build_model(self, recipe: Recipe) -> nn.Module:
        """The model of a recipe, from its checkpoint, or a baseline.

        Raises:
            UnknownNameError: neither a method nor a baseline has that name.
            ConfigurationError: a baseline that cannot do this; a method that needs a context where there is none; a
                model's settings that cannot work.
        """
        self.check(recipe)
        task, schema, head = self.ready.task, self.ready.processor.schema, self.ready.head
        reads_words = recipe.conditioning == CONTEXT_AS_TEXT
        if recipe.conditioning in TEXT_BASELINES and not reads_words:
            return baseline_on_texts(recipe, self.ready)
        if head != "classification" and "classifier_pooling" in recipe.model:
            has = {"tags": "a label for each word", "answers": "answers", "masked_lm": "none"}[head]
            raise ConfigurationError(
                f"classifier_pooling says what one label for a whole text is read from, and these texts have {has}. "
                "Leave it out."
            )
        fields = {**self._label_fields(), **self.ready.model_fields, **recipe.model}
        arguments: dict[str, Any] = {
            "conditioning": "none" if reads_words else recipe.conditioning,
            "has_context_as_text": reads_words,
            "attn_implementation": attention_for(recipe, self.ready),
            **fields,
        }
        with model_settings_in_words(recipe):
            if self.ready.method is not None:
                model: Any = load_continued(MODELS[head], task.checkpoint, **arguments)
            elif task.is_from_scratch:
                model = MODELS[head](bert_config(task.checkpoint, schema=schema, **arguments))
            else:
                # A head that the checkpoint has is for its own labels.
                model = MODELS[head].from_bert(
                    task.checkpoint, schema=schema, ignore_mismatched_sizes=bool(self.ready.labels), **arguments
                )
        if task.second is not None and model.config.type_vocab_size < 2:
            raise ConfigurationError(
                f"{task.checkpoint} tells a text and its second part, or its question, not apart: it has "
                f"type_vocab_size={model.config.type_vocab_size}. Name a checkpoint with two segments."
            )
        num_positions = model.config.max_position_embeddings
        if (task.max_length or 0) > num_positions:
            raise ConfigurationError(
                f"max_length={task.max_length}: {task.checkpoint} reads at most {num_positions} tokens of a text. "
                "Give no more than that; longer texts are cut and counted."
            )
        longest = max(int(dataset.sizes.max()) for dataset in self.ready.datasets.values())
        if longest > num_positions:
            raise ConfigurationError(
                f"max_position_embeddings={num_positions}, and a text has {longest} tokens. Give max_length "
                "(--max-length), by which longer texts are cut and counted, or more positions."
            )
        if reads_words:
            self.check_words(num_positions=num_positions)
        if head == "classification" and model.has_new_head:
            model.start_at_shares(self.ready.label_counts)
        if recipe.trained_weights == "new":
            freeze_bert(model)
        if recipe.trained_weights == "lora":
            model = add_lora(model, **recipe.lora)
            train_new_weights(model.get_base_model())
        return model

    def check_words(self, *, num_positions: int) -> None:
        """Raise ConfigurationError unless each text and its context in words are read whole."""
        check_room(self._words, self.ready, num_positions=num_positions)

    def count(self, model: nn.Module) -> int:
        """All of them, frozen ones and what was counted too."""
        if isinstance(model, LogisticBaseline):
            return model.num_weights
        return sum(weight.numel() for weight in (*model.parameters(), *model.buffers()))

    def dataset(self, recipe: Recipe, part: str) -> SequenceDataset | None:
        """The texts of a part, with the contexts of others where the recipe says so."""
        own: SequenceDataset | None = self.ready.datasets.get(part)
        if own is not None and recipe.conditioning == CONTEXT_AS_TEXT:
            own = own.with_context(self._words[part])
        if own is None or not recipe.is_context_shuffled:
            return own
        return ShuffledContext(own, seed=recipe.seed)

    def make_trainer(
        self,
        recipe: Recipe,
        model: nn.Module,
        arguments: ContextualTrainingArguments,
        *,
        callbacks: Sequence[TrainerCallback],
    ) -> Trainer:
        """See ``Work``. With LoRA the model inside is trained, whose checkpoints are whole, as those of other runs."""
        if recipe.trained_weights == "lora":
            model = cast(Any, model).get_base_model()
        settings: dict[str, Any] = {
            "train_dataset": self.dataset(recipe, "train"),
            "eval_dataset": self.dataset(recipe, "validation"),
            "processor": processor_of(recipe, self.ready.processor),
            "patience": recipe.patience,
            "callbacks": [*callbacks],
        }
        if self.ready.head != "masked_lm":
            return TextTrainer(model, arguments, names=self.ready.labels, **settings)
        validation = settings["eval_dataset"]
        if validation is not None:
            special_ids = self.ready.processor.tokenizer.all_special_ids
            settings["eval_dataset"] = EveryPosition(
                validation, leave_out=special_ids, most=self.ready.task.most_scored
            )
        return ContextualBertTrainer(model, arguments, collator=self._collator(recipe), **settings)

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """See ``Work``: label shares are counted, logistic regressions solved."""
        if isinstance(model, LogisticBaseline):
            return model.fit(self.ready)
        if not isinstance(model, LabelShares):
            return None
        validation: Any = self.dataset(recipe, "validation")
        training = self._observations(self.dataset(recipe, "train"))
        return model.fit(training, self._observations(validation) if validation is not None else None)

    def _observations(self, dataset: Any) -> Observations:
        """Return the labels of texts as the classes that were seen with their context."""
        is_labelled = dataset.labels != IGNORED_LABEL
        rows = torch.arange(len(dataset))
        return Observations(dataset.labels[is_labelled], rows[is_labelled], dataset.context)

    def finished(self, recipe: Recipe, model: nn.Module) -> nn.Module:
        """The model as it is saved: of LoRA an ordinary model, with the changes in its weights."""
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
        progress: Callable[[int, int], None] | None,
    ) -> ScoredSet:
        """See ``Work``."""
        if isinstance(model, LogisticBaseline):
            return model.score(self.ready, part)
        dataset: Any = self.dataset(recipe, part)
        return self.score_texts(model, dataset, part, batch_size=batch_size, is_shared=is_shared, progress=progress)

    def score_texts(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> ScoredSet:
        """The scores of a part's texts, as they are or with other contexts; ``settings`` are those of ``score_labels``,
        of ``score_answers`` for questions, or of ``score`` for hidden tokens.
        """
        if self.ready.head == "masked_lm":
            sampled = {"tokenizer": self.ready.processor.tokenizer, "most": self.ready.task.most_scored}
            return score(cast(Any, model), dataset, **sampled, **settings)
        encoded = self.ready.texts[part]
        if isinstance(encoded, EncodedQuestions):
            return score_answers(model, replace(encoded, dataset=dataset), **settings)
        learned = {"names": self.ready.labels, "is_ordinal": self.ready.task.is_ordinal}
        return score_labels(model, dataset, **learned, **settings)

    def segments(self, part: str, scored: ScoredSet) -> dict[str, Any]:
        """The context's features; also the true label, or whether a question has an answer where some have none."""
        dataset: Any = self.ready.datasets[part]
        index = set_index(dataset, scored.scores.example_id)
        found = segments_of(dataset, self.ready.processor, index)
        if scored.labelled is None:
            return found
        names = np.array(scored.labelled.names)[scored.labelled.true]
        if self.ready.head != "answers":
            found["true label"] = names.tolist()
        elif len(np.unique(names)) > 1:  # one row a question, which has two scores for each of its windows
            found[TRUE_ANSWER] = names[np.searchsorted(scored.labelled.example_id, scored.scores.example_id)]
        return found

    @cached_property
    def _words(self) -> dict[str, dict[str, Tensor]]:
        return words_of(self.ready)

    def _label_fields(self) -> dict[str, Any]:
        """The fields of the config that name the labels."""
        names = dict(enumerate(self.ready.labels))
        if not names:
            return {}
        fields = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
        if self.ready.head == "tags":
            return fields
        is_ordinal = self.ready.task.is_ordinal
        kind = None if is_ordinal else "single_label_classification"
        return {**fields, "is_ordinal": is_ordinal, "problem_type": kind}

    def _collator(self, recipe: Recipe) -> TextMaskingCollator:
        tokenizer: Any = self.ready.processor.tokenizer
        tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        return TextMaskingCollator(
            mask_id=tokenizer.mask_token_id,
            pad_id=tokenizer.pad_token_id,
            special_ids=tokenizer.all_special_ids,
            is_word_start=torch.tensor([not token.startswith("##") for token in tokens]),
            unit=cast(Any, self.ready.task.masking),
            rate=self.ready.task.mask_rate,
            max_rate=self.ready.task.max_mask_rate,
            seed=recipe.seed,
        )
