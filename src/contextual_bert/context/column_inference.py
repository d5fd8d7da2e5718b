"""Infer the feature of one column, or give the reason why it makes none.

Words that say "missing" and formats of dates are found first. The kinds of features do the rest, each in its file. It
knows no other column: `infer.py` walks the table and settles names. Not in the paper, whose features are given.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import is_text, value_type
from contextual_bert.context.columns import to_numbers
from contextual_bert.context.dates import are_iso_dates, check_days, date_formats_of
from contextual_bert.context.hints import is_named_id
from contextual_bert.context.kinds import KINDS, Feature, Finding, InferenceSettings
from contextual_bert.context.kinds.date_columns import infer_date_parts
from contextual_bert.context.kinds.date_parts import holds_dates
from contextual_bert.context.kinds.feature import count_distinct, count_missing
from contextual_bert.context.marks import Marks, date_words, number_words, unmarked, without_words
from contextual_bert.context.other_spellings import date_of_digits
from contextual_bert.context.printed_lists import as_lists, holds_objects
from contextual_bert.context.seasons import DATE, PARTS, asked_parts
from contextual_bert.errors import ConfigurationError, SchemaError, did_you_mean
from contextual_bert.nouns import counted

_EXACT = 2**53  # above, whole numbers differ that are one float
INDEX = "index"  # wanted of a column that pandas wrote beside the data


def find(
    column: str,
    array: pa.Array,
    wanted: str | Feature | None,
    settings: InferenceSettings,
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
    distinct = count_distinct(array)
    if isinstance(wanted, Feature):
        if wanted.column != column:
            raise ConfigurationError(
                f"the override of column {column!r} is a feature that reads {wanted.column!r}",
                fix=f"Set its source={column!r}.",
            )
        return Finding(wanted.kind, "as given", distinct, (wanted,))
    if wanted == INDEX:
        return Finding(None, "the index of a pandas table; override to keep it", distinct)
    if wanted == "ignore":
        return Finding(None, "ignored: by an override", distinct)
    asked, parts = wanted, asked_parts(wanted)
    if parts is not None:
        wanted, settings = DATE, replace(settings, parts=parts)
    elif wanted is not None and wanted not in KINDS:
        kinds = [*KINDS, DATE, *PARTS, "ignore"]
        raise ConfigurationError(
            f"the override of column {column!r} is {wanted!r}", allowed=did_you_mean(wanted, kinds)
        )
    if wanted is None and holds_objects(array):
        return Finding(
            None, "its cells are objects or lists of such; give their values in columns of their own", distinct
        )
    num_named = 0
    if settings.missing_values:
        num_named = -count_missing(array)
        array = unmarked(array, settings.missing_values)
        everywhere = unmarked(everywhere, settings.missing_values) if everywhere is not None else None
        num_named += count_missing(array)
    # A category is a text, whatever it looks like.
    asked_kind = KINDS.get(wanted) if wanted is not None else None
    lists = as_lists(array, name=column) if wanted is None or (asked_kind and asked_kind.has_lists) else None
    if lists is not None:
        array = lists
        distinct = count_distinct(array)
    marks, warning = None, ""
    if is_text(value_type(array.type)):
        tables = (array,) if everywhere is None else (everywhere, array)
        if wanted in (None, DATE) or (asked_kind and asked_kind.has_missing_words):
            marks, warning = _marks_of(tables[0], settings, is_forced=asked_kind is not None)
        if wanted in (None, DATE):
            told = (_date_format_of(each, marks, settings) for each in tables)
            settings = replace(settings, date_format=next(filter(None, told), None))
    if marks is not None:
        marks = marks.storable(array, min_count=settings.min_count, customers=settings.customers)
        array = without_words(array, marks.stored)
    kind = wanted or (marks.kind if marks is not None else _kind_of(array, settings))
    told_name = _names_something(column, array) if wanted is None and kind == "numerical" else ""
    names_something = bool(told_name)
    kind = "categorical" if names_something else kind
    if wanted is None and kind == "categorical" and is_text(value_type(array.type)):
        _check_days(column, array, settings)
    if array.null_count == len(array):
        finding = Finding(None, "no row has a value", 0)
    elif kind is None:
        finding = Finding(None, f"the type {array.type} has no kind of feature", distinct)
    elif column.strip():
        settings = replace(settings, is_forced=wanted is not None)
        infer = infer_date_parts if kind == DATE else KINDS[kind].infer
        finding = infer(column, array, settings)
    else:
        finding = Finding(None, "has no name: the index of a pandas table?", distinct)
    if marks is not None:
        features = tuple(feature.model_copy(update={"missing": marks.stored}) for feature in finding.features)
        shown, few = settings.shown(*marks.words, most=len(marks.words)), f"{settings.min_count} {settings.unit}"
        reason = f"{finding.reason}; {marks.remark(shown=shown, few=few)}"
        finding = replace(finding, features=features, reason=reason, num_marked=marks.num_rows)
    if settings.missing_values and finding.features:
        finding = _with_missing(column, finding, settings, num_rows=num_named)
    if warning:
        told = finding.reason.replace(f"; {finding.warning}", "") if finding.warning else finding.reason
        # Sizes such as 36, 38, M and 2XL: few values lose nothing as categories.
        is_harmless = distinct <= settings.num_bins and "--decimal" not in warning
        finding = replace(finding, reason=f"{told}; {warning}", warning="" if is_harmless else warning)
    if names_something and finding.features:
        told = f"{told_name}, so each number is a category; override {column}=numerical to make bins"
        finding = replace(finding, reason=f"{finding.reason}; {told}")
    if lists is not None:
        finding = replace(finding, reason=f"{finding.reason}; its cells are printed lists")
    if wanted is not None and not finding.features:
        if parts is not None:
            raise SchemaError(
                f"column {column!r} gives no feature as {asked!r}: {finding.reason}", fix="Remove the override."
            )
        raise SchemaError(
            f"column {column!r} cannot be {wanted}, which its override asks for: {finding.reason}",
            fix="Remove the override, or give the feature itself with its values.",
        )
    return finding


def _names_something(column: str, array: pa.Array) -> str:
    """Return the reason why whole numbers name things, 7.0 too; empty where they may count or measure.

    They are named as ids are, and some stand in several rows; they differ in digits that a float does not keep; or
    their type is one of categories, as that of pandas.
    """
    if is_text(value_type(array.type)):
        return ""
    if pa.types.is_dictionary(array.type):
        return "of categories, as its type says"
    if (pa.types.is_integer(array.type) or pa.types.is_decimal(array.type)) and _loses_values(array):
        return "of more digits than bins of numbers tell apart"
    numbers = to_numbers(array, column=column)
    numbers = numbers[~np.isnan(numbers)]
    unique = np.unique(numbers)
    is_whole = bool((unique == np.floor(unique)).all()) and date_of_digits(unique) == ""
    is_id = is_whole and len(unique) < len(numbers) and is_named_id(column, distinct=len(unique))
    return "named as ids are" if is_id else ""


def _loses_values(array: pa.Array) -> bool:
    """Return True if two numbers of a column, one of them large, are one float."""
    bounds = pc.min_max(array)
    if not any(abs(bounds[side].as_py() or 0) > _EXACT for side in ("min", "max")):
        return False
    distinct = pc.drop_null(array.unique())
    return len(distinct.cast(pa.float64(), safe=False).unique()) < len(distinct)


def _with_missing(column: str, finding: Finding, settings: InferenceSettings, *, num_rows: int) -> Finding:
    """Return a finding whose features take the values that the user named for missing.

    Raises:
        SchemaError: a feature of a kind that has no such words.
    """
    lacking = next((each for each in finding.features if "missing" not in type(each).model_fields), None)
    if lacking is not None:
        raise SchemaError(
            f"column {column!r} is {lacking.kind}, which has no missing_values",
            fix="Leave the cells empty, or give null.",
        )
    features = tuple(
        each.model_copy(update={"missing": tuple(dict.fromkeys((*settings.missing_values, *each.missing_words)))})
        for each in finding.features
    )
    shown = settings.shown(*settings.missing_values, most=len(settings.missing_values))
    reason = f"{finding.reason}; {shown} in {counted(num_rows, 'row')}: missing, as was said"
    return replace(finding, features=features, reason=reason, num_marked=finding.num_marked + num_rows)


def _marks_of(array: pa.Array, settings: InferenceSettings, *, is_forced: bool) -> tuple[Marks | None, str]:
    """The words among the numbers or dates of a column of text, or a remark on what stays text."""
    if not is_forced:
        dates = date_words(array)
        if dates is not None:
            rest = without_words(array, dates.words)
            if are_iso_dates(rest) or len(date_formats_of(rest, settings.date_formats)) == 1:
                return dates, ""
    return number_words(
        array,
        max_distinct=settings.num_bins,
        is_forced=is_forced,
        shown=settings.shown,
        decimal=settings.decimal,
    )


def _date_format_of(array: pa.Array, marks: Marks | None, settings: InferenceSettings) -> str | None:
    """The one format of the dates of a column of text; None where it has ISO 8601, or no dates."""
    strings = without_words(array, marks.words if marks is not None else ())
    found = date_formats_of(strings, settings.date_formats)
    return found[0] if len(found) == 1 and not are_iso_dates(strings) else None


def _check_days(column: str, array: pa.Array, settings: InferenceSettings) -> None:
    """Raise DataError where a column would be one of dates but for days that no month has."""
    words = date_words(array)
    strings = without_words(array, words.words if words is not None else ())
    if not date_formats_of(strings, settings.date_formats):
        check_days(strings, settings.date_formats, column=column)


def _kind_of(array: pa.Array, settings: InferenceSettings) -> str | None:
    """Return the kind that claims a column, the one that was registered last first; None where none does."""
    for name, kind in reversed(KINDS.items()):
        if kind.claims(array, settings):
            return name
    return DATE if holds_dates(array, settings) else None
