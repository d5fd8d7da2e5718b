"""Which files are tables, told by their names, and a table's path that leads nowhere. Imports no reader."""

from os import PathLike
from pathlib import Path

from contextual_bert.errors import DataError, did_you_mean

__all__ = ["COMPRESSIONS", "REVIEW_SUFFIX", "TABLE_SUFFIXES", "check_exists", "file_type"]

# Ending -> the name that arrow has for it.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
REVIEW_SUFFIX = ".ss"  # imdb.train.txt.ss, yelp-2013-seg-20-20.train.ss
TABLE_SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", REVIEW_SUFFIX)


def file_type(path: Path) -> tuple[str, str | None]:
    """Return the ending that says what a file holds, and its compression.

    Example:
        >>> file_type(Path("days.CSV.gz")), file_type(Path("days.parquet"))
        (('.csv', 'gzip'), ('.parquet', None))
    """
    suffix = path.suffix.lower()
    if suffix in COMPRESSIONS:
        return Path(path.stem).suffix.lower(), COMPRESSIONS[suffix]
    return suffix, None


def check_exists(path: str | PathLike[str]) -> None:
    """Raise DataError where no file is at a path, with the name of a table in its folder that is alike.

    Example:
        >>> check_exists(".")
    """
    path = Path(path)
    if not path.exists():
        siblings = [found.name for found in path.parent.iterdir()] if path.parent.is_dir() else []
        tables = [name for name in siblings if file_type(Path(name))[0] in TABLE_SUFFIXES]
        near = did_you_mean(path.name, tables, label="In its folder") if tables else "There is no table in its folder."
        raise DataError("there is no such file", file=str(path), fix=f"Check the path. {near}")
