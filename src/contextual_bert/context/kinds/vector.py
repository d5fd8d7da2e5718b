"""Vector: a vector given from outside, such as the embedding of a photograph; it is projected, and may be missing."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from contextual_bert.arrow_types import is_list, value_type
from contextual_bert.context.columns import list_lengths
from contextual_bert.context.kinds.feature import (
    LARGEST_DEFAULT_SIZE,
    Cells,
    EncodedColumn,
    Feature,
    FeatureLayout,
    Finding,
    Form,
    InferenceSettings,
    count_distinct,
    feature_name,
    feature_source,
    sensitive_schema,
)
from contextual_bert.context.printed_lists import read_list, vectors_of
from contextual_bert.context.ranges import FAR_FACTOR, LARGEST_UNKNOWN, Outside, largest_component, outside_of
from contextual_bert.context.raw_values import MISSING_FIX
from contextual_bert.context.withheld import WITHHELD
from contextual_bert.errors import ConfigurationError, DataError, SchemaError, shown, type_in_words


class Vector(Feature, frozen=True):
    """A vector given from outside, such as the embedding of a photograph; it is projected, and may be missing.

    Args:
        name: name of the feature.
        size: length of the vectors.
        embedding_size: width after the projection; None for the smaller of `size` and 64.
        source: the raw column if it differs from the name.
        largest: what no component of training is beyond, in either direction; None where that is unknown. Training
            fills it in, rounded up to a power of two.
        sensitive: its values stand in no card, report, log, error or OpenAPI document.

    Example:
        >>> Vector(name="photo", size=512).layout.embedding_size
        64
    """

    form: ClassVar[Form] = "vector"
    reserved: ClassVar[tuple[str, ...]] = ()
    has_lists: ClassVar[bool] = True

    kind: Literal["vector"] = "vector"
    size: int = Field(ge=1)
    largest: float | None = Field(default=None, gt=0, le=LARGEST_UNKNOWN)

    @property
    def layout(self) -> FeatureLayout:
        size = self.embedding_size or min(LARGEST_DEFAULT_SIZE, self.size)
        return FeatureLayout(self.name, self.kind, 0, self.size, size)

    @property
    def cells(self) -> Cells:
        return "numbers"

    @property
    def record_type(self) -> pa.DataType:
        return pa.list_(pa.float64())

    @property
    def bounds(self) -> tuple[float, float]:
        """Components beyond these are far from all that training saw: 100 times ``largest``."""
        far = FAR_FACTOR * self.largest if self.largest is not None else LARGEST_UNKNOWN
        return -far, far

    @property
    def clipped_to(self) -> float:
        """Return the value, without sign, that stands in for components beyond ``bounds``."""
        return self.largest if self.largest is not None else LARGEST_UNKNOWN

    @property
    def verdict(self) -> str:
        """The words for a component beyond ``bounds``."""
        if self.largest is None:
            return f"is beyond {LARGEST_UNKNOWN:g}, and is read as that"
        largest = "" if self.sensitive else f" ({self.largest:g})"
        return f"is more than {FAR_FACTOR:g} times the largest number of training{largest}, and is read as that"

    @classmethod
    def claims(cls, array: pa.Array, settings: InferenceSettings) -> bool:
        """Lists of decimal numbers, and lists of one length of whole numbers."""
        kind = value_type(array.type)
        if not is_list(kind):
            return False
        is_whole = pa.types.is_integer(kind.value_type) and pa.types.is_fixed_size_list(kind)
        return pa.types.is_floating(kind.value_type) or is_whole

    @classmethod
    def infer(cls, column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
        if not is_list(array.type):
            return Finding(None, f"the type {array.type} is no list", count_distinct(array))
        inner = array.type.value_type
        if settings.is_forced and pa.types.is_integer(inner):  # such as printed ones
            array = array.cast(pa.list_(pa.float64()))
        elif not (pa.types.is_floating(inner) or pa.types.is_integer(inner) or pa.types.is_decimal(inner)):
            return Finding(None, f"the type {array.type} is no list of numbers", 0)
        lengths = pc.unique(pc.drop_null(pc.list_value_length(array))).to_pylist()
        if len(lengths) > 1 or lengths == [0]:
            return Finding(None, f"lists of {min(lengths)} to {max(lengths)} numbers are no vectors of one length", 0)
        feature = cls(name=feature_name(column), source=feature_source(column), size=lengths[0])
        return Finding("vector", f"vectors of {lengths[0]} numbers", 0, (feature.with_range(array),))

    def learn_range(self, table: pa.Table) -> "Vector":
        return self.with_range(table[self.column].combine_chunks()) if self._is_held(table) else self

    def with_range(self, array: pa.Array) -> "Vector":
        """Return the feature with the range of a column of vectors where it has none.

        Raises:
            DataError: a vector beyond its range; see ``largest_component`` where it has none.
        """
        vectors, rows = given_vectors(array, size=self.size)
        if self.largest is None:
            return self.model_copy(update={"largest": largest_component(vectors, rows, column=self.column)})
        if (outside := outside_of(self, vectors)) is not None:
            number = WITHHELD if outside.numbers is None else f"{outside.numbers[0]:g}"
            raise DataError(
                f"{number} {outside.verdict} ({len(outside.rows):,} such vectors)",
                row=int(rows[outside.rows[0]]),
                column=self.column,
                fix='Give null for the whole vector if the number says "no data". If it is meant, raise the "largest" '
                "of the feature in the schema.",
            )
        return self

    def without_range(self) -> "Vector":
        return self.model_copy(update={"largest": None})

    def read_value(self, value: object) -> NDArray[np.float64]:
        fix = f"Give {self.size} finite numbers. {MISSING_FIX}"
        if isinstance(value, str):
            value = printed if (printed := read_list(value)) is not None else value
        if isinstance(value, (str, bytes, Mapping)):
            raise DataError(f"{value!r:.80} is {type_in_words(value)}, not a vector", fix=fix)
        try:
            vector = np.asarray(value, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{shown(value)} is not a vector of numbers", fix=fix) from None
        if vector.shape != (self.size,):
            raise DataError(f"the vector has shape {vector.shape}, not ({self.size},)", fix=fix)
        if not np.isfinite(vector).all():
            raise DataError("the vector has a component that is missing or not finite", fix=fix)
        return vector

    def encode_values(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        column = self.column
        lists = vectors_of(array, file=file, name=column)
        array = array if lists is None else lists
        is_missing = array.is_null().to_numpy(zero_copy_only=False)
        vectors = np.zeros((len(array), self.size + 1), np.float32)
        vectors[:, -1] = is_missing
        if pa.types.is_null(array.type):
            return EncodedColumn(vectors)
        if not is_list(array.type):
            raise SchemaError(
                f"column {column!r} has the type {array.type}, but its feature is a vector", fix="Give it lists."
            )
        lengths = list_lengths(array)
        wrong = ~is_missing & (lengths != self.size)
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"the vector has {lengths[row]} components, not {self.size}",
                file=file,
                row=row,
                column=column,
                fix=f"Give {self.size} numbers, or null if the vector is missing.",
            )
        kind = array.type.value_type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise SchemaError(f"column {column!r} has elements of type {kind}; vectors have numbers.")
        numbers, rows = given_vectors(array, size=self.size)
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
        outside = outside_of(self, numbers)
        with np.errstate(over="ignore"):  # what float32 cannot hold is clipped next
            vectors[rows, :-1] = numbers
        if outside is not None:
            vectors[rows[outside.rows], :-1] = self._clipped(numbers[outside.rows])
            outside = outside.at(rows)
        return EncodedColumn(vectors, outside=outside)

    def find_outside(self, array: pa.Array) -> Outside | None:
        lists = vectors_of(array, name=self.column)
        array = array if lists is None else lists
        if not self._is_held(pa.table({self.column: array})):
            return None  # encoding says what is wrong with the column
        numbers, rows = given_vectors(array, size=self.size)
        outside = outside_of(self, numbers)
        return outside.at(rows) if outside is not None else None

    def names(self, values: NDArray[Any]) -> NDArray[np.str_]:
        return np.where(values[:, -1] > 0, "(missing)", "given")

    def say(self, array: pa.Array) -> pa.Array:
        raise ConfigurationError(
            f"{self.column!r} is a vector, which cannot be said in words", fix="Leave the column out with exclude."
        )

    def json_schema(self) -> dict[str, Any]:
        vector = {"type": "array", "items": {"type": "number"}, "minItems": self.size, "maxItems": self.size}
        if self.sensitive:
            return sensitive_schema(vector)
        return {"anyOf": [vector, {"type": "null"}], "description": f"{self.size} numbers. null: missing."}

    def _is_held(self, table: pa.Table) -> bool:
        """Return whether a table has the column with vectors of this length; encoding finds what else is wrong."""
        if self.column not in table.column_names or not is_list(table.schema.field(self.column).type):
            return False
        column = table.column(self.column)
        kind = column.type.value_type
        is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        return is_number and bool(pc.all(pc.equal(pc.list_value_length(column), self.size)).as_py())

    def _clipped(self, vectors: NDArray[np.generic]) -> NDArray[np.float64]:
        """Return vectors whose components beyond the bounds are the largest of training."""
        low, high = self.bounds
        found = vectors.astype(np.float64)
        found[found > high] = self.clipped_to
        found[found < low] = -self.clipped_to
        return found


def given_vectors(array: pa.Array, *, size: int) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Return the vectors of a column of lists of one length that are not missing, and their rows."""
    rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    elements = array.filter(array.is_valid()).flatten()
    numbers = elements.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind in "iu":  # of the widest whole numbers the smallest has no negative
        numbers = numbers.astype(np.float64)
    return numbers.reshape(-1, size), rows
