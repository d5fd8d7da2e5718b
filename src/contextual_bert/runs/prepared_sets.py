"""From a recipe to data sets and a processor: read, split, audit, infer the schema, encode. Trains nothing.

The vocabulary, the bins of numbers and rare values are taken from the training part alone. docs/protocol.md, "Splits".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.candidates import SoftmaxOver
from contextual_bert.context import ContextSchema
from contextual_bert.data import (
    Audit,
    SequenceDataset,
    SetTable,
    audit,
    read_sets,
)
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message
from contextual_bert.evaluation import Scores, Unscored
from contextual_bert.frames import Frame
from contextual_bert.inference import CompletionPipeline, encode_sets, outside_lines_of
from contextual_bert.inference.saved_files import LARGEST_SET
from contextual_bert.models import ContextualBertProcessor
from contextual_bert.runs.audits import audit_of_file
from contextual_bert.runs.next_table import check_columns_of_run, context_lines, item_lines, missing_items
from contextual_bert.runs.prepared_data import (
    PreparedData,
    alike_values,
    beside_context,
    check_brought,
    check_unlearned,
    column_as_text,
    customers_in,
    leak_lines,
    make_split,
    schema_of,
    without_leaks,
)
from contextual_bert.runs.run_table import RunTable, read_data
from contextual_bert.runs.shifts import counts_of, drift_line
from contextual_bert.runs.unscored import unscored_items
from contextual_bert.training.recipe import Recipe


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedSets(PreparedData):
    """The sets of one or more runs.

    Args:
        recipe: where they came from, the schema filled in.
        split: the part of each row of the table.
        processor: vocabulary of the training part, and the schema.
        sets: all sets that were kept.
        learned_items: the items that a finished run learned from, where they are in no part of these data.
    """

    named: ClassVar[str] = "items"
    sets: SetTable
    learned_items: pa.Array | None = None

    @cached_property
    def audit(self) -> Audit:
        """Whether sets or customers are in two parts, or a column of the context gives items away."""
        if self.leaks is not None:
            return self.leaks
        schema = self.processor.schema
        columns = schema.columns if schema is not None else ()
        leaks = audit(self.split, self.sets, customer=self.recipe.customer, context=columns)
        return audit_of_file(leaks, self.origin.groups if self.origin is not None else None)

    @cached_property
    def training_ids(self) -> NDArray[np.int64] | None:
        """The ids of all items that were learned from, None where they are not known."""
        if self.learned_items is not None:
            known = self.processor.items.lookup(self.learned_items)
            return known[known >= 0]
        # A copy: workers of a data loader that are spawned take the data set's memory with them.
        return self.datasets["train"].input_ids.numpy().copy() if "train" in self.datasets else None

    def encoded(self, part: str) -> SequenceDataset | None:
        """The encoded sets of a part, None where it has none."""
        chosen = self.split.select(self.sets, part)
        return encode_sets(chosen, self.processor, file=self.recipe.data) if len(chosen) else None

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
            recipe=self.recipe.on_data(schema=schema.to_dict()),
            processor=ContextualBertProcessor.from_items(self.processor.items.values, schema),
        )

    def with_silenced(self, names: Iterable[str], *, selection: Sequence[str]) -> Self:
        schema = self.processor.schema
        assert schema is not None
        schema = schema.with_silenced(names)
        return replace(
            self,
            recipe=self.recipe.on_data(schema=schema.to_dict()),
            processor=ContextualBertProcessor.from_items(self.processor.items.values, schema),
            selection=tuple(selection),
        )

    def rows_of(self, part: str) -> pa.Table:
        return self.split.select(self.sets, part).table

    @property
    def vocab_size(self) -> int:
        return len(self.processor.items)

    @cached_property
    def softmax_over(self) -> SoftmaxOver:
        """Return the candidates of the loss. Visible items are among them if a training set holds an item twice."""
        training = self.datasets["train"]
        rows = np.repeat(np.arange(len(training)), training.sizes)
        pairs = rows * len(self.processor.items) + training.input_ids.numpy()
        return "candidates" if len(np.unique(pairs)) == len(pairs) else "items"

    def customers(self, part: str) -> NDArray[np.str_] | None:
        """The customer of each set of a part, None where the table names none."""
        if self.sets.customer is None:
            return None
        self.split.check_rows(self.sets)
        is_chosen = np.isin(self.sets.rows, self.split.rows(part))
        # Of the one column: the others, and the items, are copied for nothing.
        return column_as_text(self.sets.table.select([self.sets.customer]).filter(is_chosen), self.sets.customer)

    def names(self, part: str) -> pa.Array | None:
        """Return the items in the sets of a part."""
        return self.split.select(self.sets, part).values

    def unranked_lines(self, part: str, num_unknown: int) -> list[str]:
        """Return a sentence on the items that the vocabulary does not know; none where it knows all."""
        if num_unknown == 0:
            return []
        values = self.split.select(self.sets, part).values
        is_known = self.processor.items.lookup(values) >= 0
        new = sorted(set(values.filter(pa.array(~is_known)).to_pylist()))
        listed = ", ".join(new[:5]) + (", ..." if len(new) > 5 else "")
        return [
            f"{num_unknown:,} of {len(values):,} positions hold one of {len(new):,} items that the run never saw "
            f"({listed}): they cannot be ranked and are left out"
        ]

    def unscored(self, part: str, scores: Scores) -> Unscored | None:
        """The items of a part that were not scored: rare and new ones, those of sets that are left out or cut."""
        return unscored_items(
            self.sets,
            self.datasets[part],
            scores,
            rows=self.split.rows(part),
            part=self.part_name or part,
            policy=self.recipe.set_task.policy,
            customers=self.customers(part),
        )

    def lines(self) -> list[str]:
        """Return sentences on what was read, split and found."""
        read = [*(self.origin.lines() if self.origin is not None else ()), *self.sets.report.lines()]
        found = [*read, *self.split.lines(), *self.audit.lines(), *leak_lines(self.leaking)]
        warned = [*self.share_lines(), *self.shift_lines, *self.unlearned_lines(), *self.holding_lines()]
        return [*found, *self.held_out_lines(), *warned, *self.selection]

    def drift_lines(self, part: str) -> list[str]:
        """Return a sentence on the items whose share differs most between training and a part."""
        items = self.processor.items
        first = len(items.reserved)
        counts = (counts_of(self.datasets[each].input_ids - first, len(items.values)) for each in ("train", part))
        return drift_line(items.values.__getitem__, *counts, part=part, what="items")

    @property
    def facts(self) -> dict[str, Any]:
        """Return the size of the largest training set."""
        return {LARGEST_SET: int(self.datasets["train"].sizes.max())}

    @property
    def num_choices(self) -> int:
        """Return the number of ranked items."""
        return len(self.processor.items.values)


def prepare(recipe: Recipe, *, source: Frame | None = None) -> PreparedSets:
    """Read and encode the data of a recipe.

    Args:
        recipe: what to read.
        source: the table, where it is in memory: pyarrow, pandas, polars or `datasets`.

    Raises:
        DataError, UnknownNameError, SchemaError, ConfigurationError, RunDirectoryError: a fault of the table, of the
            recipe or of the run to start from, by name and place.
    """
    start = recipe.set_task.init_from
    known = CompletionPipeline.from_pretrained(start).processor if start is not None else None
    brought = known.schema.code_columns if known is not None and known.schema is not None else ()
    rows = read_data(recipe, source, codes=brought)
    with rows.placed():
        return _prepared(recipe, rows, known)


def _prepared(recipe: Recipe, rows: RunTable, known: ContextualBertProcessor | None) -> PreparedSets:
    """Return the prepared data of a table with one row a set.

    Args:
        recipe: what was read.
        rows: the table.
        known: the processor of the run that is started from, None for a new one.
    """
    table, task = rows.table, recipe.set_task
    split = make_split(recipe, table, sizes=rows.sizes)
    sets = read_sets(
        table,
        items=task.items,
        on_bad_row=recipe.reading.on_bad_row,
        policy=task.policy,
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
    in_a_part = sets.select(split.is_in_part[sets.rows])  # of customers who are left out nothing is said
    news: list[str] = []
    leaks, leaking = None, tuple[str, ...]()
    if known is not None and task.init_from is not None:
        check_brought(recipe, run=task.init_from)
        if recipe.schema is not None and not ContextSchema.from_dict(dict(recipe.schema)).is_like(known.schema):
            raise ConfigurationError(
                f"{task.init_from} was trained with another schema", fix="Leave --schema out: the run brings its own."
            )
        check_unlearned(known.schema, recipe, run=task.init_from)
        check_columns_of_run(known.schema, table, run=task.init_from, file=recipe.data)
        gone, schema = missing_items(known, sets.values), known.schema
        kept = known.without_items(gone) if task.retire_missing_items and gone else known
        if not kept.items.values:
            raise DataError(
                f"no set holds an item of {task.init_from}: all would be retired",
                file=recipe.data,
                fix=Message("Train without {init_from}, or name the column of its items.", init_from=NAME),
            )
        processor = kept.with_items(training.distinct_items())
        places = {"run": task.init_from, "file": recipe.data}
        beside = beside_context(recipe, run=task.init_from)
        news = [
            *item_lines(known, training.values, gone, are_retired=task.retire_missing_items, **places),
            *context_lines(
                schema,
                training.table,
                beside=beside,
                customers=customers_in(recipe, training.table, split),
                min_customers=recipe.min_customers,
                **places,
            ),
        ]
    else:
        found = schema_of(
            recipe, training.table, training.rows, split, everywhere=in_a_part.table, left_out=tuple(rows.left_out)
        )
        schema = found.schema if found is not None else None
        news += [*found.remarks(), *found.warnings()] if found is not None else []
        if schema is not None and recipe.schema is None and recipe.leaks == "drop":
            leaks = audit_of_file(audit(split, sets, customer=recipe.customer, context=schema.columns), rows.groups)
            schema, leaking = without_leaks(schema, leaks)
        processor = ContextualBertProcessor.from_items(training.distinct_items(), schema)
    resolved = recipe.on_data(schema=schema.to_dict() if schema is not None else None)
    first_rows = rows.groups.first_rows if rows.groups is not None else None
    news += [
        *alike_values(schema, training.table),
        *outside_lines_of(in_a_part, processor, first_rows=first_rows),
    ]
    return PreparedSets(
        recipe=resolved,
        split=split,
        processor=processor,
        sets=sets,
        origin=rows.without_rows(),
        news=tuple(news),
        leaks=leaks,
        leaking=leaking,
    )


def customers_of(sets: SetTable) -> NDArray[np.str_]:
    """The customer of each set, as text."""
    return column_as_text(sets.table, str(sets.customer))
