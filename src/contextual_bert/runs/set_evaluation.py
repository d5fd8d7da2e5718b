"""Evaluation of a finished run on sets: docs/protocol.md.

What the run directory does not say is asked for: another table, other columns, a part of a split. It trains nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from contextual_bert.context import ContextSchema
from contextual_bert.data import SequenceDataset, SetTable, Split, read_sets
from contextual_bert.errors import DataError
from contextual_bert.evaluation import EvaluationSettings, Provenance, Scores, Unscored, evaluate_scores
from contextual_bert.frames import Frame
from contextual_bert.inference import CompletionPipeline, ScoredSet, encode_sets, outside_lines_of, score, set_index
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
from contextual_bert.runs.preparation import customers_of
from contextual_bert.runs.reporting import cold_rows, segments_of
from contextual_bert.runs.run_table import read_data
from contextual_bert.runs.shifts import LEARNED, field_lines, name_drift, part_rows, rows_of
from contextual_bert.runs.tasks.set_completion import FREQUENCY_FEATURE, item_frequencies
from contextual_bert.runs.unscored import unscored_items
from contextual_bert.training import ContextualTrainingArguments, chosen_device, chosen_dtype
from contextual_bert.training.recipe import RECIPE_FILE, Recipe

DEFAULT_BATCH_SIZE = ContextualTrainingArguments.per_device_eval_batch_size


@dataclass(frozen=True, eq=False)
class EvaluatedSets:
    """A finished run and the sets that it is evaluated on.

    Args:
        directory: the run directory.
        recipe: that of the run, with what was overridden.
        pipeline: model and processor of the run.
        table: as it was read.
        sets: the sets of the part.
        dataset: the same, encoded.
        batch_size: masked sets a forward pass.
        dtype: what the model runs in.
        reading: what was read and which part of it is evaluated, for people.
        training: the sets that the run learned from, where they are in this table.
        part: the name of what is evaluated.
        rows: of the table that are evaluated, those of no set too; None: all.

    Relation to its siblings:
        ``EvaluatedTexts`` is the same for texts; both are ``EvaluationData``.
    """

    directory: Path
    recipe: Recipe
    pipeline: CompletionPipeline
    table: pa.Table
    sets: SetTable
    dataset: SequenceDataset
    batch_size: int
    dtype: torch.dtype
    reading: tuple[str, ...]
    training: SetTable | None = None
    part: str = EVALUATED
    rows: NDArray[np.int64] | None = None

    def score(self, dataset: SequenceDataset, *, progress: Progress | None = None) -> ScoredSet:
        """The scores of the run's model on the sets, or on the same sets with other contexts.

        Raises:
            DataError: the vocabulary knows none of the items.
        """
        result = score(self.pipeline.model, dataset, batch_size=self.batch_size, dtype=self.dtype, progress=progress)
        if len(result.scores) == 0:
            raise DataError(
                f"none of the {result.num_unknown_targets:,} items is in the vocabulary of {self.directory}",
                file=self.recipe.data,
                column=self.recipe.items,
                fix="Name the column and the separator that the run was trained with.",
            )
        return result

    @property
    def schema(self) -> ContextSchema | None:
        """Return the schema of the context, or None for a run without one."""
        return self.pipeline.processor.schema

    @property
    def num_choices(self) -> int:
        """Return the number of ranked items."""
        return len(self.pipeline.processor.items.values)

    @property
    def settings(self) -> EvaluationSettings:
        """Return the evaluation settings for sets."""
        return EvaluationSettings()

    def customers(self, scores: Scores) -> NDArray[np.str_] | None:
        """The customer of each scored row, None where no column names one."""
        if self.recipe.customer is None:
            return None
        return customers_of(self.sets)[set_index(self.dataset, scores.example_id)]

    def evaluate(self, *, progress: Progress | None = None) -> Evaluation:
        """Mask every position of every set once and rank the true item among all items of the run's vocabulary."""
        result = self.score(self.dataset, progress=progress)
        index = set_index(self.dataset, result.scores.example_id)
        segments, is_cold = segments_of(self.dataset, self.pipeline.processor, index), None
        if self.training is not None:
            known = self.pipeline.processor.items.lookup(self.training.values)
            places = result.scores.position
            segments[FREQUENCY_FEATURE] = item_frequencies(known[known >= 0], self.dataset, index, places)
            if self.recipe.customer is not None:
                is_cold = cold_rows(customers_of(self.sets), customers_of(self.training), index)
        report = evaluate_scores(
            result.scores,
            clusters=self.customers(result.scores),
            cold_customers=is_cold,
            segments=segments,
            num_items=self.num_choices,
            settings=self.settings,
            provenance=self.provenance(),
            unscored=self.unscored(result.scores),
        )
        num_unknown = result.num_unknown_targets
        return Evaluation(report, result.scores, num_unknown, self.lines(num_unknown=num_unknown))

    def unscored(self, scores: Scores) -> Unscored | None:
        """The items of the evaluated rows that were not scored."""
        return unscored_items(
            self.sets,
            self.dataset,
            scores,
            rows=self.rows,
            part=WHOLE if self.part == EVALUATED else self.part,
            policy=self.recipe.policy,
            customers=customers_of(self.sets) if self.recipe.customer is not None else None,
        )

    def lines(self, *, num_unknown: int) -> tuple[str, ...]:
        """Return sentences on what was read and could not be ranked."""
        return (*self.reading, *self._shift_lines(), *_unknown_lines(self.sets, self.pipeline, num_unknown))

    def _shift_lines(self) -> list[str]:
        """Return sentences on shifts between training and the evaluated rows."""
        schema, customer = self.pipeline.processor.schema, self.recipe.customer
        owners = customers_of(self.sets) if customer is not None else None
        rows, drift = {self.part: part_rows(self.dataset, owners)}, list[str]()
        if self.training is not None and self.part != LEARNED:
            drift = name_drift(self.training.values, self.sets.values, part=self.part, what="items")
            if schema is not None:
                rows = {LEARNED: rows_of(self.training.table, schema, customer=customer), **rows}
        return [*field_lines(schema, rows), *drift]

    def provenance(self) -> Provenance:
        """Return the provenance of the numbers."""
        return provenance_of(self.table, seed=self.recipe.seed, recipe=f"{self.directory.name}/{RECIPE_FILE}")


