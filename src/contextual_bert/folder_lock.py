"""One writer a folder: a lock that ends with its process, however that ends, and says who holds it."""

import errno
import json
import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import cast

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from contextual_bert.errors import RunDirectoryError
from contextual_bert.json_text import json_text
from contextual_bert.places import PathPlace

LOCK_FILE = ".contextual-bert.lock"
FILE_AS_LOCK = f"{LOCK_FILE}-file"
# What a file system without locks of the kernel answers; NFS and Lustre may be mounted so.
_WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
_held = threading.local()


@contextmanager
def locked_folder(folder: str | Path, *, wait_seconds: float = 0) -> Generator[None]:
    """Hold the only lock of a folder; make the folder if need be, and remove it if nothing was written to it.

    The kernel frees the lock of a process that died. Where the file system has no such locks, a file stands for one: it
    names its process, and the lock of one that died on this machine is taken over. A thread may take a lock that it
    holds already. Of the processes of ``torchrun`` only the first takes it: they write one run together.

    Args:
        folder: what is to be written to.
        wait_seconds: how long to wait for another process; 0 does not wait.

    Raises:
        RunDirectoryError: another process holds the lock, or the folder cannot be written to.

    Example:
        >>> with locked_folder("runs/first"):
        ...     _ = Path("runs/first/notes.txt").write_text("mine", encoding="utf-8")
    """
    folder = Path(folder)
    held: set[Path] = _held.__dict__.setdefault("folders", set())
    here = folder.resolve()
    if here in held or os.environ.get("RANK", "0") != "0":
        yield
        return
    made = _make(folder)
    try:
        lock = _acquire(folder, wait_seconds)
        held.add(here)
        try:
            yield
        finally:
            held.discard(here)
            if not isinstance(cast(object, lock), SoftFileLock):
                # While it is held: whoever opened it before sees that it has no name any more, and opens the next one.
                with suppress(OSError):
                    (folder / LOCK_FILE).unlink(missing_ok=True)
            lock.release()
    finally:
        with suppress(OSError):  # only what is empty is removed
            for each in made:
                each.rmdir()


def check_not_written(folder: str | Path) -> None:
    """Raise RunDirectoryError while another process holds the lock of a folder that is to be read.

    Nothing is made there.

    Example:
        >>> check_not_written(".")
    """
    folder = Path(folder)
    if folder.resolve() in _held.__dict__.setdefault("folders", set()):
        return
    for path, kind in ((folder / LOCK_FILE, FileLock), (folder / FILE_AS_LOCK, SoftFileLock)):
        if not path.exists():
            continue
        try:
            with kind(path).acquire(timeout=0):
                pass
        except Timeout as error:
            fix = "Wait until that has ended, or stop it."
            raise RunDirectoryError(
                f"is in use: {_holder(path)} writes to it", fix=fix, place=PathPlace(folder)
            ) from error
        except OSError:  # a folder that this process may only read
            continue


def _make(folder: Path) -> list[Path]:
    """Make the folder with its parents, and return what was not there, the innermost first."""
    absent = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise RunDirectoryError(
            "is a file, and a folder is needed", fix="Give another --output.", place=PathPlace(folder)
        ) from error
    except OSError as error:
        raise _not_writable(folder, error) from error
    return absent


def _acquire(folder: Path, wait_seconds: float) -> BaseFileLock:
    path = folder / LOCK_FILE
    try:
        try:
            lock: BaseFileLock = FileLock(path)
            lock.acquire(timeout=wait_seconds)
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            with suppress(OSError):
                path.unlink()  # what was to be locked
            path = folder / FILE_AS_LOCK
            lock = SoftFileLock(path)
            lock.acquire(timeout=wait_seconds)
    except Timeout as error:
        raise RunDirectoryError(
            f"is in use: {_holder(path)} writes to it",
            fix="Wait until that has ended, stop it, or give another --output.",
            place=PathPlace(folder),
        ) from error
    except OSError as error:
        raise _not_writable(folder, error) from error
    if not isinstance(cast(object, lock), SoftFileLock):  # whose file says it in words of its own
        since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        about = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        with suppress(OSError):
            path.write_text(json_text(about) + "\n", encoding="utf-8")
    return lock


def _holder(path: Path) -> str:
    """Return what a lock file says of its process."""
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        text = path.read_text(encoding="utf-8")
        if text.startswith("{"):
            about = json.loads(text)
            return f"process {about['pid']} on {about['host']}, since {about['since']},"
        pid, host = text.split()[:2]
        return f"process {pid} on {host} (if that has ended, remove {path})"
    return "another process"


def _not_writable(folder: Path, error: OSError) -> RunDirectoryError:
    reason = (error.strerror or str(error)).rstrip(".")
    return RunDirectoryError(
        f"cannot be written to: {reason}. Give a folder on a disk that this process may write to.",
        place=PathPlace(folder),
    )
