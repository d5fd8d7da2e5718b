"""The part of a date that a feature may read instead of its column's values: the year, the month or the weekday."""

from collections.abc import Sequence

import pyarrow as pa
from pydantic import model_validator

from contextual_bert.arrow_types import is_text, value_type
from contextual_bert.context.dates import DatePart, are_iso_dates
from contextual_bert.context.kinds.feature import DateReading, Feature, InferenceSettings
from contextual_bert.context.vocabulary import canonical_array


class DatePartFeature(Feature, frozen=True):
    """A feature that can read a part of a date, and that has words for a missing value."""

    part: DatePart | None = None
    date_format: str | None = None
    missing: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check_source(self) -> "DatePartFeature":
        if self.part and self.source is None:
            raise ValueError(f"part={self.part!r} needs source= the name of the date column")
        if self.date_format is not None and not self.part:
            raise ValueError("date_format= is for a part of a date; set part, too")
        return self

    @property
    def date(self) -> DateReading | None:
        return DateReading(self.part, self.date_format) if self.part is not None else None

    @property
    def missing_words(self) -> Sequence[str]:
        return self.missing or ()


def holds_dates(array: pa.Array, settings: InferenceSettings) -> bool:
    """Return whether a column holds dates: of that type, or as text in one format."""
    kind = value_type(array.type)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    return is_text(kind) and (settings.date_format is not None or are_iso_dates(canonical_array(array)))
