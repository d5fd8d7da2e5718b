"""Load a finished run on sets and the rows that it is evaluated on."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from contextual_bert.data import Split, read_sets
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import DataError
from contextual_bert.frames import Frame
from contextual_bert.inference import CompletionPipeline, outside_lines_of
from contextual_bert.runs.evaluator import (
    BATCH_SIZE,
    EVALUATED,
    WHOLE,
    Evaluator,
    LearnedRows,
    all_rows,
    evaluated_part,
    evaluated_recipe,
    evaluated_rows,
    shuffled_lines,
    split_for,
)
from contextual_bert.runs.prepared_sets import PreparedSets, customers_of
from contextual_bert.runs.shifts import LEARNED
from contextual_bert.runs.tasks import task_of
from contextual_bert.training import ContextualTrainingArguments, chosen_device, chosen_dtype
from contextual_bert.training.recipe import Recipe

DEFAULT_BATCH_SIZE = ContextualTrainingArguments.per_device_eval_batch_size


def load_sets(
    directory: Path,
    own: Recipe,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
) -> Evaluator:
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
    rows = evaluated_rows(recipe, own, source, needed=schema.columns if schema is not None else ())
    table = rows.table
    split, sentence = split_for(recipe, directory, table, part)
    is_own = split is not None and split.digest == Split.load(directory / "split.json").digest
    policy = recipe.set_task.policy
    with rows.placed():
        sets = read_sets(
            table,
            items=recipe.set_task.items,
            on_bad_row=recipe.reading.on_bad_row,
            policy=policy if is_own else replace(policy, min_count=1),
            file=recipe.data,
            customer=recipe.customer,
            count_rows=split.rows("train") if is_own and split is not None else None,
        )
        chosen = evaluated_part(part)
        part_name = EVALUATED if split is None or part == WHOLE else chosen
        split = split if split is not None else all_rows(table)
        asked = split.select(sets, chosen)
        if len(asked) == 0:
            raise DataError(f"no set of the part {chosen!r} is left", file=recipe.data, fix="Name another --part.")
        first_rows = rows.groups.first_rows if rows.groups is not None else None
        outside = outside_lines_of(asked, pipeline.processor, first_rows=first_rows)
        training = split.select(sets, LEARNED) if is_own else None
        ready = PreparedSets(
            recipe=recipe,
            split=split.restricted(split.assignment == PARTS.index(chosen)),
            processor=pipeline.processor,
            sets=sets,
            origin=rows.without_rows(),
            part_name=WHOLE if part_name == EVALUATED else None,
            learned_items=training.values if training is not None else None,
        )
        learned = None
        if training is not None:
            customers = customers_of(training) if recipe.customer is not None else None
            learned = LearnedRows(training.table, customers, training.values)
    return Evaluator(
        directory=directory,
        task=task_of(ready),
        model=pipeline.model,
        part=chosen,
        part_name=part_name,
        batch_size=batch_size or own.training.get(BATCH_SIZE, DEFAULT_BATCH_SIZE),
        dtype=dtype,
        reading=(*rows.lines(), *sets.report.lines(), sentence, *shuffled_lines(own), *outside),
        learned=learned,
        table=table,
    )
