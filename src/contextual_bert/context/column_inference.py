"""One column -> the feature it makes, or the reason why it makes none.

One function a kind. It deliberately does not know the other columns: `infer.py` walks the table and settles names.
Not in the paper, whose features are given.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_list, is_text, value_type, without_value
from contextual_bert.context.binning import edges_of_short_floats, quantile_edges
from contextual_bert.context.codes import SpeltNumbers, holds_text, spelt_numbers
from contextual_bert.context.columns import flatten_lists, num_with, separator_of_most, to_numbers
from contextual_bert.context.dates import (
    MONTHS,
    WEEKDAYS,
    are_iso_dates,
    check_days,
    date_formats_of,
    date_part,
    to_dates,
)
from contextual_bert.context.features import (
    CATEGORICAL_RESERVED,
    FEATURE_KINDS,
    MULTI_RESERVED,
    WITHHELD,
    Categorical,
    DatePart,
    Feature,
    MultiCategorical,
    Numerical,
    Vector,
)
from contextual_bert.context.hints import id_hint, pieces_hint
from contextual_bert.context.marks import Marks, date_words, listed, number_words, without_words
from contextual_bert.context.other_spellings import date_of_digits, other_spelling
from contextual_bert.context.printed_lists import as_lists, holds_objects
from contextual_bert.context.ranges import stray_threshold, with_ranges
from contextual_bert.context.rare_values import KeptValues, Rarity, keep_values
from contextual_bert.context.seasons import DATE, PARTS, asked_parts, left_out_parts, told
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.errors import ConfigurationError, SchemaError, did_you_mean

INDEX = "index"  # wanted of a column that pandas wrote beside the data
_ID = "looks like an id"
_DEFAULT_SEPARATOR = ","
_OTHER_SEPARATORS = ("|", ";")
# Below these, "every value differs" says that the table is small and not that the column is an id.
_FEWEST_TEXTS_OF_AN_ID = 20
_FEWEST_NUMBERS_OF_AN_ID = 100


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings by which features are found.

    ``customers``: number of the customer of each row, None where rows are counted; ``sensitive``: no note names values;
    ``date_format``: that of a column whose dates are not all ISO 8601, told by all of its rows; ``hash_buckets``: for
    rare values, None finds how many; ``parts``: those of a date that an override asks for; ``is_split_by_time``: the
    rows that are not learned from are later.
    """

    min_count: int
    max_categories: int
    num_bins: int
    date_formats: tuple[str, ...] = ()
    customers: NDArray[np.int64] | None = None
    sensitive: bool = False
    date_format: str | None = None
    hash_buckets: int | None = None
    parts: tuple[DatePart, ...] | None = None
    is_split_by_time: bool = False

    def shown(self, *values: object, most: int = 3) -> str:
        """Values as a note names them, none of a sensitive column."""
        return WITHHELD if self.sensitive else listed(*values, most=most)

    @property
    def unit(self) -> str:
        """The name of what ``min_count`` counts."""
        return "rows" if self.customers is None else "customers"


@dataclass(frozen=True)
class Finding:
    kind: str | None
    reason: str
    distinct: int
    features: tuple[Feature, ...] = ()
    num_marked: int = 0
    warning: str = ""
    remark: str = ""


