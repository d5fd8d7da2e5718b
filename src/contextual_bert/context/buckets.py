"""Buckets of rare values: a value that a schema does not list has the vector of its hash, which others share.

A schema stores how many buckets there are, and no value of them. The hash is BLAKE2b of the value's UTF-8, so it is the
same in every process, on every machine and in every language (docs/decisions/027). This module knows strings only: no
schema, no tensor. Not in the paper; Weinberger et al. (2009), "Feature hashing for large scale multitask learning".
"""

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextual_bert.context.vocabulary import as_short_float, is_number, normal_form

MOST_BY_DEFAULT = 1 << 14  # of one feature, where nobody says how many
FEWEST_BY_DEFAULT = 8  # fewer vectors say less of a value than one does of all rare ones together
_HASH_BYTES = 8


def bucket_of(value: str, num_buckets: int, *, is_code: bool = False) -> int:
    """Return the bucket of a value in its canonical spelling, from 0 on.

    Formula: the first 8 bytes of BLAKE2b(UTF-8 of the value's normal form), little-endian, modulo the buckets. The
    normal form is that of `Vocabulary.find`, so "TRUE" of a column of text and a truth value share a bucket. A number
    of 32 bits that was widened has the form that it has in 32 bits.

    Args:
        value: in its canonical spelling.
        num_buckets: how many buckets there are.
        is_code: a number is a code and hashed as it is spelt: "10.10" is not "10.1" (`codes`).

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
