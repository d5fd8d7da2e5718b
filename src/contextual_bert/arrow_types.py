"""Kinds of arrow types: one answer wherever a column's type is asked for."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.errors import DataError

__all__ = [
    "checked_text",
    "decoded",
    "is_list",
    "is_single",
    "is_text",
    "value_type",
    "with_truth_in_words",
    "without_value",
    "without_views",
]


def is_text(kind: pa.DataType) -> bool:
    """Return True for text types of any layout.

    Example:
        >>> is_text(pa.large_string()), is_text(pa.binary())
        (True, False)
    """
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_list(kind: pa.DataType) -> bool:
    """Return True for lists, of any length or of one length.

    Example:
        >>> is_list(pa.list_(pa.string())), is_list(pa.list_(pa.float32(), 3)), is_list(pa.string())
        (True, True, False)
    """
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_single(kind: pa.DataType) -> bool:
    """Return True for types with one value a row that can be written as text: a category, a number, a date.

    Example:
        >>> is_single(pa.decimal128(6, 2)), is_single(pa.time64("us")), is_single(pa.list_(pa.string()))
        (True, False, False)
    """
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    dates = (pa.types.is_date, pa.types.is_timestamp)
    return is_text(kind) or any(test(kind) for test in (*tests, *dates))


def without_value(column: Any) -> Any:
    """A mask of the cells that say nothing: null, NaN, or blank text.

    Example:
        >>> without_value(pa.array(["so", " ", None])).to_pylist()
        [False, True, True]
    """
    missing = pc.is_null(column, nan_is_null=True)
    if not is_text(column.type):
        return missing
    return pc.or_(missing, pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), False))


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values: of a dictionary (pandas' categories) that of its entries.

    Example:
        >>> value_type(pa.dictionary(pa.int8(), pa.string())), value_type(pa.int64())
        (DataType(string), DataType(int64))
    """
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def decoded(column: Any) -> Any:
    """The same array or column, its values as they are where it was a dictionary.

    Example:
        >>> decoded(pa.array(["a", "b", "a"]).dictionary_encode()).type
        DataType(string)
    """
    if not pa.types.is_dictionary(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)
    return column.dictionary_decode()


def checked_text(text: str, *, row: int | None = None, column: str | None = None) -> str:
    """The text itself, which Arrow can hold and a tokenizer read.

    Args:
        text: to be looked at.
        row, column: where it stands, for messages.

    Raises:
        DataError: it has half of a character, a surrogate by itself.

    Example:
        >>> checked_text("café")
        'café'
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        problem = f"{text!a:.80} has {half!a}, half of a character"
        raise DataError(problem, row=row, column=column, fix="Give both of its halves.") from None
    return text


def without_views(table: pa.Table) -> pa.Table:
    """The same table with plain text where it had arrow's string views (what polars hands over), which few of arrow's
    functions can work on, and with lists of text of any length where these had one length.

    Example:
        >>> without_views(pa.table({"size": pa.array(["S", "M"], pa.string_view())})).schema.field("size").type
        DataType(large_string)
    """
    for place, field in enumerate(table.schema):
        kind = _plain(field.type)
        if kind != field.type:
            table = table.set_column(place, field.with_type(kind), table.column(place).cast(kind))
    return table


def with_truth_in_words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column, truth values as 'true' and 'false': Python and arrow write them differently.

    Example:
        >>> with_truth_in_words(pa.chunked_array([[True, None]])).to_pylist()
        ['true', None]
    """
    return column.cast(pa.string()) if pa.types.is_boolean(column.type) else column


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), ordered=kind.ordered)
    if is_list(kind):
        value = _plain(kind.value_type)
        if pa.types.is_fixed_size_list(kind) and is_text(value):
            return pa.large_list(value)
        return kind if value == kind.value_type else pa.large_list(value)
    return kind
