"""The protocol of a feature kind: what the library asks of one, and what it gets.

A kind is a subclass of `Feature` in a file of its own. Its fields are the settings that ``schema.json`` holds. Its
methods infer it from a column, read and encode values, name them, and describe them to a client. ``register_kind``
makes it known. No kind imports torch: `FeatureLayout.form` names the tensors, and `context.forms` computes on them.

Paper: section 4 (the features of the customer); the sizes of their embeddings sum to 736.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
)

from contextual_bert.arrow_types import is_list, without_value
from contextual_bert.context.dates import DatePart
from contextual_bert.context.marks import named_values
from contextual_bert.context.ranges import Outside
from contextual_bert.context.spelling import DecimalMark
from contextual_bert.context.vocabulary import Vocabulary, canonical_array
from contextual_bert.context.withheld import WITHHELD, withheld_counts, withholding
from contextual_bert.errors import ConfigurationError, ContextualBertError, SchemaError, did_you_mean, shown
from contextual_bert.places import JsonPlace, path_of
from contextual_bert.pydantic_findings import wanted

if TYPE_CHECKING:
    from torch import nn

Form = Literal["id", "id_list", "vector", "history"]
Cells = Literal["codes", "numbers"]

PADDING_NAME, MISSING_NAME, UNKNOWN_NAME, EMPTY_NAME = "[padding]", "[missing]", "[unknown]", "[empty]"
# Of the form "id" the id 0 is missing. Of "id_list" 0 is padding and 1 is missing.
MISSING = 0
MULTI_PADDING, MULTI_MISSING = range(2)

SINGLE_VALUE: dict[str, Any] = {"type": ["string", "number", "boolean"]}  # of JSON
LOOKS_LIKE_ID = "looks like an id"  # the reason why a column is no feature
RARE = "(rare)"  # names all values that share the vectors of buckets
LARGEST_DEFAULT_SIZE = 64


def default_embedding_size(num_embeddings: int) -> int:
    """min(64, round(1.6 n^0.56)), at least 2: grows with the number of states, far slower than it.

    The exponent and the factor are fastai's rule of thumb for embeddings of categorical columns.

    Example:
        >>> [default_embedding_size(n) for n in (3, 9, 53, 1000)]
        [3, 5, 15, 64]
    """
    return max(2, min(LARGEST_DEFAULT_SIZE, round(1.6 * num_embeddings**0.56)))


@dataclass(frozen=True)
class FeatureLayout:
    """The shape of one feature: all that the encoder needs to know of it.

    Args:
        name: name of the feature and of its tensor in a batch.
        kind: name of its kind.
        num_embeddings: number of ids, reserved ones included (0 for vectors).
        vector_size: length of a given vector (0 for ids).
        embedding_size: width of its part of the context vector.

    Example:
        >>> from contextual_bert.context import Categorical
        >>> Categorical(name="sex", values=("female", "male"), embedding_size=8).layout
        FeatureLayout(name='sex', kind='categorical', num_embeddings=4, vector_size=0, embedding_size=8)
    """

    name: str
    kind: str
    num_embeddings: int
    vector_size: int
    embedding_size: int

    @property
    def form(self) -> Form:
        """The form of the feature's tensor in a batch: see `context.forms`."""
        return self._kind.form

    @property
    def num_reserved(self) -> int:
        """Number of ids before that of the first value."""
        return len(self._kind.reserved)

    @property
    def unknown_id(self) -> int | None:
        """Id of a value that the schema does not know; None where there is no such state."""
        return self._reserved_id(UNKNOWN_NAME)

    @property
    def padding_id(self) -> int | None:
        """Id that fills lists up to one length; None where each row has one value."""
        return self._reserved_id(PADDING_NAME)

    def own_module(self) -> "nn.Module | None":
        """Make the module of the feature's kind that embeds a batch; None takes that of the form."""
        return self._kind.own_module(self)

    @property
    def _kind(self) -> "type[Feature]":
        if self.kind not in KINDS:
            raise ConfigurationError(
                f"feature {self.name!r}: unknown kind {self.kind!r}", allowed=did_you_mean(self.kind, KINDS)
            )
        return KINDS[self.kind]

    def _reserved_id(self, name: str) -> int | None:
        reserved = self._kind.reserved
        return reserved.index(name) if name in reserved else None


