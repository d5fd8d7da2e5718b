"""Records (mappings of raw values, as a request or a notebook gives them) -> one column a feature.

Checked value by value, so that a wrong one is named with its row; the columns then go the way of tables, which is why a
record and a row of a table get the same ids. It deliberately does not know ids. Not in the paper.
"""

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa

from contextual_bert.arrow_types import checked_text
from contextual_bert.context.columns import withholding
from contextual_bert.context.dates import date_part_of
from contextual_bert.context.features import Categorical, Feature, MultiCategorical, Numerical, Vector
from contextual_bert.context.marks import ANY_WORD, is_word
from contextual_bert.context.printed_lists import read_cell, read_list
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.spelling import BLANKS
from contextual_bert.context.vocabulary import canonical
from contextual_bert.errors import DataError, UnknownNameError, did_you_mean, shown

_NUMBER = re.compile(r"[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|inf(inity)?|nan)", re.IGNORECASE)
_DOUBLE_BYTES = 8
_Single = (str, bool, int, float, Decimal, datetime.date, np.generic)
_MISSING_FIX = "Leave the key out, or give null, if the value is missing."


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
                    f"row {row + 1}: the context has no feature {key!r:.80}. {did_you_mean(str(key), known)}"
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
            raise DataError(error.problem, row=row, column=key, fix=error.fix or _MISSING_FIX) from None
    if isinstance(feature, Numerical):
        return pa.array(values, pa.float64())
    if isinstance(feature, Categorical):
        return pa.array(values, pa.string())
    return pa.array(values, pa.list_(pa.string() if isinstance(feature, MultiCategorical) else pa.float64()))


def _words(feature: Feature, *, key: str) -> Sequence[str]:
    """The texts that stand for a missing value; a part of a date, such as "Monday", may be any word."""
    if not isinstance(feature, (Categorical, Numerical)) or feature.missing is None:
        return ()
    is_part = feature.part is not None and key != feature.column
    return [word for word in feature.missing if not (is_part and word == ANY_WORD)]


def _read(feature: Feature, value: object, *, key: str) -> object:
    """One value as its feature takes it."""
    # A feature of the same name as its column is the date itself, as it is in a table.
    if isinstance(feature, (Categorical, Numerical)) and feature.part and key == feature.column:
        value = date_part_of(value, feature.part, date_format=feature.date_format)
    return _checked(feature, value)


def plain(value: object) -> object:
    """Return the value, None where it is missing: blank text, NaN, and NaT and NA of pandas and numpy.

    Times of numpy become those of Python.
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, (float, Decimal, datetime.date, np.floating)):
        return None if value != value else value  # NaN and NaT are unlike themselves
    return None if type(value).__name__ == "NAType" else value  # pandas is not imported for its NA


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


def _checked(feature: Feature, value: object) -> object:
    if isinstance(feature, Categorical):
        return _category(feature, value)
    if isinstance(feature, MultiCategorical):
        return _categories(feature, value)
    return number_of(value) if isinstance(feature, Numerical) else _vector(value, feature)


def _category(feature: Categorical | MultiCategorical, value: object) -> str:
    if not isinstance(value, _Single):
        raise DataError(
            f"{value!r:.80} is a {type(value).__name__}, not a single value",
            fix=f"Allowed: text, a finite number, a truth value or a date. {_MISSING_FIX}",
        )
    name = checked_text(canonical(value))
    if feature.spelt_numbers == "once" and not isinstance(value, str):  # the column is text, and 10.5 its "10.50"
        index = int(feature.vocabulary.find(pa.array([name]))[0])
        return name if index < 0 else feature.vocabulary.value_of(index)
    return name


def _categories(feature: MultiCategorical, value: object) -> list[str | None]:
    separator = feature.separator
    if isinstance(value, str):
        printed = read_cell(value, is_known=separator is None)
        value = value if printed is None else printed
    if isinstance(value, _Single) and separator is not None:
        return [part.strip() for part in _category(feature, value).split(separator)]
    if isinstance(value, np.ndarray) and value.ndim:
        value = list(value)  # tolist() widens short floats and makes times numbers
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if not isinstance(value, (list, tuple)):
        raise DataError(
            f"{value!r:.80} is a {type(value).__name__}, not a list",
            fix='Give a list of values such as ["a", "b"]; [] says that it is known to be empty.',
        )
    return [None if element is None else _category(feature, element) for element in map(plain, value)]


def number_of(value: object) -> float:
    """Return a finite number as a float: a number of Python or numpy, or text that spells one.

    Raises:
        DataError: something else.

    Example:
        >>> number_of("80"), number_of(Decimal("9.90"))
        (80.0, 9.9)
    """
    try:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (str, int, float, Decimal, np.generic)):
            raise TypeError
        if isinstance(value, np.floating) and value.dtype.itemsize < _DOUBLE_BYTES:
            value = str(np.float32(value))  # 0.2 in 32 bits is 0.2, as in a column
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip(BLANKS)) is None:
            raise ValueError  # what Python reads and no table does: 1_0, digits of other scripts
        number = float(value)
    except OverflowError:
        raise DataError(
            f"{shown(value)} is too large for a number", fix=f"Allowed: up to about 1e308. {_MISSING_FIX}"
        ) from None
    except (TypeError, ValueError):
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
        vector = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{shown(value)} is not a vector of numbers", fix=fix) from None
    if vector.shape != (feature.size,):
        raise DataError(f"the vector has shape {vector.shape}, not ({feature.size},)", fix=fix)
    if not np.isfinite(vector).all():
        raise DataError("the vector has a component that is missing or not finite", fix=fix)
    return vector