def find(
    column: str,
    array: pa.Array,
    wanted: str | Feature | None,
    settings: Settings,
    *,
    everywhere: pa.Array | None = None,
) -> Finding:
    """Find the feature of one column.

    Args:
        column: its name.
        array: the rows to learn from.
        wanted: a kind, "date" or parts of dates, "ignore", ``INDEX`` or a feature; None finds the kind.
        settings: how.
        everywhere: the same column of all rows that will be read, which say which words and spellings of dates occur.
            None: there are no others.
    """
    distinct = _count_distinct(array)
    if isinstance(wanted, (Categorical, MultiCategorical, Numerical, Vector)):
        if wanted.column != column:
            raise ConfigurationError(
                f"the override of column {column!r} is a feature that reads {wanted.column!r}. "
                f"Set its source={column!r}."
            )
        return Finding(wanted.kind, "as given", distinct, (wanted,))
    if wanted == INDEX:
        return Finding(None, "the index of a pandas table; override to keep it", distinct)
    if wanted == "ignore":
        return Finding(None, "ignored: by an override", distinct)
    asked, parts = wanted, asked_parts(wanted)
    if parts is not None:
        wanted, settings = DATE, replace(settings, parts=parts)
    elif wanted is not None and wanted not in FEATURE_KINDS:
        kinds = [*FEATURE_KINDS, DATE, *PARTS, "ignore"]
        raise ConfigurationError(f"the override of column {column!r} is {wanted!r}. {did_you_mean(wanted, kinds)}")
    if wanted is None and holds_objects(array):
        return Finding(
            None, "its cells are objects or lists of such; give their values in columns of their own", distinct
        )
    # A category is a text, whatever it looks like.
    lists = as_lists(array, name=column) if wanted in (None, "multi_categorical", "vector") else None
    if lists is not None:
        array = lists.cast(pa.list_(pa.float64())) if wanted == "vector" and not _is_text_list(lists) else lists
        distinct = _count_distinct(array)
    marks, warning = None, ""
    if is_text(value_type(array.type)):
        tables = (array,) if everywhere is None else (everywhere, array)
        if wanted in (None, "numerical", DATE):
            marks, warning = _marks_of(tables[0], settings, is_forced=wanted == "numerical")
        if wanted in (None, DATE):
            told = (_date_format_of(each, marks, settings) for each in tables)
            settings = replace(settings, date_format=next(filter(None, told), None))
    if marks is not None:
        marks = marks.storable(array, min_count=settings.min_count, customers=settings.customers)
        array = without_words(array, marks.stored)
    kind = wanted or (marks.kind if marks is not None else _kind_of(array, settings))
    if wanted is None and kind == "categorical" and is_text(value_type(array.type)):
        _check_days(column, array, settings)
    if array.null_count == len(array):
        finding = Finding(None, "no row has a value", 0)
    elif kind is None:
        finding = Finding(None, f"the type {array.type} has no kind of feature", distinct)
    elif column.strip():
        finding = _FINDERS[kind](column, array, settings, wanted is not None)
    else:
        finding = Finding(None, "has no name: the index of a pandas table?", distinct)
    if marks is not None:
        features = tuple(feature.model_copy(update={"missing": marks.stored}) for feature in finding.features)
        shown, few = settings.shown(*marks.words, most=len(marks.words)), f"{settings.min_count} {settings.unit}"
        reason = f"{finding.reason}; {marks.remark(shown=shown, few=few)}"
        finding = replace(finding, features=features, reason=reason, num_marked=marks.num_rows)
    if warning:
        finding = replace(finding, reason=f"{finding.reason}; {warning}", warning=warning)
    if lists is not None:
        finding = replace(finding, reason=f"{finding.reason}; its cells are printed lists")
    if wanted is not None and not finding.features:
        if parts is not None:
            raise SchemaError(
                f"column {column!r} gives no feature as {asked!r}: {finding.reason}. Remove the override."
            )
        raise SchemaError(
            f"column {column!r} cannot be {wanted}, which its override asks for: {finding.reason}. "
            "Remove the override, or give the feature itself with its values."
        )
    return finding


def _marks_of(array: pa.Array, settings: Settings, *, is_forced: bool) -> tuple[Marks | None, str]:
    """The words among the numbers or dates of a column of text, or a remark on what stays text."""
    if not is_forced:
        dates = date_words(array)
        if dates is not None:
            rest = without_words(array, dates.words)
            if are_iso_dates(rest) or len(date_formats_of(rest, settings.date_formats)) == 1:
                return dates, ""
    return number_words(array, max_distinct=settings.num_bins, is_forced=is_forced, shown=settings.shown)


def _date_format_of(array: pa.Array, marks: Marks | None, settings: Settings) -> str | None:
    """The one format of the dates of a column of text; None where it has ISO 8601, or no dates."""
    strings = without_words(array, marks.words if marks is not None else ())
    found = date_formats_of(strings, settings.date_formats)
    return found[0] if len(found) == 1 and not are_iso_dates(strings) else None


