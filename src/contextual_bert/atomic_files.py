"""Files that are written whole or not at all, one or several that belong together. It does not know what they hold.

What is begun has a name that no other process takes, on whatever machine: two may write to one place. What is done has
the mode that the umask gives, whatever wrote it: some libraries make files that only their owner may read.
"""

import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextual_bert.folder_lock import locked_folder

SECONDS_TO_WAIT = 60  # for another process that moves its files into the same folder, which takes milliseconds


def share_files(*paths: Path) -> None:
    """Give files, and the files of folders, the mode that the umask gives to new ones.

    Args:
        *paths: files or folders of this process's user.

    Example:
        >>> Path("private.txt").touch(mode=0o600)
        >>> share_files(Path("private.txt"))
    """
    mode = 0o666 & ~_umask()
    for path in paths:
        for file in path.rglob("*") if path.is_dir() else (path,):
            if file.is_file() and not file.is_symlink():
                with suppress(FileNotFoundError):  # of several processes another may clean up
                    file.chmod(mode)


def _umask() -> int:
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("Umask:")).split()[1], base=8)
    except (OSError, StopIteration):  # of other systems: it is told only by setting it
        found = os.umask(0o077)
        os.umask(found)
        return found


def check_can_be_made(path: Path) -> None:
    """Raise OSError, with the path, where no file or folder can be made there: before the work that it shall hold.

    Args:
        path: of a file or folder, which may lie in folders that are not there yet.

    Example:
        >>> check_can_be_made(Path("results/today/report.md"))
    """
    place = path if path.is_dir() else next(each for each in path.absolute().parents if each.exists())
    partial = place / _partial_name(path)
    with _named(partial, path):
        partial.touch()
        partial.unlink()


def _partial_name(path: Path) -> str:
    return f".{path.name}.{secrets.token_hex(4)}.partial"


@contextmanager
def _named(partial: Path, path: Path) -> Generator[None]:
    """Let an error about what is begun, or about a file in it, name what it was to become."""
    try:
        yield
    except OSError as error:
        begun = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes | Path) else None
        if begun is not None and begun.is_relative_to(partial):
            error.filename = str(path / begun.relative_to(partial))
        raise


@contextmanager
def replacing_file(path: Path) -> Generator[Path]:
    """A temporary path beside ``path``; what is written there takes its place if the block ends well.

    Example:
        >>> with replacing_file(Path("report.md")) as partial:
        ...     _ = partial.write_text("42", encoding="utf-8")
        >>> Path("report.md").read_text(encoding="utf-8")
        '42'
    """
    partial = path.with_name(_partial_name(path))
    try:
        with _named(partial, path):
            yield partial
            share_files(partial)
            partial.replace(path)
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            partial.unlink()


@contextmanager
def replacing_directory(directory: Path, *, last: str | None = None) -> Generator[Path]:
    """A temporary folder inside ``directory``; its files move up if the block ends well, under the folder's lock.

    Args:
        directory: where they shall be.
        last: the name of the file that says that all are there: an older one is removed before the first moves up, and
            it moves up last.

    Raises:
        RunDirectoryError: another process holds the lock of the folder.

    Example:
        >>> with replacing_directory(Path("results")) as folder:
        ...     _ = (folder / "report.md").write_text("42", encoding="utf-8")
        >>> [path.name for path in Path("results").iterdir()]
        ['report.md']
    """
    partial = directory / f".partial-{secrets.token_hex(4)}"
    try:
        with _named(partial, directory):
            partial.mkdir(parents=True)
            yield partial
            share_files(partial)
            with locked_folder(directory, wait_seconds=SECONDS_TO_WAIT):
                if last is not None:
                    (directory / last).unlink(missing_ok=True)
                for path in sorted(partial.iterdir(), key=lambda path: path.name == last):
                    path.replace(directory / path.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
