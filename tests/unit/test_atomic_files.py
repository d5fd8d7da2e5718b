"""What is written whole or not at all: also by two at once, and where the machine stops in the middle."""

import os
from pathlib import Path

import pytest

from contextual_bert.atomic_files import check_can_be_made, replacing_directory, replacing_file


def test_two_of_one_process_number_do_not_touch_each_other(tmp_path: Path) -> None:
    """Two containers see the same number of theirs, and may write into one shared folder."""
    with replacing_directory(tmp_path) as first, replacing_directory(tmp_path) as second:
        for number, folder in enumerate((first, second)):
            (folder / f"{number}.txt").write_text(str(os.getpid()), encoding="utf-8")
    with replacing_file(tmp_path / "2.txt") as first, replacing_file(tmp_path / "2.txt") as second:
        first.write_text("first", encoding="utf-8")
        second.write_text("second", encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.txt", "1.txt", "2.txt"]
    assert (tmp_path / "2.txt").read_text("utf-8") == "first", "the one that ended last"


def test_old_and_new_files_are_never_taken_for_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(text: str) -> None:
        with replacing_directory(tmp_path, last="record.json") as folder:
            for name in ("graph.onnx", "config.json", "record.json"):
                (folder / name).write_text(text, encoding="utf-8")

    write("old")
    moves, replace_file = 0, Path.replace

    def stops_in_the_middle(self: Path, target: Path) -> Path:
        nonlocal moves
        moves += 1
        if moves == 2:
            raise OSError("the machine goes down")
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", stops_in_the_middle)
    with pytest.raises(OSError, match="goes down"):
        write("new")
    found = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    assert sorted(found.values()) == ["new", "old"]
    assert "record.json" not in found, "which would speak for them"


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(ValueError, match="no"), replacing_file(path) as partial:
        partial.write_text("half", encoding="utf-8")
        raise ValueError("no")
    assert [(each.name, each.read_text("utf-8")) for each in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_place_that_takes_no_file_is_named(tmp_path: Path) -> None:
    """Root may write to any folder, but for those of the kernel."""
    (tmp_path / "file").touch()
    for path in (Path("/proc/table.parquet"), tmp_path / "file" / "table.parquet", tmp_path / "file" / "a" / "b"):
        with pytest.raises(OSError) as raised:
            check_can_be_made(path)
        assert raised.value.filename == str(path)
    with pytest.raises(OSError) as raised, replacing_file(Path("/proc/table.csv")) as partial:
        partial.write_text("a", encoding="utf-8")
    assert raised.value.filename == "/proc/table.csv"


def test_looking_at_a_place_leaves_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "new" / "table.parquet", tmp_path / "table.parquet", tmp_path):
        check_can_be_made(path)
    assert not [*tmp_path.iterdir()]


def test_errors_name_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replacing_directory(tmp_path / "results") as folder:
        (folder / "pictures" / "curve.png").write_bytes(b"")
    assert caught.value.filename == str(tmp_path / "results" / "pictures" / "curve.png")
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as begun, replacing_directory(tmp_path / "file"):
        pytest.fail("a file is no folder")
    assert ".partial" not in str(begun.value)
