"""The columns of a shop's table that mean something of themselves: the names of its items, prices and what is in stock.

What is wrong with one of them is said here, with its row; what it is used for, `catalogue.py` knows. Not in the paper.
"""

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_text, value_type
from contextual_bert.context import Vocabulary, canonical_array
from contextual_bert.context.dates import are_iso_dates, date_formats_of, to_dates
from contextual_bert.context.hints import other_spelling
from contextual_bert.context.infer import words_for
from contextual_bert.context.marks import unmarked
from contextual_bert.context.raw_values import number_of
from contextual_bert.context.spelling import DATE, TIME, ZONED, DecimalMark, decimal_advice
from contextual_bert.data import ReadSettings
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.column_types import as_typed, filled_cells, spelling_hints, typed_column
from contextual_bert.errors import DataError, SchemaError, UnknownNameError, did_you_mean
from contextual_bert.inference.query_schema import TRUTH_WORDS
from contextual_bert.places import place_of_row

ID_COLUMNS = ("id", "item")
PRICE, STOCK = "price", "in_stock"
_STOCK_FIX = "Give true or false, also 1 and 0 or yes and no. A number of pieces belongs into another column."


def id_column_of(table: pa.Table, vocabulary: Vocabulary, *, file: str | None) -> str:
    """The column that names the items: ``id`` or ``item``; without these the one that holds most items of the model.

    Raises:
        UnknownNameError: there is none.
        SchemaError: there are several.
    """
    found = [name for name in ID_COLUMNS if name in table.column_names] or _columns_of_items(table, vocabulary)
    place = f"{file}: " if file else ""
    if not found:
        known = did_you_mean(ID_COLUMNS[0], table.column_names)
        raise UnknownNameError(
            f"{place}the catalogue has no column 'id' of item names, and none that holds an item of the model",
            fix=f"{known} Name the column of item names 'id'.",
        )
    if len(found) > 1:
        fix = "Leave one out, or rename it; in Python choose with id_column."
        raise SchemaError(
            f"{place}the catalogue has the columns {' and '.join(found)}, and one names the items", fix=fix
        )
    return found[0]


def _columns_of_items(table: pa.Table, vocabulary: Vocabulary) -> list[str]:
    """The column with the most of the model's items, which may be several; none where no column has one."""
    items = vocabulary.array
    num_items: dict[str, int] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = value_type(column.type)
        if is_text(kind) or pa.types.is_integer(kind):
            num_items[name] = pc.sum(pc.is_in(items, value_set=canonical_array(column))).as_py() or 0
    most = max(num_items.values(), default=0)
    return [name for name, number in num_items.items() if number == most > 0]


def item_names(table: pa.Table, column: str, *, file: str | None) -> pa.Array:
    """The canonical names of the rows, each there once.

    Raises:
        UnknownNameError: no such column.
        DataError: a row without a name, or a name that is there twice.
    """
    names = canonical_array(checked_column(table, column, file=file), file=file, column=column)
    if names.null_count:
        row = names.is_null().to_pylist().index(True)
        raise DataError("the item has no name", file=file, row=row, column=column, fix="Name it, or drop the row.")
    first = pc.index_in(names, value_set=names).to_numpy()
    again = np.flatnonzero(first != np.arange(len(names)))
    if len(again):
        row = int(again[0])
        raise DataError(
            f"{names[row].as_py()!r} was in {place_of_row(int(first[row]), file)} already",
            file=file,
            row=row,
            column=column,
            fix="Give one row an item.",
        )
    return names


def as_meant(table: pa.Table, id_column: str, reading: ReadSettings) -> pa.Table:
    """The same table with numbers as numbers, written dates as dates, and null for what stands for a missing value.

    Names of items stay as they are, and so do codes: "10.1" beside "10.10".

    Args:
        table: of the catalogue.
        id_column: that names the items.
        reading: the decimal mark, the formats of dates and the values that stand for a missing one.
    """
    for place, field in enumerate(table.schema):
        if field.name == id_column:
            continue
        column = table.column(place)
        words = words_for(field.name, column.combine_chunks(), reading.missing_values)
        filled = without_values(column, words)
        typed = as_typed(filled, field)
        if typed is filled and is_text(value_type(filled.type)) and (words or reading.decimal is not None):
            typed = typed_column(decoded(filled), decimal=reading.decimal)
        if typed is filled and is_text(value_type(filled.type)):
            typed = as_dates(decoded(filled), reading)
        is_whole = typed is filled or field.name == PRICE or len(pc.unique(typed)) == len(pc.unique(filled))
        found = without_values(typed, words) if is_whole else filled
        if found is not column:
            kept = field if found.type == field.type else pa.field(field.name, found.type)
            table = table.set_column(place, kept, found)
    return table


def without_values(column: pa.ChunkedArray, words: Sequence[str]) -> pa.ChunkedArray:
    """Return a column with null for the values that stand for a missing one; without any the column itself."""
    return pa.chunked_array([unmarked(column.combine_chunks(), words)]) if words else column


def as_dates(column: pa.ChunkedArray, reading: ReadSettings) -> pa.ChunkedArray:
    """Text as days where each cell is one, with the year first or in a format that was named; else unchanged."""
    texts = canonical_array(column.combine_chunks(), is_name=False)
    filled = pc.drop_null(texts)
    if not len(filled) or pc.all(pc.match_substring_regex(filled, f"{DATE}|{TIME}|{ZONED}")).as_py():
        return column
    formats = date_formats_of(texts, reading.date_formats) if reading.date_formats else []
    if len(formats) == 1:
        return pa.chunked_array([to_dates(texts, date_format=formats[0])])
    return pa.chunked_array([to_dates(texts)]) if are_iso_dates(texts) else column


