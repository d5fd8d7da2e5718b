"""Training, validation and test: which row is in which part, by customer, by time or by row; a split is a file.

The part of a customer is a pure function of (seed, customer), so it survives new rows and another order. The file
names the data by their hash and itself by its own, so that wrong data and an edited file are both found out.
It does not know items or contexts; `audit.py` looks for leaks. docs/protocol.md, "Splits".
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_text, without_value
from contextual_bert.atomic_files import replacing_file
from contextual_bert.context.spelling import spelt_array
from contextual_bert.context.vocabulary import canonical_array, normal_form
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.hashing import hash_counters, hash_strings, table_digest, unit_interval
from contextual_bert.data.instants import times_in
from contextual_bert.data.read_settings import OnBadRow, ReadSettings
from contextual_bert.data.sets import SetTable
from contextual_bert.data.text_table import TextTable
from contextual_bert.errors import ConfigurationError, DataError, Message, UnknownNameError, did_you_mean
from contextual_bert.frames import Frame, as_table
from contextual_bert.json_text import json_text, reason_of, unreadable
from contextual_bert.nouns import agreeing, counted

__all__ = [
    "PARTS",
    "Split",
    "SplitKind",
    "new_split",
    "split_by_column",
    "split_by_customer",
    "split_by_row",
    "split_by_time",
    "time_borders",
]

PARTS = ("train", "validation", "test")
SplitKind = Literal["customer", "time", "row", "column"]
# Part -> the words that a column of parts has for it.
PART_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev", "development"),
    "test": ("test", "testing", "held out", "held-out", "heldout", "holdout"),
}
_NUM_NAMED = 10
_FORMAT = "contextual-bert split 1"
_FIELDS = ("by", "column", "fractions", "seed", "data_digest", "num_rows", "assignment")
_LATER_FIELDS = ("group_by", "cold_items")  # that not every file has


Examples = TypeVar("Examples", bound=SetTable | TextTable)


@dataclass(frozen=True, eq=False)
class Split:
    """The part of each row of a table.

    Args:
        assignment: 0 training, 1 validation, 2 test, 3 none of them, for each row of the table.
        by: "customer", "time" or "row"; "column" or "file" where the parts came with the data.
        column: the column it was made from, if any.
        fractions: the shares asked for, of validation and test; of parts that came with the data those that they are.
        seed: seed of the hash; a split by time has none.
        data_digest: hash of the table.
        group_by: the columns that its rows were grouped by, where the file has one item a row.
        cold_items: items that are left out of the training sets, so that one sees what is said of items that are new.

    Example:
        >>> table = pa.table({"who": [str(i) for i in range(100)]})
        >>> split = split_by_customer(table, "who", validation=0.2, test=0.2)
        >>> sum(len(split.rows(part)) for part in PARTS)
        100
    """

    assignment: NDArray[np.uint8]
    by: Literal["customer", "time", "row", "column", "file"]
    column: str | None
    fractions: tuple[float, float]
    seed: int | None
    data_digest: str
    group_by: tuple[str, ...] = ()
    cold_items: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assignment = np.array(self.assignment, dtype=np.uint8)
        assignment.setflags(write=False)
        object.__setattr__(self, "assignment", assignment)

    @cached_property
    def digest(self) -> str:
        """Hash of everything above."""
        return _digest(self._content)

    def rows(self, part: str) -> NDArray[np.int64]:
        """The rows of a part, in the order of the table."""
        if part not in PARTS:
            raise UnknownNameError(f"There is no part {part!r} in a split", allowed=did_you_mean(part, PARTS))
        return np.flatnonzero(self.assignment == PARTS.index(part))

    def restricted(self, keep: NDArray[np.bool_]) -> "Split":
        """The same split of the rows under a mask; the others are in no part.

        Example:
            >>> split = split_by_row(pa.table({"x": range(100)}), validation=0.2, test=0.2)
            >>> len(split.restricted(np.arange(100) < 10).rows("train")) <= 10
            True
        """
        return replace(self, assignment=np.where(keep, self.assignment, len(PARTS)))

    def without_customers(
        self, table: pa.Table, column: str, customers: Collection[str], *, file: str | None = None
    ) -> "tuple[Split, int]":
        """The same split without the rows of some customers, which are in no part, and how many rows these are.

        A customer is found in any spelling of the same text: blanks around it and the form of its accents do not count.

        Args:
            table: that the split is of.
            column: of the customers.
            customers: who is left out.
            file: of the table, for messages.

        Raises:
            UnknownNameError: no such column; customers that the table does not have, by name.
            DataError: a part would be empty; a customer is missing.

        Example:
            >>> table = pa.table({"who": [str(number % 50) for number in range(100)]})
            >>> split = split_by_customer(table, "who", validation=0.2, test=0.2)
            >>> split.without_customers(table, "who", ["7"])[1]
            2
        """
        own = canonical_array(checked_column(table, column, file=file, complete=True), file=file, column=column)
        encoded = own.dictionary_encode()
        wanted = spelt_array(pa.array(list(customers), pa.string())).unique()
        names = encoded.dictionary
        known = {*names.to_pylist()}
        forms = [name if name in known else normal_form(name) for name in wanted.to_pylist()]  # 7.0 is 7
        wanted = pc.if_else(pc.is_in(pa.array(forms), value_set=names), pa.array(forms), wanted)
        unknown = wanted.filter(pc.invert(pc.is_in(wanted, value_set=names))).to_pylist()
        if unknown:
            more = f" and {len(unknown) - _NUM_NAMED:,} more" if len(unknown) > _NUM_NAMED else ""
            raise UnknownNameError(
                f"{f'{file}, ' if file else ''}column {column!r} has no customer "
                f"{', '.join(map(repr, unknown[:_NUM_NAMED]))}{more} ({len(unknown):,} of "
                f"{len(wanted):,} {agreeing('are', len(unknown))} unknown)",
                fix="Correct these ids, or leave them out of the list.",
            )
        is_left_out = pc.is_in(names, value_set=wanted).to_numpy(zero_copy_only=False)[encoded.indices.to_numpy()]
        found = self.restricted(~is_left_out)
        for part in PARTS:
            if len(self.rows(part)) and not len(found.rows(part)):
                raise DataError(
                    f"without these customers the {part} part would be empty",
                    file=file,
                    column=column,
                    fix="Give larger shares, another seed, or fewer customers.",
                )
        return found, int(is_left_out.sum())

    def select(self, examples: Examples, part: str) -> Examples:
        """The sets, or texts, of a part."""
        self.check_rows(examples)
        return examples.select(np.isin(examples.rows, self.rows(part)))

    def check_rows(self, examples: SetTable | TextTable) -> None:
        """Raise a DataError if the sets, or texts, come from a table with another number of rows."""
        if examples.num_rows_in != len(self.assignment):
            raise DataError(
                f"the rows are from a table of {examples.num_rows_in:,} rows, the split is for "
                f"{len(self.assignment):,}",
                fix="Use the split with the table it was made from, or make a new one.",
            )

    @property
    def is_in_part(self) -> NDArray[np.bool_]:
        """(rows,) False for rows that are in no part: those of customers who were left out."""
        return self.assignment < len(PARTS)

    def is_of(self, table: pa.Table) -> bool:
        """Return True for the table that the split was made from."""
        return len(self.assignment) == table.num_rows and self.data_digest == table_digest(table)

    def check(self, table: Frame, *, file: str | None = None) -> None:
        """Raise a DataError if this is not the table that the split was made from."""
        table = as_table(table)
        fix = "Use the table that the split was made from, or make a new split."
        if table.num_rows != len(self.assignment):
            raise DataError(
                f"the table has {table.num_rows:,} rows, the split is for {len(self.assignment):,}", file=file, fix=fix
            )
        digest = table_digest(table)
        if digest != self.data_digest:
            raise DataError(
                f"the content of the table has the hash {digest[:16]}, the split was made from {self.data_digest[:16]}",
                file=file,
                fix=fix,
            )

    def lines(self) -> list[str]:
        """The split for people, a line a part."""
        of = f" of {self.column}" if self.column else ""
        rows = f"sets grouped by {', '.join(self.group_by)}" if self.group_by else "rows"
        text = [f"split by {self.by}{of}, {len(self.assignment):,} {rows}, hash {self.digest[:16]}"]
        for part in PARTS:
            count = len(self.rows(part))
            text.append(
                f"{part}: {count:,} {'sets' if self.group_by else 'rows'} ({count / max(1, len(self.assignment)):.1%})"
            )
        if count := int((~self.is_in_part).sum()):
            text.append(f"in no part: {counted(count, 'row')} ({count / len(self.assignment):.1%})")
        return text

    def save(self, path: str | PathLike[str]) -> None:
        """Write the split as JSON: whole, or not at all."""
        target = Path(path)
        counts = {part: len(self.rows(part)) for part in PARTS}
        text = json_text({"format": _FORMAT, "digest": self.digest, "counts": counts, **self._content}, indent=1)
        try:
            with replacing_file(target) as partial:
                partial.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"the split cannot be written: {error}",
                file=str(target),
                fix="Check that the folder exists, is writable and has space.",
            ) from error

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Split":
        """Read a split; a file that was edited, cut off or is of another kind raises a DataError."""
        file, fix = str(path), "Make the split again."
        try:
            loaded = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise DataError("there is no such file", file=file, fix="Check the path, or make the split.") from error
        except RecursionError:
            raise DataError("this is not a split: it is nested too deep", file=file, fix=fix) from None
        except PermissionError as error:
            raise unreadable(file, error, error=DataError) from error
        except (OSError, ValueError) as error:
            raise DataError(f"this is not a split: {reason_of(error)}", file=file, fix=fix) from error
        if not isinstance(loaded, dict) or cast(dict[str, Any], loaded).get("format") != _FORMAT:
            raise DataError(f"this is not a split of the format {_FORMAT!r}", file=file, fix=fix)
        record = cast(dict[str, Any], loaded)
        missing = sorted({"digest", *_FIELDS} - set(record))
        if missing:
            raise DataError(f"the split lacks {', '.join(missing)}", file=file, fix=fix)
        content = {name: record[name] for name in (*_FIELDS, *_LATER_FIELDS) if name in record}
        claimed, found = record["digest"], _digest(content)
        if claimed != found:
            raise DataError(
                f"the split was altered: its content has the hash {found[:16]}, it says {str(claimed)[:16]}",
                file=file,
                fix=fix,
            )
        assignment = np.frombuffer(zlib.decompress(base64.b64decode(record["assignment"])), dtype=np.uint8)
        by, column, (validation, test), seed, data_digest = (record[name] for name in _FIELDS[:5])
        later = [tuple(record.get(name, ())) for name in _LATER_FIELDS]
        split = cls(assignment, by, column, (validation, test), seed, data_digest, *later)
        object.__setattr__(split, "_content", content)  # as it stands in the file, whatever packed it
        return split

    @cached_property
    def _content(self) -> dict[str, Any]:
        # Slow, a second and a half for a million rows, and kept: the digests of all runs are those of level 9.
        packed = base64.b64encode(zlib.compress(self.assignment.tobytes(), level=9)).decode()
        values = (self.by, self.column, list(self.fractions), self.seed, self.data_digest, len(self.assignment), packed)
        # Left out where it says nothing, so that the digest stays that of a split without it.
        later = {name: list(getattr(self, name)) for name in _LATER_FIELDS if getattr(self, name)}
        return {**dict(zip(_FIELDS, values, strict=True)), **later}


def split_by_customer(
    table: Frame, column: str, *, validation: float, test: float, seed: int = 0, file: str | None = None
) -> Split:
    """All rows of a customer in one part, which is a pure function of (seed, customer).

    Shares are met on average over customers, not exactly. A customer is a string: 7, 7.0 and "7" are the same one.
    """
    table = as_table(table)
    customers = checked_column(table, column, file=file, complete=True)
    unique = canonical_array(customers, file=file, column=column).dictionary_encode()
    draws = unit_interval(hash_strings(unique.dictionary, seed=seed))
    assignment = _parts_of(draws, validation, test)[unique.indices.to_numpy()]
    return _split(table, assignment, by="customer", column=column, fractions=(validation, test), seed=seed, file=file)


def split_by_row(table: Frame, *, validation: float, test: float, seed: int = 0, file: str | None = None) -> Split:
    """Each row by itself, a pure function of (seed, row number): for tables without customers."""
    table = as_table(table)
    assignment = _parts_of(unit_interval(hash_counters(seed, np.arange(table.num_rows))), validation, test)
    return _split(table, assignment, by="row", column=None, fractions=(validation, test), seed=seed, file=file)


def split_by_time(
    table: Frame,
    column: str,
    *,
    validation: float,
    test: float,
    file: str | None = None,
    date_formats: Sequence[str] = (),
    on_bad_row: OnBadRow = "error",
) -> Split:
    """The past trains, the present validates, the future tests; rows of the same time stay together.

    Of all borders between two times, those are taken that come closest to the shares. ``date_formats`` say how texts
    are written that are not ISO 8601, as strptime has it. A row without a time is an "error", or in no part ("drop").
    """
    check_fractions(validation, test)
    table = as_table(table)
    if on_bad_row == "drop":
        is_timed = ~np.asarray(without_value(decoded(checked_column(table, column, file=file))), np.bool_)
        if is_timed.any() and not is_timed.all():
            timed, rows = table.filter(pa.array(is_timed)), np.flatnonzero(is_timed)
            try:
                found = split_by_time(
                    timed, column, validation=validation, test=test, file=file, date_formats=date_formats
                )
            except DataError as error:
                row = int(rows[error.row]) if error.row is not None else None
                raise error.moved(row=row) from error
            assignment = np.full(table.num_rows, len(PARTS), np.uint8)
            assignment[rows] = found.assignment
            return replace(found, assignment=assignment, data_digest=table_digest(table))
    times = times_in(
        checked_column(table, column, file=file, complete=True), column=column, file=file, date_formats=date_formats
    )
    distinct, place, counts = np.unique(times, return_inverse=True, return_counts=True)
    first_validation, first_test = time_borders(counts, validation=validation, test=test)
    time_index = np.arange(len(distinct))
    parts = (time_index >= first_validation).astype(np.uint8) + (time_index >= first_test).astype(np.uint8)
    return _split(table, parts[place], by="time", column=column, fractions=(validation, test), seed=None, file=file)


def time_borders(counts: NDArray[np.int64], *, validation: float, test: float) -> tuple[int, int]:
    """Return the places of the first time of validation and of test, among the distinct times in their order.

    Args:
        counts: rows of each distinct time.
        validation, test: shares of the rows, which the borders come as close to as they can.

    Example:
        >>> time_borders(np.array([6, 1, 1, 2]), validation=0.2, test=0.2)
        (1, 3)
    """
    before = np.concatenate([[0], np.cumsum(counts)]) / counts.sum()  # share of the rows before each border
    return int(np.argmin(np.abs(before - (1 - validation - test)))), int(np.argmin(np.abs(before - (1 - test))))


def split_by_column(table: pa.Table, column: str, *, file: str | None = None) -> Split:
    """Take the part of each row from a column: "train", "validation" or "test", or a word that is used for one.

    Capitals and outer blanks do not matter. Other words for the parts are those of ``PART_WORDS``.

    Example:
        >>> split_by_column(pa.table({"part": ["train", "dev", "Test"]}), "part").assignment.tolist()
        [0, 1, 2]

    Raises:
        DataError: a missing cell, or a word that names no part; or no row is in the training part.
    """
    words = canonical_array(checked_column(table, column, file=file, complete=True), file=file, column=column)
    unique, numbers = _parts_of_words(words)
    assignment = numbers[unique.indices.to_numpy(zero_copy_only=False)]
    unknown = np.flatnonzero(assignment == len(PARTS))
    if len(unknown):
        row = int(unknown[0])
        raise DataError(
            f"{words[row].as_py()!r} is no part ({counted(len(unknown), 'such row')})",
            file=file,
            row=row,
            column=column,
            fix=f"Write {'; '.join(' or '.join(known) for known in PART_WORDS.values())}.",
        )
    if not (assignment == 0).any():
        raise DataError("no row is in the training part", file=file, column=column, fix="Mark some rows as train.")
    return ready_split(table, assignment, by="column", column=column)


def names_parts(column: pa.ChunkedArray) -> bool:
    """Return if every row of a column says one of two or three parts, as ``split_by_column`` reads them.

    Example:
        >>> names_parts(pa.chunked_array([["train", "dev", "Test"]])), names_parts(pa.chunked_array([["train", "bus"]]))
        (True, False)
    """
    if column.null_count or not is_text(column.type):
        return False
    _, parts = _parts_of_words(canonical_array(column.unique()))
    return len(PARTS) not in parts and 0 in parts and len(set(parts)) > 1


def _parts_of_words(words: pa.Array) -> tuple[pa.DictionaryArray, NDArray[np.uint8]]:
    """Return words by their codes, and the part that each distinct one names: ``len(PARTS)`` where it names none."""
    unique = pc.utf8_lower(pc.utf8_trim_whitespace(words)).dictionary_encode()
    places = {word: part for part, known in enumerate(PART_WORDS.values()) for word in known}
    return unique, np.array([places.get(word, len(PARTS)) for word in unique.dictionary.to_pylist()], dtype=np.uint8)


def new_split(
    table: Frame,
    by: SplitKind,
    column: str | None = None,
    *,
    shares: tuple[float, float] = (0.1, 0.1),
    seed: int = 0,
    reading: ReadSettings | None = None,
    group_by: Sequence[str] = (),
    file: str | None = None,
) -> Split:
    """Split a table in the way that is named.

    Args:
        table: the rows.
        by: "customer", "time" or "column", of which ``column`` names the column; or "row".
        column: of the customers, the times or the parts.
        shares: of validation and test; a column of parts has its own.
        seed: of a split by customer or by row.
        reading: how times are written that are not ISO 8601, and what becomes of a row without a time.
        group_by: columns by which the rows were grouped before.
        file: path of the table, for messages.

    Raises:
        UnknownNameError, DataError, ConfigurationError: as the function of each kind of split.

    Example:
        >>> new_split(pa.table({"part": ["train", "test"]}), "column", "part").assignment.tolist()
        [0, 2]
    """
    reading = reading or ReadSettings()
    drawn: dict[str, Any] = {"validation": shares[0], "test": shares[1], "file": file}
    if by == "column":
        made = split_by_column(as_table(table), str(column), file=file)
    elif by == "time":
        made = split_by_time(
            table, str(column), date_formats=reading.date_formats, on_bad_row=reading.on_bad_row, **drawn
        )
    elif by == "customer":
        made = split_by_customer(table, str(column), seed=seed, **drawn)
    else:
        made = split_by_row(table, seed=seed, **drawn)
    return replace(made, group_by=tuple(group_by))


def ready_split(
    table: pa.Table, assignment: NDArray[np.uint8], *, by: Literal["column", "file"], column: str | None = None
) -> Split:
    """Return a split whose parts came with the data."""
    shares = np.bincount(assignment, minlength=3)[1:3] / max(1, len(assignment))
    fractions = (float(shares[0]), float(shares[1]))
    return Split(assignment, by=by, column=column, fractions=fractions, seed=None, data_digest=table_digest(table))


def check_fractions(validation: float, test: float) -> None:
    """Raise ConfigurationError unless the shares leave something to train on; both may be 0: nothing is held out.

    Example:
        >>> check_fractions(0.1, 0.1)
    """
    for name, fraction in (("validation", validation), ("test", test)):
        if not 0 <= fraction < 1:
            raise ConfigurationError(
                "is not allowed", setting=name, value=fraction, fix="Give a share of the rows, from 0 to below 1."
            )
    if validation + test >= 1:
        raise ConfigurationError(
            Message("and {test} leave no row to train on", test=test),
            setting="validation",
            value=validation,
            fix="Give shares that add up to less than 1.",
        )


def _parts_of(draws: NDArray[np.float64], validation: float, test: float) -> NDArray[np.uint8]:
    """Test takes the lowest draws, so that it stays the same when the share of validation changes."""
    check_fractions(validation, test)
    return np.where(draws < test, 2, np.where(draws < test + validation, 1, 0)).astype(np.uint8)


def _split(
    table: pa.Table,
    assignment: NDArray[np.uint8],
    *,
    by: Any,
    column: str | None,
    fractions: tuple[float, float],
    seed: int | None,
    file: str | None,
) -> Split:
    counts = np.bincount(assignment, minlength=3)
    for part, count, wanted in zip(PARTS, counts, (1 - sum(fractions), *fractions), strict=True):
        if count == 0 and wanted > 0:
            raise DataError(
                f"the {part} part of a split by {by} would be empty ({table.num_rows:,} rows, share {wanted:g})",
                file=file,
                column=column,
                fix="Give larger shares, another seed, or more data: a customer or a moment stays in one part.",
            )
    return Split(assignment, by=by, column=column, fractions=fractions, seed=seed, data_digest=table_digest(table))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json_text(content, sort_keys=True).encode()).hexdigest()
