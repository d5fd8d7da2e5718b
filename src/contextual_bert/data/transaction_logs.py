"""Transaction logs, one row an item, to sets with histories: what a user took, and what the same user took before.

The log is read once, in blocks, and dealt into buckets on disk by the hash of the user. Bucket after bucket is sorted,
grouped and written. So the memory depends on the size of a bucket, and not on that of the log.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_single, is_text, without_value
from contextual_bert.atomic_files import check_can_be_made
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.column_types import DECIMAL_KEY, TYPE_KEY, as_typed
from contextual_bert.data.groups import AMOUNT, SLIPS
from contextual_bert.data.history_report import HistoryReport
from contextual_bert.data.log_baskets import BASKET, ITEM, QUANTITY, TIME, USER, Baskets, Findings, baskets_of
from contextual_bert.data.log_buckets import Buckets, num_buckets_for, user_hashes
from contextual_bert.data.log_files import LogBatch, LogFiles
from contextual_bert.data.log_settings import (
    HISTORY,
    HISTORY_COUNTS,
    HISTORY_TIMES,
    ITEM_COUNTS,
    ITEMS,
    PART,
    HistorySettings,
)
from contextual_bert.data.log_times import LogClock, TimeScale
from contextual_bert.data.ragged import flat_index, offsets_of
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.splits import PARTS, time_borders
from contextual_bert.data.writers import check_writable, row_writer
from contextual_bert.errors import DataError
from contextual_bert.frames import Frame
from contextual_bert.nouns import agreeing, counted
from contextual_bert.places import place_of_row

__all__ = ["write_histories"]

Progress = Callable[[int, int], object]
Stage = Callable[[str], AbstractContextManager[Progress | None]]

_VALUES = 4 << 20  # items of histories in memory at a time
_MOST_OF_SEVERAL = 0.5  # of the names of baskets: above that they are numbered anew for each user


def write_histories(
    log: str | PathLike[str] | Frame,
    output: str | PathLike[str],
    settings: HistorySettings,
    *,
    reading: ReadSettings | None = None,
    stage: Stage | None = None,
) -> HistoryReport:
    """Write one row a basket of a transaction log: its items, and the user's earlier baskets.

    The columns are the user, the time, the name of the basket if it has one, ``items``, ``history`` (earlier baskets,
    the oldest first), ``history_times``, ``counts`` and ``history_counts`` where they are asked for, the columns that
    are carried along, and ``part``. Baskets of one time are not in each other's history. Users stand in the order of a
    hash, the baskets of each by time, whatever the memory that is used.

    Args:
        log: a file; a folder of files; or a table in memory, as ``read_table`` takes it. One row an item.
        output: a path that ends in .parquet, or .jsonl; what is there is replaced.
        settings: the columns of the log, what a basket is, which rows are made.
        reading: how files of text are written, and what becomes of broken rows.
        stage: takes the name of a stage and gives what reports its progress, (done, in all).

    Raises:
        UnknownNameError: a column that the log lacks.
        DataError: a missing user, item, basket or time where such rows are not dropped; times of two kinds; no user
            with two baskets; a part that would be empty.
        ConfigurationError: settings that do not fit the times.

    Example:
        >>> log = pa.table({"who": ["ann", "ann", "ann"], "what": ["hat", "bag", "hat"], "day": [1, 1, 2]})
        >>> settings = HistorySettings(user="who", item="what", time="day", split="none")
        >>> write_histories(log, "sets.parquet", settings).counts["sets"]
        2
        >>> from contextual_bert.data import read_table
        >>> read_table("sets.parquet")["history"].to_pylist()
        [[], [['hat', 'bag']]]
    """
    target, reading, stage = Path(output), reading or ReadSettings(), stage or _quiet
    files = LogFiles(log, reading)
    check_writable(target, pa.schema([(ITEMS, pa.list_(pa.string())), (HISTORY, pa.list_(pa.list_(pa.string())))]))
    check_can_be_made(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".partial", dir=target.parent) as folder:
        work = _Work(files, settings, reading, Path(folder))
        with stage("reading") as progress:
            work.deal(progress)
        with stage("sorting") as progress:
            work.group(progress)
        with stage("writing") as progress:
            return work.write(target, progress)


def _quiet(name: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(eq=False)
class _Work:
    """The three steps of one log: deal the rows into buckets, group each bucket, write each bucket."""

    files: LogFiles
    settings: HistorySettings
    reading: ReadSettings
    folder: Path
    findings: Findings = field(default_factory=Findings)
    dropped: Counter[str] = field(default_factory=Counter[str])
    remarks: list[str] = field(default_factory=list[str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.clock = LogClock(self.settings.time, date_formats=self.reading.date_formats)
        self.buckets = Buckets(self.folder, self.settings.num_buckets or num_buckets_for(self.files.about_rows()))
        self.others: list[str] = []
        self.text_types: dict[str, set[tuple[bytes | None, bytes | None]]] = {}
        self.num_negative: dict[str, tuple[int, str]] = {}
        self.grouped: list[Path] = []
        self.basket_hashes: list[NDArray[np.uint64]] = []
        self.basket_times: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self.are_numbers = {name: self._has_numbers(name) for name in self.settings.columns}

    def _has_numbers(self, column: str) -> bool:
        """Return whether a column has whole numbers in all files, which then need not become text."""
        schemas = [*self.files.schemas()]
        return not self.files.has_texts and all(
            column in schema.names
            and pa.types.is_integer(schema.field(column).type)
            and schema.field(column).type != pa.uint64()
            for schema in schemas
        )

    # Rows to buckets

    def deal(self, progress: Progress | None) -> None:
        """Read the log, and deal its rows into buckets."""
        settings, total = self.settings, max(1, self.files.num_bytes)
        for batch in self.files.batches((settings.time,), ()):
            if self.clock.learn(batch):
                break
        self.clock.check_learned()
        kept = settings.keep
        try:
            for batch in self.files.batches(settings.columns, kept):
                if progress is not None:
                    progress(batch.bytes_done, total)
                rows = self._rows(batch)
                if rows.num_rows:
                    users = rows.column(USER).combine_chunks()
                    users = users if pa.types.is_dictionary(users.type) else users.dictionary_encode()
                    self.buckets.add(rows, user_hashes(users.dictionary)[users.indices.to_numpy()])
            self.buckets.close()
        except BaseException:
            self.buckets.discard()
            raise
        self.scale: TimeScale = self.clock.scale()
        if settings.session_gap is not None and not self.scale.is_of_calendar:
            raise DataError(
                "the times are numbers that count no unit since 1970, and a gap is given in minutes",
                file=self.files.name,
                column=settings.time,
                fix="Leave the gap of sessions out, or give times.",
            )

    def _rows(self, batch: LogBatch) -> pa.Table:
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
            self.findings.counts["returned"] += int(is_returned.sum())
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
                f"the cell is missing ({count:,} such rows among {batch.table.num_rows:,})",
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

    # Buckets to baskets

    def group(self, progress: Progress | None) -> None:
        """Sort and group each bucket, and keep its baskets on disk."""
        num_rows = 0
        for number, table in enumerate(self.buckets.tables()):
            if progress is not None:
                progress(number, self.buckets.num_buckets)
            if table is None:
                continue
            scaled = pa.array(self.scale.scaled(table.column(TIME).combine_chunks().to_numpy()))
            table = table.set_column(table.column_names.index(TIME), TIME, scaled)
            names = [name for name in table.column_names if not name.startswith("\0")]
            baskets = baskets_of(table, self.settings, self.findings, context=names)
            num_rows += table.num_rows
            self._look_at(baskets)
            path = self.folder / f"grouped-{number:04}.arrow"
            grouped = baskets.to_table()
            with pa.ipc.new_file(
                str(path), grouped.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
            ) as writer:
                writer.write_table(grouped)
            self.grouped.append(path)
        counts = self.findings.counts
        if not num_rows:
            raise DataError(
                "each row is left out", file=self.files.name, fix="Fill in the cells, or name other columns."
            )
        if counts["users"] == counts["single_users"]:
            raise DataError(
                f"no user has a second basket ({counts['users']:,} users), so that no history can be made",
                file=self.files.name,
                column=self.settings.user,
                fix="Name the column of the users, and not one that differs with each basket.",
            )

    def _look_at(self, baskets: Baskets) -> None:
        """Gather what only all buckets together tell: the times of sets, and baskets of several users."""
        if self.settings.split == "time":
            times = baskets.times[self._eligible(baskets, is_counted=False)]
            self.basket_times.append(np.unique(times, return_counts=True))
        if baskets.ids is not None:
            self.basket_hashes.append(user_hashes(baskets.ids))

    def _eligible(self, baskets: Baskets, *, is_counted: bool) -> NDArray[np.bool_]:
        """(baskets,) Those that may become a row."""
        is_large = np.diff(baskets.offsets) >= self.settings.min_items
        is_late = baskets.num_earlier >= self.settings.min_history
        if is_counted:
            self.findings.counts.update(short=int((~is_large).sum()), early=int((is_large & ~is_late).sum()))
        return is_large & is_late

    # Baskets to sets

    def write(self, target: Path, progress: Progress | None) -> HistoryReport:
        """Write the sets of all buckets, and return the report."""
        borders, kept = self._borders(), self._kept_columns()
        parts, first, last = Counter[str](dict.fromkeys(PARTS, 0)), None, None
        counts = self.findings.counts
        with row_writer(target) as write:
            for number, path in enumerate(self.grouped):
                if progress is not None:
                    progress(number, len(self.grouped))
                with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
                    baskets = Baskets.from_table(reader.read_all())
                path.unlink()
                low, high = int(baskets.times.min()), int(baskets.times.max())
                first, last = min(low, first if first is not None else low), max(high, last or high)
                rows, part_of = self._targets(baskets, borders)
                if self.settings.split != "none":
                    parts.update(dict(zip(PARTS, np.bincount(part_of, minlength=3).tolist(), strict=True)))
                for start, end in self._pieces(baskets, rows):
                    write(self._sets(baskets, rows[start:end], part_of[start:end], kept))
            if not counts["sets"]:
                raise DataError(
                    "no basket becomes a set", file=self.files.name, fix="Ask for fewer items, or fewer baskets before."
                )
            self._check_parts(parts)
        return self._report(parts, kept, first, last)

    def _borders(self) -> tuple[int, int] | None:
        """Return the first time of validation and of test, in a split by time."""
        if self.settings.split != "time":
            return None
        times, place = np.unique(np.concatenate([each for each, _ in self.basket_times]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([each for _, each in self.basket_times])).astype(np.int64)
        self.basket_times.clear()
        if not len(times):
            return None
        ends = [*times.tolist(), int(times[-1]) + 1]
        first, second = time_borders(counts, validation=self.settings.validation, test=self.settings.test)
        return ends[first], ends[second]

    def _targets(
        self, baskets: Baskets, borders: tuple[int, int] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the baskets that become rows, and the part of each."""
        rows = np.flatnonzero(self._eligible(baskets, is_counted=True))
        users = baskets.user_of[rows]
        if borders is not None:
            times = baskets.times[rows]
            part_of = (times >= borders[0]).astype(np.int64) + (times >= borders[1])
        elif self.settings.split == "last":
            # How many of a user's rows follow, and how many there are: one alone trains, of two none validates.
            sizes = np.bincount(users, minlength=len(baskets.users))
            following = offsets_of(sizes)[1:][users] - 1 - np.arange(len(rows))
            part_of = np.zeros(len(rows), np.int64)
            part_of[(following == 0) & (sizes[users] > 1)] = 2
            part_of[(following == 1) & (sizes[users] > 2)] = 1
        else:
            part_of = np.zeros(len(rows), np.int64)
        if self.settings.targets == "last":
            is_last = np.ones(len(rows), np.bool_)
            is_last[:-1] = (np.diff(users) != 0) | (np.diff(part_of) != 0)
            rows, part_of = rows[is_last], part_of[is_last]
        return rows, part_of

    def _pieces(self, baskets: Baskets, rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows whose histories have some millions of items together."""
        first, after = baskets.histories(rows, longest=self.settings.max_history)
        sizes = baskets.offsets[after] - baskets.offsets[first] + 1
        ends, start = np.cumsum(sizes), 0
        while start < len(rows):
            before = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + _VALUES, side="right")))
            yield start, end
            start = end

    def _sets(
        self, baskets: Baskets, rows: NDArray[np.int64], part_of: NDArray[np.int64], kept: Mapping[str, Any]
    ) -> pa.Table:
        """Return the rows of some baskets as they are written."""
        settings = self.settings
        first, after = baskets.histories(rows, longest=settings.max_history)
        sizes = after - first
        self.findings.counts.update(
            sets=len(rows),
            without=int((sizes == 0).sum()),
            cut=int((baskets.num_earlier[rows] > settings.max_history).sum()),
        )
        outer = offsets_of(sizes)
        earlier = np.repeat(first - outer[:-1], sizes) + np.arange(int(outer[-1]))
        own, before = _picked(baskets.offsets, rows), _picked(baskets.offsets, earlier)
        codes = baskets.codes
        columns: dict[str, Any] = {settings.user: baskets.users.take(pa.array(baskets.user_of[rows]))}
        columns[settings.time] = self.scale.array(baskets.times[rows])
        if settings.basket is not None and baskets.ids is not None:
            columns[settings.basket] = baskets.ids.take(pa.array(rows))
        columns[ITEMS] = _lists(own[0], _named(codes[own[1]], baskets.names))
        columns[HISTORY] = _lists(outer, _lists(before[0], _named(codes[before[1]], baskets.names)))
        columns[HISTORY_TIMES] = _lists(outer, self.scale.array(baskets.times[earlier]))
        if baskets.counts is not None:
            counts = baskets.counts.astype(np.int32)
            columns[ITEM_COUNTS] = _lists(own[0], pa.array(counts[own[1]]))
            columns[HISTORY_COUNTS] = _lists(outer, _lists(before[0], pa.array(counts[before[1]])))
        for name, described in kept.items():
            cells = pa.chunked_array([baskets.context[name].take(pa.array(rows))])
            columns[name] = as_typed(cells, described)
        if settings.split != "none":
            columns[PART] = pa.array(PARTS).take(pa.array(part_of))
        return pa.table(columns)

    def _kept_columns(self) -> dict[str, pa.Field]:
        """Return the columns that are carried along; of text, with what all of it could be."""
        counts, found = self.findings.counts, dict[str, pa.Field]()
        for name, num_varying in self.findings.varying.items():
            if num_varying > SLIPS * counts["several"]:
                if self.settings.keep is not None:
                    raise DataError(
                        f"it has several values in {num_varying:,} of {counted(counts['several'], 'basket')} of "
                        "several rows, and describes the item",
                        file=self.files.name,
                        column=name,
                        fix="Leave it out of the columns that are kept.",
                    )
                self.left_out[name] = (
                    f"it varies within {num_varying:,} of {counted(counts['several'], 'basket')} of several rows, and "
                    "describes the item"
                )
                continue
            if num_varying:
                self.remarks.append(
                    f"warning: column {name!r} has several values in {counted(num_varying, 'basket')}, and is missing "
                    "there. Correct these cells"
                )
            if filled := self.findings.filled[name]:
                self.remarks.append(
                    f"column {name!r}: {counted(filled, 'basket')} {agreeing('have', filled)} empty cells beside a "
                    "value, filled with the value"
                )
            types = self.text_types.get(name, set())
            (kind, decimal) = next(iter(types)) if len(types) == 1 else (_wider(types), None)
            told = {TYPE_KEY: kind, DECIMAL_KEY: decimal}
            found[name] = pa.field(name, pa.string(), metadata={key: each for key, each in told.items() if each})
        return found

    def _check_parts(self, parts: Mapping[str, int]) -> None:
        """Raise DataError where a part that has a share is empty."""
        settings = self.settings
        if settings.split == "none":
            return
        wanted = {"train": 1.0, "validation": settings.validation, "test": settings.test}
        for part, number in parts.items():
            if not number and (settings.split == "last" or wanted[part] > 0):
                what = "by time" if settings.split == "time" else "by each user's last baskets"
                raise DataError(
                    f"the {part} part of a split {what} would be empty",
                    file=self.files.name,
                    column=settings.time if settings.split == "time" else settings.user,
                    fix="Give larger shares or more data, or no split."
                    if settings.split == "time"
                    else "Only users with three baskets are in all parts. Split by time, or not at all.",
                )

    def _report(
        self, parts: Mapping[str, int], kept: Mapping[str, Any], first: int | None, last: int | None
    ) -> HistoryReport:
        settings, counts = self.settings, self.findings.counts
        lines = [*self.files.notes.lines(), *self.scale.remarks, *self.remarks, *self._warnings()]
        if self.dropped:
            told = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
            lines.append(f"rows left out: {told}")
        ends = " to ".join(str(each) for each in self.scale.array(np.array([first, last])).to_pylist())
        by_user = self.findings.by_user or set()
        carried = [name for name in kept if name in self.findings.varying]
        own = [settings.user, settings.time, *([settings.basket] if settings.basket else [])]
        part = [PART] if settings.split != "none" else []
        return HistoryReport(
            dict(counts),
            parts=dict(parts) if settings.split != "none" else {},
            columns=(*own, *[name for name in settings.made_columns if name != PART], *carried, *part),
            times=f"times of {settings.time!r} from {ends}, read as {self.scale.words}",
            by_user=tuple(name for name in carried if name in by_user),
            by_basket=tuple(name for name in carried if name not in by_user),
            left_out=self.left_out,
            remarks=tuple(lines),
            max_history=settings.max_history,
        )

    def _warnings(self) -> list[str]:
        settings, counts, found = self.settings, self.findings.counts, list[str]()
        if returned := counts["returned"]:
            found.append(
                f"rows left out as returned: {returned:,} with 0 or less in {settings.quantity!r}. What was bought "
                "before stays in the histories"
            )
        for name, (number, place) in self.num_negative.items():
            found.append(
                f"warning: column {name!r} is negative in {counted(number, 'row')} ({place} is the first), and the "
                "items count as bought. If they were returned, name the column of quantities with --quantity (in "
                "Python quantity)"
            )
        if wide := counts["wide"]:
            days, name = self.findings.widest
            found.append(
                f"warning: {counted(wide, 'basket')} {agreeing('last', wide)} longer than a day, {name!r} {days:,.0f} "
                f"days: is {settings.basket!r} the name of a basket?"
            )
        if self.basket_hashes:
            hashes, sizes = np.unique(np.concatenate(self.basket_hashes), return_counts=True)
            several = int((sizes > 1).sum())
            if several > _MOST_OF_SEVERAL * len(hashes):
                found.append(f"{settings.basket!r} counts the baskets of each user anew: baskets are told by both")
            elif several:
                found.append(
                    f"warning: {counted(several, 'name')} of {settings.basket!r} {agreeing('have', several)} rows of "
                    "several users, and are read as a basket of each. Are these users one and the same?"
                )
        return found


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


def _picked(offsets: NDArray[np.int64], chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets of some sets, and the places of their elements."""
    return offsets_of(np.diff(offsets)[chosen]), flat_index(offsets, chosen)


def _named(codes: NDArray[np.int32], names: pa.Array) -> pa.Array:
    """Return items by the names that they have, of which each is stored once."""
    is_used = np.zeros(len(names), np.bool_)
    is_used[codes] = True
    place = np.cumsum(is_used, dtype=np.int32) - 1
    return pa.DictionaryArray.from_arrays(pa.array(place[codes]), names.filter(pa.array(is_used)).cast(pa.string()))


def _lists(offsets: NDArray[np.int64], values: Any) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def _wider(types: set[tuple[bytes | None, bytes | None]]) -> bytes | None:
    """Return the type of numbers where some blocks of a column have decimals and others have none."""
    kinds = {kind for kind, _ in types}
    return b"double" if kinds == {b"int64", b"double"} and len({mark for _, mark in types}) == 1 else None
