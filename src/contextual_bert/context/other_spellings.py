"""Columns that look like dates or numbers, written in another way than is read: remarks for the person who trains.

A column that is read for something else is no error, so it is said what it looks like. No remark names a value.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context.cells import FLOAT
from contextual_bert.context.dates import SECONDS, likely_formats
from contextual_bert.context.written_numbers import DECIMAL_MARKS, decimal_advice, number_pattern

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
_FIRST_YEAR, _LAST_YEAR = 1900, 2100
_FIRST_SECOND, _LAST_SECOND = 978_307_200, 2_208_988_800  # 2001 and 2040
_FEWEST_SECONDS = 20
# Format -> the place and the size of year, month and day.
_DIGIT_DATES = {
    "%Y%m%d": ((1e4, 1e4), (1e2, 1e2), (1, 1e2)),
    "%d%m%Y": ((1, 1e4), (1e4, 1e2), (1e6, 1e2)),
}


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
        is_date = (parts[0] >= _FIRST_YEAR) & (parts[0] <= _LAST_YEAR)
        is_date &= (parts[1] >= 1) & (parts[1] <= 12) & (parts[2] >= 1) & (parts[2] <= 31) & (numbers < 1e8)
        if is_date.mean() > _MOST:
            return f"looks like dates, and is read as numbers: give --date-format '{date_format}'"
    return ""
