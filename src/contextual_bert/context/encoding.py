"""Tables and records -> the tensors that a batch is made of.

A record, a mapping of raw values as a request or a notebook gives it, is checked value by value, so that a wrong one
is named with its row. Its columns then go the way of tables, so a record and a row of a table get the same ids.
Missing, unknown and (for lists) empty are states of their own, never 0 or the mean. The tensors are named like the
features, and `ContextEncoder` reads them by those names. No model is known here. Paper: section 4.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert import context
from contextual_bert.arrow_types import without_views
from contextual_bert.context.dates import date_part, date_part_of, to_dates
from contextual_bert.context.interactions import ITEM, MISSING_ITEM, UNKNOWN_ITEM
from contextual_bert.context.kinds import EncodedColumn, Feature
from contextual_bert.context.kinds.feature import MISSING, MULTI_MISSING
from contextual_bert.context.marks import ANY_WORD, is_word, unmarked
from contextual_bert.context.ranges import Outside
from contextual_bert.context.raw_values import MISSING_FIX, none_if_missing
from contextual_bert.context.schema import ContextSchema
from contextual_bert.context.withheld import withholding
from contextual_bert.errors import DataError, SchemaError, UnknownNameError, did_you_mean
from contextual_bert.frames import Frame, as_table
from contextual_bert.nouns import agreeing, counted
from contextual_bert.places import TablePlace

if TYPE_CHECKING:
    from torch import Tensor

FEWEST_ROWS = 10  # of a part, from which on a state counts as learned


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows of an encoded feature are missing; its shape says the kind, see `EncodedContext`.

    Shapes: (rows,), (rows, width), (rows, size + 1) or (rows, width, 4) -> (rows,) bool.

    Example:
        >>> is_missing(np.array([3, 0])).tolist(), is_missing(np.array([[4, 5], [1, 0], [3, 0]])).tolist()
        ([False, True], [False, True, False])
    """
    if values.dtype.kind == "f":
        return values[..., -1] > 0
    if values.ndim > 2:  # a history
        return values[:, 0, ITEM] == MISSING_ITEM
    if values.ndim > 1:
        return np.all(values <= MULTI_MISSING, axis=-1)
    return values == MISSING


def missing_like(values: Any) -> Any:
    """Return an array, or a tensor, of that shape in which the feature is missing in every row.

    Example:
        >>> missing_like(np.array([3, 1])).tolist(), missing_like(np.array([[4, 5], [3, 0]])).tolist()
        ([0, 0], [[1, 0], [1, 0]])
    """
    missing = values * 0  # of ids the missing one, of lists padding
    if "float" in str(values.dtype):
        missing[..., :-1], missing[..., -1] = 0, 1  # of infinity 0 times is no number
    elif values.ndim > 2:  # a history
        missing[:, 0, ITEM] = MISSING_ITEM
    elif values.ndim > 1:
        missing[..., 0] = MULTI_MISSING
    return missing


def rarely_missing(context: Mapping[str, NDArray[Any]], *, fewest: int = FEWEST_ROWS) -> list[str]:
    """Return the features that fewer than ``fewest`` rows lack.

    Example:
        >>> rarely_missing({"sex": np.array([2] * 20), "age": np.array([0, 2] * 10)})
        ['sex']
    """
    return [name for name, values in context.items() if int(is_missing(values).sum()) < fewest]


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
        key = feature.name if none_if_missing(record.get(feature.name)) is not None else feature.column
        value = none_if_missing(record.get(key))
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


