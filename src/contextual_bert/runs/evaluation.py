"""Evaluation of a finished run on a table, and of the oracle on outfits of its world: docs/protocol.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from contextual_bert.data import Oracle, StylistWorld
from contextual_bert.errors import DataError
from contextual_bert.evaluation import Scores, evaluate_scores
from contextual_bert.frames import Frame
from contextual_bert.runs.evaluator import Evaluation, Evaluator, Progress, provenance_of
from contextual_bert.runs.run_directories import load_recipe
from contextual_bert.runs.run_files import IN_MEMORY, resolved_in
from contextual_bert.runs.set_evaluation import load_sets
from contextual_bert.runs.text_evaluation import load_texts
from contextual_bert.training.tasks import TextTask


def load_evaluation(
    directory: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
) -> Evaluator:
    """Load a finished run, on sets or texts, and read what it is evaluated on.

    Args:
        directory: the run directory.
        overrides: fields of the recipe that are others here: ``data``, ``items``, ``customer``, ``split``, ``device``,
            ``dtype``; and ``scored_tokens`` of a task on hidden tokens.
        part: train, validation or test of the split, or "all" rows; None: the test part where the table is the run's,
            else all rows.
        source: the table, where it is in memory: pyarrow, pandas, polars or `datasets`.
        batch_size: rows a forward pass; that of the run if left out, for another changes the last digits.

    Raises:
        RunDirectoryError: the directory is incomplete, from another version, or without weights.
        DataError, SchemaError, UnknownNameError: the table does not fit the run, or was in memory and is not given.
    """
    own = load_recipe(directory)
    is_own_table = source is None and (overrides or {}).get("data", own.data) == own.data
    if is_own_table and resolved_in(directory, IN_MEMORY) and not Path(own.data).exists():
        raise DataError(
            f"the run was trained on a table in memory, which it calls {own.data!r}, and no file has it",
            fix="Give the rows with --data FILE. In Python give the table itself: source=frame.",
        )
    load = load_texts if isinstance(own.task, TextTask) else load_sets
    return load(directory, own, overrides=overrides, part=part, source=source, batch_size=batch_size)


def evaluate_run(
    directory: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: Frame | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score every row of a table: every item masked once and ranked among all, or every label.

    On the run's own table and split the numbers are those of its metrics.json; but a run with the contexts of others is
    given the true ones.

    Args:
        directory: the run directory.
        overrides, part, source, batch_size: what is evaluated and how, as for ``load_evaluation``.
        progress: called with (rows done, rows in all).

    Raises:
        RunDirectoryError: the directory is incomplete, from another version, or without weights.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    data = load_evaluation(directory, overrides=overrides, part=part, source=source, batch_size=batch_size)
    return data.evaluate(progress=progress)


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
