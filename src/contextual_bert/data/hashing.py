"""Numbers that look random and are a pure function of what they are for: a counter-based hash, whole arrays at once.

A draw depends on nothing but the counters it is given (a seed, an epoch, an example, a position), so it is the same for
any order of the rows, number of workers, batch size, world size, machine and version of numpy.
It knows nothing of masks, splits or sets: they choose the counters; `Draw` keeps apart what is drawn for one example of
one epoch. Steele, Lea and Flood (2014), "Fast splittable pseudorandom number generators", section 5, is the mixing
function.
"""

from enum import IntEnum, unique
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

__all__ = ["Draw", "hash_counters", "hash_strings", "splitmix64", "unit_interval"]

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@unique
class Draw(IntEnum):
    """Purpose of a random draw for an example: the third counter, so that draws are independent of each other.

    Example:
        >>> hash_counters(0, 1, Draw.MASK_RATE, 7) == hash_counters(0, 1, Draw.WHOLE_CONTEXT, 7)
        array([False])
    """

    SPAN_END = 1
    MASKED_UNIT = 2
    MASK_KIND = 3
    MASK_TOKEN = 4
    WHOLE_CONTEXT = 5
    CONTEXT_FIELD = 6
    UNKNOWN_FIELD = 7
    MASK_RATE = 8
    SCORED_POSITION = 9


def splitmix64(counter: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64 bits: each input bit changes each output bit with probability one half; a bijection.

    Example:
        >>> int(splitmix64(np.zeros(1, dtype=np.uint64))[0]) == 0xE220A8397B1DCDAF
        True
    """
    with np.errstate(over="ignore"):
        mixed = counter + _INCREMENT
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        return mixed ^ (mixed >> np.uint64(31))


def hash_counters(*counters: ArrayLike) -> NDArray[np.uint64]:
    """One hash for each place of the counters, broadcast against each other; integers, negative ones too.

    Example:
        >>> hash_counters(7, np.arange(3)[:, None], np.arange(2)).shape
        (3, 2)
    """
    mixed = np.zeros(1, dtype=np.uint64)
    for counter in counters:
        mixed = splitmix64(mixed ^ np.atleast_1d(np.asarray(counter, dtype=np.int64)).view(np.uint64))
    return mixed


def hash_strings(strings: pa.Array | pa.ChunkedArray, *, seed: int = 0) -> NDArray[np.uint64]:
    """One hash for each string: the sum of a hash of each (byte, place), mixed with the length. No missing values.

    Example:
        >>> a, b, again = hash_strings(pa.array(["ab", "ba", "ab"]))
        >>> bool(a == again), bool(a == b)
        (True, False)
    """
    chunks = strings.chunks if isinstance(strings, pa.ChunkedArray) else [strings]
    hashes = [_hash_chunk(chunk.cast(pa.large_binary()), seed) for chunk in chunks if len(chunk)]
    return np.concatenate(hashes) if hashes else np.zeros(0, dtype=np.uint64)


def _hash_chunk(strings: Any, seed: int) -> NDArray[np.uint64]:
    lengths = pc.binary_length(strings).to_numpy(zero_copy_only=False).astype(np.int64)
    _, offsets_buffer, data = strings.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
    content = np.frombuffer(data or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    places = np.arange(len(content), dtype=np.int64) - np.repeat(starts, lengths)
    terms = hash_counters(seed, places * 256 + content) if len(content) else np.zeros(0, dtype=np.uint64)
    # reduceat fails on a start behind the end (hence the zero) and is wrong for an empty stretch (cleared below).
    sums = np.add.reduceat(np.append(terms, np.uint64(0)), starts)
    sums[lengths == 0] = 0
    return splitmix64(sums ^ hash_counters(seed, lengths))


def unit_interval(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The hashes as numbers from 0 to just below 1.

    Example:
        >>> float(unit_interval(np.array([1 << 63], dtype=np.uint64))[0])
        0.5
    """
    # The upper 53 bits are what a float64 holds exactly.
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53
