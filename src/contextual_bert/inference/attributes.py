"""A column of the catalogue as an attribute of items: which values they have, and which lie within a limit.

Cells are read once, when an attribute is made. Which items may be proposed is for `constraints.py` to say.
"""

import datetime
import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text, value_type
from contextual_bert.context import canonical, canonical_array
from contextual_bert.context.hints import other_spelling
from contextual_bert.context.printed_lists import as_lists, read_cell
from contextual_bert.context.raw_values import number_of
from contextual_bert.context.spelling import DATE, FLOAT, INTEGER, TIME
from contextual_bert.context.vocabulary import normal_form, to_doubles
from contextual_bert.data.column_types import as_typed
from contextual_bert.errors import DataError
from contextual_bert.inference.query_schema import TRUTH_WORDS

NO_GROUP = -1
_PRINTED = re.compile(r"\s*(\[|[({]\s*['\"])")  # the beginning of a printed list, but not of (20, 30)
NUM_MASKS = 32  # kept of each attribute, a byte an item: of what customers and tables ask again and again
NUM_CHARACTERS = 80  # of values that are compared for likeness
NUM_COMPARED, NUM_SHOWN = 200, 8  # values that a misspelt one is compared with, and that a remark lists
Kind = Literal["number", "time", "flag", "text"]
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
_SEPARATORS = (";", "|", ",")
_DAY = 10  # characters of an ISO 8601 date
_TESTS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "at_most": np.less_equal,
    "at_least": np.greater_equal,
    "below": np.less,
    "above": np.greater,
}
_OF_NEXT_DAY = {"at_most": "below", "above": "at_least"}  # a day that limits times counts as a whole


