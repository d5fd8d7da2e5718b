"""Evaluation of a finished run on a table, and of the oracle on outfits of its world: docs/protocol.md."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from contextual_bert.context.encoding import check_context_columns
from contextual_bert.data import Oracle, Split, StylistWorld
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import DataError
from contextual_bert.evaluation import Scores, evaluate_scores
from contextual_bert.evaluation.answer_calibration import AnswerCalibration
from contextual_bert.frames import Frame
from contextual_bert.inference import outside_lines_of
from contextual_bert.manifest import weights_digest
from contextual_bert.runs.calibrated_evaluation import Steps, answers_with
from contextual_bert.runs.evaluator import (
    BATCH_SIZE,
    EVALUATED,
    WHOLE,
    Evaluation,
    Evaluator,
    Progress,
    all_rows,
    evaluated_part,
    evaluated_recipe,
    evaluated_rows,
    gap_lines,
    provenance_of,
    shuffled_lines,
    split_for,
)
from contextual_bert.runs.run_directory import IN_MEMORY, FinishedRun, finished_run, resolved_in
from contextual_bert.runs.shifts import LEARNED
from contextual_bert.runs.tasks import TASKS
from contextual_bert.training import chosen_dtype


def load_evaluation(
    directory: Path | FinishedRun,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
) -> Evaluator:
    """Load a finished run, on sets or texts, and read what it is evaluated on.

    Args:
        directory: the run directory; or what ``finished_run`` gave for it.
        overrides: fields of the recipe that are others here: ``data``, ``items``, ``order``, ``customer``, ``split``,
            ``device``, ``dtype``; and ``scored_tokens`` of a task on hidden tokens.
        part: train, validation or test of the split, or "all" rows; None: the test part where the table is the run's,
            else all rows.
        source: the table, where it is in memory: pyarrow, pandas, polars or `datasets`.
        batch_size: rows a forward pass; that of the run if left out, for another changes the last digits.

    Raises:
        RunDirectoryError: the directory is incomplete, from another version, or without weights.
        DataError, SchemaError, UnknownNameError: the table does not fit the run, or was in memory and is not given.
    """
    directory, own = finished_run(directory)
    is_own_table = source is None and (overrides or {}).get("data", own.data) == own.data
    if is_own_table and resolved_in(directory, IN_MEMORY) and not Path(own.data).exists():
        raise DataError(
            f"the run was trained on a table in memory, which it calls {own.data!r}, and no file has it",
            fix="Give the rows with --data FILE. In Python give the table itself: source=frame.",
        )
    recipe, task = evaluated_recipe(own, overrides or {}), TASKS[own.task.kind]
    dtype = chosen_dtype(recipe.dtype)
    processor, model = task.load_model(directory, recipe)
    schema = processor.schema
    rows = evaluated_rows(recipe, own, source, needed=schema.columns if schema is not None else ())
    if schema is not None:
        check_context_columns(schema, rows.table, file=recipe.data, run=str(directory))
    named = recipe.task.columns[:1] if recipe.task.grouping else recipe.task.columns  # rows are in their order already
    for name in (*named, *([recipe.customer] if recipe.customer is not None else [])):
        checked_column(rows.table, name, file=recipe.data)
    split, sentence = split_for(recipe, directory, rows.table, part)
    chosen, is_whole = evaluated_part(part), split is None or part == WHOLE
    is_own = split is not None and split.digest == Split.load(directory / "split.json").digest
    split = split if split is not None else all_rows(rows.table)
    with rows.placed():
        # The items of a table that is new to the run are not counted again: its vocabulary decides what is known.
        count_rows, min_count = (split.rows(LEARNED), None) if is_own else (None, 1)
        cold_items = split.cold_items if is_own else ()
        has_histories = recipe.task.has_items and schema is not None and bool(schema.history_columns)
        known_items = processor.items.values if has_histories else ()
        how: dict[str, Any] = {"min_count": min_count, "cold_items": cold_items, "known_items": known_items}
        examples = rows.examples(recipe, count_rows=count_rows, **how)
        asked = split.select(examples, chosen)
        if not len(asked):
            raise DataError(f"nothing of the part {chosen!r} is left", file=recipe.data, fix="Name another --part.")
        learned = split.select(examples, LEARNED) if is_own else None
        ready = task(
            recipe=recipe,
            # Only the part that is evaluated: labels that the run does not know may stand in others.
            split=split.restricted(split.assignment == PARTS.index(chosen)),
            processor=processor,
            examples=examples,
            origin=rows.without_rows(),
            part_name=WHOLE if is_whole else None,
            **task.known_fields(model, learned),
        )
        ready.check_model(model, directory)
        first_rows = rows.groups.first_rows if rows.groups is not None else None
        outside = outside_lines_of(asked, processor, first_rows=first_rows)
        ready.customers_of(asked.rows)  # a missing one is found before anything is scored
        encoded = ready.encoding_lines(chosen)
    read = (*rows.lines(), *examples.lines(), sentence, *shuffled_lines(own), *gap_lines(own, recipe))
    return Evaluator(
        directory=directory,
        ready=ready,
        model=model,
        part=chosen,
        part_name=EVALUATED if is_whole else chosen,
        batch_size=batch_size or own.training.get(BATCH_SIZE, task.eval_batch_size),
        dtype=dtype,
        reading=(*read, *encoded, *outside),
        learned=learned,
        table=rows.table,
    )


def evaluate_run(
    directory: Path | FinishedRun,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score every row of a table: every item masked once and ranked among all, or every label.

    On the run's own table and split the numbers are those of its metrics.json; but a run with the contexts of others is
    given the true ones. Of a run that was calibrated, its prediction sets are measured, too.

    Args:
        directory: the run directory; or what ``finished_run`` gave for it.
        overrides, part, source, batch_size: what is evaluated and how, as for ``load_evaluation``.
        progress: called with (rows done, rows in all).

    Raises:
        RunDirectoryError: the directory is incomplete, from another version, or without weights.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    data = load_evaluation(directory, overrides=overrides, part=part, source=source, batch_size=batch_size)
    calibration = AnswerCalibration.from_run(data.directory, weights=weights_digest(data.directory))
    if calibration is None:
        return data.evaluate(progress=progress)
    steps = Steps(progress, num_passes=2)
    found = data.evaluate(progress=steps.next())
    return replace(found, calibrated=answers_with(data, found.scores, calibration, progress=steps.next()))


def evaluate_oracle(world: StylistWorld, table: pa.Table, *, progress: Progress | None = None) -> Evaluation:
    """The best cross-entropy and recall that any model can reach on these outfits of the world.

    Example:
        >>> world = StylistWorld.generate(60)
        >>> evaluate_oracle(world, world.sample(50, seed=1)).report.num_sets
        50
    """
    arrays: dict[str, Any] = dict(Oracle(world).score_table(table, progress=progress))
    scores = Scores(**arrays)
    customers = table.column("customer_id").to_numpy() if "customer_id" in table.column_names else None
    report = evaluate_scores(
        scores,
        clusters=customers[scores.example_id] if customers is not None else None,
        num_items=world.num_items,
        provenance=provenance_of(table, seed=world.seed, recipe="the oracle of the world"),
    )
    return Evaluation(report, scores, 0, (f"{table.num_rows:,} outfits of a world of {world.num_items:,} articles",))
