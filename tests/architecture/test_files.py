"""Size and manners of the source files, read from their syntax trees: nothing is imported."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.read_text("utf-8").strip())
LIBRARY = [path for path in FILES if path.relative_to(SOURCE).parts[0] == "contextual_bert"]
IMPORTED_WHEN_USED = {"scipy"}  # a dependency of the package, but not of exported models (requirements-export.txt)
IMPORT_NAMES = {"faiss_cpu": "faiss", "scikit_learn": "sklearn"}  # where they differ from the names of distributions
OWN_PACKAGES = {"contextual_bert", "contextual_bert_cli"}
EXTRA_OF = {"server": "serve"}  # what needs its extra as a whole, and is imported by nobody else but in a function

# Tests of the unit folders that are about a topic, which several modules serve. Others are named after their module.
TOPICS = {
    "cli": {"light_install"},
    "conditioning": {"formulas", "method_settings"},
    "context": {"missing_values", "silenced"},
    "data": {
        *("blanks_in_csv", "damaged_files", "dates_as_written", "exact_numbers", "files_of_spreadsheets"),
        *("foreign_files", "log_sequences", "more_files", "nulls_in_lists", "numbers_as_written", "small_readings"),
    },
    "evaluation": {"label_comparison"},
    "inference": {
        *("candidates_of_pipelines", "context_as_text", "nonfinite", "onnx", "reserved_items", "shared_scoring"),
        *("bulk_order", "spelling"),
    },
    "models": {
        *("feature_names", "initialisation", "item_features", "next_items_of_models", "no_remote_code", "scores"),
        "tokenization",
    },
    "runs": {
        *("causal_runs", "catalogue_runs", "catalogue_texts"),
        *("asked_items", "chain_runs", "codes_as_spelt", "constant_features", "continued_texts", "damaged_runs"),
        *("lora_runs", "memory_runs", "own_task", "question_runs", "rare_values", "read_texts", "splits_by_time"),
        *("text_importance", "text_runs", "training_steps", "history_runs", "whole_set_runs"),
        *("elmo_runs", "preset_runs", "time_gap_runs", "document_runs", "phrase_runs", "sentence_runs"),
    },
    "server": {"large_bodies", "leaving", "page_words", "proxy", "sensitive"},
    "training": {"context_dropout", "grades", "trainer_of_labels"},
}

MAX_LINES = 600  # a longer file is rarely one concept
MAX_PARAMETERS = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


def place(path: Path, node: ast.AST | None = None) -> str:
    name = path.relative_to(ROOT).as_posix()
    return f"{name}:{getattr(node, 'lineno', 1)}" if node is not None else name


def functions(tree: ast.AST, *, in_class: bool = False) -> Iterator[tuple[Function, bool]]:
    """Every function with whether it stands directly in a class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield node, in_class
        yield from functions(node, in_class=isinstance(node, ast.ClassDef))


def num_parameters(function: Function, *, in_class: bool) -> int:
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    is_static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in function.decorator_list)
    return len(named) - (1 if in_class and not is_static and named else 0)


