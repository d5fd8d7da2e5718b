"""The columns of a shop's table that mean something of themselves: the names of its items, prices and what is in stock.

What is wrong with one of them is said here, with its row; what it is used for, `catalogue.py` knows. Not in the paper.
"""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_text, value_type
from contextual_bert.context import Vocabulary, canonical_array
from contextual_bert.data.columns import checked_column
from contextual_bert.data.spelling import as_typed
from contextual_bert.errors import DataError, SchemaError, UnknownNameError, did_you_mean, place_of_row

ID_COLUMNS = ("id", "item")
PRICE, STOCK = "price", "in_stock"


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
            f"{place}the catalogue has no column 'id' of item names, and none that holds an item of the model. {known} "
            "Name the column of item names 'id'."
        )
    if len(found) > 1:
        fix = "Leave one out, or rename it; in Python choose with id_column."
        raise SchemaError(f"{place}the catalogue has the columns {' and '.join(found)}, and one names the items. {fix}")
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


def with_numbers(table: pa.Table, id_column: str) -> pa.Table:
    """The same table, its numbers as numbers, but not the names of items, nor codes: "10.1" beside "10.10"."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        typed = as_typed(column, field)
        if typed is column or field.name == id_column:
            continue
        if field.name == PRICE or len(pc.unique(typed)) == len(pc.unique(column)):
            table = table.set_column(place, pa.field(field.name, typed.type), typed)
    return table


def with_prices(table: pa.Table, *, file: str | None) -> pa.Table:
    """The same table, its prices in a column of numbers: not of categories, nor of text where none is known.

    Raises:
        DataError: a price that is no number of 0 or more.
    """
    if PRICE not in table.column_names:
        return table
    column = decoded(table.column(PRICE))
    prices = column.to_pylist()
    faults = [row for row, price in enumerate(prices) if not _is_price(price)]
    if faults:
        # One word makes a column of CSV text: then that cell is the fault, not the first number.
        row = next((row for row in faults if not str(prices[row]).replace(".", "", 1).isdigit()), faults[0])
        raise DataError(
            f"{prices[row]!r:.80} is not a price",
            file=file,
            row=row,
            column=PRICE,
            fix="Give a number of 0 or more; leave the cell empty if the price is unknown.",
        )
    if column.null_count == len(column):
        column = pa.chunked_array([pa.nulls(len(column), pa.float64())])
    return table.set_column(table.column_names.index(PRICE), PRICE, column)


def _is_price(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) and not value < 0 and value != math.inf
    )


def stock(table: pa.Table, is_known: NDArray[np.bool_], *, file: str | None) -> NDArray[np.bool_]:
    """Which rows are in stock, read-only: all that are known, unless a column says otherwise.

    Raises:
        DataError: that column holds no truth values.
    """
    found = is_known.copy()
    if STOCK in table.column_names:
        column = table.column(STOCK)
        if not pa.types.is_boolean(column.type):
            raise DataError(
                f"the type is {column.type}, not a truth value", file=file, column=STOCK, fix="Give true or false."
            )
        found = column.fill_null(False).to_numpy().astype(np.bool_)
    found.flags.writeable = False
    return found
