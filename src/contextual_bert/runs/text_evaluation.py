"""Evaluation of a finished run on texts: labels, or every token hidden once, which gives the pseudo-perplexity.

On the run's own table and split the numbers are those of its metrics.json. It trains nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import nn

from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, Split, reading_lines, table_digest
from contextual_bert.data.columns import checked_column
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import ConfigurationError, DataError, RunDirectoryError
from contextual_bert.evaluation import EvaluationSettings, Provenance, Scores
from contextual_bert.frames import Frame
from contextual_bert.inference import ScoredSet, set_index
from contextual_bert.inference.saved import check_weights
from contextual_bert.inference.saved_files import check_files
from contextual_bert.inference.text_baseline import holds_baseline, load_text_baseline
from contextual_bert.memory import is_out_of_memory
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.runs.evaluated import (
    BATCH_SIZE,
    EVALUATED,
    WHOLE,
    Evaluation,
    Progress,
    evaluated_part,
    evaluated_recipe,
    provenance_of,
    shuffled_lines,
    split_for,
)
from contextual_bert.runs.label_names import label_values
from contextual_bert.runs.reporting import report_on
from contextual_bert.runs.run_table import read_data
from contextual_bert.runs.shifts import LEARNED, field_lines, name_drift, part_rows, rows_of
from contextual_bert.runs.tasks import task_of
from contextual_bert.runs.tasks.text import TRAINING, TextModelTask
from contextual_bert.runs.text_preparation import TextPreparation
from contextual_bert.training import TextTask, chosen_device, chosen_dtype
from contextual_bert.training.recipe import RECIPE_FILE, Recipe

TEST = "test"


@dataclass(frozen=True, eq=False)
class EvaluatedTexts:
    """A finished run and the texts that it is evaluated on.

    Args:
        directory: the run directory.
        ready: the texts with the run's processor and labels; no other part than the one that is evaluated.
        model: that of the run.
        part: what is evaluated.
        batch_size: texts, or texts with a hidden token, a forward pass.
        dtype: what the model runs in.
        reading: which rows are evaluated, for people.
        known_customers: those that the run learned from, where they are in this table.
        training: the rows that the run learned from, where they are in this table.
        part_name: the name of what is evaluated.

    Relation to its siblings:
        ``EvaluatedSets`` is the same for sets; both are ``EvaluationData``.
    """

    directory: Path
    ready: TextPreparation
    model: nn.Module
    part: str
    batch_size: int
    dtype: torch.dtype
    reading: str
    known_customers: NDArray[np.str_] | None = None
    training: pa.Table | None = None
    part_name: str = EVALUATED

    @property
    def recipe(self) -> Recipe:
        """That of the run, with what was overridden."""
        return self.ready.recipe

    @cached_property
    def task(self) -> TextModelTask:
        """Return the task on the texts."""
        return cast(TextModelTask, task_of(self.ready))

    @property
    def dataset(self) -> SequenceDataset:
        """The encoded texts; where hidden tokens are learned they are sets of tokens."""
        return cast(Any, self.task.dataset(self.recipe, self.part))

    @property
    def schema(self) -> ContextSchema | None:
        """Return the schema of the context, or None for a run without one."""
        return self.ready.processor.schema

    @property
    def num_choices(self) -> int:
        """Return the number of ranked labels or tokens."""
        return self.ready.num_choices

    @property
    def settings(self) -> EvaluationSettings:
        """Return the evaluation settings for texts."""
        return self.ready.settings

    def score(self, dataset: SequenceDataset, *, progress: Progress | None = None) -> ScoredSet:
        """The scores of the run's model on the texts, or on the same texts with other contexts."""
        return self.task.score_dataset(
            self.model, dataset, self.part, batch_size=self.batch_size, dtype=self.dtype, progress=progress
        )

    def customers(self, scores: Scores) -> NDArray[np.str_] | None:
        """The customer of each scored row, None where no column names one."""
        customers = self.ready.customers(self.part)
        return None if customers is None else customers[set_index(self.ready.datasets[self.part], scores.example_id)]

    def evaluate(self, *, progress: Progress | None = None) -> Evaluation:
        """Score every label, or every token, once."""
        scored = self.score(self.dataset, progress=progress)
        segments = self.task.segments(self.part, scored)
        report = report_on(
            self.part,
            scored,
            self.ready,
            segments=segments,
            seed=self.recipe.seed,
            known_customers=self.known_customers,
        )
        num_unknown = scored.num_unknown_targets
        lines, origin = self.lines(num_unknown=num_unknown), self.provenance()
        return Evaluation(replace(report, provenance=origin), scored.scores, num_unknown, lines)

    def lines(self, *, num_unknown: int) -> tuple[str, ...]:
        """Return sentences on what was read and could not be ranked."""
        unknown = (
            (f"{num_unknown:,} {self.settings.row_name}s cannot be ranked and are left out",) if num_unknown else ()
        )
        sampled = self.ready.scored_lines(self.part)
        origin = self.ready.origin
        read = [*reading_lines(self.ready.table), *(origin.lines() if origin is not None else ())]
        cut = self.ready.texts[self.part].report.lines()
        return (*read, self.reading, *cut, *self._shift_lines(), *sampled, *unknown)

    def _shift_lines(self) -> list[str]:
        """Return sentences on shifts between training and the evaluated rows."""
        schema, task = self.ready.processor.schema, cast(TextTask, self.recipe.texts)
        own = {self.part_name: part_rows(self.ready.datasets[self.part], self.ready.customers(self.part))}
        if self.training is None or self.part_name == LEARNED:
            return field_lines(schema, own)
        known = {LEARNED: rows_of(self.training, schema, customer=self.recipe.customer)} if schema is not None else {}
        drift = list[str]()
        if self.ready.labels and self.ready.head == "classification":
            asked = self.ready.table.take(pa.array(self.ready.split.rows(self.part)))
            labels = (label_values(each[str(task.label)]).combine_chunks() for each in (self.training, asked))
            drift = name_drift(*labels, part=self.part_name, what="labels")
        return [*field_lines(schema, {**known, **own}), *drift]

    def provenance(self) -> Provenance:
        """Return the provenance of the numbers."""
        return provenance_of(self.ready.table, seed=self.recipe.seed, recipe=f"{self.directory.name}/{RECIPE_FILE}")


