"""What a completion may be: each constraint is one function from a query to the items it permits.

A query names a constraint by its key, beside ``items`` and ``context``. Constraints are applied before the softmax:
what is forbidden has probability 0, the rest sums to 1. This module knows ids and names, no model.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from contextual_bert.context import Vocabulary, canonical
from contextual_bert.errors import DataError


def allow(vocabulary: Vocabulary, items: Sequence[str], value: Any) -> np.ndarray:
    """Only the items of this list: what is in stock, a category, a price band."""
    permitted = np.zeros(len(vocabulary), dtype=bool)
    permitted[known_ids(vocabulary, names_of(value, key="allow"))] = True
    return permitted


def deny(vocabulary: Vocabulary, items: Sequence[str], value: Any) -> np.ndarray:
    """None of the items of this list: owned, sold out, no leather."""
    permitted = np.ones(len(vocabulary), dtype=bool)
    permitted[known_ids(vocabulary, names_of(value, key="deny"))] = False
    return permitted


def repeats(vocabulary: Vocabulary, items: Sequence[str], value: Any) -> np.ndarray:
    """Whether an item that is in the set already may be proposed again; False unless the query says True."""
    if not isinstance(value, bool):
        raise DataError(f"{value!r} is neither true nor false", column="repeats", fix="Give true or false.")
    return np.ones(len(vocabulary), dtype=bool) if value else deny(vocabulary, items, list(items))


CONSTRAINTS: dict[str, Callable[[Vocabulary, Sequence[str], Any], np.ndarray]] = {
    "allow": allow,
    "deny": deny,
    "repeats": repeats,
}
DEFAULTS: Mapping[str, Any] = {"repeats": False}


def permitted_items(vocabulary: Vocabulary, items: Sequence[str], settings: Mapping[str, Any]) -> np.ndarray:
    """Which ids the query permits: (vocabulary,) bool; reserved ids never.

    Args:
        vocabulary: the items.
        items: names in the set.
        settings: constraint -> value, as the query gives them; absent ones take their default.

    Example:
        >>> vocabulary = Vocabulary(["coat", "hat", "bag"], reserved=["[PAD]"])
        >>> permitted_items(vocabulary, ["hat"], {"deny": ["bag"]}).tolist()
        [False, True, False, False]
    """
    permitted = np.ones(len(vocabulary), dtype=bool)
    permitted[: len(vocabulary.reserved)] = False
    for name, value in {**DEFAULTS, **settings}.items():
        permitted &= CONSTRAINTS[name](vocabulary, items, value)
    return permitted


def names_of(value: Any, *, key: str) -> list[str]:
    """``value`` as a list of item names; a number is the item of that name, as in a table.

    Raises:
        DataError: it is something else, a single string for instance, or an entry is no name.
    """
    if isinstance(value, str) or not isinstance(value, Sequence | set | frozenset):
        raise DataError(f"{value!r} is not a list of items", column=key, fix=f'Give a list: "{key}": ["coat-17", ...].')
    try:
        return [canonical(name) for name in value]
    except DataError as error:
        raise DataError(error.problem, column=key, fix=error.fix) from None


def known_ids(vocabulary: Vocabulary, names: Sequence[str]) -> list[int]:
    """Ids of the names that the vocabulary has."""
    return [index for index in map(vocabulary.id_of, names) if index is not None]
