"""Remarks on cells of CSV whose spelling says that their numbers mean something else than they are read as.

They change nothing. A reader calls it, because a column that became numbers has lost its spelling.
"""

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.context.cells import FLOAT
from contextual_bert.nouns import counted

__all__ = ["cut_digits_hint", "spelling_hints"]

_THOUSANDS = r"^-?[1-9][0-9]{0,2}\.[0-9]{3}$"
_UNDER_THOUSAND = r"^-?[0-9]{1,3}$"
_CUT = r"(?:^|[,;|\s])[0-9](?:\.[0-9]+)?E\+(?:0[89]|[1-9][0-9])(?:$|[,;|\s])"  # as spreadsheets shorten long codes
_NUM_NAMED = 2


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