def spelling_remarks(table: pa.Table, id_column: str) -> list[str]:
    """Return a remark on each column of text that looks like numbers or dates, with what to give.

    Example:
        >>> spelling_remarks(pa.table({"id": ["a", "b"], "Preis": ["70,46", "9,99"]}), "id")
        ["The column 'Preis' looks like numbers, and is read as text: give --decimal ',' (in Python decimal)."]
    """
    found: list[str] = []
    for name in table.column_names:
        column = decoded(table.column(name))
        if name in (id_column, STOCK) or not is_text(column.type):
            continue
        hint = other_spelling(canonical_array(column.combine_chunks(), column=name, is_name=False))
        if hint:
            found.append(f"The column {name!r} {hint.replace('read as categories', 'read as text')}.")
    return found


def price_hints(table: pa.Table) -> list[str]:
    """Return a remark on prices of text that may have points between thousands, as 1.200 beside 950.

    Example:
        >>> price_hints(pa.table({"price": ["1.200", "950"]}))[0].rpartition(". ")[2]
        "Give --decimal ',' where 1200 is meant, --decimal '.' where it is right"
    """
    if PRICE not in table.column_names or not is_text(table.schema.field(PRICE).type):
        return []
    hints = spelling_hints(PRICE, filled_cells(table.column(PRICE)))
    return [hint for hint in hints if "--decimal" in hint]


def with_prices(table: pa.Table, *, file: str | None, decimal: DecimalMark | None = None) -> pa.Table:
    """The same table, its prices in a column of numbers: not of categories, nor of text where none is known.

    Args:
        table: of the catalogue.
        file: its path, for messages.
        decimal: the mark before the decimals of prices that are text.

    Raises:
        DataError: a price that is no number of 0 or more.
    """
    if PRICE not in table.column_names:
        return table
    column = decoded(table.column(PRICE))
    prices = column.to_pylist()
    if is_text(column.type):
        prices = [_number_in(price, decimal) for price in prices]
        column = pa.chunked_array([pa.array([_cell(price) for price in prices], pa.float64())])
    faults = [row for row, price in enumerate(prices) if not _is_price(price)]
    if faults:
        row = faults[0]
        raise DataError(
            f"{prices[row]!r:.80} is not a price",
            file=file,
            row=row,
            column=PRICE,
            fix=_price_fix([price for price in prices if isinstance(price, str)]),
        )
    if column.null_count == len(column):
        column = pa.chunked_array([pa.nulls(len(column), pa.float64())])
    return table.set_column(table.column_names.index(PRICE), PRICE, column)


def _price_fix(texts: Sequence[str]) -> str:
    """Return the advice for texts that are no prices: the decimal mark where that is all that is amiss."""
    if texts and (advice := decimal_advice(pa.array(texts, pa.string()))):
        return f"{advice[:1].upper()}{advice[1:]}."
    word = " A word that says so may be named: --missing-value price=WORD." if texts else ""
    return f"Give a number of 0 or more; leave the cell empty if the price is unknown.{word}"


def _number_in(text: str | None, decimal: DecimalMark | None = None) -> float | str | None:
    """The number that a text spells, None where it is blank; the text itself where it spells none."""
    if text is None or not text.strip():
        return None
    try:
        return number_of(text, decimal=decimal)
    except DataError:
        return text


def _cell(price: float | str | None) -> float | None:
    return price if isinstance(price, float) else None


def _is_price(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) and not value < 0 and value != math.inf
    )


def with_stock(table: pa.Table, *, file: str | None) -> pa.Table:
    """Return the same table, with truth values in the column that says what is in stock; an empty cell says nothing.

    Raises:
        DataError: a cell that is neither true nor false.
    """
    if STOCK not in table.column_names:
        return table
    column = table.column(STOCK)
    try:
        words = pc.utf8_trim_whitespace(canonical_array(column, column=STOCK))
    except SchemaError:
        raise DataError(
            f"the type is {column.type}, not a truth value", file=file, column=STOCK, fix=_STOCK_FIX
        ) from None
    spelt = pc.if_else(pc.equal(words, ""), pa.scalar(None, pa.string()), words).dictionary_encode()
    truths = [TRUTH_WORDS.get(word.lower()) for word in spelt.dictionary.to_pylist()]
    if None in truths:
        row = int(pc.index(spelt.indices, truths.index(None)).as_py())
        kind = "" if is_text(value_type(column.type)) else f"the type is {column.type}, not a truth value: "
        raise DataError(
            f"{kind}{words[row].as_py()!r:.80} is neither true nor false",
            file=file,
            row=row,
            column=STOCK,
            fix=_STOCK_FIX,
        )
    found = pa.array(truths, pa.bool_()).take(spelt.indices)
    return table.set_column(table.column_names.index(STOCK), STOCK, found)


def stock(table: pa.Table, is_known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows are in stock, read-only: all that are known, unless a column says otherwise."""
    found = is_known.copy()
    if STOCK in table.column_names:
        found = table.column(STOCK).fill_null(False).to_numpy().astype(np.bool_)
    found.flags.writeable = False
    return found
