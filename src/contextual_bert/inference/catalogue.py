"""The shop's table of items, aligned to a vocabulary: attributes, prices and what is in stock, as whole columns.

It knows ids, names and columns; which item may be proposed is for `constraints.py` to say. Not in the paper.
"""

import copy
import math
import re
import threading
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_text, value_type
from contextual_bert.context import Vocabulary, canonical, canonical_array
from contextual_bert.context.vocabulary import to_doubles
from contextual_bert.data import ReadSettings, read_table, reading_lines
from contextual_bert.data.column_types import EVERY_COLUMN
from contextual_bert.errors import DataError, SchemaError, UnknownNameError, did_you_mean
from contextual_bert.frames import Frame
from contextual_bert.inference.attributes import NO_GROUP, Attribute, attribute_of
from contextual_bert.inference.catalogue_columns import (
    ID_COLUMNS,
    PRICE,
    STOCK,
    as_meant,
    id_column_of,
    item_names,
    price_hints,
    spelling_remarks,
    stock,
    with_prices,
    with_stock,
)
from contextual_bert.nouns import counted

MOST_READINGS = 5  # of a file that others keep taking the place of
_NO_LETTER = re.compile(r"[\W_]+")


class Catalogue:
    """Items of a shop with attributes, prices and stock.

    Shapes:
        every column (vocabulary,), in the order of the ids; empty for reserved ids and for items that the table lacks.

    Args:
        source: a path, or a table in memory, as ``read_table`` takes it: one row an item. A column ``price``
            holds numbers, a column ``in_stock`` truth values (also 1 and 0, yes and no); every other column is an
            attribute. An item has several values of it where its cell is a list, or text with ``;``, ``|`` or a comma
            between values.
        vocabulary: the items of the model.
        reading: how a file is written: delimiter, encoding, broken rows. Of a table in memory, too, decimal mark and
            dates of text, and the values that stand for a missing one. Default: ``ReadSettings()``.
        id_column: the column of item names; default: ``id`` or ``item``, else the one that holds most items
            of the model.
        needs_known: whether a table without an item of the model is refused as one of another shop.

    Raises:
        SchemaError, UnknownNameError: no column of names, or a price or stock column of another kind.
        DataError: a name that is missing or there twice, a price that is no number or negative, with its row; no item
            of the table is in the vocabulary; a file that is written to while it is read (one that another file
            takes the place of is read again).

    Relation to its siblings:
        ``constraints.py`` reads it. An empty cell satisfies no condition: where the material of an item is unknown,
        nobody who refuses leather gets it.

    Example:
        >>> vocabulary = Vocabulary(["coat", "hat", "bag"], reserved=["[PAD]"])
        >>> catalogue = Catalogue(pa.table({"id": ["hat", "coat", "kilt"], "price": [20, 90.5, 60]}), vocabulary)
        >>> catalogue.prices.tolist(), catalogue.unlisted_items, catalogue.unknown_items
        ([nan, 90.5, 20.0, nan], ('bag',), ('kilt',))
        >>> catalogue.set_stock(["coat"], False)
        ()
        >>> catalogue.in_stock.tolist()
        [False, False, True, False]
    """

    def __init__(
        self,
        source: str | PathLike[str] | Frame,
        vocabulary: Vocabulary,
        *,
        id_column: str | None = None,
        reading: ReadSettings | None = None,
        needs_known: bool = True,
    ) -> None:
        reading = reading or ReadSettings()
        file = str(source) if isinstance(source, str | PathLike) else None
        table = _read(source, file, reading)
        hints = price_hints(table) if reading.decimal is None else []
        self._reading = (*reading_lines(table), *hints)
        self.id_column = id_column if id_column is not None else id_column_of(table, vocabulary, file=file)
        names = item_names(table, self.id_column, file=file)
        table = as_meant(table, self.id_column, reading)
        table = with_stock(with_prices(table, file=file, decimal=reading.decimal), file=file)
        self._rows, self._names, self.file = table, names, file
        self.added_items: tuple[str, ...] = ()
        self._remarks: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._align(vocabulary)
        if needs_known and not self.is_known.any():
            raise DataError(
                f"none of the {len(names):,} items is known to the model, such as {names[0].as_py()!r}; it knows "
                f"{', '.join(map(repr, vocabulary.values[:3]))} and {max(0, len(vocabulary.values) - 3):,} more",
                file=file,
                fix="Give the catalogue of the shop that the model was trained for, or name another id column.",
            )

    def _align(self, vocabulary: Vocabulary) -> None:
        """Bring the rows into the order of the ids."""
        table, names = self._rows, self._names
        wanted = pa.concat_arrays([pa.nulls(len(vocabulary.reserved), pa.string()), vocabulary.array])
        rows = pc.index_in(wanted, value_set=names, skip_nulls=True)
        known = pc.is_in(names, value_set=wanted, skip_nulls=True)
        self.vocabulary = vocabulary
        self.table = table.take(rows)
        self.is_known: NDArray[np.bool_] = rows.is_valid().to_numpy(zero_copy_only=False)
        has_row = self.is_known[len(vocabulary.reserved) :].tolist()
        self.unlisted_items = tuple(name for name, has in zip(vocabulary.values, has_row, strict=True) if not has)
        self.unknown_items: tuple[str, ...] = tuple(names.filter(pc.invert(known)).to_pylist())
        self._unknown_rows = table.filter(pc.invert(known))
        self._row_of_unknown_item = {name: row for row, name in enumerate(self.unknown_items)}
        self._in_stock = stock(self.table, self.is_known)
        self._attributes: dict[str, Attribute] = {}

    def with_added(self, vocabulary: Vocabulary, items: tuple[str, ...], *, remarks: Iterable[str] = ()) -> "Catalogue":
        """The same catalogue for a vocabulary to which these items of it were added, with remarks on them."""
        found = copy.copy(self)
        found.added_items, found._lock, found._remarks = items, threading.Lock(), tuple(remarks)
        found._align(vocabulary)
        return found

    @property
    def known_items(self) -> tuple[str, ...]:
        """The items of the catalogue that the model knows."""
        return tuple(self.vocabulary.value_of(int(index)) for index in self.is_known.nonzero()[0])

    @property
    def rows(self) -> pa.Table:
        """The columns that say what an item is like, in the order of the file: without its name and its stock."""
        return self._rows.drop_columns([name for name in (self.id_column, STOCK) if name in self._rows.column_names])

    def rows_of(self, items: pa.Array) -> NDArray[np.int64]:
        """Return the row of each of these items, -1 where the catalogue lacks it."""
        return pc.index_in(items, value_set=self._names).fill_null(-1).to_numpy().astype(np.int64)

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
            fix = f"Call the column of prices {PRICE!r}, or name it in a condition." if name == PRICE else ""
            raise UnknownNameError(f"the catalogue has no attribute {name!r}", value=name, allowed=known, fix=fix)
        if name == STOCK:  # which changes
            return attribute_of(pa.chunked_array([pa.array(self._in_stock, mask=~self.is_known)]), name)
        if name not in self._attributes:
            self._attributes[name] = attribute_of(self.table.column(name), name, field=self.table.schema.field(name))
        return self._attributes[name]

    def groups(self, name: str) -> NDArray[np.int64]:
        """The number of each id's value of this attribute, NO_GROUP where it is unknown: (vocabulary,), read-only.

        Raises:
            UnknownNameError: there is no such attribute.
            SchemaError: items may have several values of it.
        """
        attribute = self.attribute(name)
        if attribute.is_list:
            raise SchemaError(
                f"the attribute {name!r} holds lists, and an item is in one group only", fix="Name another column."
            )
        return attribute.groups

    def group_of_unknown_item(self, item: str, name: str) -> int:
        """The group of an item that the model does not know, as ``groups`` numbers them; NO_GROUP where it has none."""
        value = canonical_array(self._cells_of_unknown_item(item, name), column=name, is_name=False)
        number = pc.index(self.attribute(name).values, value[0]).as_py() if value.null_count < len(value) else -1
        return number if number >= 0 else NO_GROUP

    def price_of_unknown_item(self, item: str) -> float:
        """The price of an item that the model does not know, NaN where the catalogue does not say it."""
        prices = to_doubles(self._cells_of_unknown_item(item, PRICE).combine_chunks()).drop_null().to_pylist()
        return prices[0] if prices else math.nan

    def _cells_of_unknown_item(self, item: str, name: str) -> pa.ChunkedArray:
        """One cell, none where the catalogue lacks the item."""
        row = self._row_of_unknown_item.get(item)
        return self._unknown_rows.column(name).slice(row or 0, 0 if row is None else 1)

    def record(self, item: str) -> dict[str, Any]:
        """The row of an item, for a page that shows it; empty where the catalogue lacks it."""
        index = self.vocabulary.id_of_value(item)
        if index is None or not self.is_known[index]:
            return {}
        return self.table.slice(index, 1).to_pylist()[0]

    def notes(self) -> list[str]:
        """Return sentences on mismatches between the catalogue and the model."""
        found: list[str] = [*self._reading]
        if self.id_column not in ID_COLUMNS:
            found.append(f"The column {self.id_column!r} names the items of the catalogue.")
        if STOCK not in self.table.column_names:
            alike = [name for name in self.table.column_names if _NO_LETTER.sub("_", name.casefold()) == STOCK]
            renamed = f" Rename {alike[0]!r} where that is it." if alike else ""
            found.append(f"The catalogue has no column {STOCK!r}: every item of it counts as in stock.{renamed}")
        found += spelling_remarks(self.table, self.id_column)
        for name in self.table.column_names:
            if name not in (self.id_column, PRICE, STOCK) and (separator := self._separator(name)) is not None:
                found.append(
                    f"Cells of the column {name!r} hold several values with {separator!r} between them: where finds "
                    "each of them, and the whole cell."
                )
        if self.unlisted_items:
            found.append(
                f"The catalogue lacks {len(self.unlisted_items):,} of the model's {len(self.vocabulary.values):,} "
                f"items, which count as out of stock and of unknown attributes: {_some(self.unlisted_items)}."
            )
        if self.added_items:
            found.append(
                f"New to the run, and known by their features alone: {counted(len(self.added_items), 'item')} of the "
                f"catalogue, {_some(self.added_items)}."
            )
        if self.unknown_items:
            found.append(
                f"The model does not know {len(self.unknown_items):,} items of the catalogue, which it never proposes: "
                f"{_some(self.unknown_items)}."
            )
        return [*found, *self._remarks]

    def _separator(self, name: str) -> str | None:
        kind = value_type(self.table.column(name).type)
        return self.attribute(name).separator if is_text(kind) else None


def _read(source: str | PathLike[str] | Frame, file: str | None, reading: ReadSettings) -> pa.Table:
    """Read a table that stayed the same from the first byte to the last, again if a new one takes its place."""
    for _ in range(MOST_READINGS):
        before = _stamp(file)
        try:
            table = read_table(source, code_columns=EVERY_COLUMN, settings=reading)
        except (DataError, OSError):
            # The start of one file and the end of the next make no table; in one that stayed, the fault is its own.
            if _stamp(file) == before:
                raise
        else:
            if _stamp(file) == before:
                return table
        after = _stamp(file)
        if before is not None and after is not None and before[0] == after[0]:
            break
    raise DataError(
        "the file was changed while it was read",
        file=file,
        fix="Write a new catalogue beside it, then rename it: nobody reads half of it then.",
    )


def _stamp(file: str | None) -> tuple[int, ...] | None:
    """Return what changes when somebody writes to a file; None for what is no file."""
    try:
        found = Path(file).stat() if file is not None else None
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found is not None else None


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
