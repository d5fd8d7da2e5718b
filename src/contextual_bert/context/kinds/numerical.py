"""Numerical: a number, binned; one embedding a bin."""

import itertools
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import model_validator

from contextual_bert.arrow_types import is_text, value_type
from contextual_bert.context.binning import edges_of_short_floats, quantile_edges
from contextual_bert.context.columns import to_numbers
from contextual_bert.context.hints import (
    PLACEHOLDER,
    are_named_years,
    codes_hint,
    date_of_digits,
    groups_hint,
    is_named_id,
    placeholder_hint,
    serial_days_hint,
)
from contextual_bert.context.kinds.date_parts import DatePartFeature
from contextual_bert.context.kinds.feature import (
    LOOKS_LIKE_ID,
    MISSING,
    Cells,
    EncodedColumn,
    FeatureLayout,
    Finding,
    InferenceSettings,
    feature_name,
    feature_source,
    id_layout,
    joined_remarks,
    sensitive_schema,
)
from contextual_bert.context.ranges import FAR_FACTOR, LARGEST_UNKNOWN, Outside, outside_of, stray_threshold
from contextual_bert.context.raw_values import number_of
from contextual_bert.context.spelling import DecimalMark, are_written, number_pattern
from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.context.withheld import WITHHELD
from contextual_bert.nouns import counted

FAR_YEARS = 100  # beside the years of training
_FEWEST_NUMBERS_OF_AN_ID = 100  # below, "every number differs" says that the table is small
_MOST_CODES = 1000  # different whole numbers: of more, an override would make mostly rare categories
_MOST_STRAYS = 0.5  # of the numbers: of more, the others are apart
_NUMBER_TEXT = r"^[+-]?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})$"


