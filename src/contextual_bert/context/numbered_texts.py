"""Texts of one pattern that number rows, such as ORD-00017 or 17/2020, as the numbers in them.

`running.py` judges the numbers as it judges a column of numbers. Not in the paper, whose features are given.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context.cells import FLOAT

_DIGITS = "[0-9]+"
_MOST_RUNS = 8  # of digits in one text
_NEARLY_ALL = 0.95  # of the filled rows have texts of the pattern


def numbers_in(texts: pa.DictionaryArray) -> NDArray[np.float64] | None:
    """Return the number that each text of one pattern holds, NaN where it is missing or of another pattern.

    A pattern is what stands around the digits. Digits that are the same in all texts belong to it. Where two runs of
    digits differ, the one with fewer values counts first: 2/2020 follows 1/2020, and 1/2021 follows both.

    Args:
        texts: one a row, as `canonical_array` spells them.

    Returns:
        (rows,) float64. None where fewer than 95% of the filled rows have one pattern, or more than two runs differ.

    Example:
        >>> numbers_in(pa.array(["ORD-01", "ORD-02", None]).dictionary_encode())
        array([ 1.,  2., nan])
        >>> numbers_in(pa.array(["1/2020", "2/2020", "3/2020", "1/2021"]).dictionary_encode()).argsort()
        array([0, 1, 2, 3])
    """
    distinct = texts.dictionary.cast(pa.string())
    codes = pc.fill_null(texts.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    counts[pc.equal(distinct, "").to_numpy(zero_copy_only=False)] = 0
    if not counts.sum():
        return None
    numbers = _plain(distinct, counts)
    if numbers is None:
        numbers = _patterned(distinct, counts)
    if numbers is None:
        return None
    return np.append(numbers, np.nan)[codes]


def _plain(distinct: pa.Array, counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """The texts as numbers, where nearly all spell one."""
    is_number = pc.match_substring_regex(distinct, FLOAT)
    if not _are_most(is_number.to_numpy(zero_copy_only=False), counts):
        return None
    numbers = pc.if_else(is_number, distinct, pa.scalar(None, pa.string())).cast(pa.float64())
    values = numbers.to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def _patterned(distinct: pa.Array, counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """The numbers within texts of one pattern."""
    skeletons = pc.replace_substring_regex(distinct, _DIGITS, "0").dictionary_encode()
    which = skeletons.indices.to_numpy(zero_copy_only=False)
    common = int(np.bincount(which, weights=counts).argmax())
    is_meant = which == common
    around = skeletons.dictionary[common].as_py().split("0")
    if not 0 < len(around) - 1 <= _MOST_RUNS or not _are_most(is_meant, counts):
        return None
    names = [f"n{place}" for place in range(len(around) - 1)]
    pattern = re.escape(around[0]) + "".join(
        f"(?P<{name}>{_DIGITS}){re.escape(after)}" for name, after in zip(names, around[1:], strict=True)
    )
    found = pc.extract_regex(distinct.filter(pa.array(is_meant)), f"^{pattern}$")
    runs = [pc.struct_field(found, name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in names]
    sizes = {place: len(np.unique(run)) for place, run in enumerate(runs)}
    differing = sorted((place for place in sizes if sizes[place] > 1), key=lambda place: sizes[place])
    if not 0 < len(differing) <= 2:
        return None
    number = runs[differing[-1]]
    if len(differing) == 2:
        turns = np.unique(runs[differing[0]], return_inverse=True)[1]
        number = number - number.min() + turns * (number.max() - number.min() + 1)
    numbers = np.full(len(distinct), np.nan)
    numbers[is_meant] = number
    return numbers


def _are_most(is_meant: NDArray[np.bool_], counts: NDArray[np.int64]) -> bool:
    return bool(counts[is_meant].sum() >= _NEARLY_ALL * counts.sum())
