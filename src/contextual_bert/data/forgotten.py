"""Customers whom a recipe leaves out without naming them: salted hashes, and the rows of a table that they match.

A hash says nothing to those who cannot guess the id. Whoever guesses it can check the guess: the salt stands beside it,
and keeps tables of hashes that were made before from helping.
"""

import hashlib
import re
import secrets
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextual_bert.context.spelling import spelt
from contextual_bert.context.vocabulary import canonical_array, normal_form
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.errors import ConfigurationError

_ENTRY = re.compile(r"sha256:([0-9a-f]{32}):([0-9a-f]{64}):(.+)", re.DOTALL)


def forms_of(customer: str) -> tuple[str, str]:
    """Return the spellings by which a customer is looked for: the given one, then that of 7.0 as 7.

    Example:
        >>> forms_of(" 7.0 ")
        ('7.0', '7')
    """
    name = spelt(customer)
    return name, normal_form(name)


def forget_entry(customer: str, column: str, *, salt: str | None = None) -> str:
    """Return what ``Recipe.forgotten`` holds of a customer: the salt, the hash, and the column of customers.

    Args:
        customer: its id, as the table spells it.
        column: that holds the ids.
        salt: 32 hexadecimal digits; None draws them.

    Example:
        >>> forget_entry("ann", "user", salt="0" * 32)[-12:]
        'bde468f:user'
    """
    salt = salt or secrets.token_hex(16)
    return f"sha256:{salt}:{_digest(salt, spelt(customer))}:{column}"


def has_entry(forgotten: Sequence[str], customer: str, column: str) -> bool:
    """Return whether a customer of a column is among the forgotten ones.

    Example:
        >>> has_entry([forget_entry("7", "user")], "7.0", "user")
        True
    """
    names = forms_of(customer)
    return any(
        named == column and any(_digest(salt, name) == digest for name in names)
        for salt, digest, named in map(_parts, forgotten)
    )


def forgotten_columns(forgotten: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of customers that the entries name, each once."""
    return tuple(dict.fromkeys(_parts(entry)[2] for entry in forgotten))


def forgotten_rows(table: pa.Table, forgotten: Sequence[str], *, file: str | None = None) -> NDArray[np.bool_]:
    """Return True for each row of a table whose customer is forgotten.

    Args:
        table: the rows.
        forgotten: entries of ``forget_entry``.
        file: of the table, for messages.

    Raises:
        UnknownNameError: the table lacks a column of customers.
        ConfigurationError: an entry that ``forget_entry`` does not write.

    Example:
        >>> forgotten_rows(pa.table({"user": ["ann", "bob"]}), [forget_entry("bob", "user")]).tolist()
        [False, True]
    """
    found = np.zeros(table.num_rows, dtype=np.bool_)
    for column in forgotten_columns(forgotten):
        hashes: dict[str, set[str]] = {}
        for salt, digest, named in map(_parts, forgotten):
            if named == column:
                hashes.setdefault(salt, set()).add(digest)
        names = canonical_array(checked_column(table, column, file=file), file=file, column=column).dictionary_encode()
        is_gone = [
            any(_digest(salt, name) in digests for salt, digests in hashes.items())
            for name in names.dictionary.to_pylist()
        ]
        codes = names.indices.fill_null(len(is_gone)).to_numpy(zero_copy_only=False)
        found |= np.array([*is_gone, False], dtype=np.bool_)[codes]
    return found


def customer_rows(
    table: pa.Table, customer: str, column: str, *, file: str | None = None
) -> tuple[str, NDArray[np.bool_]]:
    """Return the id of a customer as a table spells it, and True for each of its rows.

    A spelling that the table has is taken as it is. Another one is looked for once more as the number that it is.

    Args:
        table: the rows.
        customer: the id.
        column: that holds the ids.
        file: of the table, for messages.

    Raises:
        UnknownNameError: the table lacks the column.

    Example:
        >>> name, rows = customer_rows(pa.table({"user": [7, 8]}), "7.0", "user")
        >>> name, rows.tolist()
        ('7', [True, False])
    """
    names = canonical_array(checked_column(table, column, file=file), file=file, column=column)
    for form in forms_of(customer):
        found = pc.fill_null(pc.equal(names, form), False).to_numpy(zero_copy_only=False).astype(np.bool_)
        if found.any():
            return form, found
    return forms_of(customer)[0], np.zeros(table.num_rows, dtype=np.bool_)


def _parts(entry: str) -> tuple[str, str, str]:
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise ConfigurationError(
            "is no hash of a customer", setting="forgotten", value=entry, fix="Leave it as forget wrote it."
        )
    return found[1], found[2], found[3]


def _digest(salt: str, name: str) -> str:
    return hashlib.sha256(f"{salt}\0{name}".encode()).hexdigest()
