"""Places: where something is wrong, as keys that programs read and as the beginning of a sentence.

A place is a cell of a table, a value in a query or in a JSON document, a setting, a folder or a file.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

# File -> the line of each of its rows, as the reader found them last; what is not here is counted in rows.
_lines_of_files: dict[str, Sequence[int]] = {}
# File -> the rows that are left, where a reader dropped some.
_rows_of_files: dict[str, Sequence[int]] = {}

Key = str | int
Spelling = Callable[[str, object], str]


class Place(Protocol):
    """Base class of places: where something is wrong."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys that lead there, the outermost first."""
        ...

    def text(self, value: object, spelling: Spelling) -> str:
        """Return the place as the beginning of a sentence; ``value`` is what stands there."""
        ...


@dataclass(frozen=True)
class TablePlace:
    """A cell, a row, a column or a file.

    Args:
        file: path of the table, if it came from one.
        row: counted from 0.
        column: name of the column.
        lacking: names of the columns that the table does not have; the problem says them.

    Example:
        >>> TablePlace("days.csv", 3, "age").keys
        ('days.csv', 3, 'age')
    """

    file: str | None = None
    row: int | None = None
    column: str | None = None
    lacking: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[Key, ...]:
        """File, row and columns, as far as they are known."""
        return tuple(key for key in (self.file, self.row, self.column, *self.lacking) if key is not None)

    def text(self, value: object, spelling: Spelling) -> str:
        """Return file, row and column as the beginning of a sentence; the row is named as an editor counts."""
        row = [place_of_row(self.row, self.file)] if self.row is not None else []
        place = [*([self.file] if self.file else []), *row]
        if self.column is not None:
            place.append(f"column {self.column!r}")
        return f"{', '.join(place)}: " if place else ""

    @property
    def remark(self) -> str:
        """Return a remark on the counting of rows, for a row that is no line of a file."""
        if self.row is None or place_of_row(self.row, self.file).startswith("line"):
            return ""
        has_header = self.file is not None and any(ending in self.file.lower() for ending in (".csv", ".tsv"))
        return f"Rows count from 1{', without the header' if has_header else ''}."


@dataclass(frozen=True)
class QueryPlace:
    """A value in a list of queries.

    Args:
        keys: of the value: the number of the query, counted from 0, then the keys in it. Without a number the place
            is in a query that is not numbered yet.

    Example:
        >>> from contextual_bert.errors import in_python
        >>> QueryPlace((1, "where", 0, "at_most")).text(None, in_python)
        'query 2, where[0].at_most: '
    """

    keys: tuple[Key, ...] = ()

    @property
    def row(self) -> int | None:
        """The number of the query, counted from 0; None where it has none."""
        return self.keys[0] if self.keys and isinstance(self.keys[0], int) else None

    @property
    def inner(self) -> tuple[Key, ...]:
        """The keys in the query."""
        return self.keys if self.row is None else self.keys[1:]

    def text(self, value: object, spelling: Spelling) -> str:
        """Return the query and the path in it as the beginning of a sentence."""
        number = [f"query {self.row + 1}"] if self.row is not None else []
        place = [*number, *([path_of(self.inner)] if self.inner else [])]
        return f"{', '.join(place)}: " if place else ""


@dataclass(frozen=True)
class JsonPlace:
    """A value in a JSON document, such as a schema or a recipe.

    Args:
        inner: the keys that lead to the value.
        file: path of the document, if it came from one.
        words: for the keys, where people are told more than a path; "" tells the path.

    Example:
        >>> from contextual_bert.errors import in_python
        >>> JsonPlace(("features", 0, "edges"), "schema.json").text(None, in_python)
        'schema.json, features[0].edges: '
    """

    inner: tuple[Key, ...] = ()
    file: str | None = None
    words: str = ""

    @property
    def keys(self) -> tuple[Key, ...]:
        """The file, if there is one, and the keys in it."""
        return (*([self.file] if self.file is not None else []), *self.inner)

    def text(self, value: object, spelling: Spelling) -> str:
        """Return the file and the path in it as the beginning of a sentence."""
        parts = [part for part in (self.file, self.words or path_of(self.inner)) if part]
        return f"{', '.join(parts)}: " if parts else ""


@dataclass(frozen=True)
class PathPlace:
    """A folder, or a file as a whole.

    Args:
        path: of it.
        is_subject: the path is the subject of the sentence, as in "run holds no model"; else a colon is behind it.
    """

    path: str | os.PathLike[str]
    is_subject: bool = True

    @property
    def keys(self) -> tuple[Key, ...]:
        """The path."""
        return (os.fspath(self.path),)

    def text(self, value: object, spelling: Spelling) -> str:
        """Return the path as the beginning of a sentence."""
        return f"{os.fspath(self.path)}{' ' if self.is_subject else ': '}"


@dataclass(frozen=True)
class SettingPlace:
    """A setting: an argument in Python, an option of a command, a parameter of an address.

    Args:
        name: of the argument in Python.
        of: the argument that holds it under this name, where it is no argument itself.

    Example:
        >>> from contextual_bert.errors import in_python
        >>> SettingPlace("learning_rat", of="training").text(0.1, in_python)
        "training={'learning_rat': 0.1} "
    """

    name: str
    of: str | None = None

    @property
    def keys(self) -> tuple[Key, ...]:
        """The name, after that of the argument that holds it."""
        return (self.name,) if self.of is None else (self.of, self.name)

    def text(self, value: object, spelling: Spelling) -> str:
        """Return the setting with its value as the subject of a sentence."""
        return f"{spelling(self.name, value) if self.of is None else spelling(self.of, {self.name: value})} "


@dataclass(frozen=True)
class SettingsPlace:
    """Settings of which one is lacking, or which do not go together; the problem says them.

    Args:
        names: of the arguments in Python, or of the options of a command.
    """

    names: tuple[str, ...]

    @property
    def keys(self) -> tuple[Key, ...]:
        """The names."""
        return self.names

    def text(self, value: object, spelling: Spelling) -> str:
        """Return no words."""
        return ""


def path_of(keys: Sequence[Key]) -> str:
    """Return keys as a path that people read.

    Example:
        >>> path_of(["where", 0, "at_most"])
        'where[0].at_most'
    """
    path = ""
    for key in keys:
        path += f"[{key}]" if isinstance(key, int) else f".{key:.80}" if path else f"{key:.80}"
    return path


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


def lines_of_rows(file: str) -> Sequence[int] | None:
    """Return the line of an editor that each row of a file is, None where it is not known.

    Example:
        >>> rows_are_lines("days.csv", range(2, 12))
        >>> lines_of_rows("days.csv")[0]
        2
        >>> rows_are_lines("days.csv", None)
    """
    return _lines_of_files.get(file)


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
    """Return the name of a row for people: its line in the file if known, else its number from 1.

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
