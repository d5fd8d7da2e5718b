"""A folder of files that belong together, written whole or not at all. This module does not know what they hold."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing_directory(directory: Path, *, last: str | None = None) -> Generator[Path]:
    """A temporary folder inside ``directory``; its files move up if the block ends well, the one called ``last`` last.

    Example:
        >>> with replacing_directory(Path("results")) as folder:
        ...     _ = (folder / "report.md").write_text("42", encoding="utf-8")
        >>> [path.name for path in Path("results").iterdir()]
        ['report.md']
    """
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f".partial-{os.getpid()}"
    try:
        partial.mkdir()
        yield partial
        for path in sorted(partial.iterdir(), key=lambda path: path.name == last):
            path.replace(directory / path.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
