"""Remarks on columns that are read as they look, and may mean something else: ids, and several values in a cell.

They change nothing. It knows no schema. Not in the paper.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.context.cells import FLOAT
from contextual_bert.context.columns import separator_of_most

_FEWEST_IDS = 20  # distinct numbers: of fewer, an override changes little
_SEPARATORS = (",", ";", "|")
# Words at the end of a name, after an underscore, a blank, a hyphen, or a capital as in userId.
_ID = re.compile(
    r"(?:^|[_\W])(?:id|ids|uid|nr|no|num|code|key|zip|zipcode|plz|postcode|postal_code|sku|ean|gtin)$|[a-z]{3}nr$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def id_hint(column: str, *, distinct: int) -> str:
    """Return a remark on whole numbers whose column is named as ids are, or nothing.

    Args:
        column: its name.
        distinct: its number of distinct values.

    Example:
        >>> id_hint("userId", distinct=1500)
        'its name is that of ids, and numbers in bins are near each other: override userId=categorical, or name it as \
the customer'
        >>> id_hint("weight", distinct=1500)
        ''
    """
    if distinct < _FEWEST_IDS or _ID.search(_CAMEL.sub("_", column)) is None:
        return ""
    return (
        f"its name is that of ids, and numbers in bins are near each other: override {column}=categorical, or name it "
        "as the customer"
    )


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
