"""The table of a recipe: its files one below the other, and one row a set or text; the audit of what it holds.

Every command that reads the data of a recipe reads them here, so that all see the same rows. Where the validation or
test part is a file of its own, the rows of the training file come first, then those of the validation file and of the
test file: a split says which rows are which part, and an error names the file and the row there.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_text
from contextual_bert.context import ContextSchema
from contextual_bert.context.dates import date_formats_of
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data import (
    Audit,
    Groups,
    SetTable,
    Split,
    TextTable,
    audit,
    audit_texts,
    group_rows,
    read_sets,
    read_table,
)
from contextual_bert.data.forgotten import forgotten_columns
from contextual_bert.data.groups import OrderedItems, placing, separator_of_cells
from contextual_bert.data.label_lists import with_label_lists
from contextual_bert.data.ordered import ItemOrder
from contextual_bert.data.readers import without_gaps
from contextual_bert.data.reading_notes import ReadingNotes, joined_notes, reading_notes
from contextual_bert.data.splits import PARTS
from contextual_bert.data.text_table import with_tag_lists
from contextual_bert.data.time_gaps import ItemTimes
from contextual_bert.errors import ConfigurationError, DataError, Message
from contextual_bert.inference.encode import naming
from contextual_bert.training.recipe import Recipe

Reader = Callable[[Any], pa.Table]


class PartTables(NamedTuple):
    """A table, and how many of its rows come from each file of the recipe.

    ``files``: the paths, that of the training part first; ``sizes``: rows of each; ``lines``: what was left out.
    """

    table: pa.Table
    files: tuple[str, ...]
    sizes: tuple[int, ...]
    lines: tuple[str, ...] = ()

    def without_rows(self) -> "PartTables":
        """Return the same of an empty table: it is sent to each process of a study."""
        return self._replace(table=self.table.slice(0, 0).select([]))


def read_parts(recipe: Recipe, source: pa.Table | None, read: Reader) -> PartTables:
    """Read the tables of a recipe and return them as one.

    Args:
        recipe: names the files.
        source: the table in place of ``recipe.data``, where it was read already.
        read: reads a file, or takes a table as it is.

    Raises:
        DataError: a file lacks a column that the training table has.
    """
    files = part_files(recipe)
    tables = [read(recipe.data if source is None else source), *(read(name) for name in files[1:])]
    if len(tables) == 1:
        return PartTables(tables[0], files, (tables[0].num_rows,))
    first, lines = tables[0], list[str]()
    needed = _needed(recipe, first)
    for name, table in zip(files[1:], tables[1:], strict=True):
        lacking = [column for column in first.column_names if column in needed and column not in table.column_names]
        if lacking:
            raise DataError(
                f"the column {lacking[0]!r} of {files[0]} is not there ({len(lacking)} such columns)",
                file=name,
                fix=Message("Add it, or leave it out of all files with {exclude}.", exclude=...),
            )
        more = [column for column in table.column_names if column not in first.column_names]
        if more:
            lines.append(f"{name}: not read, for {files[0]} does not have them: {', '.join(more)}")
    columns = {
        column: _one_below_the_other(
            [table.column(column) if column in table.column_names else pa.nulls(table.num_rows) for table in tables],
            files,
            column,
        )
        for column in first.column_names
    }
    fields = [
        field if field.type == columns[field.name].type else pa.field(field.name, columns[field.name].type)
        for field in first.schema
    ]
    return PartTables(
        pa.table(columns, schema=pa.schema(fields)), files, tuple(table.num_rows for table in tables), tuple(lines)
    )


def part_files(recipe: Recipe) -> tuple[str, ...]:
    """Return the paths of a recipe's files, that of the training part first."""
    named = (recipe.data, recipe.validation_data, recipe.test_data)
    return tuple(name for name in named if name is not None)


def file_parts(recipe: Recipe) -> tuple[int, ...]:
    """Return the number of the part, counted as in PARTS, of each file behind that of the training part."""
    named = ((1, recipe.validation_data), (2, recipe.test_data))
    return tuple(part for part, name in named if name is not None)