def _check_days(column: str, array: pa.Array, settings: Settings) -> None:
    """Raise DataError where a column would be one of dates but for days that no month has."""
    words = date_words(array)
    strings = without_words(array, words.words if words is not None else ())
    if not date_formats_of(strings, settings.date_formats):
        check_days(strings, settings.date_formats, column=column)


def _is_text_list(lists: pa.Array) -> bool:
    return is_text(lists.type.value_type)


def _kind_of(array: pa.Array, settings: Settings) -> str | None:
    kind = value_type(array.type)
    if is_list(kind):
        is_whole = pa.types.is_integer(kind.value_type) and not pa.types.is_fixed_size_list(kind)
        if is_text(kind.value_type) or is_whole:
            return "multi_categorical"
        is_number = pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
        return "vector" if is_number else None
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return DATE
    if is_text(kind):
        is_date = settings.date_format is not None or are_iso_dates(canonical_array(array))
        return DATE if is_date else "categorical"
    if pa.types.is_boolean(kind):
        return "categorical"
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "numerical" if is_number else None


def _find_categorical(column: str, array: pa.Array, settings: Settings, is_forced: bool) -> Finding:
    strings = canonical_array(array, column=column)
    num_present = len(array) - count_missing(strings)
    spelling = other_spelling(strings) if not is_forced and is_text(array.type) else ""
    pieces = pieces_hint(column, strings) if not is_forced and not spelling and is_text(array.type) else ""
    warning = _joined(spelling, pieces)
    if spelling and settings.hash_buckets is None:
        settings = replace(settings, hash_buckets=0)  # dates and numbers that are not read as such name nobody
    spelt = spelt_numbers(strings) if holds_text(array) else None
    kept, rarity = _kept_values(strings, settings, CATEGORICAL_RESERVED, spelt=spelt, is_forced=is_forced)
    distinct, reason = kept.num_distinct, None
    if distinct == 1 and num_present == len(array):
        reason = "constant: every row says the same"
    elif is_forced:
        pass
    elif distinct > _FEWEST_TEXTS_OF_AN_ID and 2 * distinct > num_present:
        reason = f"{_ID}: {distinct} different values in {num_present} rows; override to keep it"
    if reason is None and not kept.values and kept.num_buckets is None:
        reason = _too_rare(settings)
    if reason is not None:
        is_id = not is_forced and reason.startswith(_ID)
        remark = f"left out: {reason}" if is_id else ""
        return Finding(None, _joined(reason, warning), distinct, remark=remark, warning=warning)
    shared: dict[str, Any] = {"num_buckets": kept.num_buckets, "buckets": kept.buckets, "spelt_numbers": spelt}
    feature = Categorical(name=_name(column), source=_source(column), values=kept.values, **shared)
    return Finding("categorical", _joined(kept.reason(rarity=rarity), warning), distinct, (feature,), warning=warning)


def _find_multi(column: str, array: pa.Array, settings: Settings, is_forced: bool) -> Finding:
    separator = None if is_list(array.type) else _separator_of(canonical_array(array, column=column))
    elements, lengths = flatten_lists(array, separator=separator, column=column)
    strings = canonical_array(elements, column=column)
    spelt = spelt_numbers(strings) if holds_text(array) else None
    kept, rarity = _kept_values(strings, settings, MULTI_RESERVED, spelt=spelt, lengths=lengths, is_forced=is_forced)
    distinct = kept.num_distinct
    if not kept.values and kept.num_buckets is None:
        return Finding(None, _too_rare(settings), distinct)
    shared: dict[str, Any] = {"num_buckets": kept.num_buckets, "buckets": kept.buckets, "spelt_numbers": spelt}
    feature = MultiCategorical(
        name=_name(column), source=_source(column), values=kept.values, separator=separator, **shared
    )
    reason = kept.reason(rarity=rarity, unit="elements")
    if separator not in (None, _DEFAULT_SEPARATOR):
        reason += f"; {separator!r} between them"
    return Finding("multi_categorical", reason, distinct, (feature,))


