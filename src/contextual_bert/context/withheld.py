"""Withhold the values of sensitive features from errors, counts and reports."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from contextual_bert.errors import WITHHELD, DataError

__all__ = ["WITHHELD", "withheld_counts", "withholding"]


@contextmanager
def withholding() -> Generator[None]:
    """Raise a DataError without the value that it is about."""
    try:
        yield
    except DataError as error:
        raise error.withheld() from None


def withheld_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the sum of some counts under ``WITHHELD``, and nothing where there are none.

    Example:
        >>> withheld_counts({"f": 2, "m": 1}), withheld_counts({})
        ({'(withheld)': 3}, {})
    """
    return {WITHHELD: sum(counts.values())} if counts else {}
