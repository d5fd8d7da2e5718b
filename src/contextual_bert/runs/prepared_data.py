"""Data of a run: a recipe, a split, a processor, and a data set for each part.

It reads nothing: ``prepare`` of the tasks does. What differs from kind to kind is said by the tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context import ContextSchema, Feature, canonical_array
from contextual_bert.context.binning import customers_of_values
from contextual_bert.context.limits import MIN_CUSTOMERS
from contextual_bert.data import Audit, SetTable, Split, TextTable, new_split
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.forgotten import forgotten_rows
from contextual_bert.data.splits import PARTS, ready_split
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message
from contextual_bert.evaluation import EvaluationSettings, Scores, Unscored
from contextual_bert.frames import Frame, as_table
from contextual_bert.inference import placed
from contextual_bert.nouns import agreeing, counted
from contextual_bert.runs.registry import task_of_row
from contextual_bert.runs.run_directory import SPLIT_DIGEST
from contextual_bert.runs.run_schema import given_schema, leak_lines, withheld_lines
from contextual_bert.runs.run_table import RunTable, audit_of, file_parts, joined_assignment
from contextual_bert.runs.shifts import field_lines, part_rows
from contextual_bert.training.recipe import RECIPE_FILE, Recipe
from contextual_bert.training.task_settings import TaskSettings

if TYPE_CHECKING:
    from torch import Tensor

    from contextual_bert.item_features import EncodedItems
    from contextual_bert.models import ContextualBertProcessor

DATA_FIELDS = (
    "data",
    "task",
    "customer",
    "time",
    "split",
    "split_column",
    "validation_data",
    "test_data",
    "split_by",
    "validation",
    "test",
    "split_seed",
    "reading",
    "exclude",
    "min_customers",
    "max_categories",
    "hash_buckets",
    "field_selection",
    "leaks",
    "sensitive",
    "forgotten",
)
NOTHING_HELD_OUT = (
    "nothing is held out: all rows are trained on, the last epoch is kept, and no figure says how good the model is"
)


def share_line(feature: Feature, contexts: "Mapping[str, Mapping[str, Tensor | NDArray[Any]]]") -> str | None:
    """Return a line on one feature; None for numbers and vectors, and where all rows of all parts keep their value.

    Args:
        feature: what is encoded.
        contexts: part -> its encoded context.

    Example:
        >>> import torch
        >>> from contextual_bert.context import Categorical
        >>> feature = Categorical(name="user", values=("u1",), num_buckets=2)
        >>> share_line(feature, {"train": {"user": torch.tensor([2, 2, 3, 4])}}).partition("; ")[2]
        'train: 50.0% of the rows keep their value, 50.0% a bucket'
    """
    if feature.silenced or feature.cells != "codes" or feature.layout.unknown_id is None:
        return None
    shares = {part: _shares(feature, np.asarray(context[feature.name])) for part, context in contexts.items()}
    if all(own == 1 for own, _, _ in shares.values()):
        return None
    told: list[str] = []
    for part, (own, shared, unknown) in shares.items():
        said = [f"{part}: {own:.1%} of the rows keep their value"]
        said += [f"{shared:.1%} a bucket"] if shared else []
        said += [f"{unknown:.1%} unknown"] if unknown else []
        told.append(", ".join(said))
    buckets = f", {feature.num_shared:,} hashed buckets" if feature.num_shared else ""
    return f"context {feature.name!r}: {len(feature.listed):,} values of their own{buckets}; {'; '.join(told)}"


def _shares(feature: Feature, ids: NDArray[np.int64]) -> tuple[float, float, float]:
    """Return the shares of the given values that are their own, shared and unknown; 1, 0, 0 where none is given."""
    layout, first_shared = feature.layout, feature.first_shared_id
    is_own = (ids >= layout.num_reserved) & (ids < first_shared)
    counts = [int(is_own.sum()), int((ids >= first_shared).sum()), int((ids == layout.unknown_id).sum())]
    total = sum(counts)
    return (counts[0] / total, counts[1] / total, counts[2] / total) if total else (1.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedData:
    """The data of one or more runs.

    Args:
        recipe: where they came from, the schema filled in.
        split: the part of each row of the table.
        processor: vocabulary or tokenizer, and schema.
        examples: all sets that were kept, or all texts.
        origin: where the rows come from, without the rows; None where that is not known.
        remarks: what the person who trains should see, and nobody else, for they name values of single rows: what the
            table has, and lacks, beside the run that is gone on from, and values that look wrong.
        selection: sentences on the choice of fields, where one was made.
        leaks: the audit of all columns that could be features, where it was made before some were left out.
        leaking: columns that were left out of the context as leaks.
        part_name: what the evaluated rows are called where they are no part of a split.
        item_features: of sets, the features of the items of the vocabulary; None: items are names alone.
    """

    recipe: Recipe
    split: Split
    processor: "ContextualBertProcessor"
    examples: SetTable | TextTable
    origin: RunTable | None = None
    remarks: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()
    leaks: Audit | None = None
    leaking: tuple[str, ...] = ()
    part_name: str | None = None
    item_features: "EncodedItems | None" = None

    @cached_property
    def datasets(self) -> dict[str, Any]:
        """Part -> what is trained on or scored; parts without a row are left out."""
        with self.origin.placed() if self.origin is not None else nullcontext():
            found = {part: self.encoded(part) for part in PARTS}
        return {part: dataset for part, dataset in found.items() if dataset is not None}

    def num_learned_rows(self, recipe: Recipe) -> int:
        """Return the number of rows that a training of this recipe learns from in an epoch."""
        return len(self.datasets["train"])

    @property
    def evaluated_part(self) -> str | None:
        """The part that the final numbers are of: test, or validation where there is no test; None: all rows train.

        Raises:
            DataError: nothing is left of either.
        """
        for part in ("test", "validation"):
            if part in self.datasets:
                return part
        if not any(len(self.split.rows(part)) for part in ("validation", "test")):
            return None
        raise DataError(
            "nothing of the validation part and nothing of the test part is left to evaluate",
            file=self.recipe.data,
            fix="Give more rows, larger shares for these parts, or looser filters: items that training does not have "
            "are dropped.",
        )

    @property
    def head(self) -> str:
        """Return the kind of the task, a key of ``TASKS``."""
        return self.recipe.task.kind

    def encoded(self, part: str) -> Any:
        """The data set of a part, None where it has no row."""
        raise NotImplementedError

    def customers(self, part: str) -> NDArray[np.str_] | None:
        """The customer of each set or text of a part, None where the table names none.

        Raises:
            DataError: one is missing.
        """
        self.split.check_rows(self.examples)
        rows = self.examples.rows
        return self.customers_of(rows[np.isin(rows, self.split.rows(part))])

    def customers_of(self, rows: NDArray[np.int64]) -> NDArray[np.str_] | None:
        """The customer of each of these rows of the table, None where it names none.

        Raises:
            DataError: one is missing.
        """
        column = self.examples.customer
        if column is None:
            return None
        # Of the one column: the others, and the items, are copied for nothing.
        places = np.searchsorted(self.examples.rows, rows)
        chosen = self.examples.table.select([column]).take(pa.array(places))
        try:
            checked_column(chosen, column, complete=True)
        except DataError as error:
            raise placed(error, rows, file=self.recipe.data) from error
        return column_as_text(chosen, column)

    @cached_property
    def audit(self) -> Audit:
        """Whether rows or customers are in two parts, or a column of the context gives away what is asked for."""
        if self.leaks is not None:
            return self.leaks
        schema, origin = self.processor.schema, self.origin
        return audit_of(self.split, self.examples, schema, groups=origin.groups if origin is not None else None)

    def with_context_size(self, size: int) -> Self:
        """The same data, the sizes of the features' embeddings scaled to ``size`` in all.

        Raises:
            DataError: the table has no column for a context.
        """
        if self.processor.schema is None:
            raise DataError("has no column for a context", file=self.recipe.data, fix="Give a table with such columns.")
        return self.with_schema(self.processor.schema.with_context_size(size))

    def with_silenced(self, names: Iterable[str], *, selection: Sequence[str]) -> Self:
        """The same data; these features, and no others, are not read.

        Args:
            names: of the features.
            selection: sentences on the choice.
        """
        schema = self.processor.schema
        assert schema is not None
        return self.with_schema(schema.with_silenced(names), selection=selection)

    def with_schema(self, schema: ContextSchema, *, selection: Sequence[str] = ()) -> Self:
        """The same data with another schema of the same columns; ``selection`` are sentences on the choice."""
        return replace(
            self,
            recipe=self.recipe.on_data(schema=schema.to_dict()),
            processor=self.processor.with_schema(schema),
            selection=tuple(selection),
        )

    @property
    def has_field_gains(self) -> bool:
        """Whether ``training.field_selection`` can say what a field of the context tells here."""
        return True

    @property
    def goes_on(self) -> bool:
        """Whether a run is gone on from, which brings its schema."""
        return self.recipe.task.run_to_start_from is not None

    @property
    def vocab_size(self) -> int:
        """Return the number that ids of items or tokens are below."""
        raise NotImplementedError

    def unranked_lines(self, part: str, num_unknown: int) -> list[str]:
        """Return sentences on what of a part was scored by a sample, or could not be ranked."""
        raise NotImplementedError

    def unscored(self, part: str, scores: Scores) -> Unscored | None:
        """Return counts of what was not scored in a part, or None if it is not counted."""
        return None

    def lines(self) -> list[str]:
        """Return sentences on what was read, split and found."""
        read = [*(self.origin.lines() if self.origin is not None else ()), *self.examples.lines()]
        audited = [*self.audit.lines(), *leak_lines(self.leaking), *self.held_out_lines()]
        warned = [*self.share_lines(), *self.shift_lines, *self.unlearned_lines(), *self.holding_lines()]
        return [*read, *self.split.lines(), *self.own_lines(), *audited, *warned, *self.selection]

    def own_lines(self) -> list[str]:
        """Return sentences on what this kind of task found in the data."""
        return []

    def check_readable(self, part: str) -> None:
        """Raise DataError where a part has nothing to score, whatever the model."""

    def customer_lines(self) -> list[str]:
        """Return a sentence on new customers of the evaluated part; none if customers are not named."""
        part = self.evaluated_part
        if part is None:
            return []
        own, known = self.customers(part), self.customers("train")
        if own is None or known is None:
            return []
        names = np.unique(own)
        num_new = int((~np.isin(names, known)).sum())
        customers = counted(len(names), self.settings.cluster_name)
        return [f"{num_new:,} of {customers} of the {part} part {agreeing('are', num_new)} not in training"]

    def held_out_lines(self) -> list[str]:
        """Return a sentence where all rows are trained on."""
        return [] if self.evaluated_part is not None else [NOTHING_HELD_OUT]

    def unlearned_lines(self) -> list[str]:
        """A sentence on the features that are new in validation or test at times, and never in training."""
        schema = self.processor.schema
        if schema is None or self.recipe.training.get("field_dropout"):
            return []
        unlearned: list[str] = []
        for feature in schema.layout:
            if feature.unknown_id is not None:
                parts = [
                    part for part, data in self.datasets.items() if feature.unknown_id in data.context[feature.name]
                ]
                unlearned += [repr(feature.name)] * bool(parts and "train" not in parts)
        if not unlearned:
            return []
        return [
            Message(
                f"context {', '.join(unlearned)}: validation or test have values that training has not, and what to "
                "say of such values is not learned. Set {field_dropout}, or leave the column out.",
                field_dropout=0.1,
            )
        ]

    def holding_lines(self) -> list[str]:
        """A sentence on sensitive features, and one a feature of which the run holds values of few customers."""
        schema, customers = self.processor.schema, self.customers("train")
        if schema is None or customers is None:
            return withheld_lines(schema)
        codes, context = np.unique(customers, return_inverse=True)[1], self.datasets["train"].context
        lines = withheld_lines(schema)
        for feature, layout in zip(schema.read_features, schema.layout, strict=True):
            if layout.unknown_id is None or feature.date is not None:
                continue
            ids = context[feature.name].numpy().reshape(len(codes), -1)
            owners = np.repeat(codes, ids.shape[1])
            counts = customers_of_values(ids.ravel(), owners, num_values=layout.num_embeddings)[layout.num_reserved :]
            is_few, num_values = (counts > 0) & (counts < MIN_CUSTOMERS), len(counts) - feature.num_shared
            if few := int(is_few[:num_values].sum()):
                lines.append(
                    f"context {feature.name!r}: {few:,} of {counted(num_values, 'value')} {agreeing('have', few)} "
                    f"fewer than {MIN_CUSTOMERS} customers each, and the run holds every one"
                )
            if few := int(is_few[num_values:].sum()):
                lines.append(
                    f"context {feature.name!r}: {few:,} of {counted(len(counts) - num_values, 'hashed bucket')} "
                    f"{agreeing('have', few)} fewer than {MIN_CUSTOMERS} customers each; the run holds vectors and no "
                    "value"
                )
        return lines

    def share_lines(self) -> list[str]:
        """A line a feature some of whose values have no vector of their own: the share of each part that keeps its."""
        schema = self.processor.schema
        if schema is None:
            return []
        contexts = {part: data.context for part, data in self.datasets.items()}
        return [line for feature in schema.features if (line := share_line(feature, contexts)) is not None]

    @cached_property
    def shift_lines(self) -> tuple[str, ...]:
        """Sentences on what differs between training and the other parts: fields, and the shares of items or labels."""
        rows = {part: part_rows(data, self.customers(part)) for part, data in self.datasets.items()}
        part = self.evaluated_part
        return (*field_lines(self.processor.schema, rows), *(self.drift_lines(part) if part is not None else ()))

    def drift_lines(self, part: str) -> list[str]:
        """Return a sentence on the items, or labels, whose share differs most between training and a part."""
        return []

    @property
    def num_choices(self) -> int:
        """Among how many items or labels the true one is ranked."""
        raise NotImplementedError

    def choices_in(self, part: str) -> int:
        """Return ``num_choices`` of one part, where parts have different ones."""
        return self.num_choices

    @property
    def settings(self) -> EvaluationSettings:
        """Return the evaluation settings for these data."""
        return EvaluationSettings()

    @property
    def digests(self) -> dict[str, str]:
        """Name -> hash of what a run depends on beside its recipe: the split, which has that of the table."""
        return {SPLIT_DIGEST: self.split.digest}

    @property
    def facts(self) -> dict[str, Any]:
        """Return what a run writes of its data beside the recipe, for those who use its model."""
        return {}

    @property
    def model_fields(self) -> Mapping[str, Any]:
        """Return the config fields that follow from the data, beside the recipe's own."""
        return {}

    def resolve(self, recipe: Recipe) -> Recipe:
        """The recipe of another run on these data, the schema filled in.

        A baseline of sets leaves the gaps of time unread that the data have.

        Raises:
            ConfigurationError: it asks for other data.
        """
        resolved = recipe.on_data(schema=self.recipe.schema, task=recipe.task.as_kind(self.recipe.task.kind))
        own = self.recipe.on_data(schema=self.recipe.schema, task=task_of_row(self.recipe, recipe.conditioning))
        differing = [
            each
            for name in DATA_FIELDS
            if getattr(resolved, name) != getattr(own, name)
            for each in (_unlike(resolved.task, own.task) if name == "task" else [name])
        ]
        if recipe.schema is not None and not self._has_schema(given_schema(recipe)):
            differing.append("schema")
        if differing:
            raise ConfigurationError(
                f"These data were prepared with another {', '.join(differing)} than the recipe asks for",
                fix="Prepare them for this recipe, or give the runs the same.",
            )
        return resolved

    def _has_schema(self, given: ContextSchema) -> bool:
        """Whether a schema is that of these data, as it was before fields of it were silenced or as it is."""
        own = self.processor.schema
        return given.is_like(own) or (
            bool(self.selection) and own is not None and given.is_like(own.with_silenced(given.silenced_names))
        )


