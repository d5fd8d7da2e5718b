"""A table -> a context schema: which columns become features, of which kind, and why others were left out.

Every column gets a note, so that nothing is dropped in silence. It deliberately does not know items or splits: the
caller excludes those columns and gives the rows to learn from. A value or a bin needs enough customers, so that no
single customer's values leave with a model (docs/guides/privacy.md). Not in the paper, whose features are given.
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
from contextual_bert.context.column_inference import INDEX, find
from contextual_bert.context.kinds import Feature, Finding, InferenceSettings
from contextual_bert.context.kinds.feature import count_missing
from contextual_bert.context.limits import MAX_BUCKETS, MAX_CATEGORIES, MIN_CUSTOMERS
from contextual_bert.context.marks import unmarked
from contextual_bert.context.running import clock_of, without_running
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.context.withheld import withholding
from contextual_bert.context.written_numbers import DecimalMark
from contextual_bert.errors import ConfigurationError, Message, TablePlace, UnknownNameError, did_you_mean
from contextual_bert.frames import Frame, as_table

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
_UNNAMED_COLUMN = re.compile(r"Unnamed: \d+(\.\d+)*")

NUM_BINS = 16  # the most bins of a number
Customers = str | Sequence[object] | pa.Array | pa.ChunkedArray | None


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

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"sex": ["f", "m"] * 20, "planet": ["earth"] * 40})
        >>> for note in infer_schema(table).notes: print(note.column, note.kind, note.reason)
        sex categorical 2 values
        planet None constant: every row says the same
    """

    schema: ContextSchema
    notes: tuple[ColumnNote, ...]

    def warnings(self) -> list[str]:
        """Return warnings for the person who trains: values of single rows are named."""
        return [f"warning: column {note.column!r}: {note.warning}" for note in self.notes if note.warning]

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
    astray = [name for name in overrides if name in exclude and overrides[name] != "ignore"]
    if astray:
        raise ConfigurationError(
            f"the column {astray[0]!r} is excluded, and an override makes it a feature",
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
    )
    indexes = _pandas_indexes(table)
    candidates = [name for name in table.column_names if name not in exclude]
    clock = clock_of(table, split_by=asked.time, candidates=candidates, date_formats=asked.date_formats)
    features: list[Feature] = []
    notes: list[ColumnNote] = []
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
    return InferredSchema(ContextSchema(features=tuple(features)), tuple(notes))


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
