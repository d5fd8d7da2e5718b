"""From a recipe to encoded texts: read, split, infer the schema, cut and encode. ``prepared_sets`` does it for sets.

The schema, its bins and rare values are taken from the training part alone; the names of the labels from the whole
table, for a label is no secret but how often it occurs is. docs/protocol.md, "Splits".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from contextual_bert.arrow_types import is_list
from contextual_bert.context import ContextSchema, outside_lines
from contextual_bert.data import Audit, SequenceDataset, reading_lines
from contextual_bert.data.columns import checked_column, text_column
from contextual_bert.data.splits import Split
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message, did_you_mean
from contextual_bert.evaluation import EvaluationSettings, Scores, Unscored
from contextual_bert.frames import Frame
from contextual_bert.inference import EncodedQuestions, EncodedTexts, encode_questions, encode_texts, placed
from contextual_bert.models import IGNORED_LABEL, ContextualBertProcessor
from contextual_bert.models.checkpoint_files import pooling_of
from contextual_bert.models.configuration_contextual_bert import POOLINGS
from contextual_bert.runs.audits import audit_of_texts
from contextual_bert.runs.label_names import label_names, label_values, label_warnings, some_labels
from contextual_bert.runs.model_factory import check_context
from contextual_bert.runs.next_table import check_columns_of_run, context_lines
from contextual_bert.runs.prepared_data import (
    PreparedData,
    alike_values,
    beside_context,
    column_as_text,
    customers_in,
    leak_lines,
    make_split,
    schema_of,
    without_leaks,
)
from contextual_bert.runs.registry import WITHOUT_BERT
from contextual_bert.runs.run_directories import CHECKPOINT_DIGEST
from contextual_bert.runs.run_files import SCORES_FILE
from contextual_bert.runs.run_table import RunTable, read_data
from contextual_bert.runs.shifts import counts_of, drift_line
from contextual_bert.runs.text_starts import head_lines, method_of, reader_of, seen_lines
from contextual_bert.runs.text_vocabulary import processor_of_words
from contextual_bert.runs.unscored import unscored_words
from contextual_bert.training.recipe import Recipe
from contextual_bert.training.tasks import AnyTextTask, Classification, MaskedText, Tagging


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedTexts(PreparedData):
    """The texts of one or more runs.

    Args:
        recipe: where they came from, the schema filled in.
        split: the part of each row of the table.
        processor: the checkpoint's tokenizer, or one of the words of the training texts, and the schema.
        table: as it was read.
        labels: names of the labels in the order of their ids; none where hidden tokens are learned.
    """

    table: pa.Table
    labels: tuple[str, ...]

    @property
    def task(self) -> AnyTextTask:
        """Return the text task."""
        return self.recipe.text_task

    @property
    def head(self) -> str:
        """Return the kind of the task, as the column of labels shows it: lists are tags."""
        task = self.task
        if not isinstance(task, Classification | Tagging):
            return task.kind
        return "tagging" if pa.types.is_nested(self.table.schema.field(task.label).type) else "classification"

    @cached_property
    def method(self) -> str | None:
        """The method of the run that is gone on from, None where it is a BERT that is started from."""
        return method_of(self.task.checkpoint)

    @cached_property
    def pooling(self) -> str:
        """Return the pooling of a text: the recipe's, else that of the checkpoint's training.

        Raises:
            ConfigurationError: the recipe says something else.
        """
        if "classifier_pooling" in self.recipe.model:
            chosen = self.recipe.model["classifier_pooling"]
            if chosen not in POOLINGS:
                raise ConfigurationError(
                    "is unknown", setting="classifier_pooling", value=chosen, allowed=did_you_mean(chosen, POOLINGS)
                )
            return chosen
        is_new = self.task.is_from_scratch or self.task.checkpoint is None
        return "cls" if is_new else pooling_of(self.task.bert)

    @property
    def digests(self) -> dict[str, str]:
        """With that of the checkpoint where it is a folder."""
        found = super().digests
        if self.checkpoint_digest is not None:
            found[CHECKPOINT_DIGEST] = self.checkpoint_digest
        return found

    @cached_property
    def checkpoint_digest(self) -> str | None:
        """The hash of the weights, or of a run's scores, which stay where weights are not kept; None of those that are
        on the Hub, or not read."""
        if self.task.is_from_scratch or self.task.checkpoint is None:
            return None
        folder = Path(self.task.checkpoint)
        kinds = (sorted(folder.glob(name)) for name in (SCORES_FILE, "*.safetensors", "*.bin"))
        files = next(filter(None, kinds), [])
        total = sha256()
        for path in files:
            with path.open("rb") as file:
                total.update(file_digest(file, "sha256").digest())
        return total.hexdigest() if files else None

    @property
    def model_fields(self) -> Mapping[str, Any]:
        return {"classifier_pooling": self.pooling} if self.head == "classification" else {}

    @cached_property
    def texts(self) -> dict[str, EncodedTexts | EncodedQuestions]:
        """Part -> its texts, or questions, encoded, with what became of them; parts without a row are left out."""
        rows = {part: self.split.rows(part) for part in ("train", "validation", "test")}
        return {part: self._encode(found) for part, found in rows.items() if len(found)}

    def encoded(self, part: str) -> SequenceDataset | None:
        """Return the encoded texts of a part, None where it has none."""
        if part not in self.texts:
            return None
        return self.texts[part].dataset

    def rows_of(self, part: str) -> pa.Table:
        return self.table.take(pa.array(self.datasets[part].example_ids.numpy()))

    def with_silenced(self, names: Iterable[str], *, selection: Sequence[str]) -> Self:
        own = self.processor
        assert own.schema is not None
        schema = own.schema.with_silenced(names)
        chosen = replace(
            self,
            recipe=self.recipe.on_data(schema=schema.to_dict()),
            processor=own.with_schema(schema),
            selection=tuple(selection),
        )
        # The tokens are those of these data already.
        texts = cast(dict[str, EncodedTexts], self.texts)  # of questions nothing is chosen
        vars(chosen)["texts"] = {part: each.with_schema(schema) for part, each in texts.items()}
        return chosen

    @property
    def has_field_gains(self) -> bool:
        """An answer is a place in its text: no share of it is known beside the text."""
        return self.head != "question_answering"

    @property
    def goes_on(self) -> bool:
        return self.method is not None

    @property
    def vocab_size(self) -> int:
        return len(self.processor.tokenizer)

    def names(self, part: str) -> pa.Array | None:
        """Return the labels of the texts of a part; None of tags, answers and hidden tokens."""
        return self.names_of(self.split.rows(part))

    def names_of(self, rows: NDArray[np.int64]) -> pa.Array | None:
        """Return the labels of these rows of the table, as ``names`` does."""
        if self.head != "classification":
            return None
        return label_values(self.table.column(str(self.task.label)).take(pa.array(rows))).combine_chunks()

    def unranked_lines(self, part: str, num_unknown: int) -> list[str]:
        """Return a sentence on a sample of hidden tokens, and one on what cannot be ranked."""
        left = f"{num_unknown:,} {self.settings.row_name}s cannot be ranked and are left out"
        return [*self.scored_lines(part), *([left] if num_unknown else [])]

    def unscored(self, part: str, scores: Scores) -> Unscored | None:
        """The words of a part that stand behind the cut; None of answers, hidden tokens and whole texts."""
        if self.head != "tagging":
            return None
        rows = self.datasets[part].example_ids.numpy()
        words = self.table.column(self.task.text).take(pa.array(rows))
        return unscored_words(words, rows, scores, part=self.part_name or part, customers=self.customers_of(rows))

    def customers(self, part: str) -> NDArray[np.str_] | None:
        """The customer of each text, or window of a question, of a part, None where the table names none.

        Raises:
            DataError: one is missing.
        """
        has_windows = self.head == "question_answering"
        return self.customers_of(self.datasets[part].example_ids.numpy() if has_windows else self.split.rows(part))

    def customers_of(self, rows: NDArray[np.int64]) -> NDArray[np.str_] | None:
        """The customer of each of these rows of the table, None where it names none.

        Raises:
            DataError: one is missing.
        """
        column = self.recipe.customer
        if column is None:
            return None
        texts = self.table.select([column]).take(pa.array(rows))
        try:
            checked_column(texts, column, complete=True)
        except DataError as error:
            raise placed(error, rows, file=self.recipe.data) from error
        return column_as_text(texts, column)

    def lines(self) -> list[str]:
        """Return sentences on what was read, cut, split and found."""
        found = [
            f"{part}: {line}"
            for part, texts in self.texts.items()
            for line in replace(texts.report, outside={}).lines(has_taught=part == "train")
        ]
        if self.labels:
            what = "grades, the lowest first" if self.task.is_ordinal else "labels"
            found.append(f"{len(self.labels)} {what}: {some_labels(self.labels)}")
            found += label_warnings(self.table, self.labels, str(self.task.label), self.split)
        reads_vector = self.head == "classification" and self.recipe.conditioning not in WITHOUT_BERT
        if reads_vector and self.pooling == "mean":
            found.append("labels are read from the mean over their texts (classifier_pooling='mean')")
        found += [*self.head_lines(), *self.vocabulary_lines()]
        found += [*self.scored_lines("validation"), *self.scored_lines("test")]
        part = self.evaluated_part
        seen = seen_lines(self.task.checkpoint, self.split, part) if part is not None else self.held_out_lines()
        read = [*reading_lines(self.table), *(self.origin.lines() if self.origin is not None else ())]
        warned = [*self.share_lines(), *self.shift_lines, *self.unlearned_lines(), *self.holding_lines()]
        chosen = [*leak_lines(self.leaking), *self.selection]
        return [*read, *self.split.lines(), *found, *self.audit.lines(), *chosen, *seen, *warned]

    def drift_lines(self, part: str) -> list[str]:
        """Return a sentence on the labels whose share differs most between training and a part; none without labels."""
        if not self.labels:
            return []
        counts = (counts_of(self.texts[each].dataset.labels, len(self.labels)) for each in ("train", part))
        return drift_line(self.labels.__getitem__, *counts, part=part, what="labels")

    def remarks(self) -> list[str]:
        """Return what the person who trains should see, and nobody else: it names values of single rows."""
        outside = [
            f"{part}: {line}" for part, texts in self.texts.items() for line in outside_lines(texts.report.outside)
        ]
        return [*super().remarks(), *outside]

    def head_lines(self) -> list[str]:
        """Return a sentence on each weight of the head that starts at random although it may be taken for trained."""
        task = self.task
        if task.is_from_scratch or task.checkpoint is None or self.recipe.conditioning in WITHOUT_BERT:
            return []
        reads_pooler = self.head == "classification" and self.pooling == "cls"
        return head_lines(task.checkpoint, head=self.head, labels=self.labels, reads_pooler=reads_pooler)

    def vocabulary_lines(self) -> list[str]:
        """Return sentences on the words that are the tokens; nothing where a checkpoint brings its own."""
        if self.task.checkpoint is not None:
            return []
        tokenizer: Any = self.processor.tokenizer
        num_words = len(tokenizer) - len(tokenizer.all_special_ids)
        fewest = self.recipe.min_customers
        has_customers = customers_in(self.recipe, self.table, self.split) is not None
        whose = f"{fewest:,} customers or more wrote" if has_customers else f"{fewest:,} texts or more have"
        lines = [f"no checkpoint: the tokens are the {num_words:,} words that {whose}"]
        for part, texts in self.texts.items():
            ids = texts.dataset.input_ids
            num_tokens = len(ids) - 2 * len(texts.dataset)
            share = int((ids == tokenizer.unk_token_id).sum()) / max(num_tokens, 1)
            lines.append(f"{part}: {share:.1%} of the words are others, and read as [UNK]")
        if not num_words:
            lines.append(
                Message(
                    "warning: no word is left, so ngrams, cnn and bilstm tell no two texts apart. Give a smaller "
                    "{min_customers}.",
                    min_customers=NAME,
                )
            )
        return lines

    def num_scored(self, part: str) -> tuple[int, int]:
        """Return how many hidden tokens of a part are scored, and how many there are."""
        ids: Any = self.datasets[part].input_ids
        special: Any = self.processor.tokenizer
        task = self.task
        num_tokens = int((~torch.isin(ids, torch.tensor(special.all_special_ids))).sum())
        most = task.most_scored if isinstance(task, MaskedText) else None
        return (num_tokens if most is None else min(most, num_tokens)), num_tokens

    def scored_lines(self, part: str) -> list[str]:
        """Return a sentence where a sample of the hidden tokens of a part is scored, and nothing where all are."""
        if not isinstance(self.task, MaskedText) or part not in self.texts:
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

    @property
    def label_counts(self) -> Tensor:
        """Return how often each label occurs in the training part, (labels,), in the order of the ids."""
        labels: Any = self.texts["train"].dataset.labels
        return torch.bincount(labels[labels != IGNORED_LABEL], minlength=len(self.labels))

    @property
    def num_choices(self) -> int:
        """Return the number of ranked labels or tokens; of answers the places of the longest window."""
        if self.head == "question_answering":
            return max(int(windows.sizes.max()) for windows in self.datasets.values())
        tokenizer: Any = self.processor.tokenizer
        return len(self.labels) or len(tokenizer) - len(tokenizer.all_special_ids)

    @property
    def settings(self) -> EvaluationSettings:
        """Recall@1 alone where few labels are ranked: that is the accuracy, but for ties."""
        ks = (1, 5, 20) if isinstance(self.task, MaskedText) else (1,)
        row, choice = {
            "classification": ("label", "label"),
            "tagging": ("word", "label"),
            "question_answering": ("answer end", "place"),
            "masked_text": ("hidden token", "token"),
        }[self.head]
        # A text that several people label is its own customer: what is drawn is called so, and no text twice.
        name = "question" if self.head == "question_answering" else "text"
        cluster = self.recipe.customer or name
        cluster = "distinct text" if cluster == self.task.text else cluster
        return EvaluationSettings(ks=ks, row_name=row, set_name=name, choice_name=choice, cluster_name=cluster)

    def _encode(self, rows: NDArray[np.int64]) -> EncodedTexts | EncodedQuestions:
        """The texts, or questions, of these rows, which are their example ids."""
        task, table = self.task, self.table.take(pa.array(rows))
        encoded: EncodedTexts | EncodedQuestions
        try:
            if task.question is not None:
                encoded = encode_questions(
                    table,
                    self.processor,
                    question=task.question,
                    text=task.text,
                    answer=task.answer,
                    answer_start=task.answer_start,
                    max_length=task.max_length,
                )
                encoded.dataset.example_ids = torch.from_numpy(rows)[encoded.dataset.example_ids]
                return replace(encoded, report=encoded.report.at(rows))
            encoded = encode_texts(
                table,
                self.processor,
                text=task.text,
                pair=task.pair,
                label=task.label,
                labels=self.labels if task.label is not None else None,
                max_length=task.max_length,
                truncation=cast(Any, task.truncation),
            )
        except DataError as error:
            raise placed(error, rows, file=self.recipe.data) from error
        encoded.dataset.example_ids = torch.from_numpy(rows)
        return replace(encoded, report=encoded.report.at(rows))

    @cached_property
    def audit(self) -> Audit:
        """Audit the texts: copies or customers in two parts, and columns of the context that tell the label."""
        if self.leaks is not None:
            return self.leaks
        schema = self.processor.schema
        return audit_of_texts(self.recipe, self.split, self.table, schema.columns if schema is not None else ())


def prepare_texts(recipe: Recipe, *, source: Frame | None = None) -> PreparedTexts:
    """Read and encode the texts of a recipe.

    Args:
        recipe: what to read.
        source: the table, where it is in memory: pyarrow, pandas, polars or `datasets`.

    Raises:
        DataError, UnknownNameError, SchemaError, ConfigurationError, CheckpointError: a fault of the table, of the
            recipe or of the checkpoint, by name and place.
    """
    task = recipe.text_task
    processor = reader_of(recipe)
    brought = processor.schema.code_columns if processor is not None and processor.schema is not None else ()
    rows = read_data(recipe, source, codes=brought)
    with rows.placed():
        return _prepared_texts(recipe, task, rows, processor)


def _first_processor(
    recipe: Recipe, task: AnyTextTask, training: pa.Table, split: Split, schema: ContextSchema | None
) -> ContextualBertProcessor:
    """Return a processor with the tokenizer of the checkpoint; without one, of the words of the training texts."""
    if task.checkpoint is not None:
        return ContextualBertProcessor.from_bert(task.checkpoint, schema)
    customers = customers_in(recipe, training, split)
    return processor_of_words(
        [training.column(name) for name in task.text_columns],
        schema,
        min_customers=recipe.min_customers,
        customers=training.column(customers) if isinstance(customers, str) else customers,
    )


def _prepared_texts(
    recipe: Recipe, task: AnyTextTask, origin: RunTable, processor: ContextualBertProcessor | None
) -> PreparedTexts:
    """Return the prepared data of a table of texts; ``processor`` is that of a run to go on from."""
    table = origin.table
    for name in task.columns:
        checked_column(table, name, file=recipe.data, complete=name not in (task.answer, task.answer_start))
    if recipe.customer is not None:
        checked_column(table, recipe.customer, file=recipe.data, complete=True)
    for name in (task.text, task.second):
        if name is not None and not is_list(table.schema.field(name).type):
            text_column(table.column(name), name)
    kinds = {name: table.schema.field(name).type for name in (task.text, task.label) if name is not None}
    if task.label is not None and is_list(kinds[task.label]) and not is_list(kinds[task.text]):
        raise DataError(
            f"the column is of type {kinds[task.label]}",
            file=recipe.data,
            column=task.label,
            fix="Tags need a text column of lists of words; several labels a text are learned in Python.",
        )
    split = make_split(recipe, table, sizes=origin.sizes)
    training = split.rows("train")
    if not len(training):
        raise DataError("no row is in the training part", file=recipe.data, fix="Make validation and test smaller.")
    news: list[str] = []
    leaks, leaking = None, tuple[str, ...]()
    if processor is not None:
        places = {"run": task.bert, "file": recipe.data}
        check_columns_of_run(processor.schema, table, **places)
        beside = beside_context(recipe, run=task.bert)
        learned = table.take(pa.array(training))
        news = context_lines(
            processor.schema,
            learned,
            beside=beside,
            customers=customers_in(recipe, learned, split),
            min_customers=recipe.min_customers,
            **places,
        )
    else:
        found = schema_of(
            recipe, table.take(pa.array(training)), training, split, everywhere=split.rows_in_a_part(table)
        )
        schema = found.schema if found is not None else None
        news += [*found.remarks(), *found.warnings()] if found is not None else []
        if schema is not None and recipe.schema is None and recipe.leaks == "drop":
            leaks = audit_of_texts(recipe, split, table, schema.columns)
            schema, leaking = without_leaks(schema, leaks)
        check_context(recipe, schema)
        processor = _first_processor(recipe, task, table.take(pa.array(training)), split, schema)
    schema = processor.schema
    news += alike_values(schema, table.take(pa.array(training)))
    processor.truncation = cast(Any, task.truncation)  # saved with the run, so that it cuts as it was trained
    if task.max_length is not None:
        processor.tokenizer.model_max_length = task.max_length  # saved, too
    has_tags = task.label is not None and pa.types.is_nested(kinds[task.label])
    if isinstance(task, Tagging) and not has_tags:
        raise DataError(
            f"the column is of type {kinds[task.label]}, and tags are lists, one tag a word",
            file=recipe.data,
            column=task.label,
            fix="Name a column of lists, or learn one label a text: Classification.",
        )
    labels: tuple[str, ...] = ()
    if task.label is not None:
        values = split.rows_in_a_part(table.select([task.label])).column(task.label)
        try:
            labels = label_names(values, recipe.data, task.label, is_ordinal=task.is_ordinal, order=task.order)
        except DataError as error:
            raise placed(error, np.flatnonzero(split.is_in_part), file=recipe.data) from error
    resolved = recipe.on_data(
        schema=schema.to_dict() if schema is not None else None,
        task=task.as_kind("tagging" if has_tags else task.kind),
    )
    ready = PreparedTexts(
        recipe=resolved,
        split=split,
        processor=processor,
        table=table,
        labels=labels,
        origin=origin.without_rows(),
        news=tuple(news),
        leaks=leaks,
        leaking=leaking,
    )
    ready.texts  # noqa: B018  (a faulty row is found before a model is built)
    return ready
