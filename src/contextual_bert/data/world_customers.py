"""Customers of the stylist world: context columns, drawing of customers, and the table read back as numbers.

Missing is part of the story: a customer who leaves a field empty HAS no such preference, so nothing is hidden from
the oracle. Deliberately knows nothing of articles, styles of outfits or probabilities.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.arrow_types import is_list
from contextual_bert.data.world_tables import (
    CATEGORIES,
    CLOTHING_SIZES,
    COLOURS,
    COUNTRIES,
    OCCASIONS,
    PRICE_TIERS,
    REFUSABLE,
    STYLES,
    Booleans,
    Floats,
    Integers,
)
from contextual_bert.errors import DataError, SchemaError, did_you_mean

GENDERS = ("female", "male")
HAIR_COLOURS = ("black", "blond", "brown", "grey", "red")
SMALLEST_SHOE, SHOE_STEP = 36, 2.0  # European sizes; two of them are one step of CLOTHING_SIZES
CONTEXT_TYPES: dict[str, pa.DataType] = {
    "gender": pa.string(),
    "age": pa.int64(),
    "country": pa.string(),
    "occasion": pa.string(),
    "preferred_styles": pa.list_(pa.string()),
    "preferred_colours": pa.list_(pa.string()),
    "preferred_brands": pa.list_(pa.string()),
    "nogo_types": pa.list_(pa.string()),
    "clothing_size": pa.string(),
    "shoe_size": pa.int64(),
    "price_preference": pa.string(),
    "hair_colour": pa.string(),
    "newsletter": pa.bool_(),
    "account_age_days": pa.int64(),
}
IS_REFUSABLE = np.array([[name == category for category in CATEGORIES] for name in REFUSABLE])
MEANINGLESS_COLUMNS = ("hair_colour", "newsletter", "account_age_days")


@dataclass(frozen=True)
class Customers:
    """Numbers that describe each row's customer; -1 or NaN for an empty field.

    Shapes: gender, country, occasion, age, clothing_size, shoe_size, price (rows,); preferred_styles (rows, styles),
    preferred_colours (rows, colours), preferred_brands (rows, brands), nogos (rows, categories).

    Example:
        >>> customers = Customers.draw(3, num_brands=8, has_nogos=True, generator=np.random.default_rng(0))
        >>> customers.preferred_brands.shape, len(customers.take(np.array([0, 0, 2, 1])))
        ((3, 8), 4)
    """

    gender: Integers
    country: Integers
    occasion: Integers
    age: Floats
    clothing_size: Floats
    shoe_size: Floats
    price: Floats
    preferred_styles: Booleans
    preferred_colours: Booleans
    preferred_brands: Booleans
    nogos: Booleans

    def __len__(self) -> int:
        return len(self.gender)

    def take(self, index: Integers) -> Self:
        """The rows in `index`, in that order."""
        return replace(self, **{field.name: getattr(self, field.name)[index] for field in fields(self)})

    def replace_occasion(self, occasion: Integers) -> Self:
        """The same customers on other occasions."""
        return replace(self, occasion=occasion)

    @classmethod
    def draw(cls, num_customers: int, *, num_brands: int, has_nogos: bool, generator: np.random.Generator) -> Self:
        """Draws customers independently, each with one occasion; people of one gender share size habits."""
        gender = generator.choice([0, 1, -1], num_customers, p=[0.5, 0.42, 0.08])
        middle = np.where(gender == 0, 1.8, np.where(gender == 1, 3.0, 2.4))
        clothing = np.clip(np.rint(middle + 1.2 * generator.standard_normal(num_customers)), 0, 5)
        shoe = np.clip(np.rint(SHOE_STEP * (middle + generator.standard_normal(num_customers))), 0, 10) / SHOE_STEP
        age = np.rint(18 + 60 * generator.beta(1.5, 2.2, num_customers))
        price = generator.choice(len(PRICE_TIERS), num_customers, p=[0.35, 0.35, 0.2, 0.1])
        nogo_counts = [0.55, 0.3, 0.15] if has_nogos else [1.0]
        return cls(
            gender=gender.astype(np.int64),
            country=generator.integers(len(COUNTRIES), size=num_customers),
            occasion=draw_occasions(num_customers, generator),
            age=np.where(generator.random(num_customers) < 0.1, np.nan, age),
            clothing_size=np.where(generator.random(num_customers) < 0.15, np.nan, clothing),
            shoe_size=np.where(generator.random(num_customers) < 0.2, np.nan, shoe),
            price=np.where(generator.random(num_customers) < 0.15, np.nan, price),
            preferred_styles=_subsets(np.ones(len(STYLES)), [0.1, 0.45, 0.3, 0.15], num_customers, generator),
            preferred_colours=_subsets(np.ones(len(COLOURS)), [0.15, 0.25, 0.35, 0.25], num_customers, generator),
            preferred_brands=_subsets(
                1.0 / np.arange(10.0, num_brands + 10.0), [0.2, 0.15, 0.25, 0.25, 0.15], num_customers, generator
            ),
            nogos=_subsets(np.ones(len(REFUSABLE)), nogo_counts, num_customers, generator) @ IS_REFUSABLE,
        )

    @classmethod
    def from_table(cls, table: pa.Table, brands: Sequence[str]) -> Self:
        """Reads the context columns of an outfit table; columns that mean nothing are not looked at."""
        return cls(
            gender=_codes(table, "gender", GENDERS),
            country=_codes(table, "country", COUNTRIES),
            occasion=_codes(table, "occasion", OCCASIONS, is_required=True),
            age=_numbers(table, "age"),
            clothing_size=_as_float(_codes(table, "clothing_size", CLOTHING_SIZES)),
            shoe_size=(_numbers(table, "shoe_size") - SMALLEST_SHOE) / SHOE_STEP,
            price=_as_float(_codes(table, "price_preference", PRICE_TIERS)),
            preferred_styles=_members(table, "preferred_styles", STYLES),
            preferred_colours=_members(table, "preferred_colours", COLOURS),
            preferred_brands=_members(table, "preferred_brands", brands),
            nogos=_members(table, "nogo_types", REFUSABLE) @ IS_REFUSABLE,
        )

    def to_columns(self, brands: Sequence[str], generator: np.random.Generator) -> dict[str, pa.Array]:
        """The context columns as people would fill them in; the meaningless ones are drawn here, from nothing else."""
        rows = len(self)
        shoe = pa.array(SMALLEST_SHOE + SHOE_STEP * self.shoe_size, from_pandas=True)
        columns = {
            "gender": _words(GENDERS, self.gender),
            "age": pa.array(self.age, from_pandas=True),
            "country": _words(COUNTRIES, self.country),
            "occasion": _words(OCCASIONS, self.occasion),
            "preferred_styles": _lists(STYLES, self.preferred_styles),
            "preferred_colours": _lists(COLOURS, self.preferred_colours),
            "preferred_brands": _lists(brands, self.preferred_brands),
            "nogo_types": _lists(CATEGORIES, self.nogos, is_empty_null=False),
            "clothing_size": _words(CLOTHING_SIZES, _as_code(self.clothing_size)),
            "shoe_size": shoe,
            "price_preference": _words(PRICE_TIERS, _as_code(self.price)),
            "hair_colour": _words(HAIR_COLOURS, generator.integers(-1, len(HAIR_COLOURS), size=rows)),
            "newsletter": pa.array(generator.random(rows) < 0.3),
            "account_age_days": pa.array(generator.integers(0, 3000, size=rows)),
        }
        return {name: columns[name].cast(kind) for name, kind in CONTEXT_TYPES.items()}


def draw_occasions(rows: int, generator: np.random.Generator) -> Integers:
    """One occasion a row: everyday most often, a wedding least."""
    return generator.choice(len(OCCASIONS), rows, p=[0.34, 0.24, 0.14, 0.08, 0.1, 0.1]).astype(np.int64)


def _subsets(weight: Floats, count_shares: list[float], rows: int, generator: np.random.Generator) -> Booleans:
    """(rows, len(weight)) memberships: a random count each, then that many without replacement (Gumbel top-k)."""
    counts = generator.choice(len(count_shares), rows, p=count_shares)
    chosen = np.zeros((rows, len(weight)), dtype=np.bool_)
    most = len(count_shares) - 1
    if most == 0:
        return chosen
    with np.errstate(divide="ignore"):
        keys = generator.gumbel(size=chosen.shape) + np.log(weight)
    top = np.argpartition(-keys, most, axis=1)[:, :most]
    top = np.take_along_axis(top, np.argsort(-np.take_along_axis(keys, top, axis=1), axis=1), axis=1)
    np.put_along_axis(chosen, top, np.arange(most) < counts[:, None], axis=1)
    return chosen


def _as_code(values: Floats) -> Integers:
    return np.where(np.isnan(values), -1.0, values).astype(np.int64)


def _as_float(codes: Integers) -> Floats:
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def _words(names: Sequence[str], codes: Integers) -> pa.Array:
    return pa.array(names).take(pa.array(codes, mask=codes < 0))


def _lists(names: Sequence[str], members: Booleans, *, is_empty_null: bool = True) -> pa.Array:
    counts = members.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    values = pa.array(names).take(pa.array(np.nonzero(members)[1]))
    mask = pa.array(counts == 0) if is_empty_null else None
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        raise SchemaError(
            f"The table has no column {name!r}, which the stylist world's oracle reads",
            allowed=did_you_mean(name, table.column_names),
            fix=f"Give all of {', '.join(CONTEXT_TYPES)}.",
        )
    return table.column(name).combine_chunks()


def _codes(table: pa.Table, name: str, names: Sequence[str], *, is_required: bool = False) -> Integers:
    column = _column(table, name).cast(pa.string())
    codes = pc.index_in(column, value_set=pa.array(names)).fill_null(-1).to_numpy(zero_copy_only=False)
    _check_known(column, codes, np.arange(len(column)), name, names)
    if is_required and column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError("is empty", row=row, column=name, fix=f"Give one of {', '.join(names)}.")
    return codes.astype(np.int64)


def _members(table: pa.Table, name: str, names: Sequence[str]) -> Booleans:
    column = _column(table, name)
    members = np.zeros((len(column), len(names)), dtype=np.bool_)
    if pa.types.is_null(column.type):
        return members
    if not is_list(column.type):
        raise DataError(f"is of type {column.type}", column=name, fix="Give a list of strings in every row.")
    values = pc.list_flatten(column).cast(pa.string())
    rows = pc.list_parent_indices(column).to_numpy(zero_copy_only=False).astype(np.int64)
    codes = pc.index_in(values, value_set=pa.array(names)).fill_null(-1).to_numpy(zero_copy_only=False)
    _check_known(values, codes, rows, name, names)
    members[rows[codes >= 0], codes[codes >= 0]] = True
    return members


def _check_known(values: pa.Array, codes: Integers, rows: Integers, column: str, names: Sequence[str]) -> None:
    faulty = np.flatnonzero((codes < 0) & values.is_valid().to_numpy(zero_copy_only=False))
    if len(faulty):
        value = values[int(faulty[0])].as_py()
        raise DataError(
            f"{value!r} is not one of this column's values in this world",
            row=int(rows[faulty[0]]),
            column=column,
            fix=did_you_mean(value, names),
        )


def _numbers(table: pa.Table, name: str) -> Floats:
    column = _column(table, name)
    try:
        values = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise DataError(f"is not a number ({error})", column=name, fix="Give a number or leave it empty.") from error
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise DataError("is infinite", row=row, column=name, fix="Give a number or leave it empty.")
    return values.astype(np.float64)
