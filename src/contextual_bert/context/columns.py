"""Columns of a table as numbers, single values and the elements of lists; codes, which only look like numbers.

A code is text such as the versions 10.1 and 10.10: two values, and one number. Its column keeps what it is spelt
like, and its schema says so (docs/decisions/003). Whole columns at a time. No kind of feature and no schema is known
here. Paper: section 4.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_single, is_text, value_type
from contextual_bert.context.printed_lists import as_lists, first_printed, holds_objects, object_error, printed_error
from contextual_bert.context.spelling import FLOAT, INTEGER, DecimalMark, decimal_advice, plain_numbers
from contextual_bert.context.vocabulary import canonical_array, normal_form, require_finite, to_doubles
from contextual_bert.errors import DataError, SchemaError

SpeltNumbers = Literal["once", "variously"]

MISSING_MARKS = ("NaN", "nan", "NA", "N/A", "null", "NULL", "None")  # how tools write a missing number or date
_NUMBER_FIX = (
    "Allowed: a finite number; leave it empty if it is missing. A word that says so may stand under 'missing' of the "
    "feature in schema.json."
)


def spelt_numbers(strings: pa.Array) -> SpeltNumbers | None:
    """Return how a column of text spells its numbers; None where it has none.

    Args:
        strings: the values in their canonical spelling.

    Returns:
        "once": each number has one spelling, so that a number finds its value. "variously": some number has several
        spellings, so that only the spelling tells the values apart.

    Example:
        >>> spelt_numbers(pa.array(["10.50", "9.99"])), spelt_numbers(pa.array(["10.1", "10.10"]))
        ('once', 'variously')
        >>> spelt_numbers(pa.array(["red", "blue"]))
    """
    distinct = pc.unique(pc.drop_null(strings))
    numbers = distinct.filter(pc.match_substring_regex(distinct, f"{INTEGER}|{FLOAT}")).to_pylist()
    if not numbers:
        return None
    return "once" if len({*map(normal_form, numbers)}) == len(numbers) else "variously"


def holds_text(array: pa.Array) -> bool:
    """Return whether the values of a column, or the elements of its lists, are text.

    Example:
        >>> holds_text(pa.array(["10.1"])), holds_text(pa.array([["a"], []])), holds_text(pa.array([10.1]))
        (True, True, False)
    """
    kind = value_type(array.type)
    return is_text(value_type(kind.value_type) if is_list(kind) else kind)


def to_numbers(
    array: pa.Array, *, file: str | None = None, column: str | None = None, decimal: DecimalMark | None = None
) -> np.ndarray:
    """A column of numbers, or of text that spells numbers, as float64: NaN where missing, infinity is an error.

    Text is read with the decimal mark ``decimal``, as `spelling.plain_numbers` has it.

    A decimal and a short float become the float64 of the same spelling, so that 0.2 is 0.2 whatever held it.
    """
    array = decoded(array)
    kind = array.type
    if is_text(kind):
        array = _parse_numbers(array, file, column, decimal)
    elif not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    ):
        raise SchemaError(
            f"column {column!r} has the type {kind}, but its feature is numerical",
            fix="Give the column numbers, or let it be another kind of feature.",
        )
    array = to_doubles(array)
    require_finite(array, file=file, column=column)
    return array.to_numpy(zero_copy_only=False)  # nulls become NaN


def flatten_lists(
    array: pa.Array, *, separator: str | None, column: str, file: str | None = None
) -> tuple[pa.Array, np.ndarray]:
    """The elements of a column of lists, and how many each row has (0 for null); text is split by the separator.

    Text that is a printed list, such as "['red', 'blue']", is a list, too.

    Raises:
        DataError: a cell is a printed list or an object, and its column is none of lists; with its row.
    """
    if holds_objects(array):
        raise object_error(array, file=file, column=column)
    lists = as_lists(array, file=file, name=column, is_known=separator is None)
    array = array if lists is None else lists
    kind = array.type
    if separator is not None and (is_single(kind) or pa.types.is_dictionary(kind)):
        # Cells without a separator in any of them may have come as numbers.
        array = array if is_text(kind) else canonical_array(array, column=column)
        printed = first_printed(array) if is_text(array.type) else None
        if printed is not None:
            fix = f"Write the values with {separator!r} between them and nothing around them."
            raise printed_error(array, printed, file=file, column=column, fix=fix)
        array = pc.if_else(pc.equal(array, ""), pa.scalar(None, array.type), array)
        lists = pc.split_pattern(array, separator)
        elements = pc.utf8_trim_whitespace(lists.flatten())
        return elements, list_lengths(lists)
    if pa.types.is_null(kind):
        return pa.nulls(0, pa.string()), np.zeros(len(array), np.int64)
    if not is_list(kind):
        raise SchemaError(
            f"column {column!r} has the type {kind}, but its feature is multi-categorical",
            fix="Give the column lists, or set the feature's separator for columns of text.",
        )
    return array.flatten(), list_lengths(array)


def separator_of_most(cells: pa.Array | pa.ChunkedArray, separators: Sequence[str]) -> tuple[str, int] | None:
    """The first of these separators that more than half of the cells have, and how many have it.

    Example:
        >>> separator_of_most(pa.array(["a|b", "a|c", "b"]), [";", "|"])
        ('|', 2)
    """
    for separator in separators:
        found = num_with(cells, separator)
        if found > len(cells) / 2:
            return separator, found
    return None


def num_with(cells: pa.Array | pa.ChunkedArray, text: str) -> int:
    """Return the number of cells that hold this text."""
    return pc.sum(pc.match_substring(cells, text)).as_py() or 0


def without_marks(array: pa.Array) -> pa.Array:
    """A column of text in which numbers or dates are looked for: null where a cell is empty or a mark of missing."""
    is_missing = pc.is_in(array, value_set=pa.array(["", *MISSING_MARKS], array.type))
    return pc.if_else(is_missing, pa.scalar(None, array.type), array)


def _parse_numbers(
    array: pa.Array, file: str | None, column: str | None, decimal: DecimalMark | None = None
) -> pa.Array:
    array = without_marks(pc.utf8_trim_whitespace(array))
    if decimal is not None:
        plain = plain_numbers(array, decimal)
        row = pc.index(pc.and_(array.is_valid(), plain.is_null()), True).as_py()
        if row >= 0:
            text = array[row].as_py()
            problem = f"{text!r} is not a number with the decimal mark {decimal!r}"
            raise DataError(problem, file=file, row=row, column=column, fix=_fix_of(text))
        return plain.cast(pa.float64())
    try:
        numbers = array.cast(pa.float64())
        faulty = pc.fill_null(pc.is_nan(numbers), False)
    except pa.ArrowInvalid:
        wrong = [text for text in array.unique().to_pylist() if text is not None and not _is_number(text)]
        numbers, faulty = array, pc.is_in(array, value_set=pa.array(wrong, array.type))
    if pc.any(faulty).as_py():
        row = int(pc.index(faulty, True).as_py())
        text = array[row].as_py()
        raise DataError(f"{text!r} is not a number", file=file, row=row, column=column, fix=_fix_of(text))
    return numbers


def _fix_of(text: str) -> str:
    """Return the advice for a text that is no number: another decimal mark where that reads it."""
    advice = decimal_advice(pa.array([text], pa.string()))
    return f"{advice[:1].upper()}{advice[1:]}." if advice else _NUMBER_FIX


def _is_number(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return text.lower() != "nan"


def list_lengths(lists: pa.Array) -> NDArray[np.int64]:
    """Return the length of each list of a column, 0 for null."""
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
