"""Remarks on columns that are read as they look, and may mean something else: ids, several values, dates, numbers.

They change nothing, and none names a value. No schema is known here. Not in the paper.
"""

import datetime
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context.columns import separator_of_most
from contextual_bert.context.dates import SECONDS, likely_formats
from contextual_bert.context.spelling import DECIMAL_MARKS, FLOAT, INTEGER, decimal_advice, number_pattern

_FEWEST_IDS = 20  # distinct numbers: of fewer, an override changes little
_FEWEST_CODE = 1000
_DIGITS_OF_A_CODE = 4
_DIGITS_OF_A_NUMBER = 20  # of more, a text names something
_FIRST_YEAR, _LAST_YEAR = 1800, 2200
_WIDE = 4  # times the smallest is the largest: fewer are prices or years
_REPEATED = 2  # rows of a code, on average
_FEWEST_MARKED = 3  # rows of a number that stands for a missing one
_FEWEST_BESIDE = 10  # other numbers: of fewer, each has a bin of its own
_MOST_PLACEHOLDERS = 4
# In small letters. "NA" is a country, and "none" and "unknown" are answers.
_WRITTEN_MISSING = (
    *("nan", "<na>", "nat", "null", "(null)", "\\n", "n/a", "#n/a", "#na", "k.a.", "keine angabe"),
    *("#null!", "#value!", "#ref!", "#div/0!", "#name?", "#num!"),
)
PLACEHOLDER = "may stand for a missing number"
_OFTEN = 10  # times as many rows as the other numbers have
_FAR_STEPS = 5.0  # of the mean distance of two numbers
_DAYS_OF_A_YEAR = 366
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_SERIAL, _LAST_SERIAL = 18_000, 60_000  # 1949 to 2064
_SERIAL_EPOCH = datetime.date(1899, 12, 30).toordinal()
_DATE_NAME = re.compile(r"date|datum|day|tag|time|zeit|fecha|jour|born|birth|created|updated", re.IGNORECASE)
_SEPARATORS = (",", ";", "|")
# Words at the end of a name, after an underscore, a blank, a hyphen, or a capital as in userId.
_ID = re.compile(
    r"(?:^|[_\W])(?:id|ids|uid|nr|no|num|code|key|zip|zipcode|plz|postcode|postal_code|sku|ean|gtin)$|[a-z]{3}nr$",
    re.IGNORECASE,
)
# Words for what is numbered and has no order; an area or a level has one.
_GROUP = re.compile(
    r"(?:^|[_\W])(?:store|shop|branch|filiale|markt|region|zone|district|bezirk|group|gruppe|warengruppe|category|kategorie"
    r"|categorie|categoria|cat|type|typ|tipo|segment|cluster|department|dept|abteilung|channel|kanal|brand|marke|sector"
    r"|occupation|job|status)s?$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_CURRENCY = (
    r"[€$£¥₹₽₩₺]|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|RON|TRY|BRL|MXN|CAD|AUD|NZD|ZAR|KRW|US\$|R\$|kr\.?"
    r"|zł|Kč|Fr\.?|Rs\.?"
)
_LEADING_ZERO = r"^0[0-9]+$"
_WITH_UNIT = r"^[-−+]?\d[\d.,]*\s?(?P<unit>[\p{L}µ°²³/]{2,6}|[mglstW°])\.?$"
_DIGITS = r"\d[\d.,'’ \x{a0}\x{2009}\x{202f}]*"
_NUMBERS = (
    rf"[-−+]?({_CURRENCY})\s?[-−+]?{_DIGITS}",
    rf"[-−+]?{_DIGITS}(\s|\x{{a0}}|\x{{202f}})?({_CURRENCY}|%)",
    r"\+(\d+\.?\d*|\.\d+)",
    r"\(\d[\d.,]*\)",
    r'="[-+]?[\d.,]+"',
    r"[-−+]?\d{1,3}(_\d{3})+(\.\d+)?",
    *(number_pattern(decimal)[1:-1] for decimal in DECIMAL_MARKS),
)
# Pattern -> what to do about it.
_REMARKS = {
    r"^\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?$": (
        "looks like dates, and some cells are none: write them as 2016-03-05, or leave them empty"
    ),
    r"^\d{1,2}[./-]\d{1,2}[./-](\d{2}|\d{4})([ T].*)?$": (
        "looks like dates: write 2016-03-05, or give --date-format {formats}"
    ),
    rf"(?i)^(\d{{1,2}}[ ./-]*{_MONTH}[ ,./-]*\d{{2,4}}|{_MONTH}[ .-]*\d{{1,2}}[a-z]*[ ,.-]+\d{{4}})([ T,].*)?$": (
        "looks like dates: write 2016-03-05, or give --date-format {formats}"
    ),
    r"^\d{4}年\d{1,2}月\d{1,2}日$": "looks like dates: write 2016-03-05, or give --date-format '%Y年%m月%d日'",
    r"(?i)^(\p{L}{2,10}\.?,? )?\d{1,2}\.? (de )?\p{L}{3,10}\.? (de )?\d{4}([ ,T].*)?$": (
        "looks like dates: write 2016-03-05"
    ),
    r"(?i)^\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]\.?m\.?)?$": (
        "looks like times of the day, and is read as categories: give the hour as a number, or day and time in one "
        "cell with --date-format, as '%d/%m/%Y %H:%M'"
    ),
    r"(?i)^[-+]?0x[0-9a-f]+$": (
        "looks like numbers to the base 16, and is read as categories: write them to the base 10 if they are amounts"
    ),
    rf"{FLOAT}|^({'|'.join(_NUMBERS)})$": (
        "looks like numbers: write 1234.5, with a point and nothing else: no currency, plus, brackets, quotes, or "
        "marks between thousands"
    ),
    r"^[-−+]?\p{Nd}+([.,٫]\p{Nd}+)?$": (
        "looks like numbers in digits of another script, and is read as categories: write them with 0 to 9"
    ),
}
# Spellings of truth values. In one column they are the same two values, and would be several categories.
_TRUTHS = (("true", "false"), ("1", "0"), ("yes", "no"))
_MOST = 0.9  # of the values
_NUM_DIGITS = 8  # of a date such as 05032016
_FIRST_LIKELY, _LAST_LIKELY = 1900, 2100
_FIRST_NAMED_YEAR = 1000  # of what is named a year
_YEAR = re.compile(r"(?:^|[^a-z])(?:year|yr|jahr|jaar|ann[eé]e|a[nñ]o|anno)s?(?:[^a-z]|$)", re.IGNORECASE)
_FIRST_SECOND, _LAST_SECOND = 978_307_200, 2_208_988_800  # 2001 and 2040
_FEWEST_SECONDS = 20
# Format -> the place and the size of year, month and day.
_DIGIT_DATES = {
    "%Y%m%d": ((1e4, 1e4), (1e2, 1e2), (1, 1e2)),
    "%d%m%Y": ((1, 1e4), (1e4, 1e2), (1e6, 1e2)),
}


