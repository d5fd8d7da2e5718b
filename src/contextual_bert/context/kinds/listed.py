"""The values that a feature lists, and the buckets of those that it does not: shared by both kinds of categories."""

import itertools
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from contextual_bert.arrow_types import checked_text
from contextual_bert.context.columns import SpeltNumbers, holds_text
from contextual_bert.context.kinds.feature import Feature, InferenceSettings
from contextual_bert.context.limits import MAX_BUCKETS
from contextual_bert.context.rare_values import KeptValues, Rarity, buckets_of, keep_values
from contextual_bert.context.raw_values import check_single
from contextual_bert.context.vocabulary import NULL, UNKNOWN, Vocabulary, canonical

MOST_ENUMERATED, NUM_EXAMPLES = 50, 10


class ListedFeature(Feature, frozen=True):
    """A feature with a list of values, each of which has an id; others share ids by a hash, or are unknown."""

    has_codes: ClassVar[bool] = True

    values: tuple[str, ...]
    num_buckets: int | None = Field(default=None, ge=1, le=MAX_BUCKETS, strict=True)
    buckets: tuple[int, ...] | None = None
    spelt_numbers: SpeltNumbers | None = None

    @field_validator("values", mode="before")
    @classmethod
    def _spell(cls, values: object) -> object:
        if not isinstance(values, (list, tuple)):
            return values
        return tuple(canonical(value) for value in values)

    @model_validator(mode="after")
    def _check_values(self) -> "ListedFeature":
        Vocabulary(self.values, reserved=self.reserved)
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
    def listed(self) -> tuple[str, ...]:
        return self.values

    @property
    def num_shared(self) -> int:
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
        return Vocabulary(self.values, reserved=self.reserved)

    def find_ids(
        self, strings: pa.Array, array: pa.Array, *, missing: int, unknown: int
    ) -> tuple[NDArray[np.int64], dict[str, int], dict[str, int]]:
        """Return the ids of values; how often each unknown value occurred; how often each that has a bucket's id.

        Args:
            strings: the values in their one spelling; null and blank text are missing.
            array: the column that they are from, which tells numbers from codes.
            missing, unknown: the ids of these states.
        """
        rule = self.spelt_numbers
        ids = self.vocabulary.find(strings, is_code=rule == "variously" or (rule == "once" and holds_text(array)))
        is_unlisted = ids == UNKNOWN
        ids[ids == NULL] = missing
        if not is_unlisted.any():
            return ids, {}, {}
        encoded = strings.filter(pa.array(is_unlisted)).dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        values = encoded.dictionary.to_pylist()
        counts = np.bincount(codes, minlength=len(values)).tolist()
        found = np.array([missing if not value.strip() else UNKNOWN for value in values], np.int64)
        if (of_buckets := self.shared_ids) is not None:
            is_given = found == UNKNOWN
            is_code = rule == "variously"
            found[is_given] = of_buckets[buckets_of(encoded.dictionary, len(of_buckets), is_code=is_code)[is_given]]
        counted = [*zip(values, counts, found.tolist(), strict=True)]
        found[found == UNKNOWN] = unknown
        ids[is_unlisted] = found[codes]
        return (
            ids,
            {value: count for value, count, place in counted if place == UNKNOWN},
            {value: count for value, count, place in counted if place not in (UNKNOWN, missing)},
        )

    def read_single(self, value: object) -> str:
        """Return one value of a record in its one spelling.

        Raises:
            DataError: it is not a single value.
        """
        name = checked_text(canonical(check_single(value)))
        if self.spelt_numbers == "once" and not isinstance(value, str):  # the column is text, and 10.5 its "10.50"
            index = int(self.vocabulary.find(pa.array([name]))[0])
            return name if index < 0 else self.vocabulary.value_of(index)
        return name

    def listed_schema(self) -> tuple[dict[str, Any], list[str]]:
        """Return the JSON schema of a listed value, an enumeration where there are few; and some of them."""
        examples = list(self.values[:NUM_EXAMPLES])
        if len(self.values) <= MOST_ENUMERATED:
            return {"type": "string", "enum": list(self.values), "title": "known values"}, examples
        title = "known values, all of them in /v1/schema"
        return {"type": "string", "examples": examples, "title": title}, examples

    @property
    def fate_of_others(self) -> str:
        """The words for what becomes of a value that is not listed."""
        return f"shares one of {self.num_shared:,} vectors, by a hash" if self.num_shared else "counts as unknown"


def infer_values(
    strings: pa.Array,
    settings: InferenceSettings,
    reserved: tuple[str, ...],
    *,
    spelt: SpeltNumbers | None,
    lengths: NDArray[np.int64] | None = None,
) -> tuple[KeptValues, Rarity]:
    """Return the values of enough rows or customers, the buckets of the others, and what was enough.

    Args:
        strings: the values.
        settings: what is counted, and how many are enough. Where an override asks for the kind, all values that are
            frequent enough stay.
        reserved: names that no value may have.
        spelt: how the column spells its numbers.
        lengths: how many of the strings each row has. None: one.
    """
    owners = settings.customers
    if owners is not None and lengths is not None:
        owners = np.repeat(owners, lengths)
    most = None if settings.is_forced else settings.max_categories
    rarity = Rarity(settings.min_count, owners, most=most, num_buckets=settings.hash_buckets)
    return keep_values(strings, rarity, reserved=reserved, is_code=spelt == "variously"), rarity


def too_rare(settings: InferenceSettings) -> str:
    """Return the reason why no value of a column is kept."""
    if settings.customers is None:
        return f"no value occurs {settings.min_count} times or more"
    return f"no value is that of {settings.min_count} customers or more"
