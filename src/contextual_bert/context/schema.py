"""ContextSchema: which features the context has, as a frozen value that travels as JSON.

It deliberately does not know tables, tensors or models: `infer.py` makes one from a table, `encoding.py` encodes by it,
`encoder.py` builds modules from its layout. Paper: section 4, where d_context is 736.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, SerializeAsAny, ValidationError, field_validator, model_validator

from contextual_bert.arrow_types import without_views
from contextual_bert.atomic_files import replacing_file
from contextual_bert.context.kinds import KINDS, Feature, FeatureLayout, schema_fault
from contextual_bert.context.vocabulary import Vocabulary
from contextual_bert.errors import ConfigurationError, SchemaError, UnknownNameError, did_you_mean
from contextual_bert.json_text import json_text, reason_of, unreadable
from contextual_bert.places import JsonPlace

_ANEW = "Write the schema anew with `contextual-bert inspect`."
_GIVE = "Give the path of a schema.json; `contextual-bert inspect` writes one."


class ContextSchema(BaseModel):
    """The features of the context, in the order in which their embeddings are concatenated.

    c = [e_1; ...; e_m], its width is the sum of the embedding sizes.

    Symbols: c, width `context_size` (paper: c, d_context = 736); e_i, the embedding of feature i.

    Args:
        features: the features; no two of the same name. Two may read the same column.
        version: of the JSON format.

    Relation to its siblings: `infer_schema` makes one from a table, `encode_table` and `encode_records` encode by it,
    `ContextEncoder(schema.layout)` embeds.

    Reference: paper, section 4.

    Example:
        >>> from contextual_bert.context import Categorical, Numerical
        >>> age, sex = Numerical(name="age", edges=(30, 60)), Categorical(name="sex", values=("f", "m"))
        >>> schema = ContextSchema(features=(age, sex))
        >>> schema.names, schema.with_context_size(736).context_size
        (('age', 'sex'), 736)
        >>> ContextSchema.from_json(schema.to_json()) == schema
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: tuple[SerializeAsAny[Feature], ...]
    version: Literal[1] = 1

    if not TYPE_CHECKING:  # Type checkers keep the signature that pydantic declares.

        def __init__(self, **settings: Any) -> None:
            try:
                super().__init__(**settings)
            except ValidationError as error:
                raise schema_fault(error, known=type(self).model_fields, of="the context schema") from None

    @field_validator("features", mode="before")
    @classmethod
    def _read_features(cls, values: object) -> object:
        """Make the features that are given as JSON has them, each by its kind."""
        if not isinstance(values, (list, tuple)):
            return values
        return tuple(_read_feature(value, index) for index, value in enumerate(values))

    @model_validator(mode="after")
    def _check_names(self) -> "ContextSchema":
        repeated = [name for name, count in Counter(self.names).items() if count > 1]
        if repeated:
            raise ValueError(f"the feature name {repeated[0]!r} occurs twice; rename one and set its source")
        return self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The raw columns that are read, each once."""
        return tuple(dict.fromkeys(feature.column for feature in self.features))

    @cached_property
    def read_columns(self) -> tuple[str, ...]:
        """The raw columns of the features that are not silenced, each once."""
        return tuple(dict.fromkeys(feature.column for feature in self.features if not feature.silenced))

    @cached_property
    def code_columns(self) -> tuple[str, ...]:
        """The raw columns that hold categories, and are to be read as they are spelt: "10.10" is not "10.1"."""
        numbers = {feature.column for feature in self.features if feature.cells == "numbers"}
        codes = dict.fromkeys(feature.column for feature in self.features if feature.cells == "codes")
        return tuple(column for column in codes if column not in numbers)

    @cached_property
    def read_features(self) -> tuple[Feature, ...]:
        """The features that a model reads, in order: those that are not silenced.

        Where every feature is silenced, the first is read, and is missing in every row: a method needs a context.
        """
        return tuple(feature for feature in self.features if not feature.silenced) or self.features[:1]

    @cached_property
    def layout(self) -> tuple[FeatureLayout, ...]:
        """The shapes that the encoder is built from, of ``read_features``."""
        return tuple(feature.layout for feature in self.read_features)

    @cached_property
    def context_size(self) -> int:
        """Width of the concatenated embeddings."""
        return sum(shape.embedding_size for shape in self.layout)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change whenever the schema means something else."""
        text = json_text(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def feature(self, name: str) -> Feature:
        """The feature of that name."""
        for feature in self.features:
            if feature.name == name:
                return feature
        raise UnknownNameError(f"the context has no feature {name!r}", allowed=did_you_mean(name, self.names))

    def with_embedding_sizes(self, sizes: Mapping[str, int]) -> "ContextSchema":
        """A copy in which the named features have these embedding sizes."""
        for name in sizes:
            self.feature(name)
        values = self.to_dict()
        for feature in values["features"]:
            if feature["name"] in sizes:
                feature["embedding_size"] = sizes[feature["name"]]
        return self.from_dict(values)

    def with_sensitive(self, names: Iterable[str]) -> "ContextSchema":
        """A copy in which the features of these names, or that read these columns, are sensitive."""
        names = tuple(names)
        for name in names:
            if name not in self.names and name not in self.columns:
                raise UnknownNameError(
                    f"the context has no feature {name!r}", allowed=did_you_mean(name, {*self.names, *self.columns})
                )
        values = self.to_dict()
        for feature, description in zip(self.features, values["features"], strict=True):
            if feature.name in names or feature.column in names:
                description["sensitive"] = True
        return self.from_dict(values)

    def with_silenced(self, names: Iterable[str]) -> "ContextSchema":
        """A copy in which the features of these names are silenced, and no others."""
        names = tuple(names)
        for name in names:
            self.feature(name)
        values = self.to_dict()
        for feature in values["features"]:
            feature["silenced"] = feature["name"] in names
        return self.from_dict(values)

    @cached_property
    def silenced_names(self) -> tuple[str, ...]:
        """Names of the silenced features, in order."""
        return tuple(feature.name for feature in self.features if feature.silenced)

    @cached_property
    def sensitive_names(self) -> frozenset[str]:
        """Names of the sensitive features, and of the columns that they read."""
        return frozenset(name for each in self.features if each.sensitive for name in (each.name, each.column))

    def names_of(self, context: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.str_] | list[list[str]]]:
        """Return feature -> the name, or names, of each row of an encoded context: segments of a report.

        Sensitive features are left out, for names tell their values. So are silenced ones, which say nothing.
        """
        shown = [feature for feature in self.read_features if not feature.sensitive and feature.name in context]
        return {feature.name: feature.names(context[feature.name]) for feature in shown}

    def with_context_size(self, context_size: int) -> "ContextSchema":
        """A copy whose embedding sizes sum to exactly `context_size`, in proportion to the present ones.

        Every feature keeps at least one component; what rounding leaves over goes to the largest remainders, the
        earlier feature first.
        """
        num_features = len(self.layout)
        if num_features == 0 or context_size < num_features:
            raise ConfigurationError(
                f"a context of {num_features} features cannot have size {context_size}",
                allowed=f"Allowed: at least one component a feature, so {max(1, num_features)} or more.",
            )
        present = [shape.embedding_size for shape in self.layout]
        spare, total = context_size - num_features, sum(present)
        sizes = [1 + spare * size // total for size in present]
        remainders = [spare * size % total for size in present]
        order = sorted(range(num_features), key=lambda index: (-remainders[index], index))
        for index in order[: context_size - sum(sizes)]:
            sizes[index] += 1
        return self.with_embedding_sizes({shape.name: size for shape, size in zip(self.layout, sizes, strict=True)})

    def for_items(self, items: Vocabulary) -> "ContextSchema":
        """A copy whose histories read the ids of this vocabulary; itself where there is no history."""
        if not any(feature.shares_items for feature in self.features):
            return self
        return ContextSchema(features=tuple(feature.for_items(items) for feature in self.features))

    def without_histories(self) -> "ContextSchema":
        """A copy without the histories; itself where there is none."""
        kept = tuple(feature for feature in self.features if not feature.shares_items)
        return self if len(kept) == len(self.features) else ContextSchema(features=kept)

    @cached_property
    def history_columns(self) -> tuple[str, ...]:
        """The raw columns of histories, each once."""
        return tuple(dict.fromkeys(feature.column for feature in self.features if feature.shares_items))

    def with_ranges(self, table: pa.Table) -> "ContextSchema":
        """A copy whose vectors have the range of these rows, where they had none; columns that are absent stay so.

        Args:
            table: the rows to learn from.

        Raises:
            DataError: a vector beyond its range, or one that stands out against all others, with its row and column.
        """
        table = without_views(table)
        features = tuple(feature.learn_range(table) for feature in self.features)
        return self if features == self.features else ContextSchema(features=features)

    def is_like(self, other: "ContextSchema | None") -> bool:
        """Return True if the features are equal. A range that is unknown here makes no difference."""
        if other is None or self.names != other.names:
            return False
        pairs = zip(self.features, other.features, strict=True)
        return all(mine in (theirs, theirs.without_range()) for mine, theirs in pairs)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able values; settings at their default (None) are left out."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ContextSchema":
        """From what `to_dict` gave; an unknown key or kind is an error with a suggestion."""
        given: object = values
        if not isinstance(given, dict) or not isinstance(given.get("features"), (list, tuple)):
            place = JsonPlace(("features",) if isinstance(given, dict) and "features" in given else ())
            raise SchemaError(
                f"a context schema is an object with a list under 'features', not {given!r:.80}", place=place
            )
        return cls(**values)

    def to_json(self) -> str:
        """As text that a person can edit."""
        return json_text(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "ContextSchema":
        """From what `to_json` gave."""
        try:
            values = json.loads(text)
        except RecursionError:
            raise SchemaError("nested too deep", place=JsonPlace(), fix=_ANEW) from None
        except ValueError as error:
            raise SchemaError(f"not JSON: {reason_of(error)}", place=JsonPlace(), fix=_ANEW) from None
        return cls.from_dict(values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON whole or not at all: to a temporary name first, which is then renamed."""
        path = Path(path)
        with replacing_file(path) as partial:
            partial.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ContextSchema":
        """Read what `save` wrote."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")  # some editors write a mark of byte order
        except PermissionError as error:
            raise unreadable(os.fspath(path), error, error=SchemaError) from None
        except (OSError, UnicodeDecodeError) as error:
            reason = "there is no such file" if isinstance(error, FileNotFoundError) else _reason(error)
            raise SchemaError(reason, place=JsonPlace(file=os.fspath(path)), fix=_GIVE) from None
        try:
            return cls.from_json(text)
        except SchemaError as error:
            place = error.place if isinstance(error.place, JsonPlace) else JsonPlace()
            raise error.at(replace(place, file=os.fspath(path))) from None


def _read_feature(value: object, index: int) -> object:
    if isinstance(value, Feature) or not isinstance(value, dict):
        return value
    values, of = cast("dict[str, Any]", value), f"feature {value.get('name')!r}"
    kind = values.get("kind")
    if str(kind) not in KINDS:
        place = JsonPlace((index, "kind"), words=f"{of}, kind")
        raise SchemaError(f"unknown kind {kind!r}", place=place, value=kind, allowed=did_you_mean(str(kind), KINDS))
    try:
        return KINDS[str(kind)](**values)
    except SchemaError as error:
        place = error.place if isinstance(error.place, JsonPlace) else JsonPlace(words=of)
        raise error.at(replace(place, inner=(index, *place.inner))) from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return f"it is not UTF-8 ({error})" if isinstance(error, UnicodeDecodeError) else (error.strerror or str(error))
