"""One writer a folder: refused beside another, free again when that has ended, however it ended."""

import errno
import fcntl
import json
import os
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contextual_bert.errors import RunDirectoryError
from contextual_bert.folder_lock import LOCK_FILE, check_not_written, locked_folder


def take(folder: Path) -> None:
    with locked_folder(folder):
        pass


@contextmanager
def another_process(folder: Path) -> Generator[int]:
    """The number of a process that holds the lock; it is killed at the end, as by the kernel's out-of-memory killer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with locked_folder(folder):
            os.write(writing, b"held")
            signal.pause()
        os._exit(0)
    assert os.read(reading, 4) == b"held"
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_a_second_process_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    with another_process(tmp_path) as child:
        with pytest.raises(RunDirectoryError) as raised:
            take(tmp_path)
        text = str(raised.value)
        assert f"{tmp_path} is in use: process {child} on {socket.gethostname()}, since 20" in text
        assert "Wait until that has ended, stop it, or give another --output." in text
        assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == child, "not truncated by the one refused"
    take(tmp_path)  # a process that died holds nothing


def test_a_folder_that_is_written_to_is_not_read(tmp_path: Path) -> None:
    check_not_written(tmp_path)
    assert [*tmp_path.iterdir()] == []
    with another_process(tmp_path) as child:
        with pytest.raises(RunDirectoryError, match=rf"in use: process {child} .* stop it") as raised:
            check_not_written(tmp_path)
        assert "--output" not in str(raised.value)
        assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == child
    check_not_written(tmp_path)  # what held it has died
    with locked_folder(tmp_path):
        check_not_written(tmp_path)


def test_a_thread_may_lock_again_what_it_holds_and_another_may_not(tmp_path: Path) -> None:
    found: list[str] = []

    def second() -> None:
        try:
            with locked_folder(tmp_path):
                found.append("both")
        except RunDirectoryError as error:
            found.append(str(error))

    with locked_folder(tmp_path), locked_folder(tmp_path / "." / "") as _:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert "is in use" in found[0]
    thread = threading.Thread(target=second)
    thread.start()
    thread.join()
    assert found[1] == "both"


def test_it_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked_folder(tmp_path / "runs" / "a"):
        1 / 0  # noqa: B018
    assert [*tmp_path.iterdir()] == []
    with locked_folder(tmp_path / "b"):
        (tmp_path / "b" / "notes.txt").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["b", "notes.txt"]


def test_only_the_first_of_the_processes_of_torchrun_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with another_process(tmp_path):
        monkeypatch.setenv("RANK", "1")
        take(tmp_path)
        monkeypatch.setenv("RANK", "0")
        with pytest.raises(RunDirectoryError, match="in use"):
            take(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
@pytest.mark.filterwarnings("ignore:flock not supported")
def test_a_file_stands_for_the_lock_where_the_file_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    expected = "in use: process {} .*if that has ended, remove"
    with another_process(tmp_path) as child, pytest.raises(RunDirectoryError, match=expected.format(child)):
        take(tmp_path)
    with locked_folder(tmp_path):  # of a process of this machine it is known that it died
        assert len([*tmp_path.iterdir()]) == 1
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="file is a file, and a folder is needed"):
        take(tmp_path / "file")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RunDirectoryError, match=r"cannot be written to: Read-only file system\. Give a folder on"):
        take(tmp_path)