class Numerical(DatePartFeature, frozen=True):
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
        decimal: the mark before the decimals of a number that is text, "." or ",". Marks between thousands are then
            read, too. None: a point, and nothing between thousands.

    Example:
        >>> Numerical(name="age", edges=(25, 35, 45)).layout.num_embeddings
        5
    """

    has_missing_words: ClassVar[bool] = True

    kind: Literal["numerical"] = "numerical"
    edges: tuple[float, ...]
    decimal: DecimalMark | None = None

    @model_validator(mode="after")
    def _check_edges(self) -> "Numerical":
        for left, right in itertools.pairwise(self.edges):
            if left >= right:
                raise ValueError(f"the edges must rise strictly, but {right} follows {left}")
        return self

    @property
    def layout(self) -> FeatureLayout:
        return id_layout(self, 1 + len(self.edges))

    @property
    def cells(self) -> Cells:
        return "numbers"

    @property
    def decimal_mark(self) -> DecimalMark | None:
        return self.decimal

    @property
    def record_type(self) -> pa.DataType:
        return pa.float64()

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

    @property
    def verdict(self) -> str:
        """The words for a number beyond ``bounds``."""
        is_told = self.edges and not self.sensitive
        edges = f", {self.edges[0]:g} to {self.edges[-1]:g}," if is_told else ""
        return f"is far outside of the bins{edges} and is read as the bin at that end"

    @classmethod
    def claims(cls, array: pa.Array, settings: InferenceSettings) -> bool:
        """Whole, floating and decimal numbers; text, where the decimal mark is named and each cell is a number."""
        kind = value_type(array.type)
        if is_text(kind):
            return are_written(canonical_array(array), settings.decimal)
        return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)

    @classmethod
    def infer(cls, column: str, array: pa.Array, settings: InferenceSettings) -> Finding:
        numbers = to_numbers(array, column=column, decimal=settings.decimal)
        is_forced = settings.is_forced
        is_missing = np.isnan(numbers)
        unique, counts = np.unique(numbers[~is_missing], return_counts=True)
        distinct, num_present = len(unique), int(counts.sum())
        if distinct == 0:
            return Finding(None, "no row has a value", 0)
        if distinct == 1 and num_present == len(array):
            return Finding(None, "constant: every row says the same", distinct)
        is_whole = pa.types.is_integer(array.type)
        is_each_once = is_whole and distinct == num_present >= _FEWEST_NUMBERS_OF_AN_ID
        if is_each_once and not is_forced and not are_named_years(column, unique):
            dates = date_of_digits(unique)
            looks = dates or f"{LOOKS_LIKE_ID}: every whole number is different"
            reason = f"{looks}; override to keep it as a number ({column}=numerical)"
            if dates or not is_named_id(column, distinct=distinct):  # whose name does not say that it is an id
                return Finding(None, reason, distinct, warning=f"left out: {reason}")
            return Finding(None, reason, distinct, remark=f"left out: {reason}")
        edges = infer_edges(numbers, unique, counts, settings, num_bins=settings.num_bins)
        if pa.types.is_floating(stored := value_type(array.type)) and stored.bit_width < 64:
            edges = edges_of_short_floats(edges, np.float32 if stored.bit_width == 32 else np.float16)
        reach = "" if settings.sensitive else f" from {unique[0]:g} to {unique[-1]:g}"
        remark = "" if is_forced else _hints(column, unique, counts, settings, is_whole=is_whole)
        strays = "" if PLACEHOLDER in remark else _strays(numbers[~is_missing], settings)
        is_coarse = is_whole and not is_forced and not remark and settings.num_bins < distinct <= _MOST_CODES
        told = f"if they name something, override {column}=categorical" if is_coarse else ""
        reason = joined_remarks(f"{len(edges) + 1} bins{reach}{strays}", remark, told)
        feature = cls(name=feature_name(column), source=feature_source(column), edges=edges, decimal=settings.decimal)
        return Finding("numerical", reason, distinct, (feature,), warning=remark)

    def read_value(self, value: object) -> float:
        return number_of(value, decimal=self.decimal)

    def encode_values(self, array: pa.Array, *, file: str | None = None) -> EncodedColumn:
        numbers = to_numbers(array, file=file, column=self.column, decimal=self.decimal)
        bins = np.searchsorted(np.asarray(self.edges, np.float64), numbers, side="right") + 1
        bins[np.isnan(numbers)] = MISSING
        return EncodedColumn(bins.astype(np.int64, copy=False), outside=outside_of(self, numbers))

    def find_outside(self, array: pa.Array) -> Outside | None:
        return outside_of(self, to_numbers(array, column=self.column, decimal=self.decimal))

    @property
    def example(self) -> object:
        if self.sensitive or not self.edges:
            return None
        edge = self.edges[len(self.edges) // 2]
        return int(edge) if edge == int(edge) else edge

    @property
    def choices(self) -> list[str]:
        return bin_names(self.edges)

    def say(self, array: pa.Array) -> pa.Array:
        if self.part is not None:  # of a date, which is said whole
            return super().say(array)
        numbers = pa.array(to_numbers(array, column=self.column, decimal=self.decimal), from_pandas=True)
        return canonical_array(numbers, column=self.column)

    def json_schema(self) -> dict[str, Any]:
        pattern = _NUMBER_TEXT if self.decimal is None else number_pattern(self.decimal)
        kinds: list[dict[str, Any]] = [{"type": "number"}, {"type": "string", "pattern": pattern}]
        if self.sensitive:
            return sensitive_schema(*kinds)
        about = "A number."
        if edges := self.edges:
            names = edge_names(edges)
            about = f"A number; bins begin at {names[0]} and end at {names[-1]}, what lies beyond falls into the "
            about += "first or the last."
        examples = [*edges[:1], *edges[-1:]]
        return {"anyOf": [*kinds, {"type": "null"}], "examples": examples, "description": f"{about} null: missing."}


def _hints(
    column: str,
    unique: NDArray[np.float64],
    counts: NDArray[np.int64],
    settings: InferenceSettings,
    *,
    is_whole: bool,
) -> str:
    """Return what distinct numbers may mean instead, for the person who trains; empty where they look like numbers."""
    placeholders = placeholder_hint(column, unique, counts) if not settings.sensitive else ""
    serial = serial_days_hint(column, unique) if not settings.sensitive else ""
    dates = joined_remarks(date_of_digits(unique), serial)
    codes = codes_hint(column, unique, counts) if is_whole and not dates else ""
    if is_whole and not dates and not codes:
        codes = groups_hint(column, unique)
    return joined_remarks(dates, codes, placeholders)


def infer_edges(
    numbers: NDArray[np.float64],
    unique: NDArray[np.float64],
    counts: NDArray[np.int64],
    settings: InferenceSettings,
    *,
    num_bins: int,
) -> tuple[float, ...]:
    """Return the edges of the bins of a column of numbers, of which missing ones are NaN."""
    customers = settings.customers
    if customers is not None:
        order = np.argsort(numbers, kind="stable")  # NaN comes last
        customers = customers[order][: int(counts.sum())]
    return quantile_edges(unique, counts, num_bins=num_bins, min_count=settings.min_count, customers=customers)


def _strays(numbers: NDArray[np.float64], settings: InferenceSettings) -> str:
    """Return a remark where some numbers stand out by orders of magnitude; in a bin of their own they do no harm."""
    found = numbers[np.abs(numbers) >= stray_threshold(np.abs(numbers))]
    if not 0 < len(found) <= _MOST_STRAYS * len(numbers):
        return ""
    rows = counted(len(found), "row")
    number = WITHHELD if settings.sensitive else f"{found[0]:g}"
    return f"; {number} stands out ({rows}): leave the cell empty if it says 'no data'"


def edge_names(edges: tuple[float, ...]) -> list[str]:
    """Return the edges as text, of as many digits as their whole part has and as tell them apart, six at least.

    Example:
        >>> edge_names((20, 29.333333333333332)), edge_names((20240101, 20240115))
        (['20', '29.3333'], ['20240101', '20240115'])
    """
    least = max((len(f"{abs(edge):.0f}") for edge in edges), default=0)
    texts: list[str] = []
    for digits in range(min(max(least, 6), 15), 18):  # 17 tell any two numbers apart
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len({*texts}) == len(edges):
            break
    return texts


def bin_names(edges: tuple[float, ...]) -> list[str]:
    """Return the names of the bins between these edges: "below 20", "20 to 30", "30 and above"."""
    texts = edge_names(edges)
    middle = [f"{low} to below {high}" for low, high in itertools.pairwise(texts)]
    return [f"below {texts[0]}", *middle, f"{texts[-1]} and above"] if texts else ["any"]
