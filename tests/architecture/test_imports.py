"""The import directions of pyproject.toml hold, and every package stands in one of their layers."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from contextual_bert.training import TASK_SETTINGS

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


def imports_of(source: str, modules: set[str]) -> set[str]:
    """Return the modules that a file imports, those for types alone and those inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = {each.name: f"{node.module}.{each.name}" for each in node.names}
            found |= {name if name in modules else node.module for name in inner.values()}
    return found & modules


def circle_of(sources: dict[str, str]) -> list[str]:
    """Return modules that import each other in a circle; none if there is no circle."""
    try:
        TopologicalSorter({name: imports_of(text, {*sources}) for name, text in sources.items()}).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Type checkers follow imports for types, so a circle of them is a circle."""
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import b\n"
    assert circle_of({"a": "import a.b", "a.b": "def f():\n    import a"}) == ["a", "a.b", "a"]
    assert circle_of({"a": "", "a.b": "import a.c", "a.c": typed}) == ["a.b", "a.c", "a.b"]
    assert circle_of({"a": "", "a.b": "import a.c", "a.c": "import json"}) == []
    sources: dict[str, str] = {}
    for path in (ROOT / "src").rglob("*.py"):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text("utf-8")
    assert len(sources) > 100
    assert circle_of(sources) == [], "state what is needed as a base class or a function in a lower module"


def test_nobody_asks_for_the_class_of_a_task() -> None:
    """A new kind of task is one class: what differs between tasks is an attribute or a method of theirs."""
    classes = {*(each.__name__ for each in TASK_SETTINGS.values()), "TextTask", "LabelTask"}
    faulty: list[str] = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
                faulty += [f"{path.relative_to(ROOT)}, line {node.lineno}"] if asked & classes else []
    assert faulty == [], "let the task say it: contextual_bert.training.task_settings"


def test_json_is_written_in_one_place() -> None:
    """`json_text` refuses NaN, which is no JSON; a text that is only looked at for its characters may have any."""
    looked_at = {"contextual_bert/server/requests.py": 1, "contextual_bert_cli/records.py": 1}
    found = {
        path.relative_to(ROOT / "src").as_posix(): len(re.findall(r"\bjson\.dumps?\(", path.read_text("utf-8")))
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "json_text.py"
    }
    assert {name: count for name, count in found.items() if count} == looked_at, "use contextual_bert.json_text"


def test_no_code_of_a_folder_is_run() -> None:
    """transformers asks on the terminal whether to run it, unless it is told at each call that it shall not."""
    faulty: list[str] = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called, told = ast.unparse(node.func), {each.arg: ast.unparse(each.value) for each in node.keywords}
            is_auto = re.fullmatch(r"(\w+\.)*(Auto\w+|auto\w*)\.from_(pretrained|config)", called)
            loads = is_auto or (re.fullmatch(r"(transformers\.)?pipeline", called) and "task" in told)
            if told.get("trust_remote_code", "False") != "False" or (loads and "trust_remote_code" not in told):
                faulty.append(f"{path.relative_to(ROOT)}, line {node.lineno}: {called}")
    assert faulty == [], "give trust_remote_code=False"
