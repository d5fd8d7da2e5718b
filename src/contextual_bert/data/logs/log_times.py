"""The times of a log, read block after block as whole numbers that sort by time, and what they are.

All blocks have to agree: all dates or times, with a zone or without one; or all numbers of one unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_text, without_value
from contextual_bert.context.dates import (
    are_iso_dates,
    date_formats_of,
    parsed_times,
    with_hyphens,
    with_written_digits,
)
from contextual_bert.context.spelling import FLOAT, INTEGER
from contextual_bert.data.column_types import filled_cells
from contextual_bert.data.instants import ZONE, instants
from contextual_bert.data.logs.log_files import LogBatch
from contextual_bert.errors import DataError

__all__ = ["LogClock", "TimeScale"]

Kind = Literal["dates", "times without a zone", "times with a zone", "numbers"]
_ISO = "iso"
_NUMBER = "number"
_MICRO = 1_000_000
_DAY = 86_400 * _MICRO
_YEAR_FIRST = "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOST_EXACT = float(1 << 53)
# Numbers that are counted since 1970 in a unit, from 1973 to 2286 -> what a microsecond is of them.
_UNITS = (
    ("seconds", 1e8, 1e10, _MICRO, 1),
    ("milliseconds", 1e11, 1e13, 1000, 1),
    ("microseconds", 1e14, 1e16, 1, 1),
    ("nanoseconds", 1e17, 9.3e18, 1, 1000),
)
_LIKE_DAYS = (1900_01_01, 2100_12_31)
_FIX = (
    "Write times as 2016-03-05 or 2016-03-05T14:30:00, all with a zone such as +01:00 or none; or say how they are "
    "written with --date-format, as '%d/%m/%Y %H:%M:%S' (in Python date_formats)."
)
_ORDERS = tuple((f"%d{mark}%m{mark}%Y", f"%m{mark}%d{mark}%Y") for mark in "/.-")


@dataclass(frozen=True)
class TimeScale:
    """What the whole numbers of a clock are.

    Args:
        kind: type of the times in a table that is written.
        factor, divisor: number -> microseconds, or -> the number of the log where it counts no unit since 1970.
        words: for people.
        remarks: what should be looked at.
    """

    kind: pa.DataType
    factor: int
    divisor: int
    words: str
    remarks: tuple[str, ...] = ()

    @property
    def is_of_calendar(self) -> bool:
        """Return whether the times are moments, and no mere numbers in their order."""
        return pa.types.is_temporal(self.kind)

    def scaled(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers as microseconds, or as those of the log."""
        return numbers * self.factor // self.divisor

    def array(self, numbers: NDArray[np.int64]) -> pa.Array:
        """Scaled numbers as the times of a table."""
        if pa.types.is_date32(self.kind):
            return pa.array(numbers // _DAY).cast(pa.int32()).cast(self.kind)
        return pa.array(numbers).cast(self.kind)


class LogClock:
    """Reader of the column of times.

    Args:
        column: its name.
        date_formats: how texts and numbers are written that are not ISO 8601.
    """

    def __init__(self, column: str, *, date_formats: Sequence[str] = ()) -> None:
        self._column, self._formats = column, tuple(date_formats)
        self._kind: Kind | None = None
        self._first_place = ""
        self._way: str | None = None  # how texts are written: ISO, numbers, or a format of strptime
        self._candidates: list[str] = []
        self._first_text: tuple[str | None, int, str] | None = None
        self._zones: dict[str, None] = {}
        self._lowest, self._highest = np.iinfo(np.int64).max, np.iinfo(np.int64).min

    def learn(self, batch: LogBatch) -> bool:
        """Look at how the texts of a block are written, before any is read. Return False where more has to be seen."""
        cells, rows = self._filled(batch)
        if not is_text(cells.type):
            return True
        if not len(cells):
            return False
        if self._first_text is None:
            self._first_text = (batch.file, batch.first_row + int(rows[0]), str(cells[0].as_py()))
        if not self._candidates:
            self._way, self._candidates = self._written(cells)
            if self._way is None and not self._candidates:
                raise self._unreadable(cells, rows, batch)
            return self._way is not None
        self._candidates = [each for each in self._candidates if not parsed_times(cells, each).null_count]
        if not self._candidates:
            raise self._unreadable(cells, rows, batch)
        self._way = self._candidates[0] if len(self._candidates) == 1 else None
        return self._way is not None

    def check_learned(self) -> None:
        """Raise DataError where the whole log leaves open which number is the day and which the month."""
        if self._way is None and len(self._candidates) > 1 and self._first_text is not None:
            file, row, text = self._first_text
            raise DataError(
                f"{text!r} may be two days, and no row of the log says which",
                file=file,
                row=row,
                column=self._column,
                fix=f"Give --date-format {self._candidates[0]!r} or {self._candidates[1]!r} (in Python date_formats).",
            )

    def read(self, batch: LogBatch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return a number for each row of a block, and which rows have no time.

        Raises:
            DataError: a cell that is no time, or of another kind than those before, with its row.
        """
        cells, rows = self._filled(batch)
        numbers = np.zeros(batch.table.num_rows, np.int64)
        is_missing = np.ones(batch.table.num_rows, np.bool_)
        if len(cells):
            numbers[rows] = self._numbers(cells, rows, batch)
            is_missing[rows] = False
            self._lowest = min(self._lowest, int(numbers[rows].min()))
            self._highest = max(self._highest, int(numbers[rows].max()))
        return numbers, is_missing

    def _filled(self, batch: LogBatch) -> tuple[pa.ChunkedArray, NDArray[np.int64]]:
        """Return the cells that are not empty, and their rows in the block."""
        cells = decoded(batch.table.column(self._column))
        if self._formats and not is_text(cells.type):
            cells = with_written_digits(pa.table({self._column: cells}), self._formats).column(0)
        if is_text(cells.type):
            cells = filled_cells(cells.cast(pa.string()))
        is_empty = np.asarray(without_value(cells), np.bool_)
        if not is_empty.any():
            return cells, np.arange(len(cells))
        return cells.filter(pa.array(~is_empty)), np.flatnonzero(~is_empty)

    def _written(self, cells: pa.ChunkedArray) -> tuple[str | None, list[str]]:
        """Return how texts are written, or the ways that they may be written in."""
        formats = date_formats_of(cells, self._formats)
        if len(formats) > 1:
            return None, formats
        if formats:
            return formats[0], formats
        if are_iso_dates(cells):
            return _ISO, [_ISO]
        if pc.all(pc.match_substring_regex(cells, FLOAT)).as_py():
            return _NUMBER, [_NUMBER]
        begins = pc.match_substring_regex(with_hyphens(cells), _YEAR_FIRST)
        return (_ISO, [_ISO]) if pc.sum(begins).as_py() > len(cells) / 2 else (None, [])

    def _numbers(self, cells: pa.ChunkedArray, rows: NDArray[np.int64], batch: LogBatch) -> NDArray[np.int64]:
        kind = cells.type
        if is_text(kind):
            return self._of_texts(cells, rows, batch)
        if pa.types.is_date(kind):
            self._agree("dates", batch, rows)
            return cells.cast(pa.date32()).cast(pa.int32()).to_numpy().astype(np.int64) * _DAY
        if pa.types.is_timestamp(kind):
            self._agree("times without a zone" if kind.tz is None else "times with a zone", batch, rows)
            if kind.tz is not None:
                self._zones[kind.tz] = None
            return cells.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.int64()).to_numpy()
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return self._of_numbers(cells, rows, batch)
        raise DataError(
            f"the column is of type {kind}",
            file=batch.file,
            column=self._column,
            fix="A time is a date, a timestamp, a number or text such as 2016-03-05.",
        )

    def _of_texts(self, cells: pa.ChunkedArray, rows: NDArray[np.int64], batch: LogBatch) -> NDArray[np.int64]:
        way = self._way
        if way is None:  # all that was looked at before was empty
            way = self._way = self._written(cells)[0]
        if way is None:
            raise self._unreadable(cells, rows, batch)
        if way == _NUMBER:
            is_number = pc.match_substring_regex(cells, FLOAT)
            if not pc.all(is_number).as_py():
                raise self._faulty(cells, pc.invert(is_number), rows, batch, what="is not a number, as others are")
            is_long = pc.any(pc.greater(pc.utf8_length(cells), 15)).as_py()
            is_whole = is_long and pc.all(pc.match_substring_regex(cells, INTEGER)).as_py()
            return self._of_numbers(cells.cast(pa.int64() if is_whole else pa.float64()), rows, batch)
        if way != _ISO:
            times = parsed_times(cells, way)
            if times.null_count:
                raise self._unreadable(cells, rows, batch)
            has_clock = any(mark in way for mark in ("%H", "%I", "%T", "%s"))
            self._agree("times without a zone" if has_clock else "dates", batch, rows)
            return times.cast(pa.int64()).to_numpy()
        try:
            numbers, has_zone = instants(cells, column=self._column, file=batch.file)
        except DataError as error:
            raise error.moved(row=batch.first_row + int(rows[error.row or 0])) from error
        are_days = (
            not has_zone
            and bool((numbers % _DAY == 0).all())
            and bool(pc.all(pc.equal(pc.utf8_length(with_hyphens(cells)), 10)).as_py())
        )
        self._agree("times with a zone" if has_zone else "dates" if are_days else "times without a zone", batch, rows)
        if has_zone:
            found = pc.struct_field(pc.extract_regex(cells, ZONE), "zone").unique().to_pylist()
            self._zones |= dict.fromkeys("UTC" if each in ("Z", "+00:00") else each for each in found if each)
        return numbers

    def _of_numbers(self, cells: pa.ChunkedArray, rows: NDArray[np.int64], batch: LogBatch) -> NDArray[np.int64]:
        if pa.types.is_integer(cells.type):
            self._agree("numbers", batch, rows)
            return cells.cast(pa.int64()).to_numpy()
        numbers = cells.cast(pa.float64()).to_numpy()
        is_faulty = ~np.isfinite(numbers) | (np.abs(numbers) > _MOST_EXACT)
        if is_faulty.any():
            raise self._faulty(cells, pa.array(is_faulty), rows, batch, what="is too large to sort by")
        _, least, most, factor, _ = _UNITS[0]
        if least <= numbers.min() and numbers.max() < most:  # seconds since 1970, which may have decimals
            self._agree("times without a zone", batch, rows)
            return np.round(numbers * factor).astype(np.int64)
        has_decimals = numbers != np.floor(numbers)
        if has_decimals.any():
            raise self._faulty(cells, pa.array(has_decimals), rows, batch, what="has decimals, and is no time")
        self._agree("numbers", batch, rows)
        return numbers.astype(np.int64)

    def _agree(self, kind: Kind, batch: LogBatch, rows: NDArray[np.int64]) -> None:
        """Raise DataError where a block has another kind of times than those before."""
        place = f"{batch.file}, " if batch.file is not None else ""
        if self._kind is None:
            self._kind, self._first_place = kind, place
        elif {kind, self._kind} == {"dates", "times without a zone"}:
            self._kind = "times without a zone"
        elif kind != self._kind:
            raise DataError(
                f"here are {kind}, and {self._kind} before",
                file=batch.file,
                row=batch.first_row + int(rows[0]),
                column=self._column,
                fix="Write all times of a log in one way: all with a zone, or none; no numbers beside dates.",
            )

    def _faulty(self, cells: Any, is_faulty: Any, rows: NDArray[np.int64], batch: LogBatch, *, what: str) -> DataError:
        place = pc.index(is_faulty, True).as_py()
        row = batch.first_row + int(rows[place])
        return DataError(f"{cells[place].as_py()!r} {what}", file=batch.file, row=row, column=self._column, fix=_FIX)

    def _unreadable(self, cells: pa.ChunkedArray, rows: NDArray[np.int64], batch: LogBatch) -> DataError:
        """Return the error of texts that no way of writing fits: the first one that most others are not like."""
        known = self._way or (self._candidates[0] if self._candidates else None)
        for orders in _ORDERS:
            first, second = (parsed_times(pc.utf8_slice_codeunits(cells, 0, 10), each) for each in orders)
            if (
                known in (None, _ISO)
                and first.null_count
                and second.null_count
                and not pc.any(pc.and_(pc.is_null(first), pc.is_null(second))).as_py()
            ):
                place = int(pc.index(pc.is_null(first), True).as_py())
                other = int(pc.index(pc.is_null(second), True).as_py())
                return DataError(
                    f"{cells[place].as_py()!r} has the month first, and {cells[other].as_py()!r} the day",
                    file=batch.file,
                    row=batch.first_row + int(rows[place]),
                    column=self._column,
                    fix="Write all dates in one order.",
                )
        if known is not None and known not in (_ISO, _NUMBER):
            is_null = pc.is_null(parsed_times(cells, known))
            return self._faulty(cells, is_null, rows, batch, what=f"is not written as {known!r}, as others are")
        ways = [parsed_times(cells, each).is_null() for pair in _ORDERS for each in pair]
        ways += [pc.invert(pc.match_substring_regex(cells, each)) for each in (_YEAR_FIRST, FLOAT)]
        faulty = min(ways, key=lambda each: pc.sum(each).as_py())
        return self._faulty(cells, faulty, rows, batch, what="is not a time")

    def scale(self) -> TimeScale:
        """Return what the numbers are, once all blocks are read."""
        remarks = list[str]()
        if self._kind == "numbers":
            return self._scale_of_numbers()
        zones = [*self._zones]
        if len(zones) > 1:
            remarks.append(
                f"column {self._column!r} has times in {len(zones)} zones ({', '.join(zones[:3])}"
                f"{', ...' if zones[3:] else ''}): sorted by the moment, and written in UTC"
            )
        if self._kind == "dates":
            return TimeScale(pa.date32(), 1, 1, "dates: what a user has on one day is a basket")
        zone = (zones[0] if len(zones) == 1 else "UTC") if zones else None
        return TimeScale(pa.timestamp("us", tz=zone), 1, 1, str(self._kind), tuple(remarks))

    def _scale_of_numbers(self) -> TimeScale:
        lowest, highest = self._lowest, self._highest
        for unit, least, most, factor, divisor in _UNITS:
            if least <= lowest and highest < most:
                return TimeScale(pa.timestamp("us"), factor, divisor, f"{unit} since 1970")
        remarks = list[str]()
        if _LIKE_DAYS[0] <= lowest and highest <= _LIKE_DAYS[1]:
            remarks.append(
                f"warning: column {self._column!r}: {lowest} may be a day written as YYYYMMDD. Numbers are sorted, and "
                "no day is read from them. Give --date-format '%Y%m%d' (in Python date_formats)"
            )
        elif highest >= _UNITS[0][2] / 10 and lowest < highest / 2:
            remarks.append(
                f"warning: column {self._column!r} has numbers from {lowest:,} to {highest:,}. They are sorted, and "
                "not read as times since 1970, of which all would be alike"
            )
        return TimeScale(pa.int64(), 1, 1, "numbers, which say an order and no day", tuple(remarks))
