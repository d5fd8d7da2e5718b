"""Parts of dates: the year, month and weekday that a date column gives.

It deliberately does not know features: the schema says which part it wants of which column. Weekdays have English names
whatever the locale, so that a schema means the same on every machine. Not in the paper (its seasons are of this sort).
"""

import datetime
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_text
from contextual_bert.context.columns import without_marks
from contextual_bert.errors import ConfigurationError, DataError, SchemaError

DatePart = Literal["year", "month", "weekday"]

MONTHS = tuple(str(month) for month in range(1, 13))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# Directive of strptime -> the cells that it reads; the day is a group of its own.
_NUMBER = r"[0-9]{1,2}"
_DAY = rf"(?P<day>{_NUMBER})"
_DIRECTIVES = {
    "d": _DAY,
    "e": rf" ?{_DAY}",
    "m": _NUMBER,
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "b": "[[:alpha:]]+",
    "B": "[[:alpha:]]+",
    "F": rf"[0-9]{{4}}-{_NUMBER}-{_DAY}",
    "D": rf"{_NUMBER}/{_DAY}/[0-9]{{2}}",
    "H": _NUMBER,
    "I": _NUMBER,
    "M": _NUMBER,
    "S": _NUMBER,
    "T": f"{_NUMBER}:{_NUMBER}:{_NUMBER}",
    "p": "[AaPp][Mm]",
    "%": "%",
}
_GIVES = {"the year": "YyDF", "the month": "mbBDF", "the day": "deDF"}
_YEAR_FIRST = r"^([0-9]{4})[/.]([0-9]{1,2})[/.]([0-9]{1,2})($|[T ])"
_YEAR_LAST = tuple(
    f"{first}{between}{second}{between}%Y{time}"
    for between in "/.-"
    for first, second in (("%d", "%m"), ("%m", "%d"))
    for time in ("", " %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M")
)
SECONDS = "%s"  # since 1970, as computers count; in thousandths from 12 digits on
_EPOCH_SECONDS = r"^[0-9]{1,10}$"
_EPOCH_MILLISECONDS = r"^[0-9]{12,13}$"
_ISO = "%Y-%m-%d"
_LEAST_ISO = 0.5  # of the distinct texts are days, so that the others are slips
_LEAST_WRITTEN = 0.9  # the same where the day and the month may be the other way round
_ISO_DATE = r"^\d{4}-\d{2}-\d{2}($|[T ])"
_FIX = (
    "Allowed: a date, a timestamp or ISO 8601 text such as 2016-03-05; leave it empty if it is missing. Other "
    "spellings need a date format."
)


_NUM_TRIED = 1000  # distinct texts
_EXACT = float(1 << 53)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")
_LIKELY = (
    *(
        f"{first}{between}{second}{between}{year}{clock}"
        for between in "./-"
        for first, second in (("%d", "%m"), ("%m", "%d"))
        for year in ("%Y", "%y")
        for clock in _CLOCKS
    ),
    *(
        f"{day}{year}{clock}"
        for day, years in (
            ("%d-%b-", ("%Y", "%y")),
            ("%d %b ", ("%Y", "%y")),
            ("%d %B ", ("%Y",)),
            ("%d. %B ", ("%Y",)),
            ("%b %d, ", ("%Y",)),
            ("%B %d, ", ("%Y",)),
            ("%d/%b/", ("%Y",)),
            ("%d%b", ("%Y", "%y")),
        )
        for year in years
        for clock in _CLOCKS
    ),
)


def check_date_format(date_format: str) -> None:
    """Raise ConfigurationError unless a format of strptime names a day, in directives that are read.

    Example:
        >>> check_date_format("%d/%m/%Y %H:%M:%S")
    """
    if date_format == SECONDS:
        return
    directives = re.findall(r"%(.?)", date_format)
    strange = [each for each in directives if each not in _DIRECTIVES]
    lacking = [part for part, letters in _GIVES.items() if not set(letters) & set(directives)]
    if strange or lacking:
        problem = f"has %{strange[0]}, which is not read" if strange else f"does not say {lacking[0]}"
        raise ConfigurationError(
            f"the date format {date_format!r} {problem}",
            allowed=f"Allowed: {', '.join(f'%{each}' for each in _DIRECTIVES)}, as in '%d/%m/%Y %H:%M:%S'; or %s "
            "alone for seconds since 1970. Give one with the year, the month and the day.",
        )


