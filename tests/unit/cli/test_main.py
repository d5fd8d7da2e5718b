"""The command's surface: quick help, documented options, and one way to fail."""

import errno
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from contextual_bert.baselines.names import BASELINES
from contextual_bert.errors import ConfigurationError
from contextual_bert_cli.failures import INTERRUPTED, LEFT_OUT, MISTAKE, Interrupted, InWords, advice_for
from contextual_bert_cli.main import app

COMMANDS = (
    "inspect",
    "split",
    "train",
    "evaluate",
    "calibrate",
    "importance",
    "complete",
    "similar",
    "explain",
    "vectors",
    "export",
    "compare",
    "tune",
    "predict",
    "embed",
    "sample",
    "generate",
    "inspect-model",
    "parameters",
    "index",
    "publish",
    "forget",
)
GROUPS = {"world": ("generate", "oracle"), "catalogue": ("add", "update", "remove")}
ALL = [
    *((name,) for name in COMMANDS),
    *((name,) for name in GROUPS),
    *((name, inner) for name, commands in GROUPS.items() for inner in commands),
]


@pytest.mark.parametrize("words", [(), *ALL], ids=" ".join)
def test_help_has_a_sentence_and_an_example(words: tuple[str, ...]) -> None:
    result = CliRunner(env={"COLUMNS": "120"}).invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert "\b" not in result.output
    if words not in [(name,) for name in GROUPS]:
        assert "Example:" in result.output
        assert f"contextual-bert {' '.join(words)}".strip() in result.output


def test_every_option_is_described() -> None:
    group = typer.main.get_command(app)
    commands = [group.commands[name] for name in COMMANDS]  # pyright: ignore[reportAttributeAccessIssue]
    commands += [each for name in GROUPS for each in group.commands[name].commands.values()]  # pyright: ignore[reportAttributeAccessIssue]
    assert [
        f"{command.name} {option.name}" for command in commands for option in command.params if not option.help
    ] == []


@pytest.mark.parametrize(
    ("name", "headings"),
    [
        ("complete", ["Arguments", "Options", "Reading the file"]),
        ("serve", ["Arguments", "Options", "Reading the file"]),
        ("evaluate", ["Arguments", "Options", "Reading the file"]),
        ("split", ["Arguments", "Most needed", "Parts of the table", "Context", "Sets of items", "Texts",
                   "Reading the file", "Options"]),
    ],
)  # fmt: skip
def test_help_begins_with_the_options_that_most_people_need(name: str, headings: list[str]) -> None:
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(app, [name, "--help"]).output.splitlines()
    assert [line.removesuffix(":") for line in shown if line.endswith(":") and line[0].isupper()] == headings


@pytest.mark.parametrize("words", [("train", "--help"), ("--version",)], ids=" ".join)
def test_what_needs_no_library_imports_none(words: tuple[str, ...]) -> None:
    program = (
        "import sys; from contextual_bert_cli.main import app\n"
        f"try: app({list(words)})\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'numpy', 'pyarrow'} & set(sys.modules)\n"
        "import resource; used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(sorted(heavy), used.ru_utime + used.ru_stime < 2)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.stdout.splitlines()[-1] == "[] True", result.stdout + result.stderr


def test_the_version_is_the_librarys() -> None:
    from contextual_bert import __version__

    assert CliRunner().invoke(app, ["--version"]).stdout == f"contextual-bert {__version__}\n"


@pytest.mark.parametrize(("word", "expected"), [("trian", "train"), ("evalute", "evaluate")])
def test_a_misspelt_command_gets_a_suggestion(word: str, expected: str) -> None:
    result = CliRunner().invoke(app, [word])
    assert result.exit_code == MISTAKE
    assert f"Did you mean '{expected}'" in result.stderr


class SafetensorError(Exception):
    """Named as that of safetensors."""


def outcome(error: BaseException) -> tuple[int, str, BaseException | None]:
    failing = typer.Typer(cls=InWords, pretty_exceptions_enable=False)

    @failing.callback()
    def nothing() -> None: ...

    @failing.command()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(failing, ["fail"])
    return result.exit_code, result.output, result.exception


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "run/x.json"),
            MISTAKE,
            "No space is left on the disk (run/x",
        ),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), MISTAKE, "Free some space"),
        (RuntimeError("[enforce fail] PytorchStreamWriter failed writing file data/0"), MISTAKE, "No space is left"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), MISTAKE, "Free some space"),
        (RuntimeError("[enforce fail] . unexpected pos 64 vs 0"), MISTAKE, "No space is left on the disk"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried"),
            MISTAKE,
            "Not enough memory: can't allocate memory: you tried. Give a smaller --batch-size.",
        ),
        (SafetensorError("header too large"), MISTAKE, "weights is damaged"),
        (PermissionError(errno.EACCES, "Permission denied", "/etc/x"), MISTAKE, "/etc/x: Permission denied. Check"),
        (MemoryError(), MISTAKE, "Not enough memory: the machine has no more. Give a smaller --batch-size."),
        (KeyboardInterrupt(), INTERRUPTED, "Interrupted."),
        (Interrupted("Interrupted. Half way."), INTERRUPTED, "Half way."),
        (BrokenPipeError(), 0, ""),
    ],
    ids=repr,
)
def test_failures_are_said_in_words(error: BaseException, code: int, expected: str) -> None:
    found, output, _ = outcome(error)
    assert found == code
    assert expected in output
    assert "Traceback" not in output


