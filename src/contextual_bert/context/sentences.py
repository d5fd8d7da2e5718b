"""The context in words, a sentence a column: "age: 35-39.", "brands: acme, hooli."; nothing where nothing is known.

The raw values are said, those too that a schema does not know: words need no vocabulary of values. It knows no
tokenizer. Paper: not there.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import without_views
from contextual_bert.context.columns import flatten_lists, to_numbers
from contextual_bert.context.dates import to_dates
from contextual_bert.context.features import Categorical, Feature, MultiCategorical, Numerical, Vector
from contextual_bert.context.marks import is_word, unmarked
from contextual_bert.context.records import plain, record_columns
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.vocabulary import canonical, canonical_array
from contextual_bert.errors import ConfigurationError, DataError

_DAY = 10  # characters of an ISO 8601 date


def table_sentences(schema: ContextSchema, table: pa.Table) -> dict[str, pa.Array]:
    """Column of the context -> a sentence a row, null where nothing is known.

    Args:
        schema: says which columns are the context; a column that several features read, as a date, is said once.
        table: the rows, which ``encode_table`` takes.

    Raises:
        ConfigurationError: a vector, which has no words.

    Example:
        >>> schema = ContextSchema(features=(Categorical(name="age_group", values=("18-24",)),))
        >>> table_sentences(schema, pa.table({"age_group": ["35-39", None]}))["age_group"].to_pylist()
        ['age group: 35-39.', None]
    """
    table = without_views(table)
    first = {name: readers[0] for name, readers in _readers(schema).items()}
    columns = {name: unmarked(table.column(name).combine_chunks(), _words(first[name])) for name in schema.columns}
    days = {
        name: to_dates(columns[name], date_format=getattr(feature, "date_format", None), column=name)
        for name, feature in first.items()
        if _reads_date(feature)
    }
    return {name: _said(first[name], array) for name, array in {**columns, **days}.items()}


def record_sentences(schema: ContextSchema, records: Sequence[Mapping[str, object]]) -> dict[str, pa.Array]:
    """As ``table_sentences``, of records as a query gives them.

    Raises:
        ConfigurationError: a vector, which has no words.
        DataError, UnknownNameError: a record that does not fit the schema; a part of a date without the date.

    Example:
        >>> schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
        >>> record_sentences(schema, [{"sex": "x"}, {}])["sex"].to_pylist()
        ['sex: x.', None]
    """
    arrays, said = record_columns(schema, records), dict[str, pa.Array]()
    for name, readers in _readers(schema).items():
        if _reads_date(readers[0]):
            said[name] = _said(readers[0], _days(name, readers, records))
        else:  # a value may be given by the name of any of them
            said[name] = pc.coalesce(*(_said(each, arrays[each.name]) for each in readers))
    return said


def _readers(schema: ContextSchema) -> dict[str, list[Feature]]:
    """Column -> the features that read it."""
    return {name: [each for each in schema.features if each.column == name] for name in schema.columns}


def _reads_date(feature: Feature) -> bool:
    return isinstance(feature, (Categorical, Numerical)) and feature.part is not None


def _words(feature: Feature) -> Sequence[str]:
    """The texts that a feature takes for missing."""
    return (feature.missing or ()) if isinstance(feature, (Categorical, Numerical)) else ()


def _days(column: str, readers: Sequence[Feature], records: Sequence[Mapping[str, object]]) -> pa.Array:
    """The dates of records, whose own checks have passed."""
    parts, words = [each.name for each in readers], _words(readers[0])
    days: list[str | None] = []
    for row, record in enumerate(records):
        value = plain(record.get(column))
        value = None if is_word(value, words) else value
        lone = [name for name in parts if name != column and plain(record.get(name)) is not None]
        if value is None and lone:
            raise DataError("is a part of a date, which is said whole", row=row, column=lone[0], fix=f"Give {column}.")
        days.append(None if value is None else canonical(value)[:_DAY])
    return pa.array(days, pa.string())


def _said(feature: Feature, array: pa.Array) -> pa.Array:
    """A sentence a row, null where nothing is known."""
    column = feature.column
    if isinstance(feature, Vector):
        raise ConfigurationError(
            f"{column!r} is a vector, which cannot be said in words. Leave the column out with exclude (--exclude)."
        )
    if isinstance(feature, MultiCategorical):
        elements, lengths = flatten_lists(array, separator=feature.separator, column=column)
        names = canonical_array(elements, column=column)
        names = pc.if_else(pc.equal(pc.utf8_trim_whitespace(names), ""), pa.scalar(None, pa.string()), names)
        rows = np.repeat(np.arange(len(array)), lengths)[names.is_valid().to_numpy(zero_copy_only=False)]
        ends = np.bincount(rows, minlength=len(array)).cumsum()
        lists = pa.LargeListArray.from_arrays(pa.array([0, *ends], pa.int64()), names.drop_null())
        values = pc.binary_join(lists, ", ")
    elif isinstance(feature, Numerical) and not _reads_date(feature):
        values = canonical_array(pa.array(to_numbers(array, column=column), from_pandas=True), column=column)
    else:
        values = canonical_array(array, column=column)
    is_blank = pc.equal(pc.utf8_trim_whitespace(values), "")
    values = pc.if_else(is_blank, pa.scalar(None, pa.string()), values)
    return pc.binary_join_element_wise(pa.scalar(f"{column.replace('_', ' ')}: "), values, pa.scalar("."), "")