@dataclass(frozen=True)
class EncodedContext:
    """The encoded context of some rows.

    Shapes: categorical and numerical features (rows,) int64; multi-categorical ones (rows, width) int64, padded with 0;
    vectors (rows, size + 1) float32, whose last component is 1 where the vector is missing; histories (rows, width, 4)
    int64, see ``interactions``.

    Args:
        arrays: one array a feature that is read; silenced ones have none. ``tensors`` shares their memory.
        num_rows: number of rows.
        unknown: feature -> raw value that the schema does not know -> how often it occurred.
        shared: feature -> raw value that has the vector of a bucket, which rare values share -> how often it occurred.
        outside: feature -> the rows whose number is far from those of training, and was clipped.
        unread: silenced feature -> the rows whose value is given and not read.

    Relation to its siblings: what `encode_table` and `encode_records` return, and a data set holds.

    Example:
        >>> from contextual_bert.context import Categorical
        >>> schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
        >>> encoded = encode_records(schema, [{"sex": "m"}, {}, {"sex": "x"}])
        >>> encoded.tensors["sex"].tolist(), encoded.unknown
        ([3, 0, 1], {'sex': {'x': 1}})
    """

    arrays: Mapping[str, NDArray[Any]]
    num_rows: int
    unknown: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    shared: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    outside: dict[str, Outside] = field(default_factory=dict[str, Outside])
    unread: dict[str, NDArray[np.bool_]] = field(default_factory=dict[str, NDArray[np.bool_]])

    @cached_property
    def tensors(self) -> "dict[str, Tensor]":
        """One tensor a feature. torch is imported here, so that a table is inspected without."""
        return context.as_tensors(self.arrays)

    def arrays_of(self, index: slice) -> dict[str, NDArray[Any]]:
        """Return the arrays of the chosen rows."""
        return {name: array[index] for name, array in self.arrays.items()}

    def rows(self, index: "Tensor | np.ndarray | slice") -> "dict[str, Tensor]":
        """Return the tensors of the chosen rows, by number, mask or slice."""
        return {name: tensor[index] for name, tensor in self.tensors.items()}

    def has_unknown(self, schema: ContextSchema) -> list[bool]:
        """Return for each row whether one of its values is unknown to the schema, which made it."""
        found = np.zeros(self.num_rows, np.bool_)
        for name in self.unknown:
            ids, unknown_id = self.arrays[name], schema.feature(name).layout.unknown_id
            if ids.ndim > 2:  # a history
                ids, unknown_id = ids[..., ITEM], UNKNOWN_ITEM
            found |= (ids.reshape(self.num_rows, -1) == unknown_id).any(axis=1)
        return found.tolist()


def encode_table(schema: ContextSchema, table: Frame, *, file: str | None = None) -> EncodedContext:
    """Encode whole columns of a table; columns that the schema does not read are left alone.

    Args:
        schema: what the context consists of.
        table: raw values, as ``frames.as_table`` takes them.
        file: where the table comes from, for messages.

    Null, NaN in a column of floats, blank text, and "NA" and its like where a number or date is wanted are missing;
    infinity is an error that names row and column. A number far from all that training saw is clipped, and stands in
    ``outside``. The column of a silenced feature may be absent.
    """
    table = as_table(table)
    check_context_columns(schema, table, file=file)
    columns = _columns(schema.features, table, file=file)
    encoded = {feature.name: feature.encode(array, file=file) for feature, array in columns}
    return _context(schema, encoded, table.num_rows)


def check_context_columns(
    schema: ContextSchema, table: pa.Table, *, file: str | None = None, run: str | None = None
) -> None:
    """Raise SchemaError where a table lacks a column that the schema reads.

    Args:
        schema: what the context consists of.
        table: raw values.
        file: where the table comes from, for messages.
        run: that brings the schema, for messages; None: it can be inferred anew.
    """
    absent = [column for column in schema.read_columns if column not in table.column_names]
    if not absent:
        return
    place = f"{file}: " if file else ""
    names = ", ".join(repr(column) for column in absent)
    what = f"the context column{'s' if absent[1:] else ''} {names}"
    raise SchemaError(
        f"{place}the table lacks {what}, which {run or 'the schema'} reads",
        place=TablePlace(lacking=tuple(absent)),
        allowed=did_you_mean(absent[0], table.column_names),
        fix="Rename the column, or infer the schema anew."
        if run is None
        else "Rename the column. Or add it empty: its values are then missing.",
    )


