"""The schema of a run: given, brought by another run, or inferred from the training part."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context import ContextSchema, InferredSchema, alike_warning
from contextual_bert.context.encoding import check_context_columns
from contextual_bert.context.infer import ColumnNote, SchemaSettings, check_named_columns, infer_features
from contextual_bert.context.kinds import KINDS
from contextual_bert.context.row_numbers import follows_in_time
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data import Audit, Split
from contextual_bert.data.checked_columns import checked_column, flatten_items, odd_keys
from contextual_bert.data.splits import names_parts
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message
from contextual_bert.inference import placed
from contextual_bert.places import JsonPlace, PathPlace
from contextual_bert.training.recipe import Recipe


def given_schema(recipe: Recipe) -> ContextSchema:
    """The schema that a recipe has, with its ``sensitive`` features marked.

    Raises:
        UnknownNameError: the schema reads no such column.
    """
    return ContextSchema.from_dict(dict(recipe.schema or {})).with_sensitive(recipe.sensitive)


def check_features(schema: ContextSchema | None, recipe: Recipe, *, run: str | None = None, file: str = "") -> None:
    """Raise ConfigurationError where a schema has as context what a recipe learns from, or a history beside texts.

    Args:
        schema: of the run that is gone on from, or of the recipe.
        recipe: whose columns they are.
        run: that brings the schema; None where the recipe has it.
        file: of the schema, for the message, where it is from one.
    """
    learned = recipe.task.columns
    for index, feature in enumerate(schema.features if schema is not None else ()):
        allowed = ""
        if feature.column in learned:
            problem = f"reads {feature.column!r} as context, and here it is learned or learned from"
        elif feature.shares_items and not recipe.task.has_items:
            problem = f"is a {feature.kind} of the items of sets, and here texts are learned from"
            allowed = f"Allowed: {', '.join(name for name, kind in KINDS.items() if not kind.shares_items)}."
        else:
            continue
        named = f"feature {feature.name!r}"
        place = JsonPlace(("features", index), file, words=named if file else f"the schema, {named}")
        fix = (
            f"Train that run without it: --exclude {feature.column}."
            if run is not None
            else "Leave it out of the schema: contextual-bert inspect, given the same columns, writes one without."
        )
        raise ConfigurationError(
            problem,
            place=PathPlace(run) if run is not None else place,
            value=feature.column,
            allowed=allowed,
            fix=fix,
        )


def check_missing_values(schema: ContextSchema, recipe: Recipe, *, columns: Collection[str]) -> None:
    """Raise where a schema that is given does not take a value for missing that a recipe names for a column.

    Args:
        schema: that is given.
        recipe: names the values: "age=999" of a column, "n/a" of each that has it.
        columns: of the table.

    Raises:
        UnknownNameError: the table has no such column.
        ConfigurationError: a feature of that column does not take the value.
    """
    check_named_columns(recipe.reading.missing_values, columns)
    for each in recipe.reading.missing_values:
        column, sign, value = each.rpartition("=")
        readers = [feature for feature in schema.features if feature.column == column]
        if sign and any(value not in feature.missing_words for feature in readers):
            raise ConfigurationError(
                f"is not under 'missing' of the feature {readers[0].name!r} of the schema",
                setting="missing_values",
                value=(each,),
                fix="Make the schema with it, or leave it out.",
            )


def check_brought(schema: ContextSchema | None, recipe: Recipe, *, run: str) -> None:
    """Raise ConfigurationError where a recipe says of the context what another run brings, or learns what it reads."""
    if recipe.sensitive:
        raise ConfigurationError(
            f"marks features, and {run} brings them as they are",
            setting="sensitive",
            value=recipe.sensitive,
            fix="Leave it out; train that run with it.",
        )
    if recipe.schema is not None and not ContextSchema.from_dict(dict(recipe.schema)).is_like(schema):
        raise ConfigurationError(
            "was trained with another schema",
            place=PathPlace(run),
            fix=Message("Leave {schema} out: the run brings its own.", schema=NAME),
        )
    check_features(schema, recipe, run=run)


def not_context(recipe: Recipe, overrides: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns that are no feature: those beside the context, but for the customer where an override names it."""
    learned = recipe.task.columns
    is_feature = overrides.get(str(recipe.customer), "ignore") != "ignore"
    kept = recipe.customer if is_feature and recipe.customer not in (*learned, *recipe.exclude) else None
    return tuple(name for name in recipe.columns_beside_context if name != kept)


