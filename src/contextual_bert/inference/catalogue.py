"""The shop's table of items, aligned to a vocabulary: attributes, prices and what is in stock, as whole columns.

It knows ids, names and columns; which item may be proposed is for `constraints.py` to say. Not in the paper.
"""

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_list
from contextual_bert.context import Vocabulary, canonical, canonical_array
from contextual_bert.context.vocabulary import to_doubles
from contextual_bert.data import read_table
from contextual_bert.data.spelling import EVERY_COLUMN, as_typed
from contextual_bert.errors import DataError, SchemaError, UnknownNameError, did_you_mean
from contextual_bert.inference.catalogue_columns import (
    ID_COLUMNS,
    PRICE,
    STOCK,
    id_column_of,
    item_names,
    stock,
    with_numbers,
    with_prices,
)

NO_GROUP = -1
NUM_MASKS = 32  # kept of each attribute, a byte an item: of what customers and tables ask again and again
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)


@dataclass(frozen=True, eq=False)
class Attribute:
    """A column of the catalogue: item ``owners[n]`` has the value ``values[codes[n]]``.

    ``is_known`` (vocabulary,): whether the item's cell is filled; ``numbers`` (vocabulary,): the cell where the column
    holds numbers, NaN where it is empty; ``is_list``: an item may have several values, or none.
    """

    owners: NDArray[np.int64]
    codes: NDArray[np.int64]
    values: pa.Array
    is_known: NDArray[np.bool_]
    numbers: NDArray[np.float64] | None
    is_list: bool

    def has_one_of(self, wanted: Iterable[str]) -> NDArray[np.bool_]:
        """Which items have one of these values: (vocabulary,), kept for who asks again, so nobody writes into it."""
        return self._mask(frozenset(wanted))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The code of each item, NO_GROUP where it is unknown: (vocabulary,); of items with one value each."""
        groups = np.full(len(self.is_known), NO_GROUP, dtype=np.int64)
        groups[self.owners] = self.codes
        groups.flags.writeable = False
        return groups

    @cached_property
    def _mask(self) -> Callable[[frozenset[str]], NDArray[np.bool_]]:
        # Of the columns and not of the attribute, which would hold itself and its columns in memory.
        return lru_cache(NUM_MASKS)(partial(_mask, self.owners, self.codes, self.values, len(self.is_known)))


class Catalogue:
    """What a shop knows of its items.

    Shapes:
        every column (vocabulary,), in the order of the ids; empty for reserved ids and for items that the table lacks.

    Args:
        source: a path or table, as ``read_table`` takes it: one row an item. A column ``price`` holds numbers, a column
            ``in_stock`` truth values; every other column is an attribute, a list of values where an item has several.
        vocabulary: the items of the model.
        id_column: the column of item names; default: ``id`` or ``item``, else the one that holds most items
            of the model.

    Raises:
        SchemaError, UnknownNameError: no column of names, or a price or stock column of another kind.
        DataError: a name that is missing or there twice, a price that is no number or negative, with its row; no item
            of the table is in the vocabulary.

    Relation to its siblings:
        ``constraints.py`` reads it. An empty cell satisfies no condition: where the material of an item is unknown,
        nobody who refuses leather gets it.

    Example:
        >>> vocabulary = Vocabulary(["coat", "hat", "bag"], reserved=["[PAD]"])
        >>> catalogue = Catalogue(pa.table({"id": ["hat", "coat", "kilt"], "price": [20, 90.5, 60]}), vocabulary)
        >>> catalogue.prices.tolist(), catalogue.lacking, catalogue.strangers
        ([nan, 90.5, 20.0, nan], ('bag',), ('kilt',))
        >>> catalogue.set_stock(["coat"], False)
        ()
        >>> catalogue.in_stock.tolist()
        [False, False, True, False]
    """

    def __init__(
        self, source: str | PathLike[str] | pa.Table | Any, vocabulary: Vocabulary, *, id_column: str | None = None
    ) -> None:
        table = read_table(source, code_columns=EVERY_COLUMN)
        file = str(source) if isinstance(source, str | PathLike) else None
        self.id_column = id_column if id_column is not None else id_column_of(table, vocabulary, file=file)
        names = item_names(table, self.id_column, file=file)
        table = with_prices(with_numbers(table, self.id_column), file=file)
        wanted = pa.concat_arrays([pa.nulls(len(vocabulary.reserved), pa.string()), vocabulary.array])
        rows = pc.index_in(wanted, value_set=names, skip_nulls=True)
        if rows.null_count == len(rows):
            raise DataError(
                f"none of the {len(names):,} items is known to the model, such as {names[0].as_py()!r}; it knows "
                f"{', '.join(map(repr, vocabulary.values[:3]))} and {max(0, len(vocabulary.values) - 3):,} more",
                file=file,
                fix="Give the catalogue of the shop that the model was trained for, or name another id column.",
            )
        known = pc.is_in(names, value_set=wanted, skip_nulls=True)
        self.vocabulary = vocabulary
        self.table = table.take(rows)
        self.is_known: NDArray[np.bool_] = rows.is_valid().to_numpy(zero_copy_only=False)
        has_row = self.is_known[len(vocabulary.reserved) :].tolist()
        self.lacking = tuple(name for name, has in zip(vocabulary.values, has_row, strict=True) if not has)
        self.strangers: tuple[str, ...] = tuple(names.filter(pc.invert(known)).to_pylist())
        self._strangers = table.filter(pc.invert(known))
        self._row_of_stranger = {name: row for row, name in enumerate(self.strangers)}
        self._in_stock = stock(self.table, self.is_known, file=file)
        self._attributes: dict[str, Attribute] = {}
        self._lock = threading.Lock()

    @property
    def in_stock(self) -> NDArray[np.bool_]:
        """(vocabulary,), a snapshot that nobody writes into; without a column ``in_stock`` all items of the table."""
        return self._in_stock

    def set_stock(self, items: Iterable[object], is_in_stock: bool) -> tuple[str, ...]:
        """Say that these items are in stock, or are not; requests that are being answered keep what they started with.

        Returns:
            The items that the model does not know, for which nothing changes.
        """
        names = [canonical(item) for item in items]
        ids = self.vocabulary.lookup(pa.array(names, pa.string()))
        with self._lock:
            changed = self._in_stock.copy()
            changed[ids[ids >= 0]] = is_in_stock
            changed.flags.writeable = False
            self._in_stock = changed
        return tuple(name for name, index in zip(names, ids.tolist(), strict=True) if index < 0)

    @property
    def prices(self) -> NDArray[np.float64]:
        """(vocabulary,), NaN where the price is unknown.

        Raises:
            UnknownNameError: there is no column ``price``.
        """
        numbers = self.attribute(PRICE).numbers
        assert numbers is not None  # checked at construction
        return numbers

    def attribute(self, name: str) -> Attribute:
        """A column.

        Raises:
            UnknownNameError: there is none of this name.
            SchemaError: its cells are no values and no lists of values.
        """
        if name not in self.table.column_names:
            known = did_you_mean(name, self.table.column_names)
            raise UnknownNameError(f"The catalogue has no attribute {name!r}. {known}")
        if name == STOCK:  # which changes
            return _attribute(pa.chunked_array([pa.array(self._in_stock, mask=~self.is_known)]), name)
        if name not in self._attributes:
            self._attributes[name] = _attribute(self.table.column(name), name, self.table.schema.field(name))
        return self._attributes[name]

    def groups(self, name: str) -> NDArray[np.int64]:
        """The number of each id's value of this attribute, NO_GROUP where it is unknown: (vocabulary,), read-only.

        Raises:
            UnknownNameError: there is no such attribute.
            SchemaError: items may have several values of it.
        """
        attribute = self.attribute(name)
        if attribute.is_list:
            raise SchemaError(f"The attribute {name!r} holds lists: an item is in one group only. Name another column.")
        return attribute.groups

    def group_of_stranger(self, item: str, name: str) -> int:
        """The group of an item that the model does not know, as ``groups`` numbers them; NO_GROUP where it has none."""
        value = canonical_array(self._cells_of_stranger(item, name))
        number = pc.index(self.attribute(name).values, value[0]).as_py() if value.null_count < len(value) else -1
        return number if number >= 0 else NO_GROUP

    def price_of_stranger(self, item: str) -> float:
        """The price of an item that the model does not know, NaN where the catalogue does not say it."""
        prices = to_doubles(self._cells_of_stranger(item, PRICE).combine_chunks()).drop_null().to_pylist()
        return prices[0] if prices else math.nan

    def _cells_of_stranger(self, item: str, name: str) -> pa.ChunkedArray:
        """One cell, none where the catalogue lacks the item."""
        row = self._row_of_stranger.get(item)
        return self._strangers.column(name).slice(row or 0, 0 if row is None else 1)

    def record(self, item: str) -> dict[str, Any]:
        """The row of an item, for a page that shows it; empty where the catalogue lacks it."""
        index = self.vocabulary.id_of_value(item)
        if index is None or not self.is_known[index]:
            return {}
        return self.table.slice(index, 1).to_pylist()[0]

    def findings(self) -> list[str]:
        """What does not fit between the catalogue and the model, in sentences."""
        found: list[str] = []
        if self.id_column not in ID_COLUMNS:
            found.append(f"The column {self.id_column!r} names the items of the catalogue.")
        if STOCK not in self.table.column_names:
            found.append(f"The catalogue has no column {STOCK!r}: every item of it counts as in stock.")
        if self.lacking:
            found.append(
                f"The catalogue lacks {len(self.lacking):,} of the model's {len(self.vocabulary.values):,} items, "
                f"which count as out of stock and of unknown attributes: {_some(self.lacking)}."
            )
        if self.strangers:
            found.append(
                f"The model does not know {len(self.strangers):,} items of the catalogue, which it never proposes: "
                f"{_some(self.strangers)}."
            )
        return found


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _mask(
    owners: NDArray[np.int64], codes: NDArray[np.int64], values: pa.Array, num_items: int, wanted: frozenset[str]
) -> NDArray[np.bool_]:
    is_wanted = pc.is_in(values, value_set=pa.array(list(wanted), pa.string())).to_numpy(zero_copy_only=False)
    found = np.zeros(num_items, dtype=np.bool_)
    found[owners[is_wanted[codes]]] = True
    found.flags.writeable = False
    return found


def _attribute(column: pa.ChunkedArray, name: str, field: pa.Field | None = None) -> Attribute:
    cells = column.combine_chunks()
    is_known: NDArray[np.bool_] = cells.is_valid().to_numpy(zero_copy_only=False)
    owners = np.flatnonzero(is_known)
    has_lists = is_list(cells.type)
    numbers: NDArray[np.float64] | None = None
    if has_lists:
        owners = pc.list_parent_indices(cells).to_numpy()
        values = canonical_array(pc.list_flatten(cells), column=name)
        is_filled = values.is_valid().to_numpy(zero_copy_only=False)
        is_known[owners[~is_filled]] = False  # a list with a gap may hold anything
        owners, values = owners[is_filled], values.drop_null()
    else:
        counted = as_typed(column, field).combine_chunks() if field is not None else cells
        if any(check(counted.type) for check in _NUMBERS):
            numbers = to_doubles(counted).to_numpy(zero_copy_only=False)
        named = canonical_array(cells, column=name)
        is_known = named.is_valid().to_numpy(zero_copy_only=False)  # NaN is as empty as null
        owners, values = np.flatnonzero(is_known), named.drop_null()
    encoded = values.dictionary_encode()
    return Attribute(
        owners=owners.astype(np.int64),
        codes=encoded.indices.to_numpy().astype(np.int64),
        values=encoded.dictionary,
        is_known=is_known,
        numbers=numbers,
        is_list=has_lists,
    )
