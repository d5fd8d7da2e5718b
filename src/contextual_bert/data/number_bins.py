"""Numbers to learn as classes: bins of the training numbers, and from shares of bins back to a number and an interval.

A distribution over bins says how sure a number is, and it is learned, scored and calibrated as classes are. It knows
numbers alone, and imports no torch: exports of texts are asked without.

Papers: Torgo and Gama (1996), "Regression by Classification"; Imani and White (2018), "Improving Regression Performance
with Distributional Losses"; Farebrother et al. (2024), "Stop Regressing".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.arrow_types import decoded, is_text
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.errors import NAME, ConfigurationError, DataError, Message

INTERVAL = 0.9  # of the probability between the two ends that stand beside a predicted number
FEWEST = 2  # bins: of one there is nothing to learn


@dataclass(frozen=True)
class NumberBins:
    """Bins of equal counts of numbers, in rising order, each with its least, largest and mean number.

    Formula:
        number = sum of p_k mean_k, which has the least mean squared error; the interval has its ends at the quantiles
        (1 - INTERVAL) / 2 and (1 + INTERVAL) / 2 of a distribution that is uniform from low_k to high_k in each bin

    Symbols:
        p_k the probability of bin k.

    Shapes:
        low, high, mean (bins,).

    Args:
        low, high: the least and the largest number of each bin. Between two bins no training number lies.
        mean: of the numbers of each bin.

    Reference:
        Torgo and Gama (1996), sections 3 and 4, for bins of equal counts; Imani and White (2018), section 2, for the
        mean of the distribution as the prediction.

    Example:
        >>> bins = NumberBins.of(np.array([1.0, 2.0, 3.0, 40.0]), most=2)
        >>> bins.names, bins.place(np.array([2.0, 25.0, 99.0])).tolist()
        (('1 to 2', '3 to 40'), [0, 1, 1])
        >>> bins.read(np.array([[0.5, 0.5]])).round(2).tolist()
        [[11.5, 1.1, 36.3]]
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    mean: tuple[float, ...]

    @classmethod
    def of(cls, numbers: NDArray[np.float64], *, most: int) -> Self:
        """Return the bins of training numbers.

        Args:
            numbers: (rows,), finite, one or more.
            most: bins; there are fewer where numbers repeat.
        """
        ordered, most = np.sort(numbers), min(most, len(numbers))
        ends = np.unique(ordered[np.arange(1, most + 1) * len(ordered) // most - 1])
        bins = np.searchsorted(ends, ordered)
        firsts = np.flatnonzero(np.diff(bins, prepend=-1))
        mean = np.add.reduceat(ordered, firsts) / np.diff(firsts, append=len(ordered))
        low, high = ordered[firsts], ordered[np.append(firsts[1:], len(ordered)) - 1]
        return cls(*(tuple(each.tolist()) for each in (low, high, np.clip(mean, low, high))))

    @classmethod
    def of_config(cls, config: Any) -> Self | None:
        """Return the bins of a model's config, None where it learned no numbers.

        Raises:
            ConfigurationError: not the least, the largest and the mean number of each label, in rising order.
        """
        found: Sequence[Sequence[float]] | None = config.number_bins
        if found is None:
            return None
        columns = np.array([each if len(each) == 3 else [np.nan] * 3 for each in found], dtype=np.float64)
        ordered = columns[:, [0, 2, 1]].ravel() if len(columns) else np.full(1, np.nan)
        if len(found) != len(config.id2label) or not np.isfinite(ordered).all() or (np.diff(ordered) < 0).any():
            raise ConfigurationError(
                "in the config of the model",
                setting="number_bins",
                value=found,
                fix="Give the least, the largest and the mean number of each label, in rising order.",
            )
        return cls(*(tuple(column) for column in columns.T.tolist()))

    def as_lists(self) -> list[list[float]]:
        """Return low, high and mean of each bin, as a config has them."""
        return [list(each) for each in zip(self.low, self.high, self.mean, strict=True)]

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name of each bin: its number, or the least and the largest."""
        ends = [(spelt_number(low), spelt_number(high)) for low, high in zip(self.low, self.high, strict=True)]
        return tuple(low if low == high else f"{low} to {high}" for low, high in ends)

    def place(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the bin of each number, (rows,); one between two bins is in the nearer, one beyond all in the last."""
        low, high = np.array(self.low), np.array(self.high)
        between = high[:-1] + (low[1:] - high[:-1]) / 2
        return np.searchsorted(between, numbers).astype(np.int64)

    def read(self, shares: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the number and the two ends of its interval, (rows, 3), of the shares of the bins, (rows, bins)."""
        shares = np.asarray(shares, dtype=np.float64)
        ends = [self._quantile(shares, level) for level in ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)]
        return np.stack([shares @ np.array(self.mean) / shares.sum(axis=1), *ends], axis=1)

    def _quantile(self, shares: NDArray[np.float64], level: float) -> NDArray[np.float64]:
        below = np.cumsum(shares, axis=1)
        asked = level * below[:, -1]
        found = np.minimum((below < asked[:, None]).sum(axis=1), len(self) - 1)
        rows = np.arange(len(shares))
        own = shares[rows, found]
        inside = np.divide(asked - (below[rows, found] - own), own, out=np.zeros_like(own), where=own > 0)
        low, high = np.array(self.low)[found], np.array(self.high)[found]
        return low + np.clip(inside, 0.0, 1.0) * (high - low)


def usual_bins(num_rows: int) -> int:
    """Return how many bins so many training rows have, where nobody says more: Rice's rule, 2 n^(1/3).

    Example:
        >>> usual_bins(1_000), usual_bins(10)
        (20, 4)
    """
    return max(FEWEST, round(2 * num_rows ** (1 / 3)))


def spelt_number(number: float) -> str:
    """Return the shortest decimal that is this number.

    Example:
        >>> spelt_number(3.0), spelt_number(0.1)
        ('3', '0.1')
    """
    return np.format_float_positional(number, trim="-")


def numbers_to_learn(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Return a column of numbers to learn, (rows,).

    Args:
        table: the rows.
        name: of the column.

    Raises:
        UnknownNameError: there is no such column.
        DataError: a cell that is missing, no number, or not finite.

    Example:
        >>> numbers_to_learn(pa.table({"price": [9.5, 12.0]}), "price").tolist()
        [9.5, 12.0]
    """
    column = pa.chunked_array(decoded(checked_column(table, name, complete=True)))
    kind = column.type
    if is_text(kind):
        spelt = pc.match_substring_regex(pc.utf8_trim_whitespace(column), r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")
        if not pc.all(spelt).as_py():
            row = pc.index(spelt, pa.scalar(False)).as_py()
            raise DataError(
                f"{column[row].as_py()!r:.80} is no number",
                row=row,
                column=name,
                fix=Message(
                    "Correct the cell, say with {decimal} how numbers are written, or leave {is_regression} out to "
                    "learn labels.",
                    decimal=NAME,
                    is_regression=NAME,
                ),
            )
        column = pc.utf8_trim_whitespace(column)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(
            f"the column is of type {kind}, and numbers are learned",
            column=name,
            fix=Message("Name a column of numbers, or leave {is_regression} out.", is_regression=NAME),
        )
    numbers = column.cast(pa.float64()).to_numpy()
    is_odd = ~np.isfinite(numbers)
    if is_odd.any():
        row = int(is_odd.argmax())
        raise DataError(
            f"{numbers[row]} is no finite number", row=row, column=name, fix="Correct the cell, or leave the row out."
        )
    return numbers


def with_bin_names(table: pa.Table, *, label: str, bins: NumberBins) -> pa.Table:
    """Return the table with the name of its bin in place of each number.

    Args:
        table: the rows.
        label: column of the numbers.
        bins: of the training part.

    Raises:
        UnknownNameError, DataError: as ``numbers_to_learn`` says.
    """
    names = pa.array(bins.names, pa.string()).take(pa.array(bins.place(numbers_to_learn(table, label))))
    return table.set_column(table.column_names.index(label), label, names)
