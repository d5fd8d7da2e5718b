"""A folder that knows its own files: what is changed, removed or added is named; what decides nothing may change."""

import json
import os
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from contextual_bert.atomic_files import replacing_directory, replacing_file, share_files
from contextual_bert.errors import RunDirectoryError
from contextual_bert.manifest import (
    MANIFEST_FILE,
    RESULT_FILES,
    check_manifest,
    check_readable,
    has_manifest,
    write_manifest,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("config.json", "model.safetensors", "README.md", "metrics.json", "notes.txt", "recipe.json"):
        (tmp_path / name).write_text(name)
    (tmp_path / "evaluation").mkdir()
    write_manifest(tmp_path)
    return tmp_path


def test_the_manifest_names_what_decides_the_answers(folder: Path) -> None:
    content = json.loads((folder / MANIFEST_FILE).read_text())
    assert content["format"] == "contextual-bert manifest 1"
    assert [*content["files"]] == ["config.json", "model.safetensors", "recipe.json"]
    assert content["files"]["config.json"] == {"bytes": 11, "sha256": sha256(b"config.json").hexdigest()}
    check_manifest(folder)


def test_what_decides_nothing_may_change(folder: Path) -> None:
    for name in ("README.md", "notes.txt", "metrics.json", "recipe.json"):  # the last is no part of its model
        (folder / name).write_text("changed")
    (folder / "tensorboard").mkdir()
    check_manifest(folder)
    with pytest.raises(RunDirectoryError, match=r"recipe\.json differs"):
        check_manifest(folder, RESULT_FILES)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("config.jsom", "its content is another"),
        ("more than it was", "it has 16 bytes, and had 11 when"),
        (None, "is missing"),
    ],
    ids=["content", "size", "missing"],
)
def test_a_changed_file_is_named(folder: Path, content: str | None, problem: str) -> None:
    path = folder / "config.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(RunDirectoryError, match=rf"config\.json .*{problem}.*(Copy|train) .*again"):
        check_manifest(folder)
    write_manifest(folder)
    check_manifest(folder)


def test_a_file_that_loading_would_read_is_not_added(folder: Path) -> None:
    (folder / "adapter_config.json").touch()
    with pytest.raises(RunDirectoryError, match=r"adapter_config\.json is not in .*manifest\.json.*Remove it"):
        check_manifest(folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"format": "another", "files": {}}',
        '{"files": {"config.json": null}}',
        "[" * 10_000,
    ],
    ids=lambda text: text[:12] or "empty",
)
def test_a_manifest_that_is_none_is_named(folder: Path, text: str) -> None:
    (folder / MANIFEST_FILE).write_text(text)
    with pytest.raises(RunDirectoryError, match=r"manifest\.json"):
        check_manifest(folder)


@pytest.mark.parametrize("kind", ["folder", "dangling link", "link to a folder", "loop"])
def test_a_manifest_that_is_no_file_is_not_taken_for_none(folder: Path, kind: str) -> None:
    path = folder / MANIFEST_FILE
    path.unlink()
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"dangling link": "nowhere", "link to a folder": "evaluation", "loop": MANIFEST_FILE}[kind])
    assert has_manifest(folder)
    with pytest.raises(
        RunDirectoryError, match=r"manifest\.json is (no file|a link to nothing).*Copy the folder again"
    ):
        check_manifest(folder)


def test_a_folder_without_one_is_taken_as_it_is(tmp_path: Path) -> None:
    check_manifest(tmp_path)
    assert not has_manifest(tmp_path) and not has_manifest(tmp_path / "absent") and not has_manifest("a\0b")
    with pytest.raises(RunDirectoryError, match="is no folder"):
        write_manifest(tmp_path / "absent")


def test_what_may_not_be_read_is_not_called_damaged(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    (folder / "model.safetensors").chmod(0o600)
    for each in (folder, *folder.parents):
        if each.owner() == "root" and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        with pytest.raises(RunDirectoryError, match=r"model\.safetensors cannot be read: Permission denied") as raised:
            check_readable(folder)
        with pytest.raises(RunDirectoryError, match=r"model\.safetensors cannot be read: Permission denied"):
            check_manifest(folder)
    finally:
        os.seteuid(0)
    assert "damaged" not in str(raised.value) and "rain again" not in str(raised.value)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)], ids=oct)
def test_files_have_the_mode_of_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with replacing_file(tmp_path / "a") as partial:
            partial.touch(mode=0o600)
        with replacing_directory(tmp_path / "folder") as partial:
            (partial / "b").touch(mode=0o600)
        (tmp_path / "c").touch(mode=0o600)
        share_files(tmp_path / "c")
    finally:
        os.umask(before)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"a": mode, "b": mode, "c": mode}
