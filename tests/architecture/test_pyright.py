"""pyright finds nothing in src, in the strict mode that pyproject.toml sets."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_pyright_is_clean() -> None:
    environment = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # else it asks the network for a newer version
    result = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(ROOT), "--outputjson"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.stdout.lstrip().startswith("{"), result.stdout + result.stderr
    report = json.loads(result.stdout)
    faults = [
        f"{Path(fault['file']).relative_to(ROOT)}:{fault['range']['start']['line'] + 1} {fault['message']}"
        for fault in report["generalDiagnostics"]
        if fault["severity"] == "error"
    ]
    assert report["summary"]["filesAnalyzed"] > 0
    assert not faults, "\n".join(faults)
