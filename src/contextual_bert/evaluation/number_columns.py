"""Columns of numbers, one value a row: what the records of an evaluation hold, and what none of them accepts.

It knows no record.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.nouns import counted


def set_columns(record: Any, names: Iterable[str], *, real: Sequence[str] = (), row: str) -> None:
    """Make these fields of a record columns of numbers, of one length.

    Args:
        record: a frozen dataclass, which is being made.
        names: the fields.
        real: those of them that hold float64; the others hold int64.
        row: what a row is, for the message.

    Raises:
        ConfigurationError: a field is no column of numbers; their lengths differ.
        DataError: a number that is not whole where it must be.
    """
    of = type(record).__name__
    lengths: dict[str, int] = {}
    for name in names:
        column = _number_column(getattr(record, name), f"{of}.{name}", np.float64 if name in real else np.int64)
        object.__setattr__(record, name, column)
        lengths[name] = len(column)
    if len(set(lengths.values())) > 1:
        raise ConfigurationError(
            f"The columns of {of} have different lengths: {lengths}", fix=f"Give one value a {row} in each."
        )


def _number_column(values: object, place: str, dtype: type[np.generic]) -> NDArray[np.generic]:
    """One value a row as a numpy array; `place` names the column in messages."""
    raw = np.asarray(values)
    if raw.ndim != 1:
        raise ConfigurationError(f"{place} has shape {raw.shape}; it must have one axis: one value a row.")
    if raw.dtype.kind not in "iufb" and raw.size:
        raise ConfigurationError(f"{place} holds {raw.dtype}; it must hold numbers.")
    if dtype is np.int64 and raw.dtype.kind == "f":
        reject(~(raw == np.floor(raw)), raw, place.rpartition(".")[2], "a whole number", "Counts and ids are integers.")
    return raw.astype(dtype)


def check_label_names(names: Sequence[str]) -> None:
    """Raise ConfigurationError unless each label has a name of its own."""
    if not names or len(set(names)) < len(names):
        raise ConfigurationError(
            "is not allowed",
            setting="names",
            value=names,
            fix="Give each label a name of its own, in the order of ids.",
        )


def reject(is_wrong: NDArray[np.bool_], values: NDArray[np.generic], column: str, allowed: str, fix: str) -> None:
    """Raise a DataError that names the first wrong row, if there is one."""
    rows = np.flatnonzero(is_wrong)
    if len(rows):
        raise DataError(
            f"{values[rows[0]]} ({counted(len(rows), 'such row')}), but it must be {allowed}",
            row=int(rows[0]),
            column=column,
            fix=fix,
        )
