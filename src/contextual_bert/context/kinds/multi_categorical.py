"""MultiCategorical: any number of values out of a fixed list, whose embeddings are averaged."""

from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from contextual_bert.arrow_types import is_list, is_text, value_type
from contextual_bert.context.columns import flatten_lists, holds_text, num_with, separator_of_most, spelt_numbers
from contextual_bert.context.kinds.feature import (
    EMPTY_NAME,
    MISSING_NAME,
    MULTI_MISSING,
    MULTI_PADDING,
    PADDING_NAME,
    RARE,
    SINGLE_VALUE,
    UNKNOWN_NAME,
    EncodedColumn,
    FeatureLayout,
    Finding,
    Form,
    InferenceSettings,
    feature_name,
    feature_source,
    id_layout,
    sensitive_schema,
)
from contextual_bert.context.kinds.listed import ListedFeature, infer_values, too_rare
from contextual_bert.context.printed_lists import as_lists, read_cell
from contextual_bert.context.raw_values import SINGLE_TYPES, none_if_missing
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.errors import DataError, type_in_words

MULTI_RESERVED = (PADDING_NAME, MISSING_NAME, UNKNOWN_NAME, EMPTY_NAME)
MULTI_UNKNOWN, MULTI_EMPTY = MULTI_RESERVED.index(UNKNOWN_NAME), MULTI_RESERVED.index(EMPTY_NAME)

_DEFAULT_SEPARATOR = ","
_OTHER_SEPARATORS = ("|", ";")