def _unlike(task: TaskSettings, other: TaskSettings) -> list[str]:
    """Return the names of the fields in which two tasks differ; "task" alone where they are of two kinds."""
    if type(task) is not type(other):
        return ["task"]
    return [each.name for each in fields(task) if getattr(task, each.name) != getattr(other, each.name)]


def make_split(recipe: Recipe, table: Frame, *, sizes: Sequence[int] = ()) -> Split:
    """Return the split file that the recipe names, checked against the table, or a new split.

    A part that has no file of its own is drawn from the training file, where its share is not 0. Rows of customers that
    the recipe has forgotten are in no part.

    Args:
        recipe: says how.
        table: all rows.
        sizes: rows of each file of the recipe, where there are several.
    """
    table = as_table(table)
    split = _whole_split(recipe, table, sizes=sizes)
    return split.restricted(~forgotten_rows(table, recipe.forgotten, file=recipe.data)) if recipe.forgotten else split


def _whole_split(recipe: Recipe, table: pa.Table, *, sizes: Sequence[int]) -> Split:
    how: dict[str, Any] = {"group_by": recipe.task.grouping, "file": recipe.data}
    if recipe.split_column is not None:
        return new_split(table, "column", recipe.split_column, **how)
    if len(sizes) > 1:
        shares = {
            "validation": 0.0 if recipe.validation_data is not None else recipe.validation,
            "test": 0.0 if recipe.test_data is not None else recipe.test,
        }
        own = table.slice(0, sizes[0])
        train = np.zeros(sizes[0], dtype=np.uint8)
        if sum(shares.values()):
            one_file = replace(recipe, validation_data=None, test_data=None, **shares)
            train = _whole_split(one_file, own, sizes=()).assignment
        made = ready_split(table, joined_assignment(train, sizes, file_parts(recipe)), by="file")
        return replace(made, group_by=recipe.task.grouping)
    if recipe.split is not None:
        split = Split.load(recipe.split)
        check_grouping(split, recipe)
        split.check(table, file=recipe.data)
        return split
    how["shares"] = (recipe.validation, recipe.test)
    if recipe.split_by == "time" and recipe.time is not None:
        return new_split(table, "time", recipe.time, reading=recipe.reading, **how)
    if recipe.customer is not None and recipe.split_by != "row":
        return new_split(table, "customer", recipe.customer, seed=recipe.split_seed, **how)
    return new_split(table, "row", seed=recipe.split_seed, **how)


