"""The kinds of context features: what one column means and how it becomes ids.

Frozen descriptions only, checked when they are made. This module deliberately knows neither tables nor tensors:
`columns.py` turns a column into ids by these descriptions, `encoder.py` turns the ids into embeddings.
Paper: section 4 (the features of the customer); their sizes sum to 736.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from contextual_bert.context.buckets import MAX_BUCKETS
from contextual_bert.context.codes import SpeltNumbers
from contextual_bert.context.vocabulary import UNKNOWN, Vocabulary, canonical
from contextual_bert.errors import ContextualBertError, SchemaError, did_you_mean

Kind = Literal["categorical", "multi_categorical", "numerical", "vector"]
DatePart = Literal["year", "month", "weekday"]

MISSING, CATEGORICAL_UNKNOWN = range(2)
CATEGORICAL_RESERVED = ("[missing]", "[unknown]")
MULTI_RESERVED = ("[padding]", "[missing]", "[unknown]", "[empty]")
MULTI_PADDING, MULTI_MISSING, MULTI_UNKNOWN, MULTI_EMPTY = range(4)

WITHHELD = "(withheld)"  # stands where a value of a sensitive feature would

_LARGEST_DEFAULT_SIZE = 64
# A number so many times as large as those of training is a "no data" mark, a slip of the unit or a broken sensor.
FAR_FACTOR = 100.0
FAR_YEARS = 100  # beside the years of training
# Of vectors whose range is unknown: the square of it, summed, is still a float32, so that no layer overflows.
LARGEST_UNKNOWN = 1e12


def default_embedding_size(num_embeddings: int) -> int:
    """min(64, round(1.6 n^0.56)), at least 2: grows with the number of states, far slower than it.

    The exponent and the factor are fastai's rule of thumb for embeddings of categorical columns.

    Example:
        >>> [default_embedding_size(n) for n in (3, 9, 53, 1000)]
        [3, 5, 15, 64]
    """
    return max(2, min(_LARGEST_DEFAULT_SIZE, round(1.6 * num_embeddings**0.56)))


@dataclass(frozen=True)
class FeatureLayout:
    """The shape of one feature: all that the encoder needs to know of it.

    Args:
        name: name of the feature and of its tensor in a batch.
        kind: one of the kinds of this module.
        num_embeddings: number of ids, reserved ones included (0 for vectors).
        vector_size: length of a given vector (0 for the other kinds).
        embedding_size: width of its part of the context vector.

    Example:
        >>> Categorical(name="sex", values=("female", "male"), embedding_size=8).layout
        FeatureLayout(name='sex', kind='categorical', num_embeddings=4, vector_size=0, embedding_size=8)
    """

    name: str
    kind: Kind
    num_embeddings: int
    vector_size: int
    embedding_size: int

    @property
    def num_reserved(self) -> int:
        """Number of ids before that of the first value."""
        return len({"categorical": CATEGORICAL_RESERVED, "multi_categorical": MULTI_RESERVED}.get(self.kind, ()))

    @property
    def unknown_id(self) -> int | None:
        """Id of a value that the schema does not know; None where there is no such state."""
        return {"categorical": CATEGORICAL_UNKNOWN, "multi_categorical": MULTI_UNKNOWN}.get(self.kind)


class _Description(BaseModel):
    """What all kinds share: frozen, no unknown keys, and errors of this package instead of pydantic's."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(min_length=1)
    embedding_size: int | None = Field(default=None, ge=1, strict=True)
    source: str | None = Field(default=None, min_length=1)
    sensitive: bool = Field(default=False, strict=True)

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        if not self.sensitive:  # a schema of an older version has the same digest
            values.pop("sensitive", None)
        return values

    if not TYPE_CHECKING:  # Type checkers keep the signature that pydantic declares.

        def __init__(self, **settings: Any) -> None:
            try:
                super().__init__(**settings)
            except ValidationError as error:
                label = f"feature {settings.get('name')!r}"
                raise SchemaError(explain(error, label, known=type(self).model_fields)) from None

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if "." in name:
            raise ValueError(f"the name {name!r} contains a dot, which names of weights cannot; rename it, set source")
        return name

    @property
    def column(self) -> str:
        """The raw column that the feature reads."""
        return self.source or self.name


class _DatePartDescription(_Description):
    part: DatePart | None = None
    date_format: str | None = None
    missing: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check_source(self) -> "_DatePartDescription":
        if self.part and self.source is None:
            raise ValueError(f"part={self.part!r} needs source= the name of the date column")
        if self.date_format is not None and not self.part:
            raise ValueError("date_format= is for a part of a date; set part, too")
        return self


