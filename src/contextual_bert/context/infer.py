"""A table -> a context schema: which columns become features, of which kind, and why others were left out.

Every column gets a note, so that nothing is dropped in silence. It deliberately does not know items, customers or
splits: the caller excludes those columns and gives the rows to learn from. Not in the paper, whose features are given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from contextual_bert.arrow_types import without_views
from contextual_bert.context.features import Feature
from contextual_bert.context.findings import Finding, Settings, count_missing, find
from contextual_bert.context.schema import ContextSchema
from contextual_bert.errors import ConfigurationError, UnknownNameError, did_you_mean


@dataclass(frozen=True)
class ColumnNote:
    """What became of one column.

    Args:
        column: its name.
        kind: the kind of feature, "date" for one that gave parts of dates, None if it was left out.
        reason: why, for a person to read.
        distinct: number of distinct values (of the elements, for lists).
        missing: number of rows without a value.

    Example:
        >>> ColumnNote("sex", "categorical", "2 values", distinct=2, missing=0).kind
        'categorical'
    """

    column: str
    kind: str | None
    reason: str
    distinct: int
    missing: int


@dataclass(frozen=True)
class InferredSchema:
    """A schema and a note on each column of the table it was inferred from.

    Args:
        schema: the context schema.
        notes: one note a column, in the order of the table.

    Example:
        >>> table = pa.table({"sex": ["f", "m"] * 20, "planet": ["earth"] * 40})
        >>> for note in infer_schema(table).notes: print(note.column, note.kind, note.reason)
        sex categorical 2 values
        planet None constant: every row says the same
    """

    schema: ContextSchema
    notes: tuple[ColumnNote, ...]


def infer_schema(
    table: pa.Table,
    *,
    exclude: Sequence[str] = (),
    overrides: Mapping[str, str | Feature] | None = None,
    min_count: int = 10,
    max_categories: int = 1000,
    num_bins: int = 16,
) -> InferredSchema:
    """Find the features of a table.

    Text and truth values become categorical; whole and decimal numbers numerical, with a bin for each number if there
    are no more than `num_bins`, so that few numbers lose nothing by being binned; lists of text or whole numbers
    multi-categorical; lists of decimal numbers vectors; dates, also as ISO 8601 text, give year, month and weekday.
    Constant columns, and those whose every value differs as in an id, are left out.

    Args:
        table: the rows to learn from.
        exclude: columns that are no context: the items, the customer.
        overrides: column -> a kind, "ignore", or a feature, which then stands in the schema as given.
        min_count: a category that occurs less often counts as unknown, which is how unknown is learned.
        max_categories: a column of more categories is left out unless an override asks for it.
        num_bins: the most bins of a number.

    Raises:
        UnknownNameError: no such column.
        ConfigurationError: an override of a column that is excluded, or of no kind; a number below 1.
        SchemaError: a column that cannot be what its override asks for.
        DataError: a value that is none, with its row.
    """
    overrides, table = overrides or {}, without_views(table)
    for column in (*exclude, *overrides):
        if column not in table.column_names:
            raise UnknownNameError(f"the table has no column {column!r}. {did_you_mean(column, table.column_names)}")
    astray = [name for name in overrides if name in exclude and overrides[name] != "ignore"]
    if astray:
        raise ConfigurationError(
            f"the column {astray[0]!r} is excluded, and an override makes it a feature. Leave one of them out; the "
            "columns of items, texts, labels, customers and times are never features."
        )
    for name, number in (("min_count", min_count), ("max_categories", max_categories), ("num_bins", num_bins)):
        if number < 1:
            raise ConfigurationError(f"{name} is {number}. Allowed: 1 or more.")
    settings = Settings(min_count, max_categories, num_bins)
    features: list[Feature] = []
    notes: list[ColumnNote] = []
    for column in table.column_names:
        # What is excluded may be texts of gigabytes, which are no one array.
        array = table[column] if column in exclude else table[column].combine_chunks()
        wanted = "ignore" if column in exclude else overrides.get(column)
        finding = find(column, array, wanted, settings)
        if column in exclude:
            finding = Finding(None, "excluded: not context", finding.distinct)
        taken = {*table.column_names, *(feature.name for feature in features)} - {column}
        features += [_renamed(feature, taken) for feature in finding.features]
        num_missing = count_missing(array) + finding.num_marked
        notes.append(ColumnNote(column, finding.kind, finding.reason, finding.distinct, num_missing))
    return InferredSchema(ContextSchema(features=tuple(features)), tuple(notes))


def _renamed(feature: Feature, taken: set[str]) -> Feature:
    name = feature.name
    while name in taken:
        name += "_"
    return feature if name == feature.name else feature.model_copy(update={"name": name, "source": feature.column})
