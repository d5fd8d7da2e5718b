"""Runs on the same labelled texts or words, and their rows in one order.

Reference: PROTOCOL, point 9: methods are compared on the same rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from contextual_bert.errors import DataError
from contextual_bert.evaluation.alignment import Cost, Role, place
from contextual_bert.evaluation.labels.measured import MeasuredRows
from contextual_bert.evaluation.labels.rows import LabelledRows

_SAME_ROWS = "Predict every run on the same part of the same split, each labelled place once."


class LabelRun(NamedTuple):
    """One trained model on labelled rows; a plain tuple of the first three fields will do."""

    name: str
    seed: int
    rows: MeasuredRows
    role: Role = "method"
    cost: Cost = Cost()


def aligned_rows(runs: Sequence[LabelRun]) -> list[MeasuredRows]:
    """Each run's rows in the order of the first run's.

    Raises:
        DataError: places, truth or names are not the same.
    """
    aligned = [run.rows.sorted() for run in runs]
    first, its_rows = runs[0], aligned[0]
    for run, rows in zip(runs[1:], aligned[1:], strict=True):
        if rows.names != its_rows.names:
            raise DataError(
                f"{place(run)} has the labels {rows.names}, {place(first)} {its_rows.names}", fix=_SAME_ROWS
            )
        if _are_grades(rows) != _are_grades(its_rows):
            raise DataError(
                f"{place(run)} and {place(first)} have the same labels, and they are grades for one of the two alone",
                fix="Train both with the same order (--order).",
            )
        if len(rows) != len(its_rows):
            raise DataError(
                f"{place(run)} has {len(rows)} labelled rows, {place(first)} {len(its_rows)}", fix=_SAME_ROWS
            )
        differs = (rows.example_id != its_rows.example_id) | (rows.position != its_rows.position)
        if differs.any():
            here, there = (_position(each, int(differs.argmax())) for each in (rows, its_rows))
            raise DataError(f"{place(run)} has {here} where {place(first)} has {there}", fix=_SAME_ROWS)
        differs = rows.true != its_rows.true
        if differs.any():
            row = int(differs.argmax())
            here, there = (rows.names[each.true[row]] for each in (rows, its_rows))
            raise DataError(
                f"in {place(run)} {here!r} is true for {_position(rows, row)}, in {place(first)} {there!r}",
                fix=_SAME_ROWS,
            )
    back = np.argsort(first.rows.order())
    return [rows.select(back) for rows in aligned]


def _position(rows: MeasuredRows, row: int) -> str:
    return f"example {rows.example_id[row]}, position {rows.position[row]}"


def _are_grades(rows: MeasuredRows) -> bool:
    return isinstance(rows, LabelledRows) and rows.grades is not None
