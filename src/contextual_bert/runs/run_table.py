"""The table of a recipe: its files one below the other, and one row a set or text.

Every command that reads the data of a recipe reads them here, so that all see the same rows.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_text
from contextual_bert.context import ContextSchema
from contextual_bert.context.dates import date_formats_of
from contextual_bert.data import Groups, SetTable, TextTable, group_rows, read_sets, read_table
from contextual_bert.data.groups import placing, separator_of_cells
from contextual_bert.data.readers import without_gaps
from contextual_bert.data.reading_notes import ReadingNotes, joined_notes, reading_notes
from contextual_bert.data.tag_lists import with_tag_lists
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.encode import naming
from contextual_bert.runs.ready_parts import PartTables, file_lines, in_its_file, read_parts
from contextual_bert.training.recipe import Recipe

__all__ = ["RunTable", "read_data"]


@dataclass(frozen=True, eq=False)
class RunTable:
    """A table with one row a set or text, and where its rows come from.

    Args:
        table: the rows.
        parts: the files, and how many rows each has before rows are grouped.
        groups: the rows of each set, where the files have one item a row.
    """

    table: pa.Table
    parts: PartTables
    groups: Groups | None = None

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
        self, recipe: Recipe, *, count_rows: NDArray[np.int64] | None, min_count: int | None = None
    ) -> SetTable | TextTable:
        """Return the sets or texts of the table.

        Args:
            recipe: names the columns, and says which items and sets are kept.
            count_rows: rows in which items are counted: those of the training part; None for all.
            min_count: how often an item must be there, in place of the recipe's number.

        Raises:
            DataError, UnknownNameError: as ``read_sets``. Cells of texts are not looked at.
        """
        task, customer = recipe.task, recipe.customer
        if not task.has_items:
            task = recipe.text_task
            names: dict[str, str | None] = {"second": task.second, "label": task.label}
            return TextTable.of(self.table, text=task.text, **names, customer=customer)
        policy = recipe.set_task.policy
        return read_sets(
            self.table,
            items=recipe.set_task.items,
            on_bad_row=recipe.reading.on_bad_row,
            policy=policy if min_count is None else replace(policy, min_count=min_count),
            file=recipe.data,
            customer=customer,
            time=recipe.time,
            count_rows=count_rows,
        )

    def lines(self) -> list[str]:
        """Return sentences on joined files and grouped rows; none for one file with one row a set."""
        return [*file_lines(self.parts), *(self.groups.lines() if self.groups is not None else [])]

    def without_rows(self) -> Self:
        """Return the same of an empty table: it is sent to each process of a study."""
        return replace(self, table=self.table.slice(0, 0).select([]), parts=self.parts.without_rows())


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

    notes = list[ReadingNotes]()

    def read(each: Any) -> pa.Table:
        found = read_table(
            each,
            text_columns=(*recipe.task.text_columns, *recipe.task.grouping),
            code_columns=(*recipe.code_columns, *codes),
            settings=recipe.reading,
        )
        file = each if isinstance(each, str) else recipe.data
        found = without_gaps(found, recipe.complete_columns, recipe.reading, file=file)
        notes.append(reading_notes(found))
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
    if not recipe.task.grouping:
        return RunTable(parts.table, parts.without_rows())
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
            items=recipe.set_task.items,
            separator=separator_of_cells(recipe.set_task.policy.separator),
            needed=[name for name in named if name is not None],
            context=(*needed, *(schema.columns if schema is not None else ())),
            file=recipe.data,
            on_bad_row=recipe.reading.on_bad_row,
        )
    if len(parts.files) > 1:
        groups = replace(groups, table=groups.table.drop_columns([by[-1]]), by=recipe.task.grouping)
    return RunTable(
        groups.table, parts.without_rows(), replace(groups, table=groups.table.select(recipe.task.grouping))
    )


def _check_date_formats(table: pa.Table, recipe: Recipe) -> None:
    """Raise ConfigurationError where no column is written in one of the formats that the recipe has."""
    texts = [column for column in table.columns if is_text(column.type)] if recipe.reading.date_formats else []
    for date_format in recipe.reading.date_formats:
        if not any(date_formats_of(column, (date_format,)) == [date_format] for column in texts):
            raise ConfigurationError(
                f"date_formats: no column of {recipe.data} is written as {date_format!r} in each row",
                fix="Correct --date-format, or leave it out.",
            )
