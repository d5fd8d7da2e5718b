"""What can go wrong, said so that the reader can act on it.

Every message has three parts: what was wrong, with its value and place; what is allowed; what to do next.
This module knows nothing of tables, schemas or models: it only fixes the classes and how a place is written.
"""

import difflib
from collections.abc import Iterable


class ContextualBertError(Exception):
    """Base of every error this package raises on purpose; the command line prints its text and exits with 2."""


class ConfigurationError(ContextualBertError, ValueError):
    """A setting that cannot work: raised when the object is made, not when it is used."""


class SchemaError(ContextualBertError, ValueError):
    """A context schema that is not valid, or does not fit the table it is used with."""


class UnknownNameError(ContextualBertError, LookupError):
    """A name that is not registered, not a column, not an option."""


class RunDirectoryError(ContextualBertError, OSError):
    """A run directory that is incomplete, from another version, or in use."""


class CheckpointError(ContextualBertError, OSError):
    """A pretrained checkpoint that is absent, incomplete or of another architecture."""


class NonFiniteError(ContextualBertError, FloatingPointError):
    """A number that is none: a model gave NaN or infinity, from its weights or its inputs."""


class DataError(ContextualBertError, ValueError):
    """A faulty table: names the file, the row, the column and the value.

    Args:
        problem: what is wrong with the value, as a phrase.
        file: path of the table, if it came from one.
        row: zero-based row of the table.
        column: name of the column (or of the context feature).
        fix: what is allowed and what to do next, as a sentence.

    Example:
        >>> str(DataError("'abc' is not a number", file="days.csv", row=3, column="age", fix="Give a number."))
        "days.csv, row 3, column 'age': 'abc' is not a number. Give a number."
    """

    def __init__(
        self, problem: str, *, file: str | None = None, row: int | None = None, column: str | None = None, fix: str = ""
    ) -> None:
        self.problem, self.file, self.row, self.column, self.fix = problem, file, row, column, fix
        super().__init__(str(self))

    def __str__(self) -> str:
        place = [self.file] if self.file else []
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.column is not None:
            place.append(f"column {self.column!r}")
        text = f"{', '.join(place)}: {self.problem}" if place else self.problem
        return f"{text}. {self.fix}" if self.fix else text


def shown(value: object, *, longest: int = 80) -> str:
    """A value as a message names it, cut short; Python itself spells no whole number of more than 4,300 digits.

    Example:
        >>> shown("old"), shown(10**5000)
        ("'old'", 'a whole number of about 5000 digits')
    """
    try:
        return f"{value!r:.{longest}}"
    except ValueError:
        digits = round(int(value).bit_length() * 0.30103) if isinstance(value, int) else 0
        return f"a whole number of about {digits} digits" if digits else f"a {type(value).__name__} of such numbers"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that suggests the closest known name and lists the others.

    Example:
        >>> did_you_mean("globl_state", ["none", "global_state"])
        "Did you mean 'global_state'? Known: global_state, none."
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    suggestion = f"Did you mean {close[0]!r}? " if close else ""
    return f"{suggestion}Known: {', '.join(names) or '(nothing)'}."
