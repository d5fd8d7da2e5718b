"""Parts of dates: the year, month and weekday that a date column gives.

It deliberately does not know features: the schema says which part it wants of which column. Weekdays have English names
whatever the locale, so that a schema means the same on every machine. Not in the paper (its seasons are of this sort).
"""

import datetime
import re

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import is_text
from contextual_bert.context.columns import without_marks
from contextual_bert.context.features import DatePart
from contextual_bert.errors import ConfigurationError, DataError, SchemaError

MONTHS = tuple(str(month) for month in range(1, 13))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# Part of a date -> the directives of strptime that give it; beside these the time of day.
_GIVES = {"the year": "YyDF", "the month": "mbBDF", "the day": "deDF"}
_DIRECTIVES = "YymdHMSIpbBeTDF%"
_ISO_DATE = r"^\d{4}-\d{2}-\d{2}($|[T ])"
_FIX = "Allowed: a date, a timestamp or ISO 8601 text such as 2016-03-05; leave it empty if it is missing."


def check_date_format(date_format: str) -> None:
    """Raise ConfigurationError unless a format of strptime names a day, in directives that are read.

    Example:
        >>> check_date_format("%d/%m/%Y %H:%M:%S")
    """
    directives = re.findall(r"%(.?)", date_format)
    strange = [each for each in directives if not each or each not in _DIRECTIVES]
    lacking = [part for part, letters in _GIVES.items() if not set(letters) & set(directives)]
    if strange or lacking:
        problem = f"has %{strange[0]}, which is not read" if strange else f"does not say {lacking[0]}"
        raise ConfigurationError(
            f"the date format {date_format!r} {problem}. Allowed: {', '.join(f'%{each}' for each in _DIRECTIVES)}, as "
            "in '%d/%m/%Y %H:%M:%S'. Give one with the year, the month and the day."
        )


def to_dates(array: pa.Array, *, file: str | None = None, column: str | None = None) -> pa.Array:
    """A column of dates, timestamps or ISO 8601 text as `pa.date32()`: the day as written, in its own time zone."""
    kind = array.type
    if pa.types.is_date(kind) or pa.types.is_null(kind):
        return array.cast(pa.date32())
    if pa.types.is_timestamp(kind):
        local = pc.local_timestamp(array) if kind.tz else array
        return local.cast(pa.date32(), safe=False)
    if pa.types.is_dictionary(kind):
        return pc.take(to_dates(array.dictionary, file=file, column=column), array.indices)
    if not is_text(kind):
        raise SchemaError(f"column {column!r} has the type {kind}, but a feature reads a date from it. {_FIX}")
    array = without_marks(array)
    faulty = pc.fill_null(pc.invert(pc.match_substring_regex(array, _ISO_DATE)), False)
    days = pc.utf8_slice_codeunits(array, 0, 10)
    if not pc.any(faulty).as_py():
        try:
            return days.cast(pa.date32())
        except pa.ArrowInvalid:
            wrong = [day for day in days.unique().to_pylist() if day is not None and not _is_date(day)]
            faulty = pc.fill_null(pc.is_in(days, value_set=pa.array(wrong, days.type)), False)
    row = int(pc.index(faulty, True).as_py())
    raise DataError(f"{array[row].as_py()!r} is not a date", file=file, row=row, column=column, fix=_FIX)


def are_iso_dates(strings: pa.Array) -> bool:
    """Whether every value of a column of text is an ISO 8601 date, and there is one."""
    distinct = pc.drop_null(strings.unique())
    distinct = distinct.filter(pc.not_equal(distinct, ""))
    if len(distinct) == 0 or not pc.all(pc.match_substring_regex(distinct, _ISO_DATE)).as_py():
        return False
    try:
        to_dates(distinct)
    except DataError:
        return False
    return True


def date_part(dates: pa.Array, part: DatePart) -> pa.Array:
    """The year or month as integers, or the English name of the weekday."""
    if part == "year":
        return pc.year(dates)
    if part == "month":
        return pc.month(dates)
    return pc.take(pa.array(WEEKDAYS), pc.day_of_week(dates))


def date_part_of(value: object, part: DatePart) -> int | str:
    """`date_part` of one value: a date, a datetime or ISO 8601 text.

    Example:
        >>> date_part_of("2016-03-05", "weekday")
        'Saturday'
    """
    if isinstance(value, str) and _is_date(value[:10]) and value[10:11] in ("", "T", " "):
        value = datetime.date.fromisoformat(value[:10])
    if not isinstance(value, datetime.date):
        raise DataError(f"{value!r} is not a date", fix=_FIX)
    if part == "weekday":
        return WEEKDAYS[value.weekday()]
    return value.year if part == "year" else value.month


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    # Python also reads 20160305 and 2016-W09-6, which tables do not get to use.
    return len(text) == 10 and text[4] == "-" and text[7] == "-"
