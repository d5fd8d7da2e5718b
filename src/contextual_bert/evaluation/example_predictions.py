"""Base of the predictions that have one row an example, however many rows of it are scored. It knows numbers alone."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError


@dataclass(frozen=True, eq=False)
class ExamplePredictions:
    """Columns of numbers with a row an example, in any order.

    Shapes: every column is (rows,).

    Args:
        example_id: row of the original table, each once.

    Relation to its siblings: ``LabelPredictions`` and ``SetPredictions`` have a row a scored row.
    """

    example_id: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.example_id)

    @property
    def counts_whole_examples(self) -> bool:
        """True: the scored rows of an example are one row here."""
        return True

    def is_of(self, example_id: NDArray[np.int64], position: NDArray[np.int64]) -> bool:
        """Return whether these scored rows are of the examples."""
        return np.array_equal(np.unique(self.example_id), np.unique(example_id))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return all rows of the parts, which share what is no column, in the order given."""
        if any(part.shared != parts[0].shared for part in parts):
            raise ConfigurationError(
                f"{len(parts)} parts of predictions", fix="Give one or more, all with the same names."
            )
        names = parts[0].as_arrays()
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(**columns, **parts[0].shared)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """Return the rows that a boolean mask or an array of row numbers names."""
        columns: dict[str, Any] = {name: column[rows] for name, column in self.as_arrays().items()}
        return type(self)(**columns, **self.shared)

    @property
    def shared(self) -> dict[str, Any]:
        """Return the fields that are no columns, and the same for all rows."""
        return {}

    def order(self) -> NDArray[np.int64]:
        """Return the row numbers that put the rows in the order of example_id."""
        return np.argsort(self.example_id, kind="stable")

    def check_each_once(self, row: str, *, advice: str) -> None:
        """Raise DataError where an example has two rows; ``row``: what a row is called."""
        ordered = self.example_id[self.order()]
        repeated = np.flatnonzero(np.diff(ordered) == 0)
        if len(repeated):
            raise DataError(
                f"{row} {ordered[repeated[0]]} occurs more than once",
                fix=f"{advice}; drop what a sampler repeated to fill its last batch.",
            )

    def sorted(self) -> Self:
        """Return the same rows by example_id: the canonical order."""
        return self.select(self.order())

    def as_arrays(self) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
        """Column name -> array, as safetensors stores them; the class takes them back by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def columns(self) -> NDArray[np.float64]:
        """(rows, columns): the columns whose means ``metrics`` takes."""
        raise NotImplementedError

    def metrics(self, means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Key -> metric, of the means over rows of ``columns``, for each of the leading axes."""
        raise NotImplementedError