def customers_in(recipe: Recipe, table: pa.Table, split: Split | None) -> str | pa.ChunkedArray | None:
    """The customers for ``infer_schema``: the recipe's column, else those that the split was made by.

    Values of fewer than ten of them are not in a schema that is inferred.
    """
    if recipe.customer is not None:
        return recipe.customer
    # The column itself stays what it is to the recipe, which does not call it that of the customers.
    return table.column(str(split.column)) if split is not None and split.by == "customer" else None


def schema_of(
    recipe: Recipe,
    training: pa.Table,
    rows: NDArray[np.int64],
    split: Split | None = None,
    *,
    everywhere: pa.Table,
    left_out: Collection[str] = (),
) -> InferredSchema | None:
    """The schema of the recipe, or one inferred from the training part; None where no column is left for it.

    Args:
        recipe: says which columns are no context.
        training: the table of the training part.
        rows: where its rows are in the file, for errors.
        split: names the customers where the recipe does not.
        everywhere: the rows of all parts.
        left_out: columns of the file that the table does not have, for its rows were grouped.
    """
    if recipe.schema is not None:
        schema = given_schema(recipe)
        check_features(schema, recipe)
        check_missing_values(schema, recipe, columns={*training.column_names, *left_out})
        check_context_columns(schema, training, file=recipe.data)
        try:
            return InferredSchema(schema.with_ranges(training), ())
        except DataError as error:
            raise placed(error, rows, file=recipe.data) from error
    exclude = [name for name in recipe.columns_beside_context if name not in left_out]
    if set(training.column_names) <= set(exclude):
        return None
    return inferred(recipe, training, rows, split, exclude=exclude, everywhere=everywhere, left_out=left_out)


def inferred(
    recipe: Recipe,
    training: pa.Table,
    rows: NDArray[np.int64],
    split: Split | None,
    *,
    exclude: Sequence[str],
    everywhere: pa.Table,
    overrides: Mapping[str, str] | None = None,
    left_out: Collection[str] = (),
) -> InferredSchema:
    """Infer the features of the training part as a recipe says.

    Args:
        recipe: says whose rows they are, how many customers a value needs, what is sensitive, how dates are written.
        training: the table of the training part.
        rows: where its rows are in the file, for errors.
        split: names the customers where the recipe does not.
        exclude: columns that are no context.
        everywhere: the rows of all parts.
        overrides: column -> a kind of feature or "ignore".
        left_out: columns of the file that the table does not have, for its rows were grouped.

    Raises:
        DataError, SchemaError, UnknownNameError: as ``infer_schema``, with the row of the file.
    """
    try:
        asked = SchemaSettings(
            exclude=exclude,
            overrides=dict(overrides or {}),
            date_formats=recipe.reading.date_formats,
            decimal=recipe.reading.decimal,
            missing_values=tuple(
                each for each in recipe.reading.missing_values if each.rpartition("=")[0] not in left_out
            ),
            customers=customers_in(recipe, training, split),
            min_count=recipe.min_customers,
            max_categories=recipe.max_categories,
            hash_buckets=recipe.hash_buckets,
            sensitive=tuple(name for name in recipe.sensitive if name not in left_out),
            time=time_of(split, training, everywhere, date_formats=recipe.reading.date_formats),
            items=items_in(recipe, training),
        )
        found = infer_features(training, asked, everywhere=everywhere)
        return replace(found, notes=tuple(_with_parts(note, everywhere) for note in found.notes))
    except DataError as error:
        raise placed(error, rows, file=recipe.data) from error


