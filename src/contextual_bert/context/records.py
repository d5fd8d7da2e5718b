"""Records (mappings of raw values, as a request or a notebook gives them) -> one column a feature.

Checked value by value, so that a wrong one is named with its row; the columns then go the way of tables, which is why a
record and a row of a table get the same ids. It deliberately does not know ids. Not in the paper.
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from contextual_bert.arrow_types import checked_text
from contextual_bert.context.dates import date_part_of
from contextual_bert.context.features import Categorical, Feature, MultiCategorical, Numerical, Vector
from contextual_bert.context.marks import is_word
from contextual_bert.context.printed_lists import read_list
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.vocabulary import canonical
from contextual_bert.errors import DataError, UnknownNameError, did_you_mean

_Single = (str, bool, int, float, Decimal, datetime.date, np.generic)
_MISSING_FIX = "Leave the key out, or give null, if the value is missing."


def record_columns(schema: ContextSchema, records: Sequence[Mapping[str, object]]) -> dict[str, pa.Array]:
    """One array a feature, already reduced to the part of the date that the feature wants.

    A feature is given under its own name or under the column it reads; its own name wins.
    """
    known = {*schema.names, *schema.columns}
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DataError(
                f"{record!r:.80} is not a mapping of feature names to values", row=row, fix='Give {"name": value}.'
            )
        for key in record:
            if key not in known:
                raise UnknownNameError(
                    f"row {row}: the context has no feature {key!r:.80}. {did_you_mean(str(key), known)}"
                )
    return {feature.name: _column(feature, records) for feature in schema.features}


def _column(feature: Feature, records: Sequence[Mapping[str, object]]) -> pa.Array:
    values: list[object] = []
    for row, record in enumerate(records):
        key = feature.name if record.get(feature.name) is not None else feature.column
        value = plain(record.get(key))
        if value is None or (isinstance(feature, (Categorical, Numerical)) and is_word(value, feature.missing)):
            values.append(None)
            continue
        try:
            # A feature of the same name as its column is the date itself, as it is in a table.
            if isinstance(feature, (Categorical, Numerical)) and feature.part and key == feature.column:
                value = date_part_of(value, feature.part)
            values.append(_checked(feature, value))
        except DataError as error:
            raise DataError(error.problem, row=row, column=key, fix=error.fix or _MISSING_FIX) from None
    if isinstance(feature, Numerical):
        return pa.array(values, pa.float64())
    if isinstance(feature, Categorical):
        return pa.array(values, pa.string())
    return pa.array(values, pa.list_(pa.string() if isinstance(feature, MultiCategorical) else pa.float32()))


def plain(value: object) -> object:
    """None where nothing is said: blank text, and the NaT of pandas and numpy, whose times become Python's."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str) and not value.strip():
        return None
    return None if isinstance(value, datetime.date) and value != value else value  # NaT is unlike itself


def _checked(feature: Feature, value: object) -> object:
    if isinstance(feature, Categorical):
        return _category(value)
    if isinstance(feature, MultiCategorical):
        return _categories(value, feature.separator)
    return _number(value) if isinstance(feature, Numerical) else _vector(value, feature)


def _category(value: object) -> str:
    if not isinstance(value, _Single):
        raise DataError(
            f"{value!r:.80} is a {type(value).__name__}, not a single value",
            fix=f"Allowed: text, a finite number, a truth value or a date. {_MISSING_FIX}",
        )
    return checked_text(canonical(value))


def _categories(value: object, separator: str | None) -> list[str | None]:
    if isinstance(value, str) and (printed := read_list(value)) is not None:
        value = printed
    if isinstance(value, _Single) and separator is not None:
        return [part.strip() for part in _category(value).split(separator)]
    if isinstance(value, np.ndarray) and value.ndim:
        value = list(value)  # tolist() widens short floats and makes times numbers
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if not isinstance(value, (list, tuple)):
        raise DataError(
            f"{value!r:.80} is a {type(value).__name__}, not a list",
            fix='Give a list of values such as ["a", "b"]; [] says that it is known to be empty.',
        )
    return [None if element is None else _category(element) for element in map(plain, value)]


def _number(value: object) -> float:
    try:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (str, int, float, Decimal, np.generic)):
            raise TypeError
        number = float(str(value) if isinstance(value, np.floating) else value)  # 0.2 in 32 bits is 0.2
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"{value!r:.80} is a {type(value).__name__}, not a number",
            fix=f"Allowed: a finite number, or text that spells one. {_MISSING_FIX}",
        ) from None
    if not math.isfinite(number):
        raise DataError(f"{value!r} is not a finite number", fix=f"Allowed: a finite number. {_MISSING_FIX}")
    return number


def _vector(value: object, feature: Vector) -> np.ndarray:
    fix = f"Give {feature.size} finite numbers. {_MISSING_FIX}"
    if isinstance(value, str):
        value = printed if (printed := read_list(value)) is not None else value
    if isinstance(value, (str, bytes, Mapping)):
        raise DataError(f"{value!r:.80} is a {type(value).__name__}, not a vector", fix=fix)
    try:
        vector = np.asarray(value, np.float32)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{value!r:.80} is not a vector of numbers", fix=fix) from None
    if vector.shape != (feature.size,):
        raise DataError(f"the vector has shape {vector.shape}, not ({feature.size},)", fix=fix)
    if not np.isfinite(vector).all():
        raise DataError("the vector has a component that is missing or not finite", fix=fix)
    return vector
