"""A table that is written in another way than the table of its run: the context as reading settings say.

The features of a run keep how their values were written. A command that is told otherwise turns the values into
numbers, days and missing cells first, and the features take these as they are.
"""

from collections.abc import Collection, Sequence

import pyarrow as pa

from contextual_bert.arrow_types import decoded, is_text, value_type
from contextual_bert.context import ContextSchema
from contextual_bert.context.infer import words_for
from contextual_bert.data import ReadSettings
from contextual_bert.data.column_types import as_typed, typed_column
from contextual_bert.inference.catalogue_columns import as_dates, without_values

SPELT = "\x1fspelt "  # before the name of a column that stands beside the same one reread


def with_spelt(table: pa.Table, before: pa.Table, names: Collection[str]) -> pa.Table:
    """Return a reread table with the columns as they were before, under names of their own, where they changed.

    Args:
        table: reread.
        before: the same rows as they were read.
        names: of the columns that are wanted as they are spelt.

    Example:
        >>> read, before = pa.table({"paid": [70.46], "age": [34]}), pa.table({"paid": ["70,46"], "age": [34]})
        >>> spelt_columns(with_spelt(read, before, ["paid", "age"]), ["paid", "age"]).to_pylist()
        [{'paid': '70,46', 'age': 34}]
    """
    for name in names:
        if name in before.column_names and table.column(name) is not before.column(name):
            is_same = table.field(name).equals(before.field(name)) and table.column(name).equals(before.column(name))
            field = before.field(name).with_name(SPELT + name)
            table = table if is_same else table.append_column(field, before.column(name))
    return table


def spelt_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return columns of a table as they were spelt in the file, where ``with_spelt`` kept that, under their names."""
    places = [SPELT + name if SPELT + name in table.column_names else name for name in names]
    return table.select(places).rename_columns(list(names))


def reread_context(table: pa.Table, schema: ContextSchema | None, reading: ReadSettings) -> pa.Table:
    """Return a table with the values of the context as reading settings say: numbers, days, and null for missing ones.

    What a feature reads so already stays as it is. So does a column that cannot be read so, and its feature says which
    cell it refuses.

    Args:
        table: as it was read.
        schema: the features of the run.
        reading: the decimal mark, the formats of dates and the values that stand for a missing one.

    Example:
        >>> from contextual_bert.context import Numerical
        >>> schema = ContextSchema(features=(Numerical(name="paid", edges=(50.0,)),))
        >>> table = pa.table({"paid": ["70,46", "-", "1.200,00"]})
        >>> reading = ReadSettings(decimal=",", missing_values=("paid=-",))
        >>> reread_context(table, schema, reading).column("paid").to_pylist()
        [70.46, None, 1200.0]
    """
    features = {feature.column: feature for feature in (schema.features if schema is not None else ())}
    for name in [name for name in table.column_names if name in features]:
        feature, place = features[name], table.column_names.index(name)
        column, field = table.column(place), table.schema.field(place)
        words = words_for(name, column.combine_chunks(), reading.missing_values)
        words = tuple(word for word in words if word not in feature.missing_words)
        found = without_values(column, words)
        if not is_text(value_type(found.type)):
            pass
        elif feature.date is not None:
            is_new = reading.date_formats and feature.date.date_format not in reading.date_formats
            found = as_dates(decoded(found), reading) if is_new else found
        elif feature.cells == "numbers" and feature.decimal_mark != reading.decimal:
            typed = as_typed(found, field)
            found = typed if typed is not found else typed_column(decoded(found), decimal=reading.decimal)
        if found is not column:
            kept = field if found.type == field.type else pa.field(name, found.type)
            table = table.set_column(place, kept, without_values(found, words))
    return table