def file_lines(found: PartTables) -> list[str]:
    """Return a sentence on which rows come from which file; nothing where there is one file."""
    if len(found.files) == 1:
        return []
    ends = np.cumsum(found.sizes).tolist()
    rows = [
        f"{start + 1:,} to {end:,} from {name}"
        for start, end, name in zip([0, *ends[:-1]], ends, found.files, strict=True)
    ]
    return [f"rows of the files, counted on: {'; '.join(rows)}", *found.lines]


@contextmanager
def in_its_file(files: Sequence[str], sizes: Sequence[int]) -> Generator[None]:
    """Turn the row of the joined table that an error names into the row of its file.

    Raises:
        DataError: what came, with its place.
    """
    try:
        yield
    except DataError as error:
        if error.row is None or len(sizes) < 2 or error.row < sizes[0]:
            raise
        starts: NDArray[np.int64] = np.cumsum([0, *sizes])
        number = int(np.searchsorted(starts, error.row, side="right")) - 1
        row = error.row - int(starts[number])
        raise error.moved(file=files[number], row=row) from error


def _needed(recipe: Recipe, first: pa.Table) -> set[str]:
    """The columns that every file must have."""
    excluded = {*recipe.exclude, recipe.split_column}
    used = {name for name in (*recipe.task.columns, recipe.customer, recipe.time) if name is not None}
    features = (recipe.schema or {}).get("features")
    if features is not None:
        return used | {feature.get("column", feature["name"]) for feature in features}
    return used | {name for name in first.column_names if name not in excluded}


def _one_below_the_other(columns: Sequence[Any], files: Sequence[str], name: str) -> pa.ChunkedArray:
    """One column of the files; text where they have it as values of kinds that do not go together."""
    found = [decoded(column) for column in columns]
    kinds = [column.type for column in found]
    kind = next((each for each in kinds if not pa.types.is_null(each)), kinds[0])
    if any(each != kind and not pa.types.is_null(each) for each in kinds):
        try:
            kind = pa.unify_schemas([pa.schema([(name, each)]) for each in kinds], promote_options="permissive").types[
                0
            ]
            found = [column.cast(kind) for column in found]
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            if any(pa.types.is_nested(each) for each in kinds):
                raise DataError(
                    f"the column is of type {kinds[-1]}, and in {files[0]} of type {kinds[0]}",
                    file=files[-1],
                    column=name,
                    fix="Give it the same type in all files.",
                ) from None
            found = [canonical_array(column, file=file, column=name) for column, file in zip(found, files, strict=True)]
            kind = pa.string()
    chunks = [chunk for column in found for chunk in _chunks(column.cast(kind))]
    return pa.chunked_array(chunks, type=kind)


def _chunks(column: Any) -> list[Any]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def joined_assignment(train: NDArray[np.uint8], sizes: Sequence[int], parts: Sequence[int]) -> NDArray[np.uint8]:
    """Return the part of each row of the joined table.

    Args:
        train: the part of each row of the training file.
        sizes: rows of each file.
        parts: of ``file_parts``.

    Example:
        >>> joined_assignment(np.zeros(2, dtype=np.uint8), (2, 1, 1), (1, 2)).tolist()
        [0, 0, 1, 2]
    """
    assert all(part < len(PARTS) for part in parts)
    return np.concatenate([train, np.repeat(np.array(parts, dtype=np.uint8), sizes[1:])])


