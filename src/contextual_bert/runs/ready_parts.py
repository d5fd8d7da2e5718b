"""The table of a recipe whose validation or test part is a file of its own: read, made alike, put one below the other.

The rows of the training file come first, then those of the validation file and of the test file. A split says which
rows are which part; an error names the file and the row there.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.splits import PARTS
from contextual_bert.errors import DataError, Message
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
