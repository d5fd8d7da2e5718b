"""Train a run again without the customers that its recipe has forgotten, beside the run that knew them.

The run that is there is not touched: whoever has the new one removes it. docs/guides/privacy.md.
"""

from pathlib import Path

import numpy as np

from contextual_bert.context import ContextSchema, Feature
from contextual_bert.context.kinds.listed import ListedFeature
from contextual_bert.data import Split
from contextual_bert.data.forgotten import forgotten_rows
from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.evaluation import Report
from contextual_bert.places import PathPlace
from contextual_bert.runs.forgetting import starts_of
from contextual_bert.runs.run_directory import is_complete
from contextual_bert.runs.run_table import read_data
from contextual_bert.runs.runner import run
from contextual_bert.runs.tasks import Task, prepare
from contextual_bert.training.recipe import Recipe

SUFFIX = "-retrained"


def retrained_folder(directory: Path) -> Path:
    """Return the folder for a run that is trained again: beside it, and not that of a finished one.

    Example:
        >>> retrained_folder(Path("runs/gsu")).name
        'gsu-retrained'
    """
    first = directory.with_name(f"{directory.name}{SUFFIX}")
    numbered = (directory.with_name(f"{first.name}-{number}") for number in range(2, 10_000))
    return next(folder for folder in (first, *numbered) if not is_complete(folder))


def retrain_without(
    directory: Path, output: Path, *, data: Path | None = None, is_quiet: bool = False
) -> Report | None:
    """Train a run again without the customers that its recipe has forgotten.

    Their rows are in no part. Values of the context, items and words that only they had are not in the new run. An
    interrupted training goes on where it was.

    Args:
        directory: of the run, in whose recipe ``forget`` has left the hashes of the customers.
        output: of the new run.
        data: the table, where it lies in another file than the run says; None: that one.
        is_quiet: no progress bar.

    Returns:
        The report on the evaluated part, as ``run``.

    Raises:
        ConfigurationError: the recipe has forgotten nobody; it starts from a run that learned from their rows.
        DataError: the table cannot be read, or nothing is left of a part.
    """
    recipe = Recipe.load(directory)
    if not recipe.forgotten:
        raise ConfigurationError("has forgotten nobody", place=PathPlace(directory), fix="Forget a customer first.")
    if data is not None:
        recipe = recipe.changed(data=str(data))
    check_start(recipe)
    ready = with_seen_values(prepare(recipe))
    return run(ready.recipe, output, prepared=ready, is_resumed=True, is_quiet=is_quiet)


def check_start(recipe: Recipe) -> None:
    """Raise ConfigurationError where a recipe starts from a run that learned from rows of forgotten customers.

    A run on another table does not tell by itself: its own recipe says whom it has forgotten.
    """
    for start in starts_of(recipe):
        if not (start / "split.json").is_file():
            continue
        found, split = read_data(recipe).table, Split.load(start / "split.json")
        if split.is_of(found) and forgotten_rows(found, recipe.forgotten, file=recipe.data)[split.rows("train")].any():
            raise ConfigurationError(
                "learned from the rows of the customer, and this run starts from it",
                place=PathPlace(start),
                fix="Forget the customer there first, with --retrain. Then train this run from the new one.",
            )


def with_seen_values(ready: Task) -> Task:
    """Return the data with a schema that lists no value that the training part lacks."""
    schema = ready.processor.schema
    if schema is None:
        return ready
    read = ready.with_schema(schema.with_silenced(())) if schema.silenced_names else ready
    features = [found for each in schema.features if (found := _seen(each, read)) is not None]
    if features == [*schema.features]:
        return ready
    if not features:
        raise RunDirectoryError(
            "has a context of values that only the forgotten customers had",
            place=PathPlace(ready.recipe.data),
            fix="Train without a context.",
        )
    return ready.with_schema(ContextSchema(features=tuple(features)))


def _seen(feature: Feature, ready: Task) -> Feature | None:
    """Return a feature with the values that the training part has; None where it has none of them."""
    if not isinstance(feature, ListedFeature):
        return feature
    ids = {*np.unique(ready.datasets["train"].context[feature.name].numpy()).tolist()}
    kept = tuple(value for value in feature.values if feature.vocabulary.id_of_value(value) in ids)
    if kept == feature.values:
        return feature
    if not kept and feature.num_buckets is None:
        return None
    return type(feature).model_validate({**feature.model_dump(), "values": kept})