def load_texts(
    directory: Path,
    own: Recipe,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
) -> EvaluatedTexts:
    """Load a finished run on texts and read what it is evaluated on.

    Args:
        directory: the run directory.
        own: its recipe.
        overrides, part, source, batch_size: what is evaluated and how, as for ``load_evaluation``.

    Raises:
        ConfigurationError: a column of items.
        RunDirectoryError: the directory is incomplete or from another version.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    changes = overrides or {}
    if changes.get("items") is not None:
        raise ConfigurationError(
            f"is for runs on sets, and {directory} was trained on texts",
            setting="items",
            value=changes["items"],
            fix="Leave it out.",
        )
    recipe = evaluated_recipe(own, {**changes, "is_context_shuffled": False})
    rows = read_data(recipe, source)
    table = rows.table
    task = cast(TextTask, recipe.texts)
    for name in (*task.columns, *([recipe.customer] if recipe.customer is not None else [])):
        checked_column(table, name, file=recipe.data)
    split, sentence = split_for(recipe, directory, table, part)
    chosen = evaluated_part(part)
    is_whole = split is None or part == WHOLE
    if split is None:
        split = _all_rows(table)
    if not len(split.rows(chosen)):
        raise DataError(f"no text of the part {chosen!r} is left", file=recipe.data, fix="Name another --part.")
    check_files(directory)
    try:
        processor = ContextualBertProcessor.from_pretrained(directory).with_context_as("values")  # those of segments
        unlabelled = TextPreparation(
            recipe=recipe, split=split, processor=processor, table=table, labels=(), origin=rows.without_rows()
        )
        asked = cast(TextModelTask, task_of(unlabelled)).model_class
        loaded = load_text_baseline(directory) if holds_baseline(directory) else _loaded(asked, directory)
    except RunDirectoryError:
        raise
    except Exception as error:  # see load_saved
        if is_out_of_memory(error):
            raise
        raise RunDirectoryError(f"{directory} cannot be loaded: {error} Train it again with --overwrite.") from error
    model: Any = loaded[0]
    check_head(model, directory, recipe, asked=asked.__name__)
    names = model.config.id2label if unlabelled.head in ("classification", "tags") else {}
    ready = replace(unlabelled, labels=tuple(names[number] for number in sorted(names)))
    is_own = split.digest == Split.load(directory / "split.json").digest
    known = ready.customers_of(split.rows("train")) if is_own else None
    # Only the part that is evaluated: labels that the run does not know may stand in others.
    ready = replace(ready, split=split.restricted(split.assignment == PARTS.index(chosen)))
    with rows.placed():
        ready.customers_of(ready.split.rows(chosen))  # a missing one is found before anything is scored
    evaluated = EvaluatedTexts(
        directory=directory,
        ready=ready,
        model=model.to(chosen_device(recipe.device)).eval(),
        part=chosen,
        batch_size=batch_size or own.training.get(BATCH_SIZE, TRAINING[BATCH_SIZE]),
        dtype=chosen_dtype(recipe.dtype),
        reading="; ".join((sentence, *shuffled_lines(own))),
        known_customers=known,
        training=table.take(pa.array(split.rows(LEARNED))) if is_own else None,
        part_name=EVALUATED if is_whole else chosen,
    )
    if model.config.has_context_as_text:
        evaluated.task.check_words(num_positions=model.config.max_position_embeddings)
    return evaluated


def check_head(model: Any, directory: Path, recipe: Recipe, *, asked: str) -> None:
    """Raise DataError where the table's labels ask for another model than the one that was saved."""
    learned = model.config.architectures or []
    if asked not in learned:
        raise DataError(
            f"the labels ask for a {asked}, and {directory} holds a {', '.join(learned)}",
            file=recipe.data,
            column=recipe.texts.label if recipe.texts is not None else None,
            fix="Give a label for each text where the run had one, and lists of words and tags where it had these.",
        )


def _loaded(model_class: Any, directory: Path) -> tuple[Any]:
    model, found = model_class.from_pretrained(directory, output_loading_info=True)
    if model.config.architectures == [model_class.__name__]:  # that of another head is said by check_head
        check_weights(directory, found)
    return (model,)


def _all_rows(table: pa.Table) -> Split:
    """All rows as a test part."""
    return Split(
        assignment=np.full(table.num_rows, PARTS.index(TEST), dtype=np.uint8),
        by="row",
        column=None,
        fractions=(0.0, 1.0),
        seed=None,
        data_digest=table_digest(table),
    )
