"""The items of a table's rows that no set holds any more: rare ones, and those of sets that were left out or cut.

They were bought, and no model is asked for them. Reports count them. Items that a policy drops by name or prefix, and
repeats that it drops, are not among them: whoever names them says that they are no items.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["LeftOut"]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Number of items left out of each row, for the rows that lost one.

    Shapes: every column is (rows,).

    Args:
        rows: of the table, ascending.
        num_rare: items that are seen too seldom in the rows that count, or not at all.
        num_of_sets: the other items, of sets that the limits of the size leave out or cut.
        customers: of the rows, None where no column names them.

    Example:
        >>> left = LeftOut(np.array([0, 4]), np.array([1, 0]), np.array([0, 3]))
        >>> left.of_rows(np.array([4, 5])).num_of_sets.tolist()
        [3]
    """

    rows: NDArray[np.int64]
    num_rare: NDArray[np.int64]
    num_of_sets: NDArray[np.int64]
    customers: pa.ChunkedArray | None = None

    def of_rows(self, rows: NDArray[np.int64]) -> Self:
        """Return what was left out of these rows of the table."""
        kept = np.isin(self.rows, rows)
        customers = self.customers.filter(pa.array(kept)) if self.customers is not None else None
        return type(self)(self.rows[kept], self.num_rare[kept], self.num_of_sets[kept], customers)
