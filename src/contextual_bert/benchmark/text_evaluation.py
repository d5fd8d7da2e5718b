"""Evaluation of a finished run on texts: labels, or every token hidden once, which gives the pseudo-perplexity.

On the run's own table and split the numbers are those of its metrics.json. It trains nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from contextual_bert.benchmark.checks import load_recipe
from contextual_bert.benchmark.evaluated import Evaluation, provenance_of, split_for
from contextual_bert.benchmark.reporting import label_report_on, report_on
from contextual_bert.benchmark.text_preparation import TextPreparation
from contextual_bert.benchmark.text_work import MODELS, TRAINING, TextWork
from contextual_bert.data import Split, read_table, table_digest
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import DataError, RunDirectoryError
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.training import chosen_device, chosen_dtype
from contextual_bert.training.recipe import RECIPE_FILE

BATCH_SIZE = "per_device_eval_batch_size"
TEST = "test"


def evaluate_texts(
    directory: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    part: str | None = None,
    source: pa.Table | None = None,
    batch_size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Score every label, or every token, of a table with the model of a run.

    Args:
        directory: the run directory.
        overrides, part, source, batch_size: what is evaluated and how, as for ``evaluate_run``.
        progress: called with (texts done, texts in all).

    Raises:
        RunDirectoryError: the directory is incomplete or from another version.
        DataError, SchemaError, UnknownNameError: the table does not fit the run.
    """
    own = load_recipe(directory)
    recipe = replace(own, **{"split": None, "dtype": "float32", **dict(overrides or {}), "is_context_shuffled": False})
    table = read_table(recipe.data) if source is None else source
    split, sentence = split_for(recipe, directory, table, part)
    chosen = part or TEST
    if split is None:
        split, chosen = _all_rows(table), TEST
    if not len(split.rows(chosen)):
        raise DataError(f"no text of the part {chosen!r} is left", file=recipe.data, fix="Name another --part.")
    try:
        processor = ContextualBertProcessor.from_pretrained(directory)
        unlabelled = TextPreparation(recipe=recipe, split=split, processor=processor, table=table, labels=())
        model: Any = MODELS[unlabelled.head].from_pretrained(directory)
    except (OSError, ValueError, RuntimeError) as error:
        raise RunDirectoryError(f"{directory} cannot be loaded: {error} Train it again with --overwrite.") from error
    names = model.config.id2label if unlabelled.head != "masked_lm" else {}
    ready = replace(unlabelled, labels=tuple(names[number] for number in sorted(names)))
    # Only the part that is evaluated: labels that the run does not know may stand in others.
    ready = replace(ready, split=split.restricted(split.assignment == PARTS.index(chosen)))
    scored = TextWork(ready).score(
        recipe,
        model.to(chosen_device(recipe.device)).eval(),
        chosen,
        batch_size=batch_size or own.training.get(BATCH_SIZE, TRAINING[BATCH_SIZE]),
        is_shared=False,
        dtype=chosen_dtype(recipe.dtype),
        progress=progress,
    )
    segments = TextWork(ready).segments(chosen, scored)
    report = report_on(chosen, scored, ready, segments=segments, seed=recipe.seed)
    origin = provenance_of(table, seed=recipe.seed, recipe=str(directory / RECIPE_FILE))
    lines = (sentence, *ready.texts[chosen].report.lines())
    labels = label_report_on(chosen, scored, ready)
    return Evaluation(replace(report, provenance=origin), scored.scores, 0, lines, labels)


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
