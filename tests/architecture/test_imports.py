"""The import directions of pyproject.toml hold, and every package stands in one of their layers."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "contextual_bert"


def test_import_contracts_are_kept() -> None:
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", result.stdout), result.stdout


def test_every_package_stands_in_a_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    named = set(re.findall(r"contextual_bert\.(\w+)", " ".join(layers)))
    present = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert not present - named - {"__init__"}, "add these to the layers contract in pyproject.toml"


def test_json_is_written_in_one_place() -> None:
    """`json_text` refuses NaN, which is no JSON; a text that is only looked at for its characters may have any."""
    looked_at = {"contextual_bert/server/bodies.py": 1, "contextual_bert_cli/records.py": 1}
    found = {
        path.relative_to(ROOT / "src").as_posix(): len(re.findall(r"\bjson\.dumps?\(", path.read_text("utf-8")))
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "json_text.py"
    }
    assert {name: count for name, count in found.items() if count} == looked_at, "use contextual_bert.json_text"