def to_dates(
    array: pa.Array, *, date_format: str | None = None, file: str | None = None, column: str | None = None
) -> pa.Array:
    """A column of dates, timestamps or text as `pa.date32()`: the day as written, in its own time zone.

    Args:
        array: the column. Text is ISO 8601, also with slashes or points (2016/03/05), or as ``date_format`` says.
        date_format: of strptime.
        file, column: for messages.

    Raises:
        DataError: a text that is no date, with its row.
        SchemaError: the column is of another type.
    """
    kind = array.type
    if pa.types.is_date(kind) or pa.types.is_null(kind):
        return array.cast(pa.date32())
    if pa.types.is_timestamp(kind):
        local = pc.local_timestamp(array) if kind.tz else array
        return local.cast(pa.date32(), safe=False)
    if date_format is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        array = _whole_texts(array)
        kind = array.type
    if pa.types.is_dictionary(kind):
        return pc.take(to_dates(array.dictionary, date_format=date_format, file=file, column=column), array.indices)
    if not is_text(kind):
        raise SchemaError(f"column {column!r} has the type {kind}, but a feature reads a date from it", fix=_FIX)
    array = without_marks(array)
    texts = with_hyphens(array)
    if date_format is not None:
        told = parsed_times(texts, date_format).cast(pa.date32(), safe=False).cast(pa.string())
        texts = pc.coalesce(told, texts.cast(pa.string()))
    faulty = pc.fill_null(pc.invert(pc.match_substring_regex(texts, _ISO_DATE)), False)
    days = pc.utf8_slice_codeunits(texts, 0, 10)
    if not pc.any(faulty).as_py():
        try:
            return days.cast(pa.date32())
        except pa.ArrowInvalid:
            wrong = [day for day in days.unique().to_pylist() if day is not None and not _is_date(day)]
            faulty = pc.fill_null(pc.is_in(days, value_set=pa.array(wrong, days.type)), False)
    row = int(pc.index(faulty, True).as_py())
    fix = _FIX if date_format is None else f"Allowed: {date_format!r}, or ISO 8601; leave it empty if it is missing."
    raise DataError(f"{array[row].as_py()!r} is not a date", file=file, row=row, column=column, fix=fix)