def imported_packages(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").split(".")[0]} if node.level == 0 else {"contextual_bert"}
    return set()


def required_packages(requirements: list[str]) -> set[str]:
    names = [re.split(r"[^\w.-]", requirement)[0].replace("-", "_").lower() for requirement in requirements]
    return {IMPORT_NAMES.get(name, name) for name in names}


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def optional_packages() -> set[str]:
    extras = project()["optional-dependencies"]
    return set().union(*(required_packages(names) for extra, names in extras.items() if extra != "dev"))


def unsafe(node: ast.AST) -> str | None:
    """What is unsafe about this node: it would run code that a file or a string brings along."""
    banned = imported_packages(node) & {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    if banned:
        return f"imports {', '.join(sorted(banned))}"
    if isinstance(node, ast.ImportFrom) and node.module == "torch":
        names = {alias.name for alias in node.names} & {"load", "save"}
        return f"imports torch.{names.pop()}" if names else None
    if not isinstance(node, ast.Call):
        return None
    called = ast.unparse(node.func)
    if called in {"eval", "exec", "torch.load", "torch.save"}:
        return f"calls {called}"
    if any(
        key.arg == "allow_pickle" and not (isinstance(key.value, ast.Constant) and key.value.value is False)
        for key in node.keywords
    ):
        return f"{called} allows pickle"
    return None


def test_the_tests_run_in_an_empty_folder() -> None:
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("path", FILES, ids=place)
def test_length(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", FILES, ids=place)
def test_the_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), f"{place(path)} has no module docstring"


@pytest.mark.parametrize("path", FILES, ids=place)
def test_number_of_parameters(path: Path) -> None:
    # Commands are exempt: typer declares their options as arguments.
    is_command_file = path not in LIBRARY
    too_many = [
        f"{place(path, function)} {function.name}: {count}"
        for function, in_class in functions(ast.parse(path.read_text("utf-8")))
        if (count := num_parameters(function, in_class=in_class)) > MAX_PARAMETERS
        and not (is_command_file and not in_class and not function.name.startswith("_"))
    ]
    assert not too_many


@pytest.mark.parametrize("path", LIBRARY, ids=place)
def test_no_import_inside_a_function_but_of_an_extra(path: Path) -> None:
    allowed = optional_packages() | IMPORTED_WHEN_USED
    found = {
        f"{place(path, node)} {', '.join(sorted(packages))}"
        for function, _ in functions(ast.parse(path.read_text("utf-8")))
        for node in ast.walk(function)
        if (packages := imported_packages(node)) and not packages <= allowed
    }
    assert not found


@pytest.mark.parametrize("path", FILES, ids=place)
def test_imports_at_the_top_are_declared_dependencies(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    inside = {id(node) for function, _ in functions(tree) for node in ast.walk(function)}
    declared = required_packages(project()["dependencies"]) | OWN_PACKAGES | sys.stdlib_module_names
    if (extra := EXTRA_OF.get(path.parent.name)) is not None:
        declared |= required_packages(project()["optional-dependencies"][extra])
    found = {
        f"{place(path, node)} {', '.join(sorted(missing))}"
        for node in ast.walk(tree)
        if id(node) not in inside and (missing := imported_packages(node) - declared)
    }
    assert not found, "declare it in pyproject.toml (and docs/decisions/001), or import it where an extra is used"


@pytest.mark.parametrize("path", FILES, ids=place)
def test_nothing_unsafe(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert not [f"{place(path, node)} {reason}" for node in ast.walk(tree) if (reason := unsafe(node))]


def test_a_file_name_means_one_thing() -> None:
    """Each file has a name of its own, but for the same role in two packages: a command and what it does, say."""
    same_role = {"catalogue", "export", "importance", "options", "question_answering", "registry", "set_completion"}
    same_role |= {"world"}
    names = [path.stem for path in FILES if path.stem != "__init__"]
    assert {name for name in names if names.count(name) > 1} == same_role


def test_tests_are_named_after_modules() -> None:
    unit, library = ROOT / "tests" / "unit", SOURCE / "contextual_bert"
    lost: list[str] = []
    for path in sorted(unit.rglob("test_*.py")):
        package = path.parent.name
        source = {"cli": SOURCE / "contextual_bert_cli", "unit": library}.get(package, library / package)
        found = source.glob("*.*") if package == "unit" else source.rglob("*.*")
        if path.stem.removeprefix("test_") not in {each.stem for each in found} | TOPICS.get(package, set()):
            lost.append(place(path))
    assert lost == []


def test_topics_are_tested() -> None:
    unit = ROOT / "tests" / "unit"
    named = {unit / package / f"test_{topic}.py" for package, topics in TOPICS.items() for topic in topics}
    assert sorted(place(path) for path in named if not path.is_file()) == []


def test_a_name_means_one_thing() -> None:
    """Each public class and function of a module has a name of its own, but for the commands."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [ast.parse(path.read_text("utf-8")).body for path in FILES]
    found = [{node.name for node in body if isinstance(node, kinds)} for body in bodies]
    names = [name for each in found for name in each if not name.startswith("_") and name != "command"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_drawer_for_everything() -> None:
    names = {"utils", "util", "helpers", "misc", "common"}
    assert not [place(path) for path in SOURCE.rglob("*") if path.stem in names]


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import dump",
        "torch.load('a')",
        "from torch import load",
        "eval('1')",
        "numpy.load('a', allow_pickle=True)",
        "numpy.load('a', allow_pickle=flag)",
    ],
)
def test_the_check_for_unsafe_code_sees(source: str) -> None:
    assert any(unsafe(node) for node in ast.walk(ast.parse(source)))


@pytest.mark.parametrize("source", ["model.eval()", "import torch", "numpy.load('a', allow_pickle=False)"])
def test_the_check_for_unsafe_code_lets_pass(source: str) -> None:
    assert not any(unsafe(node) for node in ast.walk(ast.parse(source)))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a, /, b, *, c): ...", 3),
        ("class A:\n    def f(self, a, *args, b, **kwargs): ...", 2),
        ("class A:\n    @staticmethod\n    def f(a, b): ...", 2),
        ("class A:\n    @classmethod\n    def f(cls, a): ...", 1),
    ],
)
def test_parameters_are_counted_without_self(source: str, expected: int) -> None:
    found = list(functions(ast.parse(source)))
    assert [num_parameters(function, in_class=in_class) for function, in_class in found] == [expected]
