"""Public names load when they are used: modules are counted in fresh processes, and no time is measured."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = sorted(
    ".".join(path.parent.relative_to(SOURCE).parts) for path in (SOURCE / "contextual_bert").rglob("__init__.pyi")
)
# Importing any of these takes a good part of a second, or several.
HEAVY = (
    "torch",
    "transformers",
    "scipy",
    "sklearn",
    "sympy",
    "matplotlib",
    "peft",
    "accelerate",
    "datasets",
    "pyarrow",
)


def run_python(program: str, *arguments: str) -> str:
    paths = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def loaded(statement: str, names: tuple[str, ...] = HEAVY) -> list[str]:
    program = f"import sys\n{statement}\nprint(*[each for each in {names!r} if each in sys.modules])"
    return run_python(program).splitlines()[-1].split()


def test_there_are_packages_to_check() -> None:
    assert "contextual_bert" in PACKAGES and "contextual_bert.inference.texts" in PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_the_stub_is_what_is_exported(package: str) -> None:
    module = importlib.import_module(package)
    stub = Path(module.__file__ or "").with_suffix(".pyi").read_text("utf-8")
    exported = set(module.__all__)
    assert exported <= set(dir(module))
    assert [name for name in exported if f'"{name}"' not in stub] == [], "add it to __all__ of the stub"


def test_packages_import_nothing_heavy() -> None:
    assert loaded(f"import importlib\nfor each in {PACKAGES!r}: importlib.import_module(each)") == []


def test_an_export_is_completed_and_served_without_torch() -> None:
    imports = (
        "import contextual_bert.inference.exported.onnx_pipeline, contextual_bert.server.app\n"
        "from contextual_bert import OnnxCompletionPipeline\nfrom contextual_bert.server import create_app, serve"
    )
    heavy = ("torch", "transformers", "tokenizers", "accelerate", "datasets", "sklearn", "matplotlib", "pyarrow")
    assert loaded(imports, heavy) == ["pyarrow"]


def test_a_heavy_module_is_seen() -> None:
    assert loaded("from contextual_bert.conditioning import ConditioningMethod", ("torch", "transformers")) == ["torch"]


@pytest.mark.slow
def test_an_evaluation_that_writes_no_pictures_loads_nothing_that_draws() -> None:
    imports = "import contextual_bert_cli.evaluate, contextual_bert.runs.evaluation"
    assert loaded(imports, ("torch", "matplotlib")) == ["torch"]


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    module = importlib.import_module("contextual_bert")
    with pytest.raises(AttributeError, match="ContextualBart"):
        _ = module.ContextualBart
    with pytest.raises(ImportError, match="ContextualBart"):
        exec("from contextual_bert import ContextualBart")


SAVE = """
import sys
from transformers import AutoModel
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM, ContextualBertProcessor
sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=8)
ContextualBertForMaskedLM(ContextualBertConfig(conditioning="none", **sizes)).save_pretrained(sys.argv[1])
ContextualBertProcessor.from_items(["hat", "coat"]).save_pretrained(sys.argv[1])
print(type(AutoModel.from_config(ContextualBertConfig(**sizes))).__name__)
"""


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    assert run_python(SAVE, str(folder)).split() == ["ContextualBertModel"]
    return folder


AUTO = {
    "AutoConfig": "ContextualBertConfig",
    "AutoModelForMaskedLM": "ContextualBertForMaskedLM",
    "AutoModel": "ContextualBertModel",
    "AutoProcessor": "ContextualBertProcessor",
    "AutoFeatureExtractor": "ContextFeatureExtractor",
}


# One process an Auto class and order would be cleaner, and takes minutes: each is tried first in one of them.
@pytest.mark.parametrize(
    ("imports", "names"),
    [
        ("import contextual_bert\nfrom transformers import *", ["AutoProcessor", "AutoModelForMaskedLM", "AutoConfig"]),
        pytest.param(
            "from transformers import AutoModel\nimport contextual_bert",
            ["AutoModel", "AutoFeatureExtractor"],
            marks=pytest.mark.slow,
        ),
        # BertConfig imports AutoModel while it is being imported itself.
        pytest.param(
            "import contextual_bert\nfrom transformers import BertConfig",
            ["AutoFeatureExtractor", "AutoModel"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["before", "after", "amid"],
)
def test_auto_classes_know_the_model_in_any_order(imports: str, names: list[str], saved_model: Path) -> None:
    imports = imports.replace("*", ", ".join(names))
    program = f"import sys\n{imports}\nimport transformers\n" + "\n".join(
        f"print(type(transformers.{name}.from_pretrained(sys.argv[1])).__name__)" for name in names
    )
    assert run_python(program, str(saved_model)).splitlines() == [AUTO[name] for name in names]


# Each list of commands is run in one process: what one of them imports is seen at the end.
WRONG_PATHS = [
    "evaluate no-such-run",
    "importance no-such-run",
    "explain no-such-run --set a --context {} --item b",
    "similar no-such-run --item a",
    "vectors no-such-run --output vectors.parquet",
    "export no-such-run",
    "complete no-such-run --set a --context {}",
    "complete no-such-run --set a --input b",
    "serve no-such-run",
    "predict no-such-run --text a",
    "sample no-such-run",
    "split no-such.csv --by who",
    "train no-such.csv --items items --output run",
]
WRONG_OPTIONS = [
    "train no-such.csv --items items --output run",
    "train no-such.csv --items items --epochs 3 --learning-rate 0.01 --output run",
    "train days.csv --items items --epochs 0 --output run",
    "train days.csv --items items --text text --output run",
    "train days.csv --items items --decimal x --output run",
    "train days.csv --text text --label items --checkpoint bert --epochs 0 --output run",
    "compare no-such.csv --items items --output study",
]
READING = [
    "inspect days.csv --items items --customer who --output schema.json",
    "inspect days.csv --text items --label season --customer who --output texts.json",
    "inspect days.csv --text items --question season --answer word --output answers.json",
    "inspect days.csv --text items --output words.json",
    "split days.csv --by who --items items --output split.json",
]
SLOW = ("torch", "transformers", "matplotlib", "scipy.special", "scipy.sparse", "pandas", "datasets")
RUN = """
import shlex, sys
from contextual_bert_cli.main import app
slow, commands = sys.argv[1].split(","), sys.argv[2:]
for command in commands:
    try:
        app(shlex.split(command), standalone_mode=False)
    except SystemExit as end:
        code = end.code
    else:
        code = 0
    found = [each for each in slow if each in sys.modules]
    print("code", code, command, *found, file=sys.stderr)
    assert not found, (command, found)
"""


@pytest.mark.parametrize(
    ("commands", "modules", "code"),
    [
        (["--help"], (*SLOW, "numpy", "pyarrow", "pydantic", "importlib.metadata"), "0"),
        # numpy, pyarrow and pydantic's models take longer than all that such a command does.
        (WRONG_PATHS, (*SLOW, "numpy", "pyarrow"), "2"),
        (WRONG_OPTIONS, (*SLOW, "numpy", "pyarrow"), "2"),
        (READING, SLOW, "0"),
    ],
    ids=["help", "wrong path", "wrong option", "reading"],
)
def test_commands_import_no_more_than_they_need(
    commands: list[str], modules: tuple[str, ...], code: str, tmp_path: Path
) -> None:
    rows = [
        f'{day % 12},"{"coat,hat,bag" if day % 2 else "coat,shoe"}",{"warm" if day % 3 else "cold"},coat\n'
        for day in range(60)
    ]
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}', "utf-8")
    (tmp_path / "days.csv").write_text("who,items,season,word\n" + "".join(rows), "utf-8")
    paths = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", RUN, ",".join(modules), *commands],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    codes = [line.split()[1] for line in result.stderr.splitlines() if line.startswith("code ")]
    assert codes == [code] * len(commands), result.stderr