def with_hyphens(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The same texts, dates with the year first as ISO 8601 writes them.

    Example:
        >>> with_hyphens(pa.array(["2019/10/1", "2019.10.01 12:30", "1/2/2019"])).to_pylist()
        ['2019-10-01', '2019-10-01 12:30', '1/2/2019']
    """
    if not pc.any(pc.match_substring_regex(texts, _YEAR_FIRST)).as_py():
        return texts
    wide = pc.replace_substring_regex(texts, _YEAR_FIRST, r"\1-0\2-0\3\4")
    return pc.replace_substring_regex(wide, r"^([0-9]{4})-0?([0-9]{2})-0?([0-9]{2})($|[T ])", r"\1-\2-\3\4")


def parsed_times(texts: pa.Array | pa.ChunkedArray, date_format: str) -> pa.Array | pa.ChunkedArray:
    """The times of texts that are written in a format, null where one is not, or is a day that no month has.

    Example:
        >>> parsed_times(pa.array(["30/01/2019", "30/02/2019", "2019"]), "%d/%m/%Y").is_valid().to_pylist()
        [True, False, False]
    """
    if date_format == SECONDS:
        return _times_since_1970(texts)
    days = pc.struct_field(pc.extract_regex(texts, _pattern_of(date_format)), "day")
    times = pc.strptime(texts, format=date_format, unit="us", error_is_null=True)
    # The reader of C takes the 30th of February for the 2nd of March.
    is_meant = pc.equal(pc.day(times), pc.utf8_ltrim_whitespace(days).cast(pa.int64()))
    return pc.if_else(pc.fill_null(is_meant, False), times, pa.scalar(None, times.type))


def _times_since_1970(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    nothing = pa.scalar(None, texts.type)
    is_second = pc.fill_null(pc.match_substring_regex(texts, _EPOCH_SECONDS), False)
    is_millisecond = pc.fill_null(pc.match_substring_regex(texts, _EPOCH_MILLISECONDS), False)
    seconds = pc.multiply(pc.if_else(is_second, texts, nothing).cast(pa.int64()), 1_000_000)
    milliseconds = pc.multiply(pc.if_else(is_millisecond, texts, nothing).cast(pa.int64()), 1_000)
    return pc.coalesce(seconds, milliseconds).cast(pa.timestamp("us"))


def likely_formats(texts: pa.Array) -> list[str]:
    """Return the formats in which nine of ten distinct texts are dates: of month names and of two-digit years, too.

    Example:
        >>> likely_formats(pa.array(["3.2.19", "25.2.19"])), likely_formats(pa.array(["2-Oct-2019", "13-Nov-2019"]))
        (['%d.%m.%y'], ['%d-%b-%Y'])
    """
    first = pc.unique(pc.drop_null(texts)).slice(0, _NUM_TRIED)
    found = list[str]()
    for date_format in _LIKELY if len(first) else ():
        few = parsed_times(first.slice(0, 20), date_format)
        if few.null_count < len(few) and parsed_times(first, date_format).null_count <= 0.1 * len(first):
            found.append(date_format)
    return found


def with_written_digits(table: pa.Table, date_formats: Sequence[str]) -> pa.Table:
    """Return the table with text in place of whole numbers that are dates in one of some formats, as 20160305 is.

    Args:
        table: any.
        date_formats: of strptime, as the user gave them; those with anything beside digits match no number.

    Example:
        >>> with_written_digits(pa.table({"day": [20160305, None], "n": [1, 2]}), ["%Y%m%d"])["day"].to_pylist()
        ['20160305', None]
    """
    for place, field in enumerate(table.schema) if date_formats else ():
        texts = _whole_texts(decoded(table.column(place)))
        if not is_text(texts.type) or is_text(field.type) or texts.null_count == len(texts):
            continue
        if any(_fits_all(texts, date_format) for date_format in date_formats):
            table = table.set_column(place, pa.field(field.name, pa.string()), texts)
    return table


def _whole_texts(column: Any) -> Any:
    """Return whole numbers, some of which may be missing, as text; another column as it is."""
    if pa.types.is_floating(column.type):
        known = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        is_whole = pc.and_(pc.equal(pc.floor(known), known), pc.less(pc.abs(known), _EXACT))
        column = known.cast(pa.int64()) if pc.all(is_whole, min_count=0).as_py() else column
    return column.cast(pa.string()) if pa.types.is_integer(column.type) else column


def _fits_all(texts: pa.ChunkedArray, date_format: str) -> bool:
    return parsed_times(pc.unique(texts).drop_null(), date_format).null_count == 0


def date_formats_of(texts: pa.Array | pa.ChunkedArray, known: Sequence[str] = ()) -> list[str]:
    """The formats in which every text of a column is a date: none if it has none, several if it could be either.

    Args:
        texts: the column.
        known: formats that the user gave. The first that fits is the only one; beside it a text may be ISO 8601, as
            in tables of two files.

    Example:
        >>> date_formats_of(pa.array(["01/02/2019", "25/02/2019"])), date_formats_of(pa.array(["01/02/2019"]))
        (['%d/%m/%Y'], ['%d/%m/%Y', '%m/%d/%Y'])
    """
    distinct = pc.drop_null(pc.unique(texts))
    distinct = distinct.filter(pc.not_equal(distinct, ""))
    if len(distinct) == 0:
        return []

    def fits(date_format: str, texts: Any) -> bool:
        few = texts.slice(0, 1)
        return parsed_times(few, date_format).null_count == 0 and parsed_times(texts, date_format).null_count == 0

    others = distinct.filter(pc.invert(pc.match_substring_regex(with_hyphens(distinct), _ISO_DATE))) if known else []
    chosen = next((each for each in known if fits(each, distinct) or (len(others) and fits(each, others))), None)
    return [chosen] if chosen is not None else [each for each in _YEAR_LAST if fits(each, distinct)]


def check_days(array: pa.Array, known: Sequence[str] = (), *, column: str) -> None:
    """Raise DataError where a column of text is one of dates but for days that no month has, such as 2019-02-29.

    Args:
        array: the column, null where a word stands for a missing date.
        known: formats that the user gave.
        column: for messages.

    Raises:
        DataError: the first such day, with its row.

    Example:
        >>> check_days(pa.array(["2019-02-28", "2019-03-01", "2019-02-29"]), column="day")
        Traceback (most recent call last):
        contextual_bert.errors.DataError: row 3, column 'day': '2019-02-29' is not a date. Correct the cell, or leave...
    """
    distinct = pc.drop_null(pc.unique(array))
    distinct = distinct.filter(pc.not_equal(distinct, ""))
    iso = with_hyphens(distinct)
    for date_format in (_ISO, *known, *_YEAR_LAST):
        is_iso = date_format == _ISO
        texts, least = (iso, _LEAST_ISO) if is_iso else (distinct, _LEAST_WRITTEN)
        pattern = _ISO_DATE if is_iso else _pattern_of(date_format)
        # The first text alone rules out most formats.
        if not all(pc.all(pc.match_substring_regex(some, pattern)).as_py() for some in (texts.slice(0, 1), texts)):
            continue
        texts = pc.utf8_slice_codeunits(texts, 0, 10) if is_iso else texts
        num_days = len(texts) - parsed_times(texts, date_format).null_count
        if least * len(texts) <= num_days < len(texts):
            try:
                to_dates(array, date_format=None if is_iso else date_format, column=column)
            except DataError as error:
                fix = "Correct the cell, or leave it empty if the date is missing; or exclude the column."
                raise DataError(error.problem, row=error.row, column=column, value=error.value, fix=fix) from None


def are_iso_dates(strings: pa.Array) -> bool:
    """Return True if a column of text has dates with the year first, and nothing else."""
    distinct = pc.drop_null(strings.unique())
    distinct = with_hyphens(distinct.filter(pc.not_equal(distinct, "")))
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


def date_part_of(value: object, part: DatePart, *, date_format: str | None = None) -> int | str:
    """`date_part` of one value: a date, a datetime, or text as ``to_dates`` reads it.

    Example:
        >>> date_part_of("2016-03-05", "weekday"), date_part_of("5.3.2016", "month", date_format="%d.%m.%Y")
        ('Saturday', 3)
    """
    if date_format is not None and isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        value = str(int(value)) if value == np.floor(value) else value
    if isinstance(value, str):
        try:
            value = to_dates(pa.array([value]), date_format=date_format)[0].as_py()
        except DataError as error:
            raise error.at(None) from None
        except UnicodeEncodeError:  # half of a character
            raise DataError(f"{value!a} is not a date", fix=_FIX) from None
    if not isinstance(value, datetime.date):
        raise DataError(f"{value!r} is not a date", fix=_FIX)
    if part == "weekday":
        return WEEKDAYS[value.weekday()]
    return value.year if part == "year" else value.month


def _pattern_of(date_format: str) -> str:
    """The pattern of the texts that have the shape of a format, with a group for the day."""
    parts = re.sub(
        r"%(.)|([^%]+)", lambda found: _DIRECTIVES[found[1]] if found[1] else re.escape(found[2]), date_format
    )
    return f"^{parts}$"


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    # Python also reads 20160305 and 2016-W09-6, which tables do not get to use.
    return len(text) == 10 and text[4] == "-" and text[7] == "-"