@dataclass(frozen=True, eq=False)
class RunTable:
    """A table with one row a set or text, and where its rows come from.

    Args:
        table: the rows.
        parts: the files, and how many rows each has before rows are grouped.
        groups: the rows of each set, where the files have one item a row.
        times: of the items of each row, where a model reads how much time passed between them.
    """

    table: pa.Table
    parts: PartTables
    groups: Groups | None = None
    times: ItemTimes | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows of ``table`` that come from each file."""
        if self.groups is None:
            return self.parts.sizes
        ends = np.searchsorted(self.groups.first_rows, np.cumsum(self.parts.sizes))
        return tuple(np.diff(ends, prepend=0).tolist())

    @property
    def left_out(self) -> Mapping[str, str]:
        """Columns that vary within a group, with the reason why each is left out."""
        return self.groups.left_out if self.groups is not None else {}

    @contextmanager
    def placed(self) -> Generator[None]:
        """Let errors about a row of ``table`` name its group, its file and its row there.

        Raises:
            DataError, SchemaError, UnknownNameError: what came, with its place.
        """
        with in_its_file(self.parts.files, self.parts.sizes), placing(self.groups):
            yield

    def examples(
        self,
        recipe: Recipe,
        *,
        count_rows: NDArray[np.int64] | None,
        min_count: int | None = None,
        cold_items: tuple[str, ...] = (),
        known_items: tuple[str, ...] = (),
    ) -> SetTable | TextTable:
        """Return the sets or texts of the table.

        Args:
            recipe: names the columns, and says which items and sets are kept.
            count_rows: rows in which items are counted: those of the training part; None for all.
            min_count: how often an item must be there, in place of the recipe's number.
            cold_items: that the rows in which items are counted do not keep.
            known_items: that are kept however rare they are there.

        Raises:
            DataError, UnknownNameError: as ``read_sets``. Cells of texts are not looked at.
        """
        task, customer = recipe.task, recipe.customer
        if not task.has_items:
            task = recipe.text_task
            names: dict[str, str | None] = {"second": task.second, "label": task.label}
            return TextTable.of(self.table, text=task.text, **names, customer=customer)
        keeps_new = recipe.set_task.catalogue is not None
        policy = replace(
            recipe.set_task.policy,
            keeps_new=keeps_new,
            keeps_last=recipe.set_task.hide == "next",
            cold_items=cold_items,
            known_items=known_items,
        )
        found = read_sets(
            self.table,
            items=recipe.set_task.items,
            on_bad_row=recipe.reading.on_bad_row,
            policy=policy if min_count is None else replace(policy, min_count=min_count),
            file=recipe.data,
            customer=customer,
            time=recipe.time,
            count_rows=count_rows,
        ).with_times(self.times)
        return replace(found, report=replace(found.report, noun=recipe.set_task.row_noun))

    def lines(self) -> list[str]:
        """Return sentences on joined files and grouped rows; none for one file with one row a set."""
        return [*file_lines(self.parts), *(self.groups.lines() if self.groups is not None else [])]

    def without_rows(self) -> Self:
        """Return the same of an empty table: it is sent to each process of a study."""
        return replace(self, table=self.table.slice(0, 0).select([]), parts=self.parts.without_rows(), times=None)


def read_data(
    recipe: Recipe, source: pa.Table | None = None, *, codes: Collection[str] = (), needed: Sequence[str] = ()
) -> RunTable:
    """Read the table of a recipe.

    Args:
        recipe: says which files are read and how, which columns name things, and which name a set.
        source: the table in place of ``recipe.data``, where it was read already.
        codes: further columns that name things, which are read as they are spelt.
        needed: further columns that must have one value in each group, where rows are grouped.

    Raises:
        DataError, UnknownNameError: a fault of a file, as ``read_table``, ``read_parts`` and ``group_rows`` say.
    """

    notes, order = list[ReadingNotes](), _order_of(recipe)

    def read(each: Any) -> pa.Table:
        found = read_table(
            each,
            text_columns=(*recipe.task.text_columns, *recipe.task.grouping),
            code_columns=(*recipe.code_columns, *codes),
            settings=recipe.reading,
        )
        file = each if isinstance(each, str) else recipe.data
        is_grouped = bool(recipe.task.grouping)
        faults = order.faults(found, items=recipe.set_task.items, is_grouped=is_grouped) if order else None
        found = without_gaps(found, recipe.complete_columns, recipe.reading, file=file, faults=faults)
        notes.append(reading_notes(found))
        if recipe.task.label_lists is not None:
            label, separator = recipe.task.label_lists
            with naming(file):
                return with_label_lists(found, label=label, separator=separator)
        if recipe.task.tag_columns is None:
            return found
        text, label = recipe.task.tag_columns
        with naming(file):
            return with_tag_lists(found, text=text, label=label)

    parts = read_parts(recipe, source, read)
    if len(parts.files) > 1:
        parts = parts._replace(table=joined_notes(parts.files, notes).noted(parts.table))
    if recipe.schema is None:
        _check_date_formats(parts.table, recipe)
    times, reads_gaps = None, recipe.task.has_items and recipe.set_task.time_gaps
    if not recipe.task.grouping:
        table = parts.table
        if order is not None:
            with in_its_file(parts.files, parts.sizes):
                table, times = order.with_times(table, items=recipe.set_task.items, file=recipe.data)
        return RunTable(table, parts.without_rows(), times=times if reads_gaps else None)
    schema = ContextSchema.from_dict(dict(recipe.schema)) if recipe.schema is not None else None
    named = (recipe.customer, recipe.time, recipe.split_column)
    table, by = parts.table, recipe.task.grouping
    if len(parts.files) > 1:
        # The same name in two files names two groups. The column stands there while rows are grouped, and in errors.
        file_column = "file"
        while file_column in table.column_names:
            file_column += "_"
        origin = pa.array(np.repeat(np.array(parts.files), parts.sizes))
        table, by = table.append_column(file_column, origin), (*by, file_column)
    with in_its_file(parts.files, parts.sizes):
        groups = group_rows(
            table,
            by,
            items=OrderedItems(recipe.set_task.items, order) if order else recipe.set_task.items,
            separator=separator_of_cells(recipe.set_task.policy.separator),
            needed=[name for name in (*named, *forgotten_columns(recipe.forgotten)) if name is not None],
            context=(*needed, *(schema.columns if schema is not None else ())),
            file=recipe.data,
            on_bad_row=recipe.reading.on_bad_row,
        )
    if len(parts.files) > 1:
        groups = replace(groups, table=groups.table.drop_columns([by[-1]]), by=recipe.task.grouping)
    named_groups = replace(groups, table=groups.table.select(recipe.task.grouping), times=None)
    return RunTable(groups.table, parts.without_rows(), named_groups, groups.times if reads_gaps else None)


def _order_of(recipe: Recipe) -> ItemOrder | None:
    """Return what puts the items of sets in order, None where nothing does."""
    column = recipe.set_task.order if recipe.task.has_items else None
    return ItemOrder(column, recipe.reading.date_formats) if column is not None else None


def _check_date_formats(table: pa.Table, recipe: Recipe) -> None:
    """Raise ConfigurationError where no column is written in one of the formats that the recipe has."""
    texts = [column for column in table.columns if is_text(column.type)] if recipe.reading.date_formats else []
    for date_format in recipe.reading.date_formats:
        if not any(date_formats_of(column, (date_format,)) == [date_format] for column in texts):
            raise ConfigurationError(
                f"is the form of no column of {recipe.data} in each row",
                setting="date_formats",
                value=(date_format,),
                fix="Correct it, or leave it out.",
            )


def audit_of_file(found: Audit, groups: Groups | None) -> Audit:
    """The audit with rows of the file, where its rows are groups: each is named by the row in which it begins."""
    if groups is None:
        return found
    faults = [replace(fault, rows=tuple(int(groups.first_rows[row]) for row in fault.rows)) for fault in found.faults]
    return replace(found, faults=tuple(faults))


def audit_of(
    split: Split, examples: SetTable | TextTable, schema: ContextSchema | None, *, groups: Groups | None = None
) -> Audit:
    """Look for leaks between the parts of a split, and from the columns to what is asked for.

    Args:
        split: of the table.
        examples: its sets or texts.
        schema: of the context, whose columns are read.
        groups: the rows of each set, where the file has one item a row.
    """
    columns = schema.columns if schema is not None else ()
    if isinstance(examples, SetTable):
        histories = schema.history_columns if schema is not None else ()
        return audit_of_file(audit(split, examples, context=columns, histories=histories), groups)
    return audit_texts(
        split,
        examples.table,
        text=examples.text,
        pair=examples.second,
        label=examples.label,
        customer=examples.customer,
        columns=columns,
    )