def _find_numerical(column: str, array: pa.Array, settings: Settings, is_forced: bool) -> Finding:
    numbers = to_numbers(array, column=column)
    is_missing = np.isnan(numbers)
    unique, counts = np.unique(numbers[~is_missing], return_counts=True)
    distinct, num_present = len(unique), int(counts.sum())
    if distinct == 0:
        return Finding(None, "no row has a value", 0)
    if distinct == 1 and num_present == len(array):
        return Finding(None, "constant: every row says the same", distinct)
    is_whole = pa.types.is_integer(array.type)
    if is_whole and not is_forced and distinct == num_present >= _FEWEST_NUMBERS_OF_AN_ID:
        reason = f"{_ID}: every whole number is different; override to keep it ({column}=numerical)"
        return Finding(None, reason, distinct, remark=f"left out: {reason}")
    edges = _edges(numbers, unique, counts, settings, num_bins=settings.num_bins)
    if pa.types.is_floating(stored := value_type(array.type)) and stored.bit_width < 64:
        edges = edges_of_short_floats(edges, np.float32 if stored.bit_width == 32 else np.float16)
    reach = "" if settings.sensitive else f" from {unique[0]:g} to {unique[-1]:g}"
    remark = (
        "" if is_forced else _joined(date_of_digits(unique), id_hint(column, distinct=distinct) if is_whole else "")
    )
    reason = _joined(f"{len(edges) + 1} bins{reach}{_strays(numbers[~is_missing], settings)}", remark)
    feature = Numerical(name=_name(column), source=_source(column), edges=edges)
    return Finding("numerical", reason, distinct, (feature,), warning=remark)


def _find_vector(column: str, array: pa.Array, settings: Settings, is_forced: bool) -> Finding:
    if not is_list(array.type):
        return Finding(None, f"the type {array.type} is no list", _count_distinct(array))
    lengths = pc.unique(pc.drop_null(pc.list_value_length(array))).to_pylist()
    if len(lengths) > 1 or lengths == [0]:
        return Finding(None, f"lists of {min(lengths)} to {max(lengths)} numbers are no vectors of one length", 0)
    feature = Vector(name=_name(column), source=_source(column), size=lengths[0])
    return Finding("vector", f"vectors of {lengths[0]} numbers", 0, (with_ranges(feature, array),))


def _find_date(column: str, array: pa.Array, settings: Settings, is_forced: bool) -> Finding:
    written = settings.date_format
    dates = to_dates(array, date_format=written, column=column)
    left_out = left_out_parts(dates, is_split_by_time=settings.is_split_by_time)
    if settings.parts is not None:
        left_out = tuple(each for each in left_out if each.is_constant and each.part in settings.parts)
    without = {each.part for each in left_out}
    features = [_part_feature(column, dates, part, settings) for part in settings.parts or PARTS if part not in without]
    distinct, remark = _count_distinct(dates), told(left_out, column=column)
    if not features:
        is_same = all(each.is_constant for each in left_out)
        listed = ", ".join(settings.parts) if settings.parts is not None else "year, month and weekday"
        reason = f"constant: every row has the same {listed}" if is_same else f"gives no feature: {remark}"
        return Finding(None, reason, distinct, remark="" if is_same else reason)
    names = ", ".join(str(feature.part) for feature in features)
    reason = f"gives {names}{f', written as {written}' if written else ''}"
    is_told = any(not each.is_constant for each in left_out)
    reason = f"{reason}; {remark}" if remark else reason
    return Finding(DATE, reason, distinct, tuple(features), remark=remark if is_told else "")