def load_sets(
    directory: Path,
    own: Recipe,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
) -> EvaluatedSets:
    """Load a finished run on sets and read what it is evaluated on.

    The items of a table that is new to the run are not counted again: the vocabulary decides what is known.

    Args:
        directory: the run directory.
        own: its recipe.
        overrides: fields of Recipe that differ from the run's: data, items, customer, split, device, dtype ...
        part: train, validation or test of the split, or "all" rows; default: test where there is a split, else all.
        source: the table, where it is in memory: pyarrow, pandas, polars or `datasets`.
        batch_size: masked sets a forward pass; that of the run if left out, for another changes the last digits.

    Raises:
        RunDirectoryError: the directory is incomplete or from another version.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    recipe = evaluated_recipe(own, overrides or {})
    device, dtype = chosen_device(recipe.device), chosen_dtype(recipe.dtype)
    pipeline = CompletionPipeline.from_pretrained(directory, device=device)
    schema = pipeline.processor.schema
    rows = read_data(recipe, source, needed=schema.columns if schema is not None else ())
    table = rows.table
    split, sentence = split_for(recipe, directory, table, part)
    is_own = split is not None and split.digest == Split.load(directory / "split.json").digest
    with rows.placed():
        sets = read_sets(
            table,
            items=recipe.item_column,
            on_bad_row=recipe.reading.on_bad_row,
            policy=recipe.policy if is_own else replace(recipe.policy, min_count=1),
            file=recipe.data,
            customer=recipe.customer,
            count_rows=split.rows("train") if is_own and split is not None else None,
        )
        chosen = split.select(sets, evaluated_part(part)) if split is not None else sets
        if len(chosen) == 0:
            raise DataError(
                f"no set of the part {part or 'test'!r} is left", file=recipe.data, fix="Name another --part."
            )
        dataset = encode_sets(chosen, pipeline.processor, file=recipe.data)
    return EvaluatedSets(
        directory=directory,
        recipe=recipe,
        pipeline=pipeline,
        table=table,
        sets=chosen,
        dataset=dataset,
        batch_size=batch_size or own.training.get(BATCH_SIZE, DEFAULT_BATCH_SIZE),
        dtype=dtype,
        reading=(
            *rows.lines(),
            *sets.report.lines(),
            sentence,
            *shuffled_lines(own),
            *outside_lines_of(
                chosen,
                pipeline.processor,
                first_rows=rows.groups.first_rows if rows.groups is not None else None,
            ),
        ),
        training=split.select(sets, "train") if is_own and split is not None else None,
        part=EVALUATED if split is None or part == WHOLE else evaluated_part(part),
        rows=split.rows(evaluated_part(part)) if split is not None else None,
    )


def _unknown_lines(sets: SetTable, pipeline: CompletionPipeline, num_unknown: int) -> list[str]:
    if num_unknown == 0:
        return []
    known = pipeline.processor.items.lookup(sets.values) >= 0
    strangers = sorted(set(sets.values.filter(pa.array(~known)).to_pylist()))
    named = ", ".join(strangers[:5]) + (", ..." if len(strangers) > 5 else "")
    return [
        f"{num_unknown:,} of {len(sets.values):,} positions hold one of {len(strangers):,} items that the run never "
        f"saw ({named}): they cannot be ranked and are left out"
    ]