def check_grouping(split: Split, recipe: Recipe) -> None:
    """Raise ConfigurationError where a split file is of rows that were grouped in another way than the recipe's."""
    if split.group_by != recipe.task.grouping:
        made = f"grouped by {', '.join(split.group_by)}" if split.group_by else "not grouped"
        fix = (
            "Give {group_by}, or make a new split." if split.group_by else "Leave {group_by} out, or make a new split."
        )
        raise ConfigurationError(
            f"is of rows that are {made}, and those of {recipe.data} are "
            f"{'grouped by ' + ', '.join(recipe.task.grouping) if recipe.task.grouping else 'not'}",
            setting="split",
            value=recipe.split,
            fix=Message(fix, group_by=tuple(split.group_by) or NAME),
        )


def beside_context(recipe: Recipe, *, run: str) -> tuple[str, ...]:
    """Return the columns that are no context of a recipe, and those that the run it goes on from left out."""
    path = Path(run)
    theirs = Recipe.load(path).exclude if (path / RECIPE_FILE).is_file() else ()
    times = (recipe.time,) if recipe.time is not None else ()
    return (*recipe.columns_beside_context, *times, *theirs)


def column_as_text(table: pa.Table, name: str) -> NDArray[np.str_]:
    """The values of a column, as text."""
    return as_names(table.column(name))


def as_names(column: pa.ChunkedArray) -> NDArray[np.str_]:
    """The values of a column in memory, as text."""
    return np.asarray(canonical_array(column).to_numpy(zero_copy_only=False), dtype=np.str_)


def customers_of(examples: SetTable | TextTable) -> NDArray[np.str_] | None:
    """The customer of each set or text, as text; None where no column names one."""
    return column_as_text(examples.table, examples.customer) if examples.customer is not None else None


def num_trained_by(run: Split, split: Split, part: str) -> int:
    """Return the number of rows of a part that another run on the same table trains on; 0 for another table."""
    if run.data_digest != split.data_digest:
        return 0
    return int(np.isin(split.rows(part), run.rows("train")).sum())
