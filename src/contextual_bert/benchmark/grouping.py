"""The rows of a recipe's table as sets: as they stand in the table, or grouped where it has one item a row.

`data.groups` groups; here is which columns a recipe groups by and needs.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pyarrow as pa

from contextual_bert.context import ContextSchema
from contextual_bert.data import Audit, Groups, group_rows, read_table
from contextual_bert.data.groups import separator_of_cells
from contextual_bert.training.recipe import Recipe


def read_rows(
    recipe: Recipe, *, source: pa.Table | None = None, needed: Sequence[str] = ()
) -> tuple[pa.Table, Groups | None]:
    """Read the table of a recipe with one row a set, and the groups where it had one item a row.

    Args:
        recipe: names the table and, with ``group_by``, the columns that name a set.
        source: the table, where it was read already.
        needed: columns beside those of the recipe and its schema that must have one value in each group.

    Raises:
        DataError, UnknownNameError: as ``read_table`` and ``group_rows``.
    """
    table = read_table(recipe.data if source is None else source, text_columns=recipe.group_by)
    if not recipe.group_by:
        return table, None
    schema = ContextSchema.from_dict(dict(recipe.schema)) if recipe.schema is not None else None
    named = (recipe.customer, recipe.time, *(schema.columns if schema is not None else ()), *needed)
    groups = group_rows(
        table,
        recipe.group_by,
        items=recipe.item_column,
        separator=separator_of_cells(recipe.policy.separator),
        needed=[name for name in named if name is not None],
        file=recipe.data,
    )
    return groups.table, groups


def placing(groups: Groups | None) -> AbstractContextManager[None]:
    """Let errors about a row name its group, where rows were grouped."""
    return groups.placed() if groups is not None else nullcontext()


def grouping_lines(groups: Groups | None) -> list[str]:
    """What was grouped, for people; nothing where rows were not grouped."""
    return groups.lines() if groups is not None else []


def audit_of_file(found: Audit, groups: Groups | None) -> Audit:
    """The audit with rows of the file, where its rows are groups: each is named by the row in which it begins."""
    if groups is None:
        return found
    faults = [replace(fault, rows=tuple(int(groups.first_rows[row]) for row in fault.rows)) for fault in found.faults]
    return replace(found, faults=tuple(faults))
