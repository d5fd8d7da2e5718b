"""Times of a column as numbers: ISO 8601 text as microseconds since 1970, with a zone in all rows or in none."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_text
from contextual_bert.context.dates import are_iso_dates, date_formats_of, parsed_times, with_hyphens
from contextual_bert.errors import DataError

__all__ = ["ZONE", "instants", "times_in"]

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


def times_in(
    values: pa.Array | pa.ChunkedArray, *, column: str, file: str | None = None, date_formats: Sequence[str] = ()
) -> NDArray[Any]:
    """Return numbers in the order of the times of a column: dates, timestamps, texts that are one, or numbers.

    Args:
        values: none of which is missing.
        column, file: for messages.
        date_formats: how texts are written that are not ISO 8601, as strptime has it.

    Raises:
        DataError: no times, or texts that may be two days.

    Example:
        >>> times_in(pa.array(["1970-01-02", "1970-01-01"]), column="day").tolist()
        [86400000000, 0]
    """
    values = decoded(values)
    kind = values.type
    if is_text(kind):
        formats = date_formats_of(values, date_formats)
        if len(formats) > 1:
            raise DataError(
                f"{values[0].as_py()!r} may be two days, and no row of the column says which",
                file=file,
                row=0,
                column=column,
                fix=f"Give --date-format {formats[0]!r} or {formats[1]!r} (in Python date_formats).",
            )
        if formats:
            times = parsed_times(values, formats[0])
            if times.null_count == values.null_count:
                return times.cast(pa.int64()).to_numpy()
            # Of two files one may have ISO 8601.
            return instants(pc.coalesce(times.cast(pa.string()), values), column=column, file=file)[0]
        if date_formats and not are_iso_dates(values):
            row = pc.index(pc.is_null(parsed_times(values, date_formats[0])), True).as_py()
            raise DataError(
                f"{values[row].as_py()!r} is not written as {date_formats[0]!r}",
                file=file,
                row=row,
                column=column,
                fix="Give a date format that fits each row, or write the times as 2016-03-05.",
            )
        return instants(values, column=column, file=file)[0]
    if pa.types.is_temporal(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return values.to_numpy()
    raise DataError(
        f"the column is of type {kind}",
        file=file,
        column=column,
        fix="A time is a date, a timestamp, a number or text such as 2016-03-05.",
    )
