"""Read one raw value, as a request, a notebook or a data frame gives it: missing, a single value, a number.

The rules are those of whole columns, so that a record and a row of a table mean the same. Not in the paper.
"""

import datetime
import math
import re
from decimal import Decimal

import numpy as np

from contextual_bert.context.spelling import BLANKS, DecimalMark, plain_number
from contextual_bert.errors import DataError, shown, type_in_words

MISSING_FIX = "Leave the key out, or give null, if the value is missing."
SINGLE_TYPES = (str, bool, int, float, Decimal, datetime.date, np.generic)
_NUMBER = re.compile(r"[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|inf(inity)?|nan)", re.IGNORECASE)
_DOUBLE_BYTES = 8


def none_if_missing(value: object) -> object:
    """Return the value, None where it is missing: blank text, NaN, and NaT and NA of pandas and numpy.

    Times of numpy become those of Python.
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, (float, Decimal, datetime.date, np.floating)):
        return None if value != value else value  # NaN and NaT are unlike themselves
    return None if type(value).__name__ == "NAType" else value  # pandas is not imported for its NA


def check_single(value: object) -> object:
    """Return the value, which is a text, a number, a truth value or a date.

    Raises:
        DataError: something else, such as a list.
    """
    if not isinstance(value, SINGLE_TYPES):
        raise DataError(
            f"{value!r:.80} is {type_in_words(value)}, not a single value",
            fix=f"Allowed: text, a finite number, a truth value or a date. {MISSING_FIX}",
        )
    return value


def number_of(value: object, *, decimal: DecimalMark | None = None) -> float:
    """Return a finite number as a float: a number of Python or numpy, or text that spells one.

    Args:
        value: the number.
        decimal: the mark before the decimals of a text; marks between thousands are then read, too.

    Raises:
        DataError: something else.

    Example:
        >>> number_of("80"), number_of(Decimal("9.90")), number_of("1.250", decimal=",")
        (80.0, 9.9, 1250.0)
    """
    given = value
    try:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (str, int, float, Decimal, np.generic)):
            raise TypeError
        if isinstance(value, np.floating) and value.dtype.itemsize < _DOUBLE_BYTES:
            value = str(np.float32(value))  # 0.2 in 32 bits is 0.2, as in a column
        if isinstance(value, str) and decimal is not None:
            value = plain_number(value.strip(BLANKS), decimal)
            if value is None:
                raise ValueError
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip(BLANKS)) is None:
            raise ValueError  # what Python reads and no table does: 1_0, digits of other scripts
        number = float(value)
    except OverflowError:
        raise DataError(
            f"{shown(value)} is too large for a number", fix=f"Allowed: up to about 1e308. {MISSING_FIX}"
        ) from None
    except (TypeError, ValueError):
        written = "" if decimal is None else f" with the decimal mark {decimal!r}"
        raise DataError(
            f"{given!r:.80} is {type_in_words(given)}, not a number{written}",
            fix=f"Allowed: a finite number, or text that spells one. {MISSING_FIX}",
        ) from None
    if not math.isfinite(number):
        raise DataError(f"{value!r} is not a finite number", fix=f"Allowed: a finite number. {MISSING_FIX}")
    return number