@dataclass(frozen=True)
class EncodedColumn:
    """The ids or numbers of one feature, and which of its values were unknown or far from those of training.

    Args:
        values: (rows,) int64; of lists (rows, width) int64, padded with 0; of vectors (rows, size + 1) float32, whose
            last component is 1 where the vector is missing; of histories (rows, width, 4) int64, see ``interactions``.
        unknown: raw value -> how often it occurred.
        shared: the same of values that the feature does not list, and that share the vector of their bucket.
        outside: the rows whose number is far from those of training, clipped here; None where there is none.
        unread: the rows whose value is given and not read, for the feature is silenced; None of other features.

    Example:
        >>> EncodedColumn(np.array([2, 1]), {"hooli": 1}).unknown
        {'hooli': 1}
    """

    values: np.ndarray
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    shared: dict[str, int] = field(default_factory=dict[str, int])
    outside: Outside | None = None
    unread: NDArray[np.bool_] | None = None


class DateReading(NamedTuple):
    """The part of a date that a feature reads, and how its column writes dates that are not ISO 8601."""

    part: DatePart
    date_format: str | None


@dataclass(frozen=True, eq=False)
class InferenceSettings:
    """Settings by which features are inferred.

    ``customers``: number of the customer of each row, None where rows are counted; ``sensitive``: no note names values;
    ``date_format``: that of a column whose dates are not all ISO 8601, told by all of its rows; ``hash_buckets``: for
    rare values, None finds how many; ``parts``: those of a date that an override asks for; ``is_split_by_time``: the
    rows that are not learned from are later; ``is_forced``: an override asks for the kind; ``decimal``: the mark
    before the decimals of numbers that are text; ``missing_values``: texts, numbers and days that the user named as
    standing for a missing value; ``items``: the names of the items of the sets, each once; None: there are no sets.
    """

    min_count: int
    max_categories: int
    num_bins: int
    date_formats: tuple[str, ...] = ()
    customers: NDArray[np.int64] | None = None
    sensitive: bool = False
    date_format: str | None = None
    hash_buckets: int | None = None
    parts: tuple[DatePart, ...] | None = None
    is_split_by_time: bool = False
    is_forced: bool = False
    decimal: DecimalMark | None = None
    missing_values: tuple[str, ...] = ()
    items: pa.Array | None = None

    def shown(self, *values: object, most: int = 3) -> str:
        """Return values as a note names them, none of a sensitive column."""
        return WITHHELD if self.sensitive else named_values(*values, most=most)

    @property
    def unit(self) -> str:
        """The name of what ``min_count`` counts."""
        return "rows" if self.customers is None else "customers"


@dataclass(frozen=True)
class Finding:
    """The features that a column makes, or the reason why it makes none; see ``ColumnNote`` for the other fields."""

    kind: str | None
    reason: str
    distinct: int
    features: "tuple[Feature, ...]" = ()
    num_marked: int = 0
    warning: str = ""
    remark: str = ""