@dataclass(frozen=True, eq=False)
class Attribute:
    """A column of the catalogue: item ``owners[n]`` has the value ``values[codes[n]]``.

    Args:
        owners, codes, values: see above.
        is_known: (vocabulary,), True where the item's cell is filled.
        numbers: (vocabulary,), the cell where the column holds numbers, NaN where it is empty; None for other columns.
        is_list: an item may have several values, or none.
        kind: of its values, which says how they are compared.
        is_typed: False for text, whose values are compared letter by letter for equality.
        parts: where cells of text hold several values with ``separator`` between them, these; else None.
        separator: see ``parts``.
    """

    owners: NDArray[np.int64]
    codes: NDArray[np.int64]
    values: pa.Array
    is_known: NDArray[np.bool_]
    numbers: NDArray[np.float64] | None
    is_list: bool
    kind: Kind = "text"
    is_typed: bool = False
    parts: "Attribute | None" = None
    separator: str | None = None

    def has_one_of(self, wanted: Iterable[str]) -> NDArray[np.bool_]:
        """Which items have one of these values: (vocabulary,), kept for who asks again, so nobody writes into it.

        A cell of text with several values has each of them, and the whole of it.
        """
        return self._mask(frozenset(wanted))

    def known_among(self, wanted: Iterable[str]) -> set[str]:
        """Those of the values that some item has."""
        spelt = {value: self._spelt(value) for value in wanted}
        sought = pa.array(list(spelt.values()), pa.string())
        there = {*self.values.filter(pc.is_in(self.values, value_set=sought)).to_pylist()}
        found = {value for value, form in spelt.items() if form in there}
        return found | (self.parts.known_among(spelt) if self.parts is not None else set())

    def like(self, value: str) -> str:
        """Return a sentence on the values that there are, for somebody who named another one: the closest and the most
        frequent.
        """
        column = self.parts if self.parts is not None and self.kind == "text" else self
        order = np.argsort(-np.bincount(column.codes, minlength=len(column.values)), kind="stable")
        frequent: list[str] = column.values.take(pa.array(order[:NUM_COMPARED])).to_pylist()
        same = pc.index(pc.utf8_lower(column.values), pa.scalar(value.strip().lower(), column.values.type)).as_py()
        close = [column.values[same].as_py()] if same >= 0 else self._close(value, frequent)
        suggestion = f"Did you mean {close[0]!r:.80}? " if close else ""
        more = f" and {len(column.values) - NUM_SHOWN:,} more" if len(column.values) > NUM_SHOWN else ""
        shown = ", ".join(f"{each!r:.40}" for each in frequent[:NUM_SHOWN])
        return f"{suggestion}Known: {shown or '(nothing)'}{more}."

    @staticmethod
    def _close(value: str, names: list[str]) -> list[str]:
        folded = {name[:NUM_CHARACTERS].lower(): name for name in names}
        return [folded[each] for each in difflib.get_close_matches(value[:NUM_CHARACTERS].lower(), folded, n=1)]

    def within(self, test: str, limit: float | str) -> NDArray[np.bool_]:
        """Which items have a value within a limit: (vocabulary,).

        Args:
            test: "at_most", "at_least", "below" or "above".
            limit: a number, a date or text.

        Raises:
            DataError: the values cannot be compared with it; ``column`` is the test where the limit is at fault.
        """
        if self.parts is not None and self.kind == "text" and self.parts.kind != "text":
            return self.parts.within(test, limit)
        return self._of_values(self._within(test, limit))

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
        spelt = partial(_spelt, self.kind if self.is_typed else "text")
        columns = [(each.owners, each.codes, each.values) for each in (self, self.parts) if each is not None]
        return lru_cache(NUM_MASKS)(partial(_mask, columns, len(self.is_known), spelt))

    def _spelt(self, value: str) -> str:
        return _spelt(self.kind if self.is_typed else "text", value)

    def _of_values(self, is_wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        found = np.zeros(len(self.is_known), dtype=np.bool_)
        found[self.owners[is_wanted[self.codes]]] = True
        return found

    def _within(self, test: str, limit: float | str) -> NDArray[np.bool_]:
        """Which of the distinct values are within a limit."""
        if self.kind == "number":
            return _TESTS[test](self._ordered, _number_limit(test, limit, self.values))
        if self.kind == "time":
            test, moment = _time_limit(test, limit, self.values, has_zone=self._has_zone)
            return _TESTS[test](self._ordered, moment)
        if self.kind == "flag" or isinstance(limit, float):
            words = self.values.filter(pc.invert(pc.match_substring_regex(self.values, f"{INTEGER}|{FLOAT}")))
            what = "truth values" if self.kind == "flag" else f"text such as {_some(words)}"
            number = f"no numbers but {what}" if isinstance(limit, float) else what
            raise DataError(
                f"holds {number}, and nothing of it is {test.replace('_', ' ')} {limit!r:.40}",
                fix=f"{self._meant()}Use equals, in or not_in.",
            )
        if re.search(f"{DATE}|{TIME}", str(limit)):  # letter by letter, 05.03.2016 comes before 2015-01-01
            raise DataError(
                f"holds text such as {_some(self.values)}, which cannot be compared with the date {limit!r:.40}",
                fix=self._meant() or "Give the column dates, such as 2016-03-05.",
            )
        return _TESTS[test](self._ordered, limit)

    def _meant(self) -> str:
        """Return what would make text numbers or dates, as a sentence; empty where it looks like neither."""
        hint = other_spelling(self.values) if self.kind == "text" else ""
        return f"It {hint.replace('read as categories', 'read as text')}. " if hint else ""

    @cached_property
    def _has_zone(self) -> bool:
        return any(_moment(text).tzinfo is not None for text in self.values.slice(0, 1).to_pylist())

    @cached_property
    def _ordered(self) -> NDArray[np.generic]:
        """The distinct values as what they are compared as."""
        if self.kind == "number":
            return self.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if self.kind == "time":
            return np.array([_utc(_moment(text)) for text in self.values.to_pylist()], dtype="datetime64[us]")
        return self.values.to_numpy(zero_copy_only=False)  # of Python's strings, which numpy compares as Python does


def attribute_of(column: pa.ChunkedArray, name: str, *, field: pa.Field | None = None) -> Attribute:
    """Return the attribute that a column is, in the order of the vocabulary.

    Args:
        column: the cells.
        name: of the column, for messages.
        field: says what the cells are beside the text that they were read as.

    Raises:
        SchemaError: its cells are no values and no lists of values.
    """
    cells = column.combine_chunks()
    numbers: NDArray[np.float64] | None = None
    lists = as_lists(cells, name=name)
    if lists is None and is_text(value_type(cells.type)):
        lists = _with_some_lists(decoded(cells))
    if lists is not None or is_list(cells.type):
        return _of_lists(cells if lists is None else lists, name)
    counted = as_typed(column, field).combine_chunks() if field is not None else cells
    if any(check(counted.type) for check in _NUMBERS):
        numbers = to_doubles(counted).to_numpy(zero_copy_only=False)
    named = canonical_array(cells, column=name, is_name=False)
    is_known = named.is_valid().to_numpy(zero_copy_only=False)  # NaN is as empty as null
    encoded = named.drop_null().dictionary_encode()
    kind = _kind(cells.type, encoded.dictionary)
    separator = _separator(encoded.dictionary) if is_text(value_type(cells.type)) and kind == "text" else None
    return Attribute(
        owners=np.flatnonzero(is_known).astype(np.int64),
        codes=encoded.indices.to_numpy().astype(np.int64),
        values=encoded.dictionary,
        is_known=is_known,
        numbers=numbers,
        is_list=False,
        kind=kind,
        is_typed=not is_text(value_type(cells.type)),
        parts=_of_lists(_split(named, separator), name) if separator is not None else None,
        separator=separator,
    )


def _with_some_lists(cells: pa.Array) -> pa.Array | None:
    """Text with some printed lists among plain values as lists, a plain value as that of one; None where none is."""
    encoded = cells.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    printed = {text: read_cell(text, is_known=False) for text in texts if _PRINTED.match(text)}
    if not any(printed.values()):
        return None
    found = [
        [canonical(each) for each in elements if each is not None] if (elements := printed.get(text)) else [text]
        for text in texts
    ]
    return pc.take(pa.array(found, pa.list_(pa.string())), encoded.indices)


def _of_lists(cells: pa.Array, name: str) -> Attribute:
    is_known: NDArray[np.bool_] = cells.is_valid().to_numpy(zero_copy_only=False)
    owners = pc.list_parent_indices(cells).to_numpy()
    elements = pc.list_flatten(cells)
    values = canonical_array(elements, column=name, is_name=False)
    is_filled = values.is_valid().to_numpy(zero_copy_only=False)
    is_known[owners[~is_filled]] = False  # a list with a gap may hold anything
    encoded = values.drop_null().dictionary_encode()
    return Attribute(
        owners=owners[is_filled].astype(np.int64),
        codes=encoded.indices.to_numpy().astype(np.int64),
        values=encoded.dictionary,
        is_known=is_known,
        numbers=None,
        is_list=True,
        kind=_kind(elements.type, encoded.dictionary),
        is_typed=not is_text(value_type(elements.type)),
    )


def _kind(kind: pa.DataType, distinct: pa.Array) -> Kind:
    """Return the kind of comparison for a column. Text that spells numbers or dates throughout is compared as these."""
    kind = value_type(kind)
    if any(check(kind) for check in _NUMBERS):
        return "number"
    if pa.types.is_boolean(kind):
        return "flag"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "time"
    if len(distinct) and _all_match(distinct, f"{INTEGER}|{FLOAT}") and not _has_infinity(distinct):
        return "number"
    if len(distinct) and _all_match(distinct, f"{DATE}|{TIME}") and _are_moments(distinct):
        return "time"
    return "text"


def _all_match(distinct: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(distinct, pattern)).as_py()


def _has_infinity(distinct: pa.Array) -> bool:
    return pc.any(pc.match_substring(distinct, "inf", ignore_case=True)).as_py()


def _are_moments(distinct: pa.Array) -> bool:
    try:
        for text in distinct.to_pylist():
            _moment(text)
    except ValueError:  # the 30th of February
        return False
    return True


def _separator(distinct: pa.Array) -> str | None:
    """Return the separator of several values in one cell, or None.

    A comma is one only where the values between commas occur again and again, as they do not in prose.
    """
    for separator in _SEPARATORS:
        cells = distinct.filter(pc.match_substring(distinct, separator))
        if not len(cells):
            continue
        parts = pc.utf8_trim_whitespace(pc.split_pattern(cells, separator).flatten())
        if separator != "," or 2 * len(pc.unique(parts)) <= len(parts):
            return separator
    return None


def _split(named: pa.Array, separator: str) -> pa.Array:
    """The cells as lists of their values, without empty ones."""
    lists = pc.split_pattern(named, separator)
    parts = pc.utf8_trim_whitespace(pc.list_flatten(lists))
    owners = pc.list_parent_indices(lists).to_numpy()
    is_part = pc.not_equal(parts, "").to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.bincount(owners[is_part], minlength=len(named)).cumsum()])
    mask = named.is_null() if named.null_count else None
    return pa.LargeListArray.from_arrays(pa.array(offsets), parts.filter(pa.array(is_part)), mask=mask)


