"""What a package exports is sorted, complete and documented in the order that the house rules fix."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import contextual_bert

SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = sorted(
    ".".join(path.parent.relative_to(SOURCE).parts)
    for path in SOURCE.rglob("__init__.py")
    if path.parent.relative_to(SOURCE).parts[0] == "contextual_bert" and path.read_text("utf-8").strip()
)
SECTIONS = ["Shapes", "Args", "Relation", "Reference", "Example"]


def public_names(module: ModuleType) -> set[str]:
    names = [name for name in dir(module) if not name.startswith("_")]
    return {name for name in names if not isinstance(getattr(module, name), ModuleType)}


def exported(kind: type | None = None) -> list[str]:
    names = [name for name in contextual_bert.__all__ if not name.startswith("__")]
    return [name for name in names if kind is None or isinstance(getattr(contextual_bert, name), kind)]


def own_docstring(thing: object) -> str:
    text = (
        inspect.cleandoc(vars(thing).get("__doc__") or "") if isinstance(thing, type) else inspect.getdoc(thing) or ""
    )
    generated = f"{getattr(thing, '__name__', '')}("  # what @dataclass writes for a class that says nothing
    return "" if text.startswith(generated) else text


def section_order(docstring: str) -> list[str]:
    headings = re.findall(rf"^({'|'.join(SECTIONS)})\b[^:\n]*:", docstring, flags=re.MULTILINE)
    return list(dict.fromkeys(headings))


def test_all_equals_the_public_names() -> None:
    assert set(exported()) == public_names(contextual_bert)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_importable(package: str) -> None:
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_public_classes_and_functions_have_docstrings() -> None:
    things = {name: getattr(contextual_bert, name) for name in exported()}
    described = {name: thing for name, thing in things.items() if isinstance(thing, type) or inspect.isroutine(thing)}
    assert described, "contextual_bert exports no class and no function"
    assert [name for name, thing in described.items() if not own_docstring(thing)] == []


def test_public_classes_have_an_example_that_runs() -> None:
    classes = [getattr(contextual_bert, name) for name in exported(type)]
    documented = [thing for thing in classes if not issubclass(thing, Exception)]
    assert [thing.__name__ for thing in documented if ">>> " not in own_docstring(thing)] == []


def test_sections_of_class_docstrings_stand_in_the_fixed_order() -> None:
    found = {name: section_order(own_docstring(getattr(contextual_bert, name))) for name in exported(type)}
    assert {name: order for name, order in found.items() if order != sorted(order, key=SECTIONS.index)} == {}


def test_section_headings_are_found() -> None:
    assert section_order("One.\n\nArgs:\n    a: b\nReference: x\n\nExample:\n    >>> 1") == [
        "Args",
        "Reference",
        "Example",
    ]
