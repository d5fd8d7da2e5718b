"""Times in ISO 8601 text as microseconds since 1970, with a zone in all rows or in none."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context.dates import with_hyphens
from contextual_bert.errors import DataError

__all__ = ["ZONE", "instants"]

ZONE = r"[T ][0-9:.]+(?P<zone>Z|[+-][0-9:]+)$"
_HAS_ZONE = r"[T ][0-9:.]+[Z+-]"


def instants(
    values: pa.Array | pa.ChunkedArray, *, column: str, file: str | None = None
) -> tuple[NDArray[np.int64], bool]:
    """Return the microseconds since 1970 of each text, counted in UTC if the rows have zones; and if they have.

    Args:
        values: texts that begin with the year, none of which is missing.
        column, file: for messages.

    Raises:
        DataError: a text that is no time, or has no zone where others have one, with its row.

    Example:
        >>> instants(pa.array(["1970-01-01T01:00:01+01:00"]), column="time")
        (array([1000000]), True)
    """
    texts = pc.replace_substring_regex(with_hyphens(values), r" ?UTC$", "Z")
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]+", r"\1")
    has_zone = bool(pc.any(pc.match_substring_regex(texts, _HAS_ZONE)).as_py())
    kind = pa.timestamp("us", tz="UTC" if has_zone else None)
    try:
        return texts.cast(kind).cast(pa.int64()).to_numpy(), has_zone
    except pa.ArrowInvalid:
        row = next(row for row, text in enumerate(texts) if not _is_time(text, kind))
        raise DataError(
            f"{values[row].as_py()!r} is not a time{' with a zone, as others are' if has_zone else ''}",
            file=file,
            row=row,
            column=column,
            fix="Write times as 2016-03-05 or 2016-03-05T14:30:00, all with a zone such as +01:00 or none; or say how "
            "they are written with --date-format, as '%d/%m/%Y %H:%M:%S' (in Python date_formats).",
        ) from None


def _is_time(text: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
