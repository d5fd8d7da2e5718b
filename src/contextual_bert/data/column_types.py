"""Kinds of columns of spelt cells (number, date, truth value), and keeping of the spelling where it matters.

A column that is kept as text says in its field's metadata what else it could be: its hash is that of the values, so
that a split file fits the table whichever of its columns a command reads as text. Where the spelling of a cell says
that its number means something else, a remark says so, and changes nothing.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.context.columns import MISSING_MARKS
from contextual_bert.context.spelling import BLANKS, BOOLEAN, DATE, FLOAT, INTEGER, TIME, DecimalMark, plain_numbers
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.nouns import counted

TYPE_KEY = b"contextual_bert.type"
DECIMAL_KEY = b"contextual_bert.decimal"  # beside it: how the numbers of the column are written
_TYPES = (
    (INTEGER, pa.int64()),
    (FLOAT, pa.float64()),
    (DATE, pa.date32()),
    (TIME, pa.timestamp("us")),
    (BOOLEAN, pa.bool_()),
)
_NAMED = {str(kind): kind for _, kind in _TYPES}
_WHOLE_OF_PANDAS = r"^-?(0|[1-9][0-9]*)\.0$"  # as pandas writes whole numbers of which some are missing
_LONG_WHOLE = r"^-?[0-9]{16,}(\.0*)?$"

_THOUSANDS = r"^-?[1-9][0-9]{0,2}\.[0-9]{3}$"
_UNDER_THOUSAND = r"^-?[0-9]{1,3}$"
_CUT = r"(?:^|[,;|\s])[0-9](?:\.[0-9]+)?E\+(?:0[89]|[1-9][0-9])(?:$|[,;|\s])"  # as spreadsheets shorten long codes
_NUM_NAMED = 2


class _EveryColumn(Collection[str | None]):
    """The names of all columns of a table that is still to be read."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str | None]:
        return iter(())

    def __len__(self) -> int:
        return 0


EVERY_COLUMN = _EveryColumn()


def typed_column(column: pa.ChunkedArray, *, decimal: DecimalMark | None = None) -> pa.ChunkedArray:
    """The column as numbers, dates or truth values if each cell is one and nothing is lost; else unchanged.

    Args:
        column: the cells as they are spelt.
        decimal: the mark before the decimals; None: a point, and no mark between thousands.
    """
    values = filled_cells(column)
    if values.null_count == len(values):
        return column
    are_numbers = True
    if decimal is not None:
        plain = plain_numbers(values, decimal)
        are_numbers = plain.null_count == values.null_count
        values = plain if are_numbers else values
    for pattern, kind in _TYPES:
        if not are_numbers and pattern in (INTEGER, FLOAT):
            continue
        if pc.all(pc.match_substring_regex(values, pattern)).as_py():
            if pa.types.is_floating(kind) and _has_lost_digits(values):
                return column
            try:
                return values.cast(kind)
            except pa.ArrowInvalid:  # digits beyond 64 bits, the 30th of February: text
                return column
    return column


def kept_column(
    name: str, column: pa.ChunkedArray, *, is_text: bool, is_code: bool, decimal: DecimalMark | None = None
) -> tuple[pa.ChunkedArray, pa.Field]:
    """A column of a file and its field: typed, or text that says which type it could have.

    Args:
        name: of the column.
        column: its cells as they are spelt.
        is_text: it stays text.
        is_code: it stays text if its numbers are spelt in another way than they would be written: "10.10", "007". Where
            each ends in ".0", as pandas writes whole numbers with a gap, nothing is lost.
        decimal: the mark before the decimals.
    """
    typed = typed_column(column, decimal=decimal)
    told = {TYPE_KEY: str(typed.type), **({DECIMAL_KEY: decimal} if decimal is not None else {})}
    field = pa.field(name, column.type)
    if typed is column:
        return column, field
    if is_text:
        return column, field.with_metadata(told)
    if is_code and pa.types.is_floating(typed.type) | pa.types.is_integer(typed.type):
        spelt = filled_cells(column)
        if pc.any(pc.is_inf(typed)).as_py():  # a code such as "inf", or 1e400
            return spelt, field.with_metadata(told)
        same = pc.equal(canonical_array(typed, is_name=False), spelt.combine_chunks())
        is_of_pandas = pc.all(pc.match_substring_regex(spelt, _WHOLE_OF_PANDAS)).as_py()
        if not pc.all(same).as_py() and not is_of_pandas:
            return spelt, field.with_metadata(told)
    return typed, pa.field(name, typed.type)


def is_long_number(column: pa.ChunkedArray) -> bool:
    """Return True for a column that has numbers alone and is text for their digits.

    Example:
        >>> is_long_number(pa.chunked_array([["1398717875470837207", "18446744073709551617"]]))
        True
    """
    values = filled_cells(column)
    if values.null_count == len(values):
        return False
    are_numbers = (pc.all(pc.match_substring_regex(each, FLOAT)).as_py() for each in (values.slice(0, 50), values))
    return all(are_numbers) and _has_lost_digits(values)


def digits_remark(name: str) -> str:
    """A column that is text for the digits of its numbers, for people."""
    return (
        f"column {name!r} has whole numbers of more digits than a number keeps, and is read as text: exact for ids; "
        "round them if they are amounts"
    )


