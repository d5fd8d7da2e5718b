"""Columns that number the rows or run with the time, which are no features by default.

A number that no other row has says nothing of the next row. A value that training has seen in one stretch of time
stands for what was on offer then. Texts of one pattern, such as ORD-00017 or 17/2020, are judged by the numbers in
them. `docs/decisions/029` has the rules. Not in the paper, whose features are given.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_list, is_text
from contextual_bert.context.columns import to_numbers
from contextual_bert.context.dates import are_iso_dates, date_formats_of, parsed_times, to_dates
from contextual_bert.context.hints import are_named_years, date_of_digits
from contextual_bert.context.kinds import Finding
from contextual_bert.context.marks import without_words
from contextual_bert.context.spelling import FLOAT
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.errors import DataError

_DIGITS = "[0-9]+"
_MOST_RUNS = 8  # of digits in one text
_SHARE_OF_PATTERN = 0.95  # of the filled rows have texts of the pattern

_FEWEST_ROWS = 100  # below, every column of numbers may have each one once
_NEARLY_ALL = 0.95  # of the rows have a number of their own
_HALF = 0.5  # as of texts, from which on many numbers are those of things
_FEWEST_NAMED = 1000  # numbers that name things and occur more than once; an age has fewer
_DENSE = 0.05  # of the numbers between the first and the last occur
_UNEVEN = 0.1  # the largest distance of the shares of numbers from those of equal steps
_STRAYS = 0.01  # of the numbers, at either end
_LARGE = 1e9
_ALWAYS = 0.99  # rank correlation of what counts on with the rows or the time
_STRICTLY = 0.999  # of numbers with fractions, which may be measured
_RISING = 0.95  # of what mostly grows
_FEW_VALUES = 60  # of a week, a month or a season that a number says
_LONG = 5  # rows of a stretch, on average, before it is one
_ONCE = 0.2  # of the rows have a value that came in one stretch


def numbers_in(texts: pa.DictionaryArray) -> NDArray[np.float64] | None:
    """Return the number that each text of one pattern holds, NaN where it is missing or of another pattern.

    A pattern is what stands around the digits. Digits that are the same in all texts belong to it. Where two runs of
    digits differ, the one with fewer values counts first: 2/2020 follows 1/2020, and 1/2021 follows both.

    Args:
        texts: one a row, as `canonical_array` spells them.

    Returns:
        (rows,) float64. None where fewer than 95% of the filled rows have one pattern, or more than two runs differ.

    Example:
        >>> numbers_in(pa.array(["ORD-01", "ORD-02", None]).dictionary_encode())
        array([ 1.,  2., nan])
        >>> numbers_in(pa.array(["1/2020", "2/2020", "3/2020", "1/2021"]).dictionary_encode()).argsort()
        array([0, 1, 2, 3])
    """
    distinct = texts.dictionary.cast(pa.string())
    codes = pc.fill_null(texts.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    counts[pc.equal(distinct, "").to_numpy(zero_copy_only=False)] = 0
    if not counts.sum():
        return None
    numbers = _plain(distinct, counts)
    if numbers is None:
        numbers = _patterned(distinct, counts)
    if numbers is None:
        return None
    return np.append(numbers, np.nan)[codes]


def _plain(distinct: pa.Array, counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """The texts as numbers, where nearly all spell one."""
    is_number = pc.match_substring_regex(distinct, FLOAT)
    if not _are_most(is_number.to_numpy(zero_copy_only=False), counts):
        return None
    numbers = pc.if_else(is_number, distinct, pa.scalar(None, pa.string())).cast(pa.float64())
    values = numbers.to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def _patterned(distinct: pa.Array, counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """The numbers within texts of one pattern."""
    skeletons = pc.replace_substring_regex(distinct, _DIGITS, "0").dictionary_encode()
    which = skeletons.indices.to_numpy(zero_copy_only=False)
    common = int(np.bincount(which, weights=counts).argmax())
    is_meant = which == common
    around = skeletons.dictionary[common].as_py().split("0")
    if not 0 < len(around) - 1 <= _MOST_RUNS or not _are_most(is_meant, counts):
        return None
    names = [f"n{place}" for place in range(len(around) - 1)]
    pattern = re.escape(around[0]) + "".join(
        f"(?P<{name}>{_DIGITS}){re.escape(after)}" for name, after in zip(names, around[1:], strict=True)
    )
    found = pc.extract_regex(distinct.filter(pa.array(is_meant)), f"^{pattern}$")
    runs = [pc.struct_field(found, name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in names]
    sizes = {place: len(np.unique(run)) for place, run in enumerate(runs)}
    differing = sorted((place for place in sizes if sizes[place] > 1), key=lambda place: sizes[place])
    if not 0 < len(differing) <= 2:
        return None
    number = runs[differing[-1]]
    if len(differing) == 2:
        turns = np.unique(runs[differing[0]], return_inverse=True)[1]
        number = number - number.min() + turns * (number.max() - number.min() + 1)
    numbers = np.full(len(distinct), np.nan)
    numbers[is_meant] = number
    return numbers


def _are_most(is_meant: NDArray[np.bool_], counts: NDArray[np.int64]) -> bool:
    return bool(counts[is_meant].sum() >= _SHARE_OF_PATTERN * counts.sum())


@dataclass(frozen=True, eq=False)
class Clock:
    """The order in time of the rows to learn from.

    Args:
        column: where the times are from.
        moments: number of each row's moment among the distinct ones, -1 where the time is missing.
        is_split: the split is by this column, so that the rows not learned from are later.
    """

    column: str
    moments: NDArray[np.int64]
    is_split: bool


def clock_of(
    table: pa.Table,
    *,
    split_by: str | None,
    candidates: Sequence[str],
    date_formats: Sequence[str] = (),
) -> Clock | None:
    """Return the order in time of a table's rows, None where no column tells it.

    Args:
        table: the rows to learn from.
        split_by: column of times that the split is by. None: the first column of dates tells the order.
        candidates: columns that may be the one of dates.
        date_formats: how dates are written that are not ISO 8601.
    """
    for column in (split_by,) if split_by is not None else candidates:
        if column not in table.column_names:
            continue
        times = _times(decoded(table[column]), date_formats, has_numbers=split_by is not None)
        if times is not None:
            return Clock(column, _codes(times), split_by is not None)
    return None


def follows_in_time(
    training: pa.Table, everywhere: pa.Table, candidates: Sequence[str], date_formats: Sequence[str] = ()
) -> str | None:
    """Return the first column of dates in which all other rows come after those of training, None where none does.

    Args:
        training: the rows to learn from.
        everywhere: the same rows, and those to validate and to test on.
        candidates: columns that may be the one of dates.
        date_formats: how dates are written that are not ISO 8601.

    Example:
        >>> everywhere = pa.table({"day": ["2019-03-01", "2019-03-02", "2019-03-03"]})
        >>> follows_in_time(everywhere.slice(0, 2), everywhere, ["day"])
        'day'
    """
    for column in candidates:
        learned = _times(decoded(training[column]), date_formats, has_numbers=False)
        if learned is None or np.isnan(learned).all():
            continue
        read = _times(decoded(everywhere[column]), date_formats, has_numbers=False)
        last = np.nanmax(learned)
        if read is not None and (read > last).any() and (read <= last).sum() == (~np.isnan(learned)).sum():
            return column
    return None


def without_running(column: str, array: pa.Array, finding: Finding, clock: Clock | None) -> Finding:
    """Return what was found in a column, without its feature where it numbers the rows or runs with the time.

    Args:
        column: its name.
        array: the rows to learn from.
        finding: the feature that it would make.
        clock: the order of the rows in time, None where it is not known.
    """
    feature = finding.features[0] if len(finding.features) == 1 else None
    if feature is None or feature.form != "id" or feature.date is not None or feature.cells is None:
        return finding
    if feature.cells == "numbers":
        words = feature.missing_words
        rest = without_words(array, words) if words else array
        numbers = to_numbers(rest, column=column, decimal=feature.decimal_mark)
        # A year in which one row falls is no running number. Of a split by time, the years to come are not learned.
        is_year = (clock is None or not clock.is_split) and are_named_years(column, numbers)
        reason = None if is_year else _number_reason(numbers, clock)
        codes = _codes(numbers) if reason is None else np.zeros(0, dtype=np.int64)
        if reason is None and len(codes) and int(codes.max()) >= _FEW_VALUES:
            return finding
    else:
        encoded = canonical_array(array, column=column).dictionary_encode()
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = numbers_in(encoded)
        reason = _number_reason(numbers, clock) if numbers is not None else None
    if reason is None and clock is not None and clock.is_split:
        share = share_in_one_stretch(codes, clock.moments)
        if share > _ONCE:
            reason = (
                f"runs with {clock.column!r}: {share:.1%} of the rows have a value that came in one stretch of time "
                "only, and the split is by time"
            )
    if reason is None:
        return finding
    dates = date_of_digits(np.unique(numbers[~np.isnan(numbers)])) if numbers is not None else ""
    if dates:
        return replace(finding, kind=None, reason=dates, features=(), warning=f"left out: {dates}")
    told = f"{reason}; override to keep it ({column}={finding.kind})"
    return replace(finding, kind=None, reason=told, features=(), remark=f"left out: {told}", warning="")


def share_in_one_stretch(codes: NDArray[np.int64], moments: NDArray[np.int64]) -> float:
    """Return the share of rows whose value came in one stretch of time; 0 where values come and go by the row.

    Args:
        codes: number of each row's value, below 0 where it is missing.
        moments: number of each row's moment, below 0 where it is missing.

    Example:
        >>> share_in_one_stretch(np.repeat([0, 1, 0, 2], 10), np.arange(40))
        0.5
    """
    is_known = (codes >= 0) & (moments >= 0)
    codes, moments = codes[is_known], moments[is_known]
    if len(codes) == 0 or len(np.unique(codes)) < 2:
        return 0.0
    ordered = codes[np.lexsort((codes, moments))]
    starts = np.concatenate([[True], np.diff(ordered) != 0])
    stretches = np.bincount(ordered[starts], minlength=int(codes.max()) + 1)
    if len(codes) < _LONG * starts.sum():
        return 0.0
    return float((stretches[codes] == 1).mean())


def _number_reason(numbers: NDArray[np.float64], clock: Clock | None) -> str | None:
    """Why a column of numbers is none of a context: it numbers the rows, or grows with the time."""
    is_known = ~np.isnan(numbers)
    known = numbers[is_known]
    distinct, places, counts = np.unique(known, return_inverse=True, return_counts=True)
    if len(known) < _FEWEST_ROWS or len(distinct) <= _FEW_VALUES:
        return None
    is_whole = bool((known == np.floor(known)).all())
    with_time = None
    if clock is not None:
        has_time = clock.moments[is_known] >= 0
        with_time = _correlation(places[has_time], clock.moments[is_known][has_time])
    rank = max(abs(_correlation(places, np.arange(len(places)))), abs(with_time or 0.0))
    whole = "whole numbers" if is_whole else "numbers"
    told = f"numbers the rows: {len(distinct):,} different {whole} in {len(known):,} rows"
    if is_whole and _are_numbers_of_things(distinct, counts, counts_on=rank >= _ALWAYS):
        return told
    if rank >= (_ALWAYS if is_whole else _STRICTLY) and _are_steps(distinct, counts):
        return f"{told}, which count on with {'the time' if abs(with_time or 0.0) >= rank else 'them'}"
    if clock is None or with_time is None:
        return None
    grows = f"{'grows' if with_time > 0 else 'falls'} with {clock.column!r} (rank correlation {with_time:.3f})"
    if is_whole and abs(with_time) >= _ALWAYS:
        return f"{grows}, as running numbers do"
    if clock.is_split and abs(with_time) >= _RISING:
        return f"{grows}, and the split is by time: training has not the values to come"
    return None


def _are_numbers_of_things(distinct: NDArray[np.float64], counts: NDArray[np.int64], *, counts_on: bool) -> bool:
    """Return True for whole numbers that number rows, orders or people: hardly repeated, and dealt out in turn."""
    num_rows = int(counts.sum())
    share = len(distinct) / num_rows
    cut = max(1, int(_STRAYS * len(distinct)))
    distinct, counts = distinct[cut:-cut], counts[cut:-cut]
    reach = float(distinct[-1] - distinct[0]) + 1
    if share >= _NEARLY_ALL and (counts_on or reach >= _LARGE):
        return True
    is_named = share >= _NEARLY_ALL or (share >= _HALF and len(distinct) + 2 * cut >= _FEWEST_NAMED)
    if not is_named or len(distinct) < _DENSE * reach:
        return False
    return _are_even(distinct, counts)


def _are_steps(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> bool:
    """Return True if ascending numbers are those of rows or orders: many of them, in equal steps."""
    if len(distinct) < _NEARLY_ALL * counts.sum() and len(distinct) < _FEWEST_NAMED:
        return False
    cut = max(1, int(_STRAYS * len(distinct)))
    return _are_even(distinct[cut:-cut], counts[cut:-cut])


def _are_even(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> bool:
    """Return True if the rows lie evenly between the first and the last number."""
    step = (distinct[-1] - distinct[0]) / (len(distinct) - 1)
    evenly = (distinct - distinct[0] + step) / (distinct[-1] - distinct[0] + step)
    return bool(np.abs(np.cumsum(counts) / counts.sum() - evenly).max() <= _UNEVEN)


def _correlation(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """The correlation of two columns of ranks, 0 where one is constant."""
    if len(one) < 2 or one.min() == one.max() or other.min() == other.max():
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _codes(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the place of each number among the distinct ones, -1 where it is missing."""
    codes = np.full(len(numbers), -1, dtype=np.int64)
    is_known = ~np.isnan(numbers)
    codes[is_known] = np.unique(numbers[is_known], return_inverse=True)[1]
    return codes


def _times(column: pa.ChunkedArray, date_formats: Sequence[str], *, has_numbers: bool) -> NDArray[np.float64] | None:
    """The time of each row as a number, NaN where it is missing; None of a column that holds none."""
    kind = column.type
    if is_list(kind):
        return None
    array = column.combine_chunks()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        whole = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        return whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if is_text(kind):
        return _written_times(array, date_formats)
    if has_numbers and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return None


def _written_times(array: pa.Array, date_formats: Sequence[str]) -> NDArray[np.float64] | None:
    formats = date_formats_of(array, date_formats)
    if len(formats) == 1:
        times = parsed_times(array, formats[0])
        if times.null_count == array.null_count:
            return times.cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if not are_iso_dates(canonical_array(array)) and not formats:
        return None
    try:
        days = to_dates(array, date_format=formats[0] if formats else None)
    except DataError:
        return None
    return days.cast(pa.int32()).cast(pa.float64()).to_numpy(zero_copy_only=False)