def is_named_id(column: str, *, distinct: int) -> bool:
    """Return whether a column of whole numbers is named as ids are, and has many.

    Args:
        column: its name.
        distinct: its number of distinct values.

    Example:
        >>> is_named_id("userId", distinct=1500), is_named_id("weight", distinct=1500)
        (True, False)
    """
    return distinct >= _FEWEST_IDS and _ID.search(_CAMEL.sub("_", column)) is not None


def are_named_years(column: str, numbers: NDArray[np.float64]) -> bool:
    """Return whether numbers are years, by the name of their column and by their size. NaN is missing.

    Args:
        column: its name.
        numbers: one a row, or the distinct ones.

    Example:
        >>> are_named_years("year", np.array([1790.0, 2019.0])), are_named_years("birthYear", np.array([1980.0]))
        (True, True)
        >>> are_named_years("row", np.array([1790.0, 2019.0])), are_named_years("year", np.array([1.0, 2.0]))
        (False, False)
    """
    known = numbers[~np.isnan(numbers)]
    if not len(known) or _YEAR.search(_CAMEL.sub("_", column)) is None:
        return False
    return bool((known == np.floor(known)).all() and known.min() >= _FIRST_NAMED_YEAR and known.max() <= _LAST_LIKELY)


def codes_hint(column: str, unique: NDArray[np.float64], counts: NDArray[np.int64]) -> str:
    """Return a remark on whole numbers of one length that repeat, as article groups and postcodes do, or nothing.

    Example:
        >>> codes_hint("group", np.arange(1_013, 9_000, 97.0), np.full(83, 9)).partition(":")[0]
        'all numbers have 4 digits, as codes have'
        >>> codes_hint("price", np.arange(13, 9_000, 97.0), np.full(93, 9))
        ''
    """
    if len(unique) < _FEWEST_IDS or unique[0] < _FEWEST_CODE or (unique != np.floor(unique)).any():
        return ""
    digits, last = len(f"{unique[0]:.0f}"), len(f"{unique[-1]:.0f}")
    is_year = unique[0] >= _FIRST_YEAR and unique[-1] <= _LAST_YEAR
    is_wide = unique[-1] >= _WIDE * unique[0]
    if digits != last or is_year or not is_wide or counts.sum() < _REPEATED * len(unique):
        return ""
    return (
        f"all numbers have {digits} digits, as codes have: override {column}=categorical if they name something, for "
        "numbers in bins are near each other"
    )


