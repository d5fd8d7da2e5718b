"""Audits of the sets or texts of a recipe, with the rows of the file."""

from collections.abc import Sequence
from dataclasses import replace

from contextual_bert.data import Audit, Groups, SetTable, Split, TextTable, audit, audit_texts


def audit_of_file(found: Audit, groups: Groups | None) -> Audit:
    """The audit with rows of the file, where its rows are groups: each is named by the row in which it begins."""
    if groups is None:
        return found
    faults = [replace(fault, rows=tuple(int(groups.first_rows[row]) for row in fault.rows)) for fault in found.faults]
    return replace(found, faults=tuple(faults))


def audit_of(
    split: Split, examples: SetTable | TextTable, columns: Sequence[str], *, groups: Groups | None = None
) -> Audit:
    """Look for leaks between the parts of a split, and from the columns to what is asked for.

    Args:
        split: of the table.
        examples: its sets or texts.
        columns: those that are a context.
        groups: the rows of each set, where the file has one item a row.
    """
    if isinstance(examples, SetTable):
        return audit_of_file(audit(split, examples, context=columns), groups)
    return audit_texts(
        split,
        examples.table,
        text=examples.text,
        pair=examples.second,
        label=examples.label,
        customer=examples.customer,
        columns=columns,
    )
