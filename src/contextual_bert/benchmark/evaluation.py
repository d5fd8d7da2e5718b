"""Evaluation of a finished run on a table, and of the oracle on outfits of its world: PROTOCOL, points 1-5 and 11.

What the run directory does not say is asked for: another table, other columns, a part of a split. It trains nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from contextual_bert.benchmark.checks import load_recipe
from contextual_bert.benchmark.preparation import customers_of
from contextual_bert.benchmark.run_files import commit, hardware
from contextual_bert.benchmark.runner import take
from contextual_bert.data import Oracle, SetTable, Split, StylistWorld, read_sets, read_table, table_digest
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import Provenance, Report, Scores, evaluate_scores
from contextual_bert.inference import CompletionPipeline, encode_sets, score, segment_labels, set_index
from contextual_bert.training import ContextualTrainingArguments, chosen_device, chosen_dtype
from contextual_bert.training.recipe import RECIPE_FILE, Recipe

Progress = Callable[[int, int], None]
WHOLE = "all"
BATCH_SIZE = "per_device_eval_batch_size"
DEFAULT_BATCH_SIZE = ContextualTrainingArguments.per_device_eval_batch_size


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A report and what it is about.

    Args:
        report: the numbers.
        scores: the rows they were computed from.
        num_unknown_targets: positions left out because their item is not in the vocabulary: it cannot be ranked.
        lines: what was read, for people.
    """

    report: Report
    scores: Scores
    num_unknown_targets: int
    lines: tuple[str, ...]


def evaluate_run(
    directory: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: pa.Table | None = None,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Mask every position of every set once and rank the true item among all items of the run's vocabulary.

    The items of a table that is new to the run are not counted again: the vocabulary decides what is known. On the
    run's own table and split the numbers are those of its metrics.json.

    Args:
        directory: the run directory.
        overrides: fields of Recipe that differ from the run's: data, items, customer, split, device, dtype ...
        part: train, validation or test of the split, or "all" rows; default: test where there is a split, else all.
        source: the table, where it was read already.
        batch_size: masked sets a forward pass; that of the run if left out, for another changes the last digits.
        progress: called with (rows done, rows in all).

    Raises:
        RunDirectoryError: the directory is incomplete or from another version.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    own = load_recipe(directory)
    # In float32 like the numbers of the run itself, whatever it was trained in.
    recipe = replace(own, **{"split": None, "dtype": "float32", **dict(overrides or {})})
    device, dtype = chosen_device(recipe.device), chosen_dtype(recipe.dtype)
    pipeline = CompletionPipeline.from_pretrained(directory, device=device)
    table = read_table(recipe.data) if source is None else source
    split, sentence = _split_for(recipe, directory, table, part)
    is_own = split is not None and split.digest == Split.load(directory / "split.json").digest
    sets = read_sets(
        table,
        items=recipe.items,
        policy=recipe.policy if is_own else replace(recipe.policy, min_count=1),
        file=recipe.data,
        customer=recipe.customer,
        time=recipe.time,
        count_rows=split.rows("train") if is_own and split is not None else None,
    )
    chosen = split.select(sets, part or "test") if split is not None else sets
    if len(chosen) == 0:
        raise DataError(f"no set of the part {part or 'test'!r} is left", file=recipe.data, fix="Name another --part.")
    dataset = encode_sets(chosen, pipeline.processor, file=recipe.data)
    num_rows = batch_size or own.training.get(BATCH_SIZE, DEFAULT_BATCH_SIZE)
    result = score(pipeline.model, dataset, batch_size=num_rows, dtype=dtype, progress=progress)
    if len(result.scores) == 0:
        raise DataError(
            f"none of the {result.num_unknown_targets:,} items is in the vocabulary of {directory}",
            file=recipe.data,
            column=recipe.items,
            fix="Name the column and the separator that the run was trained with.",
        )
    index = set_index(dataset, result.scores.example_id)
    labels = segment_labels(dataset, pipeline.processor)
    report = evaluate_scores(
        result.scores,
        clusters=customers_of(chosen)[index] if recipe.customer is not None else None,
        segments={name: take(values, index) for name, values in labels.items()},
        num_items=len(pipeline.processor.items.values),
        provenance=_provenance(table, seed=recipe.seed, recipe=str(directory / RECIPE_FILE)),
    )
    lines = (*sets.report.lines(), sentence, *_unknown_lines(chosen, pipeline, result.num_unknown_targets))
    return Evaluation(report, result.scores, result.num_unknown_targets, lines)


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
        provenance=_provenance(table, seed=world.seed, recipe="the oracle of the world"),
    )
    return Evaluation(report, scores, 0, (f"{table.num_rows:,} outfits of a world of {world.num_items:,} articles",))


def _split_for(recipe: Recipe, directory: Path, table: pa.Table, part: str | None) -> tuple[Split | None, str]:
    """The split that the part is of, None for all rows; and the sentence that says so."""
    if part == WHOLE:
        return None, "evaluated: all rows, those of the training part too if the table has them"
    if recipe.split is not None:
        split = Split.load(recipe.split)
        split.check(table, file=recipe.data)
        return split, f"evaluated: the {part or 'test'} part of {recipe.split}"
    own = Split.load(directory / "split.json")
    if len(own.assignment) == table.num_rows and own.data_digest == table_digest(table):
        return own, f"evaluated: the {part or 'test'} part of the split that the run was trained with"
    if part is not None:
        raise ConfigurationError(
            f"part={part!r} of which split? {recipe.data} is not the table that the run was trained with. "
            "Name a split file with --split, or leave --part out to evaluate all rows."
        )
    return None, "evaluated: all rows, for this is not the table that the run was trained with"


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


def _provenance(table: pa.Table, *, seed: int, recipe: str) -> Provenance:
    return Provenance(
        data_digest=table_digest(table)[:16], commit=commit(), seeds=(seed,), hardware=hardware(), recipe=recipe
    )