def groups_hint(column: str, unique: NDArray[np.float64]) -> str:
    """Return a remark on whole numbers that are named as groups of things are, or nothing.

    Example:
        >>> groups_hint("store", np.arange(1.0, 40.0))
        'is named as groups are, whose numbers have no order: override store=categorical'
        >>> groups_hint("age", np.arange(1.0, 40.0))
        ''
    """
    if len(unique) < _FEWEST_IDS or (unique != np.floor(unique)).any() or not _GROUP.search(_CAMEL.sub("_", column)):
        return ""
    return f"is named as groups are, whose numbers have no order: override {column}=categorical"


def written_missing(texts: pa.Array) -> list[str]:
    """Return the texts that a program writes for a missing value, sorted.

    Example:
        >>> written_missing(pa.array(["nan", "a", "NaN", "NA"]))
        ['NaN', 'nan']
    """
    return sorted(texts.filter(pc.is_in(pc.utf8_lower(texts), value_set=pa.array(_WRITTEN_MISSING))).to_pylist())


def missing_text_hint(column: str, texts: pa.Array) -> str:
    """Return a remark on texts that a program writes for a missing value, which here are categories, or nothing.

    Example:
        >>> missing_text_hint("sex", pa.array(["f", "m", "nan"]))
        "'nan' may stand for a missing value: give --missing-value sex=nan"
        >>> missing_text_hint("land", pa.array(["NA", "DE"]))
        ''
    """
    found = [*{text.lower(): text for text in reversed(written_missing(texts))}.values()]  # of any capitals
    if not found:
        return ""
    options = " ".join(f"--missing-value {column}={text}" for text in found)
    return f"{', '.join(map(repr, found))} may stand for a missing value: give {options}"


def texts_of_numbers_hint(column: str, texts: pa.Array, *, num_bins: int) -> str:
    """Return a remark on texts that are all plain numbers, as a file with types has them, or nothing.

    Few numbers have a bin each, and lose nothing as categories. Whole numbers of one length, and those that the name of
    their column calls ids, are codes.

    Args:
        column: its name.
        texts: the distinct texts, each a number of its own.
        num_bins: the most bins of a number.

    Example:
        >>> texts_of_numbers_hint("age", pa.array([str(age) for age in range(8, 80)]), num_bins=16).partition(":")[0]
        'its texts are numbers, and are read as categories'
        >>> texts_of_numbers_hint("plz", pa.array([str(code) for code in range(80_331, 80_499)]), num_bins=16)
        ''
    """
    if len(texts) <= num_bins or is_named_id(column, distinct=len(texts)):
        return ""
    is_whole = pc.all(pc.match_substring_regex(texts, INTEGER)).as_py()
    bounds = pc.min_max(pc.utf8_length(texts)).as_py()
    if is_whole and bounds["min"] == bounds["max"] >= _DIGITS_OF_A_CODE:
        return ""
    if bounds["max"] > _DIGITS_OF_A_NUMBER:
        return ""
    return (
        f"its texts are numbers, and are read as categories: override {column}=numerical, or give --decimal '.' "
        "(in Python decimal) for each such column"
    )


def placeholder_hint(column: str, unique: NDArray[np.float64], counts: NDArray[np.int64]) -> str:
    """Return a remark on numbers that may stand for a missing one, such as 999 or -1, or nothing.

    Args:
        column: its name.
        unique: the distinct numbers, rising.
        counts: how many rows have each.

    Example:
        >>> placeholder_hint("age", np.array([-1.0, *range(18, 90), 999.0]), np.array([9, *[5] * 72, 9]))
        '-1, 999 may stand for a missing number: give --missing-value age=-1 --missing-value age=999'
        >>> placeholder_hint("age", np.arange(99.0), np.full(99, 5))
        ''
    """
    found: list[float] = []
    low, high = 0, len(unique)
    while high - low > _FEWEST_BESIDE and len(found) < _MOST_PLACEHOLDERS:
        if _stands_for_missing(unique[low:high][::-1], counts[low:high][::-1]):
            high -= 1
            found.append(float(unique[high]))
        elif _stands_for_missing(unique[low:high], counts[low:high]):
            found.append(float(unique[low]))
            low += 1
        else:
            break
    if not found:
        return ""
    shown = [f"{number:.15g}" for number in sorted(found)]
    options = " ".join(f"--missing-value {column}={number}" for number in shown)
    return f"{', '.join(shown)} {PLACEHOLDER}: give {options}"