def items_in(recipe: Recipe, table: pa.Table) -> pa.Array | None:
    """Return the items of the sets of a table, each once; None where the recipe is not about sets."""
    if not recipe.task.has_items or not table.num_rows:
        return None
    task = recipe.set_task
    return flatten_items(
        table.column(task.items), items=task.items, separator=task.policy.separator, file=recipe.data
    ).names


def _with_parts(note: ColumnNote, table: pa.Table) -> ColumnNote:
    """Return the note on a column with a warning if it is a feature and says the part of each row."""
    if note.kind is None or not names_parts(table.column(note.column)):
        return note
    warning = (
        "it names the parts of a split, and is read as a feature. "
        f"Give --split-column {note.column} to train on these parts, or --exclude {note.column}"
    )
    return replace(note, warning="; ".join(filter(None, (note.warning, warning))))


def time_of(
    split: Split | None, training: pa.Table, everywhere: pa.Table, *, date_formats: Sequence[str] = ()
) -> str | None:
    """Return the column of times that a split goes by, None where its parts do not follow one another.

    Of parts that came with the data it is a column of dates in which validation and test are later than training.
    """
    if split is None or split.by in ("customer", "row"):
        return None
    if split.by == "time":
        return split.column
    return follows_in_time(training, everywhere, training.column_names, date_formats)


def without_leaks(
    schema: ContextSchema, found: Audit, overrides: Mapping[str, str] | None = None
) -> tuple[ContextSchema, tuple[str, ...]]:
    """Return the schema without the columns that leak what is asked for, and the names of these.

    Args:
        schema: the features that were inferred.
        found: the audit.
        overrides: column -> a kind; a column that one names stays.
    """
    kept = {*(overrides or {})}
    leaking = tuple(name for name in found.leaking_columns if name in schema.columns and name not in kept)
    if not leaking:
        return schema, ()
    return ContextSchema(features=tuple(each for each in schema.features if each.column not in leaking)), leaking


def leak_lines(columns: Sequence[str]) -> list[str]:
    """Return a sentence on columns that are left out of the context as leaks; none where there are none."""
    if not columns:
        return []
    named = ", ".join(map(repr, columns))
    return [
        Message(f"left out of the context as leaks: {named}. Give {{leaks}} if they are known before.", leaks="keep")
    ]


def withheld_lines(schema: ContextSchema | None) -> list[str]:
    """A sentence on the sensitive features, none where there are none."""
    names = [feature.name for feature in schema.features if feature.sensitive] if schema is not None else []
    listed = ", ".join(map(repr, names))
    return [f"context {listed}: sensitive, values withheld"] if names else []


def alike_values(schema: ContextSchema | None, training: pa.Table) -> list[str]:
    """Return warnings about values of the features' columns that look alike, such as 'Party' and 'party'.

    They name values of single rows, so they are for the person who trains. Values of sensitive features are not named.
    """
    found: list[str] = []
    for feature in schema.features if schema is not None else ():
        if feature.cells == "codes" and not feature.sensitive and feature.column in training.column_names:
            names = sorted(feature.distinct_values(training.column(feature.column).combine_chunks()))
            found += alike_warning(names, what=f"context {feature.name!r}:", each="a value")
    return found


def customer_warnings(recipe: Recipe, table: pa.Table) -> list[str]:
    """Return warnings about customers in two spellings, or called as a missing value is; none where none are named."""
    if recipe.customer is None or recipe.customer not in table.column_names:
        return []
    names = canonical_array(checked_column(table, recipe.customer)).drop_null().unique()
    return [f"warning: {told}" for told in odd_keys(names, column=recipe.customer, each="a customer")]
