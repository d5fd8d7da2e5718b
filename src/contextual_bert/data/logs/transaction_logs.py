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
from numpy.typing import NDArray

from contextual_bert.atomic_files import check_can_be_made
from contextual_bert.data.column_types import as_typed
from contextual_bert.data.groups import SLIPS
from contextual_bert.data.logs.history_report import HistoryReport
from contextual_bert.data.logs.log_baskets import DAY, TIME, USER, Baskets, Findings, baskets_of
from contextual_bert.data.logs.log_buckets import Buckets, num_buckets_for, user_hashes
from contextual_bert.data.logs.log_files import LogFiles
from contextual_bert.data.logs.log_rows import LogRows
from contextual_bert.data.logs.log_settings import (
    DAYS_AGO,
    HISTORY,
    HISTORY_COUNTS,
    HISTORY_TIMES,
    ITEM_COUNTS,
    ITEM_TIMES,
    ITEMS,
    PART,
    HistorySettings,
)
from contextual_bert.data.logs.log_times import TimeScale
from contextual_bert.data.ragged import flat_index, offsets_of
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.splits import PARTS, time_borders
from contextual_bert.data.writers import check_writable, row_writer
from contextual_bert.errors import DataError
from contextual_bert.frames import Frame
from contextual_bert.nouns import agreeing, counted

__all__ = ["write_histories"]

Progress = Callable[[int, int], object]
Stage = Callable[[str], AbstractContextManager[Progress | None]]

