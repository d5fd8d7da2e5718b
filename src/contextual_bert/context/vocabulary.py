"""Vocabulary: values and their ids, for context features and items alike.

Every value is a string inside, in one canonical spelling, so that CSV "3", JSON 3 and parquet 3.0 are the same value.
This module deliberately does not know which reserved ids a feature or the items need, nor what a tensor is.
Paper: section 4 (items and the features of the customer as ids).
"""

import datetime
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import is_single, is_text
from contextual_bert.context.spelling import (
    BLANKS,
    BOOLEAN,
    DATE,
    FLOAT,
    INTEGER,
    SPELLING_RULE,
    TIME,
    ZONED,
    spelt,
    spelt_array,
)
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, shown, type_in_words

UNKNOWN = -1
NULL = -2
_FEW = 16  # strings that are looked up one by one
_LARGEST_EXACT = {16: 1 << 11, 32: 1 << 24, 64: 1 << 53}  # bits of a float -> from where whole numbers are rounded
_ROUNDED_FIX = (
    "Such numbers are rounded from 2**{power} on, and neighbours are one. Give text or whole numbers. Digits that a "
    "file has lost cannot be repaired: write it again from its source."
)
_LARGEST_SHORT = float(np.finfo(np.float32).max)
_INTEGER, _FLOAT, _BOOLEAN, _DATE, _TIME, _ZONED = map(re.compile, (INTEGER, FLOAT, BOOLEAN, DATE, TIME, ZONED))


