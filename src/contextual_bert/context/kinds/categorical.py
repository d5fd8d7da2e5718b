"""Categorical: one value out of a fixed list."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import is_text, value_type
from contextual_bert.context.columns import holds_text, spelt_numbers
from contextual_bert.context.hints import missing_text_hint, other_spelling, pieces_hint, texts_of_numbers_hint
from contextual_bert.context.kinds.date_parts import DatePartFeature, holds_dates
from contextual_bert.context.kinds.feature import (
    LOOKS_LIKE_ID,
    MISSING,
    MISSING_NAME,
    SINGLE_VALUE,
    UNKNOWN_NAME,
    EncodedColumn,
    FeatureLayout,
    Finding,
    InferenceSettings,
    count_missing,
    feature_name,
    feature_source,
    id_layout,
    joined_remarks,
    sensitive_schema,
)
from contextual_bert.context.kinds.listed import ListedFeature, infer_values, too_rare
from contextual_bert.context.spelling import FLOAT, are_written
from contextual_bert.context.vocabulary import canonical_array

CATEGORICAL_RESERVED = (MISSING_NAME, UNKNOWN_NAME)
CATEGORICAL_UNKNOWN = CATEGORICAL_RESERVED.index(UNKNOWN_NAME)

_FEWEST_TEXTS_OF_AN_ID = 20  # below, "every value differs" says that the table is small


class Categorical(ListedFeature, DatePartFeature, frozen=True):
    """One value out of a fixed list.

    ids: 0 missing, 1 unknown (a value that is not in the list), 2 and up the values in their order, then the vectors
    that values which are not in the list share.

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
        part: which part of a date the source gives: the month is "1" to "12", the weekday "Monday" to "Sunday".
        date_format: how the source writes dates that are not ISO 8601, as strptime has it: "%d/%m/%Y".
        missing: texts that say that the value is missing, such as "unknown"; capitals make no difference.
            "[any word]" among them stands for every text without a digit.

    Relation to its siblings: `MultiCategorical` for any number of values a row.

    Example:
        >>> Categorical(name="floor", values=(1, 2.0, "3")).vocabulary.id_of("3")
        4
    """

    reserved: ClassVar[tuple[str, ...]] = CATEGORICAL_RESERVED

    kind: Literal["categorical"] = "categorical"

    @property
    def layout(self) -> FeatureLayout:
        return id_layout(self, len(self.values) + self.num_shared)

    @property
    def record_type(self) -> pa.DataType:
        return pa.string()

    @classmethod
    def claims(cls, array: pa.Array, settings: InferenceSettings) -> bool:
        """Text that is no date and no number, and truth values."""
        kind = value_type(array.type)
        if not is_text(kind):
            return pa.types.is_boolean(kind)
        return not holds_dates(array, settings) and not are_written(canonical_array(array), settings.decimal)

    @classmethod
    def infer(cls, column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
        strings = canonical_array(array, column=column)
        num_present = len(array) - count_missing(strings)
        is_forced = settings.is_forced
        spelling = other_spelling(strings) if not is_forced and is_text(array.type) else ""
        spelt = spelt_numbers(strings) if holds_text(array) else None
        plain = ""
        if not is_forced and spelt == "once" and not spelling:
            distinct_texts = pc.unique(pc.drop_null(strings))
            if pc.all(pc.match_substring_regex(distinct_texts, FLOAT)).as_py():
                plain = texts_of_numbers_hint(column, distinct_texts, num_bins=settings.num_bins)
        pieces = pieces_hint(column, strings) if not is_forced and not spelling and is_text(array.type) else ""
        written = pc.unique(pc.drop_null(strings)) if not is_forced and is_text(array.type) else strings.slice(0, 0)
        absent = missing_text_hint(column, written) if not settings.sensitive else ""
        warning = joined_remarks(spelling, plain, pieces, absent)
        if spelling and settings.hash_buckets is None:
            settings = replace(settings, hash_buckets=0)  # dates and numbers that are not read as such name nobody
        kept, rarity = infer_values(strings, settings, cls.reserved, spelt=spelt)
        distinct, reason = kept.num_distinct, None
        if distinct == 1 and num_present == len(array):
            reason = "constant: every row says the same"
        elif is_forced:
            pass
        elif distinct > _FEWEST_TEXTS_OF_AN_ID and 2 * distinct > num_present:
            reason = f"{LOOKS_LIKE_ID}: {distinct:,} different values in {num_present:,} rows; override to keep it"
            if spelling:  # one reason, and not two that differ
                return Finding(None, spelling, distinct, warning=f"left out: {spelling}")
        if reason is None and not kept.values and kept.num_buckets is None:
            reason = too_rare(settings)
        if reason is not None:
            is_id = not is_forced and reason.startswith(LOOKS_LIKE_ID)
            remark = f"left out: {reason}" if is_id else ""
            return Finding(None, joined_remarks(reason, warning), distinct, remark=remark, warning=warning)
        shared: dict[str, Any] = {"num_buckets": kept.num_buckets, "buckets": kept.buckets, "spelt_numbers": spelt}
        feature = cls(name=feature_name(column), source=feature_source(column), values=kept.values, **shared)
        reason = joined_remarks(kept.reason(rarity=rarity), warning)
        return Finding("categorical", reason, distinct, (feature,), warning=warning)

    def read_value(self, value: object) -> str:
        return self.read_single(value)

    def encode_values(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        strings = canonical_array(array, file=file, column=self.column)
        return EncodedColumn(*self.find_ids(strings, array, missing=MISSING, unknown=CATEGORICAL_UNKNOWN))

    def json_schema(self) -> dict[str, Any]:
        if self.sensitive:
            return sensitive_schema(SINGLE_VALUE)
        known, examples = self.listed_schema()
        about = f"One of {len(self.values):,} values; another one {self.fate_of_others}. null: missing."
        return {"anyOf": [known, SINGLE_VALUE, {"type": "null"}], "examples": examples, "description": about}
