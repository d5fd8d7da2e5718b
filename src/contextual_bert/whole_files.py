"""Files that are written whole or not at all, one or several that belong together. It does not know what they hold.

What is begun has a name that no other process takes, on whatever machine: two may write to one place.
"""

import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing_file(path: Path) -> Generator[Path]:
    """A temporary path beside ``path``; what is written there takes its place if the block ends well.

    Example:
        >>> with replacing_file(Path("report.md")) as partial:
        ...     _ = partial.write_text("42", encoding="utf-8")
        >>> Path("report.md").read_text(encoding="utf-8")
        '42'
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replacing_directory(directory: Path, *, last: str | None = None) -> Generator[Path]:
    """A temporary folder inside ``directory``; its files move up if the block ends well.

    Args:
        directory: where they shall be.
        last: the name of the file that says that all are there: an older one is removed before the first moves up, and
            it moves up last.

    Example:
        >>> with replacing_directory(Path("results")) as folder:
        ...     _ = (folder / "report.md").write_text("42", encoding="utf-8")
        >>> [path.name for path in Path("results").iterdir()]
        ['report.md']
    """
    partial = directory / f".partial-{secrets.token_hex(4)}"
    partial.mkdir(parents=True)
    try:
        yield partial
        if last is not None:
            (directory / last).unlink(missing_ok=True)
        for path in sorted(partial.iterdir(), key=lambda path: path.name == last):
            path.replace(directory / path.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