_VALUES = 4 << 20  # items of histories in memory at a time
_MANY_USERS, _LARGE_USER = 100, 0.05  # of the rows
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
    remarks: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.rows = LogRows(self.files, self.settings, self.reading)
        self.buckets = Buckets(self.folder, self.settings.num_buckets or num_buckets_for(self.files.about_rows()))
        self.grouped: list[Path] = []
        self.basket_hashes: list[NDArray[np.uint64]] = []
        self.basket_times: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    # Rows to buckets

    def deal(self, progress: Progress | None) -> None:
        """Read the log, and deal its rows into buckets."""
        settings, total = self.settings, max(1, self.files.num_bytes)
        self.rows.look_at_times()
        try:
            for batch in self.files.batches(settings.columns, settings.keep):
                if progress is not None:
                    progress(batch.bytes_done, total)
                rows = self.rows.read(batch)
                if rows.num_rows:
                    users = rows.column(USER).combine_chunks()
                    users = users if pa.types.is_dictionary(users.type) else users.dictionary_encode()
                    self.buckets.add(rows, user_hashes(users.dictionary)[users.indices.to_numpy()])
            self.buckets.close()
        except BaseException:
            self.buckets.discard()
            raise
        self.scale: TimeScale = self.rows.clock.scale()
        if (settings.session_gap is not None or settings.has_days) and not self.scale.is_of_calendar:
            asked = "a gap of minutes" if settings.session_gap is not None else "days before a set"
            raise DataError(
                f"the times are numbers that count no unit since 1970, and {asked} cannot be told",
                file=self.files.name,
                column=settings.time,
                fix="Give times, or leave that out.",
            )

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
            what = "item" if self.settings.is_sequence else "basket"
            raise DataError(
                f"no user has a second {what} ({counts['users']:,} users), so that nothing comes before another",
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
        sizes = baskets.num_earlier + 1 if self.settings.is_sequence else np.diff(baskets.offsets)
        is_large = sizes >= self.settings.min_items
        is_late = baskets.num_earlier >= self.settings.min_history
        if is_counted:
            self.findings.counts.update(short=int((~is_large).sum()), early=int((is_large & ~is_late).sum()))
        return is_large & is_late

    # Baskets to sets

    def write(self, target: Path, progress: Progress | None) -> HistoryReport:
        """Write the sets of all buckets, and return the report."""
        borders, kept = self._borders(), self._kept_columns()
        parts, times = Counter[str](dict.fromkeys(PARTS, 0)), list[int]()
        counts = self.findings.counts
        with row_writer(target) as write:
            for number, path in enumerate(self.grouped):
                if progress is not None:
                    progress(number, len(self.grouped))
                with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
                    baskets = Baskets.from_table(reader.read_all(), is_sequence=self.settings.is_sequence)
                path.unlink()
                ends = [int(baskets.times.min()), int(baskets.times.max())]
                times = [min(*times, *ends), max(*times, *ends)] if times else ends
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
        return self._report(parts, kept, times)

    def _borders(self) -> tuple[int, int] | None:
        """Return the first time of validation and of test, in a split by time."""
        if self.settings.split != "time":
            return None
        times, place = np.unique(np.concatenate([each for each, _ in self.basket_times]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([each for _, each in self.basket_times])).astype(np.int64)
        self.basket_times.clear()
        if not len(times):
            return None
        ends = np.append(times, times[-1] + 1)
        first, second = time_borders(counts, validation=self.settings.validation, test=self.settings.test)
        return int(ends[first]), int(ends[second])

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
        is_last = np.ones(len(rows), np.bool_)
        is_last[:-1] = (np.diff(users) != 0) | (np.diff(part_of) != 0)
        if self.settings.targets == "all":
            # All items of a sequence of the training part are learned from its longest row.
            is_last |= part_of > 0 if self.settings.is_sequence else True
        return rows[is_last], part_of[is_last]

    def _pieces(self, baskets: Baskets, rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows whose histories have some millions of items together."""
        first, after = baskets.histories(rows, longest=self.settings.num_newest)
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
        # The item that is asked for is one of a sequence.
        num_before = settings.num_newest - 1 if settings.is_sequence else settings.num_newest
        first, after = baskets.histories(rows, longest=num_before)
        sizes = after - first
        self.findings.counts.update(
            sets=len(rows),
            without=int((sizes == 0).sum()),
            cut=int((baskets.num_earlier[rows] > num_before).sum()),
        )
        if settings.is_sequence:
            return self._sequences(baskets, rows, first, part_of, kept)
        outer = offsets_of(sizes)
        earlier = np.repeat(first - outer[:-1], sizes) + np.arange(int(outer[-1]))
        own, before = _picked(baskets.offsets, rows), _picked(baskets.offsets, earlier)
        codes = baskets.codes
        columns: dict[str, Any] = {settings.user: baskets.users.take(pa.array(baskets.user_of[rows]))}
        columns[settings.time] = self.scale.array(baskets.times[rows])
        if settings.basket is not None and baskets.ids is not None:
            columns[settings.basket] = baskets.ids.take(pa.array(rows))
        columns[ITEMS] = _lists(own[0], _named(codes[own[1]], baskets.names))
        history = _lists(before[0], _named(codes[before[1]], baskets.names))
        if settings.has_days:
            days = (np.repeat(baskets.times[rows], sizes) - baskets.times[earlier]) / DAY
            history = pa.StructArray.from_arrays([history, pa.array(days)], names=[ITEMS, DAYS_AGO])
        columns[HISTORY] = _lists(outer, history)
        columns[HISTORY_TIMES] = _lists(outer, self.scale.array(baskets.times[earlier]))
        if baskets.counts is not None:
            counts = baskets.counts.astype(np.int32)
            columns[ITEM_COUNTS] = _lists(own[0], pa.array(counts[own[1]]))
            columns[HISTORY_COUNTS] = _lists(outer, _lists(before[0], pa.array(counts[before[1]])))
        return self._with_context(columns, baskets, rows, part_of, kept)

    def _sequences(
        self,
        baskets: Baskets,
        rows: NDArray[np.int64],
        first: NDArray[np.int64],
        part_of: NDArray[np.int64],
        kept: Mapping[str, Any],
    ) -> pa.Table:
        """Return rows of all items from the first to that of the row, which is asked for."""
        sizes = rows + 1 - first
        offsets = offsets_of(sizes)
        own = np.repeat(first - offsets[:-1], sizes) + np.arange(int(offsets[-1]))
        codes = baskets.codes[own].astype(np.int64)
        different = np.unique(np.repeat(np.arange(len(rows)), sizes) * len(baskets.names) + codes)
        num_different = np.bincount(different // max(1, len(baskets.names)), minlength=len(rows))
        self.findings.counts["repeating"] += int((num_different < sizes).sum())
        columns: dict[str, Any] = {
            self.settings.user: baskets.users.take(pa.array(baskets.user_of[rows])),
            ITEMS: _lists(offsets, _named(baskets.codes[own], baskets.names)),
            ITEM_TIMES: _lists(offsets, self.scale.array(baskets.times[own])),
        }
        return self._with_context(columns, baskets, rows, part_of, kept)

    def _with_context(
        self,
        columns: dict[str, Any],
        baskets: Baskets,
        rows: NDArray[np.int64],
        part_of: NDArray[np.int64],
        kept: Mapping[str, Any],
    ) -> pa.Table:
        """Return columns of some baskets as a table, with the columns that are carried along and the part."""
        for name, described in kept.items():
            cells = pa.chunked_array([baskets.context[name].take(pa.array(rows))])
            columns[name] = as_typed(cells, described)
        if self.settings.split != "none":
            columns[PART] = pa.array(PARTS).take(pa.array(part_of))
        return pa.table(columns)

    def _kept_columns(self) -> dict[str, pa.Field]:
        """Return the columns that are carried along; of text, with what all of it could be."""
        counts, found = self.findings.counts, dict[str, pa.Field]()
        for name, num_varying in self.findings.varying.items():
            if self.settings.is_sequence and name not in (self.findings.by_user or ()):
                # One of a moment would be that of the item that is asked for.
                reason = "it has several values for a user, and describes the item or the moment"
                if self.settings.keep is not None:
                    fix = "Leave it out of the columns that are kept."
                    raise DataError(reason, file=self.files.name, column=name, fix=fix)
                self.rows.left_out[name] = reason
                continue
            if num_varying > SLIPS * counts["several"]:
                if self.settings.keep is not None:
                    raise DataError(
                        f"it has several values in {num_varying:,} of {counted(counts['several'], 'basket')} of "
                        "several rows, and describes the item",
                        file=self.files.name,
                        column=name,
                        fix="Leave it out of the columns that are kept.",
                    )
                self.rows.left_out[name] = (
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
            found[name] = self.rows.described(name)
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

    def _report(self, parts: Mapping[str, int], kept: Mapping[str, Any], times: list[int]) -> HistoryReport:
        settings, counts = self.settings, self.findings.counts
        lines = [*self.files.notes.lines(), *self.scale.remarks, *self.remarks, *self._warnings()]
        if dropped := self.rows.dropped:
            told = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
            lines.append(f"rows left out: {told}")
        ends = " to ".join(str(each) for each in self.scale.array(np.array(times)).to_pylist())
        by_user = self.findings.by_user or set()
        carried = [name for name in kept if name in self.findings.varying]
        own = [settings.user, *([] if settings.is_sequence else [settings.time])]
        own += [settings.basket] if settings.basket else []
        part = [PART] if settings.split != "none" else []
        # What is said of the baskets of a day is behind the colon.
        words = self.scale.words.partition(":")[0] if settings.is_sequence else self.scale.words
        return HistoryReport(
            dict(counts),
            parts=dict(parts) if settings.split != "none" else {},
            columns=(*own, *[name for name in settings.made_columns if name != PART], *carried, *part),
            times=f"times of {settings.time!r} from {ends}, read as {words}",
            by_user=tuple(name for name in carried if name in by_user),
            by_basket=tuple(name for name in carried if name not in by_user),
            left_out=self.rows.left_out,
            remarks=tuple(lines),
            max_history=settings.num_newest,
            is_sequence=settings.is_sequence,
        )

    def _warnings(self) -> list[str]:
        settings, counts, found = self.settings, self.findings.counts, list[str]()
        if returned := self.rows.num_returned:
            found.append(
                f"rows left out as returned: {returned:,} with 0 or less in {settings.quantity!r}. What was bought "
                "before stays in the histories"
            )
        for name, (number, place) in self.rows.num_negative.items():
            found.append(
                f"warning: column {name!r} is negative in {counted(number, 'row')} ({place} is the first), and the "
                "items count as bought. If they were returned, name the column of quantities with --quantity (in "
                "Python quantity)"
            )
        most, who = self.findings.largest
        if counts["users"] >= _MANY_USERS and most > _LARGE_USER * counts["rows"]:
            found.append(
                f"warning: the user {who!r} has {most:,} of {counts['rows']:,} rows: a name for all guests, or a "
                "program? Such rows tell nobody's history. Leave them out of the log"
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
