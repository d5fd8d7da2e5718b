"""Which values of a column have a vector of their own, and the buckets whose vectors the rare ones share.

Values count by customers, or by rows where nobody is named, as `binning` counts numbers. The bucket of a value is a
hash (BLAKE2b of its UTF-8), the same in every process, on every machine and in every language; a schema stores how
many buckets there are, and no value of them. Strings only: no kind of feature, no schema, no tensor. Not in the
paper; docs/decisions/027. Weinberger et al. (2009), "Feature hashing for large scale multitask learning".
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context.binning import customers_of_values
from contextual_bert.context.vocabulary import as_short_float, is_number, normal_form
from contextual_bert.nouns import agreeing, counted

MOST_BY_DEFAULT = 1 << 14  # of one feature, where nobody says how many
FEWEST_BY_DEFAULT = 8  # fewer vectors say less of a value than one does of all rare ones together
_HASH_BYTES = 8

_FEWEST_SHARING = 2  # customers a value, on average: below, each value is one customer's, as an e-mail address is


def bucket_of(value: str, num_buckets: int, *, is_code: bool = False) -> int:
    """Return the bucket of a value in its canonical spelling, from 0 on.

    Formula: the first 8 bytes of BLAKE2b(UTF-8 of the value's normal form), little-endian, modulo the buckets. The
    normal form is that of `Vocabulary.find`, so "TRUE" of a column of text and a truth value share a bucket. A number
    of 32 bits that was widened has the form that it has in 32 bits.

    Args:
        value: in its canonical spelling.
        num_buckets: how many buckets there are.
        is_code: a number is a code and hashed as it is spelt: "10.10" is not "10.1" (`columns.spelt_numbers`).

    Example:
        >>> bucket_of("user-17", 64), bucket_of("TRUE", 64) == bucket_of("true", 64)
        (7, True)
    """
    form = value if is_code and is_number(value) else normal_form(value)
    if not is_code:
        form = as_short_float(form) or form
    text = form.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=_HASH_BYTES).digest(), "little") % num_buckets


def buckets_of(strings: pa.Array, num_buckets: int, *, is_code: bool = False) -> NDArray[np.int64]:
    """Return the bucket of each string of a column without nulls; each distinct one is hashed once, by `bucket_of`.

    Example:
        >>> buckets_of(pa.array(["user-17", "user-4", "user-17"]), 64).tolist()
        [7, 63, 7]
    """
    encoded = strings.dictionary_encode()
    found = [bucket_of(value, num_buckets, is_code=is_code) for value in encoded.dictionary.to_pylist()]
    return np.array(found, np.int64)[encoded.indices.to_numpy()]


def default_buckets(total: int, min_count: int) -> int:
    """Return how many buckets rare values get where nobody says: one for each ``min_count`` of their customers.

    So a bucket learns from about as many customers as a value that has a vector of its own. 0 means none: the values
    are then unknown, all alike.

    Args:
        total: customers of all rare values, each counted once a value; rows where no customers are named.
        min_count: the fewest customers of a value of its own.

    Example:
        >>> default_buckets(1298, 10), default_buckets(79, 10), default_buckets(10**7, 10)
        (129, 0, 16384)
    """
    wanted = min(total // min_count, MOST_BY_DEFAULT)
    return wanted if wanted >= FEWEST_BY_DEFAULT else 0


@dataclass(frozen=True)
class KeptValues:
    """The values of a column that a schema lists, and the buckets of the others.

    Args:
        values: those with a vector of their own, sorted.
        num_buckets: into how many buckets the others are hashed; None: they are unknown.
        buckets: numbers of the buckets that have a vector; None: all.
        num_distinct: number of all distinct values.
        own_share: share of the given cells whose value has a vector of its own.
        shared_share: the same of those whose value has the vector of a bucket.

    Example:
        >>> strings = pa.array(["a"] * 6 + ["b", "c"])
        >>> kept = keep_values(strings, Rarity(min_count=2))
        >>> kept.values, kept.num_buckets, kept.num_distinct, kept.own_share
        (('a',), None, 3, 0.75)
    """

    values: tuple[str, ...]
    num_buckets: int | None
    buckets: tuple[int, ...] | None
    num_distinct: int
    own_share: float
    shared_share: float

    def reason(self, *, rarity: "Rarity", unit: str = "rows") -> str:
        """Return what a note on the column says; ``unit`` names the cells that were counted."""
        count = counted(len(self.values), "value")
        rare = self.num_distinct - len(self.values)
        if not rare:
            return count
        if self.num_buckets is None:
            kept = f"; {self.own_share:.1%} of the {unit} keep theirs" if self.own_share < 1 else ""
            rarer = f"{rare:,} rarer than {rarity.min_count} {rarity.unit} {agreeing('count', rare)} as unknown"
            return f"{count}; {rarer}{kept}"
        num_vectors = self.num_buckets if self.buckets is None else len(self.buckets)
        return (
            f"{self.num_distinct:,} values, {len(self.values):,} of their own, {rare:,} rarer ones in {num_vectors:,} "
            f"hashed buckets; {self.own_share:.1%} of the {unit} keep their value, {self.shared_share:.1%} a bucket"
        )


@dataclass(frozen=True, eq=False)
class Rarity:
    """Threshold below which a value shares its vector with others.

    Args:
        min_count: the fewest customers of a value of its own.
        customers: number of the customer of each string; None: each string is a customer.
        most: the most values of their own, the most frequent ones; None: no limit.
        num_buckets: for the others; 0: none, they are unknown; None: ``default_buckets``.
    """

    min_count: int
    customers: NDArray[np.int64] | None = None
    most: int | None = None
    num_buckets: int | None = 0

    @property
    def unit(self) -> str:
        """The name of what ``min_count`` counts."""
        return "rows" if self.customers is None else "customers"


def keep_values(
    strings: pa.Array, rarity: Rarity, *, reserved: Sequence[str] = (), is_code: bool = False
) -> KeptValues:
    """Return which of these strings are values of their own, and which buckets the others have.

    A bucket that no value is in has no vector. Where customers are named, one of fewer than ``min_count`` customers has
    none either, however many buckets there are. Values of such buckets are unknown, and so is a new value there.

    Args:
        strings: the values; null and blank text are none.
        rarity: what is rare.
        reserved: names that no value may have.
        is_code: numbers are codes, as of `bucket_of`.
    """
    is_given = strings.is_valid()
    encoded = strings.filter(is_given).dictionary_encode()
    values, codes = encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)
    num_rows = np.bincount(codes, minlength=len(values))
    owners = rarity.customers[is_given.to_numpy(zero_copy_only=False)] if rarity.customers is not None else None
    counts = _count(codes, owners, num_values=len(values))
    is_value = pc.not_equal(pc.utf8_trim_whitespace(values), "").to_numpy(zero_copy_only=False)
    is_reserved = pc.is_in(values, value_set=pa.array(list(reserved), values.type)).to_numpy(zero_copy_only=False)
    is_own = is_value & ~is_reserved & (counts >= rarity.min_count)
    if rarity.most is not None and int(is_own.sum()) > rarity.most:
        # The name decides between equals, so that the order of the rows does not.
        ranked = sorted(np.flatnonzero(is_own).tolist(), key=lambda place: (-int(counts[place]), values[place].as_py()))
        is_own[ranked[rarity.most :]] = False
    is_rare = is_value & ~is_own
    names, own = values.filter(pa.array(is_rare)), values.filter(pa.array(is_own)).to_pylist()
    num_buckets = _num_buckets(int(counts[is_rare].sum()), len(names), rarity, has_own=bool(own))
    kept: tuple[int, ...] | None = None
    is_shared = np.zeros(len(values), np.bool_)
    if num_buckets is not None:
        places = np.zeros(len(values), np.int64)
        places[is_rare] = buckets_of(names, num_buckets, is_code=is_code)
        rows = is_rare[codes]
        sizes = _count(places[codes[rows]], owners[rows] if owners is not None else None, num_values=num_buckets)
        filled = np.flatnonzero(sizes >= (rarity.min_count if owners is not None else 1)).tolist()
        kept = tuple(filled) if 0 < len(filled) < num_buckets else None
        num_buckets = num_buckets if filled else None
        is_shared = is_rare & np.isin(places, filled)
    total = max(1, int(num_rows[is_value].sum()))
    return KeptValues(
        values=tuple(sorted(own)),
        num_buckets=num_buckets,
        buckets=kept,
        num_distinct=int(is_value.sum()),
        own_share=float(num_rows[is_own].sum() / total),
        shared_share=float(num_rows[is_shared].sum() / total),
    )


def _num_buckets(total: int, num_values: int, rarity: Rarity, *, has_own: bool) -> int | None:
    """Return the number of buckets of so many rare values with so many customers; None where they are unknown."""
    if not num_values or rarity.num_buckets == 0:
        return None
    if rarity.num_buckets is not None:
        return rarity.num_buckets
    if not has_own and total < _FEWEST_SHARING * num_values:
        return None
    return default_buckets(total, rarity.min_count) or None


def _count(codes: NDArray[np.int64], owners: NDArray[np.int64] | None, *, num_values: int) -> NDArray[np.int64]:
    """Return how many customers each value has, or how many rows where nobody is named."""
    if owners is None:
        return np.bincount(codes, minlength=num_values)
    return customers_of_values(codes, owners, num_values=num_values)