def test_a_reader_that_stops_early_is_no_error() -> None:
    program = (
        "import typer; from contextual_bert_cli.failures import InWords\n"
        "app = typer.Typer(cls=InWords, pretty_exceptions_enable=False)\n"
        "app.callback()(lambda: None)\n"
        "app.command('talk')(lambda: print('line\\n' * 100_000))\n"
        "app(['talk'])"
    )
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} | head -n 1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "line\n", "")


def test_a_file_without_its_end_is_a_sentence() -> None:
    """Click takes an EOFError that nobody catches for the end of the input, and says only that it was aborted."""
    assert outcome(EOFError("Ran out of input"))[0] == 2
    assert "it is damaged" in str(advice_for(EOFError()))


def test_a_bug_keeps_its_traceback() -> None:
    assert advice_for(ZeroDivisionError("division by zero")) is None
    code, _, exception = outcome(ZeroDivisionError("division by zero"))
    assert code == 1
    assert isinstance(exception, ZeroDivisionError)


def test_a_mistake_is_said_once_and_what_happens_to_a_machine_by_each(monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ.get("RANK") is None
    monkeypatch.setenv("RANK", "1")
    assert outcome(ConfigurationError("no"))[:2] == (MISTAKE, "")
    code, output, _ = outcome(OSError("no"))
    assert (code, output.startswith("contextual-bert, process 1: no. Check")) == (MISTAKE, True)


def test_what_shares_no_work_is_not_started_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = CliRunner().invoke(app, ["predict", "runs/none", "--text", "word"])
    assert (result.exit_code, "Under torchrun each process would do all of predict" in result.output) == (MISTAKE, True)
    assert "Under torchrun" not in CliRunner().invoke(app, ["train", "none.csv"]).output


def test_what_an_installation_for_exports_lacks_is_a_sentence() -> None:
    root = Path(__file__).parents[3]
    content = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (root / "requirements-export.txt").read_text("utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("#")]
    extras = content["optional-dependencies"]
    assert [line for line in kept if line not in content["dependencies"]] == sorted(
        extras["serve"] + extras["onnxruntime"]
    )
    absent = [line.partition(">")[0].replace("-", "_") for line in content["dependencies"] if line not in kept]
    assert sorted(absent) == list(LEFT_OUT)
    sentence = advice_for(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"))
    assert sentence == "This needs torch, which is not installed here. Run: pip install contextual-bert."
    assert (
        advice_for(ModuleNotFoundError("No module named 'contextual_bert.nothing'", name="contextual_bert.nothing"))
        is None
    )


def test_the_help_of_compare_lists_every_baseline() -> None:
    group = typer.main.get_command(app)
    compare = group.commands["compare"]  # pyright: ignore[reportAttributeAccessIssue]
    (text,) = [option.help for option in compare.params if option.name == "baselines"]
    assert {*re.findall(r"\w+", text)} >= {*BASELINES}
