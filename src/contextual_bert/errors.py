"""What can go wrong, said so that the reader can act on it.

Every message has three parts: what was wrong, with its value and place; what is allowed; what to do next.
This module knows nothing of tables, schemas or models: it only fixes the classes and how a place is written.
"""

import difflib
from collections.abc import Iterable, Sequence

# File -> the line of each of its rows, as the reader found them last; what is not here is counted in rows.
_lines_of_files: dict[str, Sequence[int]] = {}
# File -> the rows that are left, where a reader dropped some.
_rows_of_files: dict[str, Sequence[int]] = {}


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
        row: zero-based row of the table. The text names the line of an editor where the reader knows it, else the row
            counted from 1, without the header.
        column: name of the column (or of the context feature).
        fix: what is allowed and what to do next, as a sentence.

    Example:
        >>> str(DataError("'abc' is not a number", file="days.csv", row=3, column="age", fix="Give a number."))
        "days.csv, row 4, column 'age': 'abc' is not a number. Give a number. Rows count from 1, without the header."
    """

    def __init__(
        self, problem: str, *, file: str | None = None, row: int | None = None, column: str | None = None, fix: str = ""
    ) -> None:
        self.problem, self.file, self.row, self.column, self.fix = problem, file, row, column, fix
        super().__init__(str(self))

    def __str__(self) -> str:
        place = [self.file] if self.file else []
        if self.row is not None:
            place.append(place_of_row(self.row, self.file))
        if self.column is not None:
            place.append(f"column {self.column!r}")
        text = f"{', '.join(place)}: {self.problem}" if place else self.problem
        text = f"{text}. {self.fix}" if self.fix else text
        if self.row is None or place_of_row(self.row, self.file).startswith("line"):
            return text
        has_header = self.file is not None and any(ending in self.file.lower() for ending in (".csv", ".tsv"))
        return f"{text.removesuffix('.')}. Rows count from 1{', without the header' if has_header else ''}."


def rows_are_lines(file: str, lines: Sequence[int] | None) -> None:
    """Say which line of an editor each row of a file is; None where it is not known.

    Example:
        >>> rows_are_lines("days.csv", range(2, 12))
        >>> place_of_row(3, "days.csv")
        'line 5'
        >>> rows_are_lines("days.csv", None)
    """
    _rows_of_files.pop(file, None)
    if lines is None:
        _lines_of_files.pop(file, None)
    else:
        _lines_of_files[file] = lines


def rows_are_left(file: str, rows: Sequence[int] | None) -> None:
    """Say which rows of a file a table still has; None: all.

    Example:
        >>> rows_are_left("days.csv", [0, 2])
        >>> place_of_row(1, "days.csv")
        'row 3'
        >>> rows_are_left("days.csv", None)
    """
    if rows is None:
        _rows_of_files.pop(file, None)
    else:
        _rows_of_files[file] = rows


def place_of_row(row: int, file: str | None = None) -> str:
    """How a row is named to people: by its line if that is known, else counted from 1.

    Args:
        row: counted from 0.
        file: the row is from, if it is from one.

    Example:
        >>> place_of_row(0)
        'row 1'
    """
    left = _rows_of_files.get(file, ()) if file is not None else ()
    row = left[row] if 0 <= row < len(left) else row
    lines = _lines_of_files.get(file, ()) if file is not None else ()
    if 0 <= row < len(lines):
        return f"line {lines[row]}"
    return f"row {row + 1}"


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
