"""Tables of sets in, folders of files with their completions out."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_list
from contextual_bert.data import Groups, group_rows, read_table, reading_lines, table_digest
from contextual_bert.data.checked_columns import check_separator, checked_column
from contextual_bert.data.groups import OrderedItems, placing, separator_of_cells
from contextual_bert.data.ordered import ItemOrder
from contextual_bert.data.policies import no_order
from contextual_bert.data.readers import without_gaps
from contextual_bert.data.reading_notes import rows_of_file
from contextual_bert.data.time_gaps import ItemTimes, check_unit
from contextual_bert.errors import DataError, SchemaError
from contextual_bert.frames import Frame
from contextual_bert.inference.base_pipeline import BaseCompletionPipeline
from contextual_bert.inference.constraints import constraint_keys
from contextual_bert.inference.context_notes import table_lines, with_absent_columns
from contextual_bert.inference.encode import naming
from contextual_bert.inference.queries import MASK, loss_notes
from contextual_bert.inference.reread import SPELT, reread_context, with_spelt
from contextual_bert.inference.tables.bulk import (
    ROW,
    TIMES_COLUMN,
    BulkSettings,
    TableCompleter,
    context_columns,
    item_lists,
    settled,
)
from contextual_bert.inference.tables.shards import SHARD_SIZE, BulkReport, ShardCounts, ShardPlan
from contextual_bert.json_text import json_text
from contextual_bert.nouns import agreeing, counted

FORMAT = "contextual-bert completions 1"


class SetShardPlan(ShardPlan):
    """The files of a table's completions.

    Args:
        pipeline: the model.
        source: the table: a path, or a table in memory as ``read_table`` takes it.
        output: folder of the files; finished ones are kept where they are of the same table, model and settings.
        settings: columns, constraints and sizes.
        shard_size: rows of the table a file.

    Raises:
        ConfigurationError: the folder holds the completions of something else.
        DataError, SchemaError, UnknownNameError: a faulty table, where columns are whole.
    """

    def __init__(
        self,
        pipeline: BaseCompletionPipeline,
        source: str | Path | Frame,
        output: Path,
        *,
        settings: BulkSettings,
        shard_size: int,
    ) -> None:
        settings, self.noun = settled(settings, pipeline), pipeline.sets.row_noun
        codes = (settings.items, *settings.keep, *pipeline.processor.code_columns)
        self.file = str(source) if isinstance(source, str | Path) else None
        table = read_table(source, text_columns=settings.group_by, code_columns=codes, settings=settings.reading)
        order, order_lines = item_order(table, pipeline, settings)
        is_grouped = bool(settings.group_by)
        faults = order.faults(table, items=settings.items, is_grouped=is_grouped) if order is not None else None
        table = without_gaps(table, settings.group_by, settings.reading, file=self.file, faults=faults)
        read = reread_context(table, pipeline.processor.schema, settings.reading)
        table = with_spelt(read, table, settings.keep)
        notes, own_rows = reading_lines(table), rows_of_file(table)
        table, absent = with_absent_columns(table, pipeline.processor.schema)
        notes += absent
        for name in settings.keep:
            checked_column(table, name, file=self.file)
        self.groups = grouped(table, pipeline, settings, order, file=self.file) if settings.group_by else None
        times = None
        if self.groups is not None:
            table, times = self.groups.table, self.groups.times
        elif order is not None:
            table, times = order.with_times(table, items=settings.items, file=self.file)
        table = with_times(table, times, pipeline, file=self.file, column=order.column if order is not None else "")
        if ROW in (settings.items, *context_columns(pipeline)):
            raise SchemaError(
                f"the column {ROW!r} is read here, and {ROW!r} numbers the rows of the output", fix="Rename it."
            )
        with naming(self.file), placing(self.groups):
            self.unknown = (
                *pipeline.notes(),
                *loss_notes(pipeline.model.config),
                *notes,
                *(self.groups.lines() if self.groups is not None else ()),
                *order_lines,
                *unknown_lines(table, pipeline, settings),
            )
        manifest = manifest_text(table, pipeline, settings, shard_size)
        numbered = table.drop_columns([ROW]) if ROW in table.column_names else table
        rows = own_rows[self.groups.first_rows] if self.groups is not None else own_rows
        numbered = numbered.append_column(ROW, [pa.array(rows)])
        worker = TableCompleter(pipeline, settings)
        super().__init__(worker, numbered, output, manifest=manifest, shard_size=shard_size, file=self.file)

    def report(self, files: Sequence[ShardCounts]) -> BulkReport:
        return BulkReport(
            self.table.num_rows,
            self.num_shards,
            len(self.kept),
            self.unknown,
            num_blanks=sum(file.num_written for file in files),
            num_empty=sum(file.noted[0] for file in files),
            noun=self.noun,
        )


def complete_table(
    pipeline: BaseCompletionPipeline,
    source: str | Path | Frame,
    output: Path,
    *,
    settings: BulkSettings,
    shard_size: int = SHARD_SIZE,
    progress: Callable[[int, int], None] | None = None,
) -> BulkReport:
    """Complete all rows of a table into ``<output>/part-00000.parquet`` and so on, and ``_SUCCESS`` when all are there.

    Args:
        pipeline: the model.
        source: the table: a path, or a table in memory as ``read_table`` takes it.
        output: folder of the shards; finished ones are kept where they are of the same table, model and settings.
        settings: columns, constraints and sizes.
        shard_size: rows of the table a file.
        progress: called with (rows done, rows in all).

    Raises:
        ConfigurationError: the folder holds the completions of something else.
        DataError, SchemaError, UnknownNameError: a faulty table, before anything is computed where columns are whole.
    """
    plan = SetShardPlan(pipeline, source, output, settings=settings, shard_size=shard_size)
    return plan.run(plan.here(), progress)


def with_times(
    table: pa.Table, times: ItemTimes | None, pipeline: BaseCompletionPipeline, *, file: str | None, column: str
) -> pa.Table:
    """Return the table with the times of its items, for a model that reads the gaps between them.

    Args:
        table: one row a set.
        times: of its items; None: no column has them.
        pipeline: of the model.
        file, column: that have the times, for messages.

    Raises:
        DataError: they are of another kind than in training.
    """
    check_unit(times, pipeline.model.config, file=file, column=column)
    if times is None or pipeline.model.config.time_gaps is None:
        return table
    values = pa.array(times.values, from_pandas=True)  # NaN becomes a missing value
    lists = pa.LargeListArray.from_arrays(pa.array(times.offsets), values)
    return table.append_column(TIMES_COLUMN, pa.chunked_array([lists]))


def item_order(
    table: pa.Table, pipeline: BaseCompletionPipeline, settings: BulkSettings
) -> tuple[ItemOrder | None, list[str]]:
    """Return what puts the items of each set in order, and a sentence where they stay as they stand.

    Raises:
        ConfigurationError: an order was asked for, and the model reads none.
    """
    own, gaps = pipeline.sets.order, pipeline.model.config.time_gaps
    lacking = "; how much time passed between them is not known" if gaps is not None else ""
    if settings.order is not None:
        if not pipeline.model.config.has_position_embeddings:
            raise no_order(settings.order)
        order = ItemOrder(settings.order, settings.reading.date_formats, MASK)
        told = [f"items are read in the order in which they stand{lacking}"]
        return order, told if lacking and settings.order == settings.items else []
    if own is None or own == pipeline.sets.items or own == settings.items:
        return None, []
    column = table.column(own) if own in table.column_names else None
    if column is None or not (settings.group_by or is_list(decoded(column).type)):
        kind = "column" if settings.group_by else "lists"
        return None, [
            f"items are read in the order in which they stand: the run put them in order by {own!r}, and the table has "
            f"no such {kind}{lacking}"
        ]
    return ItemOrder(own, settings.reading.date_formats, MASK), [f"items put in order by {own!r}, as in training"]


def grouped(
    table: pa.Table,
    pipeline: BaseCompletionPipeline,
    settings: BulkSettings,
    order: ItemOrder | None,
    *,
    file: str | None,
) -> Groups:
    """The rows of each set put together, where the table has one item a row.

    Args:
        table: as it was read.
        pipeline: whose context is read.
        settings: name the columns.
        order: what puts the items of a set in order; None: the rows do.
        file: path of the table.

    Raises:
        DataError, UnknownNameError: as ``group_rows``.
    """
    read = (*settings.keep, *(SPELT + name for name in settings.keep), *constraint_keys())
    needed = [name for name in read if name in table.column_names]
    separator = separator_of_cells(str(settings.separator))
    with naming(file):
        return group_rows(
            table,
            settings.group_by,
            items=OrderedItems(settings.items, order) if order is not None else settings.items,
            separator=separator,
            needed=needed,
            context=context_columns(pipeline),
            file=file,
            on_bad_row=settings.reading.on_bad_row,
        )


def unknown_lines(table: pa.Table, pipeline: BaseCompletionPipeline, settings: BulkSettings) -> list[str]:
    """Return sentences on items and context values that the model never saw, whole columns at once."""
    column = checked_column(table, settings.items)
    separator = str(settings.separator)
    check_separator(column, items=settings.items, separator=separator, file=None)
    lists = item_lists(table, settings.items, separator)
    names = lists.flatten()
    vocabulary = pa.concat_arrays([pipeline.processor.items.array, pa.array([MASK], pa.string())])
    num_unknown = len(names) - (pc.sum(pc.is_in(names, value_set=vocabulary)).as_py() or 0)
    if 0 < num_unknown == len(names):
        raise DataError(
            f"none of the {len(names):,} items is known to the model, such as {names[0].as_py()!r}",
            column=settings.items,
            fix="Name the column and the separator that the run was trained with.",
        )
    lines: list[str] = []
    if num_unknown:
        items = f"{num_unknown:,} of {counted(len(names), 'item')}"
        lines.append(f"{items} {agreeing('are', num_unknown)} unknown to the model")
    if pipeline.is_new is not None:
        new = pipeline.processor.items.array.filter(pa.array(pipeline.is_new[len(pipeline.processor.items.reserved) :]))
        num_new = pc.sum(pc.is_in(names, value_set=new)).as_py() or 0
        if num_new:
            items = f"{num_new:,} of {counted(len(names), 'item')}"
            lines.append(f"{items} {agreeing('are', num_new)} new to the model, and read by features alone")
    lines += unlike_training(column, lists, pipeline)
    taken = [name for name in constraint_keys() if name in table.column_names and name not in context_columns(pipeline)]
    if taken:
        named = ", ".join(map(repr, taken))
        lines.append(f"taken for constraints of their rows, because of their names: the columns {named}")
    lines += [
        f"the column {name!r} is a feature of the context here, no constraint"
        for name in constraint_keys()
        if name in table.column_names and name in context_columns(pipeline)
    ]
    context = pipeline.processor.encode_columns(table)
    if context is None:
        return lines
    return [*lines, *table_lines(context, pipeline.model)]


def unlike_training(column: pa.ChunkedArray, lists: pa.LargeListArray, pipeline: BaseCompletionPipeline) -> list[str]:
    """Which sets are unlike those of training: none at all, or more items."""
    lines, noun = list[str](), pipeline.sets.row_noun
    sizes = pc.list_value_length(lists)
    if column.null_count:
        sets = f"{counted(column.null_count, noun)} {agreeing('are', column.null_count)} missing (null)"
        lines.append(f"{sets}, completed from the context alone")
    largest = pipeline.sets.largest
    num_larger = 0 if largest is None else pc.sum(pc.greater(sizes, largest)).as_py() or 0
    if num_larger:
        lines.append(
            f"{counted(num_larger, noun)} {agreeing('have', num_larger)} up to {pc.max(sizes).as_py():,} items, and "
            f"no {noun} of training had more than {largest:,}"
        )
    config = pipeline.model.config
    if config.has_position_embeddings:
        is_mask = pc.equal(lists.flatten(), MASK).to_numpy(zero_copy_only=False)
        num_masks = np.diff(np.concatenate([[0], np.cumsum(is_mask)])[lists.offsets.to_numpy()])
        num_read = config.max_position_embeddings
        num_cut = int((sizes.to_numpy() + (num_masks == 0) > num_read).sum())
        if num_cut:
            lines.append(f"read of {counted(num_cut, noun)}: the newest {num_read:,}, items and [MASK]")
    return lines


def manifest_text(table: pa.Table, pipeline: BaseCompletionPipeline, settings: BulkSettings, shard_size: int) -> str:
    """Return the JSON that identifies a folder of completions.

    The batch size is no part of it, nor how the catalogue was read: that of what it holds is.
    """
    shop = pipeline.catalogue
    catalogue = table_digest(shop.table) if shop is not None else None
    stock = hashlib.sha256(shop.in_stock.tobytes()).hexdigest() if shop is not None else None
    content = {"table": table_digest(table), "model": pipeline.model_digest(), "catalogue": catalogue, "stock": stock}
    chosen = {
        name: value for name, value in asdict(settings).items() if name not in ("batch_size", "catalogue_reading")
    }
    manifest = {"format": FORMAT, **content, "settings": chosen, "shard_size": shard_size}
    return json_text(manifest, indent=1, default=list) + "\n"