def as_typed(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column as it would be if nobody had wanted it as text; its own field says what it is."""
    kind = _NAMED.get((field.metadata or {}).get(TYPE_KEY, b"").decode())
    if kind is None or not pa.types.is_string(column.type):
        return column
    try:
        decimal = (field.metadata or {}).get(DECIMAL_KEY)
        values = filled_cells(column)
        if decimal is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            plain = plain_numbers(values, cast(DecimalMark, decimal.decode()))
            if plain.null_count > values.null_count:
                return column
            values = plain
        return values.cast(kind)
    except pa.ArrowInvalid:  # somebody put other values into the column
        return column


def loses_digits(whole: str) -> bool:
    """Return True if a spelt whole number differs from its float.

    Example:
        >>> loses_digits("9007199254740993"), loses_digits("9007199254740992")
        (True, False)
    """
    digits = whole.partition(".")[0]
    if len(digits) > 309:
        return True
    return int(digits) != int(float(digits))


def _has_lost_digits(values: pa.ChunkedArray) -> bool:
    long = values.filter(pc.fill_null(pc.match_substring_regex(values, _LONG_WHOLE), False))
    return any(map(loses_digits, long.unique().to_pylist()))


def filled_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells without outer blanks. Empty ones are missing, and so are marks: where nothing else is text, "NA" is no
    country."""
    if pc.any(pc.match_substring_regex(column, r"^\s|\s$|[^\x00-\x7f]")).as_py():
        column = pc.utf8_trim(column, characters=BLANKS)
    missing = pa.array([*MISSING_MARKS, ""])
    return pc.if_else(pc.is_in(column, value_set=missing), pa.scalar(None, pa.string()), column)


def spelling_hints(name: str, cells: pa.ChunkedArray) -> list[str]:
    """Return remarks on a column of numbers with points.

    Args:
        name: of the column.
        cells: as they are spelt, null where a cell is empty.

    Example:
        >>> spelling_hints("price", pa.chunked_array([["1.200", "950"]]))[0].partition(": ")[2].partition(".")[0]
        "column 'price': all decimals have three digits, as thousands have, and 1"
        >>> spelling_hints("price", pa.chunked_array([["1.25", "950"]]))
        []
    """
    distinct = pc.unique(pc.drop_null(cells))
    has_point = pc.match_substring(distinct, ".")
    decimals, whole = distinct.filter(has_point), distinct.filter(pc.invert(has_point))
    if not len(decimals) or not pc.all(pc.match_substring_regex(distinct, FLOAT)).as_py():
        return []
    are_thousands = pc.all(pc.match_substring_regex(decimals, _THOUSANDS)).as_py()
    are_small = pc.all(pc.match_substring_regex(whole, _UNDER_THOUSAND), min_count=0).as_py()
    if are_thousands and are_small:
        first = str(decimals[0].as_py())
        meant = first.replace(".", "")
        return [
            f"warning: column {name!r}: all decimals have three digits, as thousands have, and {first} is read as "
            f"{float(first):g}. Give --decimal ',' where {meant} is meant, --decimal '.' where it is right"
        ]
    pair = _two_spellings(decimals.to_pylist())
    if pair is None:
        return []
    return [
        f"warning: column {name!r}: {pair[0]} and {pair[1]} are read as numbers with decimals. Where they are codes, "
        f"such as versions, keep them apart: override {name}=categorical"
    ]


def cut_digits_hint(name: str, cells: pa.ChunkedArray) -> list[str]:
    """Return a remark on a column in which a spreadsheet shortened long codes to few digits.

    Example:
        >>> cut_digits_hint("ean", pa.chunked_array([["4.00639E+12", "17"]]))[0].partition(", as")[0]
        "warning: column 'ean': a spreadsheet has cut the digits of long numbers in 1 row"
    """
    is_cut = pc.fill_null(pc.match_substring_regex(cells, _CUT), False)
    count = pc.sum(is_cut).as_py() or 0
    if not count:
        return []
    shown = str(cells.filter(is_cut)[0].as_py())[:40]
    return [
        f"warning: column {name!r}: a spreadsheet has cut the digits of long numbers in {counted(count, 'row')}, "
        f"as {shown!r}. Different codes may be one now. Export the column as text"
    ]


def _two_spellings(texts: Sequence[str]) -> tuple[str, str] | None:
    """Two of some numbers that make codes likely: one number in two spellings, or "10.10" beside "10.2"."""
    fractions = {text: text.partition(".")[2] for text in texts if re.fullmatch(r"-?[0-9]+\.[0-9]+", text)}
    if len({len(each) for each in fractions.values()}) < 2:
        return None
    padded = [text for text, digits in fractions.items() if re.fullmatch(r"[0-9]*[1-9]0+", digits)]
    if not padded:
        return None
    same = {float(text): text for text in fractions if text not in padded}
    for text in padded:
        if float(text) in same:
            return same[float(text)], text
    short = next((text for text, digits in fractions.items() if len(digits) < len(fractions[padded[0]])), None)
    return (short, padded[0]) if short is not None else None
