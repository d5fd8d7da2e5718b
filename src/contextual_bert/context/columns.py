"""One column of a table -> ids or numbers of one feature, whole columns at a time.

One function a kind of feature. It deliberately does not know the schema as a whole, records or torch: `encoding.py`
walks the schema, `records.py` turns records into columns first. Paper: section 4.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import decoded, is_list, is_single, is_text
from contextual_bert.context.buckets import buckets_of
from contextual_bert.context.codes import holds_text
from contextual_bert.context.features import (
    CATEGORICAL_UNKNOWN,
    MISSING,
    MULTI_EMPTY,
    MULTI_MISSING,
    MULTI_PADDING,
    MULTI_UNKNOWN,
    WITHHELD,
    Categorical,
    Feature,
    MultiCategorical,
    Numerical,
    Vector,
)
from contextual_bert.context.printed_lists import (
    as_lists,
    first_printed,
    holds_objects,
    object_error,
    printed_error,
    vectors_of,
)
from contextual_bert.context.ranges import Outside, clipped, given_vectors, outside_of
from contextual_bert.context.vocabulary import NULL, UNKNOWN, canonical_array, require_finite, to_doubles
from contextual_bert.errors import DataError, SchemaError

MISSING_MARKS = ("NaN", "nan", "NA", "N/A", "null", "NULL", "None")  # how tools write a missing number or date
_NUMBER_FIX = (
    "Allowed: a finite number; leave it empty if it is missing. A word that says so may stand under 'missing' of the "
    "feature in schema.json."
)


@dataclass(frozen=True)
class EncodedColumn:
    """The ids or numbers of one feature, and which of its values were unknown or far from those of training.

    Args:
        values: (rows,) int64; for multi-categorical features (rows, width) int64, padded with 0; for vectors
            (rows, size + 1) float32, whose last component is 1 where the vector is missing.
        unknown: raw value -> how often it occurred.
        shared: the same of values that the feature does not list, and that share the vector of their bucket.
        outside: the rows whose number is far from those of training, clipped here; None where there is none.

    Example:
        >>> EncodedColumn(np.array([2, 1]), {"hooli": 1}).unknown
        {'hooli': 1}
    """

    values: np.ndarray
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    shared: dict[str, int] = field(default_factory=dict[str, int])
    outside: Outside | None = None


def encode_column(feature: Feature, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
    """Encode one column by the description of its feature; a faulty value is an error that names its row.

    Of a sensitive feature neither the error nor ``unknown`` and ``shared`` repeat a value.
    """
    if not feature.sensitive:
        return _ENCODERS[type(feature)](feature, array, file)
    with withholding():
        found = _ENCODERS[type(feature)](feature, array, file)
    return replace(found, unknown=_withheld(found.unknown), shared=_withheld(found.shared))


@contextmanager
def withholding() -> Generator[None]:
    """Raise a DataError without the value that it is about."""
    try:
        yield
    except DataError as error:
        problem = f"the value {WITHHELD} is not allowed"
        raise DataError(problem, file=error.file, row=error.row, column=error.column, fix=error.fix) from None


def to_numbers(array: pa.Array, *, file: str | None = None, column: str | None = None) -> np.ndarray:
    """A column of numbers, or of text that spells numbers, as float64: NaN where missing, infinity is an error.

    A decimal and a short float become the float64 of the same spelling, so that 0.2 is 0.2 whatever held it.
    """
    array = decoded(array)
    kind = array.type
    if is_text(kind):
        array = _parse_numbers(array, file, column)
    elif not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    ):
        raise SchemaError(
            f"column {column!r} has the type {kind}, but its feature is numerical. Give the column numbers, "
            "or let it be another kind of feature."
        )
    array = to_doubles(array)
    require_finite(array, file=file, column=column)
    return array.to_numpy(zero_copy_only=False)  # nulls become NaN


def flatten_lists(
    array: pa.Array, *, separator: str | None, column: str, file: str | None = None
) -> tuple[pa.Array, np.ndarray]:
    """The elements of a column of lists, and how many each row has (0 for null); text is split by the separator.

    Text that is a printed list, such as "['red', 'blue']", is a list, too.

    Raises:
        DataError: a cell is a printed list or an object, and its column is none of lists; with its row.
    """
    if holds_objects(array):
        raise object_error(array, file=file, column=column)
    lists = as_lists(array, file=file, name=column, is_known=separator is None)
    array = array if lists is None else lists
    kind = array.type
    if separator is not None and (is_single(kind) or pa.types.is_dictionary(kind)):
        # Cells without a separator in any of them may have come as numbers.
        array = array if is_text(kind) else canonical_array(array, column=column)
        printed = first_printed(array) if is_text(array.type) else None
        if printed is not None:
            fix = f"Write the values with {separator!r} between them and nothing around them."
            raise printed_error(array, printed, file=file, column=column, fix=fix)
        array = pc.if_else(pc.equal(array, ""), pa.scalar(None, array.type), array)
        lists = pc.split_pattern(array, separator)
        elements = pc.utf8_trim_whitespace(lists.flatten())
        return elements, _lengths(lists)
    if pa.types.is_null(kind):
        return pa.nulls(0, pa.string()), np.zeros(len(array), np.int64)
    if not is_list(kind):
        raise SchemaError(
            f"column {column!r} has the type {kind}, but its feature is multi-categorical. Give the column lists, "
            "or set the feature's separator for columns of text."
        )
    return array.flatten(), _lengths(array)


def column_values(feature: Categorical | MultiCategorical, array: pa.Array) -> list[str]:
    """The distinct values of a feature's column in their one spelling, blank ones left out.

    Example:
        >>> column_values(Categorical(name="day", values=("sun",)), pa.array([" sun", "Sun", None, ""]))
        ['sun', 'Sun']
    """
    if isinstance(feature, MultiCategorical):
        array, _ = flatten_lists(array, separator=feature.separator, column=feature.column)
    names = pc.drop_null(canonical_array(array, column=feature.column).unique())
    return [name for name in names.to_pylist() if name]


def separator_of_most(cells: pa.Array | pa.ChunkedArray, separators: Sequence[str]) -> tuple[str, int] | None:
    """The first of these separators that more than half of the cells have, and how many have it.

    Example:
        >>> separator_of_most(pa.array(["a|b", "a|c", "b"]), [";", "|"])
        ('|', 2)
    """
    for separator in separators:
        found = num_with(cells, separator)
        if found > len(cells) / 2:
            return separator, found
    return None


def num_with(cells: pa.Array | pa.ChunkedArray, text: str) -> int:
    """How many cells hold this text."""
    return pc.sum(pc.match_substring(cells, text)).as_py() or 0


def _encode_categorical(feature: Categorical, array: pa.Array, file: str | None) -> EncodedColumn:
    strings = canonical_array(array, file=file, column=feature.column)
    ids = feature.vocabulary.find(strings, is_code=_are_codes(feature, array))
    return EncodedColumn(*_not_listed(feature, strings, ids, missing=MISSING, unknown=CATEGORICAL_UNKNOWN))


def _encode_multi(feature: MultiCategorical, array: pa.Array, file: str | None) -> EncodedColumn:
    lists = as_lists(array, file=file, name=feature.column, is_known=feature.separator is None)
    array = array if lists is None else lists
    elements, lengths = flatten_lists(array, separator=feature.separator, column=feature.column, file=file)
    rows = np.repeat(np.arange(len(array)), lengths)
    try:
        strings = canonical_array(elements, column=feature.column)
    except DataError as error:  # its row counts elements
        raise DataError(
            error.problem, file=file, row=int(rows[error.row or 0]), column=feature.column, fix=error.fix
        ) from None
    ids = feature.vocabulary.find(strings, is_code=_are_codes(feature, array))
    ids, unknown, shared = _not_listed(feature, strings, ids, missing=MULTI_MISSING, unknown=MULTI_UNKNOWN)
    is_given = ids != MULTI_MISSING
    if not is_given.all():
        # A null among the elements says nothing; a row of nothing else is missing.
        rows, ids = rows[is_given], ids[is_given]
    counts = np.bincount(rows, minlength=len(array))
    width = max(1, int(counts.max(initial=0)))
    table = np.full((len(array), width), MULTI_PADDING, np.int64)
    starts = np.cumsum(counts) - counts
    table.reshape(-1)[rows * width + np.arange(len(rows)) - starts[rows]] = ids
    is_empty = (lengths == 0) & array.is_valid().to_numpy(zero_copy_only=False)
    if feature.separator is not None and not is_list(array.type):
        is_empty[:] = False  # Text cannot say that it is known to be empty.
    table[counts == 0, 0] = MULTI_MISSING
    table[is_empty, 0] = MULTI_EMPTY
    return EncodedColumn(table, unknown, shared)


def _encode_numerical(feature: Numerical, array: pa.Array, file: str | None) -> EncodedColumn:
    numbers = to_numbers(array, file=file, column=feature.column)
    bins = np.searchsorted(np.asarray(feature.edges, np.float64), numbers, side="right") + 1
    bins[np.isnan(numbers)] = MISSING
    return EncodedColumn(bins.astype(np.int64, copy=False), outside=outside_of(feature, numbers))


def _encode_vector(feature: Vector, array: pa.Array, file: str | None) -> EncodedColumn:
    column = feature.column
    lists = vectors_of(array, file=file, name=column)
    array = array if lists is None else lists
    is_missing = array.is_null().to_numpy(zero_copy_only=False)
    vectors = np.zeros((len(array), feature.size + 1), np.float32)
    vectors[:, -1] = is_missing
    if pa.types.is_null(array.type):
        return EncodedColumn(vectors)
    if not is_list(array.type):
        raise SchemaError(f"column {column!r} has the type {array.type}, but its feature is a vector. Give it lists.")
    lengths = _lengths(array)
    wrong = ~is_missing & (lengths != feature.size)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"the vector has {lengths[row]} components, not {feature.size}",
            file=file,
            row=row,
            column=column,
            fix=f"Give {feature.size} numbers, or null if the vector is missing.",
        )
    kind = array.type.value_type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise SchemaError(f"column {column!r} has elements of type {kind}; vectors have numbers.")
    numbers, rows = given_vectors(array, size=feature.size)
    faulty = ~np.isfinite(numbers).all(axis=1)
    if faulty.any():
        row = int(rows[faulty.argmax()])
        raise DataError(
            "the vector has a component that is missing or not finite",
            file=file,
            row=row,
            column=column,
            fix="Give finite numbers, or null for the whole vector if it is missing.",
        )
    outside = outside_of(feature, numbers)
    with np.errstate(over="ignore"):  # what float32 cannot hold is clipped next
        vectors[rows, :-1] = numbers
    if outside is not None:
        places = rows[outside.rows]
        vectors[places, :-1] = clipped(feature, numbers, outside)
        outside = outside.at(rows)
    return EncodedColumn(vectors, outside=outside)


_ENCODERS: dict[type, Callable[..., EncodedColumn]] = {
    Categorical: _encode_categorical,
    MultiCategorical: _encode_multi,
    Numerical: _encode_numerical,
    Vector: _encode_vector,
}


def _not_listed(
    feature: Categorical | MultiCategorical, strings: pa.Array, ids: np.ndarray, *, missing: int, unknown: int
) -> tuple[np.ndarray, dict[str, int], dict[str, int]]:
    """Replace the vocabulary's marks by the feature's ids; blank text is missing, a rare value has its bucket's.

    Returns:
        The ids; how often each unknown value occurred; how often each that has the id of a bucket.
    """
    is_unlisted = ids == UNKNOWN
    ids[ids == NULL] = missing
    if not is_unlisted.any():
        return ids, {}, {}
    encoded = strings.filter(pa.array(is_unlisted)).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    values = encoded.dictionary.to_pylist()
    counts = np.bincount(codes, minlength=len(values)).tolist()
    found = np.array([missing if not value.strip() else UNKNOWN for value in values], np.int64)
    of_buckets = feature.shared_ids
    if of_buckets is not None:
        is_given = found == UNKNOWN
        is_code = feature.spelt_numbers == "variously"
        found[is_given] = of_buckets[buckets_of(encoded.dictionary, len(of_buckets), is_code=is_code)[is_given]]
    counted = [*zip(values, counts, found.tolist(), strict=True)]
    found[found == UNKNOWN] = unknown
    ids[is_unlisted] = found[codes]
    return (
        ids,
        {value: count for value, count, place in counted if place == UNKNOWN},
        {value: count for value, count, place in counted if place not in (UNKNOWN, missing)},
    )


def _are_codes(feature: Categorical | MultiCategorical, array: pa.Array) -> bool:
    """Whether numbers of a column are only found as they are spelt."""
    rule = feature.spelt_numbers
    return rule == "variously" or (rule == "once" and holds_text(array))


def _withheld(counts: dict[str, int]) -> dict[str, int]:
    return {WITHHELD: sum(counts.values())} if counts else {}


def without_marks(array: pa.Array) -> pa.Array:
    """A column of text in which numbers or dates are looked for: null where a cell is empty or a mark of missing."""
    is_missing = pc.is_in(array, value_set=pa.array(["", *MISSING_MARKS], array.type))
    return pc.if_else(is_missing, pa.scalar(None, array.type), array)


def _parse_numbers(array: pa.Array, file: str | None, column: str | None) -> pa.Array:
    array = without_marks(pc.utf8_trim_whitespace(array))
    try:
        numbers = array.cast(pa.float64())
        faulty = pc.fill_null(pc.is_nan(numbers), False)
    except pa.ArrowInvalid:
        wrong = [text for text in array.unique().to_pylist() if text is not None and not _is_number(text)]
        numbers, faulty = array, pc.is_in(array, value_set=pa.array(wrong, array.type))
    if pc.any(faulty).as_py():
        row = int(pc.index(faulty, True).as_py())
        raise DataError(f"{array[row].as_py()!r} is not a number", file=file, row=row, column=column, fix=_NUMBER_FIX)
    return numbers


def _is_number(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return text.lower() != "nan"


def _lengths(lists: pa.Array) -> np.ndarray:
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
