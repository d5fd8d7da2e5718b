"""Answers of a table of questions: the places where they stand in their texts. It knows no tokenizer and no model."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_text, value_type
from contextual_bert.data.checked_columns import checked_column, text_column
from contextual_bert.errors import DataError

__all__ = ["find_answers", "read_answers", "strings_of"]


def strings_of(table: pa.Table, name: str, *, complete: bool) -> list[Any]:
    """Return the cells of a column of text; with ``complete``, no cell of it may be missing."""
    column = checked_column(table, name, complete=complete)
    kind = value_type(column.type)
    if not complete and (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        column = column.cast(kind).cast(pa.string())  # of CSV, where all answers are numbers
    return text_column(column, name).to_pylist()


def find_answers(
    table: pa.Table, texts: Sequence[str | None], name: str, start_name: str | None
) -> tuple[list[str | None], NDArray[np.int64]]:
    """The answers, and (rows, 2) where each begins and ends in its text: (0, 0) where there is none, -1 where the text
    does not have it, or not there.

    Raises:
        UnknownNameError, DataError: a column that is absent or of another type.
    """
    given: list[str | None] = strings_of(table, name, complete=False)
    places: list[int | None] = [None] * len(given)
    if start_name is not None:
        numbers = checked_column(table, start_name)
        try:  # pandas has numbers with a fraction where one is missing
            if is_text(numbers.type):
                raise pa.ArrowInvalid
            if pa.types.is_floating(numbers.type):
                numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
            places = numbers.cast(pa.int64()).to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            what = f"the column is of type {numbers.type} and not of whole numbers"
            raise DataError(what, column=start_name, fix="Give whole numbers, or none.") from None
    bounds = np.zeros((len(given), 2), dtype=np.int64)
    for row, (text, answer, place) in enumerate(zip(texts, given, places, strict=True)):
        if answer is None or not answer.strip():
            continue
        start = -1 if text is None else _first(answer, text) if place is None else place
        if text is None or start < 0 or text[start : start + len(answer)] != answer:
            bounds[row] = -1
            continue
        start += len(answer) - len(answer.lstrip())
        bounds[row] = start, start + len(answer.strip())
    return given, bounds


def read_answers(
    table: pa.Table, texts: Sequence[str], name: str, start_name: str | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the start and end of each answer in its text, (0, 0) for no answer.

    Raises:
        UnknownNameError: no such column.
        DataError: an answer that is not in its text, or not where its start is named.
    """
    given, bounds = find_answers(table, texts, name, start_name)
    absent = np.flatnonzero(bounds[:, 0] < 0)
    if len(absent):
        row = int(absent[0])
        place = table.column(start_name)[row].as_py() if start_name is not None else None
        where = "in its text" if place is None or place != place else f"at character {place:.0f} of its text"
        what = f"the answer {given[row]!r:.60} is not {where}"
        raise DataError(what, row=row, column=name, fix="Give it letter by letter.")
    return bounds[:, 0], bounds[:, 1]


def _first(answer: str, text: str) -> int:
    """Return the first place of the answer in the text, as whole words if possible; -1 if absent."""
    edges = [r"\b" if re.match(r"\w", end) else "" for end in (answer.strip()[0], answer.strip()[-1])]
    pieces = re.search(f"{edges[0]}{re.escape(answer)}{edges[1]}", text)
    return pieces.start() if pieces is not None else text.find(answer)
