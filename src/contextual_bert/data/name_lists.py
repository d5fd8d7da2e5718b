"""A list of names in a file: one a line, or a column of a table. It does not know what they are names of."""

from os import PathLike
from pathlib import Path

from contextual_bert.context.vocabulary import canonical_array
from contextual_bert.data.checked_columns import checked_column
from contextual_bert.data.readers import read_table
from contextual_bert.errors import DataError

__all__ = ["read_names"]

_LINES = ("", ".txt", ".list", ".ids")  # how the names of files of lines end


def read_names(path: str | PathLike[str], *, column: str) -> list[str]:
    """Read the names in a file, each once, in the order of the file.

    Args:
        path: text with a name a line, whose file ends in .txt or in nothing; or a table that ``read_table`` takes.
        column: of the table.

    Raises:
        DataError: there is no such file, it has no name, or a cell of the column is missing.
        UnknownNameError: the table has no such column.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "removed.txt"
        >>> _ = path.write_text("ann\\n\\n bob \\nann\\n")
        >>> read_names(path, column="customer")
        ['ann', 'bob']
    """
    path = Path(path)
    if path.suffix.lower() not in _LINES:
        cells = checked_column(read_table(path, code_columns=(column,)), column, file=str(path), complete=True)
        names = canonical_array(cells, file=str(path), column=column).to_pylist()
    else:
        try:
            names = path.read_text(encoding="utf-8-sig").splitlines()
        except FileNotFoundError as error:
            raise DataError("there is no such file", file=str(path), fix="Check the path.") from error
        except (OSError, UnicodeDecodeError) as error:
            fix = "Give text in UTF-8 with a name a line, or a table."
            raise DataError(f"the file cannot be read: {error}", file=str(path), fix=fix) from error
    found = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not found:
        raise DataError("the file has no name", file=str(path), fix="Write one a line.")
    return found
