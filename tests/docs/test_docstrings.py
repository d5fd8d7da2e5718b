"""The examples in docstrings run and print what they say."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Modules are found as files, so that one that cannot be imported fails its own test only.
MODULES = sorted(module_name(path) for path in SOURCE.rglob("*.py") if path.stem != "__main__")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0, f"{results.failed} of {results.attempted} examples fail: see the output above"


QUESTION = re.compile(r"(what|whether|where|how|who)\b", re.IGNORECASE)
MOST_QUESTIONS = 0.02


def docstrings() -> list[tuple[str, str]]:
    """The docstrings of all modules, classes and functions, with their places."""
    found: list[tuple[str, str]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    line = getattr(node, "lineno", 1)
                    found.append((f"{path.relative_to(SOURCE)}:{line}", text))
    return found


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    every = docstrings()
    assert len(every) > 1000
    questions = [f"{place}: {text.splitlines()[0]}" for place, text in every if QUESTION.match(text)]
    assert len(questions) <= MOST_QUESTIONS * len(every), questions


def test_no_docstring_cites_what_is_not_in_the_repository() -> None:
    assert [place for place, text in docstrings() if re.search(r"\bPROTOCOL\b|\bPAPER\.md|\bHF\.md", text)] == []
