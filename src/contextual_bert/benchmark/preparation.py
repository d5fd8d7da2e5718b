"""From a recipe to data sets and a processor: read, split, audit, infer the schema, encode. Trains nothing.

The vocabulary, the bins of numbers and rare values are taken from the training part alone. PROTOCOL, point 7.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context import ContextSchema, infer_schema
from contextual_bert.data import (
    Audit,
    SetDataset,
    SetTable,
    Split,
    audit,
    read_sets,
    read_table,
    split_by_customer,
    split_by_row,
    split_by_time,
)
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.inference import CompletionPipeline, encode_sets, placed
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.training.recipe import Recipe

DATA_FIELDS = (
    "data",
    "items",
    "customer",
    "time",
    "split",
    "split_by",
    "validation",
    "test",
    "split_seed",
    "policy",
    "exclude",
    "init_from",
)


@dataclass(frozen=True, eq=False)
class Preparation:
    """The data of one or more runs.

    Args:
        recipe: where it came from, the schema filled in.
        sets: all sets that were kept.
        split: the part of each row of the table.
        audit: what the leak audit found.
        processor: vocabulary of the training part, and the schema.
    """

    recipe: Recipe
    sets: SetTable
    split: Split
    audit: Audit
    processor: ContextualBertProcessor

    @cached_property
    def datasets(self) -> dict[str, SetDataset]:
        """Part -> encoded sets."""
        return {
            part: encode_sets(self.split.select(self.sets, part), self.processor, file=self.recipe.data)
            for part in ("train", "validation", "test")
            if np.isin(self.sets.rows, self.split.rows(part)).any()
        }

    def resolve(self, recipe: Recipe) -> Recipe:
        """The recipe of another run on these data, the schema filled in.

        Raises:
            ConfigurationError: it asks for other data.
        """
        resolved = replace(recipe, schema=self.recipe.schema)
        differing = [name for name in DATA_FIELDS if getattr(recipe, name) != getattr(self.recipe, name)]
        if recipe.schema is not None and ContextSchema.from_dict(dict(recipe.schema)) != self.processor.schema:
            differing.append("schema")
        if differing:
            raise ConfigurationError(
                f"These data were prepared with another {', '.join(differing)} than the recipe asks for. "
                "Prepare them for this recipe, or give the runs the same."
            )
        return resolved

    def with_context_size(self, size: int) -> Self:
        """The same sets, split and vocabulary, the sizes of the features' embeddings scaled to ``size`` in all.

        Raises:
            DataError: the table has no column for a context.
        """
        if self.processor.schema is None:
            raise DataError("has no column for a context", file=self.recipe.data, fix="Give a table with such columns.")
        schema = self.processor.schema.with_context_size(size)
        return replace(
            self,
            recipe=replace(self.recipe, schema=schema.to_dict()),
            processor=ContextualBertProcessor.from_items(self.processor.items.values, schema),
        )

    def customers(self, part: str) -> NDArray[np.str_] | None:
        """The customer of each set of a part, None where the table names none."""
        if self.sets.customer is None:
            return None
        return customers_of(self.split.select(self.sets, part))

    def lines(self) -> list[str]:
        """What was read, split and found, for people."""
        return [*self.sets.report.lines(), *self.split.lines(), *self.audit.lines()]


def prepare(recipe: Recipe, *, source: pa.Table | None = None) -> Preparation:
    """Read and encode the data of a recipe.

    Args:
        recipe: what to read.
        source: the table, where it was read already.

    Raises:
        DataError, UnknownNameError, SchemaError, ConfigurationError, RunDirectoryError: a fault of the table, of the
            recipe or of the run to start from, by name and place.
    """
    table = read_table(recipe.data) if source is None else source
    split = make_split(recipe, table)
    sets = read_sets(
        table,
        items=recipe.items,
        policy=recipe.policy,
        file=recipe.data,
        customer=recipe.customer,
        time=recipe.time,
        count_rows=split.rows("train"),
    )
    if not np.isin(sets.rows, split.rows("train")).any():
        raise DataError(
            "no set of the training part is left", file=recipe.data, fix="Loosen the item filters or the set sizes."
        )
    training = split.select(sets, "train")
    if recipe.init_from is not None:
        known = CompletionPipeline.from_pretrained(recipe.init_from).processor
        if recipe.schema is not None and ContextSchema.from_dict(dict(recipe.schema)) != known.schema:
            raise ConfigurationError(
                f"{recipe.init_from} was trained with another schema. Leave --schema out: the run brings its own."
            )
        processor, schema = known.with_items(training.distinct_items()), known.schema
    else:
        schema = schema_of(recipe, training)
        processor = ContextualBertProcessor.from_items(training.distinct_items(), schema)
    resolved = replace(recipe, schema=schema.to_dict() if schema is not None else None)
    return Preparation(resolved, sets, split, audit(split, sets, customer=recipe.customer), processor)


def make_split(recipe: Recipe, table: pa.Table) -> Split:
    """The split file that the recipe names, checked against the table, or a new split."""
    if recipe.split is not None:
        split = Split.load(recipe.split)
        split.check(table, file=recipe.data)
        return split
    shares: dict[str, Any] = {"validation": recipe.validation, "test": recipe.test, "file": recipe.data}
    if recipe.split_by == "time" and recipe.time is not None:
        return split_by_time(table, recipe.time, **shares)
    if recipe.customer is not None and recipe.split_by != "row":
        return split_by_customer(table, recipe.customer, seed=recipe.split_seed, **shares)
    return split_by_row(table, seed=recipe.split_seed, **shares)


def schema_of(recipe: Recipe, training: SetTable) -> ContextSchema | None:
    """The schema of the recipe, or one inferred from the training part; None where no column is left for it."""
    if recipe.schema is not None:
        return ContextSchema.from_dict(dict(recipe.schema))
    exclude = [name for name in (recipe.items, recipe.customer, *recipe.exclude) if name is not None]
    if set(training.table.column_names) <= set(exclude):
        return None
    try:
        return infer_schema(training.table, exclude=exclude).schema
    except DataError as error:
        raise placed(error, training, file=recipe.data) from error


def customers_of(sets: SetTable) -> NDArray[np.str_]:
    """The customer of each set, as text."""
    column = sets.table.column(str(sets.customer))
    return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=np.str_)
