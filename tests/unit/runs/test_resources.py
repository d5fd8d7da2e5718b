"""What a run took, told apart from what ran before it; and the commit it is said to be of."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from contextual_bert.runs import provenance, resources
from contextual_bert.runs.resources import PeakMemory

MANY = 2**28


def test_the_peak_is_that_of_one_run() -> None:
    held = np.ones(MANY, dtype=np.uint8)
    first = PeakMemory().bytes()
    del held
    second = PeakMemory()
    before = second.bytes()
    assert first is not None and before is not None
    assert first - before > 0.9 * MANY
    held = np.ones(MANY, dtype=np.uint8)
    del held
    after = second.bytes()
    assert after is not None
    assert after - before > 0.9 * MANY


def test_a_mark_that_cannot_be_set_back_is_believed_only_where_it_rises(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resources, "_CLEAR", tmp_path / "nowhere" / "clear_refs")
    held = np.ones(MANY, dtype=np.uint8)
    del held
    memory = PeakMemory()
    assert memory.bytes() is None
    held = np.ones(3 * MANY, dtype=np.uint8)
    found = memory.bytes()
    assert found is not None and found > 3 * MANY
    monkeypatch.setattr(resources, "_STATUS", tmp_path / "nowhere" / "status")
    assert (memory.bytes() or 0) > 3 * MANY
    assert len(held) == 3 * MANY


def test_a_change_anywhere_in_the_package_marks_the_commit(tmp_path: Path) -> None:
    """The file stands two folders below the package's root, whichever file of the package differs."""
    package = tmp_path / "package"
    (package / "runs").mkdir(parents=True)
    shutil.copy(provenance.__file__, package / "runs" / "provenance.py")
    (package / "model.py").write_text("")

    def git(*arguments: str) -> None:
        names = ["-c", "user.name=A", "-c", "user.email=a@b"]
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "--message", "first")
    spec = importlib.util.spec_from_file_location("provenance_copy", package / "runs" / "provenance.py")
    assert spec is not None and spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    clean = copy.commit()
    assert clean is not None and len(clean) == 12
    (package / "model.py").write_text("changed = True")
    assert copy.commit() == f"{clean}+"