class Feature(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """A feature of the context. Each kind of feature is a subclass.

    A kind must give ``kind``, ``layout``, ``record_type``, ``read_value`` and ``encode_values``. The other methods have
    defaults for the form "id".

    Class attributes:
        form: the form of its tensor in a batch: an id a row, a list of ids, or a vector.
        reserved: names of the ids before that of the first value, such as "[missing]".
        has_lists: whether a cell is a list, so that text may be a printed one.
        has_codes: whether its values are codes, so that its column is read as it is spelt ("10.10" is not "10.1").
        has_missing_words: whether inference looks for words that say "missing" among the values, such as "unknown".
        shares_items: whether its values are the items of the model, whose vocabulary ``for_items`` then gives it.

    Args:
        name: name of the feature.
        embedding_size: width of the embedding; None for a default.
        source: the raw column if it differs from the name.
        sensitive: its values stand in no card, report, log, error or OpenAPI document.
        silenced: its values are checked and then not read, for they were found to say nothing.
    """

    form: ClassVar[Form] = "id"
    reserved: ClassVar[tuple[str, ...]] = (MISSING_NAME,)
    has_lists: ClassVar[bool] = False
    has_codes: ClassVar[bool] = False
    has_missing_words: ClassVar[bool] = False
    shares_items: ClassVar[bool] = False

    name: str = Field(min_length=1)
    embedding_size: int | None = Field(default=None, ge=1, strict=True)
    source: str | None = Field(default=None, min_length=1)
    sensitive: bool = Field(default=False, strict=True)
    silenced: bool = Field(default=False, strict=True)

    if TYPE_CHECKING:  # each kind declares it with its own name as the default
        kind: str

    def __eq__(self, other: object) -> bool:
        """Compare fields alone: pydantic compares what is cached, too, and arrays have no one truth value."""
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        for name in ("sensitive", "silenced"):  # the digest of a schema depends on what is set
            if not getattr(self, name):
                values.pop(name, None)
        return {name: value for name, value in values.items() if name != "decimal" or value is not None}

    if not TYPE_CHECKING:  # Type checkers keep the signature that pydantic declares.

        def __init__(self, **settings: Any) -> None:
            try:
                super().__init__(**settings)
            except ValidationError as error:
                of = f"feature {settings.get('name')!r}"
                raise schema_fault(error, known=type(self).model_fields, of=of) from None

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if "." in name:
            raise ValueError(f"the name {name!r} contains a dot, which names of weights cannot; rename it, set source")
        return name

    # What a kind must give.

    @property
    def layout(self) -> FeatureLayout:
        """The shape of the feature."""
        raise NotImplementedError

    @property
    def record_type(self) -> pa.DataType:
        """The type of a column of values that ``read_value`` gives."""
        raise NotImplementedError

    def read_value(self, value: object) -> object:
        """Check one value of a record and return it as ``record_type`` holds it.

        Args:
            value: as a person or a request gives it; never None.

        Raises:
            DataError: a value that the feature cannot take, without row and column.
        """
        raise NotImplementedError

    def encode_values(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        """Encode a column of values; ``encode`` calls it and withholds the values of sensitive features.

        Raises:
            DataError: a faulty value, with its row.
            SchemaError: the column has a type that the feature cannot take.
        """
        raise NotImplementedError

    # Inference from a table.

    @classmethod
    def claims(cls, array: pa.Array, settings: InferenceSettings) -> bool:
        """Return whether a column without an override becomes a feature of this kind.

        Kinds that are registered last are asked first.
        """
        return False

    @classmethod
    def infer(cls, column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
        """Return the feature that a column makes, or the reason why it makes none.

        Args:
            column: its name.
            array: the rows to learn from; words that say "missing" are null.
            settings: how.
        """
        return Finding(None, "its kind cannot be inferred; give the feature itself", 0)

    def learn_range(self, table: pa.Table) -> "Feature":
        """Return the feature with the range of numbers that a table has, where it keeps one and has none.

        Args:
            table: the rows to learn from; it may lack the column.

        Raises:
            DataError: a number beyond the range, or one that stands out against all others.
        """
        return self

    def without_range(self) -> "Feature":
        """Return the feature without the range that ``learn_range`` gave it."""
        return self

    def for_items(self, items: Vocabulary) -> "Feature":
        """Return the feature with the vocabulary of the items, which a kind with ``shares_items`` reads values by."""
        return self

    # Reading and encoding.

    @property
    def column(self) -> str:
        """The raw column that the feature reads."""
        return self.source or self.name

    @property
    def cells(self) -> Cells | None:
        """The contents of the column: "codes" or "numbers"; None for dates and anything else."""
        return "codes" if self.has_codes and self.date is None else None

    @property
    def date(self) -> DateReading | None:
        """The part of a date that the feature reads; None where its column holds the values themselves."""
        return None

    @property
    def decimal_mark(self) -> DecimalMark | None:
        """The mark before the decimals of numbers that are text; None for a point, and nothing between thousands."""
        return None

    @property
    def missing_words(self) -> Sequence[str]:
        """The texts that stand for a missing value."""
        return ()

    def encode(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        """Encode one column; a faulty value is an error that names its row.

        Of a sensitive feature neither the error nor ``unknown`` and ``shared`` repeat a value. Values of a silenced
        feature are checked, and missing then in every row: so a model reads one where no other feature is left.
        """
        if self.silenced:
            with withholding() if self.sensitive else nullcontext():
                self.encode_values(array, file=file)
            missing = self.encode_values(pa.nulls(len(array), array.type), file=file)
            return replace(missing, unread=~np.asarray(without_value(array), np.bool_))
        if not self.sensitive:
            return self.encode_values(array, file=file)
        with withholding():
            found = self.encode_values(array, file=file)
        return replace(found, unknown=withheld_counts(found.unknown), shared=withheld_counts(found.shared))

    def find_outside(self, array: pa.Array) -> Outside | None:
        """Return the rows whose number is far from those of training; None where there is none."""
        return None

    def elements(self, array: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
        """Return the single values of a column and how many each row has."""
        return array, np.ones(len(array), np.int64)

    def distinct_values(self, array: pa.Array) -> list[str]:
        """Return the distinct values of a column in their one spelling, blank ones left out.

        Example:
            >>> from contextual_bert.context import Categorical
            >>> Categorical(name="day", values=("sun",)).distinct_values(pa.array([" sun", "Sun", None, ""]))
            ['sun', 'Sun']
        """
        elements, _ = self.elements(array)
        names = pc.drop_null(canonical_array(elements, column=self.column).unique())
        return [name for name in names.to_pylist() if name]

    # Embedding. The paper's e_i.

    @classmethod
    def own_module(cls, layout: FeatureLayout) -> "nn.Module | None":
        """Make the module that embeds a batch; None takes that of the form.

        The module may have a method ``for_export``, which returns one that computes the same for ONNX.
        """
        return None

    # Values in words.

    @property
    def listed(self) -> tuple[str, ...]:
        """The values that a column may have, each with an id of its own; empty where the feature lists none."""
        return ()

    @property
    def example(self) -> object:
        """A value that the feature knows; None of a sensitive one, or where none is known."""
        return self.listed[0] if self.listed and not self.sensitive else None

    @property
    def num_shared(self) -> int:
        """Number of ids, the last ones, that values which are not listed share; 0 where such values are unknown."""
        return 0

    @property
    def first_shared_id(self) -> int:
        """Id of the first bucket: ids from here on are shared."""
        return self.layout.num_embeddings - self.num_shared

    @property
    def choices(self) -> Sequence[str]:
        """Names of the ids after the reserved ones: the other values that a reader may ask for."""
        return self.listed

    def names(self, values: NDArray[Any]) -> NDArray[np.str_] | list[list[str]]:
        """Return the name of each encoded value: a segment of a report. Lists of ids give a list a row.

        Args:
            values: as ``EncodedColumn.values``.
        """
        states = [f"({name.strip('[]')})" for name in self.reserved]
        return np.array([*states, *self.choices, *[RARE] * self.num_shared])[values]

    def say(self, array: pa.Array) -> pa.Array:
        """Return a column of values in words, as text; null or blank where nothing is known.

        Raises:
            ConfigurationError: the values have no words.
        """
        return canonical_array(array, column=self.column)

    # Queries.

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the feature's value in a query: what it knows, and what else it takes.

        That of a sensitive feature has no value.
        """
        return sensitive_schema(SINGLE_VALUE) if self.sensitive else {"anyOf": [SINGLE_VALUE, {"type": "null"}]}

    def query_schema(self) -> dict[str, Any]:
        """Return ``json_schema``, whose description says of a silenced feature that it is not read."""
        found = self.json_schema()
        if not self.silenced:
            return found
        return {**found, "description": f"Checked and not read. {found.get('description', '')}".rstrip()}


KINDS: dict[str, type[Feature]] = {}


def register_kind(kind: type[Feature]) -> type[Feature]:
    """Make a kind of feature known; usable as a class decorator.

    Raises:
        ConfigurationError: another class already has that name, or the class declares no ``kind``.
    """
    declared = kind.model_fields.get("kind")
    if declared is None or not isinstance(declared.default, str):
        raise ConfigurationError(
            f"{kind.__qualname__} has no kind", fix="Declare the field, such as kind: Literal['place'] = 'place'."
        )
    known = KINDS.setdefault(declared.default, kind)
    if known is not kind:
        raise ConfigurationError(
            f"The kind of feature {declared.default!r} is already {known.__qualname__}", fix="Choose another name."
        )
    return kind


def schema_fault(error: ValidationError, *, known: Iterable[str], of: str = "") -> SchemaError:
    """Return the first thing that pydantic found in a schema, as an error with the keys that lead to the value.

    Args:
        error: what pydantic raised.
        known: the keys that are allowed at the top.
        of: what the keys lead into, for people, such as "feature 'age'".
    """
    findings = error.errors(include_url=False)
    # An unknown key comes before all else: its value may have been meant for a key that is missing.
    finding = next((each for each in findings if each["type"] == "extra_forbidden"), findings[0])
    keys, value, kind = tuple(finding["loc"]), finding["input"], finding["type"]
    cause = finding.get("ctx", {}).get("error")
    own = cause.place if isinstance(cause, ContextualBertError) and isinstance(cause.place, JsonPlace) else JsonPlace()
    keys = (*keys, *own.inner)
    place = JsonPlace(keys, words=own.words or ", ".join(filter(None, (of, path_of(keys)))))
    if isinstance(cause, ContextualBertError):
        return SchemaError(cause.problem, place=place, value=cause.value, allowed=cause.allowed, fix=cause.fix)
    if kind == "extra_forbidden":
        key = str(keys[-1])
        place = replace(place, words=of or path_of(keys[:-1]))
        return SchemaError(f"unknown key {key!r}", place=place, value=value, allowed=did_you_mean(key, known))
    if kind == "missing":
        return SchemaError("it is missing", place=place, fix="Give it.")
    if cause is not None:
        return SchemaError(str(cause), place=place, value=value)
    return SchemaError(f"{shown(value)} is not allowed", place=place, value=value, fix=wanted([finding]))


def id_layout(feature: Feature, num_values: int) -> FeatureLayout:
    """Return the layout of a feature of ids: the reserved ones and those of ``num_values`` values."""
    num_embeddings = len(feature.reserved) + num_values
    size = feature.embedding_size or default_embedding_size(num_embeddings)
    return FeatureLayout(feature.name, feature.kind, num_embeddings, 0, size)


def count_distinct(array: pa.Array | pa.ChunkedArray) -> int:
    """Return the number of distinct values of a column, of its elements where it holds lists; 0 for vectors."""
    if is_list(array.type):
        if pa.types.is_floating(array.type.value_type):
            return 0  # nobody counts the numbers of vectors
        array = pc.list_flatten(array)
    try:
        return len(pc.drop_null(array.unique()))
    except pa.ArrowNotImplementedError:
        return 0


def count_missing(array: pa.Array) -> int:
    """Return the number of rows without a value."""
    return pc.sum(without_value(array)).as_py() or 0


def joined_remarks(*remarks: str) -> str:
    """Return the remarks that are not empty, as one sentence."""
    return "; ".join(filter(None, remarks))


def sensitive_schema(*types: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a sensitive feature's value of these types, without any value."""
    about = "Sensitive: what it knows is withheld. null: missing."
    return {"anyOf": [*types, {"type": "null"}], "description": about}


def feature_name(column: str) -> str:
    """Return the name of the feature of a column. It becomes a name of weights, which a dot would split."""
    return column.replace(".", "_")


def feature_source(column: str) -> str | None:
    """Return the source of the feature of a column, None where its name says it."""
    return column if "." in column else None
