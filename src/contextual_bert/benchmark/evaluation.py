"""Evaluation of a finished run on a table, and of the oracle on outfits of its world: PROTOCOL, points 1-5 and 11."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from contextual_bert.benchmark.checks import load_recipe
from contextual_bert.benchmark.evaluated import Evaluation, provenance_of
from contextual_bert.benchmark.set_evaluation import evaluate_sets
from contextual_bert.benchmark.text_evaluation import evaluate_texts
from contextual_bert.data import Oracle, StylistWorld
from contextual_bert.evaluation import Scores, evaluate_scores

Progress = Callable[[int, int], None]


def evaluate_run(
    directory: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: pa.Table | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score every row of a table: every item masked once and ranked among all, or every label.

    On the run's own table and split the numbers are those of its metrics.json.

    Args:
        directory: the run directory.
        overrides: fields of the recipe that are others here: ``data``, ``items``, ``customer``, ``split``, ``device``,
            ``dtype``.
        part: of the split; None: the test part where the table is the run's, else all rows.
        source: the table, where it was read already.
        batch_size: rows a forward pass.
        progress: called with (rows done, rows in all).

    Raises:
        RunDirectoryError: the directory is incomplete or from another version.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    evaluate = evaluate_sets if load_recipe(directory).texts is None else evaluate_texts
    return evaluate(directory, overrides=overrides, part=part, source=source, batch_size=batch_size, progress=progress)


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
