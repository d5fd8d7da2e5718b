"""Places and sentences of a table whose rows were grouped into sets; the same of one whose rows were not.

`data.groups` groups.
"""

from dataclasses import replace

from contextual_bert.data import Audit, Groups


def grouping_lines(groups: Groups | None) -> list[str]:
    """Return sentences on the grouping, or none if rows were not grouped."""
    return groups.lines() if groups is not None else []


def audit_of_file(found: Audit, groups: Groups | None) -> Audit:
    """The audit with rows of the file, where its rows are groups: each is named by the row in which it begins."""
    if groups is None:
        return found
    faults = [replace(fault, rows=tuple(int(groups.first_rows[row]) for row in fault.rows)) for fault in found.faults]
    return replace(found, faults=tuple(faults))