def _mask(
    columns: list[tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]],
    num_items: int,
    spelt: Callable[[str], str],
    wanted: frozenset[str],
) -> NDArray[np.bool_]:
    sought = pa.array([*map(spelt, wanted)], pa.string())
    found = np.zeros(num_items, dtype=np.bool_)
    for owners, codes, values in columns:
        is_wanted = pc.is_in(values, value_set=sought).to_numpy(zero_copy_only=False)
        found[owners[is_wanted[codes]]] = True
    found.flags.writeable = False
    return found


def _spelt(kind: Kind, value: str) -> str:
    """A value that was asked for, as a column of this kind spells it: 80.0 is 80, and yes is true."""
    if kind == "flag":
        truth = TRUTH_WORDS.get(value.strip().lower())
        return value if truth is None else str(truth).lower()
    return normal_form(value.strip()) if kind in ("number", "time") else value


def _number_limit(test: str, limit: float | str, values: pa.Array) -> float:
    try:
        return number_of(limit)
    except DataError:
        raise DataError(
            f"holds numbers such as {_some(values)}, and {limit!r:.80} is none", column=test, fix="Give a number."
        ) from None


def _time_limit(test: str, limit: float | str, values: pa.Array, *, has_zone: bool) -> tuple[str, np.datetime64]:
    """The test and the moment that a limit on times means; one without a time zone is in UTC where values have one."""
    text = str(limit)
    try:
        moment = _moment(text)
        if isinstance(limit, float) or (moment.tzinfo is not None and not has_zone):
            raise ValueError
    except ValueError:
        raise DataError(
            f"holds times such as {_some(values)}, which cannot be compared with {limit!r:.80}",
            column=test,
            fix="Give a date or time in ISO 8601, such as 2016-03-05 or 2016-03-05T14:30.",
        ) from None
    if len(text) == _DAY and test in _OF_NEXT_DAY:
        test, moment = _OF_NEXT_DAY[test], moment + datetime.timedelta(days=1)
    return test, np.datetime64(_utc(moment), "us")


def _some(values: pa.Array) -> str:
    return repr(values[0].as_py()) if len(values) else "(none)"


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _utc(moment: datetime.datetime) -> datetime.datetime:
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)
