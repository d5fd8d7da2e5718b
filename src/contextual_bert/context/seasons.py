"""The parts of dates that training has gone round twice: which are features, and why the others are not.

A month that occurs once in training stands for the promotions of that month. `docs/decisions/029` has the rule. Not in
the paper, whose features are given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context.dates import DatePart
from contextual_bert.errors import ConfigurationError, did_you_mean

DATE = "date"  # the override that asks for all parts
PARTS: tuple[DatePart, ...] = get_args(DatePart)
_DAYS: Mapping[DatePart, float] = {"month": 365.2425, "weekday": 7.0}  # of one turn
_TURN: Mapping[DatePart, str] = {"month": "year", "weekday": "week"}
_FEW = 0.01  # of the rows: strays, and a month that had just begun
_STRAYS = 0.005  # of the rows, at either end
_STRAY_TURN = 0.1  # of the rows that a value has in its largest turn
_MONDAY = 3  # days from 1970-01-01, a Thursday, back to a Monday


@dataclass(frozen=True)
class LeftOutPart:
    """A part of a date that is no feature.

    Args:
        part: which.
        reason: why.
        is_constant: every row has the same value, so that no override makes it a feature.
    """

    part: DatePart
    reason: str
    is_constant: bool = False


def asked_parts(wanted: object) -> tuple[DatePart, ...] | None:
    """Return the parts of a date that an override asks for, None where it asks for something else.

    Raises:
        ConfigurationError: one of several words is no part of a date.

    Example:
        >>> asked_parts("month,weekday"), asked_parts("date"), asked_parts("numerical")
        (('month', 'weekday'), ('year', 'month', 'weekday'), None)
    """
    if not isinstance(wanted, str):
        return None
    words = [word.strip() for word in wanted.split(",")]
    if words == [DATE]:
        return PARTS
    strange = [word for word in words if word not in PARTS]
    if len(strange) == len(words):
        return None
    if strange:
        raise ConfigurationError(
            f"{strange[0]!r} in {wanted!r} is no part of a date", allowed=did_you_mean(strange[0], PARTS)
        )
    return tuple(part for part in PARTS if part in words)


def left_out_parts(dates: pa.Array, *, is_split_by_time: bool) -> tuple[LeftOutPart, ...]:
    """Return the parts of some dates that are no feature by default, with the reason.

    A month needs two years of training and a weekday two weeks. A year is none where the split is by time, since the
    years to come are not in training.

    Args:
        dates: those of the training rows, ``pa.date32()``.
        is_split_by_time: the rows to validate and to test on are later than these.

    Example:
        >>> november = pa.array(["2000-11-01", "2000-12-20", "2001-01-09"]).cast(pa.date32())
        >>> [each.part for each in left_out_parts(november, is_split_by_time=True)]
        ['year', 'month', 'weekday']
    """
    days = pc.drop_null(dates).cast(pa.int32()).to_numpy().astype(np.int64)
    years, months = (
        part(pc.drop_null(dates)).to_numpy(zero_copy_only=False).astype(np.int64) for part in (pc.year, pc.month)
    )
    weeks, weekdays = np.divmod(days + _MONDAY, 7)
    found: list[LeftOutPart] = []
    if len(np.unique(years)) < 2:
        found.append(LeftOutPart("year", "every row has the same", is_constant=True))
    elif is_split_by_time:
        found.append(LeftOutPart("year", "the split is by time, and the years to come are not in training"))
    cycles: tuple[tuple[DatePart, NDArray[np.int64], NDArray[np.int64]], ...] = (
        ("month", years, months),
        ("weekday", weeks, weekdays),
    )
    for part, turns, values in cycles:
        if len(np.unique(values)) < 2:
            found.append(LeftOutPart(part, "every row has the same", is_constant=True))
            continue
        share = share_seen_once(turns, values)
        if share > _FEW and not _spans_two_turns(days, _DAYS[part]):
            turn = _TURN[part]
            reason = f"{share:.1%} of the rows have a {part} that training has seen in one {turn} only"
            found.append(LeftOutPart(part, f"{reason}, and it needs two {turn}s"))
    return tuple(found)


def share_seen_once(turns: NDArray[np.int64], values: NDArray[np.int64]) -> float:
    """Return the share of rows whose value occurs in a single turn.

    A turn with less than a tenth of the rows that the value's largest turn has does not count: it holds strays.

    Example:
        >>> share_seen_once(np.array([0, 0, 1, 1]), np.array([1, 2, 1, 1]))
        0.25
    """
    if len(values) == 0:
        return 0.0
    codes = np.unique(values, return_inverse=True)[1].astype(np.int64)
    rounds = np.unique(turns, return_inverse=True)[1].astype(np.int64)
    width = int(codes.max()) + 1
    cells, counts = np.unique(rounds * width + codes, return_counts=True)
    largest = np.zeros(width, dtype=np.int64)
    np.maximum.at(largest, cells % width, counts)
    seen = np.bincount(cells[counts >= _STRAY_TURN * largest[cells % width]] % width, minlength=width)
    return float((seen[codes] == 1).mean())


def _spans_two_turns(days: NDArray[np.int64], period: float) -> bool:
    """Return True if the days reach over two turns without a gap of half a turn. A few days at either end are left out.

    A table of few rows may miss a month of one year although it goes round the year twice.
    """
    cut = max(1, int(_STRAYS * len(days)))
    kept = np.sort(days)[cut:-cut]
    if len(kept) < 2:
        return False
    return bool(kept[-1] - kept[0] >= 2 * period and np.diff(kept).max() <= period / 2)


def left_out_line(left_out: tuple[LeftOutPart, ...], *, column: str) -> str:
    """Return the sentence on what was left out and how to keep it; empty where nothing was.

    Example:
        >>> left_out_line((LeftOutPart("year", "the split is by time"),), column="day")
        'year left out: the split is by time; override to keep it (day=year)'
    """
    reasons = "; ".join(f"{each.part} left out: {each.reason}" for each in left_out)
    free = ",".join(each.part for each in left_out if not each.is_constant)
    return f"{reasons}; override to keep it ({column}={free})" if free else reasons