def find_outside(schema: ContextSchema, table: pa.Table) -> dict[str, Outside]:
    """Find the numbers of a table that are far from those of training, without encoding it.

    Args:
        schema: what the context consists of.
        table: rows that ``encode_table`` takes.

    Returns:
        Feature -> its rows, as in ``EncodedContext``.

    Example:
        >>> from contextual_bert.context import Numerical
        >>> schema = ContextSchema(features=(Numerical(name="age", edges=(25, 45)),))
        >>> find_outside(schema, pa.table({"age": [30, 9999]}))["age"].rows.tolist()
        [1]
    """
    features = [
        each
        for each in schema.features
        if each.cells == "numbers" and not each.sensitive and not each.silenced and each.column in table.column_names
    ]
    found = ((feature.name, feature.find_outside(array)) for feature, array in _columns(features, table))
    return {name: outside for name, outside in found if outside is not None}


def encode_records(schema: ContextSchema, records: Sequence[Mapping[str, object]]) -> EncodedContext:
    """Encode records of raw values, giving the ids that the same values in a table get.

    Args:
        schema: what the context consists of.
        records: one mapping a row. An absent key, None and blank text are missing; a key that is neither a feature
            nor a column of the schema is an error. A part of a date is given by its column ("date") or its own name
            ("date_month"). A person writes records, so NaN is an error here; NaT, a date that is none, is missing.
    """
    columns = record_columns(schema, records)
    encoded = {feature.name: feature.encode(columns[feature.name]) for feature in schema.features}
    return _context(schema, encoded, len(records))


def unknown_values(schema: ContextSchema, record: Mapping[str, object]) -> dict[str, list[str]]:
    """The values of one record that the schema does not know, by feature: what an answer reports back.

    Example:
        >>> from contextual_bert.context import Categorical
        >>> schema = ContextSchema(features=(Categorical(name="sex", values=("f", "m")),))
        >>> unknown_values(schema, {"sex": "x"})
        {'sex': ['x']}
    """
    return {name: list(values) for name, values in encode_records(schema, [record]).unknown.items()}


def unknown_in_words(
    unknown: Mapping[str, Mapping[str, int]],
    *,
    shared: Mapping[str, Mapping[str, int]] | None = None,
    has_taught: bool = False,
) -> list[str]:
    """A line a feature that has unknown or shared values, for people.

    Args:
        unknown: as ``EncodedContext`` has them.
        shared: likewise.
        has_taught: whether the schema is of these rows, which then have values that are too rare for it.

    Example:
        >>> unknown_in_words({"sex": {"x": 2}}, shared={"user": {"u7": 1}})[1]
        "context 'user': 1 row has values that share a vector: rare in training, or new"
    """
    what = "values too rare to be kept" if has_taught else "values never seen in training, or too rarely"
    why = "rare" if has_taught else "rare in training, or new"
    told = [(name, values, what) for name, values in unknown.items()]
    told += [(name, values, f"values that share a vector: {why}") for name, values in (shared or {}).items()]
    sums = [(name, sum(values.values()), text) for name, values, text in told]
    return [
        f"context {name!r}: {counted(number, 'row')} {agreeing('have', number)} {text}" for name, number, text in sums
    ]


def _columns(
    features: Sequence[Feature], table: pa.Table, *, file: str | None = None
) -> Iterator[tuple[Feature, pa.Array]]:
    """Each feature with its column, already reduced to the part of the date that it wants."""
    table = without_views(table)
    dates: dict[str, pa.Array] = {}
    for feature in features:
        column = feature.column
        is_absent = feature.silenced and column not in table.column_names
        array = pa.nulls(table.num_rows) if is_absent else table[column].combine_chunks()
        array = unmarked(array, feature.missing_words)
        if feature.date is not None:
            if column not in dates:  # features of one column read one format
                with withholding() if feature.sensitive else nullcontext():
                    dates[column] = to_dates(array, date_format=feature.date.date_format, file=file, column=column)
            array = date_part(dates[column], feature.date.part)
        yield feature, array


def _context(schema: ContextSchema, encoded: Mapping[str, EncodedColumn], num_rows: int) -> EncodedContext:
    return EncodedContext(
        arrays={feature.name: encoded[feature.name].values for feature in schema.read_features},
        num_rows=num_rows,
        unknown={name: column.unknown for name, column in encoded.items() if column.unknown},
        shared={name: column.shared for name, column in encoded.items() if column.shared},
        outside={name: column.outside for name, column in encoded.items() if column.outside is not None},
        unread={name: column.unread for name, column in encoded.items() if column.unread is not None},
    )
