"""Audits of the tables of a recipe: of sets with the rows of the file, of texts with the columns of the task."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from contextual_bert.data import Audit, Groups, Split
from contextual_bert.data.text_audit import audit_texts
from contextual_bert.training.recipe import Recipe


def audit_of_file(found: Audit, groups: Groups | None) -> Audit:
    """The audit with rows of the file, where its rows are groups: each is named by the row in which it begins."""
    if groups is None:
        return found
    faults = [replace(fault, rows=tuple(int(groups.first_rows[row]) for row in fault.rows)) for fault in found.faults]
    return replace(found, faults=tuple(faults))


def audit_of_texts(recipe: Recipe, split: Split, table: pa.Table, columns: Sequence[str]) -> Audit:
    """Audit the texts of a recipe.

    Args:
        recipe: with a task on texts.
        split: of the table.
        table: its texts.
        columns: those that are a context.
    """
    task = recipe.text_task
    return audit_texts(
        split,
        table,
        text=task.text,
        pair=task.second,
        label=task.label,
        customer=recipe.customer,
        columns=columns,
    )