class _ValuesDescription(_Description):
    _reserved: ClassVar[tuple[str, ...]] = CATEGORICAL_RESERVED

    values: tuple[str, ...]
    num_buckets: int | None = Field(default=None, ge=1, le=MAX_BUCKETS, strict=True)
    buckets: tuple[int, ...] | None = None
    spelt_numbers: SpeltNumbers | None = None

    @field_validator("values", mode="before")
    @classmethod
    def _spell(cls, values: object) -> object:
        if not isinstance(values, (list, tuple)):
            return values
        names = tuple(canonical(value) for value in values)
        # A run of before the rule of spelling may have two values that are one by now: both keep their ids.
        has_fewer = len({*names}) < len({*map(repr, values)})
        as_written = all(isinstance(value, str) for value in values)
        return tuple(values) if has_fewer and as_written else names

    @model_validator(mode="after")
    def _check_values(self) -> "_ValuesDescription":
        Vocabulary(self.values, reserved=self._reserved)
        if not self.values and self.num_buckets is None:
            raise ValueError("values is empty; give one value or more, or num_buckets for values that share vectors")
        if self.buckets is not None and self.num_buckets is None:
            raise ValueError("buckets names buckets, and num_buckets says of how many; set both, or neither")
        for left, right in itertools.pairwise((-1, *(self.buckets or ()), self.num_buckets or MAX_BUCKETS)):
            if left >= right:
                raise ValueError(
                    f"the buckets must rise strictly from 0 to below num_buckets, but {right} follows {left}"
                )
        return self

    @property
    def num_shared(self) -> int:
        """Number of vectors that values which are not listed share; 0 where such values are unknown."""
        return len(self.buckets) if self.buckets is not None else self.num_buckets or 0

    @cached_property
    def shared_ids(self) -> NDArray[np.int64] | None:
        """Id of each bucket, -1 where it has no vector; None where values that are not listed are unknown."""
        if self.num_buckets is None:
            return None
        kept = range(self.num_buckets) if self.buckets is None else self.buckets
        ids = np.full(self.num_buckets, UNKNOWN, np.int64)
        ids[list(kept)] = len(self.vocabulary) + np.arange(len(kept))
        return ids

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The values and the reserved ids."""
        return Vocabulary(self.values, reserved=self._reserved)


class Categorical(_ValuesDescription, _DatePartDescription):
    """One value out of a fixed list.

    ids: 0 missing, 1 unknown (a value that is not in the list), 2 and up the values in their order, then the vectors
    that values which are not in the list share.

    Args:
        name: name of the feature.
        values: the known values; anything that `canonical` accepts.
        num_buckets: a value that is not among ``values`` is hashed into one of so many buckets (`bucket_of`), each of
            which has a vector; None: such values are unknown.
        buckets: numbers of the buckets that have a vector, rising; values of the others are unknown. None: all have.
        spelt_numbers: as `codes.spelt_numbers` has it, for columns of text: "10.10" is another value than "10.1".
        embedding_size: width of the embedding; None for `default_embedding_size`.
        source: the raw column if it differs from the name.
        sensitive: its values stand in no card, report, log, error or OpenAPI document.
        part: which part of a date the source gives: the month is "1" to "12", the weekday "Monday" to "Sunday".
        date_format: how the source writes dates that are not ISO 8601, as strptime has it: "%d/%m/%Y".
        missing: texts that say that the value is missing, such as "unknown"; capitals make no difference.
            "[any word]" among them stands for every text without a digit.

    Relation to its siblings: `MultiCategorical` for any number of values a row.

    Example:
        >>> Categorical(name="floor", values=(1, 2.0, "3")).vocabulary.id_of("3")
        4
    """

    kind: Literal["categorical"] = "categorical"

    @property
    def layout(self) -> FeatureLayout:
        """The shape of the feature."""
        return _layout(self.name, self.kind, len(self.vocabulary) + self.num_shared, self.embedding_size)


class MultiCategorical(_ValuesDescription):
    """Any number of values out of a fixed list; their embeddings are averaged.

    ids: 0 padding, 1 missing, 2 unknown, 3 empty (known to have no value, which is not the same as missing), 4 and up
    the values, then the shared vectors. A value that occurs twice in a row counts twice.

    Args:
        name: name of the feature.
        values: the known values; anything that `canonical` accepts.
        num_buckets: a value that is not among ``values`` is hashed into one of so many buckets (`bucket_of`), each of
            which has a vector; None: such values are unknown.
        buckets: numbers of the buckets that have a vector, rising; values of the others are unknown. None: all have.
        spelt_numbers: as `codes.spelt_numbers` has it, for columns of text: "10.10" is another value than "10.1".
        embedding_size: width of the embedding; None for `default_embedding_size`.
        source: the raw column if it differs from the name.
        sensitive: its values stand in no card, report, log, error or OpenAPI document.
        separator: splits a column of text ("red,blue") into values, as CSV needs it; None for columns of lists.

    Relation to its siblings: `Categorical` for exactly one value a row.

    Example:
        >>> MultiCategorical(name="brands", values=("acme", "hooli")).layout.num_embeddings
        6
    """

    _reserved: ClassVar[tuple[str, ...]] = MULTI_RESERVED

    kind: Literal["multi_categorical"] = "multi_categorical"
    separator: str | None = Field(default=None, min_length=1)

    @property
    def layout(self) -> FeatureLayout:
        """The shape of the feature."""
        return _layout(self.name, self.kind, len(self.vocabulary) + self.num_shared, self.embedding_size)


class Numerical(_DatePartDescription):
    """A number, binned; one embedding a bin.

    ids: 0 missing, 1 below the first edge, then one for each bin [edge i, edge i+1); the last bin has no upper end.

    Binned and not standardised: outliers do no harm, effects need not be monotone, and `missing` is one more id.
    A number outside the range that the edges were made from falls into the bin at that end; one beyond ``bounds`` does
    so with a remark.

    Args:
        name: name of the feature.
        edges: lower ends of all bins but the first, strictly rising.
        embedding_size: width of the embedding; None for `default_embedding_size`.
        source: the raw column if it differs from the name.
        sensitive: its values stand in no card, report, log, error or OpenAPI document.
        part: which part of a date the source gives.
        date_format: as of `Categorical`.
        missing: texts that say that the number is missing, such as "unknown"; capitals make no difference.
            "[any word]" among them stands for every text without a digit.

    Example:
        >>> Numerical(name="age", edges=(25, 35, 45)).layout.num_embeddings
        5
    """

    kind: Literal["numerical"] = "numerical"
    edges: tuple[float, ...]

    @model_validator(mode="after")
    def _check_edges(self) -> "Numerical":
        for left, right in itertools.pairwise(self.edges):
            if left >= right:
                raise ValueError(f"the edges must rise strictly, but {right} follows {left}")
        return self

    @property
    def layout(self) -> FeatureLayout:
        """The shape of the feature."""
        return _layout(self.name, self.kind, 2 + len(self.edges), self.embedding_size)

    @property
    def bounds(self) -> tuple[float, float]:
        """Numbers beyond these are far from all that the edges were made from: 100 times the largest edge, 100 years.

        Example:
            >>> Numerical(name="age", edges=(25, 35, 45)).bounds
            (-4500.0, 4500.0)
        """
        if self.part == "year" and self.edges:
            return self.edges[0] - FAR_YEARS, self.edges[-1] + FAR_YEARS
        largest = max(map(abs, self.edges), default=0.0)
        far = FAR_FACTOR * largest if largest else LARGEST_UNKNOWN
        return -far, far


class Vector(_Description):
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

    kind: Literal["vector"] = "vector"
    size: int = Field(ge=1)
    largest: float | None = Field(default=None, gt=0, le=LARGEST_UNKNOWN)

    @property
    def layout(self) -> FeatureLayout:
        """The shape of the feature."""
        size = self.embedding_size or min(_LARGEST_DEFAULT_SIZE, self.size)
        return FeatureLayout(self.name, self.kind, 0, self.size, size)

    @property
    def bounds(self) -> tuple[float, float]:
        """Components beyond these are far from all that training saw: 100 times ``largest``."""
        far = FAR_FACTOR * self.largest if self.largest is not None else LARGEST_UNKNOWN
        return -far, far

    @property
    def clipped_to(self) -> float:
        """What a component beyond ``bounds`` is read as, with its sign."""
        return self.largest if self.largest is not None else LARGEST_UNKNOWN


Feature = Annotated[Categorical | MultiCategorical | Numerical | Vector, Field(discriminator="kind")]
FEATURE_KINDS: dict[str, type[_Description]] = {
    "categorical": Categorical,
    "multi_categorical": MultiCategorical,
    "numerical": Numerical,
    "vector": Vector,
}


def explain(error: ValidationError, label: str, *, known: Mapping[str, object]) -> str:
    """Pydantic's findings as sentences: where, what, and the nearest allowed key.

    Args:
        error: what pydantic raised.
        label: what was being read, for the beginning of each sentence.
        known: the keys that are allowed at the top.
    """
    sentences: list[str] = []
    for finding in error.errors():
        place = ", ".join(str(step) for step in finding["loc"])
        cause = finding.get("ctx", {}).get("error")
        if finding["type"] == "extra_forbidden":
            key = str(finding["loc"][-1])
            sentences.append(f"{label}: unknown key {key!r}. {did_you_mean(key, known)}")
        elif isinstance(cause, ContextualBertError):
            sentences.append(f"{label}, {place}: {cause}" if place else f"{label}: {cause}")
        else:
            text = str(cause) if cause is not None else finding["msg"]
            given = "" if cause is not None or finding["type"] == "missing" else f" (given: {finding['input']!r:.80})"
            sentences.append(f"{label}, {place}: {text}{given}" if place else f"{label}: {text}{given}")
    return "\n".join(sentences)


def _layout(name: str, kind: Kind, num_embeddings: int, embedding_size: int | None) -> FeatureLayout:
    return FeatureLayout(name, kind, num_embeddings, 0, embedding_size or default_embedding_size(num_embeddings))
