"""What the queries of all pipelines have in common: a mapping with known keys, and a context that is a record."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from contextual_bert.errors import DataError, UnknownNameError, did_you_mean

UNUSED_CONTEXT = "The context was not used: this model was trained with conditioning='none'."


def check_query(query: Mapping[str, Any], *, row: int, known: Sequence[str], fix: str) -> None:
    """Raise unless the query is a mapping of known keys, its context a record.

    Args:
        query: as the user gave it.
        row: its number, for messages.
        known: the keys that mean something.
        fix: what a query looks like, for messages.

    Raises:
        DataError, UnknownNameError: what is wrong, and in which query.
    """
    given = cast(object, query)
    if not isinstance(given, Mapping):
        raise DataError(f"{given!r:.80} is not a query", row=row, fix=fix)
    for key in query:
        if key not in known:
            raise UnknownNameError(f"Query {row}: unknown key {key!r}. {did_you_mean(str(key), known)}")
    if not isinstance(query.get("context") or {}, Mapping):
        raise DataError(
            f"{query['context']!r} is not a record", row=row, column="context", fix='Give {"feature": value, ...}.'
        )
