"""Names in the documentation are names in the code, and each decision says where it stands."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = {path.name for path in (SOURCE / "contextual_bert").iterdir() if path.is_dir() or path.suffix == ".py"}
CODE = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"contextual_bert(?:_cli)?(?:\.[A-Za-z_]\w*)+")
SHORT = re.compile(r"([a-z]+)(?:\.[a-z_]\w*)*\.[A-Za-z_]\w*")  # runs.tasks.TASKS
FILE = re.compile(r"(?:[\w.]+/)+\w+\.py")
CLASS = re.compile(r"[A-Z][a-z]+[a-z0-9]*(?:[A-Z][A-Za-z0-9]+)+")

# Names of other libraries, which this repository does not import.
FOREIGN = {"TrainingArguments", "TypeAdapter"}
WEIGHTS = {"contextual_bert.conditioning.normalisation"}  # in a model, not in a module


def marked(page: Path) -> list[str]:
    """The pieces of code in the sentences of a page; decisions and the log may name what went, in their tables."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    return CODE.findall(text)


def exists(name: str) -> bool:
    parts = name.split(".")
    for number in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:number]))
        except ModuleNotFoundError:
            continue
        for part in parts[number:]:
            fields = getattr(found, "__dataclass_fields__", None) or getattr(found, "model_fields", None) or {}
            if part in fields:
                return True
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def full_name(piece: str) -> str | None:
    """The dotted name that a piece of code is, from the package on."""
    if DOTTED.fullmatch(piece):
        return piece
    short = SHORT.fullmatch(piece)
    is_ours = short is not None and short[1] in PACKAGES and not piece.endswith((".py", ".md", ".json", ".js", ".onnx"))
    return f"contextual_bert.{piece}" if is_ours else None


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if not page.stem.startswith("043")],  # old names beside the new ones of test_renamed.py
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_dotted_names_exist(page: Path) -> None:
    dotted = {
        *DOTTED.findall(re.sub(r"\S*/\S*", "", page.read_text("utf-8"))),
        *filter(None, map(full_name, marked(page))),
    }
    assert sorted(name for name in dotted - WEIGHTS if not exists(name)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_exist(page: Path) -> None:
    places = (ROOT, SOURCE, SOURCE / "contextual_bert")
    named = {piece for piece in marked(page) if FILE.fullmatch(piece)}
    assert sorted(name for name in named if not any((place / name).is_file() for place in places)) == []


@pytest.fixture(scope="module")
def words() -> set[str]:
    folders = (SOURCE, ROOT / "studies", ROOT / "benchmarks")
    files = (path for folder in folders for path in folder.rglob("*.py"))
    return {word for path in files for word in re.findall(r"\w+", path.read_text("utf-8"))}


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in DECISIONS and page.name != "log.md"],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_classes_exist(page: Path, words: set[str]) -> None:
    named = {name for piece in marked(page) for name in CLASS.findall(piece)}
    assert sorted(named - words - FOREIGN) == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_where_it_stands(page: Path) -> None:
    assert re.search(r"^Status: (accepted|superseded by record \d{3})\.", page.read_text("utf-8"), flags=re.M)
