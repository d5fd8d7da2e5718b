"""A table -> a context schema: which columns become features, of which kind, and why others were left out.

Of each column, the words that say "missing" and the format of its dates are found first; the kinds of features do the
rest, each in its file. Every column gets a note, so that nothing is dropped in silence. Items and splits are not
known here: the caller excludes those columns and gives the rows to learn from. A value or a bin needs enough
customers, so that no single customer's values leave with a model (docs/guides/privacy.md). Not in the paper, whose
features are given.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import is_text, value_type, without_views
from contextual_bert.context.columns import to_numbers
from contextual_bert.context.dates import are_iso_dates, check_days, date_formats_of
from contextual_bert.context.hints import date_of_digits, is_named_id
from contextual_bert.context.kinds import KINDS, Feature, Finding, InferenceSettings
from contextual_bert.context.kinds.date_columns import infer_date_parts
from contextual_bert.context.kinds.date_parts import holds_dates
from contextual_bert.context.kinds.feature import count_distinct, count_missing
from contextual_bert.context.kinds.history import holds_baskets
from contextual_bert.context.limits import MAX_BUCKETS, MAX_CATEGORIES, MIN_CUSTOMERS
from contextual_bert.context.marks import Marks, date_words, number_words, unmarked, without_words
from contextual_bert.context.printed_lists import as_lists, holds_objects
from contextual_bert.context.row_numbers import clock_of, without_running
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.seasons import DATE, PARTS, asked_parts
from contextual_bert.context.spelling import DecimalMark
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.context.withheld import withholding
from contextual_bert.errors import NAME, ConfigurationError, Message, SchemaError, UnknownNameError, did_you_mean
from contextual_bert.frames import Frame, as_table
from contextual_bert.nouns import counted
from contextual_bert.places import TablePlace

_EXACT = 2**53  # above, whole numbers differ that are one float
INDEX = "index"  # wanted of a column that pandas wrote beside the data

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
_UNNAMED_COLUMN = re.compile(r"Unnamed: \d+(\.\d+)*")

NUM_BINS = 16  # the most bins of a number
Customers = str | Sequence[object] | pa.Array | pa.ChunkedArray | None


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
    if wanted is None and holds_objects(array) and not (settings.items is not None and holds_baskets(array)):
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


@dataclass(frozen=True)
class ColumnNote:
    """Note on one column: its feature, or the reason why it was left out.

    Args:
        column: its name.
        kind: the kind of feature, "date" for one that gave parts of dates, None if it was left out.
        reason: why, for a person to read.
        distinct: number of distinct values (of the elements, for lists).
        missing: number of rows without a value.
        warning: what should be looked at before training; empty where there is nothing.
        remark: what of a column that could be a feature was left out, and why; empty where nothing was.

    Example:
        >>> ColumnNote("sex", "categorical", "2 values", distinct=2, missing=0).kind
        'categorical'
    """

    column: str
    kind: str | None
    reason: str
    distinct: int
    missing: int
    warning: str = ""
    remark: str = ""


@dataclass(frozen=True)
class InferredSchema:
    """A schema and a note on each column of the table it was inferred from.

    Args:
        schema: the context schema.
        notes: one note a column, in the order of the table.
        absent: values that were named as missing ones, and that no cell of the context has.

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"sex": ["f", "m"] * 20, "planet": ["earth"] * 40})
        >>> for note in infer_schema(table).notes: print(note.column, note.kind, note.reason)
        sex categorical 2 values
        planet None constant: every row says the same
    """

    schema: ContextSchema
    notes: tuple[ColumnNote, ...]
    absent: tuple[str, ...] = ()

    def warnings(self) -> list[str]:
        """Return warnings for the person who trains: values of single rows are named, and those of ``absent``."""
        found = [f"warning: column {note.column!r}: {note.warning}" for note in self.notes if note.warning]
        if self.absent:
            listed = ", ".join(map(repr, self.absent))
            told = f"warning: {{missing_values}} names {listed}, which no given cell of the context has"
            found.append(Message(told, missing_values=NAME))
        return found

    def remarks(self) -> list[str]:
        """Return a sentence a column of which something is no feature by default: running numbers, parts of dates."""
        return [f"context: column {note.column!r}: {note.remark}" for note in self.notes if note.remark]


@dataclass(frozen=True, eq=False)
class SchemaSettings:
    """The arguments of ``infer_schema``, which says what each is, the buckets of rare values, and the time of a split.

    Args:
        hash_buckets: how many buckets the rarer categories are hashed into; 0: none, they count as unknown. None: one
            for each ``min_count`` of their customers, see `keep_values`.
        time: column of times, where the rows to validate and to test on are later than these. Years and columns that
            run with the time, such as the number of a week, are then no features. None: the split is by no time.
        decimal: the mark before the decimals of numbers that are text; marks between thousands are then read, too.
        missing_values: values that stand for a missing one: "age=999" of a column, "n/a" of each that has it.
        items: the names of the items of the sets, each once, which histories are told by; None: there are no sets.
    """

    exclude: Sequence[str] = ()
    overrides: Mapping[str, str | Feature] = field(default_factory=dict[str, "str | Feature"])
    customers: Customers = None
    min_count: int = MIN_CUSTOMERS
    max_categories: int = MAX_CATEGORIES
    hash_buckets: int | None = None
    date_formats: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    time: str | None = None
    decimal: DecimalMark | None = None
    missing_values: tuple[str, ...] = ()
    items: pa.Array | None = None


def infer_schema(
    table: Frame,
    *,
    exclude: Sequence[str] = (),
    overrides: Mapping[str, str | Feature] | None = None,
    customers: Customers = None,
    min_count: int = MIN_CUSTOMERS,
    max_categories: int = MAX_CATEGORIES,
    date_formats: Sequence[str] = (),
    sensitive: Sequence[str] = (),
) -> InferredSchema:
    """Find the features of a table.

    Text and truth values become categorical; whole and decimal numbers numerical, with a bin for each number if there
    are no more than 16, so that few numbers lose nothing by being binned; lists of text or whole numbers
    multi-categorical; lists of decimal numbers vectors; dates, also as ISO 8601 text, give year, month and weekday.
    Constant columns, those whose every value differs as in an id, and the index of a pandas table are left out.

    A part of a date is a feature where the rows go round it twice: a month needs two years, a weekday two weeks.
    Columns that number the rows are left out. ``remarks`` of what is returned names both, and an override keeps them.

    The column of customers is left out, too, unless an override names it. It is then a feature whose values are counted
    by rows: the schema holds the ids of customers, and the note says so.

    Args:
        table: the rows to learn from: pyarrow, pandas, polars or `datasets`, as ``frames.as_table`` takes them.
        exclude: columns that are no context: the items, the customer.
        overrides: column -> a kind, "ignore", or a feature, which then stands in the schema as given. Of dates also
            "date", or the parts that are features: "month", "year,weekday".
        customers: whose row each is: the name of a column, or one value a row. None counts each row for itself. Rows
            without a customer count as one customer.
        min_count: a category of fewer customers shares its vector, or counts as unknown. A bin of numbers has as many
            customers. The edges of bins are numbers of as many customers, or round numbers.
        max_categories: the most categories with a vector of their own, the most frequent ones; where an override asks
            for the column, all of ``min_count`` customers. The rarer ones share vectors by a hash, where enough of them
            do (`keep_values`); ``SchemaSettings.hash_buckets`` says how many.
        date_formats: how dates are written that are not ISO 8601, as strptime has it: "%d/%m/%Y". Without, a column is
            of dates if its days and months can be told apart.
        sensitive: columns whose features are sensitive: their values stand in no card, report, log or OpenAPI document.

    Raises:
        UnknownNameError: no such column.
        ConfigurationError: an override of a column that is excluded, or of no kind; a number below 1.
        SchemaError: a column that cannot be what its override asks for.
        DataError: a value that is none, with its row.
    """
    asked = SchemaSettings(
        exclude,
        overrides or {},
        customers,
        min_count,
        max_categories,
        date_formats=tuple(date_formats),
        sensitive=tuple(sensitive),
    )
    return infer_features(as_table(table), asked)


def infer_features(table: pa.Table, asked: SchemaSettings, *, everywhere: pa.Table | None = None) -> InferredSchema:
    """Find the features of some rows of a table, as ``infer_schema`` does.

    Args:
        table: the rows to learn from.
        asked: the arguments of ``infer_schema``.
        everywhere: all rows that will be read, those to validate and to test on among them. They say which words stand
            for a missing number and how dates are written, and nothing else. None: ``table`` is all.

    Raises:
        UnknownNameError, ConfigurationError, SchemaError, DataError: as ``infer_schema``.
    """
    exclude, overrides, sensitive, customers = asked.exclude, asked.overrides, asked.sensitive, asked.customers
    table = without_views(table)
    whose = customers if isinstance(customers, str) else None
    named = [name for name in (whose, asked.time) if name is not None]
    for column in (*exclude, *overrides, *sensitive, *named):
        if column not in table.column_names:
            raise UnknownNameError(
                f"the table has no column {column!r}",
                place=TablePlace(lacking=(column,)),
                allowed=did_you_mean(column, table.column_names),
            )
    check_named_columns(asked.missing_values, table.column_names)
    misplaced = [name for name in overrides if name in exclude and overrides[name] != "ignore"]
    if misplaced:
        raise ConfigurationError(
            f"the column {misplaced[0]!r} is excluded, and an override makes it a feature",
            fix="Leave one of them out; the columns of items, texts, labels, customers and times are never features.",
        )
    for name, number in (("min_count", asked.min_count), ("max_categories", asked.max_categories)):
        if number < 1:
            raise ConfigurationError("is not allowed", setting=name, value=number, allowed="Allowed: 1 or more.")
    if asked.hash_buckets is not None and not 0 <= asked.hash_buckets <= MAX_BUCKETS:
        raise ConfigurationError(
            "is not allowed",
            setting="hash_buckets",
            value=asked.hash_buckets,
            allowed=f"Allowed: 0 to {MAX_BUCKETS:,}.",
        )
    if whose is not None and overrides.get(whose, "ignore") == "ignore":
        exclude = (*exclude, whose)
    numbers = numbers_of_customers(customers, table)
    settings = InferenceSettings(
        asked.min_count,
        asked.max_categories,
        NUM_BINS,
        asked.date_formats,
        numbers,
        hash_buckets=asked.hash_buckets,
        is_split_by_time=asked.time is not None,
        decimal=asked.decimal,
        items=asked.items,
    )
    indexes = _pandas_indexes(table)
    candidates = [name for name in table.column_names if name not in exclude]
    clock = clock_of(table, split_by=asked.time, candidates=candidates, date_formats=asked.date_formats)
    features: list[Feature] = []
    notes: list[ColumnNote] = []
    absent = {*asked.missing_values}
    for column in table.column_names:
        # What is excluded may be texts of gigabytes, which are no one array.
        array = table[column] if column in exclude else table[column].combine_chunks()
        wanted = "ignore" if column in exclude else overrides.get(column)
        if wanted is None and (column in indexes or _is_running_number(column, array)):
            wanted = INDEX
        is_whose = column == whose and wanted is not None
        with withholding() if column in sensitive else nullcontext():
            own = replace(settings, sensitive=column in sensitive, customers=None if is_whose else settings.customers)
            # Of text alone: nothing else has words, and vectors may be gigabytes.
            is_read = everywhere is not None and wanted != "ignore" and is_text(value_type(array.type))
            others = everywhere[column].combine_chunks() if everywhere is not None and is_read else None
            whole = everywhere[column].combine_chunks() if everywhere is not None and wanted != "ignore" else array
            own = replace(own, missing_values=words_for(column, whole, asked.missing_values))
            if column not in exclude:
                absent -= {each for each in absent if _is_in(each, column, whole)}
            finding = find(column, array, wanted, own, everywhere=others)
            if wanted is None:
                finding = without_running(column, array, finding, clock)
        if is_whose and finding.features:
            finding = replace(finding, reason=f"{finding.reason}; the schema then holds the ids of customers")
        if column in exclude:
            finding = Finding(None, "excluded: not context", finding.distinct)
        taken = {*table.column_names, *(feature.name for feature in features)} - {column}
        if column in sensitive:
            private = tuple(each.model_copy(update={"sensitive": True}) for each in finding.features)
            finding = replace(finding, features=private)
        features += [_renamed(feature, taken) for feature in finding.features]
        num_missing = count_missing(array) + finding.num_marked
        notes.append(
            ColumnNote(
                column,
                finding.kind,
                finding.reason,
                finding.distinct,
                num_missing,
                warning=finding.warning,
                remark=finding.remark,
            )
        )
    not_met = tuple(each for each in dict.fromkeys(asked.missing_values) if each in absent)
    return InferredSchema(ContextSchema(features=tuple(features)), tuple(notes), not_met)


def check_named_columns(missing_values: Sequence[str], columns: Collection[str]) -> None:
    """Raise UnknownNameError for a value that stands for a missing one in a column that a table lacks.

    Args:
        missing_values: "age=999" of a column, "n/a" of each that has it.
        columns: of the table.

    Example:
        >>> check_named_columns(["age=999", "n/a"], ["age", "sex"])
    """
    for each in missing_values:
        column, sign, _ = each.rpartition("=")
        if sign and column not in columns:
            raise UnknownNameError(
                Message("{missing_values} names no column of the table", missing_values=(each,)),
                allowed=did_you_mean(column, list(columns)),
            )


def words_for(column: str, array: pa.Array, missing_values: Sequence[str]) -> tuple[str, ...]:
    """Return the values of one column that stand for a missing one.

    Args:
        column: its name.
        array: all of its rows.
        missing_values: "age=999" of a column, "n/a" of each that has it.

    Example:
        >>> words_for("age", pa.array([34, 999]), ["age=-1", "pay=0", "999", "n/a"])
        ('-1', '999')
    """
    named = [value.rpartition("=") for value in missing_values]
    own = [value for name, sign, value in named if sign and name == column]
    shared = [value for _, sign, value in named if not sign]
    num_missing = count_missing(array) if shared else 0
    return (*own, *(each for each in shared if count_missing(unmarked(array, [each])) > num_missing))


def _is_in(missing_value: str, column: str, array: pa.Array) -> bool:
    """Return True if a cell of a column has the value that stands for a missing one."""
    name, sign, value = missing_value.rpartition("=")
    return (not sign or name == column) and count_missing(unmarked(array, [value])) > count_missing(array)


def _pandas_indexes(table: pa.Table) -> set[str]:
    """The columns that were the index of a pandas table, as its metadata say; or as it names them without."""
    indexes = {name for name in table.column_names if _UNNAMED_INDEX.fullmatch(name)}
    try:
        told = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, TypeError, LookupError, RecursionError):  # of no table of pandas
        return indexes
    return indexes | {name for name in told if isinstance(name, str)}


def _is_running_number(column: str, array: pa.Array | pa.ChunkedArray) -> bool:
    """Return True for whole numbers under the name that pandas gives to a nameless column, as an index in CSV."""
    return bool(_UNNAMED_COLUMN.fullmatch(column)) and pa.types.is_integer(array.type)


def numbers_of_customers(customers: Customers, table: pa.Table) -> NDArray[np.int64] | None:
    """Return the number of each row's customer, None where nobody is named; rows without one share a number."""
    if customers is None:
        return None
    given: Any = table[customers] if isinstance(customers, str) else customers
    column = given if isinstance(given, (pa.Array, pa.ChunkedArray)) else pa.array(given, from_pandas=True)
    if len(column) != table.num_rows:
        raise ConfigurationError(
            f"customers has {len(column)} values for a table of {table.num_rows} rows",
            fix="Give one a row, or the name of a column.",
        )
    name = customers if isinstance(customers, str) else "customers"
    encoded = canonical_array(column, column=name).dictionary_encode()
    return pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy().astype(np.int64)


def _renamed(feature: Feature, taken: set[str]) -> Feature:
    name = feature.name
    while name in taken:
        name += "_"
    return feature if name == feature.name else feature.model_copy(update={"name": name, "source": feature.column})
