"""The choice of the fields of a context, before a run: measured on the training part, or as it was remembered.

``training.field_selection`` measures. Paper: not there; docs/decisions/036.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contextual_bert.baselines.names import POPULARITY
from contextual_bert.context import ContextSchema
from contextual_bert.data.splits import split_by_time
from contextual_bert.errors import ContextualBertError, Message
from contextual_bert.nouns import agreeing, counted
from contextual_bert.runs.model_factory import has_context
from contextual_bert.runs.run_directory import CHECKPOINTS
from contextual_bert.runs.tasks import Task
from contextual_bert.training.field_selection import (
    LEAST_GAIN,
    FieldGain,
    can_select,
    field_gains,
    folds_by_cluster,
    gain_at_least,
    is_too_little,
)
from contextual_bert.training.recipe import RECIPE_FILE, Recipe


def with_selected_fields(
    ready: Task,
    recipes: Iterable[Recipe],
    *,
    remembered: Iterable[Path] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Task:
    """Return the data with the fields silenced that the training part shows to say nothing.

    Nothing is chosen for answers to questions and texts that are written, for methods without a context, with
    ``field_selection="off"``, for a run that goes on from another, by a schema that has silenced fields, and from a
    small training part.

    Args:
        ready: data in which nothing was silenced yet.
        recipes: of the runs on these data. The choice is one for all, so that methods are compared on equal contexts.
        remembered: run directories. If one of them has a recipe, its choice is taken.
        progress: called with (parts done, parts in all).
    """
    recipe, schema = ready.recipe, ready.processor.schema
    is_asked = any(has_context(each) and each.conditioning not in POPULARITY for each in recipes)
    if not ready.has_field_gains or schema is None or not is_asked or recipe.field_selection == "off":
        return ready
    if ready.goes_on or schema.silenced_names or not schema.without_histories().features:
        return ready
    known = remembered_names(remembered, schema)
    if known is not None:
        return ready.with_silenced(known, selection=_lines(schema, known, "as the run that is there"))
    dataset, clusters = ready.datasets["train"], customer_numbers(ready)
    if not can_select(dataset, len(np.unique(clusters))):
        return ready
    started = time.perf_counter()
    gains = field_gains(
        dataset,
        [shape for shape in schema.layout if shape.form != "history"],  # what repeats is no matter of a linear model
        folds_of(ready, clusters),
        clusters,
        vocab_size=ready.vocab_size,
        progress=progress,
    )
    useful = [gain for gain in gains if gain.is_useful]
    num_items = len(dataset.input_ids)
    is_little = recipe.task.has_items and not schema.history_columns and is_too_little(gains, num_items)
    names = [gain.name for gain in gains if is_little or not gain.is_useful]
    seconds = f"chosen in {time.perf_counter() - started:.0f} seconds"
    lines = _lines(schema, names, seconds, is_little=is_little)
    if is_little:
        told = _little_line(useful, num_items, ready.settings.row_name)
    else:
        told = _gain_line(useful, ready.settings.row_name)
    return ready.with_silenced(names, selection=[*lines, told])


def remembered_names(directories: Iterable[Path], schema: ContextSchema) -> tuple[str, ...] | None:
    """Return the fields that a run in one of these directories silenced; None where none has a run on such a schema.

    Args:
        directories: of runs, complete or interrupted.
        schema: of the data that are prepared now.
    """
    for directory in directories:
        for folder in (directory, directory / CHECKPOINTS):
            if not (folder / RECIPE_FILE).is_file():
                continue
            try:
                found = Recipe.load(folder)
                theirs = ContextSchema.from_dict(dict(found.schema or {}))
            except ContextualBertError:  # what is wrong with it, the run says
                continue
            if found.field_selection == "auto" and theirs.names == schema.names:
                return theirs.silenced_names
    return None


def customer_numbers(ready: Task) -> NDArray[np.int64]:
    """Return a number for the customer of each training row; without customers each row has its own."""
    customers = ready.customers("train")
    if customers is None:
        return np.arange(len(ready.datasets["train"]))
    return np.unique(customers, return_inverse=True)[1].astype(np.int64)


def folds_of(ready: Task, clusters: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the places of the rows that are asked about in each fold: of a split by time those of the later half."""
    if ready.split.by != "time" or ready.split.column is None:
        return folds_by_cluster(clusters)
    times = ready.split.select(ready.examples, "train").table.select([ready.split.column])
    formats = ready.recipe.reading.date_formats
    parts = split_by_time(times, ready.split.column, validation=0.5, test=0.0, date_formats=formats).assignment
    return [np.flatnonzero(parts == 1)]


def _lines(schema: ContextSchema, names: Sequence[str], how: str, *, is_little: bool = False) -> list[str]:
    number = len(schema.features)
    if not names:
        return [f"field selection: none of {counted(number, 'field')} of the context is silenced ({how})"]
    listed = ", ".join(map(repr, names))
    return [
        Message(
            f"field selection: {len(names)} of {counted(number, 'field')} of the context {agreeing('are', len(names))} "
            f"silenced ({how}): {listed}. What the values tell of some of the training part does not hold for the "
            f"others beyond chance{', or is too little' if is_little else ''}. To keep all fields, give "
            "{field_selection}.",
            field_selection="off",
        )
    ]


def _gain_line(useful: Sequence[FieldGain], row_name: str) -> str:
    if not useful:
        return "field selection: no field is left, so the context says nothing to this run"
    return f"field selection: kept, with the gain of each alone in nats, a mean over {row_name}s: {_listed(useful)}"


def _little_line(useful: Sequence[FieldGain], num_items: int, row_name: str) -> str:
    return (
        f"field selection: too little, with the gain of each alone in nats, a mean over {row_name}s: "
        f"{_listed(useful)}; over the whole training part {num_items * gain_at_least(useful):.0f} nats at least, and a "
        f"model that reads a weak context of fewer than {LEAST_GAIN:.0f} loses more by it than it gains. The context "
        "says nothing to this run"
    )


def _listed(gains: Sequence[FieldGain]) -> str:
    return ", ".join(f"{gain.name!r} {gain.nats:.3f}" for gain in sorted(gains, key=lambda gain: -gain.nats))
