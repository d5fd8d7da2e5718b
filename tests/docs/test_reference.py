"""The reference pages hold the public names, and no other: what the package exports, and what README and guides use."""

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import contextual_bert

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
SHOWN = [path for page in sorted(REFERENCE.glob("*.md")) for path in ENTRY.findall(page.read_text("utf-8"))]
PYTHON = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Steps of a study, which a guide shows and nobody is promised.
NOT_PROMISED = {
    "ConstraintInput",
    "HistorySettings",
    "NgramBag",
    "evaluate_scores",
    "explain_text",
    "prepare_study",
    "run_study",
    "score_answers",
    "write_study",
}


def imported_names(markdown: str) -> set[str]:
    """Names that the Python blocks of a page import from the package."""
    found: set[str] = set()
    for block in PYTHON.findall(markdown):
        if ">>> " in block:
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "contextual_bert":
                found |= {alias.name for alias in node.names}
    return found


def test_every_exported_name_is_shown() -> None:
    shown = {path.rpartition(".")[2] for path in SHOWN}
    assert sorted({name for name in contextual_bert.__all__ if not name.startswith("__")} - shown) == []


def test_every_name_that_readme_and_guides_use_is_shown() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
    used = {name for page in pages for name in imported_names(page.read_text("utf-8"))}
    assert len(used) > 10
    assert sorted(used - {path.rpartition(".")[2] for path in SHOWN} - NOT_PROMISED) == []


def test_pages_import_from_packages_and_from_no_module_inside_them() -> None:
    pages = [
        ROOT / "README.md",
        *(page for folder in ("guides", "concepts") for page in (ROOT / "docs" / folder).glob("*.md")),
    ]
    modules = {
        node.module
        for page in pages
        for block in PYTHON.findall(page.read_text("utf-8"))
        if ">>> " not in block
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "contextual_bert"
    }
    assert len(modules) > 5
    assert sorted(name for name in modules if (name or "").count(".") > 1) == []


def test_the_public_surface_is_small() -> None:
    assert len(SHOWN) == len(set(SHOWN))
    assert len({path.rpartition(".")[2] for path in SHOWN}) <= 100


@pytest.mark.parametrize("path", SHOWN)
def test_a_name_exists_and_is_documented(path: str) -> None:
    thing = pkgutil.resolve_name(path)
    if isinstance(thing, type) or inspect.isroutine(thing):
        text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
        assert text and not text.startswith(f"{thing.__name__}("), f"{path} has no docstring"
    else:  # a registry: described where it is defined
        module = importlib.import_module(path.rpartition(".")[0])
        assert hasattr(module, path.rpartition(".")[2])


def test_the_version_stands_in_three_places() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert citation is not None
    assert project == citation[1] == contextual_bert.__version__
    assert f"## {project}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_pages_are_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    written = {page for page in pages if not page.startswith("decisions/") or page.endswith("index.md")}
    assert sorted(page for page in written if page not in nav) == []