def _stands_for_missing(numbers: NDArray[np.float64], counts: NDArray[np.int64]) -> bool:
    """Return True if the least or the largest number is apart from the others, as a placeholder is."""
    first, rest = float(numbers[0]), numbers[1:]
    if counts[0] < _FEWEST_MARKED or first != np.floor(first):
        return False
    gap, reach = abs(float(rest[0]) - first), float(rest.max() - rest.min())
    if gap > reach:
        return True
    digits = f"{abs(first):.0f}"
    is_code = len({*digits}) == 1 and digits[0] in "6789" and (len(digits) > 1 or first < 0)
    is_often = counts[0] >= _OFTEN * float(np.median(counts[1:]))
    if first < 0:
        return (is_code or first == -1) and (float(rest.min()) >= 0 or (len(digits) > 1 and is_often))
    is_steps = gap >= _FAR_STEPS * reach / len(rest) and gap >= _FAR_STEPS
    if is_code and is_often:
        return True
    return (is_code or (first == 0 and bool((rest == np.floor(rest)).all()))) and is_steps


def placeholder_days(days: NDArray[np.int64]) -> list[datetime.date]:
    """Return the days of a column that may stand for a missing date, such as 1900-01-01 and 9999-12-31.

    Args:
        days: days since 1970-01-01 of the rows that have one.

    Example:
        >>> placeholder_days(np.array([-25567] * 9 + [*range(17_000, 18_000)]))
        [datetime.date(1900, 1, 1)]
    """
    unique, counts = np.unique(days, return_counts=True)
    found: list[datetime.date] = []
    for order in (slice(None), slice(None, None, -1)):
        own, rows = unique[order], counts[order]
        if len(own) <= _FEWEST_BESIDE or rows[0] < _FEWEST_MARKED:
            continue
        day = datetime.date.fromordinal(int(own[0]) + _EPOCH)
        gap, reach = abs(int(own[1] - own[0])), abs(int(own[-1] - own[1]))
        is_known = (day.month, day.day) in ((1, 1), (12, 31), (12, 30)) and gap > _DAYS_OF_A_YEAR
        if is_known or gap > max(reach, 10 * _DAYS_OF_A_YEAR):
            found.append(day)
    return found


def serial_days_hint(column: str, unique: NDArray[np.float64]) -> str:
    """Return a remark on numbers that are days as spreadsheets count them, by their column's name, or nothing.

    Example:
        >>> serial_days_hint("order_date", np.arange(43_831.0, 44_000.0))
        'looks like days of a spreadsheet, of which 43831 is 2020-01-01: export the column as dates'
        >>> serial_days_hint("price", np.arange(43_831.0, 44_000.0))
        ''
    """
    if len(unique) < _FEWEST_IDS or unique[0] < _FIRST_SERIAL or unique[-1] > _LAST_SERIAL:
        return ""
    if _DATE_NAME.search(_CAMEL.sub("_", column)) is None:
        return ""
    first = datetime.date.fromordinal(int(unique[0]) + _SERIAL_EPOCH)
    return f"looks like days of a spreadsheet, of which {int(unique[0])} is {first}: export the column as dates"


def pieces_hint(column: str, strings: pa.Array) -> str:
    """Return a remark where most values are lists of values that other cells have, too, or nothing.

    Args:
        column: its name.
        strings: its distinct texts; null is none.

    Example:
        >>> pieces_hint("brands", pa.array(["a;b", "b;c", "c;a", "a;b;c", "b;a", "c;b"]))
        "most cells hold ';' between 3 values: override brands=multi_categorical makes each a value"
    """
    values = pc.unique(pc.drop_null(strings))
    found = separator_of_most(values, _SEPARATORS) if len(values) else None
    if found is None:
        return ""
    pieces = pc.unique(pc.utf8_trim_whitespace(pc.list_flatten(pc.split_pattern(values, found[0]))))
    are_numbers = pc.all(pc.match_substring_regex(pieces, FLOAT)).as_py()
    if are_numbers or 2 * len(pieces) > len(values):
        return ""
    return (
        f"most cells hold {found[0]!r} between {len(pieces):,} values: override {column}=multi_categorical makes each "
        "a value"
    )


