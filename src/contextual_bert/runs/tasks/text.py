"""Base of text tasks: a model from a checkpoint, training settings, baselines, contexts in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from torch import Tensor, nn
from transformers import Trainer, TrainerCallback

from contextual_bert.arrow_types import is_list
from contextual_bert.baselines.label_model import LabelModel
from contextual_bert.baselines.names import (
    BERTLESS_BASELINES,
    CONTEXT_AS_TEXT,
    LOGISTIC,
    TEXT_BASELINES,
    WHOLE_TEXTS,
    WITHOUT_BERT,
)
from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, ShuffledContext, Split, TextTable
from contextual_bert.data.checked_columns import checked_column, text_column
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message, RunDirectoryError, joined
from contextual_bert.evaluation import EvaluationSettings, Scores
from contextual_bert.inference import placed
from contextual_bert.inference.elmo import elmo_config
from contextual_bert.inference.saved import check_weights
from contextual_bert.inference.saved_files import check_files, holds_baseline
from contextual_bert.inference.text_baseline import TextBaseline, load_text_baseline
from contextual_bert.memory import is_out_of_memory
from contextual_bert.models import (
    ContextualBertConfig,
    ContextualBertPreTrainedModel,
    ContextualBertProcessor,
)
from contextual_bert.models.checkpoint_files import check_direction, found_config
from contextual_bert.models.pretrained import checkpoint_config
from contextual_bert.models.warm_start import load_continued
from contextual_bert.nouns import counted
from contextual_bert.places import PathPlace
from contextual_bert.runs.label_names import label_names
from contextual_bert.runs.model_factory import attention_for, check_context, model_settings_in_words
from contextual_bert.runs.registry import check_kind, keeps_weights, reads_characters
from contextual_bert.runs.run_directory import CHECKPOINT_DIGEST, ELMO_DIGEST
from contextual_bert.runs.tasks.base import Progress, Task
from contextual_bert.runs.text_baselines import (
    LogisticBaseline,
    baseline_on_texts,
    check_baseline,
    check_room,
    config_of,
    contexts_as_text,
    processor_of,
    unfit,
)
from contextual_bert.runs.text_data import TextData
from contextual_bert.runs.text_starts import (
    check_known_words,
    checkpoint_digest,
    checkpoint_method,
    customers_of_texts,
    head_lines,
    processor_of_words,
    reader_of,
    seen_lines,
    word_lines,
)
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments, add_lora, freeze_bert
from contextual_bert.training.adaptation import train_new_weights
from contextual_bert.training.defaults import text_epochs
from contextual_bert.training.devices import chosen_device
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
# A linear decay and five epochs as fastText; the rate is for its steps by row and those of the output.
FASTTEXT_TRAINING: Mapping[str, Any] = {"learning_rate": 0.1, "num_train_epochs": 5, "warmup_steps": 0}
# Method or baseline -> in what it differs. MA-BERT's vectors of features move little at BERT's rate (docs/log.md).
OWN_TRAINING: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(BERTLESS_BASELINES, NEW_TRAINING),
    **dict.fromkeys(("fasttext", "fasttext_context"), FASTTEXT_TRAINING),
    "multi_attribute": {"context_learning_rate": 0.01},
    "bert_concat_text": {"learning_rate": 3e-3},
}


@dataclass(frozen=True, eq=False, kw_only=True)
class TextModelTask(TextData, Task):
    """A task on texts, for which a model is made from a BERT checkpoint.

    Attributes:
        model_class: the model with the head of the task.
        learned: what the texts have, where ``classifier_pooling`` means nothing.
        evaluated_as: how the rows are evaluated, and what they are called.
    """

    model_class: ClassVar[type[ContextualBertPreTrainedModel]]
    learned: ClassVar[str | None] = None
    evaluated_as: ClassVar[EvaluationSettings]
    eval_batch_size = TRAINING["per_device_eval_batch_size"]

    @classmethod
    def start_of(cls, recipe: Recipe) -> str | None:
        """Return the checkpoint, or the run, that is started from."""
        return recipe.text_task.checkpoint

    @classmethod
    def known_processor(cls, recipe: Recipe) -> ContextualBertProcessor | None:
        """Return the processor of the model with a context that is gone on from; None where it starts from a BERT."""
        return reader_of(recipe)

    @classmethod
    def check_examples(cls, recipe: Recipe, examples: TextTable) -> None:
        """Raise DataError where a column of the task, or that of the customers, lacks a cell or is of another type."""
        task, table, file = recipe.text_task, examples.table, recipe.data
        for name in task.columns:
            checked_column(table, name, file=file, complete=name in task.complete_columns)
        if recipe.customer is not None:
            checked_column(table, recipe.customer, file=file, complete=True)
        for name in (task.text, task.second):
            if name is not None and not is_list(table.schema.field(name).type):
                text_column(table.column(name), name)
        if task.label is not None:
            cls.check_labels(recipe, examples)

    @classmethod
    def check_labels(cls, recipe: Recipe, examples: TextTable) -> None:
        """Raise DataError where the column of labels is of another type."""
        task, table, file = recipe.text_task, examples.table, recipe.data
        kind = table.schema.field(str(task.label)).type
        if is_list(kind) and not is_list(table.schema.field(task.text).type):
            raise DataError(
                f"the column is of type {kind}",
                file=file,
                column=task.label,
                fix=Message(
                    "Tags need a text column of lists of words; several labels a text need {is_multi_label}.",
                    is_multi_label=True,
                ),
            )
        if task.kind == "tagging" and not examples.has_tags:
            raise DataError(
                f"the column is of type {kind}, and tags are lists, one tag a word",
                file=file,
                column=task.label,
                fix="Name a column of lists, or learn one label a text: Classification.",
            )

    @classmethod
    def learned_from(
        cls,
        recipe: Recipe,
        known: ContextualBertProcessor | None,
        schema: ContextSchema | None,
        *,
        examples: TextTable,
        split: Split,
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the tokenizer, and the labels of all parts.

        A label is no secret, but how often it occurs is. docs/protocol.md, "Splits".

        Raises:
            DataError: a column of another type; labels that cannot be learned.
        """
        task = recipe.text_task
        if known is None:
            check_context(recipe, schema)
        processor = known if known is not None else cls.first_processor(recipe, split, examples, schema)
        # Saved with the run, so that it cuts and reads as it was trained.
        processor.truncation = cast(Any, task.truncation)
        if task.elmo is not None:
            processor.max_characters = elmo_config(task.elmo).max_characters
        if task.kept_length is not None:
            processor.tokenizer.model_max_length = task.kept_length  # saved, too
        named = cls.named_labels(recipe, examples, split) if task.label is not None else {}
        return {"processor": processor, **named}, []

    @classmethod
    def named_labels(cls, recipe: Recipe, examples: TextTable, split: Split) -> dict[str, Any]:
        """Return the names of the labels of all parts, as fields of the task.

        Raises:
            DataError: labels that cannot be learned.
        """
        task = recipe.text_task
        known_rows = examples.select(split.is_in_part)  # of customers who were left out no label is learned
        values, name = known_rows.table.column(task.label), str(task.label)
        try:
            names = label_names(values, recipe.data, name, is_ordinal=task.is_ordinal, order=task.order)
        except DataError as error:
            raise placed(error, known_rows.rows, file=recipe.data) from error
        return {"labels": names}

    @classmethod
    def first_processor(
        cls, recipe: Recipe, split: Split, texts: TextTable, schema: ContextSchema | None
    ) -> ContextualBertProcessor:
        """Return a processor with the tokenizer of the checkpoint; without one, of the words of the training texts."""
        task = recipe.text_task
        if task.checkpoint is not None:
            theirs = found_config(task.checkpoint, {})
            check_direction(theirs, task.checkpoint, is_causal=cls.model_class.is_causal)
            return ContextualBertProcessor.from_checkpoint(task.checkpoint, schema)
        training = split.select(texts, "train").table
        return processor_of_words(
            [training.column(name) for name in task.text_columns],
            schema,
            min_customers=recipe.min_customers,
            customers=customers_of_texts(recipe, training, split),
        )

    @classmethod
    def load_model(cls, directory: Path, recipe: Recipe) -> tuple[ContextualBertProcessor, Any]:
        """Return the processor and the model of a finished run on texts, with the head of this task."""
        check_files(directory)
        try:
            processor = ContextualBertProcessor.from_pretrained(directory).with_context_as("values")  # of segments
            if holds_baseline(directory):
                model: Any = load_text_baseline(directory)[0]
            else:
                loaded: Any = cls.model_class.from_pretrained(directory, output_loading_info=True)
                model, found = loaded
                check_weights(directory, found)
        except RunDirectoryError:
            raise
        except Exception as error:  # see load_saved
            if is_out_of_memory(error):
                raise
            raise RunDirectoryError(
                f"cannot be loaded: {error} Train it again with --overwrite.", place=PathPlace(directory)
            ) from error
        return processor, model.to(chosen_device(recipe.device)).eval()

    @classmethod
    def known_fields(cls, model: Any, training: TextTable | None) -> dict[str, Any]:
        """Return the labels of the run."""
        return {}

    def check_model(self, model: Any, directory: Path) -> None:
        """Raise an error where the labels are of another kind than the run's, or the context in words does not fit."""
        label, kind = self.recipe.text_task.label, self.recipe.task.kind
        if label is not None and self.examples.has_tags != (kind in ("tagging", "multi_label")):
            found = "tags of words" if self.examples.has_tags else "labels of texts"
            raise DataError(
                f"these are {found}, and {directory} learned {self.recipe.task.noun}",
                file=self.recipe.data,
                column=label,
                fix="Give a label for each text where the run had one, and lists of words and tags where it had these.",
            )
        if model.config.has_context_as_text:
            self.check_words(num_positions=model.config.max_position_embeddings)

    @cached_property
    def method(self) -> str | None:
        """The method of the run that is gone on from, None where it is a BERT that is started from."""
        return checkpoint_method(self.recipe.text_task.checkpoint)

    @property
    def goes_on(self) -> bool:
        """Whether a run is gone on from, which brings its schema."""
        return self.method is not None

    @property
    def digests(self) -> dict[str, str]:
        """With that of the checkpoint where it is a folder, and of the language model that is read beside words."""
        found = super().digests
        if self.checkpoint_digest is not None:
            found[CHECKPOINT_DIGEST] = self.checkpoint_digest
        elmo = self.recipe.text_task.elmo
        if elmo is not None and (digest := checkpoint_digest(elmo)) is not None:
            found[ELMO_DIGEST] = digest
        return found

    @cached_property
    def checkpoint_digest(self) -> str | None:
        """The hash of the checkpoint; None of one that is on the Hub, or not read."""
        task = self.recipe.text_task
        is_read = not task.is_from_scratch and task.checkpoint is not None
        return checkpoint_digest(task.bert) if is_read else None

    @property
    def settings(self) -> EvaluationSettings:
        """Return the evaluation settings. A text that several people label is its own customer, and is called so."""
        own = self.evaluated_as
        cluster = self.recipe.customer or own.set_name
        return replace(own, cluster_name="distinct text" if cluster == self.recipe.text_task.text else cluster)

    @property
    def num_choices(self) -> int:
        """Return the number of ranked labels."""
        return len(self.labels)

    def unranked_lines(self, part: str, num_unknown: int) -> list[str]:
        """Return a sentence on what cannot be ranked."""
        rows = counted(num_unknown, self.settings.row_name)
        return [f"{rows} cannot be ranked: left out"] if num_unknown else []

    def own_lines(self) -> list[str]:
        """Return sentences on what was cut, and on where the weights start."""
        cut = [joined(f"{part}: ", line) for part in self.texts for line in self.encoding_lines(part)]
        return [*cut, *self.head_lines(), *self.vocabulary_lines()]

    def vocabulary_lines(self) -> list[str]:
        """Return sentences on tokens that the training texts have taught."""
        return word_lines(self)

    def head_lines(self, *, reads_pooler: bool = False) -> list[str]:
        """Return a sentence on each weight of the head that starts at random although it may be taken for trained."""
        task = self.recipe.text_task
        if task.is_from_scratch or task.checkpoint is None or self.recipe.conditioning in WITHOUT_BERT:
            return []
        return head_lines(task.checkpoint, head=self.head, labels=self.labels, reads_pooler=reads_pooler)

    def held_out_lines(self) -> list[str]:
        """Return a sentence where all rows are trained on, or where the run that is gone on from saw evaluated ones."""
        part = self.evaluated_part
        if part is None:
            return super().held_out_lines()
        return seen_lines(self.recipe.text_task.checkpoint, self.split, part)

    def usual_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of a large table: those of a pretrained BERT, or of what starts from nothing."""
        return {**TRAINING, **OWN_TRAINING.get(recipe.conditioning, {})}

    def default_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the usual settings, with more epochs where the table is small."""
        usual = self.usual_training(recipe)
        epochs = text_epochs(len(self.datasets["train"]), usual=usual, given=recipe.training)
        return {**usual, **epochs}

    def check(self, recipe: Recipe) -> None:
        """Raise ConfigurationError where a method or baseline cannot be had on these texts."""
        check_kind(recipe)
        check_context(recipe, self.processor.schema)
        method = self.method
        if method is not None and recipe.conditioning not in (method, *WITHOUT_BERT):
            raise ConfigurationError(
                f"differs from {method!r}, with which {self.recipe.text_task.bert} was trained",
                setting="conditioning",
                value=recipe.conditioning,
                fix="Give the same, or start from a BERT.",
            )
        if recipe.conditioning in TEXT_BASELINES:
            check_baseline(recipe, self)
        if recipe.conditioning == CONTEXT_AS_TEXT:
            self._words  # noqa: B018  (a feature that cannot be said in words is found)
        self.check_texts(recipe)

    def check_texts(self, recipe: Recipe) -> None:
        """Raise DataError where a part has nothing to read, CheckpointError where the tokenizer knows none of it."""
        for part in self.texts:
            self.check_readable(part)
        if recipe.conditioning not in WITHOUT_BERT:
            check_known_words(self)

    def unfit(self, recipe: Recipe) -> DataError | None:
        """Return why a logistic regression cannot be fitted; None where it can, and of any other row."""
        return unfit(self, recipe.conditioning) if recipe.conditioning in LOGISTIC else None

    def build_model(self, recipe: Recipe, *, is_quiet: bool = False) -> nn.Module:
        """Build the model of a recipe, from its checkpoint, or a baseline.

        Raises:
            UnknownNameError: neither a method nor a baseline has that name.
            ConfigurationError: a baseline that cannot do this; a method that needs a context where there is none; a
                model's settings that cannot work.
        """
        self.check(recipe)
        task, schema = self.recipe.text_task, self.processor.schema
        reads_words = recipe.conditioning == CONTEXT_AS_TEXT
        if recipe.conditioning in TEXT_BASELINES and not reads_words:
            return baseline_on_texts(recipe, self)
        if self.learned is not None and "classifier_pooling" in recipe.model:
            raise ConfigurationError(
                f"says what one label for a whole text is read from, and these texts have {self.learned}",
                setting="classifier_pooling",
                value=recipe.model["classifier_pooling"],
                fix="Leave it out.",
            )
        fields = {**self.label_fields(), **self.model_fields, **recipe.model}
        arguments: dict[str, Any] = {
            "conditioning": "none" if reads_words else recipe.conditioning,
            "has_context_as_text": reads_words,
            "attn_implementation": attention_for(recipe, self),
            **fields,
        }
        with model_settings_in_words(recipe):
            if self.method is not None:
                model: Any = load_continued(self.model_class, task.bert, **arguments)
            elif task.is_from_scratch:
                model = self.model_class(checkpoint_config(task.bert, schema=schema, **arguments))
            elif task.checkpoint is None:
                model = self.model_class(self.new_config(**arguments))
            else:
                # A head that the checkpoint has is for its own labels.
                model = self.model_class.from_checkpoint(
                    task.bert, schema=schema, ignore_mismatched_sizes=bool(self.labels), **arguments
                )
        if task.reads_pairs and model.config.type_vocab_size < 2:
            raise ConfigurationError(
                f"tells a text and its second part, or its question, not apart: it has "
                f"type_vocab_size={model.config.type_vocab_size}",
                fix="Name a checkpoint with two segments.",
                place=PathPlace(task.bert),
            )
        if not task.long_documents:
            self.check_lengths(num_positions=model.config.max_position_embeddings)
        if reads_words:
            self.check_words(num_positions=model.config.max_position_embeddings)
        self.start_head(model)
        if recipe.trained_weights == "new":
            freeze_bert(model)
        if recipe.trained_weights == "lora":
            model = add_lora(model, **recipe.lora)
            train_new_weights(model.get_base_model())
        return model

    def check_lengths(self, *, num_positions: int) -> None:
        """Raise ConfigurationError where a model with so many positions cannot read the texts, as long as they are."""
        task = self.recipe.text_task
        if (task.max_length or 0) > num_positions:
            in_segments = Message(", or read it in segments: {long_documents}", long_documents=True)
            raise ConfigurationError(
                "is not allowed",
                setting="max_length",
                value=task.max_length,
                fix=joined(
                    f"{task.checkpoint or 'The model'} reads at most {num_positions} tokens of a text. Give no more "
                    "than that; longer texts are cut and counted",
                    in_segments if task.kind in WHOLE_TEXTS and task.pair is None else "",
                    ".",
                ),
            )
        longest = self.longest_text
        if longest > num_positions:
            raise ConfigurationError(
                f"is too few: a text has {longest} tokens",
                setting="max_position_embeddings",
                value=num_positions,
                fix=Message(
                    "Give {max_length}, by which longer texts are cut and counted, or more positions.", max_length=NAME
                ),
            )

    @property
    def longest_text(self) -> int:
        """Return the number of tokens of the longest text."""
        return max(int(dataset.sizes.max()) for dataset in self.datasets.values())

    def new_config(self, **fields: Any) -> ContextualBertConfig:
        """Return the config of a model without a checkpoint, for the tasks that can do without.

        Args:
            **fields: that differ from what is usual there.
        """
        raise NotImplementedError

    def check_words(self, *, num_positions: int) -> None:
        """Raise ConfigurationError unless each text and its context in words are read whole."""
        check_room(self._words, self, num_positions=num_positions)

    def start_head(self, model: Any) -> None:
        """Give a new head the start that the training labels ask for; nothing where there are no classes of texts."""

    def count(self, model: nn.Module) -> int:
        """Return the number of parameters, frozen ones and what was counted or solved too."""
        return model.num_weights if isinstance(model, LogisticBaseline) else super().count(model)

    def dataset(self, recipe: Recipe, part: str) -> SequenceDataset | None:
        """Return the texts of a part, in words or with the contexts of others where the recipe says so."""
        own: SequenceDataset | None = self.datasets.get(part)
        if own is not None and recipe.conditioning == CONTEXT_AS_TEXT:
            own = own.with_context(self._words[part])
        if own is not None and not reads_characters(recipe):
            own = own.with_spelling(None)
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
            "processor": processor_of(recipe, self.processor),
            "patience": recipe.patience,
            "callbacks": [*callbacks],
        }
        return self.trainer_of(recipe, model, arguments, settings)

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> Trainer:
        """Return the trainer for what is learned; ``settings`` are data, processor, patience and callbacks."""
        objective = LabelObjective(model, settings["train_dataset"], self.labels)
        return ContextualBertTrainer(model, arguments, objective=objective, **settings)

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Solve a logistic regression, count shares; None for a model that is to be trained."""
        return model.fit(self) if isinstance(model, LogisticBaseline) else super().fit(recipe, model)

    def finished(self, recipe: Recipe, model: nn.Module) -> nn.Module:
        """Merge LoRA adapters into the base weights and return the model; a baseline as it is deployed."""
        if isinstance(model, LabelModel) and keeps_weights(recipe):
            return TextBaseline(config_of(recipe, self), model)
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
    ) -> Scores:
        """Score a part as the recipe says."""
        if isinstance(model, LogisticBaseline):
            return model.score(self, part)
        return super().score(recipe, model, part, batch_size=batch_size, is_shared=is_shared, progress=progress)

    @cached_property
    def _words(self) -> dict[str, dict[str, Tensor]]:
        return contexts_as_text(self)

    def label_fields(self) -> dict[str, Any]:
        """Return the fields of the config that name the labels; none without labels."""
        names = dict(enumerate(self.labels))
        return {"id2label": names, "label2id": {name: number for number, name in names.items()}} if names else {}
