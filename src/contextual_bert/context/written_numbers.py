"""Numbers as people write them, with a decimal mark that the user named: 1.234,50 or 1'234.50.

Without a named mark a number is written as `cells.FLOAT` has it, and "1.200" is 1.2. With one, marks between groups of
three digits are read, too. Strings only: no schema, no table. Not in the paper; docs/decisions/032.
"""

import re
from typing import Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.context.cells import FLOAT

DecimalMark = Literal[".", ","]
DECIMAL_MARKS: tuple[DecimalMark, ...] = (",", ".")
_BLANKS = " \u00a0\u2009\u202f"
_GROUP_MARKS = {".": f",'’{_BLANKS}", ",": f".'’{_BLANKS}"}
_MINUS = "-−"  # hyphen, and the minus sign of Unicode


def number_pattern(decimal: DecimalMark | None) -> str:
    """Return the pattern of the texts that are numbers, for `re` and for arrow.

    Args:
        decimal: the mark before the decimals. None: a point, and no mark between thousands.

    Example:
        >>> pattern = number_pattern(",")
        >>> [bool(re.search(pattern, text)) for text in ("1.234,50", "1 234", "3,45-", "1.5", "0.200", "1.23,4")]
        [True, True, True, False, False, False]
    """
    if decimal is None:
        return FLOAT
    grouped = [rf"[1-9][0-9]{{0,2}}(?:{re.escape(mark)}[0-9]{{3}})+" for mark in _GROUP_MARKS[decimal]]
    if decimal == ".":
        grouped.append("[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}")  # 12,34,567 of India
    whole = "|".join(["0", "[1-9][0-9]*", *grouped])
    mark = re.escape(decimal)
    number = rf"(?:(?:{whole})(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    return rf"^(?:[{_MINUS}]?{number}|{number}[{_MINUS}])$"


def plain_numbers(texts: pa.Array | pa.ChunkedArray, decimal: DecimalMark | None) -> pa.Array | pa.ChunkedArray:
    """Return the same numbers as `cells.FLOAT` writes them, null where a text is no number.

    Example:
        >>> plain_numbers(pa.array(["1.234,50", "3,45-", "950", "1.5", "k.A."]), ",").to_pylist()
        ['1234.50', '-3.45', '950', None, None]
    """
    is_number = pc.fill_null(pc.match_substring_regex(texts, number_pattern(decimal)), False)
    found = pc.if_else(is_number, texts, pa.scalar(None, texts.type))
    if decimal is None:
        return found
    found = pc.replace_substring_regex(found, f"[{re.escape(_GROUP_MARKS[decimal])}]", "")
    found = pc.replace_substring(found, decimal, ".")
    found = pc.replace_substring_regex(found, f"^[{_MINUS}]?(.*[0-9.])[{_MINUS}]$", r"-\1")
    return pc.replace_substring(found, "−", "-")


def plain_number(text: str, decimal: DecimalMark | None) -> str | None:
    """Return ``plain_numbers`` of one text.

    Example:
        >>> plain_number("1.250", ","), plain_number("1.250", None), plain_number("1,25", None)
        ('1250', '1.250', None)
    """
    return cast("str | None", plain_numbers(pa.array([text], pa.string()), decimal)[0].as_py())


def decimal_advice(texts: pa.Array, *, share: float = 1.0) -> str:
    """Return which decimal mark reads texts that are no numbers yet; empty where none does.

    Where both marks read them, as other numbers, the advice names both: 1,200 is 1200 or 1.2.

    Args:
        texts: none of them a number as it is.
        share: of the texts that a mark must read.

    Example:
        >>> decimal_advice(pa.array(["70,46", "9,99"])), decimal_advice(pa.array(["12 kg"]))
        ("give --decimal ',' (in Python decimal)", '')
        >>> decimal_advice(pa.array(["1,200"])).partition(",")[0]
        "give --decimal '.' where its marks stand between thousands"
    """
    read = {mark: plain_numbers(texts, mark) for mark in DECIMAL_MARKS}
    fitting = [
        mark
        for mark, numbers in read.items()
        if numbers.null_count <= (1 - share) * len(texts) and numbers.null_count < len(texts)
    ]
    if not fitting:
        return ""
    if len(fitting) == 2:
        doubles = [pc.drop_null(read[mark].cast(pa.float64())) for mark in DECIMAL_MARKS]
        if not doubles[0].equals(doubles[1]):
            between, before = (".", ",") if pc.any(pc.match_substring(texts, ",")).as_py() else (",", ".")
            return (
                f"give --decimal '{between}' where its marks stand between thousands, --decimal '{before}' where they "
                "stand before decimals (in Python decimal)"
            )
    return f"give --decimal '{fitting[-1]}' (in Python decimal)"


def are_written(texts: pa.Array, decimal: DecimalMark | None) -> bool:
    """Return whether each text of a column is a number with a decimal mark that was named, and there is one.

    Example:
        >>> are_written(pa.array(["1,5", "2", None]), ","), are_written(pa.array(["1.5"]), None)
        (True, False)
    """
    filled = pc.drop_null(texts).unique() if decimal is not None else texts.slice(0, 0)
    filled = filled.filter(pc.not_equal(filled, ""))
    return len(filled) > 0 and plain_numbers(filled, decimal).null_count == 0
