"""The rows of a log that have all that is needed, as columns for a bucket; and counts of what was left out.

Names are canonical: 7, 7.0 and "7" are one user. Nothing is left out in silence.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_single, is_text, without_value
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.column_types import DECIMAL_KEY, TYPE_KEY, as_typed
from contextual_bert.data.groups import AMOUNT
from contextual_bert.data.logs.log_baskets import BASKET, ITEM, QUANTITY, TIME, USER
from contextual_bert.data.logs.log_files import LogBatch, LogFiles
from contextual_bert.data.logs.log_settings import HistorySettings
from contextual_bert.data.logs.log_times import LogClock
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.errors import DataError
from contextual_bert.nouns import counted
from contextual_bert.places import place_of_row

__all__ = ["LogRows"]

_BYTES_LOOKED_AT, _ROWS_LOOKED_AT = 1 << 20, 1 << 16  # at a time
TextType = tuple[bytes | None, bytes | None]  # what text could be, and its decimal mark


@dataclass(eq=False)
class LogRows:
    """Reader of the rows of a log, block after block.

    Args:
        files: of the log.
        settings: the columns.
        reading: what becomes of rows without a value.

    After all blocks: ``clock`` knows what the times are, ``dropped`` counts rows without a value by reason,
    ``num_returned`` those with a quantity of 0 or less, ``left_out`` has columns that cannot be carried along,
    ``text_types`` what the text of a column could be in each block, and ``num_negative`` the negative amounts of a
    column with the place of the first.
    """

    files: LogFiles
    settings: HistorySettings
    reading: ReadSettings
    dropped: Counter[str] = field(default_factory=Counter[str], init=False)
    left_out: dict[str, str] = field(default_factory=dict[str, str], init=False)
    text_types: dict[str, set[TextType]] = field(default_factory=dict[str, set[TextType]], init=False)
    num_negative: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]], init=False)
    num_returned: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.clock = LogClock(self.settings.time, date_formats=self.reading.date_formats)
        self.are_numbers = {name: self._has_numbers(name) for name in self.settings.columns}

    def look_at_times(self) -> None:
        """Find how texts of times are written, which may take more than one block.

        Raises:
            DataError: no time, or a day that may be another one as far as the whole log tells.
        """
        beginning = replace(self.files, block_bytes=_BYTES_LOOKED_AT, block_rows=_ROWS_LOOKED_AT)
        for batch in beginning.batches((self.settings.time,), ()):
            if self.clock.learn(batch):
                break
        self.clock.check_learned()

    def described(self, column: str) -> pa.Field:
        """Return a column that is carried along, with what all of its text could be."""
        types = self.text_types.get(column, set())
        kind, decimal = next(iter(types)) if len(types) == 1 else (_wider(types), None)
        told = {key: each for key, each in ((TYPE_KEY, kind), (DECIMAL_KEY, decimal)) if each}
        return pa.field(column, pa.string(), metadata=told)

    def _has_numbers(self, column: str) -> bool:
        """Return whether a column has whole numbers in all files, which then need not become text."""
        schemas = [*self.files.schemas()]
        return not self.files.has_texts and all(
            column in schema.names
            and pa.types.is_integer(schema.field(column).type)
            and schema.field(column).type != pa.uint64()
            for schema in schemas
        )

    def read(self, batch: LogBatch) -> pa.Table:
        """Return the rows of a block that have all that is needed, as a bucket takes them."""
        settings, table = self.settings, batch.table
        columns = {USER: self._names(batch, settings.user), ITEM: self._names(batch, settings.item)}
        masks = {settings.user: _is_empty(columns[USER]), settings.item: _is_empty(columns[ITEM])}
        numbers, masks[settings.time] = self.clock.read(batch)
        columns[TIME] = pa.array(numbers)
        if settings.basket is not None:
            columns[BASKET] = self._names(batch, settings.basket)
            masks[settings.basket] = _is_empty(columns[BASKET])
        is_left = np.ones(table.num_rows, np.bool_)
        for name, is_missing in masks.items():
            if is_missing.any():
                self._leave_out(batch, name, is_missing & is_left)
                is_left &= ~is_missing
        if settings.quantity is not None:
            quantities = self._quantities(batch, is_left)
            columns[QUANTITY] = pa.array(quantities)
            is_returned = is_left & (quantities <= 0)
            self.num_returned += int(is_returned.sum())
            is_left &= ~is_returned
        for name in self._carried(batch):
            cells = decoded(table.column(name))
            self._note_type(name, cells, table.schema.field(name))
            self._count_negative(batch, name, cells)
            columns[name] = cells
        rows = pa.table(columns)
        return rows if is_left.all() else rows.filter(pa.array(is_left))

    def _names(self, batch: LogBatch, column: str) -> pa.Array:
        """Return the names in a column: whole numbers, or the canonical text as a dictionary."""
        cells = _whole(batch.table.column(column))
        if pa.types.is_dictionary(cells.type) and is_text(cells.type.value_type):
            names = canonical_array(cells.dictionary).dictionary_encode()
            places = names.indices.take(cells.indices)  # two spellings of a name may be one
            return pa.DictionaryArray.from_arrays(places, names.dictionary)
        cells = _whole(pa.chunked_array([decoded(cells)]))
        if pa.types.is_null(cells.type):
            return (
                pa.nulls(len(cells), pa.int64()) if self.are_numbers[column] else _as_dictionary(pa.nulls(len(cells)))
            )
        if self.are_numbers[column]:
            return cells.cast(pa.int64())
        fix = "Names are text or whole numbers."
        if not is_single(cells.type):
            fix = f"A log has one name a row. {fix}"
            raise DataError(f"the column is of type {cells.type}", file=batch.file, column=column, fix=fix)
        if pa.types.is_floating(cells.type):
            has_decimals = pc.fill_null(pc.not_equal(cells, pc.floor(cells)), False)
            has_decimals = pc.and_(has_decimals, pc.invert(pc.is_nan(pc.fill_null(cells, 0))))
            row = pc.index(has_decimals, True).as_py()
            if row >= 0:
                problem = f"{cells[row].as_py()!r} has decimals, and is no name"
                raise DataError(problem, file=batch.file, row=batch.first_row + row, column=column, fix=fix)
        try:
            encoded = cells.dictionary_encode()
            return _as_dictionary(canonical_array(encoded.dictionary)).take(encoded.indices)
        except DataError:
            try:
                return _as_dictionary(canonical_array(cells, file=batch.file, column=column))
            except DataError as error:
                raise error.moved(row=batch.first_row + (error.row or 0)) from error

    def _leave_out(self, batch: LogBatch, column: str, is_missing: NDArray[np.bool_]) -> None:
        """Count rows without a value, or raise DataError for the first."""
        count = int(is_missing.sum())
        if not count:
            return
        if self.reading.on_bad_row == "error":
            raise DataError(
                f"the cell is missing ({counted(count, 'such row')} among {batch.table.num_rows:,})",
                file=batch.file,
                row=batch.first_row + int(np.flatnonzero(is_missing)[0]),
                column=column,
                fix="Fill it in, or leave such rows out with --on-bad-row drop (in Python ReadSettings).",
            )
        self.dropped[f"without a value of {column!r}"] += count

    def _quantities(self, batch: LogBatch, is_left: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the quantities, which are whole numbers; of a row that is left out anyway 1."""
        column = str(self.settings.quantity)
        cells = decoded(batch.table.column(column))
        if is_text(cells.type):
            cells = as_typed(cells, batch.table.schema.field(column))
        kind = cells.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            fix = "A quantity is a whole number: of returned items negative, or 0."
            raise DataError(f"the column is of type {kind}", file=batch.file, column=column, fix=fix)
        values = pc.fill_null(cells.cast(pa.float64(), safe=False), float("nan")).to_numpy()
        is_missing = np.isnan(values) & is_left
        self._leave_out(batch, column, is_missing)
        is_left &= ~is_missing
        # Of weights, such as 0.4 kg, each is one.
        return np.where(is_left, np.sign(values) * np.ceil(np.abs(values)), 1).astype(np.int64)

    def _carried(self, batch: LogBatch) -> list[str]:
        """Return the columns of a block that may be context."""
        made, found = self.settings.made_columns, list[str]()
        for name in batch.table.column_names:
            if name in self.settings.columns or name in self.left_out:
                continue
            kind = batch.table.schema.field(name).type
            if name in made:
                self.left_out[name] = "the table that is made has a column that is called so"
            elif not is_single(decoded(pa.array([], kind)).type) and not (is_list(kind) and is_single(kind.value_type)):
                self.left_out[name] = f"it is of type {kind}"
            else:
                found.append(name)
        return found

    def _note_type(self, name: str, cells: pa.ChunkedArray, described: pa.Field) -> None:
        """Remember what the text of a block could be: what all blocks could be, the column becomes."""
        if self.files.has_texts and cells.null_count < len(cells):
            told = described.metadata or {}
            kind = told.get(TYPE_KEY) if is_text(cells.type) else str(cells.type).encode()
            self.text_types.setdefault(name, set()).add((kind, told.get(DECIMAL_KEY)))

    def _count_negative(self, batch: LogBatch, name: str, cells: pa.ChunkedArray) -> None:
        """Count negative amounts, of which returns have them."""
        if AMOUNT.search(name) is None:
            return
        numbers = as_typed(cells, batch.table.schema.field(name))
        kind = numbers.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            is_negative = pc.fill_null(pc.less(numbers.cast(pa.float64(), safe=False), 0), False)
            count = pc.sum(is_negative, min_count=0).as_py()
            if count:
                row = batch.first_row + pc.index(is_negative, True).as_py()
                place = f"{f'{batch.file}, ' if batch.file else ''}{place_of_row(row, batch.file)}"
                before, first = self.num_negative.get(name, (0, place))
                self.num_negative[name] = (before + count, first)


def _whole(column: pa.ChunkedArray) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _as_dictionary(names: pa.Array) -> pa.DictionaryArray:
    return names.cast(pa.string()).dictionary_encode()


def _is_empty(cells: pa.Array) -> NDArray[np.bool_]:
    """Return which rows have no name."""
    if not pa.types.is_dictionary(cells.type):
        return np.asarray(without_value(cells), np.bool_)
    is_empty = np.append(np.asarray(without_value(cells.dictionary), np.bool_), True)
    return is_empty[pc.fill_null(cells.indices, len(cells.dictionary)).to_numpy()]


def _wider(types: set[tuple[bytes | None, bytes | None]]) -> bytes | None:
    """Return the type of numbers where some blocks of a column have decimals and others have none."""
    kinds = {kind for kind, _ in types}
    return b"double" if kinds == {b"int64", b"double"} and len({mark for _, mark in types}) == 1 else None