def _part_feature(column: str, dates: pa.Array, part: DatePart, settings: Settings) -> Categorical | Numerical:
    shared: dict[str, Any] = {"source": column, "part": part, "date_format": settings.date_format}
    name = _name(f"{column}_{part}")
    if part != "year":
        return Categorical(name=name, values=MONTHS if part == "month" else WEEKDAYS, **shared)
    years = date_part(dates, part).to_numpy(zero_copy_only=False).astype(np.float64)  # nulls become NaN
    unique, counts = np.unique(years[~np.isnan(years)], return_counts=True)
    edges = _edges(years, unique, counts, settings, num_bins=max(settings.num_bins, len(unique)))
    return Numerical(name=name, edges=edges, **shared)


_FINDERS: dict[str, Callable[[str, pa.Array, Settings, bool], Finding]] = {
    "categorical": _find_categorical,
    "multi_categorical": _find_multi,
    "numerical": _find_numerical,
    "vector": _find_vector,
    DATE: _find_date,
}


def count_missing(array: pa.Array) -> int:
    """Number of rows without a value."""
    return pc.sum(without_value(array)).as_py() or 0


def _count_distinct(array: pa.Array | pa.ChunkedArray) -> int:
    if is_list(array.type):
        if pa.types.is_floating(array.type.value_type):
            return 0  # nobody counts the numbers of vectors
        array = pc.list_flatten(array)
    try:
        return len(pc.drop_null(array.unique()))
    except pa.ArrowNotImplementedError:
        return 0


def _kept_values(
    strings: pa.Array,
    settings: Settings,
    reserved: tuple[str, ...],
    *,
    spelt: SpeltNumbers | None,
    lengths: NDArray[np.int64] | None = None,
    is_forced: bool,
) -> tuple[KeptValues, Rarity]:
    """Return the values of enough rows or customers, the buckets of the others, and what was enough.

    Args:
        strings: the values.
        settings: what is counted, and how many are enough.
        reserved: names that no value may have.
        spelt: how the column spells its numbers.
        lengths: how many of the strings each row has. None: one.
        is_forced: the feature was asked for, so that all values that are frequent enough stay.
    """
    owners = settings.customers
    if owners is not None and lengths is not None:
        owners = np.repeat(owners, lengths)
    most = None if is_forced else settings.max_categories
    rarity = Rarity(settings.min_count, owners, most=most, num_buckets=settings.hash_buckets)
    return keep_values(strings, rarity, reserved=reserved, is_code=spelt == "variously"), rarity


def _edges(
    numbers: NDArray[np.float64],
    unique: NDArray[np.float64],
    counts: NDArray[np.int64],
    settings: Settings,
    *,
    num_bins: int,
) -> tuple[float, ...]:
    """Return the edges of the bins of a column of numbers, of which missing ones are NaN."""
    customers = settings.customers
    if customers is not None:
        order = np.argsort(numbers, kind="stable")  # NaN comes last
        customers = customers[order][: int(counts.sum())]
    return quantile_edges(unique, counts, num_bins=num_bins, min_count=settings.min_count, customers=customers)


def _too_rare(settings: Settings) -> str:
    if settings.customers is None:
        return f"no value occurs {settings.min_count} times or more"
    return f"no value is that of {settings.min_count} customers or more"


def _separator_of(strings: pa.Array) -> str:
    """What stands between the values of a cell: where none has a comma, what most have."""
    other = separator_of_most(pc.drop_null(strings), _OTHER_SEPARATORS)
    return _DEFAULT_SEPARATOR if other is None or num_with(strings, _DEFAULT_SEPARATOR) else other[0]


def _strays(numbers: np.ndarray, settings: Settings) -> str:
    """A remark where some numbers stand out by orders of magnitude; in a bin of their own they do no harm."""
    found = numbers[np.abs(numbers) >= stray_threshold(np.abs(numbers))]
    if len(found) == 0:
        return ""
    rows = f"{len(found):,} row{'s' if len(found) > 1 else ''}"
    number = WITHHELD if settings.sensitive else f"{found[0]:g}"
    return f"; {number} stands out ({rows}): leave the cell empty if it says 'no data'"


def _joined(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))


def _name(column: str) -> str:
    # Names of features become names of weights, which a dot would split.
    return column.replace(".", "_")


def _source(column: str) -> str | None:
    return column if "." in column else None
