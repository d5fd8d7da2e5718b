"""The processes of runs beside each other start from one that has imported what they need."""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from contextual_bert.runs.processes import LONGEST_FOLDER, PRELOADED, process_context, take_environment


def tell(listener: Connection) -> None:
    listener.send(os.getppid())


def test_a_script_may_start_the_imports_before_its_own() -> None:
    heavy = "{'torch', 'transformers', 'numpy', 'pyarrow'}"
    code = f"import sys, contextual_bert.runs.processes; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_imported_ahead_is_there() -> None:
    # The fork server passes over a module that it cannot find, and each process would import for itself again.
    assert find_spec(PRELOADED) is not None


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")
@pytest.mark.slow
def test_processes_are_forks_of_one() -> None:
    context = process_context()
    parents = set[int]()
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=tell, args=(theirs,))
        process.start()
        parents.add(ours.recv())
        process.join()
    assert len(parents) == 1
    assert os.getpid() not in parents


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")
@pytest.mark.parametrize(("spare", "method"), [(0, "forkserver"), (-1, "spawn")])
def test_a_socket_needs_a_folder_with_a_short_name(spare: int, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long = Path("/tmp", "x" * (LONGEST_FOLDER - len("/tmp/") - spare))
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert process_context().get_start_method() == method


def test_a_process_has_the_environment_of_the_one_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    asked = {**os.environ, "CUDA_VISIBLE_DEVICES": "1"}
    before = dict(os.environ)
    try:
        take_environment(asked)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    finally:
        take_environment(before)
