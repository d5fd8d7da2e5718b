"""Leave a share of the items out of the training sets of a split, to see how items that are new are ranked."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextual_bert.data.hashing import hash_strings, unit_interval
from contextual_bert.data.sets import SetTable
from contextual_bert.data.splits import Split
from contextual_bert.errors import ConfigurationError
from contextual_bert.nouns import agreeing, counted


def with_cold_items(split: Split, items: pa.Array, share: float, *, seed: int) -> Split:
    """The same split; a share of the items, a pure function of (seed, item), is left out of its training sets.

    Args:
        split: of a table of sets.
        items: each item of the table once.
        share: of them, above 0 and below 1.
        seed: of the hash.

    Raises:
        ConfigurationError: another share; no item, or every item, would be left out.

    Example:
        >>> from contextual_bert.data import split_by_row
        >>> split = split_by_row(pa.table({"x": range(9)}), validation=0.2, test=0.2)
        >>> 80 < len(with_cold_items(split, pa.array([str(number) for number in range(1000)]), 0.1, seed=0).cold_items)
        True
    """
    if not 0 < share < 1:
        raise ConfigurationError(
            "is not allowed", setting="cold_items", value=share, fix="Give a share above 0 and below 1."
        )
    is_cold = unit_interval(hash_strings(items, seed=seed)) < share
    if is_cold.all() or not is_cold.any():
        raise ConfigurationError(
            f"leaves {'every' if is_cold.all() else 'no'} item of {len(items):,} out",
            setting="cold_items",
            value=share,
            fix="Give another share.",
        )
    return replace(split, cold_items=tuple(sorted(items.filter(pa.array(is_cold)).to_pylist())))


def cold_lines(split: Split, sets: SetTable) -> list[str]:
    """Return a sentence on what leaving items out does to the training sets; none where none are left out."""
    if not split.cold_items:
        return []
    training = split.select(sets, "train")
    is_cold = pc.is_in(training.values, value_set=pa.array(split.cold_items)).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(training)), training.sizes)
    lost = np.bincount(rows, weights=is_cold, minlength=len(training))
    num_empty = int((lost == training.sizes).sum())
    return [
        f"cold items: {len(split.cold_items):,} of {counted(len(sets.values.unique()), 'item')}, left out of "
        f"{int((lost > 0).sum()):,} of {counted(len(training), 'training set')}, which lose "
        f"{counted(int(is_cold.sum()), 'item')} ({is_cold.mean():.1%}); "
        f"{counted(num_empty, 'set')} {agreeing('are', num_empty)} empty without"
    ]