def other_spelling(strings: pa.Array) -> str:
    """A remark on a column of text that looks like dates or numbers; empty where it does not.

    Example:
        >>> other_spelling(pa.array(["+34", "12", "+7"])).partition(":")[0]
        'looks like numbers'
        >>> other_spelling(pa.array(["2-Oct-2019", "13-Nov-2019"])).partition(":")[0]
        'looks like dates'
    """
    distinct = pc.unique(pc.drop_null(strings))
    if len(distinct) < 2 or pc.all(pc.match_substring_regex(distinct, FLOAT)).as_py():
        return ""
    if truths := _truths_hint(distinct):
        return truths
    others = distinct.filter(pc.invert(pc.match_substring_regex(distinct, FLOAT)))
    if pc.all(pc.match_substring_regex(others, _LEADING_ZERO)).as_py():
        if pc.all(pc.equal(pc.utf8_length(distinct), _NUM_DIGITS)).as_py():
            return date_of_digits(np.sort(distinct.cast(pa.float64()).to_numpy())).replace("numbers", "categories")
        return ""  # codes, such as the postcodes 01067 and 10115
    if advice := decimal_advice(others, share=_MOST):
        return f"looks like numbers, and is read as categories: {advice}"
    units = pc.value_counts(pc.struct_field(pc.extract_regex(distinct, _WITH_UNIT), "unit"))
    if len(units) and pc.max(units.field(1)).as_py() > _MOST * len(distinct):
        unit = units.field(0)[int(pc.index(units.field(1), pc.max(units.field(1))).as_py())].as_py()
        if unit is not None:
            return f"looks like numbers with the unit {unit!r}, and is read as categories: write the numbers alone"
    for pattern, remark in _REMARKS.items():
        if pc.sum(pc.match_substring_regex(distinct, pattern)).as_py() > _MOST * len(distinct):
            formats = " or ".join(map(repr, likely_formats(distinct))) if "{formats}" in remark else ""
            return remark.format(formats=formats or "with the order of day, month and year")
    return ""


def _truths_hint(distinct: pa.Array) -> str:
    """Return a remark where all values are truth values, in more than one spelling; empty where they are not."""
    words = {each.lower() for each in distinct.slice(0, 20).to_pylist()}
    spellings = [pair for pair in _TRUTHS if words & {*pair}]
    if len(distinct) > 20 or len(spellings) < 2 or not words <= {word for pair in spellings for word in pair}:
        return ""
    named = " and ".join("/".join(pair) for pair in spellings)
    return f"has truth values in several spellings ({named}), which are different categories: write one of them"


def date_of_digits(numbers: NDArray[np.float64]) -> str:
    """Return a remark on distinct numbers that look like dates, such as 20191001 or 1569888000; else nothing.

    Example:
        >>> date_of_digits(np.array([20190131.0, 20191001.0]))
        "looks like dates, and is read as numbers: give --date-format '%Y%m%d'"
        >>> date_of_digits(np.arange(1.57e9, 1.58e9, 1e5 + 7))
        "looks like seconds since 1970, and is read as numbers: give --date-format '%s'"
        >>> date_of_digits(np.array([20190131.0, 20199901.0]))
        ''
    """
    if len(numbers) < 2 or (numbers != np.floor(numbers)).any():
        return ""
    for unit in (1.0, 1000.0):
        is_time = (numbers >= _FIRST_SECOND * unit) & (numbers < _LAST_SECOND * unit)
        if len(numbers) >= _FEWEST_SECONDS and is_time.mean() > _MOST:
            return f"looks like seconds since 1970, and is read as numbers: give --date-format '{SECONDS}'"
    for date_format, (years, months, days) in _DIGIT_DATES.items():
        parts = [numbers // low % high for low, high in (years, months, days)]
        is_date = (parts[0] >= _FIRST_LIKELY) & (parts[0] <= _LAST_LIKELY)
        is_date &= (parts[1] >= 1) & (parts[1] <= 12) & (parts[2] >= 1) & (parts[2] <= 31) & (numbers < 1e8)
        if is_date.mean() > _MOST:
            return f"looks like dates, and is read as numbers: give --date-format '{date_format}'"
    return ""
