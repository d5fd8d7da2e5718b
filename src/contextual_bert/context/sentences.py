"""The context in words, a sentence a column: "age: 35-39.", "brands: acme, hooli."; nothing where nothing is known.

The raw values are said, those too that a schema does not know: words need no vocabulary of values. It knows no
tokenizer. Paper: not there.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import without_views
from contextual_bert.context.dates import to_dates
from contextual_bert.context.encoding import record_columns
from contextual_bert.context.kinds.feature import Feature
from contextual_bert.context.marks import is_word, unmarked
from contextual_bert.context.raw_values import none_if_missing
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.vocabulary import canonical
from contextual_bert.errors import DataError

_DAY = 10  # characters of an ISO 8601 date


def table_sentences(schema: ContextSchema, table: pa.Table) -> dict[str, pa.Array]:
    """Column of the context -> a sentence a row, null where nothing is known.

    Args:
        schema: says which columns are the context; a column that several features read, as a date, is said once.
        table: the rows, which ``encode_table`` takes.

    Raises:
        ConfigurationError: a vector, which has no words.

    Example:
        >>> from contextual_bert.context import Categorical
        >>> schema = ContextSchema(features=(Categorical(name="age_group", values=("18-24",)),))
        >>> table_sentences(schema, pa.table({"age_group": ["35-39", None]}))["age_group"].to_pylist()
        ['age group: 35-39.', None]
    """
    table = without_views(table)
    first = {name: readers[0] for name, readers in _readers(schema).items()}
    columns = {
        name: unmarked(table.column(name).combine_chunks(), feature.missing_words) for name, feature in first.items()
    }
    days = {
        name: to_dates(columns[name], date_format=feature.date.date_format, column=name)
        for name, feature in first.items()
        if feature.date is not None
    }
    return {name: _said(first[name], array) for name, array in {**columns, **days}.items()}


def record_sentences(schema: ContextSchema, records: Sequence[Mapping[str, object]]) -> dict[str, pa.Array]:
    """As ``table_sentences``, of records as a query gives them.

    Raises:
        ConfigurationError: a vector, which has no words.
        DataError, UnknownNameError: a record that does not fit the schema; a part of a date without the date.

    Example:
        >>> from contextual_bert.context import Categorical
        >>> schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
        >>> record_sentences(schema, [{"sex": "x"}, {}])["sex"].to_pylist()
        ['sex: x.', None]
    """
    arrays, said = record_columns(schema, records), dict[str, pa.Array]()
    for name, readers in _readers(schema).items():
        if readers[0].date is not None:
            said[name] = _said(readers[0], _days(name, readers, records))
        else:  # a value may be given by the name of any of them
            said[name] = pc.coalesce(*(_said(each, arrays[each.name]) for each in readers))
    return said


def _readers(schema: ContextSchema) -> dict[str, list[Feature]]:
    """Column -> the features that read it, of ``read_features``."""
    readers: dict[str, list[Feature]] = {}
    for feature in schema.read_features:
        readers.setdefault(feature.column, []).append(feature)
    return readers


def _days(column: str, readers: Sequence[Feature], records: Sequence[Mapping[str, object]]) -> pa.Array:
    """The dates of records, whose own checks have passed."""
    parts, words = [each.name for each in readers], readers[0].missing_words
    days: list[str | None] = []
    for row, record in enumerate(records):
        value = none_if_missing(record.get(column))
        value = None if is_word(value, words) else value
        lone = [name for name in parts if name != column and none_if_missing(record.get(name)) is not None]
        if value is None and lone:
            raise DataError("is a part of a date, which is said whole", row=row, column=lone[0], fix=f"Give {column}.")
        days.append(None if value is None else canonical(value)[:_DAY])
    return pa.array(days, pa.string())


def _said(feature: Feature, array: pa.Array) -> pa.Array:
    """Return a sentence a row, null where nothing is known and of a silenced feature."""
    if feature.silenced:
        return pa.nulls(len(array), pa.string())
    values = feature.say(array)
    is_blank = pc.equal(pc.utf8_trim_whitespace(values), "")
    values = pc.if_else(is_blank, pa.scalar(None, pa.string()), values)
    subject = feature.column.replace("_", " ")
    return pc.binary_join_element_wise(pa.scalar(f"{subject}: "), values, pa.scalar("."), "")