@dataclass(frozen=True, init=False)
class Vocabulary:
    """A fixed, ordered set of values, each with an id.

    ids: `reserved` names come first (0, 1, ...), then `values` in their order.

    Args:
        values: the canonical strings; values that are one by their spelling, or spelt like a reserved name, are errors.
            ``array`` has them as a column of strings, each in its one spelling (see `canonical`).
        reserved: names of ids that no table can produce: `lookup` finds only `values`, so that a cell which happens to
            read "[MASK]" is an unknown value. `id_of` and `in` know both.

    Relation to its siblings: `Categorical` and `MultiCategorical` hold a vocabulary each; the items of a model another.

    Example:
        >>> brands = Vocabulary(["acme", "umbrella"], reserved=["[missing]"])
        >>> len(brands), brands.id_of("acme"), brands.id_of("hooli"), brands.value_of(2)
        (3, 1, None, 'umbrella')
        >>> brands.lookup(pa.array(["umbrella", "hooli", None])).tolist()
        [2, -1, -2]
    """

    values: tuple[str, ...]
    reserved: tuple[str, ...]
    _ids: dict[str, int] = field(repr=False, compare=False)
    array: pa.Array = field(repr=False, compare=False)

    def __init__(self, values: Sequence[str], *, reserved: Sequence[str] = ()) -> None:
        names = (*reserved, *values)
        for name in names:
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(
                    f"the value {name!r} of a vocabulary is a {type(name).__name__}",
                    fix="Values are strings; use canonical().",
                )
        array = spelt_array(pa.array(list(values), pa.string()))
        spellings = [*reserved, *array.to_pylist()]
        ids = {name: index for index, name in enumerate(spellings)}
        if len(ids) < len(names):
            first, second = next((place, ids[name]) for place, name in enumerate(spellings) if ids[name] != place)
            is_same = names[first] == names[second]
            alike = "" if is_same else f" as {names[second]!r}, in another spelling of the rule {SPELLING_RULE!r},"
            raise ConfigurationError(
                f"the value {names[first]!r} occurs twice{alike} in a vocabulary",
                fix="Every value and reserved name occurs once; remove or rename one of them.",
            )
        # A frozen dataclass can only be filled past its own guard.
        object.__setattr__(self, "values", tuple(values))
        object.__setattr__(self, "reserved", tuple(reserved))
        object.__setattr__(self, "_ids", ids)
        object.__setattr__(self, "array", array)

    def __deepcopy__(self, memo: object) -> "Vocabulary":
        return self  # it never changes; transformers copies a whole processor for a line of its log

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and self.id_of(value) is not None

    def id_of(self, value: str) -> int | None:
        """Return the id of a value or reserved name; None where it is unknown."""
        return self._ids.get(spelt(value))

    def id_of_value(self, value: str) -> int | None:
        """Return the id of a value; None where it is unknown, as a reserved name is that somebody gives as a value.

        Example:
            >>> items = Vocabulary(["hat"], reserved=["[PAD]"])
            >>> items.id_of_value("hat"), items.id_of_value("[PAD]"), items.id_of("[PAD]")
            (1, None, 0)
        """
        index = self.id_of(value)
        return index if index is not None and index >= len(self.reserved) else None

    def value_of(self, index: int) -> str:
        """The value or reserved name behind an id."""
        if not 0 <= index < len(self):
            raise ConfigurationError(
                f"the id {index} is not in the vocabulary", allowed=f"Allowed: 0 to {len(self) - 1}."
            )
        num_reserved = len(self.reserved)
        return self.reserved[index] if index < num_reserved else self.values[index - num_reserved]

    def lookup(self, strings: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Ids of a whole column of strings as int64: -1 where the value is unknown, -2 where it is null."""
        if len(strings) <= _FEW and pa.types.is_string(strings.type):  # a query: a kernel's call costs more than it
            names = strings.to_pylist()
            found = [NULL if name is None else self.id_of_value(name) for name in names]
            return np.array([UNKNOWN if index is None else index for index in found], np.int64)
        array = canonical_array(strings)
        index = pc.index_in(array, value_set=self.array)
        ids = pc.fill_null(index, UNKNOWN - len(self.reserved)).to_numpy(zero_copy_only=False).astype(np.int64)
        ids += len(self.reserved)
        if array.null_count:
            ids[array.is_null().to_numpy(zero_copy_only=False)] = NULL
        return ids

    def find(self, strings: pa.Array | pa.ChunkedArray, *, is_code: bool = False) -> np.ndarray:
        """As `lookup`; a value that is not there is looked for once more, by its `normal_form`.

        It is found where exactly one of the values has that form: what a cell of CSV is depends on the other rows of
        its file, and "TRUE" in one file is `True` in another. Text that is no normal form itself, such as "1.10", is
        looked for only where all values are of columns with a type: beside "beta" it is another value than "1.1".
        A number of 32 bits that was widened, such as 0.10000000149011612, is looked for as it is spelt in 32 bits.

        Args:
            strings: the values.
            is_code: numbers among them are codes, and only found as they are spelt (`columns`).

        Example:
            >>> Vocabulary(["TRUE", "FALSE", "n/a"]).find(pa.array([True, False, None])).tolist()
            [0, 1, -2]
        """
        ids = self.lookup(strings)
        is_unknown = ids == UNKNOWN
        if is_unknown.any():
            encoded = canonical_array(strings).filter(pa.array(is_unknown)).dictionary_encode()
            sought = {value: normal_form(value) for value in encoded.dictionary.to_pylist()}
            codes = {value for value in sought if is_code and is_number(value)}
            found = np.array(
                [
                    self._ids_by_form.get(form, UNKNOWN)
                    if value not in codes and (form == value or self._is_typed or _ZONED.fullmatch(value))
                    else UNKNOWN
                    for value, form in sought.items()
                ],
                np.int64,
            )
            for place, value in enumerate(sought):
                if found[place] == UNKNOWN and value not in codes and (short := as_short_float(value)) is not None:
                    found[place] = self._ids_by_form.get(short, UNKNOWN)
            ids[is_unknown] = found[encoded.indices.to_numpy()]
        return ids

    @cached_property
    def _ids_by_form(self) -> dict[str, int]:
        """Normal form -> the id of the one value that has it; forms of several values are left out."""
        forms = [normal_form(value) for value in self.array.to_pylist()]
        counts = Counter(forms)
        return {form: index for index, form in enumerate(forms, start=len(self.reserved)) if counts[form] == 1}

    @cached_property
    def _is_typed(self) -> bool:
        """Return True if the values come from a column of truth values, numbers or times."""
        kinds = ((_BOOLEAN,), (_INTEGER, _FLOAT), (_DATE, _TIME))
        values = self.array.to_pylist()
        return any(
            all(any(each.fullmatch(value) for each in kind) and normal_form(value) == value for value in values)
            for kind in kinds
        )


def canonical(value: object) -> str:
    """The one spelling of a value that a category or an item has everywhere.

    Text is in Unicode's form NFC and has no blanks at its ends (`context.spelling`). Truth values become "true" and
    "false"; a number without a fraction has no decimal point; any other number is spelt as short as still reads back
    the same. A date is ISO 8601, and so is a midnight without a
    time zone, which is how some tables store a date.

    Example:
        >>> canonical(3) == canonical(3.0) == canonical("3") == "3"
        True
        >>> canonical(True), canonical(0.5), canonical(datetime.date(2016, 3, 5))
        ('true', '0.5', '2016-03-05')
    """
    if isinstance(value, str):
        return spelt(str(value))
    bits = 8 * value.dtype.itemsize if isinstance(value, np.floating) else 64
    if isinstance(value, np.floating) and bits < 64:
        # The shortest spelling in 32 bits: 0.1, not 0.10000000149011612. Whole columns of 16 bits are spelt so, too.
        value = float(str(np.float32(value)))
    elif isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()  # of nanoseconds it would be a whole number
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        try:
            return str(value)
        except ValueError:  # Python spells no more than 4,300 digits
            raise DataError(f"{shown(value)} is not a value", fix="Give it as text.") from None
    if isinstance(value, (float, Decimal)):
        if not math.isfinite(value):
            raise DataError(f"{value} is not a value", fix="Give a finite number, or leave the value out.")
        if isinstance(value, Decimal):
            return _canonical_decimal(value)
        if not value.is_integer():
            return repr(float(value))
        if abs(value) >= _LARGEST_EXACT.get(bits, 1 << 53):
            raise _rounded(value, bits)
        return str(int(value))
    if isinstance(value, datetime.datetime):
        if value != value:
            raise DataError(f"{value} is not a value", fix="Give a date, or leave the value out.")  # pandas' NaT
        is_date = value.time() == datetime.time() and value.tzinfo is None
        return value.date().isoformat() if is_date else value.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise DataError(
        f"{value!r} is {type_in_words(value)}, not a single value",
        fix="Allowed: text, a finite number, a truth value, a date.",
    )


def _canonical_decimal(value: Decimal) -> str:
    """The spelling of a decimal, with all of its digits: as that of the float if it is the same number."""
    if value == value.to_integral_value():
        return str(int(value))
    spelt = repr(float(value))
    return spelt if Decimal(spelt) == value else format(value, "f").rstrip("0")


def _rounded(value: float, bits: int) -> DataError:
    power = _LARGEST_EXACT.get(bits, 1 << 53).bit_length() - 1
    return DataError(
        f"{value!r} is a floating-point number of {bits} bits, and here it is a name",
        fix=_ROUNDED_FIX.format(power=power),
    )


def normal_form(value: str) -> str:
    """The canonical spelling of the truth value, number or time that the reader of CSV would take a text for.

    Text that it would leave as it is, such as a code with leading zeros, is its own form, and so is what may be a code
    with an E, though it would take "1E5" for a number.

    Example:
        >>> [normal_form(text) for text in ("TRUE", "1.50", "2.0", "2016-03-05 10:00", "007", "beta")]
        ['true', '1.5', '2', '2016-03-05T10:00:00', '007', 'beta']
    """
    given, value = value, value.strip(BLANKS)  # blanks round a cell change no type
    if _BOOLEAN.fullmatch(value):
        return value.lower()
    if _INTEGER.fullmatch(value):
        return "0" if value == "-0" else value  # exact, however many digits it has
    if _FLOAT.fullmatch(value) and "e" not in value.lower():
        number = float(value)
        return canonical(number) if math.isfinite(number) else given
    if _TIME.fullmatch(value):
        try:
            return canonical(datetime.datetime.fromisoformat(value))
        except ValueError:  # the 30th of February
            return given
    if _ZONED.fullmatch(value):  # one moment, however its zone is written
        try:
            return datetime.datetime.fromisoformat(value.upper()).astimezone(datetime.UTC).isoformat()
        except (ValueError, OverflowError):
            return given
    return given


def is_number(value: str) -> bool:
    """Return whether the reader of CSV would take a text for a number.

    Example:
        >>> is_number("10.10"), is_number("007")
        (True, False)
    """
    return _INTEGER.fullmatch(value) is not None or _FLOAT.fullmatch(value) is not None


def as_short_float(value: str) -> str | None:
    """The spelling in 32 bits of a number that has the digits of one of 64 bits and is one of 32.

    Example:
        >>> as_short_float("0.10000000149011612"), as_short_float("0.1"), as_short_float("0.25")
        ('0.1', None, None)
    """
    if not _FLOAT.fullmatch(value):
        return None
    number = float(value)
    if abs(number) > _LARGEST_SHORT or float(np.float32(number)) != number:
        return None
    short = canonical(np.float32(number)) if not number.is_integer() else value
    return short if short != value else None


def canonical_array(
    array: pa.Array | pa.ChunkedArray, *, file: str | None = None, column: str | None = None, is_name: bool = True
) -> pa.Array:
    """`canonical` for a whole column: an array of `pa.string()`, null where the value is null or NaN.

    Args:
        array: strings, numbers, truth values, dates or timestamps, also dictionary-encoded.
        file: where the column comes from, for messages.
        column: its name, for messages.
        is_name: a float that may be a rounded whole number is an error, for it may name another thing. False spells it
            as it is, for what is counted or compared.
    """
    array = _as_one_array(array)
    kind = array.type
    if pa.types.is_string(kind):
        return spelt_array(array)
    if pa.types.is_dictionary(kind):
        try:  # each category once
            return pc.take(canonical_array(array.dictionary, column=column, is_name=is_name), array.indices)
        except DataError:  # of the cells the row can be told, and a category that no cell has is no fault
            return canonical_array(array.cast(kind.value_type), file=file, column=column, is_name=is_name)
    if pa.types.is_date64(kind):
        return array.cast(pa.date32()).cast(pa.string())
    if is_text(kind):
        return spelt_array(array.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind) or pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        require_finite(array, file=file, column=column)
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
        rounded = _may_be_rounded(array)
        if is_name:
            _require_exact(array, rounded, file=file, column=column)
        elif pc.any(rounded).as_py():
            exact = canonical_array(pc.if_else(rounded, pa.scalar(None, kind), array))
            return pc.if_else(rounded, array.cast(pa.string()), exact)
    elif pa.types.is_timestamp(kind):
        # Nanoseconds have no Python type; a category does not need them.
        array = array.cast(pa.timestamp("us", tz=kind.tz), safe=False)
    elif not is_single(kind):
        named = f"column {column!r}" if column is not None else "the column"
        raise SchemaError(
            f"{f'{file}, ' if file is not None else ''}{named} has the type {kind}, which has no single value a row",
            allowed="Allowed: text, numbers, truth values, dates and timestamps.",
        )
    encoded = array.dictionary_encode()
    distinct = encoded.dictionary
    if pa.types.is_floating(kind):
        distinct = to_doubles(distinct)
    return pc.take(pa.array([canonical(value) for value in distinct.to_pylist()], pa.string()), encoded.indices)


def to_doubles(array: pa.Array) -> pa.Array:
    """A column of numbers as `pa.float64()`: short floats and decimals as the numbers that are spelt like them."""
    kind = array.type
    if pa.types.is_decimal(kind):  # arrow's own cast is off by one unit in the last place here and there
        array = array.cast(pa.string())
    elif pa.types.is_floating(kind) and kind != pa.float64():
        array = array.cast(pa.float32()).cast(pa.string())  # 0.1, not 0.10000000149011612
    return array.cast(pa.float64(), safe=False)


def require_finite(array: pa.Array, *, file: str | None, column: str | None) -> None:
    """Raise a DataError at the first infinity of a column of floats; nulls and NaN pass."""
    infinite = pc.fill_null(pc.is_inf(array), False)
    if pc.any(infinite).as_py():
        row = int(pc.index(infinite, True).as_py())
        raise DataError(
            f"{array[row].as_py()} is not a finite number",
            file=file,
            row=row,
            column=column,
            fix="Give a finite number, or leave the value empty if it is missing.",
        )


def _may_be_rounded(array: pa.Array) -> pa.Array:
    """The whole numbers of a column of floats that are so large that they may be another one, rounded."""
    wide = array.cast(pa.float64())
    is_large = pc.greater_equal(pc.abs(wide), _LARGEST_EXACT[array.type.bit_width])
    return pc.fill_null(pc.and_(is_large, pc.equal(wide, pc.floor(wide))), False)


def _require_exact(array: pa.Array, rounded: pa.Array, *, file: str | None, column: str | None) -> None:
    """Raise a DataError at the first number of a column of floats that is marked as rounded."""
    if pc.any(rounded).as_py():
        row = int(pc.index(rounded, True).as_py())
        error = _rounded(array[row].as_py(), array.type.bit_width)
        raise error.moved(file=file, row=row, column=column)


def _as_one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
