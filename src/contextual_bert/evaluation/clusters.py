"""The customers of rows as numbers: what intervals are drawn by. It knows no values and no statistics."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contextual_bert.errors import ConfigurationError, DataError


def cluster_codes(clusters: ArrayLike) -> NDArray[np.int64]:
    """Number the clusters 0.. in sorted order of their labels.

    Raises:
        ConfigurationError: no row, or no one label a row.
        DataError: a label is missing: None, NaN, NaT, NA.

    Example:
        >>> cluster_codes(["ann", "bob", "ann"]).tolist()
        [0, 1, 0]
    """
    labels = np.asarray(clusters)
    if labels.ndim != 1 or len(labels) == 0:
        raise ConfigurationError(
            f"clusters have shape {labels.shape}", fix="Give one label a row, and at least one row."
        )
    # Of a list with text and a gap numpy makes text, of the gap too.
    given = labels if isinstance(clusters, np.ndarray) else np.asarray(clusters, dtype=object)
    is_missing = [_is_missing(label) for label in given] if given.dtype.kind == "O" else given != given
    if np.any(is_missing):
        raise DataError(
            "no customer",
            row=int(np.argmax(is_missing)),
            column="clusters",
            fix="Give every row a customer; a row of an unknown customer can be a cluster of its own (its example id).",
        )
    names = labels.astype(str) if labels.dtype.kind == "O" else labels
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def finite_numbers(values: ArrayLike, clusters: ArrayLike) -> NDArray[np.float64]:
    """One number a row, for rows that have these clusters.

    Raises:
        ConfigurationError: another number of rows.
        DataError: a number that is not finite.

    Example:
        >>> finite_numbers([1, 2], ["ann", "bob"]).tolist()
        [1.0, 2.0]
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != np.shape(clusters):
        raise ConfigurationError(
            f"values have shape {numbers.shape} and clusters {np.shape(clusters)}: the rows must be the same ones."
        )
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise DataError(f"{numbers[wrong[0]]} has no mean", row=int(wrong[0]), fix="Give finite values.")
    return numbers


def _is_missing(label: Any) -> bool:
    """None, what is not itself, and the NA of pandas, which does not say."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)