class MultiCategorical(ListedFeature, frozen=True):
    """Any number of values out of a fixed list; their embeddings are averaged.

    ids: 0 padding, 1 missing, 2 unknown, 3 empty (known to have no value, which is not the same as missing), 4 and up
    the values, then the shared vectors. A value that occurs twice in a row counts twice.

    Args:
        name: name of the feature.
        values: the known values; anything that `canonical` accepts.
        num_buckets: a value that is not among ``values`` is hashed into one of so many buckets (`bucket_of`), each of
            which has a vector; None: such values are unknown.
        buckets: numbers of the buckets that have a vector, rising; values of the others are unknown. None: all have.
        spelt_numbers: as `columns.spelt_numbers` has it, for columns of text: "10.10" is another value than "10.1".
        embedding_size: width of the embedding; None for `default_embedding_size`.
        source: the raw column if it differs from the name.
        sensitive: its values stand in no card, report, log, error or OpenAPI document.
        separator: splits a column of text ("red,blue") into values, as CSV needs it; None for columns of lists.

    Relation to its siblings: `Categorical` for exactly one value a row.

    Example:
        >>> MultiCategorical(name="brands", values=("acme", "hooli")).layout.num_embeddings
        6
    """

    form: ClassVar[Form] = "id_list"
    reserved: ClassVar[tuple[str, ...]] = MULTI_RESERVED
    has_lists: ClassVar[bool] = True

    kind: Literal["multi_categorical"] = "multi_categorical"
    separator: str | None = Field(default=None, min_length=1)

    @property
    def layout(self) -> FeatureLayout:
        return id_layout(self, len(self.values) + self.num_shared)

    @property
    def record_type(self) -> pa.DataType:
        return pa.list_(pa.string())

    @classmethod
    def claims(cls, array: pa.Array, settings: InferenceSettings) -> bool:
        """Lists of text or of whole numbers, unless all lists have one length by their type."""
        kind = value_type(array.type)
        if not is_list(kind):
            return False
        is_whole = pa.types.is_integer(kind.value_type) and not pa.types.is_fixed_size_list(kind)
        return is_text(kind.value_type) or is_whole

    @classmethod
    def infer(cls, column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
        separator = None if is_list(array.type) else _separator_of(canonical_array(array, column=column))
        elements, lengths = flatten_lists(array, separator=separator, column=column)
        strings = canonical_array(elements, column=column)
        spelt = spelt_numbers(strings) if holds_text(array) else None
        kept, rarity = infer_values(strings, settings, cls.reserved, spelt=spelt, lengths=lengths)
        distinct = kept.num_distinct
        if not kept.values and kept.num_buckets is None:
            return Finding(None, too_rare(settings), distinct)
        shared: dict[str, Any] = {"num_buckets": kept.num_buckets, "buckets": kept.buckets, "spelt_numbers": spelt}
        name, source = feature_name(column), feature_source(column)
        feature = cls(name=name, source=source, values=kept.values, separator=separator, **shared)
        reason = kept.reason(rarity=rarity, unit="elements")
        if separator not in (None, _DEFAULT_SEPARATOR):
            reason += f"; {separator!r} between them"
        return Finding("multi_categorical", reason, distinct, (feature,))

    def elements(self, array: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
        return flatten_lists(array, separator=self.separator, column=self.column)

    def encode_values(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        lists = as_lists(array, file=file, name=self.column, is_known=self.separator is None)
        array = array if lists is None else lists
        elements, lengths = flatten_lists(array, separator=self.separator, column=self.column, file=file)
        rows = np.repeat(np.arange(len(array)), lengths)
        try:
            strings = canonical_array(elements, column=self.column)
        except DataError as error:  # its row counts elements
            raise error.moved(file=file, row=int(rows[error.row or 0])) from None
        ids, unknown, shared = self.find_ids(strings, array, missing=MULTI_MISSING, unknown=MULTI_UNKNOWN)
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
        if self.separator is not None and not is_list(array.type):
            is_empty[:] = False  # Text cannot say that it is known to be empty.
        table[counts == 0, 0] = MULTI_MISSING
        table[is_empty, 0] = MULTI_EMPTY
        return EncodedColumn(table, unknown, shared)

    def read_value(self, value: object) -> list[str | None]:
        if isinstance(value, str):
            printed = read_cell(value, is_known=self.separator is None)
            value = value if printed is None else printed
        if isinstance(value, SINGLE_TYPES) and self.separator is not None:
            return [part.strip() for part in self.read_single(value).split(self.separator)]
        if isinstance(value, np.ndarray) and value.ndim:
            value = list(value)  # tolist() widens short floats and makes times numbers
        if isinstance(value, (set, frozenset)):
            value = sorted(value, key=str)
        if not isinstance(value, (list, tuple)):
            raise DataError(
                f"{value!r:.80} is {type_in_words(value)}, not a list",
                fix='Give a list of values such as ["a", "b"]; [] says that it is known to be empty.',
            )
        return [None if element is None else self.read_single(element) for element in map(none_if_missing, value)]

    @property
    def example(self) -> object:
        first = super().example
        return [first] if first is not None else None

    @property
    def choices(self) -> tuple[str, ...]:
        return ()  # a row has any number of them

    def names(self, values: NDArray[Any]) -> list[list[str]]:
        names = ["", "(missing)", "(unknown)", "(none)", *self.values, *[RARE] * self.num_shared]
        return [[names[index] for index in row if index != MULTI_PADDING] for row in values.tolist()]

    def say(self, array: pa.Array) -> pa.Array:
        elements, lengths = self.elements(array)
        names = canonical_array(elements, column=self.column)
        names = pc.if_else(pc.equal(pc.utf8_trim_whitespace(names), ""), pa.scalar(None, pa.string()), names)
        rows = np.repeat(np.arange(len(array)), lengths)[names.is_valid().to_numpy(zero_copy_only=False)]
        ends = np.bincount(rows, minlength=len(array)).cumsum()
        lists = pa.LargeListArray.from_arrays(pa.array([0, *ends], pa.int64()), names.drop_null())
        return pc.binary_join(lists, ", ")

    def json_schema(self) -> dict[str, Any]:
        known, examples = self.listed_schema()
        known_cells = [] if self.sensitive else [known]
        kinds: list[dict[str, Any]] = [
            {"type": "array", "items": {"anyOf": [*known_cells, SINGLE_VALUE, {"type": "null"}]}}
        ]
        text = [{"type": "string"}] if self.separator is not None else []
        if self.sensitive:
            return sensitive_schema(*kinds, *text)
        about = f"Any of {len(self.values):,} values; another one {self.fate_of_others}. [] is known to have none."
        if self.separator is not None:
            about += f" Also text with {self.separator!r} between values."
        return {
            "anyOf": [*kinds, {"type": "null"}, *text],
            "examples": [examples[:2]],
            "description": f"{about} null: missing.",
        }


def _separator_of(strings: pa.Array) -> str:
    """Return what stands between the values of a cell: where none has a comma, what most have."""
    other = separator_of_most(pc.drop_null(strings), _OTHER_SEPARATORS)
    return _DEFAULT_SEPARATOR if other is None or num_with(strings, _DEFAULT_SEPARATOR) else other[0]
