"""Records (mappings of raw values, as a request or a notebook gives them) -> one column a feature.

Checked value by value, so that a wrong one is named with its row; the columns then go the way of tables, which is why a
record and a row of a table get the same ids. It deliberately does not know ids. Not in the paper.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, cast

import pyarrow as pa

from contextual_bert.context.dates import date_part_of
from contextual_bert.context.kinds.feature import Feature
from contextual_bert.context.marks import ANY_WORD, is_word
from contextual_bert.context.raw_values import MISSING_FIX, plain
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.withheld import withholding
from contextual_bert.errors import DataError, TablePlace, UnknownNameError, did_you_mean


def record_columns(schema: ContextSchema, records: Sequence[Mapping[str, object]]) -> dict[str, pa.Array]:
    """One array a feature, already reduced to the part of the date that the feature wants.

    A feature is given under its own name or under the column it reads; its own name wins.
    """
    known = {*schema.names, *schema.columns}
    rows: list[Mapping[str, object]] = []
    for row, given in enumerate(records):
        record = as_record(given)
        if record is None:
            raise DataError(
                f"{' '.join(repr(given).split()):.80} is not a mapping of feature names to values",
                row=row,
                fix='Give {"name": value}.',
            )
        rows.append(record)
        for key in record:
            if key not in known:
                raise UnknownNameError(
                    f"the context has no feature {key!r:.80}",
                    place=TablePlace(row=row, column=str(key)),
                    allowed=did_you_mean(str(key), known),
                )
    return {feature.name: _column(feature, rows) for feature in schema.features}


def _column(feature: Feature, records: Sequence[Mapping[str, object]]) -> pa.Array:
    values: list[object] = []
    for row, record in enumerate(records):
        key = feature.name if plain(record.get(feature.name)) is not None else feature.column
        value = plain(record.get(key))
        if value is None or is_word(value, _words(feature, key=key)):
            values.append(None)
            continue
        try:
            with withholding() if feature.sensitive else nullcontext():
                values.append(_read(feature, value, key=key))
        except DataError as error:
            raise error.moved(row=row, column=key).advised(MISSING_FIX) from None
    return pa.array(values, feature.record_type)


def _words(feature: Feature, *, key: str) -> Sequence[str]:
    """Return the texts that stand for a missing value; a part of a date, such as "Monday", may be any word."""
    is_part = feature.date is not None and key != feature.column
    return [word for word in feature.missing_words if not (is_part and word == ANY_WORD)]


def _read(feature: Feature, value: object, *, key: str) -> object:
    """Return one value as its feature takes it."""
    # A feature of the same name as its column is the date itself, as it is in a table.
    if feature.date is not None and key == feature.column:
        value = date_part_of(value, feature.date.part, date_format=feature.date.date_format)
    return feature.read_value(value)


def as_record(value: object) -> Mapping[str, object] | None:
    """Return a mapping of names to values, None where the value is no record.

    A row of a pandas frame (``frame.iloc[0]``, a Series) is a record of its columns.

    Example:
        >>> as_record({"age": 34}), as_record([34])
        ({'age': 34}, None)
    """
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)
    is_row = hasattr(value, "keys") and hasattr(value, "__getitem__") and getattr(value, "ndim", 1) == 1
    return dict(cast(Any, value)) if is_row else None
